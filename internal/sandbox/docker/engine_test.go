//go:build linux

package docker

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/sandbox"
)

// engine is an engine with one container, which refuses a few times to make it,
// to pause it and to let it go on.
type engine struct {
	mu     sync.Mutex
	paused bool
	refuse []int // status codes, of the next calls
	asked  int   // for one of these
}

func (e *engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	w.Header().Set("Api-Version", "1.44")
	w.Header().Set("Content-Type", "application/json")
	switch do := path.Base(r.URL.Path); {
	case strings.Contains(r.URL.Path, "/images/"):
		_, _ = io.WriteString(w, `{"Id": "sha256:`+strings.Repeat("1", 64)+`"}`)
	case do == "json":
		_ = json.NewEncoder(w).Encode(container.InspectResponse{State: &container.State{Running: true, Paused: e.paused}})
	case do == "start":
		w.WriteHeader(http.StatusNoContent)
	case do == "create" || do == "pause" || do == "unpause":
		if e.asked++; len(e.refuse) > 0 {
			w.WriteHeader(e.refuse[0])
			e.refuse = e.refuse[1:]
			return
		}
		if do == "create" {
			w.WriteHeader(http.StatusCreated)
			_, _ = io.WriteString(w, `{"Id": "c"}`)
			return
		}
		e.paused = do == "pause"
		w.WriteHeader(http.StatusNoContent)
	}
}

// testEngine returns an engine and a driver of it.
func testEngine(t *testing.T) (*engine, *Driver) {
	t.Helper()
	e := &engine{}
	srv := httptest.NewServer(e)
	t.Cleanup(srv.Close)
	d, err := New(Options{Host: "tcp://" + srv.Listener.Addr().String(), Owner: "/", Image: "machine"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return e, d
}

// TestImageIsMadeAgain: an image that another process removed before a container
// was made of it is made, or found, again.
func TestImageIsMadeAgain(t *testing.T) {
	t.Parallel()
	e, d := testEngine(t)
	for refusals, code := range map[int]glovebox.Code{makeTries - 1: "", makeTries: glovebox.CodeUnavailable} {
		e.mu.Lock()
		e.asked, e.refuse = 0, slices.Repeat([]int{http.StatusNotFound}, refusals)
		e.mu.Unlock()
		err := d.Create(t.Context(), sandbox.Spec{ID: sandbox.ID(glovebox.NewID())})
		e.mu.Lock()
		if glovebox.CodeOf(err) != code || e.asked != makeTries {
			t.Errorf("refused %d times: %v, asked %d times", refusals, err, e.asked)
		}
		e.mu.Unlock()
	}
}

// TestPauseIsTriedAgain: a freeze that an engine gave up, and what it refuses
// of a container that it has a wrong idea of, is tried again; what can't go
// well is not.
func TestPauseIsTriedAgain(t *testing.T) {
	t.Parallel()
	e, d := testEngine(t)
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
	e.refuse = slices.Repeat([]int{http.StatusInternalServerError}, 1000)
	e.mu.Unlock()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := d.Pause(ctx, id); glovebox.CodeOf(err) != glovebox.CodeUnavailable {
		t.Errorf("one that never pauses: %v", err)
	}
}
