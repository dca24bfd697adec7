package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestFreePlace(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for _, dir := range []string{"empty", "zipped", "full", "full-2", "full-3"} {
		if err := os.Mkdir(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"zipped.zip", "full/mine.txt", "full-2/mine.txt", "full-4", "file"} {
		if err := os.WriteFile(filepath.Join(root, file), []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("nowhere", filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ wanted, dir string }{
		{"new", "new"},
		{"empty", "empty"},
		{"zipped", "zipped-2"},
		{"full", "full-3"}, // empty
		{"file", "file-2"},
		{"link", "link-2"},
	} {
		dir, archive, err := freePlace(filepath.Join(root, tt.wanted), "id")
		if want := filepath.Join(root, tt.dir); err != nil || dir != want || archive != want+".zip" {
			t.Errorf("%s: %s, %s, %v; want %s", tt.wanted, dir, archive, err, want)
		}
		if fi, err := os.Stat(dir); err != nil || !fi.IsDir() {
			t.Errorf("%s: there is no %s: %v", tt.wanted, dir, err)
		}
	}
	if _, _, err := freePlace(filepath.Join(root, "file", "below"), "id"); err == nil {
		t.Error("a directory below a file was found")
	}
}

// TestFreePlaceHere: the current directory has no name beside which a zip
// could be.
func TestFreePlaceHere(t *testing.T) {
	here := filepath.Join(t.TempDir(), "here")
	if err := os.Mkdir(here, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(here)
	if dir, archive, err := freePlace(".", "id"); err != nil || dir != "." || archive != "id.zip" {
		t.Errorf("empty: %s, %s, %v", dir, archive, err)
	}
	if err := os.WriteFile("mine.txt", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if dir, archive, err := freePlace(".", "id"); err != nil || dir != here+"-2" || archive != here+"-2.zip" {
		t.Errorf("not empty: %s, %s, %v", dir, archive, err)
	}
}
