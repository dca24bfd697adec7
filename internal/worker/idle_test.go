package worker

import (
	"context"
	"maps"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/live"
	"github.com/glovebox-dev/glovebox/internal/sandbox"
)

// pausing is a driver whose sandboxes are only said to be paused.
type pausing struct {
	sandbox.Driver
	paused chan sandbox.ID

	mu  sync.Mutex
	now map[sandbox.ID]bool
}

func (p *pausing) Pause(_ context.Context, id sandbox.ID) error {
	p.mu.Lock()
	p.now[id] = true
	p.mu.Unlock()
	p.paused <- id
	return nil
}

func (p *pausing) Dial(ctx context.Context, id sandbox.ID) (net.Conn, error) {
	p.mu.Lock()
	delete(p.now, id)
	p.mu.Unlock()
	return p.Driver.Dial(ctx, id)
}

func (p *pausing) List(ctx context.Context) ([]sandbox.Info, error) {
	infos, err := p.Driver.List(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range infos {
		infos[i].Start, infos[i].StartNote = "cold", "the template is being made"
		if p.now[infos[i].ID] {
			infos[i].State = sandbox.Paused
		}
	}
	return infos, err
}

func (p *pausing) states() map[sandbox.ID]bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.now)
}

// slow is a driver that says that its image has to be brought first.
type slow struct {
	sandbox.Driver
	err error
}

func (s *slow) Prepare(_ context.Context, _ string, say func(string)) error {
	say("The image is copied.")
	return s.err
}

// What takes long before there is a machine is in the job's log, and so is why
// it did not come to one.
func TestAwaited(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		err  error
		want glovebox.Status
	}{
		"made":   {nil, glovebox.StatusComplete},
		"failed": {&glovebox.Error{Code: glovebox.CodeUnavailable, Msg: "no room for the image"}, glovebox.StatusError},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.model = script{shell("echo blue > colour.txt"), finish("grep blue colour.txt")}
			o := w.options()
			o.Driver = &slow{w.driver, tt.err}
			worker := New(o)
			id := w.submit()
			if err := worker.Start(w.ctx()); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { worker.Stop(context.Background()) })
			if j := w.awaitEnd(id); j.Status != tt.want || tt.err != nil && !strings.Contains(j.Failure.Message, "no room") {
				t.Errorf("job is %s", mustJSON(j))
			}
			for _, a := range data[glovebox.SandboxAwaited](w, id, glovebox.EventSandboxAwaited) {
				if a.Reason != "The image is copied." {
					t.Errorf("got %+v", a)
				}
			}
			if len(data[glovebox.SandboxAwaited](w, id, glovebox.EventSandboxAwaited)) == 0 {
				t.Error("nothing is said of what takes long")
			}
			w.awaitNoSandbox(worker)
		})
	}
}

// A machine whose job waits for a person is paused when nobody watches, and
// goes on for who looks at it, and with the answer.
func TestIdlePause(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.model = script{{call("ask_user", map[string]any{"question": "Which colour?"})}, shell("echo blue > colour.txt"), finish("grep blue colour.txt")}
	d := &pausing{Driver: w.driver, paused: make(chan sandbox.ID, 8), now: map[sandbox.ID]bool{}}
	o := w.options()
	o.Driver, o.IdlePause, o.Live, o.Desktop = d, 60*time.Millisecond, new(live.Hub), true
	worker := New(o)
	id := w.submit()
	_, unwatch := o.Live.Subscribe(id)
	if err := worker.Start(w.ctx()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { worker.Stop(context.Background()) })
	w.await(id, "the question", func(j *glovebox.Job) bool { return j.Phase == glovebox.PhaseWaiting })
	select {
	case <-d.paused:
		t.Error("it is paused while someone watches")
	case <-time.After(5 * o.IdlePause):
	}
	unwatch()
	first := <-d.paused
	_, unwatch = o.Live.Subscribe(id) // or it is paused again under the hands of who looks
	if g, ok := worker.Guest(id); !ok {
		t.Error("who looks at it reaches no machine")
	} else if _, err := g.Stats(w.ctx()); err != nil {
		t.Error(err)
	}
	unwatch()
	if again := <-d.paused; again != first {
		t.Errorf("first %s is paused, then %s", first, again)
	}
	if err := w.store.SendSignal(w.ctx(), "t", id, glovebox.Signal{Text: "Blue."}); err != nil {
		t.Fatal(err)
	}
	if j := w.awaitEnd(id); j.Status != glovebox.StatusComplete {
		t.Errorf("job is %s", mustJSON(j))
	}
	if s := d.states(); s[first] {
		t.Error("it was never thawed")
	}
	ready := data[glovebox.SandboxReady](w, id, glovebox.EventSandboxReady)
	if len(ready) != 1 || ready[0].Start != "cold" || ready[0].StartNote != "the template is being made" {
		t.Errorf("sandbox ready: %+v", ready)
	}
	w.awaitNoSandbox(worker)
}
