package disk

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/blob"
	"github.com/glovebox-dev/glovebox/internal/blob/blobtest"
)

func mustOpen(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestStore(t *testing.T) {
	t.Parallel()
	blobtest.Exercise(t, func(t *testing.T) (s, again blob.Store) {
		t.Helper()
		dir := filepath.Join(t.TempDir(), "blobs")
		return mustOpen(t, dir), mustOpen(t, dir)
	})
}

// What a crash left is removed; what a living process writes is not.
func TestClean(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := mustOpen(t, dir)
	stale := filepath.Join(dir, tmpDir, glovebox.NewID())
	if err := os.WriteFile(stale, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	pr, pw := io.Pipe()
	done := make(chan error)
	go func() {
		_, err := s.Put(t.Context(), "k", pr, 100)
		done <- err
	}()
	io.WriteString(pw, "first half, ") // Put has made its file when this is read
	mustOpen(t, dir)
	io.WriteString(pw, "second half")
	pw.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(stale); !os.IsNotExist(err) {
		t.Errorf("the stale file: %v", err)
	}
	left, _ := os.ReadDir(filepath.Join(dir, tmpDir))
	if len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// TestLock: one at a time, whatever the Store, and who waits can give up.
func TestLock(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a, b := mustOpen(t, dir), mustOpen(t, dir)
	unlock, err := a.Lock(t.Context(), "name")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []*Store{a, b} {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.Lock(ctx, "name"); glovebox.CodeOf(err) != glovebox.CodeUnavailable || !errors.Is(err, context.Canceled) {
			t.Errorf("a lock that is held: %v", err)
		}
	}
	free, err := b.Lock(t.Context(), "another")
	if err != nil {
		t.Fatal(err)
	}
	free()
	got := make(chan error, 1)
	go func() {
		unlock, err := b.Lock(context.Background(), "name")
		if err == nil {
			unlock()
		}
		got <- err
	}()
	unlock()
	if err := <-got; err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"", "../x", "a/b", ".tmp"} {
		if _, err := a.Lock(t.Context(), bad); glovebox.CodeOf(err) != glovebox.CodeInvalid {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestFailedPutLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := mustOpen(t, dir)
	if _, err := s.Put(t.Context(), "a/b", strings.NewReader("too long"), 3); err == nil {
		t.Error("no error")
	}
	if left, _ := os.ReadDir(filepath.Join(dir, tmpDir)); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	if _, err := os.Stat(filepath.Join(dir, "a")); !os.IsNotExist(err) {
		t.Errorf("a directory is left: %v", err)
	}
}

func TestModes(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "x", "blobs")
	s := mustOpen(t, dir)
	if _, err := s.Put(t.Context(), "a/b", strings.NewReader("x"), 3); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]os.FileMode{"": 0o700, "a": 0o700, "a/b": 0o600, tmpDir: 0o700} {
		if fi, err := os.Stat(filepath.Join(dir, name)); err != nil || fi.Mode().Perm() != want {
			t.Errorf("%q: %v, %v", name, fi, err)
		}
	}
}

// A symbolic link that someone put into the directory leads nowhere.
func TestLinksLeadNowhere(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	s := mustOpen(t, dir)
	if err := os.Symlink(outside, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if r, err := s.Open(t.Context(), "link/secret"); err == nil {
		t.Errorf("opened %v", r)
	}
	if _, err := s.Put(t.Context(), "link/new", strings.NewReader("x"), 1); err == nil {
		t.Error("wrote outside")
	}
	if err := s.DeletePrefix(t.Context(), "link/"); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(outside, "secret")); err != nil {
		t.Errorf("a file outside is gone: %v", err)
	}
}

// One key can't be the directory of another; that is said, not mixed up.
func TestKeyBelowKey(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, t.TempDir())
	if _, err := s.Put(t.Context(), "a", strings.NewReader("x"), 1); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put(t.Context(), "a/b", strings.NewReader("x"), 1); glovebox.CodeOf(err) != glovebox.CodeConflict {
		t.Errorf("error is %v", err)
	}
	if _, err := s.Open(t.Context(), "a/b"); glovebox.CodeOf(err) != glovebox.CodeNotFound {
		t.Errorf("error is %v", err)
	}
}
