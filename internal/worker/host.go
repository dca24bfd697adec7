package worker

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/agent"
	"github.com/glovebox-dev/glovebox/internal/blob"
	"github.com/glovebox-dev/glovebox/internal/guest"
)

// maxOutput is how many bytes one output of a tool may have.
const maxOutput = 64 << 20

// host is what the loop of one job needs of its worker. It is an [agent.Host].
type host struct {
	r   *run
	box *box

	saving chan struct{} // held by who makes a checkpoint

	mu  sync.Mutex
	job *glovebox.Job // the newest state that is known; never changed
}

var _ agent.Host = (*host)(nil)

func newHost(r *run) *host {
	h := &host{r: r, saving: make(chan struct{}, 1)}
	h.box = newBox(h)
	return h
}

// close ends the connection to the sandbox, which stays.
func (h *host) close() { h.box.settle() }

// state returns the newest state that is known, as a copy.
func (h *host) state() *glovebox.Job {
	h.mu.Lock()
	defer h.mu.Unlock()
	j := *h.job
	return &j
}

func (h *host) setJob(j *glovebox.Job) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.job == nil || j.Seq > h.job.Seq {
		h.job = j
	}
}

// storeError is an error of the store, as opposed to one of the sandbox.
type storeError struct{ error }

func (e storeError) Unwrap() error { return e.error }

func isStoreError(err error) bool {
	_, ok := errors.AsType[storeError](err)
	return ok
}

// Append implements [agent.Host]. Nothing is appended after the lease was
// lost or the run was cut off.
func (h *host) Append(ctx context.Context, events []glovebox.Event, consume ...int64) (*glovebox.Job, error) {
	if h.r.ctx.Err() != nil {
		return nil, context.Cause(h.r.ctx)
	}
	j, err := h.r.o.Store.Append(ctx, h.r.lease, events, consume...)
	if err != nil {
		if glovebox.CodeOf(err) == glovebox.CodeFenced {
			h.r.end(errLost)
		}
		return nil, storeError{err}
	}
	h.setJob(j)
	h.r.w.metrics.observe(events)
	return j, nil
}

func (h *host) append(ctx context.Context, typ glovebox.EventType, data any) error {
	_, err := h.Append(ctx, []glovebox.Event{h.event(typ, data)})
	return err
}

func (h *host) event(typ glovebox.EventType, data any) glovebox.Event {
	return glovebox.NewEvent(h.r.o.Now(), typ, data)
}

// Signals implements [agent.Host].
func (h *host) Signals(ctx context.Context) ([]glovebox.Signal, error) {
	s, err := h.r.o.Store.PendingSignals(ctx, h.r.lease.JobID)
	if err != nil {
		return nil, storeError{err}
	}
	return s, nil
}

// Guest implements [agent.Host].
func (h *host) Guest(ctx context.Context) (*guest.Client, error) { return h.box.guest(ctx) }

// Save implements [agent.Host].
func (h *host) Save(ctx context.Context, data []byte) (string, error) {
	handle := blob.NewOutput()
	key, err := blob.OutputKey(h.r.lease.JobID, handle)
	if err == nil {
		_, err = h.r.o.Blobs.Put(ctx, key, bytes.NewReader(data), maxOutput)
	}
	return handle, err
}

// load returns a part of what Save kept.
func (h *host) load(ctx context.Context, handle string, offset, limit int64) ([]byte, int64, error) {
	key, err := blob.OutputKey(h.r.lease.JobID, handle)
	if err != nil {
		return nil, 0, err
	}
	f, err := h.r.o.Blobs.Open(ctx, key)
	if glovebox.CodeOf(err) == glovebox.CodeNotFound {
		return nil, 0, glovebox.Errorf(glovebox.CodeNotFound, "there is no output %.60q", handle)
	}
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	if offset < 0 || offset >= f.Size() || limit <= 0 {
		return nil, f.Size(), nil
	}
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		return nil, 0, err
	}
	data, err := io.ReadAll(io.LimitReader(f, limit))
	return data, f.Size(), err
}
