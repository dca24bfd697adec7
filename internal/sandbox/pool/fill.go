package pool

import (
	"context"
	"path/filepath"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/sandbox"
)

// Run removes what dead owners left and keeps the pool filled until ctx ends.
// It is called once.
func (d *Driver) Run(ctx context.Context) {
	d.removeLeft(ctx)
	retry, wait := firstRetry, time.Duration(0)
	for {
		if !d.sleep(ctx, wait) {
			return
		}
		d.prune(ctx)
		var ok bool
		if wait, ok = d.due(); !ok {
			continue
		}
		if err := d.fill(ctx); err != nil && ctx.Err() == nil {
			wait, retry = retry, min(2*retry, lastRetry)
			d.o.Log.Warn("no machine could be made ready", "error", err, "again in", wait)
			if !d.sleepDeaf(ctx, wait) {
				return
			}
			wait = 0
			continue
		}
		retry, wait = firstRetry, 0
	}
}

// sleep waits, or until there is something to look at. False: it is over.
func (d *Driver) sleep(ctx context.Context, wait time.Duration) bool {
	if wait <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
	case <-d.wake:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// sleepDeaf waits and is not woken.
func (d *Driver) sleepDeaf(ctx context.Context, wait time.Duration) bool {
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// due reports whether a machine should be made now, and if not, when to look
// again.
func (d *Driver) due() (wait time.Duration, ok bool) {
	d.mu.Lock()
	full, busy, since := len(d.ready) >= d.o.Size, d.creating > 0, time.Since(d.last)
	d.mu.Unlock()
	switch {
	case full:
		return lookEvery, false
	case busy, since < quiet:
		return max(quiet-since, quiet/10), false
	case d.o.Ready != nil && !d.o.Ready():
		return quiet, false
	case d.o.available() < d.o.MinFree:
		return lookEvery, false
	}
	return 0, true
}

// fill makes one machine ready.
func (d *Driver) fill(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, fillTime)
	defer cancel()
	id := sandbox.ID(glovebox.NewID())
	spec := sandbox.Spec{ID: id, Image: d.o.Image, Limits: d.o.Limits, Labels: map[string]string{ownerLabel: d.owner}}
	if err := d.base.Create(ctx, spec); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			if rm := d.destroy(id); rm != nil {
				d.o.Log.Warn("can't remove a machine that did not become ready", "sandbox", string(id), "error", rm)
			}
		}
	}()
	conn, err := d.base.Dial(ctx, id)
	if err != nil {
		return err
	}
	secret, err := greet(ctx, conn, d.o.Settings)
	if err != nil {
		return err
	}
	if conn, err = d.base.Dial(ctx, id); err != nil {
		return err
	}
	d.mu.Lock()
	d.greeted[id] = greeted{conn: conn, secret: secret}
	d.mu.Unlock()
	d.putBack(id)
	return nil
}

// prune forgets ready machines that have died.
func (d *Driver) prune(ctx context.Context) {
	infos, err := d.base.List(ctx)
	if err != nil {
		return
	}
	for _, i := range infos {
		if i.Labels[ownerLabel] == d.owner && i.State == sandbox.Ended {
			d.o.Log.Warn("a ready machine has ended", "sandbox", string(i.ID), "cause", i.Cause)
			if err := d.destroy(i.ID); err != nil {
				d.o.Log.Warn("can't remove a ready machine that has ended", "sandbox", string(i.ID), "error", err)
			}
		}
	}
}

// removeLeft removes the ready machines, and the locks, of owners that died. It
// takes no notice of an end of ctx: what lives shortly leaves nothing, either.
func (d *Driver) removeLeft(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	infos, err := d.base.List(ctx)
	if err != nil {
		d.o.Log.Warn("can't look for ready machines that are left", "error", err)
		return
	}
	for _, i := range infos {
		owner := i.Labels[ownerLabel]
		if owner == "" || d.alive(owner) {
			continue
		}
		d.o.Log.Info("removing a ready machine of a process that died", "sandbox", string(i.ID))
		if err := d.destroy(i.ID); err != nil {
			d.o.Log.Warn("can't remove it", "sandbox", string(i.ID), "error", err)
		}
	}
	locks, _ := filepath.Glob(filepath.Join(d.o.Dir, "*.lock"))
	for _, l := range locks {
		removeLock(l)
	}
}
