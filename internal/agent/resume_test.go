package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
	"github.com/glovebox-dev/glovebox/internal/tool"
)

// codeText returns about n bytes of what a coding agent reads.
func codeText(rng *rand.Rand, n int) string {
	words := strings.Fields("func return if err nil string the package import test error value file line of to in is not found key map slice build run parse write")
	var b strings.Builder
	for b.Len() < n {
		fmt.Fprintf(&b, "%4d\t", rng.IntN(2000))
		for range 9 {
			b.WriteString(" " + words[rng.IntN(len(words))])
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// longWorld returns a job that has seen about so many tokens of new text, as
// an agent that codes does: it was run by the loop, folds and all, until then.
func longWorld(tb testing.TB, tokens int64) *world {
	tb.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	enough := errors.New("enough")
	w := newWorld(glovebox.Limits{Steps: 1_000_000, Tokens: 100_000_000_000}, func(_ context.Context, r *llm.Request, _ func(glovebox.ModelDelta)) (*llm.Response, error) {
		said := codeText(rng, 200)
		in, _ := json.Marshal(map[string]string{"path": fmt.Sprintf("src/module%d/file%d.go", r.Step%40, r.Step%300)})
		tokens -= llm.TokensOf(said) + 300
		a := answer(glovebox.Block{Type: glovebox.BlockReasoning, Text: codeText(rng, 300), Provider: "test", Opaque: json.RawMessage(`{"signature":"` + strings.Repeat("Zm9v", 100) + `"}`)},
			glovebox.Text(said), use(fmt.Sprint("call-", r.Step), "read", string(in)))
		a.Usage = glovebox.Usage{}
		return a, nil
	})
	w.info.Window, w.digests = 200_000, true
	w.extra = []tool.Tool{{Name: "read", Description: "Reads.", Schema: json.RawMessage(`{"type":"object"}`), ReadOnly: true, Run: func(context.Context, *tool.Env, json.RawMessage) (tool.Result, error) {
		out := codeText(rng, rng.IntN(14_000)+200)
		tokens -= llm.TokensOf(out)
		return tool.TextResult(out), nil
	}}}
	w.appendErr = func([]glovebox.Event) error {
		if tokens <= 0 {
			return enough
		}
		return nil
	}
	if out, err := w.run(context.Background()); !errors.Is(err, enough) {
		tb.Fatalf("%+v %+v, %v", out, out.Failure, err)
	}
	w.appendErr = nil
	return w
}

// BenchmarkResume10M is what a worker that takes over a job of 10 million
// tokens needs until it can ask the model, beside reading the log.
func BenchmarkResume10M(b *testing.B) {
	w := longWorld(b, 10_000_000)
	size := 0
	for _, e := range w.events {
		size += len(e.Data)
	}
	o := w.options()
	var took, most time.Duration
	n := 0
	for b.Loop() {
		begin := time.Now()
		r, err := newRun(context.Background(), o)
		if err != nil {
			b.Fatal(err)
		}
		r.memory.Digest(r.memory.Request(1000))
		d := time.Since(begin)
		took, most = took+d, max(most, d)
		n++
	}
	b.ReportMetric(float64(size)/1e6, "MB")
	b.ReportMetric(float64(len(w.events)), "events")
	b.ReportMetric(float64(w.count(glovebox.EventFolded)), "folds")
	b.ReportMetric(took.Seconds()/float64(n), "s/resume")
	b.ReportMetric(most.Seconds(), "s/worst")
}
