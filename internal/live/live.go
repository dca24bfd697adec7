// Package live passes on what is worth seeing while it happens and not worth
// keeping: pieces of a model's answer, pieces of a tool's output.
//
// It is best effort and within one process. A subscriber that is slow loses
// pieces, never blocks the publisher, and finds everything that matters in
// the log a moment later.
package live

import (
	"sync"

	"github.com/glovebox-dev/glovebox"
)

// Buffer is how many pieces a subscriber may lag behind before it loses some.
const Buffer = 256

// Hub passes events without a number from publishers to subscribers of the
// same job. The zero Hub is ready to use.
type Hub struct {
	mu   sync.Mutex
	subs map[string]map[chan glovebox.Event]struct{}
}

// Publish gives e to all subscribers of a job that have room.
func (h *Hub) Publish(jobID string, e glovebox.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for ch := range h.subs[jobID] {
		select {
		case ch <- e:
		default:
		}
	}
}

// Watched reports whether anyone subscribes to a job.
func (h *Hub) Watched(jobID string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.subs[jobID]) > 0
}

// Subscribe returns a channel of what is published for a job from now on, and
// a function that ends the subscription and closes the channel.
func (h *Hub) Subscribe(jobID string) (<-chan glovebox.Event, func()) {
	ch := make(chan glovebox.Event, Buffer)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.subs == nil {
		h.subs = map[string]map[chan glovebox.Event]struct{}{}
	}
	if h.subs[jobID] == nil {
		h.subs[jobID] = map[chan glovebox.Event]struct{}{}
	}
	h.subs[jobID][ch] = struct{}{}
	return ch, sync.OnceFunc(func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.subs[jobID], ch)
		if len(h.subs[jobID]) == 0 {
			delete(h.subs, jobID)
		}
		close(ch)
	})
}
