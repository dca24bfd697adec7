package worker

import (
	"context"
	"os"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/agent"
	"github.com/glovebox-dev/glovebox/internal/memory/recall"
)

// recallAge is for how long the index of a job that ended is kept: until it
// is unlikely that the job goes on. An index that is missed is made anew.
const recallAge = time.Hour

// openRecall opens the search index of the job's past and brings it up to
// date in the background. Nil functions: nothing is kept to be searched.
func (r *run) openRecall() (search func(context.Context, recall.Query) (recall.Result, error), closed func()) {
	k := r.o.Recall
	if k == nil {
		return nil, func() {}
	}
	id := r.lease.JobID
	j := k.Job(id, func(ctx context.Context, after int64, limit int) ([]glovebox.Event, error) {
		return r.o.Store.Events(ctx, id, after, limit)
	}, r.host.load)
	ctx, cancel := context.WithCancel(r.ctx)
	synced := make(chan struct{})
	go func() {
		defer close(synced)
		if r.host.state().Step == 0 { // there is nothing to search
			return
		}
		_, err := r.guard(func() (agent.Outcome, error) { return agent.Outcome{}, j.Sync(ctx) })
		if err != nil && ctx.Err() == nil {
			r.log.Warn("the job's past can't be searched yet", "error", err)
		}
	}()
	return j.Search, func() {
		cancel()
		<-synced
		if err := j.Close(); err != nil {
			r.log.Warn("the index of the job's past was not closed", "error", err)
		}
	}
}

// sweepRecall removes the indexes of jobs that are deleted, or ended long ago.
func (w *Worker) sweepRecall(ctx context.Context) {
	k := w.o.Recall
	if k == nil {
		return
	}
	entries, err := os.ReadDir(k.Dir)
	if err != nil {
		if !os.IsNotExist(err) {
			w.o.Log.Warn("can't look for search indexes that are left", "error", err)
		}
		return
	}
	seen := map[string]bool{}
	for _, e := range entries {
		id, _, _ := strings.Cut(e.Name(), ".") // of the database, or of what SQLite keeps beside it
		if !glovebox.ValidID(id) || seen[id] {
			continue
		}
		seen[id] = true
		if ctx.Err() != nil {
			return
		}
		if w.recallNeeded(ctx, id) {
			continue
		}
		if err := k.Remove(id); err != nil {
			w.o.Log.Warn("can't remove a search index that no job needs", "job", id, "error", err)
		}
	}
}

// recallNeeded reports whether a job's index may still be of use, or can't be
// judged.
func (w *Worker) recallNeeded(ctx context.Context, id string) bool {
	w.mu.Lock()
	running := w.running[id] != nil
	w.mu.Unlock()
	if running {
		return true
	}
	j, alive := w.alive(ctx, id)
	return alive || j != nil && (j.FinishedAt == nil || w.o.Now().Sub(*j.FinishedAt) < recallAge)
}
