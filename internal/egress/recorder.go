package egress

import (
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox"
)

// maxRecorded is how many different things a Recorder tells apart in a job.
// A sandbox that tries a million names does not fill the log with them.
const maxRecorded = 500

// Recorder joins attempts that are alike (the same host, port, verdict and
// reason) within an interval, so that an install of a thousand packages is a
// few events and not a thousand. Its Record is made for [Options.Record].
type Recorder struct {
	flush func([]glovebox.EgressAttempted)
	every time.Duration

	mu      sync.Mutex
	pending map[recordKey]int // index into events
	events  []glovebox.EgressAttempted
	known   map[recordKey]bool
	timer   *time.Timer
	closed  bool
	busy    sync.Mutex // held while flush runs, so that its calls don't overlap
}

type recordKey struct {
	host    string
	port    int
	allowed bool
	reason  string
	cached  bool
}

// NewRecorder returns a Recorder that gives what it has to flush at most once
// an interval, in order of first attempt. flush is never called concurrently.
func NewRecorder(every time.Duration, flush func([]glovebox.EgressAttempted)) *Recorder {
	return &Recorder{flush: flush, every: every, known: map[recordKey]bool{}, pending: map[recordKey]int{}}
}

// Record takes one attempt.
func (r *Recorder) Record(e glovebox.EgressAttempted) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	k := recordKey{e.Host, e.Port, e.Allowed, e.Reason, e.Cached}
	if !r.known[k] && len(r.known) >= maxRecorded {
		e.Host, e.Port, e.Reason = "(others)", 0, "more hosts than are told apart"
		k = recordKey{e.Host, e.Port, e.Allowed, e.Reason, e.Cached}
	}
	r.known[k] = true
	if i, ok := r.pending[k]; ok {
		p := &r.events[i]
		p.BytesUp, p.BytesDown, p.Count = p.BytesUp+e.BytesUp, p.BytesDown+e.BytesDown, p.Count+e.Count
		return
	}
	r.pending[k] = len(r.events)
	r.events = append(r.events, e)
	if r.timer == nil {
		r.timer = time.AfterFunc(r.every, r.Flush)
	}
}

// Flush gives what was recorded to flush now.
func (r *Recorder) Flush() {
	r.busy.Lock()
	defer r.busy.Unlock()
	r.mu.Lock()
	events := r.events
	r.events, r.pending = nil, map[recordKey]int{}
	if r.timer != nil {
		r.timer.Stop()
		r.timer = nil
	}
	r.mu.Unlock()
	if len(events) > 0 {
		r.flush(events)
	}
}

// Close flushes what is left. What is recorded afterwards is lost.
func (r *Recorder) Close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.Flush()
}
