package tool

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// How output is shown live: it is gathered for liveDelay after its first
// byte, or until there are liveBytes; and at most liveBurst bytes are shown in
// liveDelay, so that a command that floods floods nobody else.
const (
	liveDelay = 100 * time.Millisecond
	liveBytes = 8 << 10
	liveBurst = 64 << 10
)

// live hands what a process writes to those who watch, cleaned and in pieces
// that are worth sending.
type live struct {
	emit func(string)

	mu      sync.Mutex
	clean   cleaner
	pending strings.Builder
	timer   *time.Timer // runs while a window is open
	sent    int         // bytes in this window
	lost    int         // bytes in this window
	closed  bool
}

// newLive returns a live that calls emit, which may be nil, one call at a time.
func newLive(emit func(string)) *live { return &live{emit: emit} }

// write takes a piece of output.
func (l *live) write(p []byte) {
	if l.emit == nil || len(p) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	if room := liveBurst - l.sent - l.pending.Len(); len(p) > room {
		room = max(0, room)
		l.lost += len(p) - room
		p = p[:room]
	}
	l.pending.WriteString(l.clean.write(p))
	if l.pending.Len() >= liveBytes {
		l.send()
	}
	if l.timer == nil {
		l.timer = time.AfterFunc(liveDelay, l.window)
	}
}

// window ends a window.
func (l *live) window() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timer = nil
	if !l.closed {
		l.flush()
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
		l.flush()
	}
	l.closed = true
}

// flush sends all that there is and begins a new window.
func (l *live) flush() {
	l.pending.WriteString(l.clean.flush())
	if l.lost > 0 {
		fmt.Fprintf(&l.pending, "\n[... %d bytes not shown live ...]\n", l.lost)
		l.clean = cleaner{}
	}
	l.send()
	l.sent, l.lost = 0, 0
}

func (l *live) send() {
	text := l.pending.String()
	l.pending.Reset()
	l.sent += len(text)
	for len(text) > 0 {
		piece := text
		if len(piece) > 2*liveBytes {
			piece = headOf(text, liveBytes)
		}
		l.emit(piece)
		text = text[len(piece):]
	}
}
