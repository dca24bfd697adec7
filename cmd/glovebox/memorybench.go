//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/agent"
	"github.com/glovebox-dev/glovebox/internal/guest"
	"github.com/glovebox-dev/glovebox/internal/llm"
	"github.com/glovebox-dev/glovebox/internal/llm/resolve"
	"github.com/glovebox-dev/glovebox/internal/memory/membench"
	"github.com/glovebox-dev/glovebox/internal/store"
	"github.com/glovebox-dev/glovebox/internal/store/sqlite"
	"github.com/glovebox-dev/glovebox/internal/tool"
)

// benchCmd measures.
type benchCmd struct {
	Memory benchMemoryCmd `cmd:"" help:"Measure what jobs remember, how well it is found again and what it costs, beside peers. Needs no model."`
}

type benchMemoryCmd struct {
	Data         string   `placeholder:"DIR" help:"Directory of the data, which does not come with Glovebox; rows whose data is missing are left out, and say what it is (default: $$GLOVEBOX_BENCH_DATA)."`
	Tokens       []string `placeholder:"N,..." default:"1M,10M" help:"Lengths of histories, e.g. 1M,10M,100M."`
	Rows         []string `placeholder:"ROW,..." help:"What to measure: locomo, facts, standing, cache, cost, request, recall, resume (default: all)."`
	SummaryRatio int64    `placeholder:"N" default:"20" help:"How many times shorter than its source a model's summary is taken to be, of all that write any."`
	Model        string   `placeholder:"PROVIDER:NAME" default:"anthropic:claude-sonnet-4-5" help:"Whose window the engine reckons with."`
	Temp         string   `placeholder:"DIR" help:"Where indexes are written meanwhile (default: the system's)."`
	Missed       bool     `help:"Name the facts that were not found."`
	JSON         bool     `name:"json" help:"As JSON."`
}

// Run runs the benchmark.
func (c *benchMemoryCmd) Run(a *app) error {
	o := membench.Options{Data: c.Data, Groups: c.Rows, Temp: c.Temp, SummaryRatio: c.SummaryRatio, Cut: cutOutput, Resume: resume(c.Temp)}
	if o.Data == "" {
		o.Data = a.getenv("GLOVEBOX_BENCH_DATA")
	}
	if c.SummaryRatio < 2 || c.SummaryRatio > 200 {
		return glovebox.Invalid("--summary-ratio", "give 2 to 200", "%d is out of range", c.SummaryRatio)
	}
	for _, s := range c.Tokens {
		n, err := historyLength(s)
		if err != nil {
			return err
		}
		o.Tokens = append(o.Tokens, n)
	}
	slices.Sort(o.Tokens)
	provider, name, err := resolve.Split(c.Model)
	if err != nil {
		return err
	}
	o.Info = llm.Lookup(provider, name)
	o.Memory = tool.Memory(tool.All(), nil, o.Info)
	o.Progress = func(what string) { fmt.Fprintf(a.stderr, "%s %s\n", time.Now().Format("15:04:05"), what) }
	if c.Missed {
		o.Missed = func(what string) { fmt.Fprintln(a.stderr, "not found:", what) }
	}
	ctx, cancel := interruptible()
	defer cancel()
	report, err := membench.Run(ctx, o)
	if err != nil {
		return err
	}
	if c.JSON {
		return report.WriteJSON(a.stdout)
	}
	return report.Write(a.stdout)
}

// cutOutput cuts the output of a tool as the loop does.
func cutOutput(text, handle string) string { return tool.Cut(text, tool.OutputBound, handle) }

