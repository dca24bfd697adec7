package membench

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
	"github.com/glovebox-dev/glovebox/internal/memory"
)

// Groups are the parts of the benchmark, in the order in which they run.
var Groups = []string{"locomo", "facts", "standing", "cache", "cost", "request", "recall", "resume"}

var titles = map[string]string{
	"locomo":   "**LoCoMo**, categories 1 to 4: share of the evidence that a search shows",
	"facts":    "**Planted facts**",
	"standing": "**Standing instructions**",
	"cache":    "**The provider's cache**, simulated",
	"cost":     "**Cost** of a replay, in tokens of uncached input (read 0.1, write 1.25, output 5; recalls and summaries included)",
	"request":  "**Building the request**",
	"recall":   "**Searching**",
	"resume":   "**Resuming** after a crash",
}

// MaxCompared is the longest history that costs are compared on, in tokens:
// the request of the peer that keeps everything grows with it.
const MaxCompared = 10_000_000

// Options say what to measure.
type Options struct {
	Data   string   // directory of the data; see DataHint
	Tokens []int64  // lengths of histories, ascending
	Groups []string // of [Groups]; empty for all
	Temp   string   // directory for indexes; empty for the system's

	Memory       memory.Options                   // as the product has them
	Info         llm.Info                         // of the simulated model
	SummaryRatio int64                            // a model is taken to write summaries of 1/SummaryRatio of their source, the same for all; 0 is DefaultRatio
	Cut          func(text, handle string) string // cuts outputs as the product does; nil for something like it

	// Resume measures how long a job of a size takes to its next request, if
	// it is set: write gives it the job's log.
	Resume func(ctx context.Context, tokens int64, write func(keep func(glovebox.Event) error) error) ([]Row, error)

	Progress func(string) // told what is being measured; may be nil
	Missed   func(string) // told which planted fact was not found; may be nil

	marks func(*memory.Builder) memory.Marks // nil for the product's
}

// DefaultRatio is how many times shorter than its source a summary is taken
// to be.
const DefaultRatio = 20

// runner is one run of the benchmark.
type runner struct {
	o      Options
	base   []step
	dir    string
	report Report

	missing bool // the recorded runs are; histories are made up

	firstP50  float64 // of building a request in the shortest history
	firstSize int64
}

func (r *runner) wants(group string) bool {
	return len(r.o.Groups) == 0 || slices.Contains(r.o.Groups, group)
}

func (r *runner) add(row Row) {
	row.Load = minute()
	r.report.Rows = append(r.report.Rows, row)
}

func (r *runner) progress(format string, args ...any) {
	if r.o.Progress != nil {
		r.o.Progress(fmt.Sprintf(format, args...))
	}
}

