package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
	"github.com/glovebox-dev/glovebox/internal/memory"
	"github.com/glovebox-dev/glovebox/internal/tool"
)

func control(c glovebox.Control) glovebox.Signal { return glovebox.Signal{Control: &c} }

// clicker is a tool that clicks n times, and waits before a click while a
// person holds the mouse. It tells clicked of each.
func clicker(n int, clicked func(env *tool.Env, i int)) tool.Tool {
	return tool.Tool{Name: "gui", Schema: json.RawMessage(`{"type":"object"}`), Run: func(ctx context.Context, env *tool.Env, _ json.RawMessage) (tool.Result, error) {
		for i := range n {
			for {
				holder, changed := env.Control()
				if holder == glovebox.ControlAgent {
					break
				}
				select {
				case <-changed:
				case <-ctx.Done():
					return tool.Result{}, context.Cause(ctx)
				}
			}
			clicked(env, i)
		}
		return tool.TextResult("clicked"), nil
	}}
}

// TestTakeOver: a person takes the mouse in the middle of a gui call, which
// finishes its click and waits; what the person changed is told to the model.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		var w *world
		var seen []string
		w = newWorld(glovebox.Limits{}, func(_ context.Context, r *llm.Request, _ func(glovebox.ModelDelta)) (*llm.Response, error) {
			last := r.Messages[len(r.Messages)-1]
			seen = append(seen, fmt.Sprint(last.Blocks))
			if r.Step == 0 {
				return answer(use("a", "gui", "{}")), nil
			}
			return answer(finish("z", "true")), nil
		})
		var clicks []int
		w.extra = []tool.Tool{clicker(3, func(env *tool.Env, i int) {
			clicks = append(clicks, i)
			if i == 1 {
				_, changed := env.Control()
				for range 2 { // which is no news the second time
					w.send(control(glovebox.ControlUser))
				}
				<-changed
			}
		})}
		var since *glovebox.ControlChanged
		o := w.options()
		o.Handover = func(_ context.Context, to glovebox.Control, s *glovebox.ControlChanged) glovebox.ControlChanged {
			if to == glovebox.ControlUser {
				return glovebox.ControlChanged{Commit: "before"}
			}
			since = s
			return glovebox.ControlChanged{Commit: "after", Opened: []string{"Text \"editor\"\n"},
				Changes: []glovebox.FileChange{{Path: "by\nhand.txt", Added: 2, Deleted: 1}}}
		}
		var done []int64
		o.StepDone = func(step int64) { done = append(done, step) }
		out := make(chan Outcome, 1)
		go func() {
			res, err := Run(t.Context(), o)
			if err != nil {
				t.Error(err)
			}
			out <- res
		}()
		synctest.Wait()
		if len(clicks) != 2 {
			t.Fatalf("%d clicks while a person holds the mouse", len(clicks))
		}
		w.send(control(glovebox.ControlAgent))
		synctest.Wait()
		if res := <-out; res.Status != glovebox.StatusComplete || len(clicks) != 3 {
			t.Errorf("%+v after clicks %v", res, clicks)
		}
		if since == nil || since.Commit != "before" {
			t.Errorf("given back since %+v", since)
		}
		if got := all[glovebox.ControlChanged](w, glovebox.EventControl); len(got) != 2 || got[0].Control != glovebox.ControlUser || got[1].Control != glovebox.ControlAgent {
			t.Errorf("events %+v", got)
		}
		told := seen[1]
		for _, want := range []string{"taken over the mouse", `"by\nhand.txt" (+2 -1 lines)`, `Windows opened: "Text \"editor\"\n"`} {
			if !strings.Contains(told, want) {
				t.Errorf("the model was not told %s: %s", want, told)
			}
		}
		if fmt.Sprint(done) != "[1 2]" {
			t.Errorf("steps done: %v", done)
		}
		if err := w.laws(); err != nil {
			t.Error(err)
		}
	})
}

// TestFinishWaits: the machine does not vanish under a person's hands; the
// limit of time holds nevertheless, and a cancel ends the job.
func TestFinishWaits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end  func(*world)
		want glovebox.Status
	}{
		"given back":  {func(w *world) { w.send(control(glovebox.ControlAgent)) }, glovebox.StatusComplete},
		"cancelled":   {func(w *world) { w.send(glovebox.Signal{Cancel: true}) }, glovebox.StatusCancelled},
		"out of time": {func(*world) {}, glovebox.StatusError},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T) {
				w := newWorld(glovebox.Limits{WallTimeSeconds: 600}, script(turn(shell("a", "x")), turn(finish("z", "true"))))
				w.send(control(glovebox.ControlUser))
				w.send(glovebox.Signal{Notice: "A person opened a terminal."})
				out := make(chan Outcome, 1)
				go func() {
					res, err := w.run(t.Context())
					if err != nil {
						t.Error(err)
					}
					out <- res
				}()
				synctest.Wait()
				if w.ran["a"] != 1 || w.ran["z"] != 0 {
					t.Errorf("ran %v", w.ran)
				}
				c.end(w)
				if res := <-out; res.Status != c.want {
					t.Errorf("%+v", res)
				}
				if n := all[glovebox.Notice](w, glovebox.EventNotice); len(n) != 2 || n[0].Text != "A person opened a terminal." {
					t.Errorf("notices %+v", n)
				}
				if w.job.Control != glovebox.ControlAgent {
					t.Error("a person holds the mouse of a job that ended")
				}
				if err := w.laws(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestTakeOverWhileWaiting: a question is still open when the person has come
// and gone.
func TestTakeOverWhileWaiting(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		w := newWorld(glovebox.Limits{}, script(turn(use("q", "ask_user", "{}")), turn(finish("z", "true"))))
		out := make(chan Outcome, 1)
		go func() {
			res, err := w.run(t.Context())
			if err != nil {
				t.Error(err)
			}
			out <- res
		}()
		for _, c := range []glovebox.Control{glovebox.ControlUser, glovebox.ControlAgent} {
			synctest.Wait()
			w.send(control(c))
			synctest.Wait()
			if w.job.Control != c || w.job.Phase != glovebox.PhaseWaiting {
				t.Errorf("control is with %q, the phase is %s", w.job.Control, w.job.Phase)
			}
		}
		w.send(glovebox.Signal{Text: "red"})
		if res := <-out; res.Status != glovebox.StatusComplete || !strings.Contains(w.results()["q"], "red") {
			t.Errorf("%+v, %v", res, w.results())
		}
		if err := w.laws(); err != nil {
			t.Error(err)
		}
	})
}

