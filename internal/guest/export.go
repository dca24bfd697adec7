package guest

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest/guestpb"
	"github.com/glovebox-dev/glovebox/internal/guest/wire"
)

// Bounds of an export.
const (
	maxExportEntries = 2_000_000 // names seen
	maxExportDir     = 1 << 20   // names in one directory
	maxExportDepth   = 256
	maxExportPath    = 4096
	maxExportName    = 255
	maxExportBatch   = 256 // files asked for at once
)

// ignoreFile is shown to the filter before what is beside it.
const ignoreFile = ".gitignore"

// Export streams the regular files below dir to f, in order of path. Paths
// are relative, clean, and never leave dir; symbolic links and other kinds of
// file are reported through skipped with a reason. A file that grows while it
// is exported is cut at the size that keep was shown.
//
// The host asks for each listing and each file by itself, so a guest can
// answer wrongly, but not put a path of its own in.
func (c *Client) Export(ctx context.Context, dir string, keep ExportFilter, f func(ExportFile) error, skipped func(path, reason string)) error {
	s, err := c.exchange(ctx, "export", wire.KindExport, &guestpb.ExportRoot{Dir: dir}, false)
	if err != nil {
		return err
	}
	defer s.close()
	if keep == nil {
		keep = func(string, fs.FileMode, int64) bool { return true }
	}
	if skipped == nil {
		skipped = func(string, string) {}
	}
	x := &export{s: s, keep: keep, f: f, skipped: skipped}
	if err := x.dir("", 0); err != nil {
		if ce, ok := errors.AsType[callerError](err); ok {
			return ce.error
		}
		return s.fail(err)
	}
	return nil
}

// callerError is what the caller's own function returned.
type callerError struct{ error }

type export struct {
	s       *framed
	keep    ExportFilter
	f       func(ExportFile) error
	skipped func(path, reason string)
	seen    int
}

func lie(format string, args ...any) error {
	return glovebox.Errorf(glovebox.CodeUnavailable, "the guest's answer can't be true: "+format, args...)
}

func (x *export) request(m *guestpb.ExportRequest) error {
	if err := x.s.w.WriteMessage(m); err != nil {
		return err
	}
	return x.s.w.Flush()
}

// dir exports a directory: it asks for the listing, then, in order, for
// stretches of files and for the directories between them.
func (x *export) dir(rel string, depth int) error {
	entries, err := x.list(rel)
	if err != nil {
		return err
	}
	var batch []Entry
	flush := func() error {
		b := batch
		batch = batch[:0]
		return x.files(rel, b)
	}
	ignore, keepIgnore := slices.IndexFunc(entries, func(e Entry) bool { return e.Path == ignoreFile }), false
	if ignore >= 0 {
		keepIgnore = x.keep(path.Join(rel, ignoreFile), entries[ignore].Mode, entries[ignore].Size)
	}
	for i, e := range entries {
		p := path.Join(rel, e.Path)
		switch {
		case !validName(e.Path) || len(p) > maxExportPath:
			x.skipped(wire.CleanText(p, maxExportPath), "name can't be kept")
		case i == ignore && !keepIgnore || i != ignore && !x.keep(p, e.Mode, e.Size):
		case e.Mode.IsDir() && depth >= maxExportDepth:
			x.skipped(p, "too deep")
		case e.Mode.IsDir():
			if err := flush(); err != nil {
				return err
			}
			if err := x.dir(p, depth+1); err != nil {
				return err
			}
		case e.Mode&fs.ModeSymlink != 0:
			x.skipped(p, "symbolic link")
		case !e.Mode.IsRegular():
			x.skipped(p, "not a regular file")
		default:
			if batch = append(batch, e); len(batch) == maxExportBatch {
				if err := flush(); err != nil {
					return err
				}
			}
		}
	}
	return flush()
}

// list asks for a directory. Names must be in strictly ascending order, which
// also excludes double ones; a directory sorts with a slash at its end.
func (x *export) list(rel string) ([]Entry, error) {
	if err := x.request(&guestpb.ExportRequest{Dir: rel}); err != nil {
		return nil, err
	}
	var entries []Entry
	last := ""
	for more := true; more; {
		var m guestpb.EntryList
		if err := x.s.r.ReadMessage(&m); err != nil {
			return nil, err
		}
		more = m.More
		if more && len(m.Entries) == 0 {
			return nil, lie("an empty part of the directory %.200q", rel)
		}
		for _, pe := range m.Entries {
			e := Entry{Path: pe.Path, Mode: fs.FileMode(pe.Mode), Size: pe.Size, ModTime: time.Unix(0, pe.ModTime)}
			if e.Path == "." {
				if rel == "" {
					return nil, glovebox.Errorf(glovebox.CodeNotFound, "%s", wire.CleanText(pe.Link, 300))
				}
				x.skipped(rel, wire.CleanText(pe.Link, 300))
				return nil, nil
			}
			key := sortKey(e)
			_, twice := slices.BinarySearchFunc(entries, e.Path, func(e Entry, name string) int { return strings.Compare(sortKey(e), name) })
			if key <= last || e.Size < 0 || twice {
				return nil, lie("%.200q after %.200q in the directory %.200q", key, last, rel)
			}
			last = key
			entries = append(entries, e)
		}
		if x.seen += len(m.Entries); x.seen > maxExportEntries || len(entries) > maxExportDir {
			return nil, glovebox.Errorf(glovebox.CodeTooLarge, "there are too many files to export: %d, or %d in the directory %.200q", x.seen, len(entries), rel)
		}
	}
	return entries, nil
}

