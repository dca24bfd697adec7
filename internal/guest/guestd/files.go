//go:build linux

package guestd

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest/guestpb"
)

// Bounds of file calls.
const (
	maxRead    = 16 << 20
	maxWrite   = 64 << 20
	maxEntries = 10_000
)

// errno is a system call's error as the file functions of os return it.
func pathError(op, path string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: path, Err: err}
}

// entryOf describes a file for the host. Messages hold UTF-8 only: of a name
// that is not, what can be is shown, so that it does not hide the others.
func entryOf(name string, info fs.FileInfo, dir string) *guestpb.Entry {
	e := &guestpb.Entry{Path: strings.ToValidUTF8(name, "\uFFFD"), Mode: uint32(info.Mode()), Size: info.Size(), ModTime: info.ModTime().UnixNano()}
	if info.Mode()&fs.ModeSymlink != 0 {
		link, _ := os.Readlink(filepath.Join(dir, info.Name()))
		e.Link = strings.ToValidUTF8(link, "\uFFFD")
	}
	return e
}

func (s *Server) stat(p string) (*guestpb.Entry, error) {
	full, err := s.resolve(p)
	if err != nil {
		return nil, err
	}
	var e *guestpb.Entry
	err = s.asUser(func() error {
		info, err := os.Lstat(full)
		if err == nil {
			e = entryOf(s.virtual(full), info, filepath.Dir(full))
		}
		return err
	})
	return e, s.hide(err)
}

// hide replaces real paths in an error by those of the sandbox.
func (s *Server) hide(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok && s.o.Root != "" {
		return &fs.PathError{Op: pe.Op, Path: s.virtual(pe.Path), Err: pe.Err}
	}
	return err
}

func (s *Server) readDir(p string) (*guestpb.EntryList, error) {
	full, err := s.resolve(p)
	if err != nil {
		return nil, err
	}
	list := &guestpb.EntryList{}
	err = s.asUser(func() error {
		names, err := readNames(full)
		if err != nil {
			return err
		}
		slices.Sort(names)
		if len(names) > maxEntries {
			names, list.More = names[:maxEntries], true
		}
		for _, n := range names {
			if info, err := os.Lstat(filepath.Join(full, n)); err == nil {
				list.Entries = append(list.Entries, entryOf(n, info, full))
			}
		}
		return nil
	})
	return list, s.hide(err)
}

// maxNames is how many names of one directory are read.
const maxNames = 1 << 20

// readNames reads the names in a directory, which must not be a symbolic
// link's doing: dir itself is opened as it is.
func readNames(dir string) ([]string, error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, pathError("open", dir, err)
	}
	d := os.NewFile(uintptr(fd), dir)
	defer d.Close()
	names, err := d.Readdirnames(maxNames)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return names, err
}

// ignoreEnd is nil if the host has closed the stream between requests.
func ignoreEnd(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

// openRegular opens a regular file for reading without ever waiting, as a
// FIFO or a device could make it.
func openRegular(path string) (fd int, size int64, err error) {
	fd, err = unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, 0, pathError("open", path, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return -1, 0, pathError("stat", path, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		unix.Close(fd)
		if st.Mode&unix.S_IFMT == unix.S_IFDIR {
			return -1, 0, pathError("read", path, unix.EISDIR)
		}
		return -1, 0, glovebox.Errorf(glovebox.CodeInvalid, "%q is not a regular file", path)
	}
	return fd, st.Size, nil
}

// tempMark is in the name of every file that is not whole yet.
const tempMark = ".glovebox-"

var tempSeq atomic.Uint64

// writeAtomic writes a file whole or not at all: beside its place, then
// renamed onto it. A symbolic link is followed, so that it stays one. mode 0
// keeps the mode of a file that is there, else 0644.
func writeAtomic(path string, data []byte, mode fs.FileMode) error {
	perm := uint32(mode.Perm())
	var st unix.Stat_t
	switch err := unix.Lstat(path, &st); {
	case err == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK:
		if to, lerr := filepath.EvalSymlinks(path); lerr == nil {
			path, err = to, unix.Lstat(to, &st)
		}
		if err != nil {
			return pathError("stat", path, err)
		}
	case err != nil && err != unix.ENOENT:
		return pathError("write", path, err)
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return pathError("write", path, unix.EISDIR)
	}
	if perm == 0 {
		perm = 0o644
		if st.Mode&unix.S_IFMT == unix.S_IFREG {
			perm = st.Mode & 0o777
		}
	}
	return replaceFile(path, data, perm)
}

func replaceFile(path string, data []byte, perm uint32) error {
	dir, base := filepath.Split(path)
	if len(base) > 200 {
		base = base[:200] // a name may have 255 bytes
	}
	temp := dir + "." + base + tempMark + strconv.FormatUint(tempSeq.Add(1), 36) + strconv.FormatInt(time.Now().UnixNano(), 36)
	const flags = unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Open(temp, flags, perm)
	if err == unix.ENOENT {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		fd, err = unix.Open(temp, flags, perm)
	}
	if err != nil {
		return pathError("create", path, err)
	}
	for b := data; len(b) > 0 && err == nil; {
		var n int
		if n, err = unix.Write(fd, b); err == unix.EINTR {
			err = nil
		}
		b = b[max(n, 0):]
	}
	if err == nil && perm&0o022 != 0 { // the umask may have taken some away
		err = unix.Fchmod(fd, perm)
	}
	if cerr := unix.Close(fd); err == nil {
		err = cerr
	}
	if err == nil {
		err = unix.Rename(temp, path)
	}
	if err != nil {
		_ = unix.Unlink(temp)
		return pathError("write", path, err)
	}
	return nil
}

func (s *Server) move(from, to string) error {
	src, err := s.resolve(from)
	if err != nil {
		return err
	}
	dst, err := s.resolve(to)
	if err != nil {
		return err
	}
	return s.hide(s.asUser(func() error {
		if _, err := os.Lstat(src); err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(dst), 0o755); err != nil {
			return err
		}
		err := unix.Renameat2(unix.AT_FDCWD, src, unix.AT_FDCWD, dst, unix.RENAME_NOREPLACE)
		if errors.Is(err, unix.EINVAL) && !strings.HasPrefix(dst, src+"/") || errors.Is(err, unix.ENOSYS) {
			// Not every file system can refuse to replace by itself.
			if _, serr := os.Lstat(dst); serr == nil {
				err = unix.EEXIST
			} else {
				err = unix.Rename(src, dst)
			}
		}
		return pathError("move to", dst, err)
	}))
}

func (s *Server) remove(p string) error {
	full, err := s.resolve(p)
	if err != nil {
		return err
	}
	return s.hide(s.asUser(func() error {
		if _, err := os.Lstat(full); err != nil {
			return err
		}
		return os.RemoveAll(full)
	}))
}

func (s *Server) makeDir(p string) error {
	full, err := s.resolve(p)
	if err != nil {
		return err
	}
	return s.hide(s.asUser(func() error { return os.MkdirAll(full, 0o755) }))
}
