//go:build linux

package guestd

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"sort"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest"
	"github.com/glovebox-dev/glovebox/internal/guest/guestd/proc"
	"github.com/glovebox-dev/glovebox/internal/guest/guestpb"
	"github.com/glovebox-dev/glovebox/internal/guest/wire"
)

// command turns a request into a process to start.
func (s *Server) command(c *guestpb.Command) (proc.Command, error) {
	if c == nil {
		return proc.Command{}, glovebox.Invalid("command", "send one", "there is no command")
	}
	dir, err := s.resolveDir(c.Dir)
	if err != nil {
		return proc.Command{}, err
	}
	return proc.Command{
		ID: c.Id, Args: c.Args, Dir: dir, Env: s.environ(c.Env, c.Root), Cred: s.credential(c.Root),
		TTY: c.Tty, Rows: uint16(c.Rows), Cols: uint16(c.Cols), NoStdin: c.NoStdin, OutputLimit: c.OutputLimit,
	}, nil
}

// environ returns the environment of a process: the base, what Bind added,
// what the command adds.
func (s *Server) environ(add map[string]string, root bool) []string {
	home, user := s.real(guest.Home), "agent"
	if root {
		home, user = "/root", "root"
	}
	env := map[string]string{
		"HOME": home, "USER": user, "LOGNAME": user, "SHELL": "/bin/bash", "LANG": "C.UTF-8", "TERM": "xterm-256color",
		"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
	}
	if s.o.Root != "" {
		if p := os.Getenv("PATH"); p != "" {
			env["PATH"] = p
		}
	} else {
		env["PATH"] = guest.Home + "/.local/bin:" + env["PATH"]
	}
	if addr := s.ProxyAddr(); addr != "" {
		for _, n := range []string{"http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"} {
			env[n] = "http://" + addr
		}
		env["no_proxy"], env["NO_PROXY"] = "localhost,127.0.0.1,::1", "localhost,127.0.0.1,::1"
	}
	if d := s.displayName(); d != "" {
		env["DISPLAY"] = d
	}
	s.mu.Lock()
	for k, v := range s.env {
		env[k] = v
	}
	s.mu.Unlock()
	for k, v := range add {
		env[k] = v
	}
	out := make([]string, 0, len(env))
	for k, v := range env {
		out = append(out, k+"="+v)
	}
	sort.Strings(out)
	return out
}

func stateMessage(st proc.State) *guestpb.ProcessState {
	m := &guestpb.ProcessState{
		Id: st.ID, Args: st.Args, Pid: int64(st.PID), Running: st.Running, ExitCode: int32(st.ExitCode), Signal: st.Signal,
		StartedAt: st.Started.UnixNano(), Cpu: int64(st.CPU), MaxRss: st.MaxRSS, WaitsInput: st.WaitsInput, OutputSize: st.OutputSize,
	}
	if !st.Ended.IsZero() {
		m.EndedAt = st.Ended.UnixNano()
	}
	return m
}

// run starts a process, waits for its end and sends what is kept of its
// output and its state, all on one stream. A host that sends FrameKill ends
// the process; one that merely goes away does not.
func (f *framed) run() error {
	var q guestpb.RunRequest
	if err := f.r.ReadMessage(&q); err != nil {
		return err
	}
	c, err := f.s.command(q.Command)
	if err != nil {
		return err
	}
	c.NoStdin = c.NoStdin || !c.TTY
	c.OutputLimit = q.Limit
	p, err := f.s.procs.Start(c)
	if err != nil {
		return f.s.hide(err)
	}
	f.watchClose(func() { _ = p.Signal(syscall.SIGKILL) })
	select {
	case <-p.Done():
	case <-f.ctx.Done():
		return context.Cause(f.ctx)
	}
	if err := f.copyOutput(p, 0); err != nil {
		return err
	}
	return f.send(stateMessage(p.State(false)))
}

