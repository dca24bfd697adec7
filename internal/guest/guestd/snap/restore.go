//go:build linux

package snap

import (
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox"
)

// Restore makes the directory what it was at a commit. What is there and not
// in the commit is removed, except what a commit never contains (see
// Excluded), where its parent remains. Files that are as they should be are
// left alone, with their times: builds depend on them, and a restore that was
// interrupted goes on where it stopped.
func (r *Repo) Restore(dir, commit string, as As) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	id, err := ParseOID(commit)
	if err != nil {
		return err
	}
	tree, err := r.commitTree(id)
	if err != nil {
		return err
	}
	if err := r.complete(tree, 0); err != nil {
		return err
	}
	r.cache = map[string]cached{} // whatever it becomes, it is not what it was
	return as(func() error { return r.syncDir(dir, "", tree) })
}

// complete reports whether all objects of a tree are there, so that nothing
// is touched if they are not.
func (r *Repo) complete(tree OID, depth int) error {
	entries, err := r.tree(tree)
	if err != nil {
		return err
	}
	if depth > maxDepth {
		return glovebox.Errorf(glovebox.CodeInvalid, "the checkpoint is deeper than %d directories", maxDepth)
	}
	for _, e := range entries {
		if e.mode == modeDir {
			if err := r.complete(e.id, depth+1); err != nil {
				return err
			}
		} else if p, ok := r.objects[e.id]; !ok || p.kind != kindBlob {
			return glovebox.Errorf(glovebox.CodeNotFound, "the checkpoint lacks the blob %s", e.id)
		}
	}
	return nil
}

func (r *Repo) syncDir(dir, rel string, tree OID) error {
	entries, err := r.tree(tree)
	if err != nil {
		return err
	}
	want := make(map[string]entry, len(entries))
	for _, e := range entries {
		want[e.name] = e
	}
	full := filepath.Join(dir, rel)
	there, err := os.ReadDir(full)
	if err != nil {
		return err
	}
	for _, d := range there {
		e, ok := want[d.Name()]
		keep := ok && d.IsDir() && e.mode == modeDir || !ok && d.IsDir() && Excluded(full, d.Name())
		if keep {
			continue
		}
		if ok && d.Type().IsRegular() && r.holds(filepath.Join(full, d.Name()), e) {
			delete(want, d.Name())
			continue
		}
		if err := os.RemoveAll(filepath.Join(full, d.Name())); err != nil {
			return err
		}
	}
	for _, e := range entries {
		if _, ok := want[e.name]; !ok { // it is there
			continue
		}
		if err := r.writeEntry(dir, path.Join(rel, e.name), e); err != nil {
			return fmt.Errorf("restore %.200q: %w", path.Join(rel, e.name), err)
		}
	}
	return nil
}

// holds reports whether a regular file is what an entry stands for.
func (r *Repo) holds(full string, e entry) bool {
	if e.mode != modeFile && e.mode != modeExec {
		return false
	}
	fd, err := unix.Open(full, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	size := r.objects[e.id].size
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size != size || (st.Mode&0o111 != 0) != (e.mode == modeExec) {
		return false
	}
	h := newHash(kindBlob, size)
	n, err := io.Copy(h, io.LimitReader(fdReader(fd), size+1))
	return err == nil && n == size && OID(h.Sum(nil)) == e.id
}

func (r *Repo) writeEntry(dir, rel string, e entry) error {
	full := filepath.Join(dir, rel)
	switch e.mode {
	case modeDir:
		if err := os.Mkdir(full, 0o755); err != nil && !os.IsExist(err) {
			return err
		}
		return r.syncDir(dir, rel, e.id)
	case modeLink:
		to, err := r.get(e.id, kindBlob, 4096)
		if err != nil {
			return err
		}
		return os.Symlink(string(to), full)
	}
	perm := os.FileMode(0o644)
	if e.mode == modeExec {
		perm = 0o755
	}
	body, _, err := r.reader(e.id, kindBlob)
	if err != nil {
		return err
	}
	defer body.Close()
	f, err := os.OpenFile(full, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, perm)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, body)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}
