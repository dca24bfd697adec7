//go:build linux

package guestd

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest/guestpb"
	"github.com/glovebox-dev/glovebox/internal/guest/wire"
)

// listChunk is how many entries of a directory go into one message.
const listChunk = 1000

// export answers requests for listings and contents below one directory. The
// host decides what it asks for; a directory is reached component by
// component without following symbolic links, so that nothing outside can be
// read by swapping one in.
func (f *framed) export() error {
	var root guestpb.ExportRoot
	if err := f.r.ReadMessage(&root); err != nil {
		return err
	}
	dir, err := f.s.resolveDir(root.Dir)
	if err != nil {
		return err
	}
	x := &exporter{f: f, buf: make([]byte, wire.ChunkSize)}
	err = f.s.asUser(func() error {
		x.root, err = unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		return pathError("open", dir, err)
	})
	if err != nil {
		return f.s.hide(err)
	}
	defer unix.Close(x.root)
	for {
		fr, err := f.r.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if fr.Type != wire.FrameMessage {
			return wire.Unexpected(fr)
		}
		var q guestpb.ExportRequest
		if err := proto.Unmarshal(fr.Data, &q); err != nil {
			return err
		}
		if err := x.answer(&q); err != nil {
			return err
		}
		if err := f.w.Flush(); err != nil {
			return err
		}
	}
}

type exporter struct {
	f    *framed
	root int
	buf  []byte
}

func (x *exporter) answer(q *guestpb.ExportRequest) error {
	if len(q.Files) != len(q.Sizes) {
		return glovebox.Invalid("sizes", "one a file", "%d sizes for %d files", len(q.Sizes), len(q.Files))
	}
	var dir int
	err := x.f.s.asUser(func() (err error) {
		dir, err = openBelow(x.root, q.Dir)
		return pathError("open", q.Dir, err)
	})
	if len(q.Files) == 0 {
		if err != nil {
			return x.listing(nil, err)
		}
		defer unix.Close(dir)
		var entries []*guestpb.Entry
		err = x.f.s.asUser(func() (err error) { entries, err = listAt(dir); return err })
		return x.listing(entries, err)
	}
	if err == nil {
		defer unix.Close(dir)
	}
	for at := 0; at < len(q.Files); at += maxTogether {
		end := min(at+maxTogether, len(q.Files))
		if err := x.files(dir, q.Files[at:end], q.Sizes[at:end], err); err != nil {
			return err
		}
	}
	return nil
}

// files sends some files of a directory, which dirErr says can't be read. All
// are opened at once, since only that has to be done as the tools' user.
func (x *exporter) files(dir int, names []string, limits []int64, dirErr error) error {
	fds, errs := slices.Repeat([]int{-1}, len(names)), make([]error, len(names))
	err := x.f.s.asUser(func() error {
		for i, name := range names {
			if errs[i] = dirErr; dirErr == nil {
				fds[i], errs[i] = openFileAt(dir, name)
			}
		}
		return nil
	})
	for i, name := range names {
		if err == nil {
			err = x.file(fds[i], name, limits[i], errs[i])
		}
		if fds[i] >= 0 {
			unix.Close(fds[i])
		}
	}
	return err
}

func openFileAt(dir int, name string) (int, error) {
	if name == "" || strings.ContainsAny(name, "/\x00") || name == ".." {
		return -1, unix.EINVAL
	}
	return unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
}

// openBelow opens a directory below another one without following links.
func openBelow(root int, rel string) (int, error) {
	dir, err := unix.Dup(root)
	if err != nil {
		return -1, err
	}
	unix.CloseOnExec(dir)
	for name := range strings.SplitSeq(rel, "/") {
		if name == "" {
			continue
		}
		if name == ".." || name == "." {
			unix.Close(dir)
			return -1, unix.EINVAL
		}
		next, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		unix.Close(dir)
		if err != nil {
			return -1, err
		}
		dir = next
	}
	return dir, nil
}

