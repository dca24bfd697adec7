package recall

import (
	"context"
	"path/filepath"
	"sync"

	"github.com/glovebox-dev/glovebox"
)

// Keeper keeps the indexes of many jobs in a directory, a file each, opened
// when they are first needed. It is safe for concurrent use. One process may
// use a directory at a time.
type Keeper struct {
	Dir   string   // is made where it is missing
	Embed Embedder // may be nil
}

// Job returns the index of a job, which reads what it lacks from source. Make
// one for a job that is worked on, and close it when the job leaves.
func (k *Keeper) Job(id string, source Source, load Loader) *Job {
	return &Job{path: k.path(id), id: id, source: source, o: Options{Load: load, Embed: k.Embed}}
}

func (k *Keeper) path(id string) string { return filepath.Join(k.Dir, id+".db") }

// Remove deletes the index of a job that nobody has open. That there is none
// is no error.
func (k *Keeper) Remove(id string) error {
	if !glovebox.ValidID(id) {
		return glovebox.Invalid("id", "", "%q is not the id of a job", id)
	}
	return removeFiles(k.path(id))
}

// Job is the index of one job, kept in step with its log. It is safe for
// concurrent use.
type Job struct {
	path, id string
	source   Source
	o        Options

	mu     sync.Mutex // held while reading the log
	x      *Index
	closed bool
}

// syncEvents is how many events one step of a Sync reads.
const syncEvents = 500

// Sync reads what the log has that the index has not, and makes the vectors
// that are missing where there is an Embedder. It is never needed before a
// Search, which reads the log by itself; called between steps it keeps the
// search from having to wait.
func (j *Job) Sync(ctx context.Context) error {
	x, err := j.sync(ctx)
	for n := 1; err == nil && n > 0; {
		n, err = x.Embed(ctx, syncVectors)
	}
	return err
}

// syncVectors is how many vectors one step of a Sync makes.
const syncVectors = 64

func (j *Job) sync(ctx context.Context) (*Index, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return nil, glovebox.Errorf(glovebox.CodeUnavailable, "recall: the index is closed")
	}
	for again := false; ; again = true {
		err := j.readLog(ctx)
		if err == nil || again || !damaged(err) {
			return j.x, err
		}
		if err := j.discard(); err != nil { // and read it all once more
			return nil, err
		}
	}
}

func (j *Job) readLog(ctx context.Context) error {
	if j.x == nil {
		x, err := Open(j.path, j.id, j.o)
		if err != nil {
			return err
		}
		j.x = x
	}
	for {
		events, err := j.source(ctx, j.x.Seq(), syncEvents)
		if err != nil {
			return err
		}
		if len(events) == 0 {
			return nil
		}
		if err := j.x.Add(ctx, events); err != nil {
			return err
		}
	}
}

// discard removes an index that turned out to be damaged.
func (j *Job) discard() error {
	if j.x != nil {
		_ = j.x.Close() // it is lost anyway
		j.x = nil
	}
	return removeFiles(j.path)
}

// Search brings the index up to date and searches it. An index that turns out
// to be damaged is made anew first.
func (j *Job) Search(ctx context.Context, q Query) (Result, error) {
	x, err := j.sync(ctx)
	if err != nil {
		return Result{}, err
	}
	r, err := x.Search(ctx, q)
	if !damaged(err) {
		return r, err
	}
	j.mu.Lock()
	if j.x == x {
		err = j.discard()
	}
	j.mu.Unlock()
	if err != nil && !damaged(err) {
		return Result{}, err
	}
	if x, err = j.sync(ctx); err != nil {
		return Result{}, err
	}
	return x.Search(ctx, q)
}

// Close closes the index; the file stays. What runs fails.
func (j *Job) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.closed = true
	if j.x == nil {
		return nil
	}
	err := j.x.Close()
	j.x = nil
	return err
}
