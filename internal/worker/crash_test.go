package worker

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest"
	"github.com/glovebox-dev/glovebox/internal/llm"
	"github.com/glovebox-dev/glovebox/internal/sandbox"
	"github.com/glovebox-dev/glovebox/internal/store"
)

// mortal is what a worker sees of the world until it dies at its nth append,
// before that is committed or after. A dead worker changes nothing any more,
// neither in the store nor at the driver.
type mortal struct {
	store.Store
	sandbox.Driver
	after  bool
	counts func([]glovebox.Event) bool // whether an append is one to die at; nil: each is

	mu   sync.Mutex
	left int
	dead chan struct{}
}

var errDead = glovebox.Errorf(glovebox.CodeUnavailable, "the process is dead")

func (m *mortal) alive() error {
	select {
	case <-m.dead:
		return errDead
	default:
		return nil
	}
}

func (m *mortal) Append(ctx context.Context, l store.Lease, events []glovebox.Event, consume ...int64) (*glovebox.Job, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.alive(); err != nil {
		return nil, err
	}
	if m.counts == nil || m.counts(events) {
		m.left--
	}
	if m.left > 0 {
		return m.Store.Append(ctx, l, events, consume...)
	}
	defer close(m.dead)
	if m.after {
		if _, err := m.Store.Append(ctx, l, events, consume...); err != nil {
			panic(err)
		}
	}
	return nil, errDead
}

func (m *mortal) Claim(ctx context.Context, worker string, d time.Duration) (*store.Lease, error) {
	if err := m.alive(); err != nil {
		return nil, err
	}
	return m.Store.Claim(ctx, worker, d)
}

func (m *mortal) Renew(ctx context.Context, l store.Lease, d time.Duration) error {
	if err := m.alive(); err != nil {
		return err
	}
	return m.Store.Renew(ctx, l, d)
}

func (m *mortal) Release(ctx context.Context, l store.Lease, reason string) error {
	if err := m.alive(); err != nil {
		return err
	}
	return m.Store.Release(ctx, l, reason)
}

func (m *mortal) Create(ctx context.Context, s sandbox.Spec) error {
	if err := m.alive(); err != nil {
		return err
	}
	return m.Driver.Create(ctx, s)
}

func (m *mortal) Destroy(ctx context.Context, id sandbox.ID) error {
	if err := m.alive(); err != nil {
		return err
	}
	return m.Driver.Destroy(ctx, id)
}

func (m *mortal) Close() error { return nil }

// TestCrashSweep kills the worker at every append of a job, before and after
// its commit, and has another one finish the job. The laws hold each time.
func TestCrashSweep(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		for n := 1; ; n++ {
			died := true
			ok := t.Run(fmt.Sprintf("append %d, after commit %v", n, after), func(t *testing.T) {
				died = crashAt(t, n, after)
			})
			if !ok || !died {
				break
			}
			if n == 100 {
				t.Fatal("the job has no end")
			}
		}
	}
}

// crashAt reports whether the job was long enough to die at its nth append.
func crashAt(t *testing.T, n int, after bool) bool {
	t.Helper()
	w := newWorld(t)
	begin := make(chan struct{}) // closed when there is all that the job is to be told
	w.model = gated{script{
		shell("echo one >> one.txt"),
		{call("shell", map[string]any{"command": "echo two >> two.txt"}), call("write_file", map[string]any{"path": "three.txt", "content": "three"})},
		finish("test -d ."),
		finish("test -d ."), // again, if the outcome of the first is unknown
	}, begin}
	m := &mortal{Store: w.store, Driver: w.driver, after: after, left: n, dead: make(chan struct{})}
	o := w.options()
	o.Store, o.Driver = m, m
	display := &changingScreen{}
	o.screen = func(*guest.Client) screen { return display }
	first := w.start(o)
	id := w.submit()
	w.control(id, glovebox.ControlUser)
	w.control(id, glovebox.ControlAgent)
	close(begin)
	died := w.awaitDeath(id, m)
	now, cancel := context.WithCancel(t.Context())
	cancel()
	if err := first.Stop(now); err != nil {
		t.Fatal(err)
	}
	w.clock.Add(time.Minute) // the lease runs out
	o = w.options()
	o.Name = "w2"
	o.screen = func(*guest.Client) screen { return display }
	second := w.start(o)
	j := w.awaitEnd(id)
	w.checkLaws(id, j)
	second.sweep(w.ctx()) // what Start does too, perhaps not yet
	w.awaitNoSandbox(second)
	return died
}

// gated is a script whose model answers nothing before begin is closed.
type gated struct {
	script
	begin <-chan struct{}
}

func (g gated) Stream(ctx context.Context, r *llm.Request, delta func(glovebox.ModelDelta)) (*llm.Response, error) {
	select {
	case <-g.begin:
		return g.script.Stream(ctx, r, delta)
	case <-ctx.Done():
		return nil, &llm.Error{Kind: llm.KindCancelled, Err: ctx.Err()}
	}
}

// awaitDeath waits until the worker has died, or the job ended without that.
func (w *world) awaitDeath(id string, m *mortal) bool {
	ctx, cancel := context.WithCancel(w.ctx())
	defer cancel()
	watch := w.store.Watch(ctx, id)
	for {
		if j, err := w.store.Job(ctx, "", id); err == nil && j.Status.Terminal() && m.alive() == nil {
			return false
		}
		select {
		case <-m.dead:
			return true
		case _, ok := <-watch:
			if !ok {
				w.Fatal("the worker neither died nor finished")
			}
		}
	}
}

// checkLaws checks L2 to L4 of a job that ended.
func (w *world) checkLaws(id string, j *glovebox.Job) {
	w.Helper()
	if j.Status != glovebox.StatusComplete {
		w.Errorf("job is %s\n%v", mustJSON(j), w.types(id))
	}
	finished := 0
	started := map[string]int{}
	answered := map[string]int{}
	for _, e := range w.events(id) { // which checks L3
		switch e.Type {
		case glovebox.EventFinished:
			finished++
		case glovebox.EventToolStarted:
			s, _ := glovebox.Decode[glovebox.ToolStarted](e)
			started[s.CallID]++
		case glovebox.EventToolFinished:
			f, _ := glovebox.Decode[glovebox.ToolFinished](e)
			answered[f.CallID]++
			if started[f.CallID] != 1 {
				w.Errorf("L4: call %s was started %d times before it was answered", f.CallID, started[f.CallID])
			}
		}
	}
	if finished != 1 {
		w.Errorf("L2: finished %d times", finished)
	}
	for call, n := range started {
		if n != 1 || answered[call] != 1 {
			w.Errorf("L4: call %s was started %d times and answered %d times", call, n, answered[call])
		}
	}
	if j.Artifact == nil {
		return
	}
	for name, text := range w.artifact(j) {
		if lines := strings.Count(text, "\n"); strings.HasSuffix(name, ".txt") && lines > 1 {
			w.Errorf("L4: the command of %s was run %d times", name, lines)
		}
	}
}
