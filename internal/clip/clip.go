// Package clip cuts text to a number of bytes, between characters.
package clip

import "unicode/utf8"

// Head returns at most the first n bytes of s, whole characters.
func Head(s string, n int) string {
	if len(s) <= n {
		return s
	}
	n = max(n, 0)
	for i := n; i >= 0 && i > n-utf8.UTFMax; i-- {
		if utf8.RuneStart(s[i]) {
			return s[:i]
		}
	}
	return s[:n] // no character is that long: it is no UTF-8
}

// Tail returns at most the last n bytes of s, whole characters.
func Tail(s string, n int) string {
	if len(s) <= n {
		return s
	}
	n = max(n, 0)
	from := len(s) - n
	for i := from; i < len(s) && i < from+utf8.UTFMax; i++ {
		if utf8.RuneStart(s[i]) {
			return s[i:]
		}
	}
	return s[from:]
}

// Short returns s if it has at most n bytes, else its Head and three dots.
func Short(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return Head(s, n) + "..."
}
