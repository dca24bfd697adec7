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

// failing returns a model whose first calls fail, and which then finishes.
func failing(errs ...error) modelFunc {
	n := 0
	return func(context.Context, *llm.Request, func(glovebox.ModelDelta)) (*llm.Response, error) {
		if n++; n <= len(errs) {
			return nil, errs[n-1]
		}
		return answer(finish("f", "true")), nil
	}
}

func TestRetries(t *testing.T) {
	t.Parallel()
	refuse := func(k llm.Kind) error { return &llm.Error{Kind: k, Msg: "the provider's words"} }
	many := func(n int, err error) []error {
		var errs []error
		for range n {
			errs = append(errs, err)
		}
		return errs
	}
	for _, test := range []struct {
		name  string
		errs  []error
		took  time.Duration // with a jitter of one half
		calls int
		want  string // in the failure; empty: the job completes
	}{
		{"once overloaded", many(1, refuse(llm.KindOverloaded)), 500 * time.Millisecond, 2, ""},
		{"each kind that may pass", []error{refuse(llm.KindRateLimited), refuse(llm.KindNetwork), refuse(llm.KindStalled), refuse(llm.KindTruncated), refuse(llm.KindMalformed)},
			(500 + 1000 + 2000 + 4000 + 8000) * time.Millisecond, 6, ""},
		{"a closed connection", []error{refuse(llm.KindCancelled)}, 500 * time.Millisecond, 2, ""},
		{"as long as it asks", []error{&llm.Error{Kind: llm.KindRateLimited, RetryAfter: 3 * time.Minute}}, 3*time.Minute + 500*time.Millisecond, 2, ""},
		{"longer than anyone waits", []error{&llm.Error{Kind: llm.KindRateLimited, RetryAfter: time.Hour}}, 0, 1, "too busy"},
		{"longer than anyone waits, together", many(9, &llm.Error{Kind: llm.KindRateLimited, RetryAfter: 4 * time.Minute}), 8*time.Minute + time.Second, 3, "too busy"},
		{"seven times", many(7, refuse(llm.KindOverloaded)), (500 + 1000 + 2000 + 4000 + 8000 + 16000 + 30000) * time.Millisecond, 8, ""},
		{"eight times", many(8, refuse(llm.KindNetwork)), (500 + 1000 + 2000 + 4000 + 8000 + 16000 + 30000) * time.Millisecond, 8, "in 8 tries: the provider's words"},
		{"a wrong key", many(1, refuse(llm.KindAuth)), 0, 1, "refused the key"},
		{"no money", many(1, refuse(llm.KindQuota)), 0, 1, "no credit"},
		{"refused", many(1, refuse(llm.KindInvalid)), 0, 1, "refused the request"},
		{"no further turn", many(1, refuse(llm.KindExhausted)), 0, 1, "no further turn"},
		{"not as recorded", many(1, refuse(llm.KindDiverged)), 0, 1, "recorded conversation"},
		{"an error that is none of a model", many(1, errors.New("strange")), 0, 1, "strange"},
		{"always too long", many(9, refuse(llm.KindContextTooLong)), 0, 1, "does not fit"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T) {
				w := newWorld(glovebox.Limits{}, failing(test.errs...))
				begin := time.Now()
				out, err := w.run(t.Context())
				if err != nil || time.Since(begin) != test.took {
					t.Fatalf("%+v after %s, %v", out, time.Since(begin), err)
				}
				if n := w.count(glovebox.EventModelRequested); n != test.calls {
					t.Errorf("%d calls", n)
				}
				if test.want == "" && out.Status != glovebox.StatusComplete {
					t.Errorf("%+v", out.Failure)
				}
				if test.want != "" && (out.Failure == nil || !strings.Contains(out.Failure.Message, test.want)) {
					t.Errorf("%+v", out.Failure)
				}
				for i, q := range all[glovebox.ModelRequested](w, glovebox.EventModelRequested) {
					if q.Attempt != int64(i+1) || q.Step != 1 {
						t.Errorf("call %d: step %d, attempt %d", i, q.Step, q.Attempt)
					}
				}
				if err := w.laws(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestCancelDuringBackoff: nobody waits for a retry to be obeyed.
func TestCancelDuringBackoff(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		w := newWorld(glovebox.Limits{}, failing(&llm.Error{Kind: llm.KindRateLimited, RetryAfter: 5 * time.Minute}))
		wait := start(t.Context(), w)
		synctest.Wait()
		w.send(glovebox.Signal{Text: "are you there?"})
		synctest.Wait()
		begin := time.Now()
		w.send(glovebox.Signal{Cancel: true})
		if out, err := wait(); err != nil || out.Status != glovebox.StatusCancelled || time.Since(begin) != 0 {
			t.Errorf("%+v after %s, %v", out, time.Since(begin), err)
		}
		if w.count(glovebox.EventUserMessage) != 1 || w.count(glovebox.EventModelRequested) != 1 {
			t.Error("the message was lost, or ended the wait")
		}
	})
}

func TestWallTimeEndsBackoff(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		w := newWorld(glovebox.Limits{WallTimeSeconds: 60}, failing(&llm.Error{Kind: llm.KindRateLimited, RetryAfter: 5 * time.Minute}))
		begin := time.Now()
		out, err := w.run(t.Context())
		if err != nil || out.Failure == nil || out.Failure.Limit != "wall_time_seconds" || time.Since(begin) != time.Minute {
			t.Errorf("%+v after %s, %v", out, time.Since(begin), err)
		}
	})
}

