package gvisor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/sandbox"
	"github.com/glovebox-dev/glovebox/internal/sandbox/local"
)

// createTimeout bounds a Create whose ctx has no earlier deadline: far more
// than a loaded machine needs, since nothing in it waits for the sandbox.
const createTimeout = time.Minute

// restoreTimeout bounds a Create from a template, which takes a fifth of a
// second, and a hundred times that on no machine that is not stuck: who waits
// longer is better off with a cold start.
const restoreTimeout = 20 * time.Second

// Create implements [sandbox.Driver].
func (d *Driver) Create(ctx context.Context, s sandbox.Spec) (err error) {
	if err := d.check(&s); err != nil {
		return err
	}
	guest, err := d.guest()
	if err != nil {
		return err
	}
	var t *template
	start, timeout := "cold", createTimeout
	if s.Template != "" {
		start = "template"
		if t, err = d.openTemplate(s.Template, s.Image, s.Limits); err != nil {
			return createError(err)
		}
		defer t.close()
	}
	if t != nil {
		// Each keeps a processor busy: more at once would only all be late.
		select {
		case d.restores <- struct{}{}:
			defer func() { <-d.restores }()
		case <-ctx.Done():
			return createError(context.Cause(ctx))
		}
		timeout = restoreTimeout // from here on: those before it need not be late, too
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	dir := d.dir(s.ID)
	hold, err := local.MakeDir(ctx, dir)
	if errors.Is(err, fs.ErrExist) {
		return glovebox.Errorf(glovebox.CodeConflict, "sandbox %s exists", s.ID)
	}
	if err != nil {
		return createError(err)
	}
	defer hold()

	r := &record{ID: s.ID, CreatedAt: time.Now().UTC(), Labels: s.Labels, Limits: s.Limits, Image: s.Image, Start: start}
	if err := d.build(ctx, s, r, guest, t); err != nil {
		// Not with ctx, which may be what ended it.
		if rm := d.remove(s.ID, dir); rm != nil {
			err = errors.Join(err, rm)
		}
		if cerr := context.Cause(ctx); cerr != nil {
			return &glovebox.Error{Code: glovebox.CodeUnavailable, Op: "create sandbox", Msg: "it was given up", Err: cerr}
		}
		return createError(err)
	}
	return nil
}

// createError wraps what has no code yet.
func createError(err error) error {
	if e, ok := errors.AsType[*glovebox.Error](err); ok {
		return e
	}
	return &glovebox.Error{Code: glovebox.CodeUnavailable, Op: "create sandbox",
		Hint: "'glovebox doctor' tells what this machine lacks", Err: err}
}

// check fills in the default image and refuses what can't be made.
func (d *Driver) check(s *sandbox.Spec) error {
	if err := s.Validate(); err != nil {
		return err
	}
	if s.Image == "" {
		s.Image = d.o.DefaultImage
	}
	if info, err := os.Stat(s.Image); err != nil || !info.Mode().IsRegular() {
		return &glovebox.Error{Code: glovebox.CodeUnavailable, Op: "create sandbox",
			Msg: fmt.Sprintf("there is no image at %q", s.Image), Hint: "make it with: glovebox image build", Err: err}
	}
	return nil
}

// build makes the sandbox in its directory, which it holds. What it leaves
// on an error, remove removes: every step is written down before it is taken.
func (d *Driver) build(ctx context.Context, s sandbox.Spec, r *record, guest string, t *template) error {
	dir := d.dir(s.ID)
	p := d.limits.plan(s.ID, s.Limits)
	r.Enforced = p.enforced
	for _, g := range p.groups {
		r.Cgroups = append(r.Cgroups, g.dir)
	}
	if err := writeRecord(dir, r); err != nil {
		return err
	}
	attr := procAttr()
	for _, g := range p.groups {
		if err := g.make(); err != nil {
			return err
		}
	}
	st, err := d.startSentry(s, p, guest, attr)
	if err != nil {
		return err
	}
	defer st.close()
	c := &child{id: s.ID, done: make(chan struct{})}
	d.mu.Lock()
	d.children[s.ID] = c
	d.mu.Unlock()
	go d.reap(c, st)

	if r.Process, err = local.ProcessOf(st.cmd.Process.Pid); err != nil {
		st.hangUp()
		return err
	}
	d.mu.Lock()
	c.process = r.Process
	d.mu.Unlock()
	err = func() error {
		if err := writeRecord(dir, r); err != nil {
			return err
		}
		for _, g := range p.groups {
			if err := g.join(r.Process.PID); err != nil {
				return err
			}
		}
		if _, err := st.gate.Write([]byte{1}); err != nil {
			return err
		}
		return d.boot(ctx, r, st, t)
	}()
	if err != nil {
		st.hangUp()
		return err
	}
	d.keepStreams(s.ID, st, t)
	return nil
}

// keepStreams keeps the streams to a guest for those who dial.
func (d *Driver) keepStreams(id sandbox.ID, st *sentry, t *template) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t == nil {
		d.first[id], d.spare[id] = st.first, st.spare
		return
	}
	// The guest closed its first one before it was frozen.
	st.first.Close()
	if t.Spare {
		d.first[id] = st.spare
	} else {
		st.spare.Close()
	}
}

// boot waits for the sentry and starts the guest, or lets it go on as it was
// when t was frozen.
func (d *Driver) boot(ctx context.Context, r *record, st *sentry, t *template) error {
	dir := d.dir(r.ID)
	if err := st.awaitReady(ctx, dir); err != nil {
		return err
	}
	c, err := connect(ctx, r.ID, dir)
	if err != nil {
		return err
	}
	defer c.close()
	if t != nil {
		err = c.restore(t)
	} else {
		err = c.start()
	}
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	r.Started = true
	return writeRecord(dir, r)
}

// reap waits for the end of a sandbox's process and writes down how it came.
func (d *Driver) reap(c *child, st *sentry) {
	how := "the guest ended"
	if err := st.cmd.Wait(); err != nil {
		how += ": " + err.Error()
	}
	d.mu.Lock()
	id := c.id
	d.mu.Unlock()
	// Not into a directory that someone is removing.
	if unlock, err := local.TryLockDir(d.dir(id)); err == nil && unlock != nil {
		_ = os.WriteFile(filepath.Join(d.dir(id), exitFile), []byte(how), 0o600)
		unlock()
	}
	d.mu.Lock()
	id = c.id // it may have been adopted just now
	delete(d.children, id)
	d.mu.Unlock()
	close(c.done)
	d.hangUp(id)
}
