package template

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest"
	"github.com/glovebox-dev/glovebox/internal/sandbox"
	"github.com/glovebox-dev/glovebox/internal/sandbox/local"
)

const (
	// makeTimeout bounds the making of a template, on a loaded machine.
	makeTimeout = 5 * time.Minute

	// lockPoll is how often one looks whether another process has made it.
	lockPoll = 500 * time.Millisecond

	// keepUnused is how long a template that this process does not use is
	// kept after it was last used: another version may be about to.
	keepUnused = time.Hour

	// imagePoll is how often one looks for an image that is missing.
	imagePoll = 5 * time.Second

	// lookEvery is how often Run looks without being woken: whether the image
	// has changed, and to mark the template as used.
	lookEvery = 10 * time.Minute
)

// aside is in the names of templates that are being removed, and partial in
// those that are being written by drivers.
const (
	aside   = ".aside-"
	partial = ".partial"
)

// Run makes the template whenever it is missing, until ctx ends. It is called
// once.
func (d *Driver) Run(ctx context.Context) {
	d.mu.Lock()
	d.running = true
	d.mu.Unlock()
	// Also if nothing is to be made, or ctx has ended already.
	if unlock, ok, err := d.tryLock(); err == nil && ok {
		left, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		d.removeMakers(left)
		cancel()
		unlock()
	}
	retry := firstRetry
	for ctx.Err() == nil {
		wait := lookEvery
		if !exists(d.o.Image) {
			wait = imagePoll // someone is building it, or will
			d.set(State{Failed: errNoImage})
		} else if err := d.Ensure(ctx); err != nil && ctx.Err() == nil {
			wait, retry = retry, min(2*retry, lastRetry)
			d.o.Log.Warn("the machine template could not be made; machines start cold", "error", err, "again in", wait)
		} else {
			retry = firstRetry
		}
		d.pause(ctx, wait)
	}
	d.mu.Lock()
	d.running = false
	d.mu.Unlock()
}

// pause waits until it is time to look again. After a failure a wish for the
// template does not make it sooner.
func (d *Driver) pause(ctx context.Context, wait time.Duration) {
	t := time.NewTimer(wait)
	defer t.Stop()
	wake := d.wake
	if d.State().Failed != nil {
		wake = nil
	}
	select {
	case <-ctx.Done():
	case <-t.C:
	case <-wake:
	}
}

// Ensure returns when the template is there: made, or found.
func (d *Driver) Ensure(ctx context.Context) error {
	key, err := d.Key()
	if err != nil {
		d.set(State{Failed: err})
		return err
	}
	dir := filepath.Join(d.o.Dir, key)
	if exists(dir) {
		d.use(key)
		return nil
	}
	d.set(State{Key: key, Making: true})
	if err = d.make(ctx, key); err != nil {
		d.set(State{Key: key, Failed: err})
		return err
	}
	d.use(key)
	return nil
}

func (d *Driver) set(s State) {
	d.mu.Lock()
	same := d.state == s
	d.state = s
	d.mu.Unlock()
	if d.o.Changed != nil && !same {
		d.o.Changed(s)
	}
}

// use marks a template as used, and removes what is not.
func (d *Driver) use(key string) {
	now := time.Now()
	_ = os.Chtimes(filepath.Join(d.o.Dir, key), now, now)
	d.set(State{Key: key, Ready: true})
	if unlock, ok, err := d.tryLock(); err == nil && ok {
		d.removeUnused(key)
		unlock()
	}
}

// make makes a template, or waits until another process has.
func (d *Driver) make(ctx context.Context, key string) error {
	unlock, err := d.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	dir := filepath.Join(d.o.Dir, key)
	if exists(dir) {
		return nil
	}
	d.removeMakers(ctx)
	start := time.Now()
	d.o.Log.Info("making the machine template: machines start cold until it is there", "template", key)
	ctx, cancel := context.WithTimeout(ctx, makeTimeout)
	defer cancel()
	if err := d.freeze(ctx, key, dir); err != nil {
		return err
	}
	d.o.Log.Info("the machine template is made", "template", key, "took", time.Since(start).Round(time.Millisecond), "MiB", sizeOf(dir)>>20)
	return nil
}

