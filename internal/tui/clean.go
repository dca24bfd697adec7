package tui

import (
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

// Clean makes foreign text safe for a terminal, keeping its lines.
func Clean(s string) string { return clean(s) }

// Line makes foreign text one line that is safe for a terminal.
func Line(s string) string { return oneLine(s) }
