package membench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox/internal/memory"
	"github.com/glovebox-dev/glovebox/internal/memory/recall"
)

// How many facts of each kind are planted in a history, whatever its length.
const (
	manyExact      = 100
	manyParaphrase = 100
	manySuperseded = 48
)

// lastCalls is of how many calls the requests are timed, at a history's end.
const lastCalls = 2_000

// planted are the facts of a history.
type planted struct{ exact, paraphrase, superseded, standing []*fact }

// plant puts facts of every kind into a history, from its beginning to its end.
func plant(h *history) planted {
	p := newPlanter(2)
	var all planted
	ex, pa, su, st := p.exacts(manyExact), p.paraphrases(manyParaphrase), p.supersededs(manySuperseded), p.standings()
	for _, facts := range [][]*fact{ex, pa, su, st} {
		p.spread(h, facts, 0, h.calls)
	}
	for _, f := range ex {
		if f.kind == exact {
			all.exact = append(all.exact, f)
		}
	}
	for _, f := range pa {
		if f.kind == paraphrase {
			all.paraphrase = append(all.paraphrase, f)
		}
	}
	for _, f := range su {
		if f.kind == superseded && f == f.versions[len(f.versions)-1] {
			all.superseded = append(all.superseded, f)
		}
	}
	all.standing = st
	return all
}

// times are durations of one thing.
type times []time.Duration

func (t times) at(q float64) float64 {
	if len(t) == 0 {
		return 0
	}
	s := slices.Clone(t)
	slices.Sort(s)
	return float64(s[min(int(q*float64(len(s))), len(s)-1)]) / float64(time.Millisecond)
}

// runScale runs a history of a size through the engine and an index, and
// measures what both can and how long it takes.
func (r *runner) runScale(ctx context.Context, tokens int64) error {
	path := filepath.Join(r.dir, fmt.Sprintf("scale-%d.db", tokens))
	e := newEngine(ctx, r.o.Memory, r.o.Info)
	e.bare = !r.wants("standing") && !r.wants("request")
	search := r.wants("facts") || r.wants("recall")
	if search {
		index, err := recall.Open(path, jobID, recall.Options{})
		if err != nil {
			return err
		}
		defer os.Remove(path)
		defer index.Close()
		e.index = index
	}
	if r.o.marks != nil {
		e.marks = r.o.marks
	}
	h := newHistory(r.base, tokens)
	facts := plant(h)
	before := heap()
	var built, digested times
	calls := 0
	e.asked = func(b *memory.Builder) {
		if calls++; calls+lastCalls <= h.calls {
			return
		}
		start := time.Now()
		q := b.Request(maxOutput)
		built = append(built, time.Since(start))
		b.Digest(q)
		digested = append(digested, time.Since(start))
	}
	if err := e.run(h); err != nil {
		return err
	}
	e.sizer, e.cache = nil, nil // they are the simulation's, not the engine's
	if r.wants("request") {
		r.add(r.requestRow(tokens, e, built, digested, float64(heap()-before)/(1<<20)))
	}
	if r.wants("standing") {
		r.add(standingRow(tokens, e, facts))
	}
	if !search {
		return nil
	}
	return r.searchRows(ctx, tokens, e, facts, h, path)
}

// heap returns the bytes on the heap that are in use, after a collection.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func (r *runner) requestRow(tokens int64, e *engine, built, digested times, mib float64) Row {
	p50 := built.at(.5)
	if r.firstP50 == 0 {
		r.firstP50, r.firstSize = p50, tokens
	}
	ratio := 0.0
	if r.firstP50 > 0 {
		ratio = p50 / r.firstP50
	}
	return Row{Group: "request", Name: at(tokens, "ours"), Goal: "p50 <= 5 ms, p99 <= 25 ms, <= 1.2x, <= 256 MiB", Figures: []Figure{
		{"p50", p50, "ms"}, {"p99", built.at(.99), "ms"},
		{"against " + size(float64(r.firstSize)), ratio, "x"},
		{"heap", mib, "MiB"},
		{"with its digest p50", digested.at(.5), "ms"}, {"p99", digested.at(.99), "ms"},
		{"longest fold", float64(e.long) / float64(time.Millisecond), "ms"},
		{"events", float64(e.seq), "count"}, {"folds", float64(e.folds), "count"},
	}}
}

