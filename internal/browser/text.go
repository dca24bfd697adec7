package browser

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// clean returns s as one line of at most n bytes, without control characters,
// the characters that turn text around, and broken UTF-8.
func clean(s string, n int) string {
	if len(s) > 8*n { // no use in looking at what is cut anyway
		s = s[:8*n]
	}
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\r' || r == 0xa0:
			return ' '
		case r == utf8.RuneError || unicode.IsControl(r) || unicode.Is(unicode.Cf, r) && r != 0x200d:
			return -1
		}
		return r
	}, s)
	return cut(strings.Join(strings.Fields(s), " "), n)
}

// cut returns at most n bytes of s, whole characters, with a mark if it was cut.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	n = max(0, n-3)
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "..."
}
