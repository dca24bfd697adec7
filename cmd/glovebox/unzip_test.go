package main

import (
	"archive/zip"
	"os"
	"path/filepath"
	"testing"
)

// makeZip writes a zip with the given files; names that end in "@" are links.
func makeZip(t *testing.T, files map[string]string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "a.zip")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	z := zip.NewWriter(f)
	for path, s := range files {
		h := &zip.FileHeader{Name: path, Method: zip.Deflate}
		h.SetMode(0o644)
		if path[len(path)-1] == '@' {
			h.Name = path[:len(path)-1]
			h.SetMode(os.ModeSymlink | 0o777)
		}
		w, err := z.CreateHeader(h)
		if err != nil {
			t.Fatal(err)
		}
		w.Write([]byte(s))
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	f.Close()
	return name
}

func TestUnzip(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("safe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(out, "link")); err != nil {
		t.Fatal(err)
	}
	n, err := unzip(makeZip(t, map[string]string{"a/b.txt": "b", "link": "new"}), out)
	if err != nil || n != 2 {
		t.Fatal(n, err)
	}
	if b, _ := os.ReadFile(outside); string(b) != "safe" {
		t.Errorf("a file outside was written: %q", b)
	}
	if b, _ := os.ReadFile(filepath.Join(out, "link")); string(b) != "new" {
		t.Errorf("a link was not replaced: %q", b)
	}
}

func TestUnzipStaysInside(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"../x", "/x", "a/../../x", "a//b", "./x", "x@", `..\x@`} {
		out := t.TempDir()
		if _, err := unzip(makeZip(t, map[string]string{name: "/etc/passwd"}), filepath.Join(out, "in")); err == nil {
			t.Errorf("%q was unpacked", name)
		}
		if entries, _ := os.ReadDir(out); len(entries) > 1 {
			t.Errorf("%q left %v", name, entries)
		}
	}
	// A directory that is a link leads nowhere.
	out, elsewhere := t.TempDir(), t.TempDir()
	if err := os.Symlink(elsewhere, filepath.Join(out, "d")); err != nil {
		t.Fatal(err)
	}
	if _, err := unzip(makeZip(t, map[string]string{"d/x": "x"}), out); err == nil {
		t.Error("a link out was followed")
	}
	if entries, _ := os.ReadDir(elsewhere); len(entries) > 0 {
		t.Errorf("something was written elsewhere: %v", entries)
	}
}
