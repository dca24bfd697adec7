// Package history reads the workspace of a job as it was at any step, on the
// host, out of the packs that its checkpoints are kept as.
//
// The packs come from a sandbox, so nothing in them is believed: they are
// parsed with bounds on their size, the number and size of objects, what they
// inflate to, the depth of directories and the form of names; every object is
// known by the SHA-1 of its content alone, so one can't stand for another.
// Packs with deltas, which checkpoints never have, are refused. Nothing is
// written anywhere.
//
// A [Repo] holds the places of a job's objects and reads contents from the
// packs when they are asked for. A [Cache] keeps the repositories of the jobs
// that were looked at last, so that going through the steps of a job reads
// each pack once.
package history

import (
	"bufio"
	"context"
	"io"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/glovebox-dev/glovebox"
)

// Bounds of one job. What the guest keeps in a checkpoint is within them but
// for extreme jobs, whose history then is an error.
const (
	maxPack     = 1 << 30   // bytes of one pack
	maxObjects  = 500_000   // of all packs; some 80 bytes of memory each
	maxInflated = 8 << 30   // bytes of all objects
	maxBlob     = 256 << 20 // bytes of one file
	maxTree     = 16 << 20  // bytes of one directory, as an object
	maxCommit   = 64 << 10  // bytes
	maxDepth    = 256       // directories in each other
	maxVisited  = 500_000   // entries that one comparison looks at
	maxList     = 10_000    // entries of a directory that are listed
	maxLink     = 4096      // bytes of a symbolic link
)

// Pack is a pack where it is kept; a blob is one. Its content never changes.
type Pack interface {
	io.ReadSeekCloser
	Size() int64 // bytes
}

// Opener opens the pack that is kept under a key.
type Opener func(ctx context.Context, key string) (Pack, error)

// Repo is the history of one job. Its methods may be called from many
// goroutines.
type Repo struct {
	open Opener
	busy chan struct{} // held by who reads packs in

	mu       sync.RWMutex
	packs    map[string]int32 // key -> its number
	keys     []string         // by number
	bad      map[string]error // packs that can't be read, ever
	objects  map[oid]place
	inflated int64 // bytes of all objects
}

// place is where an object lies.
type place struct {
	pack int32
	kind kind
	off  int64 // of its compressed content
	size int64 // of the content
}

// New returns a history without packs.
func New(open Opener) *Repo {
	return &Repo{open: open, busy: make(chan struct{}, 1), packs: map[string]int32{}, bad: map[string]error{}, objects: map[oid]place{}}
}

