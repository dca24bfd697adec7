package gvisor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gvisor.dev/gvisor/runsc/boot"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/sandbox"
	"github.com/glovebox-dev/glovebox/internal/sandbox/local"
)

// pauseState is whether the tasks of a sandbox are stopped, as far as is
// written down. gVisor counts stops, ends itself at one Resume too many, and
// does not tell the count: so a step is written down before it is taken, too.
type pauseState string

const (
	paused  pauseState = "paused"
	unknown pauseState = "unknown" // someone was stopping or resuming it
)

// probeTime is how long a process inside may take to end before the sandbox
// counts as stopped: hundreds of times what it takes, since one that only was
// slow would end itself when it is resumed. It is only waited for after a crash
// in the middle of stopping or resuming.
const probeTime = 10 * time.Second

// Pause implements [sandbox.Pauser]. The memory of the sandbox stays.
func (d *Driver) Pause(ctx context.Context, id sandbox.ID) error {
	return d.withRecord(ctx, "pause", id, func(ctx context.Context, ctl *controller, r *record) error {
		if r.Pause == paused {
			return nil
		}
		if r.Pause == unknown {
			if err := d.resume(ctx, ctl, r); err != nil {
				return err
			}
		}
		r.Pause = unknown
		if err := writeRecord(d.dir(id), r); err != nil {
			return err
		}
		if err := ctl.conn.Call(boot.ContMgrPause, nil, nil); err != nil {
			return fmt.Errorf("stop it: %w", err)
		}
		r.Pause = paused
		return writeRecord(d.dir(id), r)
	})
}

// thaw lets a paused sandbox go on.
func (d *Driver) thaw(ctx context.Context, id sandbox.ID) error {
	return d.withRecord(ctx, "thaw", id, func(ctx context.Context, ctl *controller, r *record) error {
		return d.resume(ctx, ctl, r)
	})
}

// withRecord runs f with a running sandbox and its record, held.
func (d *Driver) withRecord(ctx context.Context, what string, id sandbox.ID, f func(context.Context, *controller, *record) error) error {
	if checkID(id) != nil {
		return notFound(id, "does not exist")
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	unlock, err := local.LockDir(ctx, d.dir(id))
	if unlock != nil {
		defer unlock()
	}
	var r *record
	if err == nil && unlock != nil {
		r, err = readRecord(d.dir(id))
	}
	switch {
	case err != nil:
		return &glovebox.Error{Code: glovebox.CodeUnavailable, Op: what + " sandbox " + string(id), Err: err}
	case r == nil || !r.Started:
		return notFound(id, "does not exist")
	case !r.Process.Alive():
		return notFound(id, "has ended")
	}
	ctl, err := connect(ctx, r.sentry(), d.dir(id))
	if err == nil {
		err = f(ctx, ctl, r)
		ctl.close()
	}
	if err == nil {
		return nil
	}
	if !r.Process.Alive() {
		return notFound(id, "has ended")
	}
	return &glovebox.Error{Code: glovebox.CodeUnavailable, Op: what + " sandbox " + string(id), Err: errors.Join(err, context.Cause(ctx))}
}

// resume lets a sandbox go on, and finds out whether it is stopped where that
// was not written down.
func (d *Driver) resume(ctx context.Context, ctl *controller, r *record) error {
	was := r.Pause
	if was == "" {
		return nil
	}
	r.Pause = unknown
	if err := writeRecord(d.dir(r.ID), r); err != nil {
		return err
	}
	if was == unknown {
		switch runs, err := d.runs(ctx, r); {
		case err != nil:
			return fmt.Errorf("find out whether it is stopped: %w", err)
		case runs:
			r.Pause = ""
			return writeRecord(d.dir(r.ID), r)
		}
	}
	if err := ctl.conn.Call(boot.ContMgrResume, nil, nil); err != nil {
		return fmt.Errorf("let it go on: %w", err)
	}
	r.Pause = ""
	return writeRecord(d.dir(r.ID), r)
}

// runs reports whether the tasks of a sandbox are not stopped: a process that
// is started inside comes to its end. That it takes too long is the only sign
// of the opposite.
func (d *Driver) runs(ctx context.Context, r *record) (bool, error) {
	probe, cancel := context.WithTimeout(ctx, d.probe)
	defer cancel()
	err := d.tryInside(probe, r)
	switch {
	case err == nil:
		return true, nil
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	case probe.Err() != nil:
		return false, nil
	}
	return false, err
}

// tryInside starts a process inside and waits for its end.
func (d *Driver) tryInside(ctx context.Context, r *record) error {
	ctl, err := connect(ctx, r.sentry(), d.dir(r.ID))
	if err != nil {
		return err
	}
	defer ctl.close()
	ours, theirs, err := socketPair()
	if err != nil {
		return err
	}
	defer ours.Close()
	defer theirs.Close()
	pid, err := ctl.execConnect(theirs)
	if err != nil {
		return err
	}
	_, err = ctl.wait(pid)
	return err
}
