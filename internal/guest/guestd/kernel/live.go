//go:build linux

package kernel

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"strings"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox/internal/guest/guestd/proc"
)

// live is a kernel process that runs and answers.
type live struct {
	proc       *proc.Process
	pid        int
	spec       Spec
	connection connection
	shell      *peer
	iopub      *peer
	dead       chan struct{} // closed when it has ended or can't be heard any more
	gone       chan struct{} // closed when nothing is left of it
	once       sync.Once
	wg         sync.WaitGroup

	mu      sync.Mutex
	me      *identity
	nextKey []byte // accepted beside me.key while the kernel changes it
	run     *Run   // the current one
	waiting map[string]chan message
	heard   chan struct{} // closed at the first message on iopub
	over    bool          // the process has ended
}

// read receives what comes on a socket until it breaks.
func (l *live) read(p *peer) {
	defer l.lost()
	for {
		frames, dropped, err := p.recv()
		if err != nil {
			return
		}
		l.mu.Lock()
		m, err := parse(frames, dropped, l.me.key, l.nextKey)
		l.mu.Unlock()
		if err != nil {
			continue // forged or nonsense: as if it had not come
		}
		l.deliver(m)
	}
}

// lost marks the kernel as not to be talked to any more.
func (l *live) lost() { l.once.Do(func() { close(l.dead) }) }

// deliver hands a message to whom it is for.
func (l *live) deliver(m message) {
	l.mu.Lock()
	run, ours := l.run, m.parent.Session == l.me.session
	if m.header.Type == "status" {
		select {
		case <-l.heard:
		default:
			close(l.heard)
		}
	}
	if ch := l.waiting[m.parent.ID]; ch != nil && strings.HasSuffix(m.header.Type, "_reply") {
		delete(l.waiting, m.parent.ID)
		l.mu.Unlock()
		ch <- m // has room
		return
	}
	l.mu.Unlock()
	if run == nil || !ours {
		return // somebody else's cell, such as JupyterLab's
	}
	if m.dropped > 0 {
		run.large()
		return
	}
	if run.take(m) {
		// An interrupt that came before the kernel had begun was in vain: it
		// ignores the signal until then.
		l.signal()
	}
}

// take handles a message about a cell of ours. Text may also be of an
// earlier cell's threads; everything else must be of this one. again is true if
// the cell begins only now and was interrupted before.
func (r *Run) take(m message) (again bool) {
	mine := m.parent.ID == r.id
	if mine && m.header.Type != "status" {
		r.mu.Lock()
		again = r.interrupted && !r.running && m.header.Type == "execute_input"
		r.running = true
		r.mu.Unlock()
	}
	r.handle(m, mine)
	return again
}

// handle takes in what a message tells; mine says that it is about this cell.
func (r *Run) handle(m message, mine bool) {
	switch m.header.Type {
	case "stream":
		var c struct{ Name, Text string }
		if json.Unmarshal(m.content, &c) == nil {
			kind := "stdout"
			if c.Name == "stderr" {
				kind = "stderr"
			}
			r.text(kind, c.Text)
		}
		return
	case "display_data", "update_display_data":
		r.display("display", dataOf(m.content))
		return
	}
	if !mine {
		return
	}
	switch m.header.Type {
	case "execute_result", "error":
		r.mu.Lock()
		r.resulted = true
		r.mu.Unlock()
	}
	switch m.header.Type {
	case "execute_result":
		r.display("result", dataOf(m.content))
	case "clear_output":
		r.event(Output{Kind: "clear"})
	case "error":
		var c struct {
			Ename, Evalue string
			Traceback     []string
		}
		if json.Unmarshal(m.content, &c) == nil {
			r.event(Output{Kind: "error", Name: c.Ename, Value: escapes.ReplaceAllString(c.Evalue, ""), Traceback: escapes.ReplaceAllString(strings.Join(c.Traceback, "\n"), "")})
		}
	case "status":
		var c struct {
			State string `json:"execution_state"`
		}
		if json.Unmarshal(m.content, &c) == nil && c.State == "idle" {
			r.mu.Lock()
			r.idle = true
			if r.interrupted && !r.replied {
				// Interrupted between its own steps, a kernel does not reply.
				r.grace = time.AfterFunc(replyGrace, r.unreplied)
			}
			r.mu.Unlock()
			r.settle()
		}
	case "execute_reply":
		r.reply(m)
	}
}

// lateResult is how long a kernel that is late may take with its result.
const lateResult = 25 * time.Millisecond

// catchUp ends a run of a kernel that is late: once it has answered another
// request, and had a moment if it has shown no result.
func (l *live) catchUp(run *Run) {
	ctx, cancel := context.WithTimeout(context.Background(), idleGrace)
	defer cancel()
	_, _ = l.ask(ctx, l.shell, "kernel_info_request", struct{}{})
	run.mu.Lock()
	resulted := run.resulted
	run.mu.Unlock()
	if !resulted {
		t := time.NewTimer(lateResult)
		defer t.Stop()
		select {
		case <-t.C:
		case <-l.dead:
		}
	}
	run.mu.Lock()
	run.late = nil
	run.mu.Unlock()
	run.settle()
}

// idleGrace is how long the kernel may take to say that it is idle after it
// has answered. It says so at once, but what it publishes may get lost.
const idleGrace = 15 * time.Second

// replyGrace is how long the reply of a kernel that was interrupted may take
// after it has said that it is idle.
const replyGrace = 3 * time.Second

// unreplied ends an interrupted run whose kernel is idle and has not replied.
func (r *Run) unreplied() {
	r.mu.Lock()
	if !r.replied {
		r.replied, r.status = true, statusError
	}
	r.mu.Unlock()
	r.settle()
}

func (r *Run) reply(m message) {
	var c struct {
		Status string
		Count  int `json:"execution_count"`
	}
	_ = json.Unmarshal(m.content, &c)
	r.mu.Lock()
	r.replied, r.count, r.status = true, c.Count, c.Status
	if r.status != statusOK {
		r.status = statusError
	}
	if !r.idle {
		r.grace = time.AfterFunc(idleGrace, func() {
			r.mu.Lock()
			r.idle = true
			r.mu.Unlock()
			r.settle()
		})
	}
	r.mu.Unlock()
	r.settle()
}

// dataOf reads the representations of a display, as far as they are not too
// large.
func dataOf(content json.RawMessage) map[string][]byte {
	var c struct{ Data map[string]json.RawMessage }
	if json.Unmarshal(content, &c) != nil {
		return nil
	}
	out := map[string][]byte{}
	for name, raw := range c.Data {
		if len(out) >= maxTypes || len(name) > 100 {
			continue
		}
		b, ok := representation(name, raw)
		if ok {
			out[name] = b
		}
	}
	return out
}

func representation(name string, raw json.RawMessage) ([]byte, bool) {
	binary := strings.HasPrefix(name, "image/") && name != "image/svg+xml"
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return raw, len(raw) <= maxText && !binary
	}
	if !binary {
		if name == "text/plain" {
			s = escapes.ReplaceAllString(s, "")
		}
		return []byte(s), len(s) <= maxText
	}
	if base64.StdEncoding.DecodedLen(len(s)) > maxImage+8 {
		return nil, false
	}
	b, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(s), ""))
	return b, err == nil && len(b) <= maxImage
}
