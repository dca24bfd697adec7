// Package local keeps the state of sandboxes that are processes of this
// machine: one directory each, held with flock(2) while it is made or
// removed, with a record that is replaced whole.
package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// WriteJSON writes a small file whole, under a temporary name and renamed. It
// does not sync: no sandbox survives the machine.
func WriteJSON(path string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".tmp", b, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".tmp", path)
}

// ReadJSON reads what WriteJSON wrote; ok is false if there is no such file,
// or none that can be understood.
func ReadJSON(path string, v any) (ok bool, err error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return json.Unmarshal(b, v) == nil, nil
}

// ReadNote returns the first 512 bytes of a file, trimmed, or "".
func ReadNote(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	b := make([]byte, 512)
	n, _ := f.Read(b)
	return strings.TrimSpace(string(b[:n]))
}

// HeldFile makes a file with a lock on it that belongs to whoever inherits
// the descriptor, until the last of them is gone.
func HeldFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return f, nil
}

// AwaitGone waits until no process holds the lock of a file that [HeldFile]
// made. It is no error if there is no such file.
func AwaitGone(path string, deadline time.Time) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer Unlock(f)
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return nil
		}
		if err != unix.EWOULDBLOCK && err != unix.EINTR || time.Now().After(deadline) {
			return fmt.Errorf("wait for the processes of the sandbox: %w", err)
		}
		time.Sleep(time.Millisecond) //nolint:forbidigo // flock waits without a deadline or not at all
	}
}

// Unlock ends the lock that f has, if it has one, and closes f. Closing it alone
// would not do: a process that is just being started, for whatever, has a copy
// of the descriptor until it executes its program, and the lock lasts as long.
func Unlock(f *os.File) {
	_ = unix.Flock(int(f.Fd()), unix.LOCK_UN)
	f.Close()
}

// MakeDir makes the directory of a sandbox and takes its lock. That there is
// one already is an error that is [fs.ErrExist]. Who lists sandboxes at that
// moment does not take it for one that was left: see [Left].
func MakeDir(ctx context.Context, dir string) (unlock func(), err error) {
	parent, err := os.Open(filepath.Dir(dir))
	if err != nil {
		return nil, err
	}
	defer Unlock(parent)
	for {
		err := unix.Flock(int(parent.Fd()), unix.LOCK_SH|unix.LOCK_NB)
		if err == nil {
			break
		}
		if err != unix.EWOULDBLOCK && err != unix.EINTR { // else someone is in Left
			return nil, fmt.Errorf("lock %s: %w", parent.Name(), err)
		}
		if err := pause(ctx); err != nil {
			return nil, err
		}
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	unlock, err = LockDir(ctx, dir)
	if err == nil && unlock == nil {
		err = errors.New("it was destroyed while it was made")
	}
	if err != nil {
		os.Remove(dir)
		return nil, err
	}
	return unlock, nil
}

// Left reports whether a directory whose lock the caller has, and in which there
// is nothing, was left by who made it, and not made a moment ago.
func Left(dir string) bool {
	parent, err := os.Open(filepath.Dir(dir))
	if err != nil {
		return false
	}
	defer Unlock(parent)
	return unix.Flock(int(parent.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil
}

// pause waits a moment: flock can't be waited for together with a ctx.
func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(2 * time.Millisecond):
		return nil
	}
}

// LockDir takes the lock of a sandbox's directory, waiting for whoever makes
// or removes the sandbox. unlock is nil if there is no such directory.
func LockDir(ctx context.Context, dir string) (unlock func(), err error) {
	for {
		unlock, err := TryLockDir(dir)
		if unlock != nil || err != nil {
			return unlock, err
		}
		if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		if err := pause(ctx); err != nil {
			return nil, err
		}
	}
}

// TryLockDir takes the lock of a directory; unlock is nil if another has it,
// or there is no such directory.
func TryLockDir(dir string) (unlock func(), err error) {
	f, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		// It may have been removed, and made anew, before we had the lock.
		held, err1 := f.Stat()
		named, err2 := os.Lstat(dir)
		if err1 == nil && err2 == nil && os.SameFile(held, named) {
			return func() { Unlock(f) }, nil
		}
	}
	Unlock(f)
	if err != nil && !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	return nil, nil
}
