package sqlite

import (
	"context"
	"sync"
	"sync/atomic"
)

// hub wakes those who wait for something. Each has a channel with room for
// one value: who has not taken the last one yet needs no second.
type hub struct {
	mu     sync.Mutex
	count  atomic.Int64
	jobs   map[string]*watch
	wakers map[chan struct{}]struct{}
}

// watch is those who watch one job.
type watch struct {
	chans map[chan struct{}]struct{}
	seq   int64 // the newest event that they were told of; -1 before the first
}

func newHub() *hub {
	return &hub{jobs: map[string]*watch{}, wakers: map[chan struct{}]struct{}{}}
}

func (h *hub) active() bool { return h.count.Load() > 0 }

// watched returns the jobs that are watched, and what was told of each.
func (h *hub) watched() map[string]int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	m := make(map[string]int64, len(h.jobs))
	for id, w := range h.jobs {
		m[id] = w.seq
	}
	return m
}

// appended tells the watchers of a job that it is at seq.
func (h *hub) appended(id string, seq int64) {
	if !h.active() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if w := h.jobs[id]; w != nil {
		w.seq = seq
		tell(w.chans)
	}
}

func (h *hub) wake() {
	if !h.active() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	tell(h.wakers)
}

func tell(chans map[chan struct{}]struct{}) {
	for ch := range chans {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}

// Watch implements [store.Log].
func (s *Store) Watch(ctx context.Context, jobID string) <-chan struct{} {
	h := s.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	w := h.jobs[jobID]
	if w == nil {
		w = &watch{chans: map[chan struct{}]struct{}{}, seq: -1}
		h.jobs[jobID] = w
	}
	return h.add(ctx, w.chans, func() {
		if len(w.chans) == 0 {
			delete(h.jobs, jobID)
		}
	})
}

// Wake implements [store.Queue].
func (s *Store) Wake(ctx context.Context) <-chan struct{} {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	return s.hub.add(ctx, s.hub.wakers, func() {})
}

// add makes a channel in chans that is closed and removed when ctx ends. It
// is called, as is gone, with the lock held.
func (h *hub) add(ctx context.Context, chans map[chan struct{}]struct{}, gone func()) <-chan struct{} {
	ch := make(chan struct{}, 1)
	chans[ch] = struct{}{}
	h.count.Add(1)
	context.AfterFunc(ctx, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(chans, ch)
		h.count.Add(-1)
		close(ch)
		gone()
	})
	return ch
}
