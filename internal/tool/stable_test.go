package tool

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// passingPattern is what Stable leaves out, as a pattern: too slow for it, and
// easier to read.
var passingPattern = regexp.MustCompile(`\b\d+(?:\.\d+)?\s?(?:ns|µs|us|ms|s|sec|seconds|m\d+(?:\.\d+)?s)\b` +
	`|\b\d{4}-\d\d-\d\d[T ]?(?:\d\d:\d\d:\d\d(?:[.,]\d+)?Z?)?|\b\d\d?:\d\d:\d\d(?:[.,]\d+)?\b` +
	`|\b(?:sh|tty|install|tests)-[0-9a-z]{5}\b|\bhandle "[^"]*"`)

func TestStablePattern(t *testing.T) {
	t.Parallel()
	pieces := rapid.SampledFrom([]string{"1", "23", "4567", "2026-01-31", "12:34:56", "9:05:59", ".5", ",123", "ns", "µs", "us", "ms", "s", "sec", "seconds", "m3.5s", "m2s", "m",
		" ", "\n", "\t", "\v", "T", "Z", "sh-", "tty-", "install-", "tests-", "ab1c2", "abc", "handle ", `"`, `"out-1"`, "-", ":", ".", "_", "é", "word", "\xff", "x"})
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(pieces, 0, 12).Draw(t, "pieces"), "")
		if got, want := Stable(text), passingPattern.ReplaceAllString(text, "~"); got != want {
			t.Fatalf("%q: %q, the pattern says %q", text, got, want)
		}
	})
	if got := Stable("passed in 1.2 s, handle \"out-1\" has it, pid sh-ab1c2 at 2026-01-31T10:11:12Z"); got != "passed in ~, ~ has it, pid ~ at ~" {
		t.Errorf("%q", got)
	}
}

func BenchmarkStable(b *testing.B) {
	text := strings.Repeat("  120\tfunc Example(s string) error { return fmt.Errorf(\"at 12:00: %w\", err) } // 0x1f\n", 1000)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		Stable(text)
	}
}
