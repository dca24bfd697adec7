package local

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// A directory that is being made is never taken for one that was left, however
// long its maker needs between making and locking it.
func TestMakeDir(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	dir := filepath.Join(parent, "x")
	unlock, err := MakeDir(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if other, err := TryLockDir(dir); err != nil || other != nil {
		t.Errorf("it is not locked: %v", err)
	}
	if _, err := MakeDir(t.Context(), dir); !errors.Is(err, fs.ErrExist) {
		t.Errorf("made twice: %v", err)
	}
	unlock()
	left := func() bool {
		t.Helper()
		unlock, err := TryLockDir(dir)
		if err != nil || unlock == nil {
			t.Fatalf("it can't be locked: %v", err)
		}
		defer unlock()
		return Left(dir)
	}
	if !left() {
		t.Error("one that was left is not seen")
	}
	// A maker, of whichever sandbox, that has not come to its lock.
	maker, err := os.Open(parent)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Flock(int(maker.Fd()), unix.LOCK_SH); err != nil {
		t.Fatal(err)
	}
	if left() {
		t.Error("one that is being made is taken for one that was left")
	}
	Unlock(maker)
	if !left() {
		t.Error("one that was left is not seen afterwards")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	held, err := TryLockDir(dir)
	if err != nil || held == nil {
		t.Fatal(err)
	}
	defer held()
	if _, err := LockDir(ctx, dir); !errors.Is(err, context.Canceled) {
		t.Errorf("who gave up waits: %v", err)
	}
}

// A lock ends when it is given up, also while a process that is being started
// has a copy of its descriptor.
func TestLockEndsWithCopies(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	unlock, err := TryLockDir(dir)
	if err != nil || unlock == nil {
		t.Fatal(err)
	}
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	unlock()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		t.Fatal(err)
	}
	dup, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(dup)
	Unlock(f)
	again, err := TryLockDir(dir)
	if err != nil || again == nil {
		t.Fatalf("it is locked still: %v", err)
	}
	again()
}
