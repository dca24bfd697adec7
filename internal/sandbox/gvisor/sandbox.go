package gvisor

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/sandbox"
	"github.com/glovebox-dev/glovebox/internal/sandbox/local"
)

const (
	// dialTimeout bounds a Dial whose ctx has no earlier deadline.
	dialTimeout = 30 * time.Second

	// endTimeout bounds how long a Dial that failed waits for the end of the
	// sandbox's process.
	endTimeout = 2 * time.Second

	// killTimeout bounds how long Destroy waits for processes that were
	// killed; only the kernel can hold them longer.
	killTimeout = 20 * time.Second
)

// Dial implements [sandbox.Driver]. The first one in the process that made
// the sandbox gets the stream that the guest was started with; others start
// a connector inside.
func (d *Driver) Dial(ctx context.Context, id sandbox.ID) (net.Conn, error) {
	if err := checkID(id); err != nil {
		return nil, notFound(id, "does not exist")
	}
	r, err := readRecord(d.dir(id))
	if err != nil {
		return nil, fmt.Errorf("dial sandbox %s: %w", id, err)
	}
	if r == nil || !r.Started {
		return nil, notFound(id, "does not exist")
	}
	if !r.Process.Alive() {
		return nil, notFound(id, "has ended")
	}
	if r.Pause != "" {
		if err := d.thaw(ctx, id); err != nil {
			return nil, err
		}
	}
	if c := d.takeFirst(id); c != nil {
		return c, nil
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	c, err := d.dial(ctx, r)
	if err != nil {
		// A process that is ending has hung up before it has ended: its namespace
		// goes first. Only then is it known why.
		if r.Process.AwaitEnd(ctx, time.Now().Add(endTimeout)) {
			return nil, notFound(id, "has ended")
		}
		if cerr := context.Cause(ctx); cerr != nil {
			err = cerr
		}
		return nil, &glovebox.Error{Code: glovebox.CodeUnavailable, Op: "dial sandbox " + string(id), Err: err}
	}
	return c, nil
}

func (d *Driver) dial(ctx context.Context, r *record) (net.Conn, error) {
	ctl, err := connect(ctx, r.sentry(), d.dir(r.ID))
	if err != nil {
		return nil, err
	}
	defer ctl.close()
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	pid, err := ctl.execConnect(theirs)
	if err != nil {
		ours.Close()
		return nil, err
	}
	// The guest has the connection when the connector has ended.
	status, err := ctl.wait(pid)
	if err == nil && status != 0 {
		err = fmt.Errorf("the guest did not take the connection: the connector ended with status %#x", uint32(status))
	}
	if err != nil {
		ours.Close()
		return nil, err
	}
	return ours, nil
}

// List implements [sandbox.Driver]. What another process is making or
// removing at this moment may be left out.
func (d *Driver) List(ctx context.Context) ([]sandbox.Info, error) {
	entries, err := os.ReadDir(d.sandboxes())
	if err != nil {
		return nil, fmt.Errorf("list sandboxes: %w", err)
	}
	out := make([]sandbox.Info, 0, len(entries))
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		id := sandbox.ID(e.Name())
		if checkID(id) != nil || !e.IsDir() {
			continue
		}
		info, ok, err := d.info(id)
		if err != nil {
			return nil, fmt.Errorf("list sandbox %s: %w", id, err)
		}
		if ok {
			out = append(out, info)
		}
	}
	slices.SortFunc(out, func(a, b sandbox.Info) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return out, nil
}

// info describes a sandbox; ok is false if it is being made or removed, or
// is not there.
func (d *Driver) info(id sandbox.ID) (info sandbox.Info, ok bool, err error) {
	dir := d.dir(id)
	r, err := readRecord(dir)
	if err != nil {
		return info, false, err
	}
	if r == nil || !r.Started {
		// Whoever makes it holds it. If nobody does, it was left half-made.
		unlock, err := local.TryLockDir(dir)
		if err != nil || unlock == nil {
			return info, false, err
		}
		defer unlock()
		if r, err = readRecord(dir); err != nil {
			return info, false, err
		}
		if r == nil && !local.Left(dir) {
			return info, false, nil
		}
		if r == nil || !r.Started {
			return halfMade(id, dir, r), true, nil
		}
	}
	info = sandbox.Info{ID: id, State: sandbox.Running, Labels: r.Labels, CreatedAt: r.CreatedAt, Start: r.Start, Enforced: r.Enforced}
	if r.Pause != "" {
		info.State = sandbox.Paused
	}
	if !r.Process.Alive() {
		d.reaped(id)
		info.State, info.Cause = sandbox.Ended, r.cause(dir)
	}
	return info, true, nil
}

// halfMade describes what an interrupted Create or Destroy left.
func halfMade(id sandbox.ID, dir string, r *record) sandbox.Info {
	info := sandbox.Info{ID: id, State: sandbox.Ended, Cause: "interrupted while it was made or removed"}
	if r != nil {
		info.Labels, info.CreatedAt = r.Labels, r.CreatedAt
	} else if st, err := os.Stat(dir); err == nil {
		info.CreatedAt = st.ModTime().UTC()
	}
	return info
}

// cause says why a sandbox ended.
func (r *record) cause(dir string) string {
	if s := local.ReadNote(filepath.Join(dir, causeFile)); s != "" {
		return s
	}
	for _, g := range r.Cgroups {
		if oomKilled(g) {
			return fmt.Sprintf(causeMemory, r.Limits.MemoryBytes>>20)
		}
	}
	if r.Process.BootID != local.BootID() {
		return "the machine was restarted"
	}
	if s := local.ReadNote(filepath.Join(dir, exitFile)); s != "" {
		return s
	}
	return "unknown: it ended while no process of ours was watching"
}

// Destroy implements [sandbox.Driver]. It does not ask the sandbox: its
// processes are killed.
func (d *Driver) Destroy(ctx context.Context, id sandbox.ID) error {
	if checkID(id) != nil {
		return nil // nothing of that name can be there
	}
	dir := d.dir(id)
	unlock, err := local.LockDir(ctx, dir)
	if err != nil {
		return &glovebox.Error{Code: glovebox.CodeUnavailable, Op: "destroy sandbox " + string(id), Err: err}
	}
	if unlock == nil {
		d.settled(id)
		return nil
	}
	defer unlock()
	if err := d.remove(id, dir); err != nil {
		return &glovebox.Error{Code: glovebox.CodeUnavailable, Op: "destroy sandbox " + string(id), Err: err}
	}
	return nil
}

// remove ends and removes a sandbox whose directory the caller holds: first
// the processes, then their cgroups, last the directory, which is the record
// of what there was.
func (d *Driver) remove(id sandbox.ID, dir string) error {
	d.hangUp(id)
	r, err := readRecord(dir)
	if err != nil {
		return err
	}
	deadline := time.Now().Add(killTimeout)
	if r != nil {
		if err := r.Process.Kill(deadline); err != nil {
			return err
		}
		if err := local.AwaitGone(filepath.Join(dir, causeFile), deadline); err != nil {
			return err
		}
		d.reaped(id)
		for _, g := range r.Cgroups {
			if err := removeGroup(g, deadline); err != nil {
				return err
			}
		}
	}
	return os.RemoveAll(dir)
}
