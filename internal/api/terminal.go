package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest"
)

const (
	shellPrefix      = "person-" // of terminals that people open: no other process of a job can be reached
	maxShellMessage  = 64 << 10
	maxRows, maxCols = 500, 1000
)

// shellNotice is what the agent is told when a person opens a terminal.
const shellNotice = "A person opened a terminal in the sandbox. Files and processes may change without you."

// shellMessage is what goes over the socket of a terminal as text. Bytes of
// the terminal go as binary messages.
type shellMessage struct {
	Type     string `json:"type"`               // to the client: ready, gap, exit; from it: resize
	Terminal string `json:"terminal,omitempty"` // of ready: give it as ?terminal= to come back to it
	Offset   int64  `json:"offset,omitempty"`   // of ready: of the first byte that follows; give what was read last as ?offset=
	Bytes    int64  `json:"bytes,omitempty"`    // of gap: how many were dropped
	Code     int64  `json:"code,omitempty"`     // of exit
	Rows     int64  `json:"rows,omitempty"`     // of resize
	Cols     int64  `json:"cols,omitempty"`     // of resize
}

// terminalSocket joins a browser to a shell in the sandbox: a new one, or one
// that was opened before and is found again by its id.
func (a *API) terminalSocket(w *response, r *http.Request, c caller) error {
	j, m, err := a.jobToControl(r, c)
	if err != nil {
		return err
	}
	if err := needUpgrade(r); err != nil {
		return err
	}
	sh := &shell{api: a, job: j, m: m, id: r.URL.Query().Get("terminal")}
	rows, err := intParam(r, "rows", 24, 1, maxRows)
	if err != nil {
		return err
	}
	cols, err := intParam(r, "cols", 80, 1, maxCols)
	if err != nil {
		return err
	}
	if sh.offset, err = intParam(r, "offset", 0, 0, 1<<62); err != nil {
		return err
	}
	leave, err := a.lives.enter("terminal", j.ID, maxAttached)
	if err != nil {
		return err
	}
	defer leave()
	if err := sh.open(r.Context(), uint16(rows), uint16(cols)); err != nil {
		return err
	}
	a.lives.attend(sh)
	defer a.lives.leaveAlone(sh)
	ctx, cancel := a.liveContext(r)
	defer cancel(nil)
	s, err := upgrade(ctx, w, r, maxShellMessage)
	if err != nil {
		return err
	}
	stop := a.followControl(ctx, cancel, j, func(glovebox.Control) {})
	defer stop()
	defer context.AfterFunc(ctx, func() { s.End(context.Cause(ctx)) })()
	sh.join(ctx, cancel, s)
	return nil
}

// shell is a terminal in a sandbox.
type shell struct {
	api    *API
	job    *glovebox.Job
	m      Machine
	id     string
	offset int64
	t      Terminal
}

// open finds the shell, or starts one and tells the agent so.
func (sh *shell) open(ctx context.Context, rows, cols uint16) error {
	ctx, cancel := context.WithTimeout(ctx, dialMachine)
	defer cancel()
	var err error
	if sh.id != "" {
		if !strings.HasPrefix(sh.id, shellPrefix) || !glovebox.ValidID(strings.TrimPrefix(sh.id, shellPrefix)) {
			return noShell(sh.id)
		}
		if sh.t, err = sh.m.FindTerminal(ctx, sh.id); glovebox.CodeOf(err) == glovebox.CodeNotFound {
			return noShell(sh.id)
		}
		if err != nil {
			return err
		}
		// It may have ended; then the rest of its output is read.
		_ = sh.t.Resize(ctx, rows, cols)
		return nil
	}
	// Those that are being opened are not among the processes yet. Who came
	// later does not count, or all that come at once could be refused.
	opened, open, err := sh.api.lives.queue("opening", sh.job.ID, maxAttached)
	if err != nil {
		return err
	}
	defer opened()
	procs, err := sh.m.Processes(ctx)
	if err != nil {
		return err
	}
	for _, p := range procs {
		if p.Running && strings.HasPrefix(p.ID, shellPrefix) {
			open++
		}
	}
	if open >= maxShells {
		return glovebox.Errorf(glovebox.CodeConflict, "%d terminals are open in this sandbox; end one with exit", open)
	}
	sh.id = shellPrefix + glovebox.NewID()
	sh.t, err = sh.m.StartTerminal(ctx, guest.Command{
		ID: sh.id, Args: []string{"bash", "-l"}, Dir: guest.Workspace, TTY: true, Rows: rows, Cols: cols,
		Env: map[string]string{"TERM": "xterm-256color", "COLORTERM": "truecolor"},
	})
	if err != nil {
		return err
	}
	err = sh.api.o.Store.SendSignal(ctx, sh.job.Tenant, sh.job.ID, glovebox.Signal{Time: sh.api.o.Now().UTC(), Notice: shellNotice})
	if err != nil { // it ended a moment ago, or the store is away; the person sees that elsewhere
		sh.api.o.Log.WarnContext(ctx, "can't tell the agent of a terminal", "job", sh.job.ID, "err", err)
	}
	return nil
}