// historyLength reads a number of tokens such as 500k or 10M.
func historyLength(s string) (int64, error) {
	bad := glovebox.Invalid("--tokens", "write 500k, 1M or 100M; at least 100k and at most 1000M", "%.40q is no length", s)
	unit := int64(1)
	digits := s
	for suffix, n := range map[string]int64{"k": 1000, "M": 1_000_000} {
		if rest, ok := strings.CutSuffix(s, suffix); ok {
			digits, unit = rest, n
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 1 || n > 1_000_000_000/unit || n*unit < 100_000 {
		return 0, bad
	}
	return n * unit, nil
}

// resumeMost is the longest log that is written to a store for the sake of
// the benchmark, in tokens.
const resumeMost = 10_000_000

// resume returns what measures how long it takes from the death of a worker
// to the job's next request: a claim, the log read from a store on disk, and
// the loop up to its call of the model.
func resume(temp string) func(context.Context, int64, func(func(glovebox.Event) error) error) ([]membench.Row, error) {
	return func(ctx context.Context, tokens int64, write func(func(glovebox.Event) error) error) ([]membench.Row, error) {
		if tokens > resumeMost {
			return nil, nil
		}
		dir, err := os.MkdirTemp(temp, "glovebox-resume-")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
		j := &crashed{path: filepath.Join(dir, "store.db")}
		if err := j.record(ctx, write); err != nil {
			return nil, err
		}
		var best, worst, sum time.Duration
		const runs = 5
		for i := range runs {
			took, err := j.resume(ctx)
			if err != nil {
				return nil, err
			}
			if i == 0 || took < best {
				best = took
			}
			worst, sum = max(worst, took), sum+took
		}
		ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
		size, err := os.Stat(j.path)
		if err != nil {
			return nil, err
		}
		return []membench.Row{{Group: "resume", Name: fmt.Sprintf("%.4gM tokens, from a claim in a SQLite store to the next request", float64(tokens)/1e6), Goal: "<= 1 s at 10M",
			Figures: []membench.Figure{{Name: "mean", Value: ms(sum / runs), Unit: "ms"}, {Name: "best", Value: ms(best), Unit: "ms"}, {Name: "worst", Value: ms(worst), Unit: "ms"},
				{Name: "events", Value: float64(j.events), Unit: "count"}, {Name: "store", Value: float64(size.Size()) / (1 << 20), Unit: "MiB"}}}}, nil
	}
}

// crashed is a job in a store whose worker is dead.
type crashed struct {
	path   string
	model  string
	id     string
	events int64
}

// benchLease is how long the leases of simulated workers are.
const benchLease = time.Hour

// record writes the log of a job into a new store, as a worker would.
func (j *crashed) record(ctx context.Context, write func(func(glovebox.Event) error) error) error {
	s, err := sqlite.Open(j.path, sqlite.Options{})
	if err != nil {
		return err
	}
	defer s.Close()
	var lease *store.Lease
	var batch []glovebox.Event
	var size int
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		_, err := s.Append(ctx, *lease, batch)
		j.events += int64(len(batch))
		batch, size = batch[:0], 0
		return err
	}
	err = write(func(e glovebox.Event) error {
		switch e.Type {
		case glovebox.EventCreated:
			c, err := glovebox.Decode[glovebox.Created](e)
			if err != nil {
				return err
			}
			c.ID, c.Tenant = glovebox.NewID(), "bench"
			c.Limits = glovebox.Limits{Steps: 1_000_000, Tokens: 100_000_000_000, WallTimeSeconds: 7 * 24 * 3600}
			j.id, j.model, j.events = c.ID, c.Model, 2
			if _, _, err := s.CreateJob(ctx, c, store.IdempotencyKey{}); err != nil {
				return err
			}
			lease, err = s.Claim(ctx, "first", benchLease)
			return err
		case glovebox.EventClaimed:
			return nil // the store recorded it
		}
		batch = append(batch, e)
		if size += len(e.Data); len(batch) >= 200 || size > 2<<20 {
			return flush()
		}
		return nil
	})
	return errors.Join(err, flush())
}

// errAsked ends a resumed job at its first call of the model.
var errAsked = errors.New("the model was asked")

// resume takes the job over in a store that is opened anew, and returns how
// long it took to the first call of the model.
func (j *crashed) resume(ctx context.Context) (time.Duration, error) {
	s, err := sqlite.Open(j.path, sqlite.Options{})
	if err != nil {
		return 0, err
	}
	defer s.Close()
	for _, worker := range []string{"first", "next"} {
		if err := s.ExpireLeases(ctx, worker); err != nil {
			return 0, err
		}
	}
	start := time.Now()
	lease, err := s.Claim(ctx, "next", benchLease)
	if err != nil {
		return 0, err
	}
	if lease == nil {
		return 0, glovebox.Errorf(glovebox.CodeInternal, "the job can't be claimed")
	}
	job, err := s.Job(ctx, "", j.id)
	if err != nil {
		return 0, err
	}
	var took time.Duration
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	provider, name, _ := strings.Cut(j.model, ":")
	host := &benchHost{store: s, lease: *lease}
	outcome, err := agent.Run(ctx, agent.Options{
		Host: host, Job: job, Tools: tool.All(), Info: llm.Lookup(provider, name),
		Events: func(ctx context.Context, after int64, limit int) ([]glovebox.Event, error) {
			return s.Events(ctx, j.id, after, limit)
		},
		Model: askedModel(func() {
			took = time.Since(start)
			cancel(errAsked)
		}),
	})
	if took == 0 {
		return 0, glovebox.Errorf(glovebox.CodeInternal, "the model was not asked: %w, %+v", err, outcome.Failure)
	}
	return took, nil
}

// askedModel is a model that is told that it was asked, and never answers.
type askedModel func()

// Stream implements [llm.Model].
func (m askedModel) Stream(ctx context.Context, _ *llm.Request, _ func(glovebox.ModelDelta)) (*llm.Response, error) {
	m()
	<-ctx.Done()
	return nil, &llm.Error{Kind: llm.KindCancelled, Err: ctx.Err()}
}

// benchHost is a worker without a sandbox.
type benchHost struct {
	store *sqlite.Store
	lease store.Lease
}

// Append implements [agent.Host].
func (h *benchHost) Append(ctx context.Context, events []glovebox.Event, consume ...int64) (*glovebox.Job, error) {
	return h.store.Append(ctx, h.lease, events, consume...)
}

// Signals implements [agent.Host].
func (h *benchHost) Signals(context.Context) ([]glovebox.Signal, error) { return nil, nil }

// Guest implements [agent.Host].
func (h *benchHost) Guest(context.Context) (*guest.Client, error) {
	return nil, glovebox.Errorf(glovebox.CodeUnavailable, "the benchmark has no sandbox")
}

// Checkpoint implements [agent.Host].
func (h *benchHost) Checkpoint(context.Context) error { return nil }

// Save implements [agent.Host].
func (h *benchHost) Save(context.Context, []byte) (string, error) { return "bench", nil }
