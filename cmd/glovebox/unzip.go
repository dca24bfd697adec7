package main

import (
	"archive/zip"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
)

// Bounds of what is unpacked: those of an artifact, with room.
const (
	maxUnzipFiles = 200_000
	maxUnzipBytes = 16 << 30
)

// unzip writes the files of a zip below dir, replacing those of the same
// names, and returns how many. Nothing outside of dir can be written, whatever
// the zip and the directory hold.
func unzip(name, dir string) (int, error) {
	z, err := zip.OpenReader(name)
	if err != nil {
		return 0, err
	}
	defer z.Close()
	if len(z.File) > maxUnzipFiles {
		return 0, fmt.Errorf("the zip has %d files; at most %d are unpacked", len(z.File), maxUnzipFiles)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return 0, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return 0, err
	}
	defer root.Close()
	n, left := 0, int64(maxUnzipBytes)
	for _, f := range z.File {
		if f.FileInfo().IsDir() {
			continue
		}
		if !f.Mode().IsRegular() || !fs.ValidPath(f.Name) {
			return n, fmt.Errorf("%q is not a regular file with a plain name", f.Name)
		}
		if err := unzipFile(root, f, &left); err != nil {
			return n, fmt.Errorf("unpack %q: %w", f.Name, err)
		}
		n++
	}
	return n, nil
}

func unzipFile(root *os.Root, f *zip.File, left *int64) error {
	if dir := path.Dir(f.Name); dir != "." {
		if err := root.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	// A file that is there is replaced, not written through: it may be a link.
	if err := root.Remove(f.Name); err != nil && !os.IsNotExist(err) {
		return err
	}
	mode := fs.FileMode(0o644)
	if f.Mode()&0o111 != 0 {
		mode = 0o755
	}
	w, err := root.OpenFile(f.Name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	defer w.Close()
	r, err := f.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	n, err := io.Copy(w, io.LimitReader(r, *left+1))
	if *left -= n; err == nil && *left < 0 {
		err = fmt.Errorf("the files are larger than %d bytes", int64(maxUnzipBytes))
	}
	if err != nil {
		return err
	}
	if err := root.Chtimes(f.Name, f.Modified, f.Modified); err != nil && !os.IsNotExist(err) {
		return err
	}
	return w.Close()
}
