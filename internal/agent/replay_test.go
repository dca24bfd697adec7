package agent

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm/replay"
)

const recording = `
turn
call plan
  steps := [1]
call shell
  command = npm install

turn
expect ok
call shell
  command = npm test
call shell
  command = npm run build

turn
expect 1 contains npm test
expect 2 contains npm run build
text That looks good.

turn
call finish
  proofs := ["true"]
`

// TestRecordedJobOutlivesAnyCrash: a replayed job completes, wherever it was
// cut, and wherever its worker was shot in the middle of a tool.
func TestRecordedJobOutlivesAnyCrash(t *testing.T) {
	t.Parallel()
	script, err := replay.Parse("r.replay", []byte(recording))
	if err != nil {
		t.Fatal(err)
	}
	model := replay.New(script, replay.Options{}).Stream
	var first *world
	bubble(t, func(t *testing.T) {
		first = newWorld(glovebox.Limits{}, model)
		if out, err := first.run(t.Context()); err != nil || out.Status != glovebox.StatusComplete {
			t.Fatalf("%+v %+v, %v", out, out.Failure, err)
		}
	})
	for n := 3; n < len(first.events); n++ {
		bubble(t, func(t *testing.T) {
			w := first.resumed(first.events[:n])
			if out, err := w.run(t.Context()); err != nil || out.Status != glovebox.StatusComplete {
				t.Fatalf("cut after event %d (%s): %+v %+v, %v", n, first.events[n-1].Type, out, out.Failure, err)
			}
			if err := w.laws(); err != nil {
				t.Error(err)
			}
		})
	}
	bubble(t, func(t *testing.T) { // and again and again
		w := first
		for n := 4; n < 30; n += 3 {
			next := w.resumed(w.events[:min(n, len(w.events)-1)])
			ctx, cancel := context.WithCancel(t.Context())
			writes := 0
			next.appendErr = func([]glovebox.Event) error {
				if writes++; writes > 3 {
					cancel()
					return ctx.Err()
				}
				return nil
			}
			wait := start(ctx, next)
			synctest.Wait()
			wait()
			cancel()
			w = next
		}
		last := w.resumed(w.events)
		if out, err := last.run(t.Context()); err != nil || out.Status != glovebox.StatusComplete {
			t.Fatalf("%+v %+v, %v", out, out.Failure, err)
		}
	})
}