func TestSilence(t *testing.T) {
	t.Parallel()
	silent := turn(glovebox.Text("All done!"))
	for _, test := range []struct {
		name  string
		turns [][]glovebox.Block
		want  string
	}{
		{"three times, then it works", [][]glovebox.Block{silent, turn(glovebox.Text("")), turn(), turn(finish("f", "true"))}, ""},
		{"four times", [][]glovebox.Block{silent, silent, silent, silent, turn(finish("f", "true"))}, "loop"},
		{"not in a row", [][]glovebox.Block{silent, silent, silent, turn(shell("a", "x")), silent, turn(finish("f", "true"))}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T) {
				w := newWorld(glovebox.Limits{}, script(test.turns...))
				out, err := w.run(t.Context())
				if err != nil || test.want == "" != (out.Failure == nil) || out.Failure != nil && out.Failure.Code != test.want {
					t.Fatalf("%+v %+v, %v", out, out.Failure, err)
				}
				for _, n := range all[glovebox.Notice](w, glovebox.EventNotice) {
					if !strings.Contains(n.Text, "called no tool") {
						t.Errorf("notice: %q", n.Text)
					}
				}
				if err := w.laws(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestCutAnswers(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		w := newWorld(glovebox.Limits{}, func(_ context.Context, r *llm.Request, _ func(glovebox.ModelDelta)) (*llm.Response, error) {
			var a *llm.Response
			switch r.Step {
			case 0:
				a = answer(shell("whole", "ls"), use("cut", "shell", `{"command":"rm -rf /wor`))
			case 1:
				a = answer(glovebox.Text("I was going to"))
			default:
				return answer(finish("f", "true")), nil
			}
			a.StopReason = llm.StopMaxOutput
			return a, nil
		})
		if out, err := w.run(t.Context()); err != nil || out.Status != glovebox.StatusComplete {
			t.Fatalf("%+v, %v", out, err)
		}
		got := w.results()
		if got["whole"] != "ls" || !strings.Contains(got["cut"], "smaller pieces") || w.ran["cut"] != 0 {
			t.Errorf("results: %v", got)
		}
		if n := all[glovebox.Notice](w, glovebox.EventNotice); len(n) != 1 || !strings.Contains(n[0].Text, "was cut") {
			t.Errorf("notices: %v", n)
		}
		var input string
		if s := all[glovebox.ToolStarted](w, glovebox.EventToolStarted)[1]; json.Unmarshal(s.Input, &input) != nil || input != `{"command":"rm -rf /wor` {
			t.Errorf("the cut input: %s", s.Input)
		}
	})
}

func TestRefusal(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		w := newWorld(glovebox.Limits{}, func(context.Context, *llm.Request, func(glovebox.ModelDelta)) (*llm.Response, error) {
			a := answer(glovebox.Text("No."))
			a.StopReason = llm.StopRefusal
			return a, nil
		})
		if out, err := w.run(t.Context()); err != nil || out.Failure == nil || out.Failure.Code != "refused" {
			t.Errorf("%+v, %v", out, err)
		}
	})
}

