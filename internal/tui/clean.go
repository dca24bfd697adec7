package tui

import (
	"regexp"
	"strings"
	"unicode"

	"github.com/charmbracelet/x/ansi"
)

// clean makes foreign text safe for a terminal: escape sequences, control
// characters and the characters that reorder text are left out; tabs become
// four spaces. Newlines stay.
func clean(s string) string {
	s = strings.ReplaceAll(ansi.Strip(s), "\t", "    ")
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n':
			return r
		case unicode.IsControl(r),
			r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069, r == 0x200e, r == 0x200f, r == 0x61c,
			r == 0x2028, r == 0x2029, r == 0xfeff:
			return -1
		}
		return r
	}, s)
}

// oneLine cleans s and makes it a single line.
func oneLine(s string) string {
	return strings.Join(strings.Fields(clean(s)), " ")
}

// lastLines returns the last n lines of s that are not blank, and how many
// lines there are before them.
func lastLines(s string, n int) (last []string, before int) {
	lines := strings.Split(strings.TrimRight(s, "\n "), "\n")
	for i := len(lines) - 1; i >= 0 && len(last) < n; i-- {
		if strings.TrimSpace(lines[i]) != "" {
			last = append([]string{lines[i]}, last...)
		}
		before = i
	}
	return last, before
}

// lineCount returns how many lines s has; the last one may lack its end.
func lineCount(s string) int {
	n := strings.Count(s, "\n")
	if s != "" && !strings.HasSuffix(s, "\n") {
		n++
	}
	return n
}

// What a tool says to the model about its whole output: people can't call
// read_output.
var (
	wholeNote = regexp.MustCompile(`(?m)^\[whole output: read_output with handle ".*"\]\n?`)
	cutNote   = regexp.MustCompile(`(?m)^(\[\.\.\. .*), from line \d+ on; read_output with handle ".*" has the whole( \.\.\.\])$`)
)

// withoutHandles returns the text of a tool without what is for the model
// alone, and whether there was a note that the whole is kept.
func withoutHandles(s string) (text string, kept bool) {
	kept = wholeNote.MatchString(s) || cutNote.MatchString(s)
	return cutNote.ReplaceAllString(wholeNote.ReplaceAllString(s, ""), "$1$2"), kept
}

// Clean makes foreign text safe for a terminal, keeping its lines.
func Clean(s string) string { return clean(s) }

// Line makes foreign text one line that is safe for a terminal.
func Line(s string) string { return oneLine(s) }
