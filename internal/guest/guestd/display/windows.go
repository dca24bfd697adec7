//go:build linux

package display

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest"
)

// Bounds of windows.
const (
	maxWindows = 200
	maxTitle   = 200 // bytes
	maxClass   = 100
	focusWait  = 2 * time.Second
	topWait    = 300 * time.Millisecond // something else may stay on top for good
	focusPoll  = 10 * time.Millisecond
)

// The properties of windows that are read, and the kinds of window that are
// part of the desktop.
var windowAtoms = []string{
	"_NET_WM_NAME", "WM_NAME", "WM_CLASS", "_NET_WM_PID", "_NET_WM_WINDOW_TYPE", "_NET_WM_WINDOW_TYPE_DOCK", "_NET_WM_WINDOW_TYPE_DESKTOP",
}

func noWindow(id uint32, err error) error {
	if xe, ok := errors.AsType[*xError](err); ok && (xe.code == 3 || xe.code == 9) { // BadWindow, BadDrawable
		return glovebox.Errorf(glovebox.CodeNotFound, "there is no window %d", id)
	}
	return err
}

// Windows returns the windows of the programs, the topmost first. Panels and
// the desktop itself are not among them.
func (d *Display) Windows(ctx context.Context) ([]guest.Window, error) {
	var list []guest.Window
	err := d.with(ctx, &d.view, func(c *conn) error {
		var err error
		list, err = c.windows()
		return err
	})
	return list, err
}

// root reads properties of the root window, as numbers.
func (c *conn) root(names ...string) ([][]uint32, error) {
	atoms, err := c.intern(names...)
	if err != nil {
		return nil, err
	}
	seqs := make([]uint16, len(atoms))
	for i, a := range atoms {
		seqs[i] = c.property(c.setup.root, a, 4*maxWindows)
	}
	values := make([][]uint32, len(atoms))
	for i, s := range seqs {
		b, err := c.propertyReply(s)
		if err != nil {
			return nil, err
		}
		for ; len(b) >= 4; b = b[4:] {
			values[i] = append(values[i], binary.LittleEndian.Uint32(b))
		}
	}
	return values, nil
}

func (c *conn) windows() ([]guest.Window, error) {
	values, err := c.root("_NET_CLIENT_LIST_STACKING", "_NET_CLIENT_LIST", "_NET_ACTIVE_WINDOW")
	if err != nil {
		return nil, err
	}
	ids, active := values[0], uint32(0)
	if len(ids) == 0 {
		ids = values[1]
	}
	if len(values[2]) > 0 {
		active = values[2][0]
	}
	if _, err := c.intern(windowAtoms...); err != nil {
		return nil, err
	}
	var list []guest.Window
	for _, ask := range c.askWindows(ids) { // all are asked before the first answer is read
		w, err := c.window(ask)
		if isBroken(err) {
			return nil, err
		}
		if err == nil && w != nil {
			w.Active = w.ID == active
			list = append(list, *w)
		}
	}
	slices.Reverse(list)
	return list, nil
}

// asked are the requests about one window: its properties, size and place.
type asked struct {
	id    uint32
	props [5]uint16
	size  uint16
	place uint16
}

func (c *conn) askWindows(ids []uint32) []asked {
	list := make([]asked, 0, len(ids))
	for _, id := range ids {
		a := asked{id: id}
		for i := range a.props {
			a.props[i] = c.property(id, c.atoms[windowAtoms[i]], 1024)
		}
		a.size, a.place = c.request(14, 0, id), c.request(40, 0, id, c.setup.root, 0)
		list = append(list, a)
	}
	return list
}

// window reads the answers about one window. It is nil if the window is part
// of the desktop; an *xError means that it has gone.
func (c *conn) window(a asked) (*guest.Window, error) {
	var props [5][]byte
	var gone error
	for i, s := range a.props {
		b, err := c.propertyReply(s)
		if isBroken(err) {
			return nil, err
		}
		props[i], gone = b, errors.Join(gone, err)
	}
	g, err := c.geometry(a.size)
	if isBroken(err) {
		return nil, err
	}
	gone = errors.Join(gone, err)
	x, y, err := c.translated(a.place)
	if isBroken(err) {
		return nil, err
	}
	if gone = errors.Join(gone, err); gone != nil {
		return nil, &xError{code: 3, value: a.id}
	}
	for b := props[4]; len(b) >= 4; b = b[4:] {
		if t := binary.LittleEndian.Uint32(b); t == c.atoms[windowAtoms[5]] || t == c.atoms[windowAtoms[6]] {
			return nil, nil //nolint:nilnil // as documented
		}
	}
	w := &guest.Window{ID: a.id, Area: guest.Rect{X: x, Y: y, W: g.W, H: g.H}}
	if w.Title = cut(props[0], maxTitle); w.Title == "" {
		w.Title = cut(props[1], maxTitle)
	}
	if parts := bytes.Split(bytes.TrimRight(props[2], "\x00"), []byte{0}); len(parts) > 0 {
		w.Class = cut(parts[len(parts)-1], maxClass)
	}
	if len(props[3]) >= 4 {
		w.PID = int(binary.LittleEndian.Uint32(props[3]))
	}
	return w, nil
}

// cut returns at most n bytes of b as valid UTF-8.
func cut(b []byte, n int) string { return strings.ToValidUTF8(string(b[:min(len(b), n)]), "") }

// FocusWindow brings a window to the front and gives it the keyboard. It
// returns when the window manager has done so.
func (d *Display) FocusWindow(ctx context.Context, id uint32) error {
	err := d.with(ctx, &d.view, func(c *conn) error {
		if _, err := c.geometry(c.request(14, 0, id)); err != nil {
			return noWindow(id, err)
		}
		atoms, err := c.intern("_NET_ACTIVE_WINDOW")
		if err != nil {
			return err
		}
		// SendEvent to the root: a client message of format 32, from a pager.
		const substructure = 1<<19 | 1<<20
		c.request(25, 0, c.setup.root, substructure, 33|32<<8, id, atoms[0], 2, 0, 0, 0, 0)
		return c.sync()
	})
	for begin := time.Now(); err == nil; {
		var active, top bool
		err = d.with(ctx, &d.view, func(c *conn) error {
			list, err := c.windows()
			for i, w := range list {
				if w.ID == id {
					active, top = w.Active, i == 0
				}
			}
			return err
		})
		took := time.Since(begin)
		switch {
		case err != nil:
		case active && (top || took > topWait):
			return nil
		case took > focusWait:
			return glovebox.Errorf(glovebox.CodeUnavailable, "the window manager did not bring window %d to the front within %v", id, focusWait)
		default:
			err = sleep(ctx, focusPoll)
		}
	}
	return err
}
