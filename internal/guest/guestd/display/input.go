//go:build linux

package display

import (
	"context"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest"
)

// Bounds of input.
const (
	maxItems   = 1000
	maxText    = 16 << 10 // bytes of one text
	maxChord   = 8        // keys
	maxNotches = 100
	maxPause   = 10 * time.Second
	maxButton  = 9
	textBatch  = 32 // characters typed before the server is asked whether it is there
)

// Events of XTEST.
const (
	keyPress      = 2
	keyRelease    = 3
	buttonPress   = 4
	buttonRelease = 5
	motion        = 6
)

// Input does things with mouse and keyboard, one after another. All of it is
// checked before any is done. What goes down on the way and was to come up
// again comes up whatever happens.
func (d *Display) Input(ctx context.Context, items []guest.Input) error {
	if len(items) > maxItems {
		return glovebox.Invalid("input", "send fewer at once", "%d items are more than %d", len(items), maxItems)
	}
	syms := make([][]keysym, len(items))
	for i, it := range items {
		var err error
		if syms[i], err = checkInput(it); err != nil {
			return err
		}
	}
	// Programs ask for the meanings of keys at the first one that reaches them,
	// and Xlib misses what changes while it asks: so they change before.
	if err := d.prepare(ctx, slices.Concat(syms...)); err != nil {
		return err
	}
	var held held
	err := d.inputAll(ctx, items, syms, &held)
	if err != nil && !held.empty() {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), Timeout)
		defer cancel()
		_ = d.with(clean, &d.input, held.release)
	}
	return err
}

func (d *Display) inputAll(ctx context.Context, items []guest.Input, syms [][]keysym, h *held) error {
	for i, it := range items {
		var err error
		switch it.Kind {
		case guest.InputPause:
			err = sleep(ctx, it.Pause)
		case guest.InputType:
			err = d.typeText(ctx, syms[i])
		default:
			if err = d.prepare(ctx, syms[i]); err == nil {
				err = d.with(ctx, &d.input, func(c *conn) error { return d.act(c, it, syms[i], h) })
			}
		}
		if err != nil {
			if len(items) > 1 {
				return fmt.Errorf("input %d of %d: %w", i+1, len(items), err)
			}
			return err
		}
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return glovebox.Errorf(glovebox.CodeUnavailable, "%w", context.Cause(ctx))
	}
}

// checkInput checks one item and returns its chord, or what its text is typed with.
func checkInput(it guest.Input) ([]keysym, error) {
	switch it.Kind {
	case guest.InputMove:
	case guest.InputPress, guest.InputRelease:
		if it.Button < 1 || it.Button > maxButton {
			return nil, glovebox.Invalid("button", "use 1 for the left, 2 for the middle, 3 for the right", "there is no button %d", it.Button)
		}
	case guest.InputScroll:
		if min(it.DX, it.DY) < -maxNotches || max(it.DX, it.DY) > maxNotches {
			return nil, glovebox.Invalid("scroll", "scroll less at once", "%d, %d are more than %d notches", it.DX, it.DY, maxNotches)
		}
	case guest.InputType:
		if len(it.Text) > maxText {
			return nil, glovebox.Errorf(glovebox.CodeTooLarge, "a text of %d bytes is longer than %d", len(it.Text), maxText)
		}
		if !utf8.ValidString(it.Text) {
			return nil, glovebox.Invalid("text", "send UTF-8", "the text is not valid UTF-8")
		}
		var syms []keysym
		for _, r := range it.Text {
			s, ok := runeSym(r)
			if !ok {
				return nil, glovebox.Invalid("text", "leave it out", "%U can't be typed", r)
			}
			syms = append(syms, s)
		}
		return syms, nil
	case guest.InputKey, guest.InputKeyDown, guest.InputKeyUp:
		return parseChord(it.Keys)
	case guest.InputPause:
		if it.Pause < 0 || it.Pause > maxPause {
			return nil, glovebox.Invalid("pause", "", "%v is not between 0 and %v", it.Pause, maxPause)
		}
	default:
		return nil, glovebox.Invalid("kind", "", "%.40q is no kind of input", it.Kind)
	}
	return nil, nil
}

// fake adds an event as if of a device. Absolute motion has a place.
func (c *conn) fake(x ext, kind, detail byte, at ...int) {
	place := uint32(0)
	if len(at) == 2 {
		place = uint32(uint16(at[0])) | uint32(at[1])<<16
	}
	c.request(x.major, 2, uint32(kind)|uint32(detail)<<8, 0, c.setup.root, 0, 0, place, 0, 0)
}

// act does one thing that takes no time. Everything that belongs together is
// written at once, so that a key that is pressed is also released even if the
// connection breaks right after.
func (d *Display) act(c *conn, it guest.Input, chord []keysym, h *held) error {
	x, err := c.extension("XTEST")
	if err != nil {
		return err
	}
	switch it.Kind {
	case guest.InputMove:
		w, height, err := c.screen()
		if err != nil {
			return err
		}
		if it.X < 0 || it.Y < 0 || it.X >= w || it.Y >= height {
			return glovebox.Invalid("coordinate", "", "%d,%d is not on the screen of %dx%d", it.X, it.Y, w, height)
		}
		c.fake(x, motion, 0, it.X, it.Y)
	case guest.InputPress:
		c.fake(x, buttonPress, byte(it.Button))
		h.button(byte(it.Button), true)
	case guest.InputRelease:
		c.fake(x, buttonRelease, byte(it.Button))
		h.button(byte(it.Button), false)
	case guest.InputScroll:
		c.scroll(x, it.DX, it.DY)
	case guest.InputKey, guest.InputKeyDown, guest.InputKeyUp:
		if err := d.press(c, x, it.Kind, chord, h); err != nil {
			return err
		}
	}
	return c.sync()
}

