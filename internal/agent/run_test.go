package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
	"github.com/glovebox-dev/glovebox/internal/tool"
)

// eventful is a job in which most things happen.
func eventful() modelFunc {
	return script(
		turn(glovebox.Text("I plan."), use("p1", "plan", `{"a":1}`), shell("s1", "npm create")),
		turn(shell("s2", "one"), shell("s3", "fail two"), use("r1", "read_file", `{}`)),
		turn(glovebox.Text("I think that is it.")),
		turn(use("q1", "ask_user", `{}`), shell("s4", "after the question")),
		turn(finish("f1", "true", "false")),
		turn(use("x1", "no_such_tool", `{}`), use("x2", "shell", `"not an object"`), use("x2", "shell", `{"command":"twice"}`)),
		turn(shell("s5", "lose")),
		turn(finish("f2", "true"), shell("s6", "before finish")),
	)
}

func TestWholeJob(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		w := newWorld(glovebox.Limits{}, eventful())
		go func() {
			time.Sleep(10 * time.Minute) //nolint:forbidigo // of the bubble: the question is open
			w.send(glovebox.Signal{Text: "blue"})
		}()
		out, err := w.run(t.Context())
		if err != nil || out.Status != glovebox.StatusComplete || out.Summary != "It is done." {
			t.Fatalf("%+v, %v", out, err)
		}
		if err := w.laws(); err != nil {
			t.Error(err)
		}
		got := w.results()
		for id, want := range map[string]string{
			"p1": "noted", "s1": "npm create", "s3": "two", "q1": "blue", "s4": "after the question", "f1": "1 of 2 proofs failed",
			"x1": `There is no tool "no_such_tool"`, "x2": "has to be a JSON object", "x2~2": "used the id x2 for two calls",
			"s5": "Outcome unknown", "s6": "before finish", "f2": "All proofs passed",
		} {
			if !strings.Contains(got[id], want) {
				t.Errorf("%s: %q, want %q", id, got[id], want)
			}
		}
		if w.job.Step != 8 || w.job.Plan == nil || len(w.job.Verification) != 1 || w.job.HowToRun != "npm start" {
			t.Errorf("job: %+v", w.job)
		}
		if waited := w.job.PhaseMillis[glovebox.PhaseWaiting]; waited != 10*60*1000 {
			t.Errorf("waited for the user for %d ms", waited)
		}
		if w.saved == 0 || w.saved > 8 {
			t.Errorf("%d checkpoints", w.saved)
		}
		var shown []string
		for _, e := range w.live {
			shown = append(shown, string(e.Type))
		}
		if s := strings.Join(shown, " "); !strings.Contains(s, "model.delta") || !strings.Contains(s, "tool.output") {
			t.Errorf("shown live: %s", s)
		}
	})
}

