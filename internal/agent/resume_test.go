package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
)

// longLog returns the log of a job whose model has read and written about so
// many tokens of new text, as an agent that codes has it: results of some
// kilobytes, a few of them alike, and short answers.
func longLog(tokens int64) (events []glovebox.Event, job *glovebox.Job) {
	rng := rand.New(rand.NewPCG(1, 2))
	w := newWorld(glovebox.Limits{Steps: 1_000_000, Tokens: 100_000_000_000}, nil)
	words := strings.Fields("func return if err nil string the package import test error value file line of to in is not found key map slice build run")
	text := func(n int) string {
		var b strings.Builder
		for b.Len() < n {
			fmt.Fprintf(&b, "%4d\t%s", rng.IntN(2000), "")
			for range 9 {
				b.WriteString(" " + words[rng.IntN(len(words))])
			}
			b.WriteByte(10)
		}
		return b.String()
	}
	for step := int64(1); tokens > 0; step++ {
		id := fmt.Sprint("call-", step)
		said, out := text(200), text(rng.IntN(14_000)+200)
		in, _ := json.Marshal(map[string]string{"path": fmt.Sprintf("src/module%d/file%d.go", step%40, step%300)})
		w.record(
			event(glovebox.EventModelRequested, glovebox.ModelRequested{Step: step, Attempt: 1, Model: "test:m", RequestSHA: strings.Repeat("a", 64), MaxTokens: 50_000, MaxOutput: 8000}),
			event(glovebox.EventModelAnswered, glovebox.ModelAnswered{Message: glovebox.Message{Role: glovebox.RoleAssistant, Blocks: []glovebox.Block{
				{Type: glovebox.BlockReasoning, Text: text(300), Provider: "test", Opaque: json.RawMessage(`{"signature":"` + strings.Repeat("Zm9v", 100) + `"}`)}, glovebox.Text(said), use(id, "read_file", string(in))}},
				StopReason: "tool_use", Usage: glovebox.Usage{Input: 100, Output: 200, Calls: 1}}),
			event(glovebox.EventToolStarted, glovebox.ToolStarted{CallID: id, Name: "read_file", Input: in}),
			event(glovebox.EventToolFinished, glovebox.ToolFinished{CallID: id, Name: "read_file", Content: []glovebox.Block{glovebox.Text(out)}, DurationMS: 12}),
		)
		tokens -= llm.TokensOf(said) + llm.TokensOf(out) + llm.TokensOf(string(in)) + 400
	}
	return w.events, w.job
}

// BenchmarkResume10M is what a worker that takes over a job of 10 million
// tokens needs until it can ask the model, beside reading the log.
func BenchmarkResume10M(b *testing.B) {
	events, job := longLog(10_000_000)
	size := 0
	for _, e := range events {
		size += len(e.Data)
	}
	w := newWorld(glovebox.Limits{}, nil)
	o := w.options()
	o.Job = job
	o.Events = func(_ context.Context, after int64, limit int) ([]glovebox.Event, error) {
		rest := events[after:]
		return append([]glovebox.Event(nil), rest[:min(limit, len(rest))]...), nil
	}
	b.ResetTimer()
	var took time.Duration
	for b.Loop() {
		begin := time.Now()
		r, err := newRun(context.Background(), o)
		if err != nil {
			b.Fatal(err)
		}
		r.memory.Digest(r.memory.Request(1000))
		took += time.Since(begin)
	}
	b.ReportMetric(float64(size)/1e6, "MB")
	b.ReportMetric(float64(len(events)), "events")
	b.ReportMetric(took.Seconds()/float64(b.N), "s/resume")
}
