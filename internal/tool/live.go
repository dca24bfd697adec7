package tool

import (
	"strings"
	"sync"
	"time"
)

// How output that is shown live is gathered: it goes out when there is this
// much of it, or this long after its first byte.
const (
	liveBytes = 8 << 10
	liveDelay = 100 * time.Millisecond
)

// live hands what a process writes to those who watch, cleaned and in pieces
// that are worth sending.
type live struct {
	emit func(string)

	mu      sync.Mutex
	clean   cleaner
	pending strings.Builder
	timer   *time.Timer
	closed  bool
}

// newLive returns a live that calls emit, which may be nil, one call at a time.
func newLive(emit func(string)) *live { return &live{emit: emit} }

// write takes a piece of output.
func (l *live) write(p []byte) {
	if l.emit == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending.WriteString(l.clean.write(p))
	if l.pending.Len() >= liveBytes {
		l.send()
		return
	}
	if l.timer == nil && !l.closed {
		l.timer = time.AfterFunc(liveDelay, func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.timer = nil
			if !l.closed {
				l.send()
			}
		})
	}
}

// close sends what is left. Nothing is sent after it.
func (l *live) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer != nil {
		l.timer.Stop()
	}
	if l.emit != nil && !l.closed {
		l.send()
	}
	l.closed = true
}

func (l *live) send() {
	l.pending.WriteString(l.clean.flush())
	text := l.pending.String()
	l.pending.Reset()
	for len(text) > 0 {
		piece := text
		if len(piece) > 2*liveBytes {
			piece = headOf(text, liveBytes)
		}
		l.emit(piece)
		text = text[len(piece):]
	}
}
