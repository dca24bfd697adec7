package agent

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
)

// BenchmarkStep measures what the loop itself costs: a call of the model, a
// tool, their four events, in a job of 200 steps of 2 KiB each.
func BenchmarkStep(b *testing.B) {
	const steps = 200
	for b.Loop() {
		w := newWorld(glovebox.Limits{Steps: steps}, func(_ context.Context, r *llm.Request, _ func(glovebox.ModelDelta)) (*llm.Response, error) {
			return answer(shell(fmt.Sprint("c", r.Step), strings.Repeat("line of output\n", 140)+fmt.Sprint(r.Step))), nil
		})
		if out, err := w.run(context.Background()); err != nil || w.job.Step != steps {
			b.Fatal(out, err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*steps), "us/step")
}
