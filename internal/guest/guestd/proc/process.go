//go:build linux

package proc

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox"
)

// State is what is known of a process.
type State struct {
	ID             string
	Args           []string
	PID            int
	Running        bool
	ExitCode       int // 128+n when signal n ended it
	Signal         string
	Started, Ended time.Time
	CPU            time.Duration
	MaxRSS         int64
	WaitsInput     bool
	OutputSize     int64
}

// State returns what is known now. Asking whether a running process waits for
// input reads all of /proc, so it is only done if input is set.
func (p *Process) State(input bool) State {
	size, _ := p.out.written()
	s := State{ID: p.cmd.ID, Args: p.cmd.Args, PID: p.pidNow(), Started: p.started, OutputSize: size}
	if p.running() {
		s.Running = true
		if st, ok := readStat(s.PID); ok {
			s.CPU = st.cpu
		}
		s.MaxRSS = peakRSS(s.PID)
		s.WaitsInput = input && p.waitsInput()
		return s
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s.Ended = p.ended
	s.CPU = time.Duration(p.end.usage.Utime.Nano() + p.end.usage.Stime.Nano())
	s.MaxRSS = p.end.usage.Maxrss << 10
	if w := p.end.status; w.Signaled() {
		s.ExitCode, s.Signal = 128+int(w.Signal()), unix.SignalName(w.Signal())
	} else {
		s.ExitCode = w.ExitStatus()
	}
	return s
}

func (p *Process) running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

func (p *Process) pidNow() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pid
}

// ID returns its id.
func (p *Process) ID() string { return p.cmd.ID }

// Done is closed when the process and its output have ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// inputPoll is how often Wait looks whether a process waits for input.
const inputPoll = 200 * time.Millisecond

// Wait returns when the process has ended, or ctx does, or, if untilInput,
// when it waits for input. It says so in the state.
func (p *Process) Wait(ctx context.Context, untilInput bool) (State, error) {
	var tick <-chan time.Time
	if untilInput {
		t := time.NewTicker(inputPoll)
		defer t.Stop()
		tick = t.C
	}
	var cpu time.Duration
	var since time.Time
	for {
		select {
		case <-p.exited:
			return p.State(false), nil
		case <-ctx.Done():
			return State{}, context.Cause(ctx)
		case <-tick:
			fam, ok := p.still()
			now := time.Now()
			if total := sumCPU(fam); !ok || total != cpu || since.IsZero() {
				cpu, since = total, now
				continue
			}
			if now.Sub(since) >= inputQuiet-inputPoll {
				if s := p.State(true); s.WaitsInput {
					return s, nil
				}
			}
		}
	}
}

func sumCPU(fam []stat) (sum time.Duration) {
	for _, s := range fam {
		sum += s.cpu
	}
	return sum
}

