//go:build linux

// Package state keeps the directory in which a sandbox has its job's state as
// files. It is told what to write part by part. A file is replaced whole or
// grows at its end, so that who reads one sees no half of it. What a host may
// ask for is bounded: the files are the sandbox's memory.
package state

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest"
)

// Dir is the directory. It is for one goroutine at a time.
type Dir struct {
	path  string
	stage string // a directory of the daemon's own, on the same file system
	root  bool

	files map[string]int64 // sizes; nil before it was looked at
	next  map[string]int64 // of files that are being brought, how much is there
}

// New returns the directory at path, which need not be there. Files are begun
// in stage. With root, files and directories are root's and read-only for all
// others; without, the daemon can't make them so.
func New(path, stage string, root bool) *Dir { return &Dir{path: path, stage: stage, root: root} }

// Reset removes all files.
func (d *Dir) Reset() error {
	if err := d.open(); err != nil {
		return err
	}
	d.files = nil // should removing fail half-way
	entries, err := os.ReadDir(d.path)
	errs := []error{err}
	for _, e := range entries {
		errs = append(errs, os.RemoveAll(filepath.Join(d.path, e.Name())))
	}
	errs = append(errs, os.RemoveAll(d.stage))
	d.next = nil
	return errors.Join(errs...)
}

// Apply does what a part says.
func (d *Dir) Apply(p guest.PublishPart) error {
	if err := check(p); err != nil {
		return err
	}
	if err := d.open(); err != nil {
		return err
	}
	switch {
	case p.Remove:
		return d.remove(p.Path)
	case p.Grow:
		return d.grow(p)
	}
	return d.bring(p)
}

// name is what a file may be called: also an empty stage of it has one.
var name = regexp.MustCompile(`^[0-9A-Za-z_-][0-9A-Za-z._-]{0,99}(/[0-9A-Za-z_-][0-9A-Za-z._-]{0,99})?$`)

func check(p guest.PublishPart) error {
	if !name.MatchString(p.Path) {
		return glovebox.Invalid("path", "use at most two segments of [0-9A-Za-z._-]", "%.200q can't be published", p.Path)
	}
	if p.Offset < 0 || p.Offset > guest.MaxPublishedFile-int64(len(p.Data)) {
		return glovebox.Errorf(glovebox.CodeTooLarge, "%s would be longer than %d bytes", p.Path, guest.MaxPublishedFile)
	}
	return nil
}

// open makes the directory, or makes the one that is there ours, and looks at
// what it holds.
func (d *Dir) open() error {
	if d.files != nil {
		return nil
	}
	if err := d.makeDir(d.path); err != nil {
		return err
	}
	files := map[string]int64{}
	err := filepath.WalkDir(d.path, func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			files[strings.TrimPrefix(p, d.path+"/")] = info.Size()
		}
		return err
	})
	if err == nil {
		d.files, d.next = files, map[string]int64{}
	}
	return err
}

// makeDir makes a directory that only root can write to.
func (d *Dir) makeDir(dir string) error {
	err := os.Mkdir(dir, 0o755)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return glovebox.Errorf(glovebox.CodeConflict, "%s is no directory in this image", filepath.Base(dir))
	}
	if !d.root {
		return nil
	}
	return errors.Join(os.Chown(dir, 0, 0), os.Chmod(dir, 0o555))
}

func (d *Dir) remove(path string) error {
	delete(d.files, path)
	err := os.Remove(filepath.Join(d.path, path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (d *Dir) grow(p guest.PublishPart) error {
	size, ok := d.files[p.Path]
	if !ok || size != p.Offset {
		return glovebox.Errorf(glovebox.CodeConflict, "%s has %d bytes, not %d", p.Path, size, p.Offset)
	}
	return d.write(filepath.Join(d.path, p.Path), unix.O_APPEND, p, func(n int64) { d.files[p.Path] = size + n })
}

// bring takes a part of a new file.
func (d *Dir) bring(p guest.PublishPart) error {
	if have := d.next[p.Path]; p.Offset != 0 && p.Offset != have {
		return glovebox.Errorf(glovebox.CodeConflict, "%d bytes of %s are there, not %d", have, p.Path, p.Offset)
	}
	if _, old := d.files[p.Path]; !old && len(d.files)+len(d.next) >= guest.MaxPublishedFiles {
		return glovebox.Errorf(glovebox.CodeTooLarge, "more than %d files", guest.MaxPublishedFiles)
	}
	if err := os.MkdirAll(d.stage, 0o700); err != nil {
		return err
	}
	staged := filepath.Join(d.stage, strings.ReplaceAll(p.Path, "/", "+"))
	flags := unix.O_APPEND
	if p.Offset == 0 {
		flags = unix.O_CREAT | unix.O_TRUNC
	}
	if err := d.write(staged, flags, p, func(n int64) { d.next[p.Path] = p.Offset + n }); err != nil || !p.Last {
		return err
	}
	size := d.next[p.Path]
	delete(d.next, p.Path)
	if dir := filepath.Dir(p.Path); dir != "." {
		if err := d.makeDir(filepath.Join(d.path, dir)); err != nil {
			return err
		}
	}
	if err := os.Rename(staged, filepath.Join(d.path, p.Path)); err != nil {
		return err
	}
	d.files[p.Path] = size
	return nil
}

// write adds the data of a part to a file and tells how much was written,
// also if not all could be.
func (d *Dir) write(path string, flags int, p guest.PublishPart, wrote func(int64)) error {
	perm := fs.FileMode(0o644)
	if d.root {
		perm = 0o444
	}
	f, err := os.OpenFile(path, os.O_WRONLY|flags|unix.O_NOFOLLOW, perm)
	if err != nil {
		return err
	}
	n, err := f.Write(p.Data)
	wrote(int64(n))
	if err == nil && flags&unix.O_CREAT != 0 {
		err = f.Chmod(perm) // whatever the umask is
	}
	return errors.Join(err, f.Close())
}