// TestResumeAnywhere cuts the log of a job after every event and has another
// Run go on from there: whatever was under way, all laws hold and the job ends.
func TestResumeAnywhere(t *testing.T) {
	t.Parallel()
	var first *world
	bubble(t, func(t *testing.T) {
		first = newWorld(glovebox.Limits{}, eventful())
		if _, err := first.run(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	for n := 3; n < len(first.events); n++ {
		bubble(t, func(t *testing.T) { resumeAt(t, first, n) })
	}
}

func resumeAt(t *testing.T, first *world, n int) {
	w := first.resumed(first.events[:n])
	begun := map[string]bool{}
	for _, s := range all[glovebox.ToolStarted](w, glovebox.EventToolStarted) {
		begun[s.CallID] = true
	}
	out, err := w.run(t.Context())
	if err != nil || out.Status != glovebox.StatusComplete && (out.Failure == nil || out.Failure.Code != "model") {
		t.Fatalf("cut after event %d (%s): %+v %v, %v", n, first.events[n-1].Type, out, out.Failure, err)
	}
	// A finish whose outcome is unknown costs a turn of the recording.
	if out.Status != glovebox.StatusComplete && !strings.Contains(w.results()["f2"], "unknown") {
		t.Errorf("cut after event %d: %+v", n, out.Failure)
	}
	if err := w.laws(); err != nil {
		t.Errorf("cut after event %d (%s): %v", n, first.events[n-1].Type, err)
	}
	for id := range w.ran {
		if begun[id] {
			t.Errorf("cut after event %d (%s): %s was run again", n, first.events[n-1].Type, id)
		}
	}
	if w.count(glovebox.EventFinished) != 1 {
		t.Errorf("cut after event %d: no end", n)
	}
}

// TestCrashAtEveryWrite has the store fail at every single write, after which
// nothing more may be written, and goes on in another Run.
func TestCrashAtEveryWrite(t *testing.T) {
	t.Parallel()
	lost := glovebox.Errorf(glovebox.CodeFenced, "the lease was lost")
	ended := false
	for n := 1; !ended; n++ {
		bubble(t, func(t *testing.T) {
			w := newWorld(glovebox.Limits{}, eventful())
			writes := 0
			w.appendErr = func([]glovebox.Event) error {
				if writes++; writes >= n {
					return lost
				}
				return nil
			}
			_, err := w.run(t.Context())
			if ended = err == nil; ended {
				if n < 20 {
					t.Fatalf("only %d writes", n)
				}
				return
			}
			if !errors.Is(err, lost) || writes != n {
				t.Fatalf("write %d of %d: %v", n, writes, err)
			}
			again := w.resumed(w.events)
			if _, err := again.run(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := again.laws(); err != nil {
				t.Errorf("after a failed write %d: %v", n, err)
			}
		})
	}
}

// TestCancelAnywhere cancels the job at every one of its writes.
func TestCancelAnywhere(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		for n := 1; ; n++ {
			w := newWorld(glovebox.Limits{}, eventful())
			writes := 0
			w.appendErr = func([]glovebox.Event) error {
				if writes++; writes == n {
					w.mu.Unlock()
					w.send(glovebox.Signal{Cancel: true})
					w.mu.Lock()
				}
				return nil
			}
			out, err := w.run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if writes < n {
				return
			}
			if out.Status != glovebox.StatusCancelled && w.job.Verification == nil {
				t.Errorf("cancelled at write %d: %+v", n, out)
			}
			if out.Status == glovebox.StatusCancelled && len(w.signals) > 0 {
				t.Errorf("cancelled at write %d: the signal was not consumed", n)
			}
			if err := w.laws(); err != nil {
				t.Errorf("cancelled at write %d: %v", n, err)
			}
		}
	})
}

// hangs is a model that answers only when its context ends.
func hangs(ctx context.Context, _ *llm.Request, delta func(glovebox.ModelDelta)) (*llm.Response, error) {
	delta(glovebox.ModelDelta{Type: glovebox.BlockText, Text: strings.Repeat("x", 300)})
	<-ctx.Done()
	return nil, &llm.Error{Kind: llm.KindCancelled, Err: ctx.Err()}
}

// start runs w and returns how to get its outcome.
func start(ctx context.Context, w *world) func() (Outcome, error) {
	type ended struct {
		out Outcome
		err error
	}
	ch := make(chan ended, 1)
	go func() {
		out, err := w.run(ctx)
		ch <- ended{out, err}
	}()
	return func() (Outcome, error) {
		e := <-ch
		return e.out, e.err
	}
}

func TestSignalsDuringModelCall(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		calls := 0
		w := newWorld(glovebox.Limits{}, nil)
		w.model = func(ctx context.Context, r *llm.Request, delta func(glovebox.ModelDelta)) (*llm.Response, error) {
			if calls++; calls == 1 {
				return hangs(ctx, r, delta)
			}
			last := r.Messages[len(r.Messages)-1].Blocks
			if !strings.Contains(last[len(last)-1].Text, "use TypeScript") {
				t.Errorf("the call that was made again lacks the message: %+v", last)
			}
			return hangs(ctx, r, delta)
		}
		wait := start(t.Context(), w)
		synctest.Wait()
		w.send(glovebox.Signal{Text: "use TypeScript"})
		synctest.Wait()
		if calls != 2 {
			t.Fatalf("%d calls", calls)
		}
		more := glovebox.DefaultLimits()
		more.Steps = 999
		w.send(glovebox.Signal{Limits: &more})
		synctest.Wait()
		if calls != 2 || w.job.Limits.Steps != 999 {
			t.Errorf("new limits: %d calls, %+v", calls, w.job.Limits)
		}
		w.send(glovebox.Signal{Cancel: true})
		out, err := wait()
		if err != nil || out.Status != glovebox.StatusCancelled || len(w.signals) != 0 {
			t.Fatalf("%+v, %v, %v", out, err, w.signals)
		}
		if f := all[glovebox.ModelFailed](w, glovebox.EventModelFailed); len(f) != 2 || f[0].Usage.Input == 0 || f[0].Usage.Output < 100 || !f[0].Retry {
			t.Errorf("failures: %+v", f)
		}
		if err := w.laws(); err != nil {
			t.Error(err)
		}
	})
}

