//go:build linux

package kernel

import (
	"context"
	"fmt"
	"regexp"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox/internal/clip"
)

// What is kept of the output of one cell. A kernel may write without end: the
// beginning of the text is passed on as it comes, its end when the cell ends.
const (
	maxHead      = 1 << 20   // bytes of text from the beginning
	maxTail      = 256 << 10 // and from the end
	maxData      = 16 << 20  // bytes of displays and results together
	maxDisplays  = 64
	maxImage     = 8 << 20 // bytes of one image
	maxText      = 1 << 20 // of one other representation
	maxTypes     = 16      // representations of one display
	maxTraceback = 64 << 10
	maxEvents    = 4096 // pieces of output
)

// Output is a piece of what a cell puts out; see guest.CellOutput.
type Output struct {
	Kind        string
	Text        string
	Data        map[string][]byte
	Name, Value string
	Traceback   string
}

// Result is how a cell ended; see guest.CellResult.
type Result struct {
	Status    string
	Count     int
	Restarted bool
	Duration  time.Duration
}

// The ways in which a cell ends.
const (
	statusOK          = "ok"
	statusError       = "error"
	statusInterrupted = "interrupted"
	statusDied        = "died"
)

// Run is a cell that runs, or ran last: its output is kept for those who
// follow late, until the next cell of the kernel begins.
type Run struct {
	begun     time.Time
	restarted bool
	done      chan struct{}

	mu       sync.Mutex
	events   []Output
	taken    int           // how many events some follower has seen: they change no more
	more     chan struct{} // closed when there is something new
	ended    bool
	result   Result
	head     int
	data     int
	displays int
	tail     []byte
	tailKind string
	lost     int64 // bytes of text that went from the middle
	lostData int   // displays that were left out

	// Of the one who runs it.
	id          string // of the request
	replied     bool
	idle        bool
	status      string
	count       int
	interrupted bool
	running     bool        // the kernel has begun
	grace       *time.Timer // for idle, after the reply; after an interrupt also for the reply
	resulted    bool        // a result or error has come
	late        func()      // called once instead of the end: what is still to come may come
}

func newRun(restarted bool) *Run {
	return &Run{begun: time.Now(), restarted: restarted, done: make(chan struct{}), more: make(chan struct{})}
}

// Done is closed when the cell has ended.
func (r *Run) Done() <-chan struct{} { return r.done }

// over reports whether a cell has ended.
func (r *Run) over() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ended
}

// Follow calls f with each piece of output, from the first on, until the cell
// has ended, f fails or ctx ends.
func (r *Run) Follow(ctx context.Context, f func(Output) error) (Result, error) {
	for at := 0; ; {
		r.mu.Lock()
		events, more, ended := r.events[at:], r.more, r.ended
		r.taken = max(r.taken, len(r.events))
		r.mu.Unlock()
		for _, e := range events {
			if err := f(e); err != nil {
				return Result{}, err
			}
		}
		at += len(events)
		if ended {
			return r.result, nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return Result{}, context.Cause(ctx)
		}
	}
}

// wake tells the followers that there is something new.
func (r *Run) wake() {
	close(r.more)
	r.more = make(chan struct{})
}

func (r *Run) add(o Output) {
	if r.ended || len(r.events) >= maxEvents {
		return
	}
	r.events = append(r.events, o)
	r.wake()
}

// text takes a piece of what the cell writes.
func (r *Run) text(kind, s string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended || s == "" {
		return
	}
	if room := maxHead - r.head; r.lost == 0 && len(r.tail) == 0 && room > 0 && len(r.events) < maxEvents-8 {
		piece := s
		if len(piece) > room {
			piece = clip.Head(piece, room)
		}
		r.head += len(piece)
		s = s[len(piece):]
		if last := len(r.events) - 1; last >= r.taken && last >= 0 && r.events[last].Kind == kind && len(r.events[last].Text) < maxTail {
			r.events[last].Text += piece
		} else if piece != "" {
			r.add(Output{Kind: kind, Text: piece})
		}
	}
	if s == "" {
		return
	}
	r.tailKind = kind
	r.tail = append(r.tail, s...)
	if over := len(r.tail) - maxTail; over > maxTail {
		r.lost += int64(over)
		r.tail = append(r.tail[:0], r.tail[over:]...)
	}
}

// display takes a display or result, within bounds.
func (r *Run) display(kind string, data map[string][]byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	size := 0
	for _, b := range data {
		size += len(b)
	}
	switch {
	case r.ended:
	case len(data) == 0:
		r.lostData++
	case r.displays >= maxDisplays || r.data+size > maxData:
		r.lostData++
	default:
		r.displays++
		r.data += size
		r.add(Output{Kind: kind, Data: data})
	}
}

// large takes note of an output that was too large to be received.
func (r *Run) large() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lostData++
}

// event takes an error or the like.
func (r *Run) event(o Output) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if over := len(o.Traceback) - maxTraceback; over > 0 { // the last frames matter
		o.Traceback = "[...]" + o.Traceback[over:]
	}
	o.Name, o.Value = clip.Short(o.Name, 1<<10), clip.Short(o.Value, 16<<10)
	r.add(o)
}

// finish ends the run; only the first call counts.
func (r *Run) finish(status string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.finishLocked(status)
}

func (r *Run) finishLocked(status string) {
	if r.ended {
		return
	}
	if over := len(r.tail) - maxTail; over > 0 {
		r.lost += int64(over)
		r.tail = r.tail[over:]
	}
	if r.lost > 0 {
		r.events = append(r.events, Output{Kind: r.tailKind, Text: fmt.Sprintf("\n[... %d bytes left out ...]\n", r.lost)})
		for len(r.tail) > 0 && !utf8.RuneStart(r.tail[0]) {
			r.tail = r.tail[1:]
		}
	}
	if len(r.tail) > 0 {
		r.events = append(r.events, Output{Kind: r.tailKind, Text: string(r.tail)})
	}
	if r.lostData > 0 {
		r.events = append(r.events, Output{Kind: "stderr", Text: fmt.Sprintf(
			"\n[%d displays left out: a cell may show %d, of %d MiB together, an image of at most %d MiB]\n",
			r.lostData, maxDisplays, maxData>>20, maxImage>>20)})
	}
	if r.grace != nil {
		r.grace.Stop()
	}
	r.tail = nil
	r.ended = true
	r.result = Result{Status: status, Count: r.count, Restarted: r.restarted, Duration: time.Since(r.begun)}
	r.wake()
	close(r.done)
}

// settle ends the run if the kernel has said all that it says about a cell.
func (r *Run) settle() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.replied || !r.idle || r.ended {
		return
	}
	if late := r.late; late != nil {
		r.late = func() {}
		late()
		return
	}
	status := r.status
	if status != statusOK && r.interrupted {
		status = statusInterrupted
	}
	r.finishLocked(status)
}

// escapes are the sequences with which kernels colour tracebacks.
var escapes = regexp.MustCompile(`\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(\x07|\x1b\\)|\x1b[@-Z\\-_]`)
