// Package logtext writes events of a job's log as text that people, grep and
// models can read. The same event gives the same text.
//
//	=== event 12 · step 3 · 2026-11-20T19:02:19.123Z · tool.finished · shell
//	12: error
//	12| make: *** [all] Error 2
//	12| make: leaving directory
//
// One header line an event, at the beginning of a line. Every other line
// begins with the event's number: "12: " is Glovebox's own word, "12| " is
// data, word for word, and "12+ " goes on with a line of data that was too
// long. So a line that grep finds names its event, and no data can look like
// a header or like a word of Glovebox. Characters that would move a cursor or
// turn text around are shown as '?'.
package logtext

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox"
)

// MaxLine is how many bytes of data are in one line.
const MaxLine = 4000

// HeaderMark begins every header line, and no other.
const HeaderMark = "=== event "

// timeFormat is RFC 3339 with milliseconds, in UTC.
const timeFormat = "2006-01-02T15:04:05.000Z"

// Step returns the step that an event belongs to, given that of the event
// before it (0 before the first): the number of answers of the model up to it.
func Step(before int64, e glovebox.Event) int64 {
	if e.Type == glovebox.EventModelAnswered {
		return before + 1
	}
	return before
}

// Options changes what Append writes. The zero value bounds nothing.
type Options struct {
	// MaxText is how many bytes of data an event may have; of more, the
	// beginning and the end are written, and a line that says how much is left
	// out. 0: all of it.
	MaxText int
}

// Append appends an event as text, with a newline at its end. An event whose
// data can't be decoded is written as it is.
func Append(dst []byte, e glovebox.Event, step int64, o Options) []byte {
	w := newWriter(dst, e, step)
	w.left, w.bounded = o.MaxText, o.MaxText > 0
	body := bodies[e.Type]
	if body == nil || body(w, e) != nil {
		w.data(string(e.Data))
	}
	return w.dst
}

// AppendHeader appends the header of an event alone, and a remark of one line
// about it.
func AppendHeader(dst []byte, e glovebox.Event, step int64, remark string) []byte {
	w := newWriter(dst, e, step)
	w.say("%s", remark)
	return w.dst
}

func newWriter(dst []byte, e glovebox.Event, step int64) *writer {
	w := &writer{prefix: strconv.FormatInt(e.Seq, 10)}
	w.dst = fmt.Appendf(dst, "%s%d · step %d · %s · %s", HeaderMark, e.Seq, step, e.Time.UTC().Format(timeFormat), oneWord(string(e.Type)))
	if name := toolOf(e); name != "" {
		w.dst = append(append(w.dst, " · "...), oneWord(name)...)
	}
	w.dst = append(w.dst, '\n')
	return w
}

// Text returns an event as text, whole.
func Text(e glovebox.Event, step int64) string { return string(Append(nil, e, step, Options{})) }

// oneWord makes a name harmless in a header: it may come from a model.
func oneWord(s string) string {
	if s == "" {
		return "?"
	}
	if len(s) > 80 {
		s = s[:80]
	}
	return strings.Map(func(r rune) rune {
		if r <= ' ' || r == '·' || !unicode.IsGraphic(r) || unicode.IsSpace(r) {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
}

// writer writes the lines of one event.
type writer struct {
	dst     []byte
	prefix  string
	left    int // bytes of data that may still be written, if bounded
	bounded bool
}

// say writes a line of our own.
func (w *writer) say(format string, args ...any) {
	w.line(": ", clean(strings.Map(noBreaks, fmt.Sprintf(format, args...))))
}

func noBreaks(r rune) rune {
	if r == '\n' || r == '\r' {
		return ' '
	}
	return r
}

// data writes text word for word.
func (w *writer) data(text string) {
	if text == "" {
		return
	}
	if !w.bounded || len(text) <= w.left {
		w.left -= len(text)
		w.lines(text)
		return
	}
	head := cutBefore(text, w.left*3/4)
	tail := cutAfter(text, w.left/4)
	w.left = 0
	w.lines(head)
	w.say("[%d of %d bytes are left out here; open_event %s shows them]", len(text)-len(head)-len(tail), len(text), w.prefix)
	w.lines(tail)
}

func (w *writer) lines(text string) {
	if text == "" {
		return
	}
	for l := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		mark := "| "
		for len(l) > MaxLine {
			piece := cutBefore(l, MaxLine)
			w.line(mark, clean(piece))
			l, mark = l[len(piece):], "+ "
		}
		w.line(mark, clean(l))
	}
}

func (w *writer) line(mark, text string) {
	w.dst = append(append(append(append(w.dst, w.prefix...), mark...), text...), '\n')
}

// clean returns s as valid UTF-8 without control characters but the tab.
func clean(s string) string {
	if isPlain(s) {
		return s
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return r
		case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r), r == 0x2028, r == 0x2029:
			return '?'
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

// isPlain reports whether s is ASCII that can be shown, as most lines are.
func isPlain(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < ' ' && c != '\t') || c >= 0x7f {
			return false
		}
	}
	return true
}

// cutBefore returns at most n bytes of the beginning of s, and at least one
// character, cut between characters.
func cutBefore(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for i := n; i > max(0, n-utf8.UTFMax); i-- {
		if utf8.RuneStart(s[i]) {
			return s[:i]
		}
	}
	return s[:max(0, n)] // not UTF-8
}

// cutAfter returns at most n bytes of the end of s, cut between characters.
func cutAfter(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for i := len(s) - n; i < min(len(s), len(s)-n+utf8.UTFMax); i++ {
		if utf8.RuneStart(s[i]) {
			return s[i:]
		}
	}
	return s[len(s)-n:]
}