func (c *conn) scroll(x ext, dx, dy int) {
	notch := func(n int, forth, back byte) {
		button := forth
		if n < 0 {
			n, button = -n, back
		}
		for range n {
			c.fake(x, buttonPress, button)
			c.fake(x, buttonRelease, button)
		}
	}
	notch(dy, 5, 4)
	notch(dx, 7, 6)
}

// keyboard returns what the keys mean, asked for once a connection, since a
// display that was restarted has forgotten what we told it, and again when
// someone else changed it. The caller has just heard from the server.
func (d *Display) keyboard(c *conn) (*keyboard, error) {
	if d.keys == nil || d.keys.of != c || c.remap {
		old := d.keys
		if old != nil && old.of != c {
			old = nil
		}
		k, err := c.readKeyboard(old)
		if err != nil {
			return nil, err
		}
		k.of = c
		d.keys = k
	}
	return d.keys, nil
}

// prepare binds those of syms that have no key yet, as many as there are keys.
func (d *Display) prepare(ctx context.Context, syms []keysym) error {
	for len(syms) > 0 {
		var wait time.Duration
		err := d.with(ctx, &d.input, func(c *conn) error {
			err := c.sync()
			if err != nil {
				return err
			}
			k, err := d.keyboard(c)
			if err == nil {
				_, wait, err = k.bind(c, syms)
			}
			return err
		})
		if err != nil || wait == 0 {
			return err
		}
		if err := sleep(ctx, wait); err != nil {
			return err
		}
	}
	return nil
}

// press presses the keys of a chord, or releases them, or both.
func (d *Display) press(c *conn, x ext, kind guest.InputKind, chord []keysym, h *held) error {
	if err := c.sync(); err != nil {
		return err
	}
	k, err := d.keyboard(c)
	if err != nil {
		return err
	}
	ready, wait, err := k.bind(c, chord)
	if err != nil {
		return err
	}
	if ready < len(chord) {
		return glovebox.Errorf(glovebox.CodeUnavailable, "the keys are still in use: try again in %v", max(wait, keyRest))
	}
	var codes []byte
	for _, s := range chord {
		how, _ := k.find(s)
		if how.shift {
			codes = append(codes, k.shift)
		}
		codes = append(codes, how.code)
	}
	if kind != guest.InputKeyUp {
		for _, code := range codes {
			c.fake(x, keyPress, code)
			h.key(code, kind == guest.InputKeyDown)
		}
	}
	if kind != guest.InputKeyDown {
		for i := range codes {
			code := codes[len(codes)-1-i]
			c.fake(x, keyRelease, code)
			h.key(code, false)
		}
	}
	return nil
}

// lockMask is the bit of Caps Lock among the modifiers.
const lockMask = 2

// typeText types a text, in batches between which others get their turn.
func (d *Display) typeText(ctx context.Context, syms []keysym) error {
	for len(syms) > 0 {
		var done int
		var wait time.Duration
		err := d.with(ctx, &d.input, func(c *conn) error {
			var err error
			done, wait, err = d.typeSome(c, syms[:min(len(syms), textBatch)])
			return err
		})
		if err != nil {
			return err
		}
		syms = syms[done:]
		if wait > 0 {
			if err := sleep(ctx, wait); err != nil {
				return err
			}
		}
	}
	return nil
}

// typeSome types as many of syms as can be typed now.
func (d *Display) typeSome(c *conn, syms []keysym) (int, time.Duration, error) {
	x, err := c.extension("XTEST")
	if err != nil {
		return 0, 0, err
	}
	_, mask, err := c.pointer(c.request(38, 0, c.setup.root))
	if err != nil {
		return 0, 0, err
	}
	k, err := d.keyboard(c)
	if err != nil {
		return 0, 0, err
	}
	ready, wait, err := k.bind(c, syms)
	if err != nil || ready == 0 {
		return 0, wait, err
	}
	for _, s := range syms[:ready] {
		how, _ := k.find(s)
		letter := s >= 'a' && s <= 'z' || s >= 'A' && s <= 'Z'
		shift := how.shift != (letter && mask&lockMask != 0)
		if shift {
			c.fake(x, keyPress, k.shift)
		}
		c.fake(x, keyPress, how.code)
		c.fake(x, keyRelease, how.code)
		if shift {
			c.fake(x, keyRelease, k.shift)
		}
	}
	return ready, 0, c.sync()
}

// held is what is down: keys and buttons.
type held struct{ keys, buttons []byte }

func (h *held) empty() bool { return len(h.keys)+len(h.buttons) == 0 }

func (h *held) key(code byte, down bool)    { h.keys = toggle(h.keys, code, down) }
func (h *held) button(code byte, down bool) { h.buttons = toggle(h.buttons, code, down) }

func toggle(list []byte, code byte, down bool) []byte {
	var rest []byte
	for _, b := range list {
		if b != code {
			rest = append(rest, b)
		}
	}
	if down {
		rest = append(rest, code)
	}
	return rest
}

// release lets go of everything.
func (h *held) release(c *conn) error {
	x, err := c.extension("XTEST")
	if err != nil {
		return err
	}
	for i := range h.keys {
		c.fake(x, keyRelease, h.keys[len(h.keys)-1-i])
	}
	for _, b := range h.buttons {
		c.fake(x, buttonRelease, b)
	}
	return c.sync()
}
