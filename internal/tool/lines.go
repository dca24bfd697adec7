package tool

import (
	"strings"
	"unicode/utf8"
)

// splitLines returns the lines of s, each with its newline; the last may have
// none. The empty string has no lines.
func splitLines(s string) []string {
	if s == "" {
		return nil
	}
	lines := strings.SplitAfter(s, "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}

// lineAt returns the number, from 1, of the line that byte at of s is in.
func lineAt(s string, at int) int { return strings.Count(s[:at], "\n") + 1 }

// validText reports whether s is UTF-8 without control characters but tabs
// and newlines, that is, whether it can be shown as it is.
func validText(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < 0x20 && c != '\t' && c != '\n' || c == 0x7f {
			return false
		}
	}
	return utf8.ValidString(s)
}

// squeeze returns s without white space, for comparing text whose
// indentation or spacing differs.
func squeeze(s string) string { return strings.Join(strings.Fields(s), "") }

// plainer replaces characters that models and editors take for each other:
// typographic quotes and dashes, special spaces.
var plainer = strings.NewReplacer(
	"\u2018", "'", "\u2019", "'", "\u201c", `"`, "\u201d", `"`,
	"\u2010", "-", "\u2011", "-", "\u2012", "-", "\u2013", "-", "\u2014", "-", "\u2212", "-",
	"\u00a0", " ", "\u2007", " ", "\u202f", " ", "\u3000", " ",
)