// Output calls f with the output from off on, until it has ended or ctx does.
// Data is valid until f returns.
func (p *Process) Output(ctx context.Context, off int64, f func(Chunk) error) error {
	buf := make([]byte, 32<<10)
	for {
		c, at, more := p.out.next(off, buf)
		off = at
		if c.Gap > 0 || len(c.Data) > 0 {
			if err := f(c); err != nil {
				return err
			}
			continue
		}
		if more == nil {
			return nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Write writes to the standard input or terminal. It waits while the process
// does not read, until ctx ends.
func (p *Process) Write(ctx context.Context, b []byte) error {
	p.mu.Lock()
	f := p.stdin
	if f == nil {
		p.mu.Unlock()
		return glovebox.Errorf(glovebox.CodeConflict, "the input of process %q is closed", p.cmd.ID)
	}
	p.writes++
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		p.writes--
		p.mu.Unlock()
	}()
	var cancelled atomic.Bool
	stop := context.AfterFunc(ctx, func() {
		cancelled.Store(true)
		_ = f.SetWriteDeadline(time.Unix(1, 0))
	})
	n, err := f.Write(b)
	if !stop() || cancelled.Load() {
		_ = f.SetWriteDeadline(time.Time{})
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return glovebox.Errorf(glovebox.CodeUnavailable, "process %q read only %d of %d bytes: %w", p.cmd.ID, n, len(b), context.Cause(ctx))
	case errors.Is(err, syscall.EPIPE), errors.Is(err, os.ErrClosed), errors.Is(err, syscall.EIO):
		return glovebox.Errorf(glovebox.CodeConflict, "the input of process %q is closed", p.cmd.ID)
	}
	return err
}

// CloseStdin ends the standard input. On a terminal it types the end-of-file
// character instead, since closing it would hang the process up.
func (p *Process) CloseStdin(ctx context.Context) error {
	if p.cmd.TTY {
		return p.Write(ctx, []byte{4})
	}
	p.closeStdin()
	return nil
}

func (p *Process) closeStdin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stdin != nil {
		p.stdin.Close()
		p.stdin = nil
	}
}

// Resize sets the size of the terminal.
func (p *Process) Resize(rows, cols uint16) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.cmd.TTY {
		return glovebox.Errorf(glovebox.CodeConflict, "process %q has no terminal", p.cmd.ID)
	}
	if p.stdin == nil {
		return glovebox.Errorf(glovebox.CodeConflict, "process %q has ended", p.cmd.ID)
	}
	raw, err := p.stdin.SyscallConn() // not Fd, after which it would block
	if err != nil {
		return err
	}
	set := func(fd uintptr) {
		err = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols})
	}
	if cerr := raw.Control(set); cerr != nil {
		return cerr
	}
	return err
}

// TTY reports whether the process has a terminal.
func (p *Process) TTY() bool { return p.cmd.TTY }

// killWait is how long what was killed may take to be gone.
const killWait = 2 * time.Second

// Signal sends a signal to the process group, and to everything that was
// started from it and left the group. If nothing is left, that is no error.
// After SIGKILL it waits until nothing is, for about two seconds at most.
func (p *Process) Signal(sig syscall.Signal) error {
	until := time.Now().Add(killWait)
	ended := !p.running()
	left, err := p.send(sig, until)
	if sig != syscall.SIGKILL || ended && left == 0 {
		return err
	}
	// A process that forked while it was looked at, and then died, may leave a
	// child that this look missed: the next one does not.
	pause := time.Millisecond
	for empty := 0; empty < 2 && time.Now().Before(until); {
		time.Sleep(pause) //nolint:forbidigo // nothing tells when a process that is no child has died
		pause = min(2*pause, 50*time.Millisecond)
		var again error
		left, again = p.send(sig, until)
		err = cmp.Or(err, again)
		if empty++; left > 0 {
			empty = 0
		}
	}
	return err
}

// send sends a signal once, and returns how many processes there were. It waits
// until a time for those that start another program.
func (p *Process) send(sig syscall.Signal, until time.Time) (left int, err error) {
	pid := p.pidNow()
	kill := func(pid int) {
		if kerr := syscall.Kill(pid, sig); kerr != nil && !errors.Is(kerr, syscall.ESRCH) {
			err = cmp.Or(err, kerr)
		}
	}
	// Who left the group is found while those from whom it descends are there.
	// While the leader has not been waited for its group can't be another's.
	running := p.running()
	fam := family(pid, p.marker, os.Getpid())
	if running {
		kill(-pid)
	}
	for _, s := range fam {
		switch {
		case running && s.pgrp == pid: // it was sent to the group
		case !running && !hasMarker(s.pid, []byte(p.marker), until):
			continue // the pid may be another's by now
		default:
			kill(s.pid)
		}
		left++
	}
	return left, err
}

// Written returns how much output there is so far, in bytes.
func (p *Process) Written() int64 {
	size, _ := p.out.written()
	return size
}

// Copy joins a stream to the terminal, until the stream or the process ends.
// Output starts at the byte from.
func (p *Process) Copy(ctx context.Context, rw io.ReadWriter, from int64) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer cancel()
		buf := make([]byte, 4<<10)
		for {
			n, err := rw.Read(buf)
			if n > 0 && p.Write(ctx, buf[:n]) != nil || err != nil {
				return
			}
		}
	}()
	return p.Output(ctx, from, func(c Chunk) error {
		_, err := rw.Write(c.Data)
		return err
	})
}
