package tool

import "strings"

// Stable returns the text of a result without what differs from one run of
// the same command to the next: durations, times of day, ids of processes and
// handles of outputs. Two calls that came to the same have the same stable
// text, although one took longer. It is for comparing, not for reading.
//
// All results of a job go through it when the job is taken over, so it is
// written by hand: it takes about 4 ms a megabyte.
func Stable(text string) string {
	var b strings.Builder
	from := 0 // of what is not in b yet
	for i := 0; i < len(text); {
		if !isWord(text[i]) {
			i++
			continue
		}
		// At the beginning of a word.
		if n := passing(text[i:]); n > 0 {
			b.WriteString(text[from:i])
			b.WriteByte('~')
			i += n
			from = i
			if !isWord(text[i-1]) || i == len(text) || !isWord(text[i]) {
				continue
			}
		}
		for i < len(text) && isWord(text[i]) {
			i++
		}
	}
	if from == 0 {
		return text
	}
	b.WriteString(text[from:])
	return b.String()
}

// passing returns how long what passes is with which s begins, 0 if nothing
// is. Before s no word goes on.
func passing(s string) int {
	switch c := s[0]; {
	case isDigit(c):
		if n := duration(s); n > 0 {
			return n
		}
		if n := date(s); n > 0 {
			return n
		}
		return clock(s)
	case c == 's' || c == 't' || c == 'i':
		return process(s)
	case c == 'h':
		return handle(s)
	}
	return 0
}

// duration measures "12ms", "1.5 seconds", "2m3.5s".
func duration(s string) int {
	n := digits(s)
	n += fraction(s[n:], ".")
	if n == len(s) {
		return 0
	}
	if c := s[n]; c == ' ' || c >= '\t' && c <= '\r' && c != '\v' {
		n++
	}
	for _, unit := range [...]string{"ns", "µs", "us", "ms", "s", "sec", "seconds"} {
		if k := n + len(unit); strings.HasPrefix(s[n:], unit) && atEnd(s, k) {
			return k
		}
	}
	if n < len(s) && s[n] == 'm' {
		k := n + 1
		d := digits(s[k:])
		k += d
		k += fraction(s[k:], ".")
		if d > 0 && k < len(s) && s[k] == 's' && atEnd(s, k+1) {
			return k + 1
		}
	}
	return 0
}

// date measures "2026-01-31" and what follows of a time.
func date(s string) int {
	if !shaped(s, "0000-00-00") {
		return 0
	}
	n := len("0000-00-00")
	if n < len(s) && (s[n] == 'T' || s[n] == ' ') {
		n++
	}
	if !shaped(s[n:], "00:00:00") {
		return n
	}
	n += len("00:00:00")
	n += fraction(s[n:], ".,")
	if n < len(s) && s[n] == 'Z' {
		n++
	}
	return n
}

// clock measures "9:05:59" and "09:05:59,123".
func clock(s string) int {
	n := len("0:00:00")
	if !shaped(s, "0:00:00") {
		if n++; !shaped(s, "00:00:00") {
			return 0
		}
	}
	if k := n + fraction(s[n:], ".,"); atEnd(s, k) {
		return k
	}
	if atEnd(s, n) {
		return n
	}
	return 0
}

// process measures ids of what tools started: "sh-1a2b3".
func process(s string) int {
	for _, kind := range [...]string{"sh-", "tty-", "install-", "tests-"} {
		if !strings.HasPrefix(s, kind) {
			continue
		}
		n := len(kind) + 5
		if len(s) < n || !atEnd(s, n) {
			return 0
		}
		for _, c := range []byte(s[len(kind):n]) {
			if !isDigit(c) && (c < 'a' || c > 'z') {
				return 0
			}
		}
		return n
	}
	return 0
}

// handle measures the handle of an output, with the word before it.
func handle(s string) int {
	const mark = `handle "`
	if !strings.HasPrefix(s, mark) {
		return 0
	}
	k := strings.IndexByte(s[len(mark):], '"')
	if k < 0 {
		return 0
	}
	return len(mark) + k + 1
}

// digits returns with how many digits s begins.
func digits(s string) int {
	n := 0
	for n < len(s) && isDigit(s[n]) {
		n++
	}
	return n
}

// fraction measures one of the given points with digits behind it, 0 if there is none.
func fraction(s, points string) int {
	if s == "" || strings.IndexByte(points, s[0]) < 0 {
		return 0
	}
	if d := digits(s[1:]); d > 0 {
		return 1 + d
	}
	return 0
}

// shaped reports whether s begins as shape does, in which 0 is any digit.
func shaped(s, shape string) bool {
	if len(s) < len(shape) {
		return false
	}
	for i := range len(shape) {
		if c := shape[i]; c == '0' && !isDigit(s[i]) || c != '0' && s[i] != c {
			return false
		}
	}
	return true
}

// atEnd reports whether a word ends before s[n].
func atEnd(s string, n int) bool { return n == len(s) || !isWord(s[n]) }

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isWord(c byte) bool { return wordBytes[c] }

// wordBytes are the bytes of words: letters, digits and the underscore.
var wordBytes = func() (t [256]bool) {
	for c := range t {
		t[c] = c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
	}
	return t
}()
