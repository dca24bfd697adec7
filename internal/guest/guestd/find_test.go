//go:build linux

package guestd

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
)

// A search that takes too long gives what it has found, or an error that says
// what to do; other errors pass.
func TestWithin(t *testing.T) {
	t.Parallel()
	endless := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	if more, err := within(t.Context(), time.Millisecond, endless, func() bool { return true }); err != nil || !more {
		t.Errorf("with matches: %v, %v", more, err)
	}
	if _, err := within(t.Context(), time.Millisecond, endless, func() bool { return false }); glovebox.CodeOf(err) != glovebox.CodeTooLarge {
		t.Errorf("without: %v", err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := within(gone, time.Hour, endless, func() bool { return true }); !errors.Is(err, context.Canceled) {
		t.Errorf("the host went away: %v", err)
	}
	broken := errors.New("broken")
	if more, err := within(t.Context(), time.Hour, func(context.Context) error { return broken }, nil); more || !errors.Is(err, broken) {
		t.Errorf("%v, %v", more, err)
	}
}
