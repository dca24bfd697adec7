package tool

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/clip"
)

func TestCut(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&b, "line %d\n", i)
	}
	got := Cut(b.String(), 4096, "h1")
	if len(got) > 4096 {
		t.Errorf("it has %d bytes", len(got))
	}
	if !strings.HasPrefix(got, "line 0\n") || !strings.HasSuffix(got, "line 4999\n") {
		t.Errorf("the ends are gone: %q ... %q", got[:20], got[len(got)-20:])
	}
	if !strings.Contains(got, `read_output with handle "h1" has the whole`) {
		t.Errorf("no note in\n%s", got)
	}
	for l := range strings.Lines(got) {
		if !strings.HasPrefix(l, "line ") && !strings.HasPrefix(l, "[... ") {
			t.Errorf("not a whole line: %q", l)
		}
	}
	if s := "short"; Cut(s, 1024, "h") != s {
		t.Error("a short text was changed")
	}
}

func TestCutProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		piece := rapid.SampledFrom([]string{"a", "é", "日本", "\n", "word ", "🙂", "\n\n"})
		text := strings.Join(rapid.SliceOfN(piece, 0, 4000).Draw(t, "text"), "")
		bound := rapid.IntRange(1024, 5000).Draw(t, "bound")
		got := Cut(text, bound, "handle")
		if len(got) > bound {
			t.Fatalf("%d bytes, bound %d", len(got), bound)
		}
		if !utf8.ValidString(got) {
			t.Fatal("it is not UTF-8 any more")
		}
	})
}

func TestFit(t *testing.T) {
	t.Parallel()
	var kept []byte
	env := &Env{Save: func(_ context.Context, data []byte) (string, error) { kept = data; return "h7", nil }}
	big := strings.Repeat("0123456789\n", 5000)
	r := Fit(t.Context(), env, Result{Content: []glovebox.Block{glovebox.Text(big), {Type: glovebox.BlockImage, MediaType: "image/png"}}})
	if r.Blob != "h7" || string(kept) != big || len(r.Content) != 2 || len(r.Content[0].Text) > OutputBound {
		t.Errorf("blob %q, %d blocks, kept %d bytes", r.Blob, len(r.Content), len(kept))
	}
	env.Save = func(context.Context, []byte) (string, error) { return "", errors.New("disk full") }
	r = Fit(t.Context(), env, TextResult(big))
	if len(r.Content[0].Text) > OutputBound || !strings.Contains(r.Content[0].Text, "could not be kept: disk full") {
		t.Errorf("got %d bytes without the reason", len(r.Content[0].Text))
	}
}

func TestClean(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, in, want string }{
		{"plain", "a\tb\nc\n", "a\tb\nc\n"},
		{"colours", "\x1b[1;31merror\x1b[0m: x\n", "error: x\n"},
		{"title", "\x1b]0;title\x07text\n", "text\n"},
		{"link", "\x1b]8;;http://x\x1b\\text\x1b]8;;\x1b\\\n", "text\n"},
		{"progress", "10%\r50%\r100%\ndone\n", "100%\ndone\n"},
		{"progress, erased", "10%\x1b[K\r\x1b[K20%\n", "20%\n"},
		{"crlf", "a\r\nb\r\n", "a\nb\n"},
		{"return at the end", "kept\r", "kept"},
		{"spinner", "\\\b|\b/\b-\bok\n", "ok\n"},
		{"charset", "\x1b(Btext\n", "text\n"},
		{"8-bit CSI", "\u009b31mred\n", "red\n"},
		{"bell and NUL", "a\x07b\x00c\n", "abc\n"},
		{"bad UTF-8", "a\xffb\n", "a\ufffdb\n"},
		{"cut character", "a\xe2\x82", "a\ufffd"},
		{"unfinished sequence", "a\x1b[31", "a"},
		{"newline in a sequence", "a\x1b]0;never ends\nb\n", "a\nb\n"},
		{"emoji", "ok ✓ 🙂\n", "ok ✓ 🙂\n"},
	}
	for _, tt := range tests {
		if got := cleanText([]byte(tt.in)); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

func FuzzClean(f *testing.F) {
	for _, s := range []string{"a\x1b[31mb\r\nc", "\x1b]0;x\x1b\\", "10%\r20%\r", "\xff\xfe\b\b", "\x1b\x1b[", "é\u009b1m"} {
		f.Add([]byte(s), 3)
	}
	f.Fuzz(func(t *testing.T, b []byte, at int) {
		whole := cleanText(b)
		if !utf8.ValidString(whole) {
			t.Error("not UTF-8")
		}
		for _, r := range whole {
			if r < 0x20 && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 {
				t.Errorf("control character %U is left", r)
			}
		}
		if again := cleanText([]byte(whole)); again != whole {
			t.Errorf("cleaning twice: %q, then %q", whole, again)
		}
		// In pieces it comes to the same.
		at = max(0, min(at, len(b)))
		var c cleaner
		pieces := c.write(bytes.Clone(b[:at])) + c.write(bytes.Clone(b[at:])) + c.flush()
		if len(c.partial) > 0 {
			pieces += "\ufffd"
		}
		if pieces != whole {
			t.Errorf("in pieces %q, whole %q", pieces, whole)
		}
	})
}

func TestBinary(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "hello\n", "grüße 🙂\n", "one bad byte \xff in a long enough line of text\n"} {
		if isBinary([]byte(text)) {
			t.Errorf("%q counts as binary", text)
		}
	}
	for _, data := range []string{"\x7fELF\x02\x01\x00", "a\x00b", "\xff\xfe\xfd", "\x89PNG\r\n\x1a\n\x00\x00"} {
		if !isBinary([]byte(data)) {
			t.Errorf("%q counts as text", data)
		}
	}
	if got := describe([]byte("PK\x03\x04rest"), 8); !strings.HasPrefix(got, "application/zip, 8 bytes, sha256 ") {
		t.Errorf("got %q", got)
	}
	// A character cut at the bound of what is looked at is no fault.
	long := append(bytes.Repeat([]byte("x"), 64<<10-1), "é rest"...)
	if isBinary(long) {
		t.Error("long text counts as binary")
	}
}