// TestControlOutlivesTheWorker: who holds the mouse is in the log.
func TestControlOutlivesTheWorker(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		first := newWorld(glovebox.Limits{}, script(turn(use("a", "gui", "{}")), turn(finish("z", "true"))))
		first.record(event(glovebox.EventControl, glovebox.ControlChanged{Control: glovebox.ControlUser, Commit: "c"}))
		w := first.resumed(first.events)
		clicks := 0
		w.extra = []tool.Tool{clicker(1, func(*tool.Env, int) { clicks++ })}
		out := make(chan Outcome, 1)
		go func() {
			res, err := w.run(t.Context())
			if err != nil {
				t.Error(err)
			}
			out <- res
		}()
		synctest.Wait()
		if clicks != 0 {
			t.Error("clicked while a person holds the mouse")
		}
		w.send(control(glovebox.ControlAgent))
		if res := <-out; res.Status != glovebox.StatusComplete || clicks != 1 {
			t.Errorf("%+v, %d clicks", res, clicks)
		}
	})
}

// TestRecordingIsNotForTheModel: key frames leave the request as it is.
func TestRecordingIsNotForTheModel(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		w := newWorld(glovebox.Limits{}, script(turn(shell("a", "x")), turn(finish("z", "true"))))
		if _, err := w.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		digest := func(frames bool) string {
			b := memory.New(memory.Options{})
			for _, e := range w.events {
				if err := b.Apply(e); err != nil {
					t.Fatal(err)
				}
				if frames {
					if err := b.Apply(event(glovebox.EventScreen, glovebox.ScreenCaptured{Step: 1, Blob: "out-x"})); err != nil {
						t.Fatal(err)
					}
				}
			}
			return memory.Digest(b.Request(100))
		}
		if digest(true) != digest(false) {
			t.Error("a key frame changes the request")
		}
	})
}

// TestBatchHalts: what follows a click that failed, or that a person kept from
// being done, was meant for another screen, and is not done.
func TestBatchHalts(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		w := newWorld(glovebox.Limits{}, script(
			turn(use("a", "gui", `{"ok":true}`), use("b", "gui", `{}`), use("c", "gui", `{"ok":true}`), shell("d", "x")),
			turn(use("e", "gui", `{"ok":true}`), use("f", "gui", `{"take":true}`), use("g", "gui", `{"ok":true}`)),
			turn(use("h", "gui", `{"ok":true}`), finish("z", "true"))))
		var done []string
		w.extra = []tool.Tool{{Name: "gui", Schema: json.RawMessage(`{"type":"object"}`), Run: func(_ context.Context, env *tool.Env, input json.RawMessage) (tool.Result, error) {
			done = append(done, env.CallID)
			switch {
			case strings.Contains(string(input), "take"):
				_, changed := env.Control()
				w.send(control(glovebox.ControlUser))
				<-changed
				_, changed = env.Control()
				w.send(control(glovebox.ControlAgent))
				<-changed
			case !strings.Contains(string(input), "ok"):
				return tool.ErrorResult("no such place"), nil
			}
			return tool.TextResult("clicked"), nil
		}}}
		if out, err := w.run(t.Context()); err != nil || out.Status != glovebox.StatusComplete {
			t.Fatalf("%+v, %v", out, err)
		}
		if got := strings.Join(done, " "); got != "a b e f h" {
			t.Errorf("done: %s", got)
		}
		results := w.results()
		for _, id := range []string{"c", "g"} {
			if !strings.Contains(results[id], notDone) {
				t.Errorf("%s: %s", id, results[id])
			}
		}
		if strings.Contains(results["d"], "Not executed") {
			t.Errorf("the shell: %s", results["d"])
		}
	})
}

// TestComputerTool: only a model that has a computer tool of its provider's is
// asked with what the tool says about that.
func TestComputerTool(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		for _, kind := range []string{"", llm.AnthropicToolset} {
			var seen *llm.ToolSpec
			w := newWorld(glovebox.Limits{}, func(_ context.Context, r *llm.Request, _ func(glovebox.ModelDelta)) (*llm.Response, error) {
				seen = r.ComputerTool()
				return answer(finish("z", "true")), nil
			})
			w.extra = []tool.Tool{tool.GUI()}
			o := w.options()
			o.Info.Computer = kind
			if out, err := Run(t.Context(), o); err != nil || out.Status != glovebox.StatusComplete {
				t.Fatalf("%+v, %v", out, err)
			}
			if (seen != nil) != (kind != "") || seen != nil && seen.Name != guiTool {
				t.Errorf("%q: %+v", kind, seen)
			}
		}
	})
}
