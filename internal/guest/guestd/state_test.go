//go:build linux

package guestd_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest"
)

// published returns the files below a directory with their text.
func published(t *testing.T, dir string) map[string]string {
	t.Helper()
	got := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(p)
		got[strings.TrimPrefix(p, dir+"/")] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestPublish(t *testing.T) {
	t.Parallel()
	c, b := start(t)
	ctx := t.Context()
	dir := b.root + guest.StateDir
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Fatal("it is there before anything was published")
	}
	publish := func(reset bool, parts ...guest.PublishPart) {
		t.Helper()
		if err := c.Publish(ctx, reset, parts); err != nil {
			t.Fatal(err)
		}
	}
	want := func(files map[string]string) {
		t.Helper()
		got := published(t, dir)
		if len(got) != len(files) {
			t.Errorf("there are %v", got)
		}
		for name, text := range files {
			if got[name] != text {
				t.Errorf("%s is %.100q, want %.100q", name, got[name], text)
			}
		}
	}
	publish(true, guest.PublishPart{Path: "task.md", Data: []byte("do it\n"), Last: true},
		guest.PublishPart{Path: "log/1.txt", Data: []byte("one\n"), Last: true}, guest.PublishPart{Path: "empty", Last: true})
	want(map[string]string{"task.md": "do it\n", "log/1.txt": "one\n", "empty": ""})
	publish(false, guest.PublishPart{Path: "log/1.txt", Grow: true, Offset: 4, Data: []byte("two\n")},
		guest.PublishPart{Path: "log/1.txt", Grow: true, Offset: 8, Data: []byte("three\n")},
		guest.PublishPart{Path: "empty", Remove: true}, guest.PublishPart{Path: "never", Remove: true},
		guest.PublishPart{Path: "task.md", Data: []byte("do ")}) // a part that is not the last changes nothing yet
	want(map[string]string{"task.md": "do it\n", "log/1.txt": "one\ntwo\nthree\n"})
	publish(false, guest.PublishPart{Path: "task.md", Offset: 3, Data: []byte("that\n"), Last: true})
	want(map[string]string{"task.md": "do that\n", "log/1.txt": "one\ntwo\nthree\n"})

	for name, p := range map[string]guest.PublishPart{
		"grow what is shorter": {Path: "log/1.txt", Grow: true, Offset: 100, Data: []byte("x")},
		"grow what is longer":  {Path: "log/1.txt", Grow: true, Offset: 1, Data: []byte("x")},
		"grow nothing":         {Path: "log/2.txt", Grow: true, Data: []byte("x")},
		"a gap":                {Path: "task.md", Offset: 3, Data: []byte("x"), Last: true},
	} {
		if err := c.Publish(ctx, false, []guest.PublishPart{p}); glovebox.CodeOf(err) != glovebox.CodeConflict {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Another client of the same machine finds what is there, or begins anew.
	other := b.dial(t, guest.Options{})
	if err := other.Publish(ctx, false, []guest.PublishPart{{Path: "log/1.txt", Grow: true, Offset: 14, Data: []byte("four\n")}}); err != nil {
		t.Fatal(err)
	}
	publish(true)
	want(nil)
	publish(false, guest.PublishPart{Path: "a", Data: []byte("a"), Last: true})
	want(map[string]string{"a": "a"})
}

func TestPublishRefuses(t *testing.T) {
	t.Parallel()
	c, b := start(t)
	ctx := t.Context()
	for _, path := range []string{"", ".", "..", "/etc/passwd", "../x", "a/../../x", "a/b/c", ".hidden", "a/.b", "a b", "a\x00", "a\nb", "ä", strings.Repeat("x", 101), "a/", "/a"} {
		err := c.Publish(ctx, false, []guest.PublishPart{{Path: path, Data: []byte("x"), Last: true}})
		wantCode(t, err, glovebox.CodeInvalid)
	}
	one := bytes.Repeat([]byte("x"), guest.MaxPublish)
	wantCode(t, c.Publish(ctx, false, []guest.PublishPart{{Path: "a", Data: append(one, 'x')}}), glovebox.CodeTooLarge)
	wantCode(t, c.Publish(ctx, false, make([]guest.PublishPart, guest.MaxPublishParts+1)), glovebox.CodeTooLarge)
	wantCode(t, c.Publish(ctx, false, []guest.PublishPart{{Path: "a", Offset: guest.MaxPublishedFile, Data: []byte("x")}}), glovebox.CodeTooLarge)
	wantCode(t, c.Publish(ctx, false, []guest.PublishPart{{Path: "a", Offset: -1, Data: []byte("x")}}), glovebox.CodeTooLarge)
	if err := c.Publish(ctx, false, slices.Repeat([]guest.PublishPart{{Path: "a", Data: []byte("x"), Last: true}}, guest.MaxPublishParts)); err != nil {
		t.Error(err)
	}
	// Something of the image's own in its place is left alone.
	c2, b2 := start(t)
	if err := os.WriteFile(b2.root+guest.StateDir, []byte("the image's"), 0o600); err != nil {
		t.Fatal(err)
	}
	wantCode(t, c2.Publish(ctx, true, nil), glovebox.CodeConflict)
	outside := t.TempDir()
	if err := os.WriteFile(outside+"/keep", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(b.root + guest.StateDir); err != nil {
		t.Fatal(err)
	}
	c3, b3 := start(t)
	if err := os.Symlink(outside, b3.root+guest.StateDir); err != nil {
		t.Fatal(err)
	}
	wantCode(t, c3.Publish(ctx, true, []guest.PublishPart{{Path: "a", Last: true}}), glovebox.CodeConflict)
	if got := published(t, outside); len(got) != 1 {
		t.Errorf("followed a link: %v", got)
	}
}
