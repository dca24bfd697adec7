package recall

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"

	"github.com/glovebox-dev/glovebox"
)

// Search returns what fits q. An error of CodeInvalid or CodeTooLarge is about
// q and says which field; that nothing fits is no error. It is safe beside Add,
// and sees what was complete when it began.
func (x *Index) Search(ctx context.Context, q Query) (Result, error) {
	a := x.scorers.Get().(*analyzer)
	defer x.scorers.Put(a)
	p, err := parse(q, a)
	if err != nil {
		return Result{}, err
	}
	tx, err := x.read.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return Result{}, x.failure("search", err)
	}
	defer tx.Rollback()
	s := &searcher{x: x, tx: tx, a: a, p: p}
	r, err := s.search(ctx)
	if ctx.Err() != nil && err != nil {
		err = errors.Join(ctx.Err(), err)
	}
	return r, x.failure("search", err)
}

func (s *searcher) search(ctx context.Context) (Result, error) {
	if err := s.tx.QueryRowContext(ctx, "SELECT coalesce(max(seq), 0) FROM event").Scan(&s.newest); err != nil {
		return Result{}, err
	}
	if err := s.tx.QueryRowContext(ctx, "SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'passages'").Scan(&s.total); err != nil {
		return Result{}, err
	}
	if err := s.resolve(ctx); err != nil {
		return Result{}, err
	}
	pool := newPool(s)
	var ranked []*doc
	var err error
	switch p := s.p; {
	case p.lo > p.hi:
	case len(p.Exact) > 0 || p.re != nil:
		ranked, err = s.literal(ctx, pool)
	case len(p.terms) == 0:
		ranked, err = s.listed(ctx, pool)
	default:
		ranked, err = s.worded(ctx, pool)
		if err == nil && s.x.o.Embed != nil {
			ranked, err = s.vectors(ctx, pool, ranked)
		}
	}
	if err != nil {
		return Result{}, err
	}
	r, err := s.compose(ctx, pool, ranked)
	r.Note = strings.Join(s.p.note, "; ")
	return r, err
}

// worded ranks what fits the words.
func (s *searcher) worded(ctx context.Context, pool *pool) ([]*doc, error) {
	ids, err := s.candidates(ctx)
	if err != nil {
		return nil, err
	}
	if err := pool.load(ctx, ids); err != nil {
		return nil, err
	}
	c := newScorer(s, pool.sorted(), s.p.terms)
	c.alone()
	ranked := rank(c.docs)
	if err := pool.surround(ctx, ranked, len(s.p.must) == 0); err != nil {
		return nil, err
	}
	c.docs = pool.sorted()
	c.windows()
	ranked = rank(c.docs)
	if s.p.Limit > joined {
		return c.expand(ranked), nil
	}
	// What only stands beside a hit is quoted with it.
	return slices.DeleteFunc(ranked, func(d *doc) bool { return !d.holds() }), nil
}

// listed returns what a file or a tool has to do with, or was said on a day,
// newest first.
func (s *searcher) listed(ctx context.Context, pool *pool) ([]*doc, error) {
	if len(s.p.must) == 0 {
		s.p.addNote("a date alone is no word: give after and before to see what happened then")
		return nil, nil
	}
	ids, err := s.list(ctx, match(s.p.must), poolSize+2*s.p.Limit)
	if err != nil {
		return nil, err
	}
	if err := pool.load(ctx, ids); err != nil {
		return nil, err
	}
	return newestFirst(pool.sorted()), nil
}

func newestFirst(docs []*doc) []*doc {
	docs = slices.DeleteFunc(docs, func(d *doc) bool { return !d.candidate })
	slices.SortFunc(docs, func(a, b *doc) int { return cmp.Compare(b.id, a.id) })
	return docs
}

// joined is up to which limit hits get their neighbours. Beyond, hits are there
// to fill a budget, in which a neighbour that matters is a hit itself.
const joined = 20

// fillers is how many hits that are too long for the rest of a budget are
// passed over in search of shorter ones.
const fillers = 10

// neighbourSize is the most bytes of a neighbour's quote.
const neighbourSize = 400

// compose makes hits of what was ranked: versions of a fact in order, what was
// quoted beside a better hit not again, as many as limit and budget allow.
func (s *searcher) compose(ctx context.Context, pool *pool, ranked []*doc) (Result, error) {
	var r Result
	ranked, superseded := s.versions(ranked)
	shown := map[int64]bool{} // passages
	tokens, passed := int64(0), 0
	for _, d := range ranked {
		if shown[d.id] {
			continue
		}
		if len(r.Hits) == s.p.Limit {
			r.More = true
			break
		}
		h := Hit{Event: d.event(), Step: d.step, Type: d.typ, Tool: d.tool, File: d.file, Time: d.time, Score: d.score,
			Text: s.quote(d), SupersededBy: superseded[d]}
		ids := []int64{d.id}
		if s.p.Limit <= joined {
			var err error
			if ids, err = s.join(ctx, pool, d, &h, shown); err != nil {
				return r, err
			}
		}
		cost := h.tokens()
		if s.p.Tokens > 0 && tokens+cost > s.p.Tokens && len(r.Hits) > 0 {
			r.More = true
			if passed++; passed == fillers {
				break
			}
			continue // a shorter one may still fit
		}
		tokens += cost
		for _, id := range ids {
			shown[id] = true
		}
		r.Hits = append(r.Hits, h)
	}
	return r, nil
}

// tokens returns how many tokens the quotes of a hit are, about.
func (h *Hit) tokens() int64 {
	n := len(h.Text)
	for _, q := range h.Before {
		n += len(q.Text)
	}
	for _, q := range h.After {
		n += len(q.Text)
	}
	return int64(n+3) / 4
}

// join adds to a hit what stands directly before and after it, unless that was
// quoted already, and returns the passages that it quotes then.
func (s *searcher) join(ctx context.Context, pool *pool, d *doc, h *Hit, shown map[int64]bool) ([]int64, error) {
	ids := []int64{d.id}
	first, last := d.event()<<passageBits, (d.event()+1)<<passageBits-1
	before, err := pool.beside(ctx, queryBefore, []int64{first})
	if err != nil {
		return nil, err
	}
	after, err := pool.beside(ctx, queryAfter, []int64{last})
	if err != nil {
		return nil, err
	}
	var b, a int64
	if n := before[first]; len(n) > 0 {
		b = n[len(n)-1]
	}
	if n := after[last]; len(n) > 0 {
		a = n[0]
	}
	if err := pool.fetch(ctx, []int64{b, a}); err != nil {
		return nil, err
	}
	if o := pool.docs[b]; o != nil && !shown[b] && !apart(o, d) {
		h.Before = append(h.Before, glovebox.Quote{Event: o.event(), Text: tail(o.text, neighbourSize)})
		ids = append(ids, b)
	}
	if o := pool.docs[a]; o != nil && !shown[a] && !apart(d, o) {
		h.After = append(h.After, glovebox.Quote{Event: o.event(), Text: head(o.text, neighbourSize)})
		ids = append(ids, a)
	}
	return ids, nil
}