func noShell(id string) error {
	return &glovebox.Error{Code: glovebox.CodeNotFound, Field: "query.terminal", Value: clip(id, 60), Msg: "there is no such terminal", Hint: "leave it out for a new one"}
}

// join copies between the shell and the socket until one ends, and closes the
// socket.
func (sh *shell) join(ctx context.Context, end context.CancelCauseFunc, s *socket) {
	idle := time.AfterFunc(idleTerminal, func() { end(errIdle) })
	defer idle.Stop()
	alive := func() { idle.Reset(idleTerminal) }
	if err := sh.say(s, shellMessage{Type: "ready", Terminal: sh.id, Offset: sh.offset}); err != nil {
		s.End(err)
		return
	}
	octx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { s.End(orCause(ctx, sh.write(octx, s, alive))) })
	s.End(orCause(ctx, sh.read(ctx, s, alive)))
	cancel()
	wg.Wait()
}

// orCause returns why ctx ended, or err if it has not.
func orCause(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

func (sh *shell) say(s *socket, m shellMessage) error {
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return s.send(websocket.MessageText, b)
}

// write sends what the shell writes, and how it ended.
func (sh *shell) write(ctx context.Context, s *socket, alive func()) error {
	err := sh.t.Output(ctx, sh.offset, func(o guest.Output) error {
		alive()
		if o.Dropped > 0 {
			return sh.say(s, shellMessage{Type: "gap", Bytes: o.Dropped})
		}
		return s.send(websocket.MessageBinary, o.Data)
	})
	if err != nil {
		return err
	}
	st, err := sh.t.State(ctx)
	if err != nil {
		return err
	}
	return sh.say(s, shellMessage{Type: "exit", Code: int64(st.ExitCode)})
}

// read passes on what the person types.
func (sh *shell) read(ctx context.Context, s *socket, alive func()) error {
	for {
		typ, b, err := s.c.Read(s.ctx)
		if err != nil {
			return err
		}
		alive()
		if typ == websocket.MessageBinary {
			if len(b) == 0 {
				continue
			}
			// One whose shell has ended types into nothing.
			if err := sh.t.Write(ctx, b); err != nil && glovebox.CodeOf(err) != glovebox.CodeConflict {
				return err
			}
			continue
		}
		var m shellMessage
		if err := decodeStrict(b, &m); err != nil {
			return err
		}
		if m.Type != "resize" || m.Rows < 1 || m.Rows > maxRows || m.Cols < 1 || m.Cols > maxCols {
			return glovebox.Invalid("type", "", "only resize is known, with 1 to 500 rows and 1 to 1000 cols")
		}
		if err := sh.t.Resize(ctx, uint16(m.Rows), uint16(m.Cols)); err != nil && glovebox.CodeOf(err) != glovebox.CodeConflict {
			return err
		}
	}
}

// attend notes that someone is at a terminal.
func (l *lives) attend(sh *shell) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open["at "+sh.id]++
	if t := l.seats[sh.id]; t != nil {
		t.Stop()
		delete(l.seats, sh.id)
	}
}

// leaveAlone notes that one less is. A terminal that nobody comes back to is
// hung up.
func (l *lives) leaveAlone(sh *shell) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open["at "+sh.id]--; l.open["at "+sh.id] > 0 {
		return
	}
	delete(l.open, "at "+sh.id)
	l.seats[sh.id] = time.AfterFunc(unattended, func() {
		l.mu.Lock()
		delete(l.seats, sh.id)
		l.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), dialMachine)
		defer cancel()
		m, err := sh.api.machine(sh.job)
		if err != nil {
			return
		}
		if t, err := m.FindTerminal(ctx, sh.id); err == nil {
			err = t.Signal(ctx, "SIGHUP")
			if err != nil && !errors.Is(err, context.Canceled) {
				sh.api.o.Log.WarnContext(ctx, "can't hang up a terminal", "job", sh.job.ID, "err", err)
			}
		}
	})
}
