package worker

import (
	"cmp"
	"context"
	"io"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest"
)

// Bounds of what is found out when mouse and keyboard change hands. The loop
// waits for it.
const (
	handoverTimeout = 10 * time.Second
	windowsTimeout  = 2 * time.Second

	maxWindows  = 50 // that are remembered
	maxTitles   = 20 // that are told
	maxTitleLen = 200
)

// screen is what the worker needs of the guest's display.
type screen interface {
	Screenshot(ctx context.Context, q guest.ShotRequest) (guest.Shot, error)
	Windows(ctx context.Context) ([]guest.Window, error)
}

// screenOf returns the display of a machine.
func (o *Options) screenOf(c *guest.Client) screen {
	if o.screen != nil {
		return o.screen(c)
	}
	return c
}

// handover finds out what the machine is like when a person takes mouse and
// keyboard, and what has changed when they come back. What can't be found out
// is left out: nobody is kept from the machine by it.
func (h *host) handover(ctx context.Context, to glovebox.Control, since *glovebox.ControlChanged) glovebox.ControlChanged {
	c := glovebox.ControlChanged{Control: to}
	g := h.box.look() // it goes on if it was paused
	if g == nil {
		return c
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(h.r.o.patience, handoverTimeout))
	defer cancel()
	if err := h.handoverFiles(ctx, g, &c, since); err != nil {
		h.r.log.Warn("can't tell what a person changes in the workspace", "error", err)
	}
	id := h.state().Sandbox.ID
	now := h.windows(ctx, g)
	switch {
	case now == nil:
	case to == glovebox.ControlUser:
		c.Sandbox, c.Windows = id, now
	case since != nil && since.Sandbox == id:
		c.Opened, c.Closed = missingFrom(since.Windows, now), missingFrom(now, since.Windows)
	}
	return c
}

// handoverFiles saves the workspace, and compares it with what it was when the
// person came.
func (h *host) handoverFiles(ctx context.Context, g *guest.Client, c *glovebox.ControlChanged, since *glovebox.ControlChanged) error {
	if err := h.save(ctx, g); err != nil {
		return err
	}
	cp := h.state().Checkpoint
	if cp == nil {
		return nil
	}
	if c.Control == glovebox.ControlUser {
		c.Commit = cp.Commit
		return nil
	}
	if since == nil || since.Commit == "" {
		return nil
	}
	// The pack of what is new since then is in packs that are kept already.
	info, err := g.Checkpoint(ctx, since.Commit, "handed back", io.Discard)
	if err != nil || info.Whole {
		return err
	}
	c.Commit = cp.Commit
	for _, f := range info.Changes[:min(len(info.Changes), maxChanges)] {
		c.Changes = append(c.Changes, glovebox.FileChange{Path: f.Path, Added: f.Added, Deleted: f.Deleted})
	}
	return nil
}

// windows returns the windows of the desktop, nil if they can't be told.
func (h *host) windows(ctx context.Context, g *guest.Client) []glovebox.WindowRef {
	ctx, cancel := context.WithTimeout(ctx, windowsTimeout)
	defer cancel()
	list, err := h.r.o.screenOf(g).Windows(ctx)
	if err != nil {
		h.r.log.Debug("can't list windows", "error", err)
		return nil
	}
	refs := make([]glovebox.WindowRef, 0, min(len(list), maxWindows))
	for _, w := range list[:min(len(list), maxWindows)] {
		title := strings.ToValidUTF8(w.Title, "\uFFFD")
		if len(title) > maxTitleLen {
			title = strings.ToValidUTF8(title[:maxTitleLen], "")
		}
		refs = append(refs, glovebox.WindowRef{ID: w.ID, Title: title})
	}
	return refs
}

// missingFrom returns the titles of the first windows of b that are not in a.
func missingFrom(a, b []glovebox.WindowRef) []string {
	had := map[uint32]bool{}
	for _, w := range a {
		had[w.ID] = true
	}
	var out []string
	for _, w := range b {
		if !had[w.ID] && len(out) < maxTitles {
			out = append(out, w.Title)
		}
	}
	return out
}
