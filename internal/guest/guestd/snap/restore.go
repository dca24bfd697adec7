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
// Excluded), where its parent remains.
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
		if err := os.RemoveAll(filepath.Join(full, d.Name())); err != nil {
			return err
		}
	}
	for _, e := range entries {
		if err := r.writeEntry(dir, path.Join(rel, e.name), e); err != nil {
			return fmt.Errorf("restore %.200q: %w", path.Join(rel, e.name), err)
		}
	}
	return nil
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