// copyOutput sends the output of a process from an offset on, until it ends.
func (f *framed) copyOutput(p *proc.Process, off int64) error {
	return p.Output(f.ctx, off, func(c proc.Chunk) error {
		if c.Gap > 0 {
			if err := f.w.Write(wire.FrameGap, binary.BigEndian.AppendUint64(nil, uint64(c.Gap))); err != nil {
				return err
			}
		}
		t := wire.FrameData
		if c.Stderr {
			t = wire.FrameStderr
		}
		if err := f.w.Write(t, c.Data); err != nil {
			return err
		}
		return f.w.Flush()
	})
}

func (f *framed) output() error {
	var q guestpb.OutputRequest
	if err := f.r.ReadMessage(&q); err != nil {
		return err
	}
	p, err := f.s.procs.Get(q.Id)
	if err != nil {
		return err
	}
	f.watchClose(nil)
	if err := f.copyOutput(p, q.Offset); err != nil {
		return err
	}
	return f.w.End()
}

// terminal joins a stream to a process's terminal.
func (ses *session) terminal(conn *wire.Conn, id string) {
	defer conn.Close()
	w := wire.NewFrameWriter(conn, wire.Header{})
	p, err := ses.s.procs.Get(id)
	if err == nil && !p.TTY() {
		err = glovebox.Errorf(glovebox.CodeConflict, "process %q has no terminal", id)
	}
	if err != nil {
		_ = w.Fail(err)
		return
	}
	from := p.Written() // before the host knows that it is joined, and types
	if w.End() != nil {
		return
	}
	ctx, cancel := context.WithCancel(ses.s.ctx)
	defer cancel()
	_ = p.Copy(ctx, conn, from)
}

// signals are those that a host may send.
var signals = []string{"SIGINT", "SIGTERM", "SIGKILL", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGSTOP", "SIGCONT"}

func signalNumber(name string) (syscall.Signal, error) {
	for _, s := range signals {
		if s == name {
			return unix.SignalNum(name), nil
		}
	}
	return 0, glovebox.Invalid("signal", "use one of SIGINT, SIGTERM, SIGKILL, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGSTOP, SIGCONT", "%.40q is no signal that can be sent", name)
}

// runInternal runs a program of the daemon's own (ripgrep) as the tools' user
// and calls line with each line of its output. line returns false to stop it.
func (s *Server) runInternal(ctx context.Context, dir string, args []string, line func([]byte) bool) (proc.State, error) {
	id := internalPrefix + glovebox.NewID()
	p, err := s.procs.Start(proc.Command{ID: id, Args: args, Dir: dir, Env: s.environ(nil, false), Cred: s.credential(false), NoStdin: true, OutputLimit: maxInternal})
	if err != nil {
		return proc.State{}, err
	}
	defer s.procs.Forget(id)
	lines := lineSplitter{line: line}
	err = p.Output(ctx, 0, func(c proc.Chunk) error {
		if c.Stderr {
			return nil
		}
		if c.Gap > 0 {
			return errStop
		}
		return lines.write(c.Data)
	})
	if err != nil {
		_ = p.Signal(syscall.SIGKILL)
		if !errors.Is(err, errStop) {
			return proc.State{}, err
		}
	}
	<-p.Done()
	return p.State(false), nil
}

// internalPrefix begins the ids of processes of the daemon's own.
const internalPrefix = "guest-"

// maxInternal is how much output of such a program may wait to be read.
const maxInternal = 32 << 20

var errStop = errors.New("enough")

// lineSplitter cuts a stream into lines; longer ones than it keeps are cut.
type lineSplitter struct {
	line func([]byte) bool
	rest []byte
}

const maxLine = 1 << 20

func (l *lineSplitter) write(b []byte) error {
	for len(b) > 0 {
		i := 0
		for i < len(b) && b[i] != '\n' && b[i] != 0 {
			i++
		}
		if len(l.rest)+i <= maxLine {
			l.rest = append(l.rest, b[:i]...)
		}
		if i == len(b) {
			return nil
		}
		if !l.line(l.rest) {
			return errStop
		}
		l.rest, b = l.rest[:0], b[i+1:]
	}
	return nil
}

// timeOf is the time of a message; zero stays zero.
func timeOf(nanos int64) time.Time {
	if nanos == 0 {
		return time.Time{}
	}
	return time.Unix(0, nanos)
}
