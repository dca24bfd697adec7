package membench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/glovebox-dev/glovebox/internal/memory/recall"
)

// askEvery is how many calls lie between two questions about facts from any
// time before. How often an agent needs something from long ago is not known;
// this is an assumption, and the same for all.
const askEvery = 100

// factsEvery is how many calls lie between two planted facts of the
// comparison of costs.
const factsEvery = 20

// questioned returns a history with facts in it that are asked about.
func questioned(base []step, tokens int64) *history {
	h := newHistory(base, tokens)
	p := newPlanter(4)
	n := h.calls / factsEvery
	facts := append(p.exacts(n/10+1), p.paraphrases(min(n/8+1, len(p.pairs)/2))...)
	p.spread(h, facts, 0, h.calls)
	var known []*fact
	r := rand.New(rand.NewPCG(4, 4))
	for i := range h.calls {
		if i%askEvery == askEvery-1 && len(known) > 0 {
			h.asks[i] = []*fact{known[r.IntN(len(known))]}
		}
		for _, f := range h.facts[i] {
			if f.kind == exact || f.kind == paraphrase {
				known = append(known, f)
			}
		}
	}
	return h
}

// runCosts replays a history through the engine and through its peers, all
// before the same simulated cache.
func (r *runner) runCosts(ctx context.Context, tokens int64) error {
	h := questioned(r.base, tokens)
	path := filepath.Join(r.dir, fmt.Sprintf("cost-%d.db", tokens))
	e, err := r.replayOurs(ctx, h, path)
	if err != nil {
		return fmt.Errorf("replay %s tokens through the engine: %w", size(float64(tokens)), err)
	}
	ours := cost(e.cache.total.usage)
	if r.wants("cache") {
		r.add(cacheRow(tokens, "ours", e.cache.total, ">= .98, <= 1 break"))
	}
	if r.wants("cost") {
		row := costRow(tokens, "ours", e.cache.total, e.got, ours)
		row.Goal = "least at equal or better recall; <= .70 of summarise"
		row.Note = fmt.Sprintf("%d folds", e.folds)
		r.add(row)
	}
	var rows []Row
	for _, p := range peers(e.head, r.o.SummaryRatio) {
		if err := ctx.Err(); err != nil {
			return err
		}
		got := replayPeer(p, e.sizer, h)
		name := p.name + ": " + p.how
		if r.wants("cache") {
			r.add(cacheRow(tokens, name, p.cache.total, ""))
		}
		rows = append(rows, costRow(tokens, name, p.cache.total, got, ours))
	}
	if r.wants("cost") {
		for _, row := range rows {
			r.add(row)
		}
	}
	return nil
}

// replayOurs replays a history through the engine, with an index in the file
// at path.
func (r *runner) replayOurs(ctx context.Context, h *history, path string) (*engine, error) {
	index, err := recall.Open(path, jobID, recall.Options{})
	if err != nil {
		return nil, err
	}
	defer os.Remove(path)
	defer index.Close()
	e := newEngine(ctx, r.o.Memory, r.o.Info)
	e.index, e.ratio = index, r.o.SummaryRatio
	if r.o.marks != nil {
		e.marks = r.o.marks
	}
	return e, e.run(h)
}

func cacheRow(tokens int64, name string, t tally, goal string) Row {
	calls := float64(max(t.calls, 1))
	return Row{Group: "cache", Name: at(tokens, name), Goal: goal, Figures: []Figure{
		{"input read from the cache", t.share(), "share"},
		{"breaks per 100 calls", 100 * float64(t.breaks) / calls, "rate"},
		{"calls", calls, "count"},
		{"input per call", float64(t.usage.Input+t.usage.CacheRead+t.usage.CacheWrite) / float64(max(t.calls+t.side, 1)), "tokens"},
		{"longest", float64(t.peak), "tokens"},
	}}
}

func costRow(tokens int64, name string, t tally, got asked, ours float64) Row {
	c := cost(t.usage)
	return Row{Group: "cost", Name: at(tokens, name), Figures: []Figure{
		{"cost", c, "tokens"},
		{"ours is", ours / c, "x"},
		{"facts found", got.share(), "share"},
		{"asked for", float64(got.of), "count"},
		{"calls", float64(t.calls), "count"},
		{"for summaries", float64(t.side), "count"},
		{"output of them", float64(t.sideOut), "tokens"},
	}}
}

// at names a row of a size.
func at(tokens int64, name string) string { return size(float64(tokens)) + " tokens, " + name }
