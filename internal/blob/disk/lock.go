package disk

import (
	"context"
	"errors"
	"os"
	"path"
	"strings"
	"syscall"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/blob"
)

var _ blob.Locker = (*Store)(nil)

// lockDir holds a file for each name that was ever locked. They stay: who
// removed one could not tell whether another process is about to lock it.
const lockDir = ".locks"

// lockPoll is how long to wait between two looks at a lock that another has.
// The kernel could wait, but not be told to give up.
const lockPoll = 2 * time.Millisecond

// Lock implements [blob.Locker], with flock(2): the kernel gives up the lock
// of a process that dies.
func (s *Store) Lock(ctx context.Context, name string) (unlock func(), err error) {
	if err := blob.CheckKey(name); err != nil || strings.Contains(name, "/") {
		return nil, glovebox.Invalid("name", "use one segment of a key", "%q is not the name of a lock", name)
	}
	if err := s.root.MkdirAll(lockDir, 0o700); err != nil {
		return nil, failure("lock", name, err)
	}
	f, err := s.root.OpenFile(path.Join(lockDir, name), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, failure("lock", name, err)
	}
	for {
		err := lock(f)
		if err == nil {
			return func() {
				// A process that is just being started may have a copy of the descriptor.
				_ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN)
				f.Close()
			}, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			f.Close()
			return nil, failure("lock", name, err)
		}
		select {
		case <-time.After(lockPoll):
		case <-ctx.Done():
			f.Close()
			return nil, failure("lock", name, context.Cause(ctx))
		}
	}
}
