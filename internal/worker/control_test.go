package worker

import (
	"context"
	"slices"
	"testing"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest"
	"github.com/glovebox-dev/glovebox/internal/llm"
)

func (w *world) control(id string, c glovebox.Control) {
	w.Helper()
	if err := w.store.SendSignal(w.ctx(), "", id, glovebox.Signal{Control: &c}); err != nil {
		w.Fatal(err)
	}
}

// stepped is a script whose model waits before each answer until next says so.
type stepped struct {
	script
	next chan struct{}
}

func (s stepped) Stream(ctx context.Context, r *llm.Request, delta func(glovebox.ModelDelta)) (*llm.Response, error) {
	select {
	case <-s.next:
		return s.script.Stream(ctx, r, delta)
	case <-ctx.Done():
		return nil, &llm.Error{Kind: llm.KindCancelled, Err: ctx.Err()}
	}
}

// TestTakeOver: what a person changes is in the log when they give back.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	next := make(chan struct{})
	w.model = stepped{script{shell("echo one > one.txt; echo x > gone.txt"), finish("test -f two.txt")}, next}
	display := &fakeScreen{}
	display.show(frame("a"), "Terminal", "Files")
	o := w.options()
	o.screen = func(*guest.Client) screen { return display }
	worker := w.start(o)
	id := w.submit()
	next <- struct{}{}
	w.awaitEvent(id, glovebox.EventCheckpoint)
	first := data[glovebox.CheckpointSaved](w, id, glovebox.EventCheckpoint)[0]
	if !slices.Equal(first.Changes, []glovebox.FileChange{{Path: "gone.txt", Added: 1}, {Path: "one.txt", Added: 1}}) {
		t.Errorf("the first checkpoint holds %+v", first.Changes)
	}
	w.control(id, glovebox.ControlUser)
	w.await(id, "the person's control", func(j *glovebox.Job) bool { return j.Control == glovebox.ControlUser })

	g, ok := worker.Guest(id)
	if !ok {
		t.Fatal("no guest")
	}
	if _, _, err := g.Run(w.ctx(), guest.Command{ID: "person", Args: []string{"sh", "-c", "printf '1\\n2\\n' > two.txt; rm gone.txt"}}, 1000); err != nil {
		t.Fatal(err)
	}
	display.show(frame("b"), "Files", "Editor\xff")
	w.control(id, glovebox.ControlAgent)
	w.await(id, "the agent's control", func(j *glovebox.Job) bool { return j.Control == glovebox.ControlAgent })

	got := data[glovebox.ControlChanged](w, id, glovebox.EventControl)
	if len(got) != 2 || got[0].Commit == "" || len(got[0].Windows) != 2 || got[0].Sandbox == "" {
		t.Fatalf("events %+v", got)
	}
	want := []glovebox.FileChange{{Path: "gone.txt", Deleted: 1}, {Path: "two.txt", Added: 2}}
	if !slices.Equal(got[1].Changes, want) {
		t.Errorf("changes %+v, want %+v", got[1].Changes, want)
	}
	if !slices.Equal(got[1].Opened, []string{"Editor\uFFFD"}) || !slices.Equal(got[1].Closed, []string{"Terminal"}) {
		t.Errorf("opened %q, closed %q", got[1].Opened, got[1].Closed)
	}
	if cp := data[glovebox.CheckpointSaved](w, id, glovebox.EventCheckpoint); got[1].Commit != cp[len(cp)-1].Commit {
		t.Error("what the person did is not in a checkpoint")
	}
	next <- struct{}{}
	if j := w.awaitEnd(id); j.Status != glovebox.StatusComplete {
		t.Errorf("%s", mustJSON(j))
	}
	w.awaitNoSandbox(worker)
}

// TestTakeOverEarly: before there is a machine, and of a display that hangs.
func TestTakeOverEarly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.model = script{shell("echo one > one.txt"), finish("test -d .")}
	id := w.submit()
	w.control(id, glovebox.ControlUser)
	o := w.options()
	o.screen = func(*guest.Client) screen { return &fakeScreen{hangs: true} }
	worker := w.start(o)
	w.awaitEvent(id, glovebox.EventNotice) // finish waits
	w.control(id, glovebox.ControlAgent)
	if j := w.awaitEnd(id); j.Status != glovebox.StatusComplete {
		t.Errorf("%s", mustJSON(j))
	}
	got := data[glovebox.ControlChanged](w, id, glovebox.EventControl)
	if len(got) != 2 || got[1].Commit != "" || got[1].Changes != nil {
		t.Errorf("events %+v", got)
	}
	w.awaitNoSandbox(worker)
}
