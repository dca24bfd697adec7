package agent

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
)

var priced = llm.Info{Provider: "test", Name: "m", Window: 200_000, MaxOutput: 8000, Priced: true,
	InputPrice: 3_000_000, OutputPrice: 15_000_000, CacheReadPrice: 300_000, CacheWritePrice: 3_750_000}

func TestAfford(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	const input = 10_000
	job := func(l glovebox.Limits, u glovebox.Usage, step int64) *glovebox.Job {
		return &glovebox.Job{Limits: l, Usage: u, Step: step, Phase: glovebox.PhaseWorking, PhaseSince: now.Add(-time.Minute)}
	}
	// The worst case of a whole call: 10,000 tokens at the price of writing
	// the cache and 8,000 of output.
	const whole = 10_000*375/100 + 8000*15
	dear, almost := priced, priced // twice the input and one and a half times the output
	dear.LongFrom, dear.LongInput, dear.LongOutput = input-1, 200, 150
	almost.LongFrom, almost.LongInput, almost.LongOutput = input, 200, 150
	for _, test := range []struct {
		name   string
		job    *glovebox.Job
		info   llm.Info
		output int64
		limit  string
	}{
		{"no limit", job(glovebox.Limits{}, glovebox.Usage{}, 7), priced, 8000, ""},
		{"the last step", job(glovebox.Limits{Steps: 8}, glovebox.Usage{}, 7), priced, 8000, ""},
		{"no step left", job(glovebox.Limits{Steps: 7}, glovebox.Usage{}, 7), priced, 0, "steps"},
		{"tokens just enough", job(glovebox.Limits{Tokens: 20_000}, glovebox.Usage{Input: 1500, Output: 500}, 0), priced, 8000, ""},
		{"tokens for a shorter answer", job(glovebox.Limits{Tokens: 20_000}, glovebox.Usage{CacheRead: 4000}, 0), priced, 6000, ""},
		{"tokens for the least answer", job(glovebox.Limits{Tokens: 20_000}, glovebox.Usage{Input: 20_000 - input - leastOutput}, 0), priced, leastOutput, ""},
		{"one token too few", job(glovebox.Limits{Tokens: 20_000}, glovebox.Usage{Input: 20_001 - input - leastOutput}, 0), priced, 0, "tokens"},
		{"money just enough", job(glovebox.Limits{CostMicros: whole}, glovebox.Usage{}, 0), priced, 8000, ""},
		{"money for a shorter answer", job(glovebox.Limits{CostMicros: whole}, glovebox.Usage{CostMicros: 15_000}, 0), priced, 7000, ""},
		{"a long request costs more", job(glovebox.Limits{CostMicros: whole}, glovebox.Usage{}, 0), dear, (whole - 75_000) * 2 / 45, ""},
		{"a request that is just not long", job(glovebox.Limits{CostMicros: whole}, glovebox.Usage{}, 0), almost, 8000, ""},
		{"no money for a long request", job(glovebox.Limits{CostMicros: 75_000 + 1024*22}, glovebox.Usage{}, 0), dear, 0, "cost_micros"},
		{"no money", job(glovebox.Limits{CostMicros: whole}, glovebox.Usage{CostMicros: whole - 1000}, 0), priced, 0, "cost_micros"},
		{"a limit of money, no price", job(glovebox.Limits{CostMicros: whole}, glovebox.Usage{}, 0), llm.Info{MaxOutput: 8000}, 0, "cost_micros"},
		{"output is free", job(glovebox.Limits{CostMicros: whole}, glovebox.Usage{}, 0), llm.Info{MaxOutput: 8000, Priced: true}, 8000, ""},
		{"wall time left", job(glovebox.Limits{WallTimeSeconds: 61}, glovebox.Usage{}, 0), priced, 8000, ""},
		{"wall time over", job(glovebox.Limits{WallTimeSeconds: 60}, glovebox.Usage{}, 0), priced, 0, "wall_time_seconds"},
		{"steps come first", job(glovebox.Limits{Steps: 1, Tokens: 1000, WallTimeSeconds: 1}, glovebox.Usage{}, 1), priced, 0, "steps"},
		{"a model that writes little", job(glovebox.Limits{Tokens: 10_200}, glovebox.Usage{}, 0), llm.Info{MaxOutput: 200}, 200, ""},
		{"a model of unknown bounds", job(glovebox.Limits{}, glovebox.Usage{}, 0), llm.Info{}, wantedOutput, ""},
	} {
		p, f := afford(test.job, test.info, input, now)
		if test.limit != "" {
			if f == nil || f.Limit != test.limit || f.Code != "limit" || f.Hint == "" || f.Message == "" {
				t.Errorf("%s: %+v", test.name, f)
			}
			continue
		}
		if f != nil || p.maxOutput != test.output || p.tokens != input+test.output {
			t.Errorf("%s: %+v, %+v", test.name, p, f)
		}
	}
}

