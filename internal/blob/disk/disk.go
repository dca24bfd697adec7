// Package disk keeps blobs as files in a directory.
//
// A blob is written under a temporary name, synced, renamed to its key, and
// the directories are synced: it appears whole or not at all, and stays. All
// names are resolved inside the directory ([os.Root]), so a symbolic link in
// it leads nowhere else.
//
// Any number of processes may use the directory. A temporary file is locked
// by the process that writes it, so Open removes those that a crash left and
// no others.
package disk

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/blob"
)

var (
	_ blob.Store  = (*Store)(nil)
	_ blob.Lister = (*Store)(nil)
)

// tmpDir holds what is being written. No key begins with a dot.
const tmpDir = ".tmp"

// How often a directory is made that does not stay, and one removed that does
// not stay empty, while Put and DeletePrefix of the same keys meet.
const (
	placeTries  = 100
	deleteTries = 10
)

// Store is a [blob.Store] in a directory.
type Store struct {
	root *os.Root
}

// Open opens the blobs in dir, making it with mode 0700 if it is not there,
// and removes what interrupted writes of dead processes left.
func Open(dir string) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, failure("open", dir, err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, failure("open", dir, err)
	}
	s := &Store{root: root}
	if err := errors.Join(root.MkdirAll(tmpDir, 0o700), syncParent(dir)); err != nil {
		root.Close()
		return nil, failure("open", dir, err)
	}
	if err := s.Clean(); err != nil {
		root.Close()
		return nil, err
	}
	return s, nil
}

// syncParent makes the name of dir itself survive loss of power.
func syncParent(dir string) error {
	f, err := os.Open(filepath.Dir(filepath.Clean(dir)))
	if err != nil {
		return nil // it was there before us, and is not ours to read
	}
	defer f.Close()
	return f.Sync()
}

// Close releases the directory. Readers that are open stay usable.
func (s *Store) Close() error { return s.root.Close() }

// Clean removes the temporary files that no living process writes.
func (s *Store) Clean() error {
	entries, err := fs.ReadDir(s.root.FS(), tmpDir)
	if err != nil {
		return failure("clean", tmpDir, err)
	}
	for _, e := range entries {
		name := path.Join(tmpDir, e.Name())
		f, err := s.root.Open(name)
		if err != nil {
			continue // renamed or removed meanwhile
		}
		if lock(f) == nil {
			// The writer may have renamed it after ReadDir; it holds the
			// lock until then, so a file that has the name still is stale.
			if here, err := s.root.Stat(name); err == nil {
				if fi, err := f.Stat(); err == nil && os.SameFile(here, fi) {
					_ = s.root.RemoveAll(name)
				}
			}
		}
		f.Close()
	}
	return nil
}

func lock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }

// Put implements [blob.Store].
func (s *Store) Put(ctx context.Context, key string, r io.Reader, limit int64) (_ blob.Info, err error) {
	if err := blob.CheckKey(key); err != nil {
		return blob.Info{}, err
	}
	tmp, f, err := s.create()
	if err != nil {
		return blob.Info{}, failure("put", key, err)
	}
	defer func() {
		if err != nil { // also of r: the caller's own
			_ = s.root.Remove(tmp)
		}
		_ = f.Close() // and unlock, after the rename
	}()
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(f, sum), &bounded{ctx: ctx, r: r, left: limit, limit: limit})
	if err != nil {
		return blob.Info{}, failure("put", key, err)
	}
	if err := f.Sync(); err != nil {
		return blob.Info{}, failure("put", key, err)
	}
	if err := s.place(tmp, key); err != nil {
		return blob.Info{}, failure("put", key, err)
	}
	return blob.Info{Key: key, Size: n, SHA256: hex.EncodeToString(sum.Sum(nil))}, nil
}

// create makes a temporary file that Clean of another process leaves alone.
func (s *Store) create() (string, *os.File, error) {
	for {
		name := path.Join(tmpDir, glovebox.NewID())
		f, err := s.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return "", nil, err
		}
		if err := lock(f); err != nil { // Clean looks at it, and removes it
			f.Close()
			continue
		}
		if fi, err := s.root.Stat(name); err == nil {
			if own, err := f.Stat(); err == nil && os.SameFile(fi, own) {
				return name, f, nil
			}
		}
		f.Close()
	}
}

// place gives a temporary file its key. A DeletePrefix at the same moment may
// remove the directory that was made for it: then it is made again.
func (s *Store) place(tmp, key string) error {
	dir := path.Dir(key)
	for try := 1; ; try++ {
		err := s.root.MkdirAll(dir, 0o700)
		if err == nil {
			err = s.root.Rename(tmp, key)
		}
		if err == nil {
			return s.syncDirs(dir)
		}
		// MkdirAll says "exists" of what was there and is no more.
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrExist) || try == placeTries {
			return err
		}
	}
}

