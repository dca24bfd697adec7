package worker

import (
	"context"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest"
	"github.com/glovebox-dev/glovebox/internal/sandbox"
)

const (
	desktopTimeout = 3 * time.Minute  // for the services to be healthy, on a loaded machine
	pauseTimeout   = 30 * time.Second // for a machine to be paused
	wakeTimeout    = 15 * time.Second // for a paused one to answer someone who looks at it
)

// startDesktop starts the machine's services in the background: nothing waits
// for them but what needs them. From a template they run already.
func (b *box) startDesktop(c *guest.Client) {
	if !b.h.r.o.Desktop {
		return
	}
	b.starting.Go(func() {
		ctx, cancel := context.WithTimeout(b.h.r.ctx, desktopTimeout)
		defer cancel()
		start := time.Now()
		err := c.StartServices(ctx)
		select {
		case <-c.Done(): // nobody is left to whom it matters
			return
		default:
		}
		if err != nil {
			b.h.r.log.Warn("not all services of the machine run", "error", err)
			return
		}
		b.h.r.log.Debug("the services of the machine run", "after", time.Since(start))
	})
}

// idleLoop pauses the machine while the job waits for a person and nobody
// looks at it, until the run ends. Who needs it thaws it.
func (b *box) idleLoop(ctx context.Context) {
	p, ok := b.h.r.o.Driver.(sandbox.Pauser)
	after := b.h.r.o.IdlePause
	if !ok || after < 0 {
		return
	}
	tick := time.NewTicker(after/6 + 1)
	defer tick.Stop()
	var since time.Time // when it was first seen to be idle
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if !b.unused() {
			since = time.Time{}
			continue
		}
		if since.IsZero() {
			since = time.Now()
		}
		if time.Since(since) < after {
			continue
		}
		since = time.Time{}
		if err := b.pause(ctx, p); err != nil && ctx.Err() == nil {
			b.h.r.log.Debug("the machine goes on while the job waits: it can't be paused", "error", err)
			return
		}
	}
}

// unused reports whether the job waits for a person and nobody looks at its
// machine.
func (b *box) unused() bool {
	c := b.client()
	if c == nil || c.Busy() { // without a machine there may be no state yet, either
		return false
	}
	job := b.h.state()
	if job.Phase != glovebox.PhaseWaiting || job.Control == glovebox.ControlUser {
		return false
	}
	hub := b.h.r.o.Live
	return hub == nil || !hub.Watched(job.ID)
}

// pause hangs up and pauses the machine, unless it is needed now.
func (b *box) pause(ctx context.Context, p sandbox.Pauser) error {
	select {
	case b.busy <- struct{}{}:
		defer func() { <-b.busy }()
	default:
		return nil
	}
	if !b.unused() {
		return nil
	}
	b.mu.Lock()
	id := b.id
	b.idle = true
	b.mu.Unlock()
	b.hangUp()
	ctx, cancel := context.WithTimeout(ctx, pauseTimeout)
	defer cancel()
	if err := p.Pause(ctx, id); err != nil {
		return err
	}
	b.h.r.log.Info("the machine is paused: the job waits for a person, and nobody watches", "sandbox", string(id))
	return nil
}

// look returns a connection for someone who looks at the machine, nil if
// there is none. A machine that is paused goes on.
func (b *box) look() *guest.Client {
	if c := b.client(); c != nil {
		return c
	}
	b.mu.Lock()
	idle := b.idle
	b.mu.Unlock()
	if !idle {
		return nil
	}
	ctx, cancel := context.WithTimeout(b.h.r.ctx, wakeTimeout)
	defer cancel()
	c, err := b.guest(ctx)
	if err != nil {
		b.h.r.log.Warn("a paused machine does not go on", "error", err)
		return nil
	}
	return c
}
