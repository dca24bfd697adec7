package history

import (
	"bytes"
	"context"
	"path"
	"slices"
	"strings"

	"github.com/glovebox-dev/glovebox"
)

// Bounds of a comparison.
const (
	maxFiles     = 1000     // files that are named
	maxCompared  = 1 << 20  // bytes of a file whose lines are compared
	maxCompares  = 32 << 20 // bytes of all files whose lines are compared
	maxLines     = 50_000   // of a file whose lines are compared
	maxFileText  = 256 << 10
	maxTotalText = 1 << 20
)

// Diff is how two states of a workspace differ.
type Diff struct {
	Files []FileDiff // in order of path
	More  bool       // not all are named: there are too many
}

// FileDiff is how a file differs.
type FileDiff struct {
	Path   string
	Status string // "added", "deleted" or "modified"

	// Lines; -1 where they were not counted.
	Added, Deleted int64

	Binary  bool   // it is no text: its lines were not compared
	Large   bool   // it, or all that changed, is too large: its lines were not compared
	Cut     bool   // Text is not all of it, or left out, since the answer would be too long
	Text    string // hunks of a unified diff, with three lines of context
	OldMode string // "file", "executable" or "symlink", whose target is its text; empty if it was not there
	NewMode string
}

// Diff compares the workspace at two commits. from may be empty: then it is
// compared with an empty one. If only is not empty, what is compared is the
// file or directory of that path. What lies in a nested .git is left out,
// unless only names it: it is other tools' bookkeeping.
func (r *Repo) Diff(ctx context.Context, from, to, only string) (Diff, error) {
	q := r.begin(ctx)
	defer q.end()
	d := &differ{q: q, counted: maxCompares, text: maxTotalText}
	only = path.Clean("/" + only)[1:]
	a, err := d.side(from, only)
	if err != nil {
		return Diff{}, err
	}
	b, err := d.side(to, only)
	if err != nil {
		return Diff{}, err
	}
	if only != "" && a.mode == 0 && b.mode == 0 {
		return Diff{}, noFile(only)
	}
	if err := d.entries(only, a, b, 0); err != nil {
		return Diff{}, err
	}
	slices.SortFunc(d.out.Files, func(a, b FileDiff) int { return strings.Compare(a.Path, b.Path) })
	return d.out, nil
}

// differ makes one Diff.
type differ struct {
	q       *query
	out     Diff
	visited int
	counted int64 // bytes that may still be compared
	text    int   // bytes of text that may still be put out
}

// side returns what is at a path at a commit; the zero entry if nothing is.
func (d *differ) side(commit, only string) (entry, error) {
	if commit == "" {
		return entry{}, nil
	}
	e, err := d.q.find(commit, only)
	if glovebox.CodeOf(err) == glovebox.CodeNotFound {
		return entry{}, nil
	}
	return e, err
}

// entries compares what was and is at a path.
func (d *differ) entries(rel string, a, b entry, depth int) error {
	if a.id == b.id && a.mode == b.mode || d.out.More {
		return nil
	}
	if a.mode == modeDir || b.mode == modeDir {
		if err := d.trees(rel, a, b, depth); err != nil {
			return err
		}
	}
	fa, fb := fileOf(a), fileOf(b)
	if fa.mode == 0 && fb.mode == 0 {
		return nil
	}
	if len(d.out.Files) >= maxFiles {
		d.out.More = true
		return nil
	}
	f, err := d.file(rel, fa, fb)
	d.out.Files = append(d.out.Files, f)
	return err
}

func fileOf(e entry) entry {
	if e.mode == modeDir {
		return entry{}
	}
	return e
}

// trees compares two directories, of which one may be nothing or a file.
func (d *differ) trees(rel string, a, b entry, depth int) error {
	if depth > maxDepth {
		return damaged("its directories are more than %d deep", maxDepth)
	}
	old, err := d.list(a)
	if err != nil {
		return err
	}
	now, err := d.list(b)
	if err != nil {
		return err
	}
	if d.visited += len(old) + len(now); d.visited > maxVisited {
		d.out.More = true
		return nil
	}
	for len(old) > 0 || len(now) > 0 { // both are sorted by name
		var x, y entry
		if len(now) == 0 || len(old) > 0 && old[0].name <= now[0].name {
			x = old[0]
		}
		if len(old) == 0 || len(now) > 0 && now[0].name <= old[0].name {
			y = now[0]
		}
		name := x.name
		if x.mode != 0 {
			old = old[1:]
		}
		if y.mode != 0 {
			name, now = y.name, now[1:]
		}
		if name == ".git" {
			continue
		}
		if err := d.entries(path.Join(rel, name), x, y, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func (d *differ) list(e entry) ([]entry, error) {
	if e.mode != modeDir {
		return nil, nil
	}
	return d.q.tree(e.id)
}

var modeNames = map[uint32]string{modeFile: "file", modeExec: "executable", modeLink: "symlink"}

func (d *differ) file(rel string, a, b entry) (FileDiff, error) {
	f := FileDiff{Path: rel, Status: "modified", Added: -1, Deleted: -1, OldMode: modeNames[a.mode], NewMode: modeNames[b.mode]}
	switch {
	case a.mode == 0:
		f.Status = "added"
	case b.mode == 0:
		f.Status = "deleted"
	}
	if a.id == b.id && a.mode != 0 && b.mode != 0 { // only the mode differs
		f.Added, f.Deleted = 0, 0
		return f, nil
	}
	old, ok, err := d.bytes(a)
	if err != nil {
		return f, err
	}
	now, ok2, err := d.bytes(b)
	if err != nil {
		return f, err
	}
	if f.Large = !ok || !ok2; f.Large {
		return f, nil
	}
	if f.Binary = isBinary(old) || isBinary(now); f.Binary {
		return f, nil
	}
	edits := compare(lines(old), lines(now))
	f.Added, f.Deleted = edits.count()
	text, cut := edits.unified(min(maxFileText, d.text))
	f.Text, f.Cut = strings.ToValidUTF8(text, "\uFFFD"), cut
	d.text -= min(d.text, len(f.Text))
	return f, nil
}

// bytes returns the content of a file; false if it is too large.
func (d *differ) bytes(e entry) ([]byte, bool, error) {
	if e.mode == 0 {
		return nil, true, nil
	}
	p, ok := d.q.r.place(e.id)
	if !ok || p.kind != kindBlob {
		return nil, false, lacks(e.id)
	}
	if p.size > maxCompared || p.size > d.counted {
		return nil, false, nil
	}
	d.counted -= p.size
	b, err := d.q.get(e.id, kindBlob, maxCompared)
	return b, bytes.Count(b, []byte("\n")) <= maxLines, err
}

func isBinary(b []byte) bool { return bytes.IndexByte(b[:min(len(b), 8000)], 0) >= 0 }
