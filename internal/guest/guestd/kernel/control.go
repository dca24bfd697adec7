//go:build linux

package kernel

import (
	"context"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/clip"
	"github.com/glovebox-dev/glovebox/internal/guest/wire"
)

// Interrupt interrupts what a kernel does. CodeConflict if it does nothing.
func (m *Manager) Interrupt(ctx context.Context, name string) error {
	k, err := m.find(name)
	if err != nil {
		return err
	}
	k.mu.Lock()
	l, run, running := k.live, k.run, k.running
	k.mu.Unlock()
	if !running || l == nil || run.over() {
		return glovebox.Errorf(glovebox.CodeConflict, "kernel %q runs no cell", name)
	}
	l.interrupt(ctx, run)
	return nil
}

// interruptWait is for the answer to an interrupt that is sent as a message.
const interruptWait = 2 * time.Second

func (l *live) interrupt(ctx context.Context, run *Run) {
	run.mu.Lock()
	run.interrupted = true
	run.mu.Unlock()
	if l.signal() {
		if l.spec.Name == "bash" {
			go l.repeat(run, interruptAgain)
		}
		return
	}
	ctx, cancel := context.WithTimeout(ctx, interruptWait)
	defer cancel()
	network, addr := l.connection.address(l.connection.ControlPort)
	p, err := dialPeer(ctx, network, addr, "DEALER")
	if err != nil {
		return // a kernel that does not listen is killed in the end
	}
	defer p.close()
	l.mu.Lock()
	frames, _, err := l.me.request("interrupt_request", struct{}{})
	l.mu.Unlock()
	if err == nil && p.send(frames...) == nil {
		_ = p.conn.SetReadDeadline(time.Now().Add(interruptWait))
		_, _, _ = p.recv() // the reply: it has arrived
	}
}

// interruptAgain is when a cell of Bash that goes on is interrupted again. A
// command that was just being started can miss the signal: between its fork
// and its exec. Bash, which has heard it, then takes it for one that the
// command has dealt with, and goes on.
var interruptAgain = []time.Duration{250 * time.Millisecond, time.Second, 3 * time.Second}

// repeat signals again after each of some times, as long as run goes on.
func (l *live) repeat(run *Run, after []time.Duration) {
	for _, d := range after {
		t := time.NewTimer(d)
		select {
		case <-run.done:
			t.Stop()
			return
		case <-l.dead:
			t.Stop()
			return
		case <-t.C:
		}
		l.mu.Lock() // lest the next cell begin meanwhile
		goesOn := l.run == run && !run.over()
		if goesOn {
			l.signal()
		}
		l.mu.Unlock()
		if !goesOn {
			return
		}
	}
}

// signal interrupts a kernel that takes signals; false if it does not. It goes
// to the group alone: what left it, such as a server that the cell started in a
// session of its own, is to go on.
func (l *live) signal() bool {
	if l.spec.InterruptMode == "message" {
		return false
	}
	_ = syscall.Kill(-l.pid, syscall.SIGINT)
	return true
}

// Restart ends a kernel, all that its cells started included, and starts it
// anew. It is there when Restart returns.
func (m *Manager) Restart(ctx context.Context, name string) error {
	k, err := m.find(name)
	if err != nil {
		return err
	}
	if l := k.current(); l != nil {
		m.kill(l) // which ends a running cell, and so its turn
	}
	if err := k.take(ctx); err != nil {
		return err
	}
	defer k.give()
	_, _, err = m.ensure(ctx, k)
	return err
}

// Warm starts the kernels of languages under their own names, so that they
// are there before the first cell; those that run already are left alone.
func (m *Manager) Warm(ctx context.Context, languages []string) error {
	for _, lang := range languages {
		k, err := m.get(lang, lang)
		if err != nil {
			return err
		}
		if err := k.take(ctx); err != nil {
			return err
		}
		_, _, err = m.ensure(ctx, k)
		k.give()
		if err != nil {
			return err
		}
	}
	return nil
}

func cleanName(name string) string {
	if len(name) > 32 {
		name = name[:32]
	}
	return name
}

func quote(name string) string { return strconv.Quote(clip.Short(name, 80)) }

func trimText(b []byte) string {
	return strings.TrimSpace(wire.CleanText(escapes.ReplaceAllString(string(b), ""), 4<<10))
}
