package recall

import (
	"context"
)

// Keeper keeps the indexes of many jobs in a directory, a file each, opened
// when they are first needed. It is safe for concurrent use.
type Keeper struct {
	Dir   string   // is made where it is missing
	Embed Embedder // may be nil
}

// Job returns the index of a job, which reads what it lacks from source. Two
// calls with the same id share one file. Close it when the job leaves.
func (k *Keeper) Job(id string, source Source, load Loader) *Job {
	return &Job{keeper: k, id: id, source: source, load: load}
}

// Remove closes the index of a job and deletes it. That there is none is no error.
func (k *Keeper) Remove(id string) error { return nil }

// Job is the index of one job, kept in step with its log.
type Job struct {
	keeper *Keeper
	id     string
	source Source
	load   Loader
}

// Sync reads what the log has that the index has not. It is never needed
// before a Search, which does it by itself; called between steps it keeps
// the search from having to wait.
func (j *Job) Sync(ctx context.Context) error { return nil }

// Search brings the index up to date and searches it.
func (j *Job) Search(ctx context.Context, q Query) (Result, error) { return Result{}, nil }

// Close closes the index; the file stays.
func (j *Job) Close() error { return nil }
