package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/store"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		harm func(path string) error
		want string
	}{
		"fine":     {func(string) error { return nil }, ""},
		"removed":  {os.Remove, "can't be read"},
		"replaced": {func(p string) error { os.Remove(p); return os.WriteFile(p, []byte("SQLite format 3\x00"), 0o600) }, "replaced"},
		"cut": {func(p string) error {
			info, err := os.Stat(p)
			if err != nil {
				return err
			}
			return os.Truncate(p, info.Size()/2)
		}, "damaged"},
		"emptied": {func(p string) error { return os.Truncate(p, 0) }, "damaged"},
		"overwritten": {func(p string) error {
			f, err := os.OpenFile(p, os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = f.Write([]byte("ransom"))
			return err
		}, "damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "db")
			for i := range 2 { // the first time folds the write-ahead log into the file
				s, err := Open(path, Options{})
				if err != nil {
					t.Fatal(err)
				}
				if _, _, err := s.CreateJob(t.Context(), glovebox.Created{ID: glovebox.NewID(), Tenant: "t", Task: strings.Repeat("x", 100_000), Limits: glovebox.DefaultLimits()}, store.IdempotencyKey{}); err != nil {
					t.Fatal(err)
				}
				if err := s.Check(t.Context()); err != nil {
					t.Errorf("before: %v", err)
				}
				if i == 0 {
					if err := s.Close(); err != nil {
						t.Fatal(err)
					}
					continue
				}
				if err := c.harm(path); err != nil {
					t.Fatal(err)
				}
				err = s.Check(t.Context())
				if c.want == "" && err != nil || c.want != "" && (glovebox.CodeOf(err) != glovebox.CodeUnavailable || !strings.Contains(err.Error(), c.want)) {
					t.Errorf("got %v", err)
				}
				if e, ok := errors.AsType[*glovebox.Error](err); ok && strings.Contains(e.Msg, path) {
					t.Errorf("%q names a path", e.Msg)
				}
				s.Close() // whatever it says of such a file
			}
		})
	}
}

// TestCheckKeepsTheLocks: after a check, another process still sees that the
// database is in use, and leaves the write-ahead log alone when it closes it.
func TestCheckKeepsTheLocks(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db")
	s, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() // after s: it would cost the locks, too
	defer s.Close()
	for _, when := range []string{"before", "after"} {
		// What a process asks that wants the file for itself: for any lock on it.
		lock := unix.Flock_t{Type: unix.F_WRLCK}
		if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &lock); err != nil {
			t.Fatal(err)
		}
		if lock.Type != unix.F_RDLCK {
			t.Errorf("%s the check, the lock is %d, want a shared one", when, lock.Type)
		}
		if err := s.Check(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// TestCheckOfALockedFile: another process writes and does not end.
func TestCheckOfALockedFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db")
	s, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	err = s.w.do(context.Background(), func(t *txn) error { // or it waits for 10 s
		_, err := t.w.conn.ExecContext(context.Background(), "PRAGMA busy_timeout = 20")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	other, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	tx, err := other.BeginTx(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Check(context.Background()); glovebox.CodeOf(err) != glovebox.CodeUnavailable || !strings.Contains(err.Error(), "can't be written") {
		t.Errorf("got %v", err)
	}
	if err := tx.Rollback(); err != nil {
		t.Error(err)
	}
	if err := s.Check(context.Background()); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}