func TestLoopIsNoticedAndStopped(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		call func(n int64) glovebox.Block
		runs int64 // until it is stopped; 0: never, in 40 steps
	}{
		{"the same call", func(n int64) glovebox.Block { return shell(fmt.Sprint("c", n), "npm test") }, 6},
		{"the same call, written differently", func(n int64) glovebox.Block {
			return use(fmt.Sprint("c", n), "shell", []string{`{"command":"x","cwd":"/"}`, `{ "cwd": "/", "command": "x" }`}[n%2])
		}, 6},
		{"to and fro", func(n int64) glovebox.Block { return shell(fmt.Sprint("c", n), []string{"a", "b"}[n%2]) }, 12},
		{"an unknown tool", func(n int64) glovebox.Block { return use(fmt.Sprint("c", n), "nope", `{}`) }, 6},
		{"a tool that breaks", func(n int64) glovebox.Block { return shell(fmt.Sprint("c", n), "panic") }, 6},
		{"the same test after another edit", func(n int64) glovebox.Block {
			return shell(fmt.Sprint("c", n), []string{"fail npm test", fmt.Sprint("edit ", n)}[n%2])
		}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T) {
				w := newWorld(glovebox.Limits{Steps: 40}, func(_ context.Context, r *llm.Request, _ func(glovebox.ModelDelta)) (*llm.Response, error) {
					return answer(test.call(r.Step)), nil
				})
				out, err := w.run(t.Context())
				if err != nil || out.Failure == nil {
					t.Fatalf("%+v, %v", out, err)
				}
				if test.runs == 0 {
					if out.Failure.Code != "limit" || w.count(glovebox.EventNotice) != 0 {
						t.Errorf("%+v, %d notices", out.Failure, w.count(glovebox.EventNotice))
					}
					return
				}
				if out.Failure.Code != "loop" || w.job.Step != test.runs || w.count(glovebox.EventNotice) == 0 {
					t.Errorf("%+v after %d steps, %d notices", out.Failure, w.job.Step, w.count(glovebox.EventNotice))
				}
			})
		})
	}
}

func TestProofsFailTooOften(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		w := newWorld(glovebox.Limits{}, func(_ context.Context, r *llm.Request, _ func(glovebox.ModelDelta)) (*llm.Response, error) {
			return answer(finish(fmt.Sprint("f", r.Step), fmt.Sprint("false ", r.Step))), nil
		})
		out, err := w.run(t.Context())
		if err != nil || out.Failure == nil || out.Failure.Code != "proofs" || w.job.Step != finishTries {
			t.Errorf("%+v after %d steps, %v", out.Failure, w.job.Step, err)
		}
		if w.job.Verification[0].ExitCode != 1 {
			t.Errorf("verification: %+v", w.job.Verification)
		}
	})
}

// TestProofsThatArePages records pages with their screenshots, and says of
// one that fails what is wrong with it.
func TestProofsThatArePages(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		page := func(id, expect string) glovebox.Block {
			b := finish(id)
			b.Input = json.RawMessage(`{"proofs": ["true", {"page": "http://localhost:1/", "expect": "` + expect + `"}]}`)
			return b
		}
		w := newWorld(glovebox.Limits{}, script(turn(page("f0", "nothing")), turn(page("f1", "a thing"))))
		if out, err := w.run(t.Context()); err != nil || out.Status != glovebox.StatusComplete {
			t.Fatalf("%+v, %v", out, err)
		}
		if got := w.results()["f0"]; !strings.Contains(got, "1 of 2 proofs failed") || !strings.Contains(got, "page http://localhost:1/\nthere is something") {
			t.Errorf("the model was told: %s", got)
		}
		if v := w.job.Verification; len(v) != 2 || v[1].Title != "A page" || string(w.blobs[v[1].Screenshot]) != "a picture" {
			t.Errorf("verification: %+v", v)
		}
		if err := w.laws(); err != nil {
			t.Error(err)
		}
	})
}

func TestFinishWithoutProofs(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		w := newWorld(glovebox.Limits{}, script(turn(finish("f0")), turn(finish("f1", "true"))))
		if out, err := w.run(t.Context()); err != nil || out.Status != glovebox.StatusComplete {
			t.Fatalf("%+v, %v", out, err)
		}
		if got := w.results()["f0"]; !strings.Contains(got, "needs 1 to 20 proofs") {
			t.Errorf("%q", got)
		}
	})
}