// Run measures what o says. Rows whose data is missing are left out, with the
// reason in the report; those that were named in o.Groups are an error that
// says where the data comes from.
func Run(ctx context.Context, o Options) (*Report, error) {
	if o.SummaryRatio == 0 {
		o.SummaryRatio = DefaultRatio
	}
	if o.Cut == nil {
		o.Cut = cutMiddle
	}
	for _, g := range o.Groups {
		if !slices.Contains(Groups, g) {
			return nil, glovebox.Invalid("rows", "known: "+strings.Join(Groups, ", "), "there are no rows %q", g)
		}
	}
	dir, err := os.MkdirTemp(o.Temp, "glovebox-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	r := &runner{o: o, dir: dir, report: Report{Machine: machine(), Began: time.Now().UTC(), Load: load()}}
	if err := r.all(ctx); err != nil {
		return nil, err
	}
	r.report.Seconds = time.Since(r.report.Began).Seconds()
	order := func(row Row) int { return slices.Index(Groups, row.Group) }
	slices.SortStableFunc(r.report.Rows, func(a, b Row) int { return order(a) - order(b) })
	return &r.report, nil
}

func (r *runner) all(ctx context.Context) error {
	if err := r.load(); err != nil {
		return err
	}
	if r.wants("locomo") {
		r.progress("LoCoMo")
		if err := r.locomo(ctx); err != nil {
			return err
		}
	}
	for _, tokens := range r.o.Tokens {
		if err := r.sized(ctx, tokens); err != nil {
			return err
		}
	}
	return nil
}

// locomo runs the rows of LoCoMo. Where its data is missing they are left out,
// unless they were named.
func (r *runner) locomo(ctx context.Context) error {
	dialogues, err := loadLocomo(r.o.Data)
	if err != nil {
		if slices.Contains(r.o.Groups, "locomo") {
			return err
		}
		r.skip("locomo: %v", err)
		return nil
	}
	rows, err := runLocomo(ctx, dialogues, r.dir)
	for _, row := range rows {
		r.add(row)
	}
	return err
}

func (r *runner) skip(format string, args ...any) {
	r.report.Skipped = append(r.report.Skipped, fmt.Sprintf(format, args...))
}

// load reads the recorded runs, or makes some up where no row needs those.
func (r *runner) load() error {
	runs, err := loadTrajectories(r.o.Data)
	what := "recorded runs of a coding agent"
	if err != nil {
		for _, g := range []string{"cache", "cost"} {
			if slices.Contains(r.o.Groups, g) {
				return err
			}
		}
		what, runs = "made-up runs of nonsense (the data is missing)", made(100)
		r.missing = true
		r.progress("the recorded runs can't be read: histories are made up, and cache and cost are left out")
		r.skip("cache and cost: %v", err)
	}
	var total int64
	for i, t := range runs {
		r.base = append(r.base, stepsOf(i, t, r.o.Cut)...)
	}
	for _, s := range r.base {
		total += s.tokens
	}
	r.report.Notes = append(r.report.Notes,
		fmt.Sprintf("histories: %d %s laid end to end (%s tokens, %d calls, outputs cut at 16 KiB as the service does), repeated as often as the length needs; each further run comes as a message of the user", len(runs), what, size(float64(total)), len(r.base)),
		fmt.Sprintf("summaries: digests stand in for a model's, filled up or cut to 1/%d of what they stand for (a summary of summaries to 1/%d), at least %d and at most %d tokens, by the same rule for all; none of the peers' is taken to hold a planted fact", r.o.SummaryRatio, mergeRatio, leastSummary, mostSummary),
		fmt.Sprintf("questions: every %d calls the user asks for a fact planted at any time before; ours calls recall where the request does not hold it", askEvery))
	return nil
}

// sized runs the rows of one length of history.
func (r *runner) sized(ctx context.Context, tokens int64) error {
	if !r.missing && (r.wants("cache") || r.wants("cost")) {
		if tokens > MaxCompared {
			r.skip("cache and cost at %s tokens: the requests of the peer that keeps everything grow beyond reason", size(float64(tokens)))
		} else {
			r.progress("cache and cost at %s tokens", size(float64(tokens)))
			if err := r.runCosts(ctx, tokens); err != nil {
				return err
			}
		}
	}
	if r.wants("facts") || r.wants("standing") || r.wants("request") || r.wants("recall") {
		r.progress("facts, requests and searches at %s tokens", size(float64(tokens)))
		if err := r.runScale(ctx, tokens); err != nil {
			return err
		}
	}
	if r.wants("resume") && r.o.Resume != nil {
		r.progress("resuming at %s tokens", size(float64(tokens)))
		rows, err := r.o.Resume(ctx, tokens, func(keep func(glovebox.Event) error) error {
			e := newEngine(ctx, r.o.Memory, r.o.Info)
			e.keep, e.numbered = keep, true
			return e.run(newHistory(r.base, tokens))
		})
		if err != nil {
			return err
		}
		for _, row := range rows {
			r.add(row)
		}
	}
	return nil
}