// standingRow counts the standing instructions that are in the request, word
// for word.
func standingRow(tokens int64, e *engine, facts planted) Row {
	request := e.b.Request(maxOutput)
	got := 0
	for _, f := range facts.standing {
		if inRequest(request, f.text) {
			got++
		}
	}
	return Row{Group: "standing", Name: at(tokens, "standing instructions in the request, word for word"), Goal: "100%",
		Figures: []Figure{{"there", percent(got, len(facts.standing)), "percent"}, {"of", float64(len(facts.standing)), "count"}}}
}

func percent(n, of int) float64 { return 100 * float64(n) / float64(max(of, 1)) }

// searchRows asks for every planted fact.
func (r *runner) searchRows(ctx context.Context, tokens int64, e *engine, facts planted, h *history, path string) error {
	var took times
	find := func(f *fact) ([]recall.Hit, error) {
		q := f.query
		q.Limit = 10
		start := time.Now()
		got, err := e.index.Search(ctx, q)
		took = append(took, time.Since(start))
		return got.Hits[:min(len(got.Hits), 10)], err
	}
	groups := []struct {
		name, goal string
		facts      []*fact
		ok         func(*fact, []recall.Hit) bool
	}{
		{"exact identifiers", "100%", facts.exact, func(f *fact, list []recall.Hit) bool { return hits(list, f) }},
		{"paraphrases that share two words", goalOf(tokens), facts.paraphrase, func(f *fact, list []recall.Hit) bool { return hits(list, f) }},
		{"superseded facts, the newest first", "95%", facts.superseded, newestFirst},
	}
	for _, g := range groups {
		got, early, quoted := 0, 0, 0
		for _, f := range g.facts {
			list, err := find(f)
			if err != nil {
				return err
			}
			if holds(list, f) {
				quoted++
			}
			if g.ok(f, list) {
				got++
				if f.step < h.calls/2 {
					early++
				}
			} else if r.o.Missed != nil {
				r.o.Missed(fmt.Sprintf("%s tokens, %s: %q, planted as %q in event %d", size(float64(tokens)), g.name, queryInput(f.query), f.text, f.event))
			}
		}
		if r.wants("facts") {
			r.add(Row{Group: "facts", Name: at(tokens, g.name+", in the first 10 results"), Goal: g.goal,
				Figures: []Figure{{"found", percent(got, len(g.facts)), "percent"}, {"of", float64(len(g.facts)), "count"}, {"with the answer in a quote", percent(quoted, len(g.facts)), "percent"}, {"found from the first half", float64(early), "count"}}})
		}
	}
	if !r.wants("recall") {
		return nil
	}
	var bytes int64
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if st, err := os.Stat(path + suffix); err == nil {
			bytes += st.Size()
		}
	}
	r.add(Row{Group: "recall", Name: at(tokens, "ours"), Goal: "p50 <= 60 ms, p99 <= 250 ms", Figures: []Figure{
		{"p50", took.at(.5), "ms"}, {"p99", took.at(.99), "ms"}, {"longest", took.at(1), "ms"}, {"searches", float64(len(took)), "count"},
		{"index", float64(bytes) / (1 << 20), "MiB"}, {"built in", e.spent.Seconds(), "s"},
		{"that is", float64(h.about) / max(e.spent.Seconds(), 1e-9), "tokens"},
	}, Note: "the last figure is tokens a second"})
	return nil
}

// newestFirst reports whether, of the versions of a fact, the newest is shown
// first.
func newestFirst(f *fact, list []recall.Hit) bool {
	for _, h := range list {
		if h.Event == f.event || strings.Contains(h.Text, f.value) {
			return true
		}
		for _, v := range f.versions {
			if h.Event == v.event || strings.Contains(h.Text, v.value) {
				return false
			}
		}
	}
	return false
}

// goalOf is how many of the paraphrases are to be found in a history.
func goalOf(tokens int64) string {
	switch {
	case tokens > 10_000_000:
		return "85%"
	case tokens > 1_000_000:
		return "90%"
	}
	return "95%"
}
