//go:build linux

package proc

import (
	"sort"
	"sync"
	"time"
)

// output keeps what a process wrote: all of it up to limit bytes, beyond that
// the first and the last half of limit. Writers never wait for readers; a
// reader that is too slow finds a gap.
type output struct {
	limit int64

	mu      sync.Mutex
	size    int64  // written so far
	head    []byte // the first limit/2 bytes
	tail    []byte // what follows, at least its last limit/2 bytes
	tailOff int64  // offset of tail[0]
	runs    []run
	last    time.Time     // of the newest byte
	changed chan struct{} // closed and replaced at every change
	ended   bool
}

// run is a stretch of output from one of the two streams.
type run struct {
	off    int64
	stderr bool
}

func newOutput(limit int64) *output {
	return &output{limit: limit, changed: make(chan struct{}), last: time.Now()}
}

// append adds what one of the streams brought.
func (o *output) append(stderr bool, p []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if n := len(o.runs); n == 0 || o.runs[n-1].stderr != stderr {
		o.runs = append(o.runs, run{o.size, stderr})
	}
	half := o.limit / 2
	if room := half - int64(len(o.head)); room > 0 {
		n := min(room, int64(len(p)))
		o.head = append(o.head, p[:n]...)
		o.size += n
		p = p[n:]
		o.tailOff = o.size
	}
	o.tail = append(o.tail, p...)
	o.size += int64(len(p))
	if int64(len(o.tail)) > 2*half {
		cut := int64(len(o.tail)) - half
		o.tail = append(o.tail[:0], o.tail[cut:]...)
		o.tailOff += cut
		o.dropRuns()
	}
	o.last = time.Now()
	o.broadcast()
}

// dropRuns forgets the runs that lie wholly in the dropped middle.
func (o *output) dropRuns() {
	first := sort.Search(len(o.runs), func(i int) bool { return o.runs[i].off > int64(len(o.head)) })
	keep := sort.Search(len(o.runs), func(i int) bool { return o.runs[i].off > o.tailOff }) - 1
	if keep > first {
		o.runs = append(o.runs[:first], o.runs[keep:]...)
	}
}

func (o *output) broadcast() {
	close(o.changed)
	o.changed = make(chan struct{})
}

// end says that readers need not wait for more.
func (o *output) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.ended {
		o.ended = true
		o.broadcast()
	}
}

// shed forgets all but a little of the output, to bound what ended processes
// keep together.
func (o *output) shed() {
	o.mu.Lock()
	defer o.mu.Unlock()
	const keep = 4 << 10
	if len(o.tail) > keep {
		cut := len(o.tail) - keep
		o.tail = append([]byte(nil), o.tail[cut:]...)
		o.tailOff += int64(cut)
	}
	o.head = append([]byte(nil), o.head[:min(len(o.head), keep)]...)
	o.limit = 2 * keep
	o.dropRuns()
}

// kept returns how many bytes are in memory.
func (o *output) kept() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return int64(cap(o.head) + cap(o.tail))
}

// written returns how much was written, and when last.
func (o *output) written() (size int64, last time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.size, o.last
}

// lastByte returns the newest byte, 0 if there is none.
func (o *output) lastByte() byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case len(o.tail) > 0:
		return o.tail[len(o.tail)-1]
	case len(o.head) > 0:
		return o.head[len(o.head)-1]
	}
	return 0
}

// Chunk is a piece of output.
type Chunk struct {
	Gap    int64 // so many bytes were dropped before Data
	Stderr bool
	Data   []byte
}

// next copies up to len(buf) bytes from off on. If there are none, more is
// closed when that changes, and nil if the output has ended.
func (o *output) next(off int64, buf []byte) (c Chunk, at int64, more <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	off = min(max(off, 0), o.size)
	tail := o.tailOff
	if o.ended && o.size > o.limit { // more may be there, but limit is limit
		tail = max(tail, o.size-o.limit/2)
	}
	if off >= int64(len(o.head)) && off < tail {
		c.Gap = tail - off
		off = tail
	}
	if off >= o.size {
		if o.ended {
			return c, off, nil
		}
		return c, off, o.changed
	}
	src := o.tail[max(0, off-o.tailOff):]
	if off < int64(len(o.head)) {
		src = o.head[off:]
	}
	i := sort.Search(len(o.runs), func(i int) bool { return o.runs[i].off > off })
	if i > 0 {
		c.Stderr = o.runs[i-1].stderr
	}
	if i < len(o.runs) {
		src = src[:min(int64(len(src)), o.runs[i].off-off)]
	}
	c.Data = buf[:copy(buf, src)]
	return c, off + int64(len(c.Data)), closedChan
}

// closedChan is what next returns when it has something.
var closedChan = func() chan struct{} { c := make(chan struct{}); close(c); return c }()