// TestBudgets: whatever a model uses of what it may use, and however its calls
// fail, no limit is exceeded, and the end says which one was reached.
func TestBudgets(t *testing.T) {
	t.Parallel()
	check(t, func(t *rapid.T) {
		limits := glovebox.Limits{
			Steps:           rapid.Int64Range(1, 30).Draw(t, "steps"),
			Tokens:          rapid.Int64Range(1000, 300_000).Draw(t, "tokens"),
			WallTimeSeconds: rapid.Int64Range(1, 3600).Draw(t, "wall"),
			CostMicros:      rapid.Int64Range(0, 2_000_000).Draw(t, "micros"),
		}
		w := newWorld(limits, nil)
		w.info = priced
		w.info.LongFrom = rapid.Int64Range(0, 4000).Draw(t, "long from")
		w.info.LongInput, w.info.LongOutput = 200, 150
		w.jitter = rapid.Float64Range(0, 0.999).Draw(t, "jitter")
		w.model = spender(w, rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)), rapid.IntRange(1, 5).Draw(t, "fails"))
		out, err := w.run(context.Background())
		if err != nil || out.Failure == nil || out.Failure.Code != "limit" && out.Failure.Code != "model" {
			t.Fatalf("%+v %+v, %v", out, out.Failure, err)
		}
		if err := w.laws(); err != nil {
			t.Fatal(err)
		}
		j, l := w.job, w.job.Limits
		if j.Step > l.Steps || j.Usage.Tokens() > l.Tokens || l.CostMicros > 0 && j.Usage.CostMicros > l.CostMicros {
			t.Fatalf("exceeded: step %d, usage %+v, limits %+v", j.Step, j.Usage, l)
		}
		if worked := j.WorkedFor(time.Now()); worked > time.Duration(l.WallTimeSeconds)*time.Second {
			t.Fatalf("worked for %s of %d s", worked, l.WallTimeSeconds)
		}
	})
}

// spender is a model that uses any part of what each call may use, takes its
// time, and fails once in so many calls.
func spender(w *world, rng *rand.Rand, fails int) modelFunc {
	calls := 0
	return func(ctx context.Context, r *llm.Request, _ func(glovebox.ModelDelta)) (*llm.Response, error) {
		q := all[glovebox.ModelRequested](w, glovebox.EventModelRequested)
		worst := q[len(q)-1]
		in := rng.Int64N(worst.MaxTokens - worst.MaxOutput + 1)
		u := glovebox.Usage{Output: rng.Int64N(r.MaxOutput + 1)}
		switch rng.IntN(4) {
		case 0:
			u.Input = in
		case 1:
			u.CacheRead, u.Input = in/2, in-in/2
		case 2:
			u.CacheWrite, u.Output = worst.MaxTokens-worst.MaxOutput, r.MaxOutput
		default:
			u.CacheWrite = in
		}
		u.CostMicros = w.info.Cost(u)
		select {
		case <-time.After(time.Duration(rng.IntN(600)*rng.IntN(2)) * time.Second):
		case <-ctx.Done():
			return nil, &llm.Error{Kind: llm.KindCancelled}
		}
		if rng.IntN(fails) == 0 {
			return nil, &llm.Error{Kind: llm.KindTruncated, Usage: u}
		}
		calls++
		a := answer(shell(fmt.Sprint("c", calls), fmt.Sprint("echo ", calls)))
		a.Usage = u
		return a, nil
	}
}

func TestWallTimeStopsTool(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		w := newWorld(glovebox.Limits{WallTimeSeconds: 90}, script(turn(shell("a", "hang")), turn(finish("f", "true"))))
		begin := time.Now()
		out, err := w.run(t.Context())
		if err != nil || out.Failure == nil || out.Failure.Limit != "wall_time_seconds" || time.Since(begin) != 90*time.Second {
			t.Fatalf("%+v after %s, %v", out.Failure, time.Since(begin), err)
		}
		if got := w.results()["a"]; !strings.Contains(got, "wall time") {
			t.Errorf("%q", got)
		}
		// The limit is raised: the job goes on from there.
		more := w.job.Limits
		more.WallTimeSeconds = 900
		w.record(event(glovebox.EventLimitsRaised, glovebox.LimitsRaised{Limits: more}), event(glovebox.EventResumed, glovebox.Resumed{Reason: "raised"}))
		again := w.resumed(w.events)
		if out, err := again.run(t.Context()); err != nil || out.Status != glovebox.StatusComplete {
			t.Errorf("%+v, %v", out, err)
		}
		if err := again.laws(); err != nil {
			t.Error(err)
		}
	})
}

// TestRaiseWhileRunning: a limit of wall time that is raised during a call
// counts at once.
func TestRaiseWhileRunning(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		w := newWorld(glovebox.Limits{WallTimeSeconds: 60}, hangs)
		wait := start(t.Context(), w)
		synctest.Wait()
		more := w.job.Limits
		more.WallTimeSeconds = 120
		w.send(glovebox.Signal{Limits: &more})
		begin := time.Now()
		if out, err := wait(); err != nil || out.Failure == nil || time.Since(begin) != 120*time.Second {
			t.Errorf("%+v after %s, %v", out, time.Since(begin), err)
		}
		if n := w.count(glovebox.EventModelRequested); n != 1 {
			t.Errorf("the call was made %d times", n)
		}
	})
}

// TestDeadTimeIsFree: a server that was down overnight goes on.
func TestDeadTimeIsFree(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		w := newWorld(glovebox.Limits{}, script(turn(shell("a", "hang")), turn(finish("f", "true"))))
		ctx, cancel := context.WithCancel(t.Context())
		wait := start(ctx, w)
		synctest.Wait()
		cancel()
		wait()
		time.Sleep(24 * time.Hour) //nolint:forbidigo // of the bubble
		again := w.resumed(w.events)
		if out, err := again.run(t.Context()); err != nil || out.Status != glovebox.StatusComplete {
			t.Errorf("%+v %+v, %v", out, out.Failure, err)
		}
		if got := again.results()["a"]; !strings.Contains(got, "Outcome unknown") {
			t.Errorf("%q", got)
		}
	})
}