func TestSignalsDuringTool(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		w := newWorld(glovebox.Limits{}, script(turn(shell("a", "hang")), turn(shell("b", "hang"))))
		wait := start(t.Context(), w)
		synctest.Wait()
		w.send(glovebox.Signal{Text: "hurry"})
		synctest.Wait()
		if got := w.results()["a"]; got != "in the background" {
			t.Errorf("the waiting command: %q", got)
		}
		w.send(glovebox.Signal{Cancel: true})
		if out, err := wait(); err != nil || out.Status != glovebox.StatusCancelled {
			t.Fatalf("%+v, %v", out, err)
		}
		if err := w.laws(); err != nil {
			t.Error(err)
		}
		if _, ok := w.results()["b"]; ok {
			t.Error("the cancelled command has a result")
		}
	})
}

// TestMessageWaitsForTool: a tool that can't yield is not disturbed.
func TestMessageWaitsForTool(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		w := newWorld(glovebox.Limits{}, script(turn(use("a", "slow", `{}`)), turn(finish("f", "true"))))
		w.extra = []tool.Tool{{Name: "slow", Run: func(ctx context.Context, _ *tool.Env, _ json.RawMessage) (tool.Result, error) {
			select {
			case <-time.After(time.Minute):
				return tool.TextResult("done"), nil
			case <-ctx.Done():
				return tool.Result{}, ctx.Err()
			}
		}}}
		wait := start(t.Context(), w)
		synctest.Wait()
		w.send(glovebox.Signal{Text: "hello"})
		if out, err := wait(); err != nil || out.Status != glovebox.StatusComplete {
			t.Fatalf("%+v, %v", out, err)
		}
		if w.results()["a"] != "done" {
			t.Errorf("results: %v", w.results())
		}
		if err := w.laws(); err != nil {
			t.Error(err)
		}
	})
}

func TestWordsDuringProofsHoldTheEnd(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		w := newWorld(glovebox.Limits{}, script(turn(finish("f1", "true")), turn(finish("f2", "true"))))
		once := true
		w.prove = func(context.Context, string) (glovebox.Proof, error) {
			if once {
				once = false
				w.send(glovebox.Signal{Text: "one more thing"})
			}
			return glovebox.Proof{}, nil
		}
		if out, err := w.run(t.Context()); err != nil || out.Status != glovebox.StatusComplete {
			t.Fatalf("%+v, %v", out, err)
		}
		if got := w.results()["f1"]; !strings.Contains(got, "said something") {
			t.Errorf("the first finish: %q", got)
		}
		if err := w.laws(); err != nil {
			t.Error(err)
		}
	})
}

func TestContextEnds(t *testing.T) {
	t.Parallel()
	for name, model := range map[string]modelFunc{"model": hangs, "tool": script(turn(shell("a", "hang"))), "question": script(turn(use("a", "ask_user", `{}`)))} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T) {
				w := newWorld(glovebox.Limits{}, model)
				ctx, cancel := context.WithCancelCause(t.Context())
				wait := start(ctx, w)
				synctest.Wait()
				before := len(w.events)
				down := errors.New("shutting down")
				cancel(down)
				if _, err := wait(); !errors.Is(err, down) {
					t.Errorf("%v", err)
				}
				if len(w.events) != before {
					t.Errorf("%d events were appended", len(w.events)-before)
				}
			})
		})
	}
}

func TestDrain(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		w := newWorld(glovebox.Limits{}, script(turn(shell("a", "x"), shell("b", "y"))))
		w.appendErr = func(es []glovebox.Event) error {
			for _, e := range es {
				if e.Type == glovebox.EventToolStarted {
					close(w.drain)
				}
			}
			return nil
		}
		if _, err := w.run(t.Context()); !errors.Is(err, ErrDrained) {
			t.Fatal(err)
		}
		if got := w.results(); got["a"] != "x" || len(got) != 1 {
			t.Errorf("results: %v", got)
		}
	})
}

