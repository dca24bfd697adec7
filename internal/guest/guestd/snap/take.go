//go:build linux

package snap

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox"
)

// maxSkipped is how many paths that were left out are named.
const maxSkipped = 100

// excludedNames are directories that package managers and compilers rebuild.
var excludedNames = []string{
	"node_modules", "__pycache__", ".venv", ".tox", ".nox", ".pytest_cache", ".mypy_cache", ".ruff_cache",
	".gradle", ".parcel-cache", ".turbo", ".nyc_output",
}

// Excluded reports whether a directory is rebuilt rather than written: by its
// name, or because it carries the mark of a virtual environment or a cache.
func Excluded(dir, name string) bool {
	if slices.Contains(excludedNames, name) {
		return true
	}
	for _, mark := range []string{"pyvenv.cfg", "CACHEDIR.TAG"} {
		if _, err := os.Lstat(filepath.Join(dir, name, mark)); err == nil {
			return true
		}
	}
	return false
}

// As runs file work as the user whose files they are.
type As func(func() error) error

// cached is what a file was when it was last stored.
type cached struct {
	ino          uint64
	size         int64
	mtime, ctime unix.Timespec
	mode         uint32
	id           OID
}

// racy is how old a change must be before times tell whether there was
// another one since.
const racy = time.Second

// taker takes one snapshot.
type taker struct {
	r       *Repo
	dir     string
	start   time.Time
	seen    map[string]cached
	files   int
	skipped []string
	buf     []byte
}

// take stores the directory and returns its tree.
func (r *Repo) take(dir string, as As) (OID, []string, error) {
	if err := r.open(); err != nil {
		return OID{}, nil, err
	}
	t := &taker{r: r, dir: dir, start: time.Now(), seen: make(map[string]cached, len(r.cache))}
	var id OID
	err := as(func() (err error) {
		id, err = t.walk("", 0)
		return err
	})
	if err != nil {
		return OID{}, nil, err
	}
	r.cache = t.seen
	return id, t.skipped, nil
}

func (t *taker) skip(rel, why string) {
	if len(t.skipped) < maxSkipped {
		t.skipped = append(t.skipped, rel+": "+why)
	}
}

func (t *taker) walk(rel string, depth int) (OID, error) {
	full := filepath.Join(t.dir, rel)
	list, err := os.ReadDir(full)
	if err != nil {
		if rel == "" {
			return OID{}, err
		}
		t.skip(rel, "can't be read")
		list = nil
	}
	entries := make([]entry, 0, len(list))
	for _, d := range list {
		e, ok, err := t.entry(full, path.Join(rel, d.Name()), d, depth)
		if err != nil {
			return OID{}, err
		}
		if ok {
			entries = append(entries, e)
		}
	}
	return t.r.put(kindTree, marshalTree(entries))
}

// entry stores one name of a directory; ok is false if it is left out.
func (t *taker) entry(dir, rel string, d fs.DirEntry, depth int) (e entry, ok bool, err error) {
	if t.files++; t.files > MaxFiles {
		return e, false, glovebox.Errorf(glovebox.CodeLimit, "the workspace has more than %d files", MaxFiles)
	}
	e.name = d.Name()
	switch {
	case len(encodeName(e.name)) > 255:
		t.skip(rel, "name too long")
		return e, false, nil
	case d.IsDir():
		if Excluded(dir, e.name) {
			return e, false, nil
		}
		if depth >= maxDepth {
			t.skip(rel, "too deep")
			return e, false, nil
		}
		e.mode = modeDir
		e.id, err = t.walk(rel, depth+1)
		return e, err == nil, err
	case d.Type() == fs.ModeSymlink:
		to, lerr := os.Readlink(filepath.Join(dir, e.name))
		if lerr != nil {
			return e, false, nil //nolint:nilerr // gone or replaced meanwhile
		}
		e.mode = modeLink
		e.id, err = t.r.put(kindBlob, []byte(to))
		return e, err == nil, err
	case d.Type().IsRegular():
		return t.file(dir, rel, e)
	}
	t.skip(rel, "not a regular file")
	return e, false, nil
}

func (t *taker) file(dir, rel string, e entry) (entry, bool, error) {
	full := filepath.Join(dir, e.name)
	var st unix.Stat_t
	if err := unix.Lstat(full, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return e, false, nil //nolint:nilerr // gone or replaced meanwhile
	}
	e.mode = modeFile
	if st.Mode&0o111 != 0 {
		e.mode = modeExec
	}
	c := cached{ino: st.Ino, size: st.Size, mtime: st.Mtim, ctime: st.Ctim, mode: st.Mode}
	if old, ok := t.r.cache[rel]; ok {
		c.id = old.id
		if c == old {
			e.id = old.id
			t.seen[rel] = old
			return e, true, nil
		}
	}
	if st.Size > MaxFile {
		t.skip(rel, fmt.Sprintf("larger than %d MiB", MaxFile>>20))
		return e, false, nil
	}
	id, err := t.store(full)
	switch {
	case errors.Is(err, errOutside):
		return e, false, err
	case err != nil:
		t.skip(rel, "can't be read")
		return e, false, nil //nolint:nilerr // the checkpoint says what it skipped
	}
	e.id, c.id = id, id
	if t.start.Sub(time.Unix(st.Mtim.Unix())) > racy && t.start.Sub(time.Unix(st.Ctim.Unix())) > racy {
		t.seen[rel] = c
	}
	return e, true, nil
}

// errOutside marks failures of the repository's own file.
var errOutside = errors.New("store object")

// smallFile is up to which size a file is read into memory and hashed before
// anything is compressed: most files of a changed directory did not change.
const smallFile = 1 << 20

// store stores a file's content. One that shrinks while it is read is read
// again.
func (t *taker) store(full string) (OID, error) {
	var err error
	for range 3 {
		var id OID
		if id, err = t.storeOnce(full); err == nil || !errors.Is(err, io.ErrUnexpectedEOF) {
			return id, err
		}
	}
	return OID{}, err
}

func (t *taker) storeOnce(full string) (OID, error) {
	fd, err := unix.Open(full, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return OID{}, err
	}
	f := fdReader(fd)
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size > MaxFile {
		return OID{}, syscall.EINVAL
	}
	var id OID
	if st.Size <= smallFile {
		t.buf = slices.Grow(t.buf[:0], int(st.Size))[:st.Size]
		if _, err := io.ReadFull(f, t.buf); err != nil {
			return OID{}, io.ErrUnexpectedEOF
		}
		id = hashOf(kindBlob, t.buf)
		if _, ok := t.r.objects[id]; ok {
			return id, nil
		}
		_, err = t.r.stream(kindBlob, st.Size, bytes.NewReader(t.buf))
	} else {
		id, err = t.r.stream(kindBlob, st.Size, f)
	}
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return OID{}, fmt.Errorf("%w: %w", errOutside, err)
	}
	return id, err
}

// fdReader reads a descriptor without the runtime's poller, which regular
// files do not need.
type fdReader int

func (f fdReader) Read(p []byte) (int, error) {
	for {
		n, err := unix.Read(int(f), p)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return 0, err
		case n == 0 && len(p) > 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}