// sortKey is what a name is sorted by, so that whole paths come in order.
func sortKey(e Entry) string {
	if e.Mode.IsDir() {
		return e.Path + "/"
	}
	return e.Path
}

// files asks for some files of a directory and hands them over.
func (x *export) files(rel string, batch []Entry) error {
	if len(batch) == 0 {
		return nil
	}
	q := &guestpb.ExportRequest{Dir: rel}
	for _, e := range batch {
		q.Files = append(q.Files, e.Path)
		q.Sizes = append(q.Sizes, e.Size)
	}
	if err := x.request(q); err != nil {
		return err
	}
	for _, e := range batch {
		if err := x.file(path.Join(rel, e.Path), e); err != nil {
			return err
		}
	}
	return nil
}

func (x *export) file(p string, want Entry) error {
	var m guestpb.Entry
	if err := x.s.r.ReadMessage(&m); err != nil {
		return err
	}
	if m.Path != want.Path || m.Size > want.Size || m.Size < -1 {
		return lie("%.200q of %d bytes for %.200q of %d", m.Path, m.Size, want.Path, want.Size)
	}
	if m.Size < 0 {
		x.skipped(p, wire.CleanText(m.Link, 300))
		return nil
	}
	want.Path, want.Size, want.Mode, want.ModTime = p, m.Size, fs.FileMode(m.Mode).Perm(), time.Unix(0, m.ModTime)
	body := &exportBody{x: x, left: m.Size}
	if err := x.f(ExportFile{Entry: want, Body: body}); err != nil {
		return callerError{err}
	}
	_, err := io.Copy(io.Discard, body) // what f did not read
	if errors.Is(err, errShrank) {
		err = nil // f was told, or did not care
	}
	return err
}

// errShrank is the error of a file that became shorter while it was sent.
var errShrank = errors.New("the file shrank while it was exported")

// exportBody is the content of one file.
type exportBody struct {
	x    *export
	left int64
	rest []byte
	err  error
}

// Read implements io.Reader.
func (b *exportBody) Read(p []byte) (int, error) {
	for len(b.rest) == 0 {
		if b.err == nil && b.left == 0 {
			b.err = io.EOF
		}
		if b.err != nil {
			return 0, b.err
		}
		fr, err := b.x.s.r.Read()
		switch {
		case errors.Is(err, io.EOF):
			b.err = io.ErrUnexpectedEOF
		case err != nil:
			b.err = err
		case fr.Type == wire.FrameEnd:
			b.err = errShrank
		case fr.Type != wire.FrameData:
			b.err = wire.Unexpected(fr)
		case int64(len(fr.Data)) > b.left:
			b.err = lie("more of a file than its size")
		default:
			b.rest = fr.Data
			b.left -= int64(len(fr.Data))
		}
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// validName reports whether a name from a guest can be that of one file.
func validName(n string) bool {
	return n != "" && n != "." && n != ".." && len(n) <= maxExportName && utf8.ValidString(n) &&
		!strings.ContainsAny(n, "/\\\x00") && strings.IndexFunc(n, func(r rune) bool { return r < ' ' || r == 0x7f }) < 0
}

// cleanRelative reports whether p is a clean relative path of valid names.
func cleanRelative(p string) bool {
	if len(p) > maxExportPath {
		return false
	}
	for name := range strings.SplitSeq(p, "/") {
		if !validName(name) {
			return false
		}
	}
	return true
}

// Import unpacks a "zip" or "tar.gz" into dir: regular files and directories,
// nothing outside dir, replacing files that are there. At most 200,000 entries.
func (c *Client) Import(ctx context.Context, dir string, archive io.Reader, format string) error {
	if format != "zip" && format != "tar.gz" {
		return glovebox.Invalid("format", "use zip or tar.gz", "%.20q is no format that can be unpacked", format)
	}
	f, err := c.exchange(ctx, "import", wire.KindImport, &guestpb.ImportRequest{Dir: dir, Format: format}, false)
	if err != nil {
		return err
	}
	defer f.close()
	if err := f.copy(archive); err != nil {
		return f.fail(err)
	}
	return f.finish()
}
