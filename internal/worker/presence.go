package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
)

// presence tells the workers of one machine apart from those that died. Each
// has a file with its name in a directory that all share, locked for as long
// as its process lives: the kernel lets go of the lock however the process ends.
type presence struct {
	dir  string
	file *os.File // locked
}

// namePattern is what the name of a worker may be, since it is a file's, too.
var namePattern = regexp.MustCompile(`^[0-9A-Za-z_-][0-9A-Za-z._-]{0,199}$`)

// announce locks the file of a worker in dir, which is made if it is missing.
// A worker whose name is taken by a living one gets an error.
func announce(dir, name string) (*presence, error) {
	if !namePattern.MatchString(name) {
		return nil, fmt.Errorf("worker: %q can't be the name of a worker: use letters, digits, '.', '_' and '-'", name)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("worker: make the directory of workers: %w", err)
	}
	f, err := lockFile(filepath.Join(dir, name))
	if err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	if f == nil {
		return nil, fmt.Errorf("worker: a worker named %q is running", name)
	}
	return &presence{dir: dir, file: f}, nil
}

// bury calls f with the name of each other worker that died and forgets those
// for which f succeeds.
func (p *presence) bury(ctx context.Context, f func(ctx context.Context, name string) error) error {
	self := filepath.Base(p.file.Name())
	entries, err := os.ReadDir(p.dir)
	errs := []error{err}
	for _, e := range entries {
		if e.Name() == self || !namePattern.MatchString(e.Name()) {
			continue
		}
		dead, err := lockFile(filepath.Join(p.dir, e.Name()))
		if err != nil || dead == nil {
			errs = append(errs, err)
			continue
		}
		if err = f(ctx, e.Name()); err == nil {
			err = os.Remove(dead.Name())
		}
		unlockFile(dead)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// leave ends the presence.
func (p *presence) leave() {
	os.Remove(p.file.Name())
	unlockFile(p.file)
}

// unlockFile ends a lock. To close the file would not do: a process that is
// just being started has a copy of its descriptor until it executes its program.
func unlockFile(f *os.File) {
	_ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN)
	f.Close()
}

// lockFile opens and locks a file, nil if another process has it locked. A
// file that was removed between the two steps is made anew.
func lockFile(path string) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return nil, err
		}
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
			f.Close()
			if errors.Is(err, syscall.EWOULDBLOCK) {
				return nil, nil
			}
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		mine, err := f.Stat()
		if err != nil {
			f.Close()
			return nil, err
		}
		if there, err := os.Stat(path); err == nil && os.SameFile(mine, there) {
			return f, nil
		}
		unlockFile(f)
	}
}