// listAt describes what is in an open directory, in the order of whole paths:
// a directory sorts as if its name ended with a slash.
func listAt(fd int) ([]*guestpb.Entry, error) {
	dup, err := unix.Dup(fd)
	if err != nil {
		return nil, err
	}
	d := os.NewFile(uintptr(dup), "directory")
	names, err := d.Readdirnames(maxNames)
	d.Close()
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	entries := make([]*guestpb.Entry, 0, len(names))
	for _, n := range names {
		var st unix.Stat_t
		if unix.Fstatat(fd, n, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
			continue // gone meanwhile
		}
		entries = append(entries, &guestpb.Entry{Path: listName(n), Mode: uint32(fileMode(&st)), Size: st.Size, ModTime: st.Mtim.Nano()})
	}
	slices.SortFunc(entries, func(a, b *guestpb.Entry) int { return strings.Compare(sortName(a), sortName(b)) })
	return entries, nil
}

// listName is a name as it is listed. Messages hold UTF-8 only. A name that is
// not gets a form that no file has, and no other name gets: the host refuses
// to keep it, and names it in the manifest.
func listName(n string) string {
	if utf8.ValidString(n) {
		return n
	}
	q := strconv.QuoteToASCII(n)
	return "/" + q[1:len(q)-1]
}

func sortName(e *guestpb.Entry) string {
	if os.FileMode(e.Mode).IsDir() {
		return e.Path + "/"
	}
	return e.Path
}

// fileMode is the mode of a stat as package os has it.
func fileMode(st *unix.Stat_t) os.FileMode {
	m := os.FileMode(st.Mode & 0o777)
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		m |= os.ModeDir
	case unix.S_IFLNK:
		m |= os.ModeSymlink
	case unix.S_IFIFO:
		m |= os.ModeNamedPipe
	case unix.S_IFSOCK:
		m |= os.ModeSocket
	case unix.S_IFCHR:
		m |= os.ModeDevice | os.ModeCharDevice
	case unix.S_IFBLK:
		m |= os.ModeDevice
	case unix.S_IFREG:
	default:
		m |= os.ModeIrregular
	}
	return m
}

// listing sends entries in messages, the last one with More unset. A
// directory that can't be read is one message that says so in Link.
func (x *exporter) listing(entries []*guestpb.Entry, err error) error {
	if err != nil {
		return x.f.w.WriteMessage(&guestpb.EntryList{Entries: []*guestpb.Entry{{Path: ".", Link: wire.CleanText(err.Error(), 200)}}})
	}
	for {
		n := min(len(entries), listChunk)
		more := n < len(entries)
		if err := x.f.w.WriteMessage(&guestpb.EntryList{Entries: entries[:n], More: more}); err != nil || !more {
			return err
		}
		entries = entries[n:]
	}
}

// file sends a message that describes a file, then that many bytes of it, or
// a message with a negative size if it can't be read any more.
func (x *exporter) file(fd int, name string, limit int64, err error) error {
	var st unix.Stat_t
	if err == nil {
		if err = unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
			err = errors.New("not a regular file any more")
		}
	}
	if err != nil {
		return x.f.w.WriteMessage(&guestpb.Entry{Path: name, Size: -1, Link: wire.CleanText(err.Error(), 200)})
	}
	left := min(st.Size, limit)
	if err := x.f.w.WriteMessage(&guestpb.Entry{Path: name, Mode: uint32(fileMode(&st)), Size: left, ModTime: st.Mtim.Nano()}); err != nil {
		return err
	}
	for left > 0 {
		n, err := unix.Read(fd, x.buf[:min(left, int64(len(x.buf)))])
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			// What was promised can't be had: it shrank. The host fails this file.
			return x.f.w.Write(wire.FrameEnd, nil)
		}
		if err := x.f.w.Write(wire.FrameData, x.buf[:n]); err != nil {
			return err
		}
		left -= int64(n)
	}
	return nil
}

// cleanJoin joins a name from an archive to a directory if it stays inside.
func cleanJoin(dir, name string) (string, error) {
	if !filepath.IsLocal(name) || strings.IndexByte(name, 0) >= 0 || len(name) > 4000 {
		return "", glovebox.Errorf(glovebox.CodeInvalid, "the archive contains the path %.200q, which leads out of it", name)
	}
	return filepath.Join(dir, name), nil
}
