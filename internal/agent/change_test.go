package agent

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
)

// change lets another model go on with a job whose model is busy in some way,
// and runs the job to its end with it.
func change(t *testing.T, w *world, run func() (Outcome, error)) {
	t.Helper()
	synctest.Wait()
	w.send(glovebox.Signal{Model: "test:m"}) // which it is
	synctest.Wait()
	w.send(glovebox.Signal{Model: "test:other"})
	if out, err := run(); !errors.Is(err, ErrModelChanged) {
		t.Fatalf("%+v, %v", out, err)
	}
	if w.job.Model != "test:other" || len(w.signals) != 0 || w.count(glovebox.EventModelChanged) != 1 {
		t.Fatalf("the model is %s, signals %v", w.job.Model, w.signals)
	}
	w.model = func(context.Context, *llm.Request, func(glovebox.ModelDelta)) (*llm.Response, error) {
		return answer(finish("f", "true")), nil
	}
	if out, err := w.run(t.Context()); err != nil || out.Status != glovebox.StatusComplete {
		t.Fatalf("%+v, %v", out, err)
	}
	q := all[glovebox.ModelRequested](w, glovebox.EventModelRequested)
	if q[len(q)-1].Model != "test:other" || q[0].Model != "test:m" {
		t.Errorf("asked %+v", q)
	}
	if f := all[glovebox.Folded](w, glovebox.EventFolded); len(f) != 1 || f[0].Reason != glovebox.FoldModel || f[0].Epoch != 2 {
		t.Errorf("the other model begins no epoch: %+v", f)
	}
	if err := w.laws(); err != nil {
		t.Error(err)
	}
}

func TestModelChanged(t *testing.T) {
	t.Parallel()
	for name, model := range map[string]modelFunc{
		"while it is asked": hangs,
		"before a retry":    failing(&llm.Error{Kind: llm.KindRateLimited, RetryAfter: 5 * time.Minute}),
		"at a question":     script(turn(use("q", "ask_user", `{}`))),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T) {
				w := newWorld(glovebox.Limits{}, model)
				begin := time.Now()
				run := start(t.Context(), w)
				if name != "at a question" {
					change(t, w, run)
					if took := time.Since(begin); took != 0 {
						t.Errorf("it took %s", took)
					}
					return
				}
				synctest.Wait()
				w.send(glovebox.Signal{Model: "test:other"})
				if _, err := run(); !errors.Is(err, ErrModelChanged) || w.job.Question == "" {
					t.Fatalf("%v, question %q", err, w.job.Question)
				}
				w.model = failing()
				run = start(t.Context(), w)
				synctest.Wait()
				w.send(glovebox.Signal{Text: "blue"})
				if out, err := run(); err != nil || out.Status != glovebox.StatusComplete || !strings.Contains(w.results()["q"], "blue") {
					t.Fatalf("%+v, %v, %v", out, err, w.results())
				}
			})
		})
	}
}

// TestModelChangeLeavesToolsAlone: the command goes on; its result is recorded
// before another model is asked.
func TestModelChangeLeavesToolsAlone(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		w := newWorld(glovebox.Limits{}, script(turn(shell("a", "hang"))))
		run := start(t.Context(), w)
		synctest.Wait()
		w.send(glovebox.Signal{Model: "test:other"})
		synctest.Wait()
		if len(w.results()) != 0 {
			t.Fatal("the command was stopped")
		}
		w.send(glovebox.Signal{Text: "hello"})
		if _, err := run(); !errors.Is(err, ErrModelChanged) || w.results()["a"] != "in the background" {
			t.Fatalf("%v, %v", err, w.results())
		}
	})
}

// TestModelRefused: a model that can't go on is refused softly.
func TestModelRefused(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		w := newWorld(glovebox.Limits{}, nil)
		calls := 0
		w.model = func(ctx context.Context, r *llm.Request, d func(glovebox.ModelDelta)) (*llm.Response, error) {
			if calls++; calls == 1 {
				return hangs(ctx, r, d)
			}
			return answer(finish("f", "true")), nil
		}
		o := w.options()
		o.CheckModel = func(_ context.Context, name string) error {
			return glovebox.Invalid("model", "", "there is no %s", name)
		}
		done := make(chan error, 1)
		go func() {
			_, err := Run(t.Context(), o)
			done <- err
		}()
		synctest.Wait()
		w.send(glovebox.Signal{Model: "test:none"})
		synctest.Wait()
		n := all[glovebox.Notice](w, glovebox.EventNotice)
		if len(n) != 1 || !strings.Contains(n[0].Text, "there is no test:none") || w.job.Model != "test:m" || calls != 1 {
			t.Fatalf("notices %+v, model %s, %d calls", n, w.job.Model, calls)
		}
		w.send(glovebox.Signal{Text: "go on"})
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	})
}