func TestImageType(t *testing.T) {
	t.Parallel()
	webp := "RIFF\x24\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00\x00\x00\x00\x00\x1f\x03\x00\x57\x02\x00more bytes"
	media, w, h, problem := imageType([]byte(webp), int64(len(webp)))
	if media != "image/webp" || w != 800 || h != 600 || problem != "" {
		t.Errorf("got %s %d x %d %q", media, w, h, problem)
	}
	if _, _, _, problem := imageType([]byte("\x89PNG\r\n\x1a\n"), 8); !strings.Contains(problem, "damaged") {
		t.Errorf("got %q", problem)
	}
	if _, _, _, problem := imageType([]byte(webp), 4<<20); !strings.Contains(problem, "at most 3145728 bytes") {
		t.Errorf("got %q", problem)
	}
}

func TestClosest(t *testing.T) {
	t.Parallel()
	names := []string{"index.html", "index.tsx", "main.tsx", "README.md"}
	if got := closest("indx.tsx", names, 3); len(got) == 0 || got[0] != "index.tsx" {
		t.Errorf("got %q", got)
	}
	if got := closest("readme.md", names, 3); len(got) != 1 || got[0] != "README.md" {
		t.Errorf("got %q", got)
	}
	if got := closest("zzz", names, 3); len(got) != 0 {
		t.Errorf("got %q", got)
	}
}

func TestLive(t *testing.T) {
	t.Parallel()
	var got strings.Builder
	calls := 0
	l := newLive(func(s string) {
		calls++
		got.WriteString(s)
		if len(s) > 2*liveBytes || !utf8.ValidString(s) {
			t.Errorf("a piece of %d bytes", len(s))
		}
	})
	var want strings.Builder
	for i := range 4000 {
		line := fmt.Sprintf("line %d é\n", i)
		want.WriteString(line)
		l.write([]byte("\x1b[1m" + line[:len(line)-2]))
		l.write([]byte(line[len(line)-2:]))
	}
	l.close()
	l.write([]byte("too late"))
	if got.String() != want.String() && !strings.Contains(got.String(), "bytes not shown live") {
		t.Errorf("got %d bytes, want %d", got.Len(), want.Len())
	}
	if calls > 500 {
		t.Errorf("%d calls for 4000 lines", calls)
	}
}

// TestLiveFlood: what a flood leaves out is named.
func TestLiveFlood(t *testing.T) {
	t.Parallel()
	total := 0
	last := ""
	l := newLive(func(s string) { total += len(s); last = s })
	for range 1000 {
		l.write(bytes.Repeat([]byte("y\n"), 16<<10))
	}
	l.close()
	if total > 4<<20 || !strings.Contains(last, "bytes not shown live") {
		t.Errorf("%d bytes of 32 MiB were shown, the last %q", total, clip.Short(last, 100))
	}
}

func TestStable(t *testing.T) {
	t.Parallel()
	same := [][2]string{
		{"x\n[exit 1 after 0.3 s]", "x\n[exit 1 after 12.4 s]"},
		{"[still running after 1.0 s, in the background as sh-abcde: y]", "[still running after 1.1 s, in the background as sh-23456: y]"},
		{"[whole output: read_output with handle \"jobs/a/1\"]", "[whole output: read_output with handle \"jobs/a/2\"]"},
		{"Start at  13:22:01\n Duration  1.28s (setup 0ms)", "Start at  13:22:09\n Duration  881ms (setup 1ms)"},
		{"after 2m3s", "after 2m14s"},
		{"2026-11-20T13:22:25.829Z failed", "2026-11-20T13:23:25Z failed"},
	}
	for _, s := range same {
		if Stable(s[0]) != Stable(s[1]) {
			t.Errorf("%q and %q differ", Stable(s[0]), Stable(s[1]))
		}
	}
	for _, s := range [][2]string{{"1 failed", "2 failed"}, {"exit 1", "exit 2"}, {"line 12", "line 13"}, {"port 3000s", "port x"}, {"error a.go:3:14", "error a.go:3:15"}} {
		if Stable(s[0]) == Stable(s[1]) {
			t.Errorf("%q and %q count as the same", s[0], s[1])
		}
	}
}
