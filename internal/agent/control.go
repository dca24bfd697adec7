package agent

import (
	"context"
	"sync"

	"github.com/glovebox-dev/glovebox"
)

// gate tells a tool that runs who holds the mouse and the keyboard.
type gate struct {
	mu      sync.Mutex
	holder  glovebox.Control
	changed chan struct{}
}

func newGate(holder glovebox.Control) *gate {
	return &gate{holder: holder, changed: make(chan struct{})}
}

// get is what a tool calls: see tool.Env.
func (g *gate) get() (glovebox.Control, <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.holder, g.changed
}

func (g *gate) set(holder glovebox.Control) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.holder == holder {
		return
	}
	g.holder = holder
	close(g.changed)
	g.changed = make(chan struct{})
}

// holder is what the log says about who holds the mouse and the keyboard.
func (p *position) holder() glovebox.Control {
	if p.taken != nil {
		return glovebox.ControlUser
	}
	return glovebox.ControlAgent
}

// handover returns the event with which mouse and keyboard change hands.
// Tools stop using them before the person gets them, and may use them again
// when that is recorded. since is the event with which a person took them.
func (r *run) handover(ctx context.Context, to glovebox.Control, since *glovebox.ControlChanged) glovebox.ControlChanged {
	if to == glovebox.ControlUser {
		r.gate.set(to)
	} else {
		r.dirty = true // the person may have changed files
	}
	if r.Handover == nil {
		return glovebox.ControlChanged{Control: to}
	}
	c := r.Handover(ctx, to, since)
	c.Control = to
	return c
}

// hold keeps finish waiting while a person is at the machine, which would
// vanish under their hands. It returns when something may have changed.
func (r *run) hold(ctx context.Context) error {
	if !r.held {
		r.held = true
		if err := r.append(ctx, []glovebox.Event{event(glovebox.EventNotice, glovebox.Notice{
			Text: "The agent is about to finish. That waits until mouse and keyboard are given back.",
		})}); err != nil {
			return err
		}
	}
	if err := r.pause(ctx, r.timeLeft(), true); err != nil {
		return err
	}
	r.held = r.job.Control == glovebox.ControlUser
	return nil
}
