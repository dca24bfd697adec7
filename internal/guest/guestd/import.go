//go:build linux

package guestd

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest/guestpb"
	"github.com/glovebox-dev/glovebox/internal/guest/wire"
)

// Bounds of an imported archive.
const (
	maxImportFiles = 200_000
	maxImportBytes = 16 << 30 // unpacked; the sandbox's own limit comes first
)

// importArchive unpacks an archive.
func (f *framed) importArchive() error {
	var q guestpb.ImportRequest
	if err := f.r.ReadMessage(&q); err != nil {
		return err
	}
	dir, err := f.s.resolveDir(q.Dir)
	if err != nil {
		return err
	}
	f.s.snapMu.Lock()
	defer f.s.snapMu.Unlock()
	u := &unpacker{s: f.s, dir: dir, buf: make([]byte, wire.ChunkSize)}
	if err := f.s.makeDir(f.s.virtual(dir)); err != nil {
		return err
	}
	body := wire.NewDataReader(f.r)
	switch q.Format {
	case "tar.gz":
		err = u.tarGzip(body)
	case "zip":
		err = u.zip(body, f.s.real(stateDir))
	default:
		err = glovebox.Invalid("format", "use zip or tar.gz", "%.20q is no format that can be unpacked", q.Format)
	}
	if err != nil {
		return f.s.hide(err)
	}
	if _, err := io.Copy(io.Discard, body); err != nil {
		return err
	}
	return f.w.End()
}

type unpacker struct {
	s     *Server
	dir   string
	buf   []byte
	files int
	bytes int64
}

func (u *unpacker) tarGzip(r io.Reader) error {
	gz, err := gzip.NewReader(r)
	if err != nil {
		return glovebox.Errorf(glovebox.CodeInvalid, "the archive is not a tar.gz: %w", err)
	}
	for tr := tar.NewReader(gz); ; {
		h, err := tr.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return glovebox.Errorf(glovebox.CodeInvalid, "the archive is damaged: %w", err)
		}
		if h.Typeflag != tar.TypeReg && h.Typeflag != tar.TypeDir {
			continue
		}
		if err := u.entry(h.Name, h.FileInfo().Mode(), tr); err != nil {
			return err
		}
	}
}

// zip spools the archive first: its directory is at its end.
func (u *unpacker) zip(r io.Reader, spoolDir string) error {
	spool, err := os.CreateTemp(spoolDir, "import-")
	if err != nil {
		return err
	}
	defer spool.Close()
	defer os.Remove(spool.Name())
	size, err := io.Copy(spool, io.LimitReader(r, maxImportBytes))
	if err != nil {
		return err
	}
	zr, err := zip.NewReader(spool, size)
	if err != nil {
		return glovebox.Errorf(glovebox.CodeInvalid, "the archive is not a zip: %w", err)
	}
	for _, zf := range zr.File {
		mode := zf.Mode()
		if !mode.IsRegular() && !mode.IsDir() {
			continue
		}
		body, err := zf.Open()
		if err != nil {
			return glovebox.Errorf(glovebox.CodeInvalid, "%.200q in the archive is damaged: %w", zf.Name, err)
		}
		err = u.entry(zf.Name, mode, body)
		body.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// entry unpacks a directory or a regular file. The archive is in a directory
// that others write to, so links are not followed below it.
func (u *unpacker) entry(name string, mode fs.FileMode, r io.Reader) error {
	if u.files++; u.files > maxImportFiles {
		return glovebox.Errorf(glovebox.CodeTooLarge, "the archive has more than %d files", maxImportFiles)
	}
	name = filepath.Clean(name)
	if _, err := cleanJoin(u.dir, name); err != nil {
		return err
	}
	root, err := os.OpenRoot(u.dir)
	if err != nil {
		return err
	}
	defer root.Close()
	var w *os.File
	err = u.s.asUser(func() error {
		if mode.IsDir() {
			return root.MkdirAll(name, 0o755)
		}
		if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		_ = root.Remove(name)
		var err error
		w, err = root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, mode.Perm()|0o600)
		return err
	})
	if err != nil || w == nil {
		return err
	}
	n, err := io.CopyBuffer(struct{ io.Writer }{w}, io.LimitReader(r, maxImportBytes-u.bytes+1), u.buf)
	if cerr := w.Close(); err == nil {
		err = cerr
	}
	if u.bytes += n; err == nil && u.bytes > maxImportBytes {
		err = glovebox.Errorf(glovebox.CodeTooLarge, "the archive unpacks to more than %d bytes", int64(maxImportBytes))
	}
	if err != nil {
		return fmt.Errorf("unpack %.200q: %w", name, err)
	}
	return nil
}