// syncDirs makes the names in dir and in those above it survive loss of power.
func (s *Store) syncDirs(dir string) error {
	for {
		f, err := s.root.Open(dir)
		if errors.Is(err, fs.ErrNotExist) { // deleted meanwhile, which is no fault of Put
			return nil
		}
		if err != nil {
			return err
		}
		err = f.Sync()
		f.Close()
		if err != nil || dir == "." {
			return err
		}
		dir = path.Dir(dir)
	}
}

// bounded reads at most left bytes of r, and stops when ctx ends.
type bounded struct {
	ctx         context.Context
	r           io.Reader
	left, limit int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.r.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return n, glovebox.Errorf(glovebox.CodeTooLarge, "more than the %d bytes that are possible", b.limit)
	}
	return n, err
}

// Open implements [blob.Store].
func (s *Store) Open(_ context.Context, key string) (blob.Reader, error) {
	if err := blob.CheckKey(key); err != nil {
		return nil, err
	}
	f, err := s.root.Open(key)
	if err != nil {
		return nil, failure("open", key, err)
	}
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = fs.ErrNotExist // a prefix of keys
	}
	if err != nil {
		f.Close()
		return nil, failure("open", key, err)
	}
	return &reader{File: f, size: fi.Size()}, nil
}

type reader struct {
	*os.File
	size int64
}

func (r *reader) Size() int64 { return r.size }

// DeletePrefix implements [blob.Store].
func (s *Store) DeletePrefix(_ context.Context, prefix string) error {
	dir, ok := strings.CutSuffix(prefix, "/")
	if !ok {
		return glovebox.Invalid("prefix", "end it with a slash", "%q is not a prefix", prefix)
	}
	if err := blob.CheckKey(dir); err != nil {
		return err
	}
	fi, err := s.root.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !fi.IsDir() {
		return nil // a blob has that very key, without the slash
	}
	if err != nil {
		return failure("delete", prefix, err)
	}
	for range deleteTries {
		// A Put at the same moment can fill a directory again before it is
		// removed. What it writes came after the deletion, so it may stay.
		if err = s.root.RemoveAll(dir); !errors.Is(err, syscall.ENOTEMPTY) {
			break
		}
	}
	if err != nil && !errors.Is(err, syscall.ENOTEMPTY) {
		return failure("delete", prefix, err)
	}
	return failure("delete", prefix, s.syncDirs(path.Dir(dir)))
}

// List implements [blob.Lister].
func (s *Store) List(ctx context.Context, prefix string) ([]blob.Entry, error) {
	dir, ok := strings.CutSuffix(prefix, "/")
	if !ok {
		return nil, glovebox.Invalid("prefix", "end it with a slash", "%q is not a prefix", prefix)
	}
	if err := blob.CheckKey(dir); err != nil {
		return nil, err
	}
	entries, err := fs.ReadDir(s.root.FS(), dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, nil
	}
	if err != nil {
		return nil, failure("list", prefix, err)
	}
	out := make([]blob.Entry, 0, len(entries))
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return nil, failure("list", prefix, err)
		}
		fi, err := e.Info()
		if err != nil {
			continue // removed meanwhile
		}
		name := e.Name()
		if fi.IsDir() {
			name += "/"
		}
		out = append(out, blob.Entry{Name: name, Modified: fi.ModTime()})
	}
	return out, nil
}

// failure translates an error of the file system. Ours pass as they are.
func failure(op, what string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*glovebox.Error](err); ok {
		return err
	}
	e := &glovebox.Error{Code: glovebox.CodeInternal, Op: op + " blob", Msg: what, Err: err}
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR) && op == "open":
		e.Code, e.Msg, e.Err = glovebox.CodeNotFound, "there is no blob "+what, nil
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		e.Code, e.Msg, e.Hint = glovebox.CodeUnavailable, "the disk is full", "free some space in the data directory"
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.EISDIR), errors.Is(err, syscall.ENOTEMPTY), errors.Is(err, fs.ErrExist):
		e.Code, e.Msg = glovebox.CodeConflict, "a blob's key can't be "+what+", which is or lies below another's"
	case errors.Is(err, fs.ErrPermission):
		e.Code, e.Hint = glovebox.CodeUnavailable, "check who owns the data directory"
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		e.Code = glovebox.CodeUnavailable
	}
	return e
}
