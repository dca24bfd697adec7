//go:build linux

// Package display looks at and works the screen of a machine: pictures, mouse,
// keyboard, windows. It is a client of the X server that the machine's display
// service runs.
//
// Pictures and input have a connection each, so that neither waits for the
// other. A connection is made when it is first needed and again after it
// broke. Whatever the server does or fails to do, a call ends within
// [Timeout], input and waiting for a change excepted, where each step of it
// does. Nothing runs in the background.
package display

import (
	"context"
	"errors"
	"net"
	"os"
	"time"

	"github.com/glovebox-dev/glovebox"
)

// Timeout is how long the server may take to answer: an error has to reach the
// user within 5 s.
const Timeout = 4 * time.Second

// Display is the screen at a socket. Its methods may be called from many
// goroutines.
type Display struct {
	socket func() string
	view   link // pictures and windows
	input  link
	keys   *keyboard // guarded by input
}

// link is a connection that is made anew when it broke.
type link struct {
	lock chan struct{} // holds one token while it is free
	c    *conn
}

// New returns the display whose X server listens at the unix socket that
// socket names; it is asked at each connection.
func New(socket func() string) *Display {
	d := &Display{socket: socket}
	d.view.lock, d.input.lock = make(chan struct{}, 1), make(chan struct{}, 1)
	return d
}

// Close closes the connections that nobody uses.
func (d *Display) Close() {
	for _, l := range []*link{&d.view, &d.input} {
		select {
		case l.lock <- struct{}{}:
			l.drop()
			<-l.lock
		default:
		}
	}
}

func (l *link) drop() {
	if l.c != nil {
		l.c.close()
		l.c = nil
	}
}

// with calls f with the connection of a link. What f does is interrupted at
// the end of ctx or after Timeout. If the server had gone away since the
// connection was last used, f is called once more with a new one, as long as
// nothing was done for it yet: f asks before it acts.
func (d *Display) with(ctx context.Context, l *link, f func(*conn) error) error {
	until := time.Now().Add(Timeout)
	wait, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	select {
	case l.lock <- struct{}{}:
	case <-wait.Done():
		return d.fail(ctx, os.ErrDeadlineExceeded)
	}
	defer func() { <-l.lock }()
	for {
		fresh := l.c == nil
		err := d.attempt(ctx, l, until, f)
		if err == nil || !fresh && isBroken(err) && ctx.Err() == nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			if err == nil {
				return nil
			}
			continue
		}
		return d.fail(ctx, err)
	}
}

func (d *Display) attempt(ctx context.Context, l *link, until time.Time, f func(*conn) error) error {
	if l.c == nil {
		c, err := dial(d.socket(), until)
		if err != nil {
			return err
		}
		l.c = c
	}
	c := l.c
	c.deadline(until)
	stop := context.AfterFunc(ctx, func() { _ = c.c.SetDeadline(time.Unix(1, 0)) })
	err := f(c)
	if !stop() || isBroken(err) {
		l.drop()
	}
	return err
}

// isBroken reports whether a connection can't be used after an error.
func isBroken(err error) bool {
	if err == nil {
		return false
	}
	if _, ok := errors.AsType[*xError](err); ok {
		return false
	}
	_, known := errors.AsType[*glovebox.Error](err)
	return !known
}

// fail says what an error means to the one who asked.
func (d *Display) fail(ctx context.Context, err error) error {
	if _, ok := errors.AsType[*glovebox.Error](err); ok {
		return err
	}
	unavailable := func(hint, format string, args ...any) error {
		e := glovebox.Errorf(glovebox.CodeUnavailable, format, args...)
		e.Hint = hint
		return e
	}
	if ctx.Err() != nil {
		return unavailable("", "%w", context.Cause(ctx))
	}
	if errors.Is(err, os.ErrDeadlineExceeded) || isTimeout(err) {
		return unavailable("restart the service display", "the display is locked up: it does not answer within %v", Timeout)
	}
	if _, ok := errors.AsType[*xError](err); ok {
		return glovebox.Errorf(glovebox.CodeInternal, "%w", err)
	}
	if _, ok := errors.AsType[*net.OpError](err); ok {
		return unavailable("it may be starting again: try again in a second", "the display is not there: %w", err)
	}
	return unavailable("it may be starting again: try again in a second", "the display went away: %w", err)
}

func isTimeout(err error) bool {
	e, ok := errors.AsType[net.Error](err)
	return ok && e.Timeout()
}
