package agent

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
)

// anyModel answers every call with something, the same for the same step and seed.
func anyModel(seed uint64) modelFunc {
	return func(ctx context.Context, r *llm.Request, _ func(glovebox.ModelDelta)) (*llm.Response, error) {
		rng := rand.New(rand.NewPCG(seed, uint64(r.Step)))
		select {
		case <-time.After(time.Duration(rng.IntN(60)) * time.Second):
		case <-ctx.Done():
			return nil, &llm.Error{Kind: llm.KindCancelled}
		}
		if rng.IntN(5) == 0 && r.Attempt < 3 {
			kinds := []llm.Kind{llm.KindNetwork, llm.KindRateLimited, llm.KindTruncated, llm.KindContextTooLong}
			return nil, &llm.Error{Kind: kinds[rng.IntN(len(kinds))]}
		}
		var blocks []glovebox.Block
		for i := range rng.IntN(4) {
			id := fmt.Sprintf("c%d-%d", r.Step, i/2*2) // every other one twice
			switch rng.IntN(9) {
			case 0:
				blocks = append(blocks, use(id, "ask_user", `{}`))
			case 1:
				blocks = append(blocks, finish(id, []string{"true", "false"}[rng.IntN(2)]))
			case 2:
				blocks = append(blocks, use(id, "no_such", `{}`))
			case 3:
				blocks = append(blocks, shell(id, "lose"))
			case 4:
				blocks = append(blocks, use(id, "plan", `{"n":1`))
			case 5:
				blocks = append(blocks, shell(id, "same"))
			case 6:
				blocks = append(blocks, shell(id, "hang"))
			default:
				blocks = append(blocks, shell(id, fmt.Sprint("echo ", r.Step, i, strings.Repeat(" and some more words", rng.IntN(150)))))
			}
		}
		a := answer(append(blocks, glovebox.Text("..."))...)
		a.Usage = glovebox.Usage{CacheRead: llm.EstimateTokens(r), Output: 10}
		a.StopReason = []llm.StopReason{llm.StopEnd, llm.StopToolUse, llm.StopMaxOutput}[rng.IntN(3)]
		return a, nil
	}
}

// TestAnyJob runs jobs of all kinds, with messages, cancels and lost
// sandboxes at any time, through any number of workers that die at any write.
func TestAnyJob(t *testing.T) {
	t.Parallel()
	check(t, func(t *rapid.T) {
		w := newWorld(glovebox.Limits{Steps: 15, WallTimeSeconds: 1800}, anyModel(rapid.Uint64().Draw(t, "seed")))
		w.info.FoldHigh = rapid.SampledFrom([]int64{0, 8000, 11_000}).Draw(t, "high")
		for life := 0; ; life++ {
			if life > 0 {
				w = w.resumed(w.events)
			}
			deaths := rapid.IntRange(1, 60).Draw(t, "writes")
			if life > 20 {
				deaths = 1 << 30
			}
			dead := errors.New("killed")
			w.appendErr = func([]glovebox.Event) error {
				if deaths--; deaths <= 0 {
					return dead
				}
				return nil
			}
			rebuilds := 0
			w.onGuest = func() []glovebox.Event {
				if rebuilds++; rebuilds%5 != 0 {
					return nil
				}
				return []glovebox.Event{event(glovebox.EventSandboxLost, glovebox.SandboxLost{}), event(glovebox.EventSandboxReady, glovebox.SandboxReady{How: "rebuilt"})}
			}
			begun := map[string]bool{}
			for _, s := range w.pendingStarts() {
				begun[s] = true
			}
			over := make(chan struct{})
			quiet := make(chan struct{})
			pause := time.Duration(rapid.IntRange(1, 900).Draw(t, "pause")) * time.Second
			cancels := rapid.IntRange(0, 9).Draw(t, "cancels") == 0
			go func() {
				defer close(quiet)
				for {
					select {
					case <-over:
						return
					case <-time.After(pause):
						w.send(glovebox.Signal{Text: "hello"})
						if cancels {
							w.send(glovebox.Signal{Cancel: true})
						}
					}
				}
			}()
			out, err := w.run(context.Background())
			close(over)
			<-quiet
			for id := range w.ran {
				if begun[id] {
					t.Fatalf("%s was run again", id)
				}
			}
			if err == nil {
				if !w.job.Status.Terminal() || out.Status != w.job.Status {
					t.Fatalf("ended as %+v", w.job)
				}
				if err := w.laws(); err != nil { // of all lives: the log only grows
					t.Fatal(err)
				}
				return
			}
			if !errors.Is(err, dead) {
				t.Fatal(err)
			}
		}
	})
}

// pendingStarts returns the calls of the newest answer that began.
func (w *world) pendingStarts() []string {
	var ids []string
	for _, e := range w.events {
		switch e.Type {
		case glovebox.EventModelAnswered:
			ids = nil
		case glovebox.EventToolStarted:
			s, _ := glovebox.Decode[glovebox.ToolStarted](e)
			ids = append(ids, s.CallID)
		}
	}
	return ids
}
