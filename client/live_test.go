package client_test

import (
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
)

func TestLive(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	id := w.schedule("x")
	l, err := w.c.Link(t.Context(), id, glovebox.LinkView, time.Minute)
	if err != nil || l.Link == "" || l.Scope != glovebox.LinkView || time.Until(l.ExpiresAt) > time.Minute {
		t.Errorf("got %+v, %v", l, err)
	}
	if _, err := w.c.Link(t.Context(), id, "all", 0); glovebox.CodeOf(err) != glovebox.CodeInvalid {
		t.Errorf("an unknown scope: %v", err)
	}
	if _, err := w.c.Link(t.Context(), "x", glovebox.LinkView, 0); glovebox.CodeOf(err) != glovebox.CodeNotFound {
		t.Errorf("an unknown job: %v", err)
	}
	// It waits in the queue: there is no machine.
	_, perr := w.c.Ports(t.Context(), id)
	_, serr := w.c.Services(t.Context(), id)
	_, oerr := w.c.Place(t.Context(), id, glovebox.PlaceRequest{Port: 80})
	_, lerr := w.c.ServiceLog(t.Context(), id, "display")
	for _, err := range []error{perr, serr, oerr, lerr} {
		if glovebox.CodeOf(err) != glovebox.CodeConflict {
			t.Errorf("got %v", err)
		}
	}
}
