package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
	"github.com/glovebox-dev/glovebox/internal/tool"
)

// reader is a model that reads text after text, until it finishes, and
// summarizes when it is asked to.
type reader struct{ steps int64 }

var spanLine = regexp.MustCompile(`(?m)^span (\d+), events`)

func (m reader) Stream(_ context.Context, r *llm.Request, _ func(glovebox.ModelDelta)) (*llm.Response, error) {
	last := r.Messages[len(r.Messages)-1].Blocks
	if text := last[len(last)-1].Text; strings.Contains(text, `{"summaries": `) {
		var list []string
		for _, s := range spanLine.FindAllStringSubmatch(text, -1) {
			list = append(list, `{"span": `+s[1]+`, "done": ["looked through chapter after chapter"]}`)
		}
		return &llm.Response{StopReason: llm.StopEnd, Usage: glovebox.Usage{Input: 50, Output: 20},
			Message: glovebox.Message{Role: glovebox.RoleAssistant, Blocks: []glovebox.Block{glovebox.Text(`{"summaries": [` + strings.Join(list, ",") + `]}`)}}}, nil
	}
	b := glovebox.Block{Type: glovebox.BlockToolUse, CallID: fmt.Sprint("c", r.Step), Name: "read", Input: json.RawMessage(fmt.Sprintf(`{"n":%d}`, r.Step))}
	if r.Step >= m.steps {
		b = finish("test -d .")[0]
	}
	return &llm.Response{StopReason: llm.StopToolUse, Usage: glovebox.Usage{CacheRead: llm.EstimateTokens(r), Output: 20},
		Message: glovebox.Message{Role: glovebox.RoleAssistant, Blocks: []glovebox.Block{b}}}, nil
}

func readTool() tool.Tool {
	return tool.Tool{Name: "read", Description: "Reads.", Schema: json.RawMessage(`{"type":"object"}`), ReadOnly: true,
		Run: func(_ context.Context, _ *tool.Env, in json.RawMessage) (tool.Result, error) {
			return tool.TextResult(string(in) + strings.Repeat(" the next chapter, looked at line after line,", 100)), nil
		}}
}

func finishTool(t *testing.T) tool.Tool {
	t.Helper()
	tools := tool.All()
	return tools[slices.IndexFunc(tools, func(t tool.Tool) bool { return t.Name == "finish" })]
}

// TestCrashSweepFold kills the worker at every append that has to do with
// folding, before its commit and after, and has another one finish the job:
// the epoch is the old or the new one, and nothing is paid for twice.
func TestCrashSweepFold(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		for n := 1; ; n++ {
			died := true
			ok := t.Run(fmt.Sprintf("append %d, after commit %v", n, after), func(t *testing.T) { died = crashFoldAt(t, n, after) })
			if !ok || !died {
				break
			}
			if n == 100 {
				t.Fatal("the job has no end")
			}
		}
	}
}

// crashFoldAt reports whether there were n appends to die at.
func crashFoldAt(t *testing.T, n int, after bool) bool {
	t.Helper()
	w := newWorld(t)
	w.model = reader{steps: 30}
	m := &mortal{Store: w.store, Driver: w.driver, after: after, left: n, dead: make(chan struct{}), counts: func(events []glovebox.Event) bool {
		return slices.ContainsFunc(events, func(e glovebox.Event) bool { return strings.HasPrefix(string(e.Type), "memory.") })
	}}
	o := w.options()
	o.Tools = []tool.Tool{readTool(), finishTool(t)}
	o.Models = func(context.Context, string) (llm.Model, llm.Info, error) {
		return w.model, llm.Info{Provider: "test", Window: 36_000, MaxOutput: 4000}, nil
	}
	again := o
	o.Store, o.Driver = m, m
	first := w.start(o)
	id := w.submit()
	died := w.awaitDeath(id, m)
	now, cancel := context.WithCancel(t.Context())
	cancel()
	if err := first.Stop(now); err != nil {
		t.Fatal(err)
	}
	w.clock.Add(time.Minute) // the lease runs out
	again.Name = "w2"
	second := w.start(again)
	j := w.awaitEnd(id)
	w.checkLaws(id, j)
	w.checkFolds(id)
	w.awaitNoSandbox(second)
	return died
}

// checkFolds checks what holds of folds, whoever made them.
func (w *world) checkFolds(id string) {
	w.Helper()
	epoch, through := int64(1), int64(0)
	had := map[glovebox.Span]bool{}
	asked := map[glovebox.Span]int{}
	open := false
	for _, e := range w.events(id) {
		switch e.Type {
		case glovebox.EventSummaries:
			q, _ := glovebox.Decode[glovebox.SummariesRequested](e)
			for _, s := range q.Spans {
				if asked[s]++; asked[s] > 2 || had[s] || open {
					w.Errorf("event %d: %+v is asked for %d times, had %v", e.Seq, s, asked[s], had[s])
				}
			}
			open = true
		case glovebox.EventSummarized:
			s, _ := glovebox.Decode[glovebox.Summarized](e)
			open = open && !s.Asked
			for _, x := range s.Summaries {
				if had[x.Span] {
					w.Errorf("event %d: %+v is summarized twice", e.Seq, x.Span)
				}
				had[x.Span] = true
			}
		case glovebox.EventFolded:
			f, _ := glovebox.Decode[glovebox.Folded](e)
			if f.Epoch != epoch+1 || f.Through <= through {
				w.Errorf("event %d: %+v after epoch %d through %d", e.Seq, f, epoch, through)
			}
			epoch, through = f.Epoch, f.Through
		}
	}
	if epoch == 1 || open {
		w.Errorf("%d epochs; a call for summaries without an end: %v", epoch, open)
	}
}
