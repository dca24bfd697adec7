package pool

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/sandbox/local"
)

// An owner holds the lock of a file for as long as it lives. One that starts
// may find its file locked, or gone again, by another that takes it for that of
// a dead one: so it tries lockTries times, a millisecond apart.
const lockTries = 5000

func (d *Driver) lockPath(owner string) string { return filepath.Join(d.o.Dir, owner+".lock") }

// holdLock makes a file and holds its lock.
func holdLock(path string) (*os.File, error) {
	for try := 1; ; try++ {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_CLOEXEC, 0o600)
		if err != nil {
			return nil, err
		}
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil && isAt(f, path) {
			return f, nil
		}
		local.Unlock(f)
		if err != nil && !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		if try == lockTries {
			return nil, fmt.Errorf("lock %s: another process holds or removes it", path)
		}
		time.Sleep(time.Millisecond) //nolint:forbidigo // flock waits without a deadline or not at all
	}
}

// isAt reports whether path names the file that was opened.
func isAt(f *os.File, path string) bool {
	opened, err1 := f.Stat()
	named, err2 := os.Stat(path)
	return err1 == nil && err2 == nil && os.SameFile(opened, named)
}

// alive reports whether the owner of ready machines lives.
func (d *Driver) alive(owner string) bool {
	if owner == d.owner {
		return true
	}
	if !glovebox.ValidID(owner) {
		return false
	}
	f, err := os.Open(d.lockPath(owner))
	if err != nil {
		return false
	}
	defer local.Unlock(f)
	return unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) != nil
}

// removeLock removes the file of an owner that died. It holds the lock until it
// is gone: an owner that is just starting would else lose the file that it has
// locked, and its machines to the next one that starts.
func removeLock(path string) {
	f, err := os.Open(path)
	if err != nil {
		return
	}
	defer local.Unlock(f)
	if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil && isAt(f, path) {
		os.Remove(path)
	}
}
