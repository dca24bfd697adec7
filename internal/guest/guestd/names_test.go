//go:build linux

package guestd_test

import (
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox/internal/guest"
)

// Names that are not UTF-8, or that no machine but this one would take,
// neither break a listing nor an export, and hide no other file.
func TestOddNames(t *testing.T) {
	t.Parallel()
	c, b := start(t)
	ctx := t.Context()
	odd := []string{"\xff", "\uFFFD", `\xff`, "\xed\xa0\x80", "a\nb", "\x1b[31m", "d\xff/in", "ok"}
	for _, n := range odd {
		if dir, _, ok := strings.Cut(n, "/"); ok {
			if err := os.MkdirAll(b.root+"/workspace/"+dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(b.root+"/workspace/"+n, []byte("x"), 0o644); err != nil {
			t.Skipf("the file system does not take the name %q: %v", n, err)
		}
	}
	if err := os.Symlink("to\xff", b.root+"/workspace/link"); err != nil {
		t.Fatal(err)
	}
	there, _, err := c.ReadDir(ctx, "/workspace")
	if err != nil || len(there) != len(odd)+1 {
		t.Errorf("%d entries, %v", len(there), err)
	}
	globbed, err := c.Glob(ctx, "", "**", 0, true)
	if err != nil || len(globbed) != len(odd)+1 {
		t.Errorf("%d entries match, %v", len(globbed), err)
	}
	for _, e := range append(there, globbed...) {
		if !utf8.ValidString(e.Path) || !utf8.ValidString(e.Link) {
			t.Errorf("%q -> %q", e.Path, e.Link)
		}
	}

	var got, skipped []string
	err = c.Export(ctx, "/workspace", func(string, os.FileMode, int64) bool { return true }, func(f guest.ExportFile) error {
		got = append(got, f.Path)
		_, err := io.Copy(io.Discard, f.Body)
		return err
	}, func(p, why string) { skipped = append(skipped, p+": "+why) })
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(got)
	if want := []string{"ok", "\uFFFD"}; !slices.Equal(got, want) {
		t.Errorf("exported %q, want %q", got, want)
	}
	if len(skipped) != len(odd)+1-len(got) { // the directory as a whole
		t.Errorf("skipped %q", skipped)
	}
}

// A tree deeper than any that is meant for people is looked at to a depth
// that takes no time.
func TestDeepTree(t *testing.T) {
	t.Parallel()
	c, b := start(t)
	root, err := os.OpenRoot(b.root + "/workspace")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { root.Close() }()
	for i := range 2000 {
		if err := root.Mkdir("d", 0o755); err != nil {
			t.Fatal(err)
		}
		next, err := root.OpenRoot("d")
		if err != nil {
			t.Fatal(err)
		}
		root.Close()
		root = next
		if i == 50 || i == 1999 {
			if err := root.WriteFile("leaf", []byte("needle\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, all := range []bool{false, true} {
		found, err := c.Glob(t.Context(), "", "**/leaf", 0, all)
		if err != nil || len(found) != 1 {
			t.Errorf("all %v: %d files, %v; want the upper one", all, len(found), err)
		}
	}
	matches, _, err := c.Search(t.Context(), guest.SearchQuery{Pattern: "needle"})
	if err != nil || len(matches) != 1 {
		t.Errorf("%d matches, %v; want the upper one", len(matches), err)
	}
}
