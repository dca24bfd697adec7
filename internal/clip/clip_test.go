package clip_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox/internal/clip"
)

func TestClip(t *testing.T) {
	t.Parallel()
	const s = "aé編🙂z"
	for n, want := range []struct{ head, tail string }{
		{"", ""}, {"a", "z"}, {"a", "z"}, {"aé", "z"}, {"aé", "z"}, {"aé", "🙂z"}, {"aé編", "🙂z"}, {"aé編", "🙂z"}, {"aé編", "編🙂z"},
		{"aé編", "編🙂z"}, {"aé編🙂", "é編🙂z"}, {s, s}, {s, s},
	} {
		short := want.head + "..."
		if n >= len(s) {
			short = s
		}
		if head, tail, got := clip.Head(s, n), clip.Tail(s, n), clip.Short(s, n); head != want.head || tail != want.tail || got != short {
			t.Errorf("%d bytes: %q, %q and %q, want %q, %q and %q", n, head, tail, got, want.head, want.tail, short)
		}
	}
	if got := clip.Head("abc", -1) + clip.Tail("abc", -1); got != "" {
		t.Errorf("less than nothing is %q", got)
	}
}

func FuzzClip(f *testing.F) {
	f.Add("aé編🙂z", 5)
	f.Add(strings.Repeat("\x80", 9), 6)
	f.Fuzz(func(t *testing.T, s string, n int) {
		head, tail := clip.Head(s, n), clip.Tail(s, n)
		if !strings.HasPrefix(s, head) || !strings.HasSuffix(s, tail) || len(head) > max(n, 0) || len(tail) > max(n, 0) {
			t.Fatalf("%q in %d bytes: %q, %q", s, n, head, tail)
		}
		if n >= 0 && n < len(s) && (len(head) <= n-utf8.UTFMax || len(tail) <= n-utf8.UTFMax) {
			t.Fatalf("%q in %d bytes: %q, %q are too short", s, n, head, tail)
		}
		if utf8.ValidString(s) && !utf8.ValidString(head+tail) {
			t.Fatalf("%q in %d bytes: %q, %q have half a character", s, n, head, tail)
		}
	})
}
