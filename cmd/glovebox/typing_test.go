package main

import (
	"slices"
	"strings"
	"testing"
)

func TestTyped(t *testing.T) {
	t.Parallel()
	for keys, want := range map[string][]string{
		"hello\n":                    {"hello"},
		"a\rb\n":                     {"a", "b"},
		"helo\x7flo\n":               {"hello"},
		"\b\b\x7fx\n":                {"x"},
		"some words\x17thing\n":      {"some thing"},
		"some words  \x17\x17\x17\n": {""},
		"nothing\x15all\n":           {"all"},
		"le\x1b[Dft \x1bOAup\n":      {"left up"},
		"\x1b[200~paste\x1b[201~\n":  {"paste"},
		"grüße\n":                    {"grüße"},
		"a\x00\x07\tb\xffc\n":        {"abc"},
		"unfinished":                 nil,
	} {
		var said []string
		shown := ""
		typed(strings.NewReader(keys), func(s string) { shown = s }, func(s string) { said = append(said, s) })
		if !slices.Equal(said, want) {
			t.Errorf("%q: said %q, want %q", keys, said, want)
		}
		if rest := map[bool]string{true: keys}[want == nil]; shown != rest {
			t.Errorf("%q: shows %q at the end", keys, shown)
		}
	}
	var e editor
	for range 1 << 20 {
		e.key('x')
	}
	if len(e.line) > 1<<16 {
		t.Errorf("a line of %d characters", len(e.line))
	}
}
