//go:build linux

package display

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest"
)

// Bounds of waiting.
const (
	maxWait  = 10 * time.Minute
	changeIn = 30 * time.Millisecond // between two looks, while things change
)

// WaitChange waits until an area of the screen (empty for all of it) does not
// look as it did when a picture of it had the digest unless, or, if that is
// empty, as it does now. It returns false after the timeout.
//
// The server says when something is drawn (the extension DAMAGE); only then
// are the pixels looked at. A screen on which nothing happens costs nothing.
func (d *Display) WaitChange(ctx context.Context, area guest.Rect, unless string, timeout time.Duration) (bool, error) {
	if timeout < 0 || timeout > maxWait {
		return false, glovebox.Invalid("timeout", "", "%v is not between 0 and %v", timeout, maxWait)
	}
	c, err := dial(d.socket(), time.Now().Add(Timeout))
	if err != nil {
		return false, d.fail(ctx, err)
	}
	defer c.close()
	stop := context.AfterFunc(ctx, func() { c.close() })
	defer stop()
	w := &watch{c: c, q: guest.ShotRequest{Area: area}, unless: unless, end: time.Now().Add(timeout)}
	changed, err := w.run()
	if err != nil {
		return false, d.fail(ctx, err)
	}
	return changed, nil
}

// watch is a wait for a change, on a connection of its own.
type watch struct {
	c      *conn
	q      guest.ShotRequest
	unless string
	end    time.Time
	damage uint32 // the id of the Damage
	major  byte
	drawn  bool // an event came since the last look
	buf    []byte
}

func (w *watch) run() (bool, error) {
	if err := w.subscribe(); err != nil {
		return false, err
	}
	for {
		changed, err := w.look()
		if changed || err != nil {
			return changed, err
		}
		if left := time.Until(w.end); left <= 0 {
			return false, nil
		}
		if ok, err := w.await(); !ok || err != nil {
			return false, err
		}
		// Much is drawn in many steps: the next look is at all of them.
		pause := time.NewTimer(changeIn)
		<-pause.C
	}
}

// subscribe asks to be told when something is drawn.
func (w *watch) subscribe() error {
	e, err := w.c.extension("DAMAGE")
	if err != nil {
		return err
	}
	w.major, w.damage = e.major, w.c.setup.idBase|1
	w.c.events = func(ev []byte) { w.drawn = w.drawn || ev[0]&0x7f == e.event }
	version := w.c.request(e.major, 0, 1, 1)
	w.c.request(e.major, 1, w.damage, w.c.setup.root, 3) // Create; told once, until subtracted
	_, _, err = w.c.reply(version, nil)
	return err
}

// look compares the area with what it looked like.
func (w *watch) look() (bool, error) {
	w.c.deadline(time.Now().Add(Timeout))
	w.drawn = false
	w.c.request(w.major, 3, w.damage, 0, 0) // Subtract: the next drawing is told again
	a, err := w.c.area(w.q)
	if err != nil {
		return false, err
	}
	p, err := w.c.image(w.c.getImage(a), a, w.buf[:0])
	if err != nil {
		return false, err
	}
	w.buf = p.b
	digest := p.digest(a)
	if w.unless == "" {
		w.unless = digest
	}
	return digest != w.unless, nil
}

// await waits for a drawing. False means that the time is over.
func (w *watch) await() (bool, error) {
	w.c.deadline(w.end)
	var head [32]byte
	for !w.drawn {
		_, _, _, err := w.c.next(&head, 0, nil)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	return true, nil
}
