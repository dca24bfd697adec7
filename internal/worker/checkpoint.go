package worker

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/blob"
	"github.com/glovebox-dev/glovebox/internal/guest"
	"github.com/glovebox-dev/glovebox/internal/history"
)

const (
	// maxCheckpoint is how many bytes one pack may have.
	maxCheckpoint = 4 << 30

	// maxChain is how many packs a checkpoint may consist of before a whole
	// one is made: restoring takes time for each.
	maxChain = 64

	maxChanges = 200 // that an event lists

	compareTimeout = 20 * time.Second // for the first checkpoint of a job, which takes far less
)

// Checkpoint implements [agent.Host]: the workspace is committed in the
// sandbox, and what is new goes into a blob unopened.
func (h *host) Checkpoint(ctx context.Context) error {
	g, err := h.box.guest(ctx)
	if err != nil {
		return err
	}
	return h.save(ctx, g)
}

// saveStart makes the first checkpoint of a job that starts from files: what
// the agent did is what differs from it. A job can do without.
func (h *host) saveStart(ctx context.Context, g *guest.Client) error {
	if job := h.state(); job.Checkpoint != nil || job.Files == nil || job.Step > 0 {
		return nil
	}
	err := h.save(ctx, g)
	if err == nil || isStoreError(err) || ctx.Err() != nil {
		return err
	}
	h.r.log.Warn("no checkpoint of what the job starts from", "error", err)
	return nil
}

// save makes a checkpoint of the machine at the other end of g, one at a time.
func (h *host) save(ctx context.Context, g *guest.Client) (err error) {
	ctx, end := span(ctx, "checkpoint")
	defer func() { end(err) }()
	select {
	case h.saving <- struct{}{}:
		defer func() { <-h.saving }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, transferTimeout)
	defer cancel()
	start := time.Now()
	var base string
	job := h.state()
	if cp := job.Checkpoint; cp != nil && len(cp.Packs) < maxChain {
		base = cp.Commit
	}
	key := blob.JobPrefix(job.ID) + "checkpoints/" + glovebox.NewID() + ".pack"
	put := newLazyPut(ctx, h.r.o.Blobs, key, maxCheckpoint)
	info, err := g.Checkpoint(ctx, base, "step "+itoa(job.Step), put)
	saved, putErr := put.finish(err)
	switch {
	case err != nil && putErr == nil, err != nil && ctx.Err() != nil:
		return err
	case putErr != nil:
		// Not "unavailable": that would mean that the sandbox is lost.
		return &glovebox.Error{Code: glovebox.CodeInternal, Op: "keep the checkpoint", Err: putErr, Hint: hintOf(putErr)}
	case saved == nil && base != "" && info.Commit == base: // nothing changed
		return nil
	case saved == nil:
		return glovebox.Errorf(glovebox.CodeUnavailable, "the guest made commit %.40s and sent nothing", info.Commit)
	}
	e := glovebox.CheckpointSaved{Commit: info.Commit, Parent: base, Pack: key, Size: saved.Size, Whole: info.Whole || base == ""}
	if e.Whole {
		e.Parent = ""
	}
	for _, c := range info.Changes[:min(len(info.Changes), maxChanges)] {
		e.Changes = append(e.Changes, glovebox.FileChange{Path: c.Path, Added: c.Added, Deleted: c.Deleted})
	}
	if job.Checkpoint == nil && job.Files == nil { // the workspace was empty
		e.Changes = h.allChanges(ctx, e)
	}
	if err := h.append(ctx, glovebox.EventCheckpoint, e); err != nil {
		return err
	}
	h.r.w.metrics.checkpoint.Observe(time.Since(start).Seconds())
	return nil
}

// allChanges returns all files of a checkpoint as changes, the first of them.
// The guest names none where there is nothing to compare with.
func (h *host) allChanges(ctx context.Context, e glovebox.CheckpointSaved) []glovebox.FileChange {
	ctx, cancel := context.WithTimeout(ctx, compareTimeout)
	defer cancel()
	r := history.New(func(ctx context.Context, key string) (history.Pack, error) { return h.r.o.Blobs.Open(ctx, key) })
	err := r.Load(ctx, []string{e.Pack})
	var d history.Diff
	if err == nil {
		d, err = r.Diff(ctx, "", e.Commit, "")
	}
	if err != nil {
		h.r.log.Debug("can't tell what the first checkpoint holds", "error", err)
	}
	var out []glovebox.FileChange
	for _, f := range d.Files[:min(len(d.Files), maxChanges)] {
		out = append(out, glovebox.FileChange{Path: f.Path, Added: f.Added, Deleted: f.Deleted})
	}
	return out
}

// lazyPut is a writer into a blob that is begun with the first byte.
type lazyPut struct {
	ctx   context.Context
	blobs blob.Store
	key   string
	limit int64

	pipe *io.PipeWriter
	done chan struct{}
	info blob.Info
	err  error
}

func newLazyPut(ctx context.Context, blobs blob.Store, key string, limit int64) *lazyPut {
	return &lazyPut{ctx: ctx, blobs: blobs, key: key, limit: limit}
}

// Write implements [io.Writer].
func (p *lazyPut) Write(b []byte) (int, error) {
	if p.pipe == nil {
		r, w := io.Pipe()
		p.pipe, p.done = w, make(chan struct{})
		go func() {
			defer close(p.done)
			p.info, p.err = p.blobs.Put(p.ctx, p.key, r, p.limit)
			r.CloseWithError(p.err)
		}()
	}
	return p.pipe.Write(b)
}

// finish ends the blob, or drops it if writing failed with cause. It returns
// nil for info if nothing was written. The error is Put's own.
func (p *lazyPut) finish(cause error) (*blob.Info, error) {
	if p.pipe == nil {
		return nil, nil
	}
	if cause == nil {
		p.pipe.Close()
	} else {
		p.pipe.CloseWithError(writeFailed{cause})
	}
	<-p.done
	if _, ours := errors.AsType[writeFailed](p.err); ours {
		return nil, nil //nolint:nilerr // it is the caller's own error
	}
	if p.err != nil {
		return nil, p.err
	}
	return &p.info, nil
}

// writeFailed marks the error that finish itself gives to Put.
type writeFailed struct{ error }

func (e writeFailed) Unwrap() error { return e.error }
