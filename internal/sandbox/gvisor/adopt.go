package gvisor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/sandbox"
	"github.com/glovebox-dev/glovebox/internal/sandbox/local"
)

// Adopt implements [sandbox.Adopter]. Renaming the directory is what counts:
// until then the sandbox is from, afterwards it is s.ID. gVisor and the
// kernel go on calling it, and its cgroups, by its first id.
//
// Memory and processor time may be other than before; a machine that was told
// how much memory it has goes on believing that.
func (d *Driver) Adopt(ctx context.Context, from sandbox.ID, s sandbox.Spec) (err error) {
	if err := d.check(&s); err != nil {
		return err
	}
	if checkID(from) != nil {
		return notFound(from, "does not exist")
	}
	unlock, err := local.LockDir(ctx, d.dir(from))
	if err != nil {
		return adoptError(from, err)
	}
	if unlock == nil {
		return notFound(from, "does not exist")
	}
	defer unlock()
	r, err := readRecord(d.dir(from))
	switch {
	case err != nil:
		return adoptError(from, err)
	case r == nil || !r.Started:
		return notFound(from, "does not exist")
	case !r.Process.Alive():
		return notFound(from, "has ended")
	case r.Image != s.Image:
		return glovebox.Errorf(glovebox.CodeConflict, "sandbox %s is of another image", from)
	}
	undo, err := d.relimit(r, s.Limits)
	if err != nil {
		return err
	}
	next := *r
	next.Sentry = r.sentry()
	next.ID, next.Labels, next.Limits = s.ID, s.Labels, s.Limits
	if err := d.rename(r.ID, &next); err != nil {
		undo()
		return err
	}
	return nil
}

func adoptError(id sandbox.ID, err error) error {
	return &glovebox.Error{Code: glovebox.CodeUnavailable, Op: "adopt sandbox " + string(id), Err: err}
}

// rename gives the sandbox from the record next, and its id.
func (d *Driver) rename(from sandbox.ID, next *record) error {
	if err := local.WriteJSON(filepath.Join(d.dir(from), adoptFile), next); err != nil {
		return adoptError(from, err)
	}
	// Who reaps it must find it under its new name from the moment it has it.
	d.mu.Lock()
	defer d.mu.Unlock()
	err := unix.Renameat2(unix.AT_FDCWD, d.dir(from), unix.AT_FDCWD, d.dir(next.ID), unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EEXIST) {
		return glovebox.Errorf(glovebox.CodeConflict, "sandbox %s exists", next.ID)
	}
	if err != nil {
		return adoptError(from, err)
	}
	if c := d.children[from]; c != nil {
		delete(d.children, from)
		c.id, d.children[next.ID] = next.ID, c
	}
	for _, m := range []map[sandbox.ID]net.Conn{d.first, d.spare} {
		if c := m[from]; c != nil {
			delete(m, from)
			m[next.ID] = c
		}
	}
	// Only tidies: without it the record is found as well.
	_ = os.Rename(filepath.Join(d.dir(next.ID), adoptFile), filepath.Join(d.dir(next.ID), recordFile))
	return nil
}

// relimit gives a running sandbox other limits, or returns CodeConflict if it
// can't have them. undo gives it the former ones back.
func (d *Driver) relimit(r *record, l glovebox.Limits) (undo func(), err error) {
	if why := frozenDiffer(r.Limits, l); why != "" {
		return nil, glovebox.Errorf(glovebox.CodeConflict, "sandbox %s can't get these limits: %s", r.ID, why)
	}
	now, then := d.limits.plan(r.sentry(), r.Limits), d.limits.plan(r.sentry(), l)
	conflict := func(what string) error {
		return glovebox.Errorf(glovebox.CodeConflict, "sandbox %s can't get another limit of %s", r.ID, what)
	}
	if (now.watch == 0) != (then.watch == 0) {
		return nil, conflict("memory")
	}
	if r.Limits.CPUMillis != l.CPUMillis && (now.cpus != nil || then.cpus != nil) {
		return nil, conflict("processor time")
	}
	if !sameGroups(r.Cgroups, now.groups) || !sameGroups(r.Cgroups, then.groups) {
		if r.Limits.CPUMillis != l.CPUMillis || r.Limits.MemoryBytes != l.MemoryBytes {
			return nil, conflict("memory or processor time")
		}
		return func() {}, nil
	}
	undo = func() { _ = d.setLimits(r.ID, now) }
	if r.Limits.CPUMillis == l.CPUMillis && r.Limits.MemoryBytes == l.MemoryBytes {
		return func() {}, nil
	}
	if err := d.setLimits(r.ID, then); err != nil {
		undo()
		return nil, &glovebox.Error{Code: glovebox.CodeConflict, Op: "change the limits of sandbox " + string(r.ID), Err: err}
	}
	r.Enforced = then.enforced
	return undo, nil
}

func sameGroups(dirs []string, groups []group) bool {
	if len(dirs) != len(groups) {
		return false
	}
	for i, g := range groups {
		if g.dir != dirs[i] {
			return false
		}
	}
	return true
}

// setLimits sets what can be set while a sandbox runs.
func (d *Driver) setLimits(id sandbox.ID, p *plan) error {
	for _, g := range p.groups {
		if err := g.set(); err != nil {
			return err
		}
	}
	if p.watch == 0 {
		return nil
	}
	if err := writeLimit(filepath.Join(d.dir(id), limitFile), p.watch); err != nil {
		return fmt.Errorf("tell the sentry its limit: %w", err)
	}
	return nil
}