func TestWindow(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("some output of a command\n", 600)
	chatty := func(_ context.Context, r *llm.Request, _ func(glovebox.ModelDelta)) (*llm.Response, error) {
		if n := llm.EstimateTokens(r) + r.MaxOutput; n > 60_000 {
			return nil, &llm.Error{Kind: llm.KindInvalid, Msg: fmt.Sprintf("%d tokens", n)}
		}
		if r.Step == 60 {
			return answer(finish("f", "true")), nil
		}
		a := answer(shell(fmt.Sprint("c", r.Step), fmt.Sprintf("echo %d %s", r.Step, big)))
		a.Message.Blocks[0].Input = json.RawMessage(fmt.Sprintf(`{"command":"big %d"}`, r.Step))
		a.Usage.Input = 0
		return a, nil
	}
	loud := tool.Tool{Name: "big", Run: func(_ context.Context, _ *tool.Env, input json.RawMessage) (tool.Result, error) {
		return tool.TextResult(strings.ReplaceAll(big, "\n", string(input)+"\n")), nil // no two are the same
	}}
	bubble(t, func(t *testing.T) {
		w := newWorld(glovebox.Limits{}, func(ctx context.Context, r *llm.Request, d func(glovebox.ModelDelta)) (*llm.Response, error) {
			a, err := chatty(ctx, r, d)
			if err == nil && r.Step < 60 {
				a.Message.Blocks[0].Name = "big"
			}
			return a, err
		})
		w.info.Window, w.extra = 60_000, []tool.Tool{loud}
		out, err := w.run(t.Context())
		if err != nil || out.Status != glovebox.StatusComplete {
			t.Fatalf("%+v %+v, %v", out, out.Failure, err)
		}
		if n := w.count(glovebox.EventFolded); n < 3 || n > 25 {
			t.Errorf("%d folds in 60 steps", n)
		}
		if err := w.laws(); err != nil {
			t.Error(err)
		}
	})
	bubble(t, func(t *testing.T) { // nothing to trim
		w := newWorld(glovebox.Limits{}, func(context.Context, *llm.Request, func(glovebox.ModelDelta)) (*llm.Response, error) {
			a := answer(glovebox.Text(strings.Repeat("words ", 60_000)))
			a.Usage = glovebox.Usage{}
			return a, nil
		})
		w.info.Window = 60_000
		if out, err := w.run(t.Context()); err != nil || out.Failure == nil || out.Failure.Code != "context" {
			t.Errorf("%+v %+v, %v", out, out.Failure, err)
		}
	})
	bubble(t, func(t *testing.T) { // the count was wrong
		refused := 0
		w := newWorld(glovebox.Limits{}, func(_ context.Context, r *llm.Request, _ func(glovebox.ModelDelta)) (*llm.Response, error) {
			switch {
			case r.Step < 20:
				return answer(use(fmt.Sprint("c", r.Step), "big", fmt.Sprintf(`{"n":%d}`, r.Step))), nil
			case refused < 2:
				refused++
				return nil, &llm.Error{Kind: llm.KindContextTooLong, Msg: "too long"}
			}
			return answer(finish("f", "true")), nil
		})
		w.info.Window, w.extra = 1_000_000, []tool.Tool{loud}
		if out, err := w.run(t.Context()); err != nil || out.Status != glovebox.StatusComplete && out.Failure.Code != "context" {
			t.Errorf("%+v %+v, %v", out, out.Failure, err)
		}
		if f := all[glovebox.Folded](w, glovebox.EventFolded); len(f) != 2 || f[1].Reason != glovebox.FoldRefused || f[1].Use.Tokens() >= f[0].Use.Tokens() {
			t.Errorf("folds %+v", f)
		}
	})
}

func TestResultBounds(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		long := strings.Repeat("é line\n", 10_000)
		picture := []byte("\x89PNG...")
		w := newWorld(glovebox.Limits{}, func(_ context.Context, r *llm.Request, _ func(glovebox.ModelDelta)) (*llm.Response, error) {
			switch r.Step {
			case 0:
				return answer(use("l", "long", `{}`), use("e", "nothing", `{}`)), nil
			case 1:
				content := r.Messages[2].Blocks[0].Content
				if string(content[1].Data) != string(picture) || content[1].Blob != "" {
					t.Errorf("the image is not shown: %+v", content[1])
				}
			}
			return answer(finish("f", "true")), nil
		})
		w.extra = []tool.Tool{
			{Name: "long", Run: func(context.Context, *tool.Env, json.RawMessage) (tool.Result, error) {
				r := tool.TextResult(long)
				r.Content = append(r.Content, glovebox.Block{Type: glovebox.BlockImage, MediaType: "image/png", Data: picture})
				return r, nil
			}},
			{Name: "nothing", Run: func(context.Context, *tool.Env, json.RawMessage) (tool.Result, error) { return tool.Result{}, nil }},
		}
		if out, err := w.run(t.Context()); err != nil || out.Status != glovebox.StatusComplete {
			t.Fatalf("%+v, %v", out, err)
		}
		f := all[glovebox.ToolFinished](w, glovebox.EventToolFinished)
		text := f[0].Content[0].Text
		if len(text) > tool.OutputBound || !strings.Contains(text, fmt.Sprintf("handle %q has the whole", f[0].Blob)) || string(w.blobs[f[0].Blob]) != long {
			t.Errorf("%d bytes, blob %q", len(text), f[0].Blob)
		}
		if img := f[0].Content[1]; len(img.Data) > 0 || string(w.blobs[img.Blob]) != string(picture) {
			t.Errorf("image in the log: %+v", img)
		}
		if f[1].Content[0].Text != "(no output)" {
			t.Errorf("%+v", f[1])
		}
	})
}
