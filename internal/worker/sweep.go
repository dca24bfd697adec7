package worker

import (
	"context"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/sandbox"
)

// cleaner is a blob store that can remove what interrupted writes left.
type cleaner interface{ Clean() error }

// sweepLoop removes what crashes left, now and from time to time, until Stop.
// Stop does not interrupt the first time unless it is out of patience: a server
// that ends at once leaves nothing to the next one, either.
func (w *Worker) sweepLoop(l *life) {
	ctx := l.work
	tick := time.NewTicker(w.o.Sweep)
	defer tick.Stop()
	var blobs time.Time // when they were last swept
	for {
		if l.presence != nil {
			if err := l.presence.bury(ctx, w.o.Store.ExpireLeases); err != nil && ctx.Err() == nil {
				w.o.Log.Warn("can't take over from workers that died", "error", err)
			}
		}
		w.sweep(ctx)
		ctx = l.claim
		w.sweepRecall(ctx)
		if now := w.o.Now(); now.Sub(blobs) >= blobsEvery {
			blobs = now
			w.sweepBlobs(ctx)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// sweep destroys sandboxes whose job is terminal, deleted or unknown, and
// removes stale temporary blobs. Sandboxes of jobs that run or wait are left
// alone: they may be another worker's, or are found again.
func (w *Worker) sweep(ctx context.Context) {
	if c, ok := w.o.Blobs.(cleaner); ok {
		if err := c.Clean(); err != nil {
			w.o.Log.Warn("can't remove stale files", "error", err)
		}
	}
	infos, err := w.o.Driver.List(ctx)
	if err != nil {
		if ctx.Err() == nil {
			w.o.Log.Warn("can't look for sandboxes that are left", "error", err)
		}
		return
	}
	for _, i := range infos {
		if ctx.Err() != nil {
			return
		}
		if w.needed(ctx, i) {
			continue
		}
		w.o.Log.Info("removing a sandbox that no job needs", "sandbox", string(i.ID), "job", i.Labels[jobLabel])
		w.metrics.swept.Inc()
		w.destroy(i.ID)
	}
}

// needed reports whether a sandbox may still be of use, or can't be judged.
func (w *Worker) needed(ctx context.Context, i sandbox.Info) bool {
	id := i.Labels[jobLabel]
	if id == "" { // not made for a job, unless it was never finished
		return i.State != sandbox.Ended
	}
	_, alive := w.alive(ctx, id)
	return alive
}

// alive reports whether a job may go on, or can't be judged. A job that ended
// comes with it; nil: it is deleted, or can't be read.
func (w *Worker) alive(ctx context.Context, id string) (*glovebox.Job, bool) {
	j, err := w.o.Store.Job(ctx, "", id)
	if err != nil {
		return nil, glovebox.CodeOf(err) != glovebox.CodeNotFound
	}
	return j, !j.Status.Terminal()
}
