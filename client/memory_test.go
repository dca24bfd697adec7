package client_test

import (
	"context"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
)

func TestChangeModel(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	id := w.schedule("t")
	w.claim()
	ctx := t.Context()
	if _, changed, err := w.c.ChangeModel(ctx, id, "replay:x"); err != nil || changed {
		t.Errorf("the same model: %v, %v", changed, err)
	}
	v, changed, err := w.c.ChangeModel(ctx, id, "replay:y")
	if err != nil || !changed || v.JobID != id {
		t.Errorf("another model: %v, %v, %v", v, changed, err)
	}
	s, err := w.store.PendingSignals(context.Background(), id)
	if err != nil || len(s) != 1 || s[0].Model != "replay:y" {
		t.Errorf("signals %+v, %v", s, err)
	}
	if _, _, err := w.c.ChangeModel(ctx, id, ""); glovebox.CodeOf(err) != glovebox.CodeInvalid {
		t.Errorf("no model: %v", err)
	}
	if _, _, err := w.c.ChangeModel(ctx, glovebox.NewID(), "a:b"); glovebox.CodeOf(err) != glovebox.CodeNotFound {
		t.Errorf("no job: %v", err)
	}
}

func TestRequestOfAStep(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	id := w.schedule("Build a todo app")
	ctx := t.Context()
	if _, err := w.c.Request(ctx, id, 1, 0); glovebox.CodeOf(err) != glovebox.CodeNotFound {
		t.Errorf("before the model was asked: %v", err)
	}
	l := w.claim()
	w.append(l, glovebox.NewEvent(time.Now(), glovebox.EventModelRequested, glovebox.ModelRequested{Step: 1, Attempt: 1, Model: "replay:x", MaxOutput: 100}))
	for _, step := range []int64{0, 1} {
		v, err := w.c.Request(ctx, id, step, 0)
		if err != nil || v.Step != 1 || v.Attempt != 1 || len(v.Request) == 0 || v.Same {
			t.Errorf("step %d: %+v, %v", step, v, err)
		}
	}
	if _, err := w.c.Request(ctx, id, 1, 2); glovebox.CodeOf(err) != glovebox.CodeNotFound {
		t.Errorf("a second attempt: %v", err)
	}
}