func TestQuestionWithoutAnswer(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		w := newWorld(glovebox.Limits{WallTimeSeconds: 60}, script(turn(use("q", "ask_user", `{}`)), turn(finish("f", "true"))))
		begin := time.Now()
		if out, err := w.run(t.Context()); err != nil || out.Status != glovebox.StatusComplete {
			t.Fatalf("%+v, %v", out, err)
		}
		if got := w.results()["q"]; !strings.Contains(got, "No answer came") || time.Since(begin) != time.Hour {
			t.Errorf("after %s: %q", time.Since(begin), got)
		}
	})
}

// TestQuestionOutlivesItsWorker: an answer that came while no worker held the
// job is found in the log.
func TestQuestionOutlivesItsWorker(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		w := newWorld(glovebox.Limits{}, script(turn(use("q", "ask_user", `{}`)), turn(finish("f", "true"))))
		ctx, cancel := context.WithCancel(t.Context())
		wait := start(ctx, w)
		synctest.Wait()
		cancel()
		wait()
		w.record(event(glovebox.EventUserMessage, glovebox.UserMessage{Text: "red"}))
		again := w.resumed(w.events)
		if out, err := again.run(t.Context()); err != nil || out.Status != glovebox.StatusComplete {
			t.Fatalf("%+v, %v", out, err)
		}
		if got := again.results()["q"]; !strings.Contains(got, "red") || again.ran["q"] != 0 {
			t.Errorf("%q, asked again %d times", got, again.ran["q"])
		}
	})
}

func TestSandboxLost(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		w := newWorld(glovebox.Limits{}, nil)
		guests := 0
		w.onGuest = func() []glovebox.Event {
			if guests++; guests != 2 {
				return nil
			}
			return []glovebox.Event{event(glovebox.EventSandboxLost, glovebox.SandboxLost{ID: "s", Cause: "out of memory"}),
				event(glovebox.EventSandboxReady, glovebox.SandboxReady{ID: "t", How: "rebuilt", Commit: "c1"})}
		}
		w.model = func(_ context.Context, r *llm.Request, _ func(glovebox.ModelDelta)) (*llm.Response, error) {
			if r.Step == 0 {
				return answer(shell("a", "lose")), nil
			}
			blocks := r.Messages[len(r.Messages)-1].Blocks
			if !strings.Contains(blocks[0].Content[0].Text, "unknown") || !strings.Contains(blocks[1].Text, "has been rebuilt") {
				t.Errorf("the model is told %+v", blocks)
			}
			return answer(finish("f", "true")), nil
		}
		if out, err := w.run(t.Context()); err != nil || out.Status != glovebox.StatusComplete {
			t.Fatalf("%+v, %v", out, err)
		}
		if err := w.laws(); err != nil {
			t.Error(err)
		}
		w = newWorld(glovebox.Limits{}, script(turn(shell("a", "x"))))
		w.guestErr = func() error { return glovebox.Errorf(glovebox.CodeLimit, "rebuilt three times") }
		if out, err := w.run(t.Context()); err != nil || out.Failure == nil || out.Failure.Code != "sandbox" {
			t.Errorf("%+v, %v", out, err)
		}
	})
}

func TestPanicInTool(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		w := newWorld(glovebox.Limits{}, script(turn(shell("a", "panic")), turn(finish("f", "true"))))
		if out, err := w.run(t.Context()); err != nil || out.Status != glovebox.StatusComplete {
			t.Fatalf("%+v, %v", out, err)
		}
		if got := w.results()["a"]; !strings.Contains(got, "unknown") {
			t.Errorf("%q", got)
		}
	})
}

func TestCheckpointFails(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		var turns [][]glovebox.Block
		for i := range 9 {
			turns = append(turns, turn(shell(fmt.Sprint("s", i), fmt.Sprint(i))))
		}
		w := newWorld(glovebox.Limits{}, script(turns...))
		w.checkpoint = func() error {
			if w.saved == 2 {
				return nil
			}
			return &glovebox.Error{Code: glovebox.CodeTooLarge, Msg: "disk full", Hint: "make room"}
		}
		out, err := w.run(t.Context())
		if err != nil || out.Failure == nil || out.Failure.Code != "sandbox" || out.Failure.Hint != "make room" || w.saved != 5 {
			t.Errorf("%+v after %d, %v", out.Failure, w.saved, err)
		}
	})
}
