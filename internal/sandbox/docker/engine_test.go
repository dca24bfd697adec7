//go:build linux

package docker

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/sandbox"
)

// engine is an engine with one container, which refuses to pause it and to let
// it go on a few times.
type engine struct {
	mu     sync.Mutex
	paused bool
	refuse []int // status codes, of the next calls
	asked  int   // to pause or unpause
}

func (e *engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	w.Header().Set("Api-Version", "1.44")
	_, do, _ := strings.Cut(r.URL.Path, "/containers/")
	_, do, _ = strings.Cut(do, "/")
	switch do {
	case "json":
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(container.InspectResponse{State: &container.State{Running: true, Paused: e.paused}})
	case "pause", "unpause":
		if e.asked++; len(e.refuse) > 0 {
			w.WriteHeader(e.refuse[0])
			e.refuse = e.refuse[1:]
			return
		}
		e.paused = do == "pause"
		w.WriteHeader(http.StatusNoContent)
	}
}

// TestPauseIsTriedAgain: a freeze that an engine gave up, and what it refuses
// of a container that it has a wrong idea of, is tried again; what can't go
// well is not.
func TestPauseIsTriedAgain(t *testing.T) {
	t.Parallel()
	e := &engine{}
	srv := httptest.NewServer(e)
	defer srv.Close()
	d, err := New(Options{Host: "tcp://" + srv.Listener.Addr().String(), Owner: "/"})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	id := sandbox.ID(glovebox.NewID())
	for i, c := range []struct {
		do     func(context.Context, sandbox.ID) error
		refuse []int
		code   glovebox.Code
		paused bool
		asked  int
	}{
		{d.Pause, []int{http.StatusInternalServerError, http.StatusInternalServerError}, "", true, 3},
		{d.Pause, nil, "", true, 0},
		{d.thaw, []int{http.StatusInternalServerError, http.StatusConflict}, "", false, 3},
		{d.thaw, nil, "", false, 0},
		{d.Pause, []int{http.StatusForbidden}, glovebox.CodeUnavailable, false, 1},
	} {
		e.mu.Lock()
		e.refuse, e.asked = c.refuse, 0
		e.mu.Unlock()
		err := c.do(t.Context(), id)
		e.mu.Lock()
		if glovebox.CodeOf(err) != c.code || e.paused != c.paused || e.asked != c.asked {
			t.Errorf("%d: %v, paused %v, asked %d times", i, err, e.paused, e.asked)
		}
		e.mu.Unlock()
	}
	e.mu.Lock()
	e.refuse = make([]int, 1000)
	for i := range e.refuse {
		e.refuse[i] = http.StatusInternalServerError
	}
	e.mu.Unlock()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := d.Pause(ctx, id); glovebox.CodeOf(err) != glovebox.CodeUnavailable {
		t.Errorf("one that never pauses: %v", err)
	}
}