// freeze starts a machine, warms it up and freezes it.
func (d *Driver) freeze(ctx context.Context, key, dir string) (err error) {
	id := sandbox.ID(glovebox.NewID())
	if err := d.o.Base.Create(ctx, sandbox.Spec{ID: id, Image: d.o.Image, Limits: d.o.Limits, Labels: map[string]string{makerLabel: key}}); err != nil {
		return fmt.Errorf("start a machine: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.destroy(id))
		}
	}()
	conn, err := d.o.Base.Dial(ctx, id)
	if err != nil {
		return err
	}
	c, err := guest.NewClient(ctx, conn, guest.Options{})
	if err != nil {
		return err
	}
	// Secrets that only this machine ever had: those of jobs replace them.
	s := d.o.Settings.OfMachine(time.Now(), nil)
	if err = c.Bind(ctx, s); err != nil && kept(ctx, c, err) {
		err = nil // its host name or clock is its own to keep
	}
	if err == nil {
		err = d.o.Prepare(ctx, c, d.o.Log)
	}
	c.Close()
	if err != nil {
		return fmt.Errorf("warm the machine up: %w", err)
	}
	return d.o.Base.Snapshot(ctx, id, dir)
}

// kept reports whether all but the host name or the clock was set.
func kept(ctx context.Context, c *guest.Client, err error) bool {
	_, alive := c.Stats(ctx)
	return alive == nil && glovebox.CodeOf(err) == glovebox.CodeUnavailable
}

func (d *Driver) destroy(id sandbox.ID) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return d.o.Base.Destroy(ctx, id)
}

// removeMakers removes machines that were to become templates when their
// maker died. The caller holds the lock, so nobody else makes one.
func (d *Driver) removeMakers(ctx context.Context) {
	infos, err := d.o.Base.List(ctx)
	if err != nil {
		return // the next time
	}
	for _, i := range infos {
		if i.Labels[makerLabel] == "" {
			continue
		}
		if err := d.destroy(i.ID); err != nil {
			d.o.Log.Warn("can't remove a machine that was to become the template", "sandbox", string(i.ID), "error", err)
		}
	}
}

// removeUnused removes what is in the directory but for the template in use
// and those that were used lately. The caller holds the lock.
func (d *Driver) removeUnused(key string) {
	entries, err := os.ReadDir(d.o.Dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if e.Name() == key || e.Name() == lockName {
			continue
		}
		path := filepath.Join(d.o.Dir, e.Name())
		left := strings.Contains(e.Name(), aside) || strings.HasSuffix(e.Name(), partial) // nobody writes: we hold the lock
		if info, err := e.Info(); err != nil || !left && time.Since(info.ModTime()) < keepUnused {
			continue
		}
		if err := setAside(path); err != nil {
			d.o.Log.Warn("can't remove a template that is not used", "path", path, "error", err)
		}
	}
}

// setAside removes a template at once for those who look for it, then from
// the disk. Machines that are being started from it have its files open.
func setAside(dir string) error {
	to := dir
	if !strings.Contains(filepath.Base(dir), aside) {
		to = dir + aside + glovebox.NewID()
		if err := os.Rename(dir, to); errors.Is(err, os.ErrNotExist) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return os.RemoveAll(to)
}

// Kept is a template on the disk.
type Kept struct {
	Key  string
	Used time.Time // the last time that a process found it to be the one it uses
	Size int64     // bytes
}

// List returns the templates in a directory, the one used last first. There
// need not be such a directory.
func List(dir string) ([]Kept, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	var all []Kept
	for _, e := range entries {
		if info, err := e.Info(); err == nil && e.IsDir() && !strings.Contains(e.Name(), ".") {
			all = append(all, Kept{Key: e.Name(), Used: info.ModTime(), Size: sizeOf(filepath.Join(dir, e.Name()))})
		}
	}
	slices.SortFunc(all, func(a, b Kept) int { return b.Used.Compare(a.Used) })
	return all, nil
}

func exists(dir string) bool {
	_, err := os.Stat(dir)
	return err == nil
}

func sizeOf(dir string) int64 {
	var n int64
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			n += info.Size()
		}
	}
	return n
}

const lockName = "lock"

// lock takes the lock of the directory, which belongs to who makes templates.
func (d *Driver) lock(ctx context.Context) (unlock func(), err error) {
	tick := time.NewTicker(lockPoll)
	defer tick.Stop()
	for {
		if unlock, ok, err := d.tryLock(); ok || err != nil {
			return unlock, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (d *Driver) tryLock() (unlock func(), ok bool, err error) {
	f, err := os.OpenFile(filepath.Join(d.o.Dir, lockName), os.O_RDWR|os.O_CREATE|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, false, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	switch {
	case err == nil:
		return func() { local.Unlock(f) }, true, nil
	case errors.Is(err, unix.EWOULDBLOCK), errors.Is(err, unix.EINTR):
		err = nil
	}
	f.Close()
	return nil, false, err
}