// Load reads packs in, but those that were read in before. A pack that is
// damaged, or too large, is CodeConflict: so is everything that needs it.
func (r *Repo) Load(ctx context.Context, keys []string) error {
	if ok, err := r.loaded(keys); ok || err != nil {
		return err
	}
	select {
	case r.busy <- struct{}{}:
		defer func() { <-r.busy }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	for _, key := range keys {
		if ok, err := r.loaded([]string{key}); err != nil {
			return err
		} else if ok {
			continue
		}
		if err := r.load(ctx, key); err != nil {
			return err
		}
	}
	return nil
}

// loaded reports whether all packs are there, or why one can't be.
func (r *Repo) loaded(keys []string) (bool, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	all := true
	for _, key := range keys {
		if err := r.bad[key]; err != nil {
			return false, err
		}
		_, ok := r.packs[key]
		all = all && ok
	}
	return all, nil
}

// size returns how many objects are known.
func (r *Repo) size() int {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return len(r.objects)
}

// Entry is a file or directory of a workspace.
type Entry struct {
	Name       string // within its directory
	Type       string // "file", "dir" or "symlink"
	Size       int64  // bytes; of a symlink, of its target; 0 for a directory
	Executable bool
}

// List returns the entries of a directory at a commit, by name, at most
// 10,000 of them; more says whether there are more. dir is a slash-separated
// path, "." for the workspace itself. CodeNotFound if there is none,
// CodeConflict if it is no directory.
func (r *Repo) List(ctx context.Context, commit, dir string) (entries []Entry, more bool, err error) {
	q := r.begin(ctx)
	defer q.end()
	e, err := q.find(commit, dir)
	if err != nil {
		return nil, false, err
	}
	if e.mode != modeDir {
		return nil, false, glovebox.Errorf(glovebox.CodeConflict, "%.200q is no directory", dir)
	}
	tree, err := q.tree(e.id)
	if err != nil {
		return nil, false, err
	}
	for _, e := range tree[:min(len(tree), maxList)] {
		x, err := q.describe(e)
		if err != nil {
			return nil, false, err
		}
		entries = append(entries, x)
	}
	return entries, len(tree) > maxList, nil
}

// Stat describes what is at a path at a commit.
func (r *Repo) Stat(ctx context.Context, commit, name string) (Entry, error) {
	q := r.begin(ctx)
	defer q.end()
	e, err := q.find(commit, name)
	if err != nil {
		return Entry{}, err
	}
	return q.describe(e)
}

// Open returns the content of a regular file at a commit, and its size. The
// caller closes it. CodeConflict if it is something else.
func (r *Repo) Open(ctx context.Context, commit, name string) (io.ReadCloser, int64, error) {
	q := r.begin(ctx)
	e, err := q.find(commit, name)
	if err == nil && e.mode != modeFile && e.mode != modeExec {
		err = glovebox.Errorf(glovebox.CodeConflict, "%.200q is no regular file", name)
	}
	var body io.Reader
	var size int64
	if err == nil {
		body, size, err = q.content(e.id, kindBlob, maxBlob)
	}
	if err != nil {
		q.end()
		return nil, 0, err
	}
	return &content{io.LimitReader(body, size), q}, size, nil
}

// Read returns up to limit bytes of a regular file at a commit, from offset
// on, and its size.
func (r *Repo) Read(ctx context.Context, commit, name string, offset, limit int64) ([]byte, int64, error) {
	body, size, err := r.Open(ctx, commit, name)
	if err != nil {
		return nil, 0, err
	}
	defer body.Close()
	if offset < 0 || offset >= size || limit <= 0 {
		return nil, size, nil
	}
	if _, err := io.CopyN(io.Discard, body, offset); err != nil {
		return nil, 0, damaged("it ends in the middle of a file")
	}
	data := make([]byte, min(limit, size-offset))
	if _, err := io.ReadFull(body, data); err != nil {
		return nil, 0, damaged("it ends in the middle of a file")
	}
	return data, size, nil
}

type content struct {
	io.Reader
	q *query
}

func (c *content) Close() error {
	c.q.end()
	return nil
}

// query is one use of a Repo. It opens each pack at most once, and has one
// content open at a time. It is not for several goroutines.
type query struct {
	ctx  context.Context
	r    *Repo
	open map[int32]Pack
	in   *bufio.Reader
	zr   io.ReadCloser

	trees map[oid][]entry // that were read; not to be changed
	names int             // entries in trees
}

// maxNames is how many entries of directories a query remembers.
const maxNames = 100_000

func (r *Repo) begin(ctx context.Context) *query {
	return &query{ctx: ctx, r: r, open: map[int32]Pack{}, trees: map[oid][]entry{}}
}

func (q *query) end() {
	for _, p := range q.open {
		p.Close()
	}
	q.open = nil
}

// find returns what is at a path at a commit; of the workspace itself, a
// directory without a name.
func (q *query) find(commit, name string) (entry, error) {
	id, err := parseOID(commit)
	if err != nil {
		return entry{}, err
	}
	tree, err := q.root(id)
	if err != nil {
		return entry{}, err
	}
	at := entry{mode: modeDir, id: tree}
	if name = path.Clean("/" + name)[1:]; name == "" {
		return at, nil
	}
	parts := strings.Split(name, "/")
	if len(parts) > maxDepth+1 {
		return entry{}, noFile(name)
	}
	for _, part := range parts {
		if at.mode != modeDir {
			return entry{}, noFile(name)
		}
		entries, err := q.tree(at.id)
		if err != nil {
			return entry{}, err
		}
		i := slices.IndexFunc(entries, func(e entry) bool { return e.name == part })
		if i < 0 {
			return entry{}, noFile(name)
		}
		at = entries[i]
	}
	return at, nil
}

func noFile(name string) error {
	return glovebox.Errorf(glovebox.CodeNotFound, "there is no file %.200q", name)
}

func (q *query) describe(e entry) (Entry, error) {
	x := Entry{Name: e.name, Type: "file", Executable: e.mode == modeExec}
	switch e.mode {
	case modeDir:
		x.Type = "dir"
		return x, nil
	case modeLink:
		x.Type = "symlink"
	}
	p, ok := q.r.place(e.id)
	if !ok || p.kind != kindBlob {
		return x, lacks(e.id)
	}
	x.Size = p.size
	return x, nil
}

func (r *Repo) place(id oid) (place, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	p, ok := r.objects[id]
	return p, ok
}
