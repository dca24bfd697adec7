//go:build linux

package guestd

import (
	"errors"
	"fmt"
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
	"google.golang.org/protobuf/proto"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest/guestpb"
	"github.com/glovebox-dev/glovebox/internal/guest/wire"
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
	if err == io.EOF {
		err = nil
	}
	return names, err
}

// get serves parts of regular files, one request after another. A failure
// ends the stream.
func (f *framed) get() error {
	for {
		var q guestpb.GetRequest
		if err := f.r.ReadMessage(&q); err != nil {
			return ignoreEnd(err)
		}
		if err := f.getOne(&q); err != nil {
			return err
		}
	}
}

// ignoreEnd is nil if the host has closed the stream between requests.
func ignoreEnd(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

// buffer returns n bytes of memory that are used again and again.
func (f *framed) buffer(n int64) []byte {
	f.buf = slices.Grow(f.buf[:0], int(n))
	return f.buf[:n]
}

func (f *framed) getOne(q *guestpb.GetRequest) error {
	if q.Offset < 0 || q.Limit < 0 || q.Limit > maxRead {
		return glovebox.Invalid("limit", fmt.Sprintf("read at most %d bytes at a time", maxRead), "offset %d and limit %d are out of range", q.Offset, q.Limit)
	}
	full, err := f.s.resolve(q.Path)
	if err != nil {
		return err
	}
	var file *os.File
	var size int64
	err = f.s.asUser(func() error {
		file, size, err = openRegular(full, 0)
		return err
	})
	if err != nil {
		return f.s.hide(err)
	}
	defer file.Close()
	if err := f.w.WriteMessage(&guestpb.GetReply{Size: size}); err != nil {
		return err
	}
	buf := f.buffer(min(wire.ChunkSize, max(1, min(q.Limit, size-q.Offset+1))))
	for off, left := q.Offset, q.Limit; left > 0; {
		n, err := file.ReadAt(buf[:min(left, int64(len(buf)))], off)
		if n > 0 {
			if err := f.w.Write(wire.FrameData, buf[:n]); err != nil {
				return err
			}
			off, left = off+int64(n), left-int64(n)
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return f.s.hide(err)
		}
	}
	return f.w.End()
}

// openRegular opens a regular file for reading without ever waiting, as a
// FIFO or a device could make it.
func openRegular(path string, flags int) (*os.File, int64, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC|flags, 0)
	if err != nil {
		return nil, 0, pathError("open", path, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return nil, 0, pathError("stat", path, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		unix.Close(fd)
		if st.Mode&unix.S_IFMT == unix.S_IFDIR {
			return nil, 0, pathError("read", path, unix.EISDIR)
		}
		return nil, 0, glovebox.Errorf(glovebox.CodeInvalid, "%q is not a regular file", path)
	}
	return os.NewFile(uintptr(fd), path), st.Size, nil
}

// put writes files, one after another. A failure ends the stream.
func (f *framed) put() error {
	for {
		var q guestpb.PutRequest
		if err := f.r.ReadMessage(&q); err != nil {
			return ignoreEnd(err)
		}
		if err := f.putOne(&q); err != nil {
			return err
		}
		if cap(f.buf) > 1<<20 {
			f.buf = nil
		}
	}
}

func (f *framed) putOne(q *guestpb.PutRequest) error {
	if q.Size < 0 || q.Size > maxWrite {
		return glovebox.Errorf(glovebox.CodeTooLarge, "a file of %d bytes is larger than %d", q.Size, maxWrite)
	}
	data := f.buffer(min(q.Size, 1<<20) + 1)[:0]
	for body := wire.NewDataReader(f.r); ; {
		if len(data) == cap(data) {
			data = slices.Grow(data, wire.ChunkSize)
		}
		n, err := body.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		if int64(len(data)) > q.Size {
			return glovebox.Errorf(glovebox.CodeInvalid, "more than the announced %d bytes came", q.Size)
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
	}
	if int64(len(data)) != q.Size {
		return glovebox.Errorf(glovebox.CodeInvalid, "%d bytes came, not the announced %d", len(data), q.Size)
	}
	full, err := f.s.resolve(q.Path)
	if err != nil {
		return err
	}
	if err := f.s.asUser(func() error { return writeAtomic(full, data, fs.FileMode(q.Mode)) }); err != nil {
		return f.s.hide(err)
	}
	return f.w.End()
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
	case err == unix.ENOENT:
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
	case err != nil:
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
	fd, err := unix.Open(temp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, perm)
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

// send writes one message and flushes.
func (f *framed) send(m proto.Message) error {
	if err := f.w.WriteMessage(m); err != nil {
		return err
	}
	return f.w.Flush()
}
