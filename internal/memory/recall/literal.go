package recall

import (
	"cmp"
	"context"
	"regexp/syntax"
	"slices"
	"strings"
	"time"
)

const (
	literalLists = 50_000                 // passages of the lists that are looked through for an exact string
	scanTime     = 700 * time.Millisecond // of Options.ScanTime
	scanChunk    = 2_000                  // passages between two looks at the clock
)

// literal finds what holds all of the exact strings and what the regular
// expression matches: first through the words in them, then, if those are only
// parts of words, by looking at every passage as long as time allows.
func (s *searcher) literal(ctx context.Context, pool *pool) ([]*doc, error) {
	p := s.p
	needles := slices.Clone(p.Exact)
	if len(needles) == 0 {
		needles = required(p.Regexp)
	}
	slices.SortStableFunc(needles, func(a, b string) int { return len(b) - len(a) })
	l := &lookup{s: s, pool: pool, needles: needles, want: poolSize, begun: time.Now()}
	if err := l.indexed(ctx); err != nil {
		return nil, err
	}
	if l.found == 0 || p.re != nil && l.found < p.Limit {
		if err := l.scan(ctx); err != nil {
			return nil, err
		}
	}
	docs := pool.sorted()
	if len(p.terms) == 0 {
		return newestFirst(docs), nil
	}
	if err := s.weigh(ctx); err != nil {
		return nil, err
	}
	c := newScorer(s, docs, p.terms)
	c.alone()
	for _, d := range docs {
		d.score += 1e-6 // the words need not be there
	}
	return rank(docs), nil
}

// weigh finds how rare the terms are.
func (s *searcher) weigh(ctx context.Context) error {
	for i := range s.p.terms {
		t := &s.p.terms[i]
		ids, err := s.list(ctx, match([]string{t.text}), postings)
		if err != nil {
			return err
		}
		t.df = len(ids)
		t.idf = idf(float64(t.df), float64(s.total))
	}
	return nil
}

// lookup is the search for strings.
type lookup struct {
	s       *searcher
	pool    *pool
	needles []string // longest first
	found   int
	want    int
	tried   map[int64]bool
	begun   time.Time // for what is bounded by time
}

// late reports whether the time for looking at passages is up.
func (l *lookup) late() bool { return time.Since(l.begun) > cmp.Or(l.s.x.o.ScanTime, scanTime) }

// indexed looks at the passages that hold all words of the longest string.
func (l *lookup) indexed(ctx context.Context) error {
	l.tried = map[int64]bool{}
	if len(l.needles) == 0 {
		return nil
	}
	var words []string
	l.s.a.each(l.needles[0], func(t token) {
		if !strings.HasPrefix(t.term, markWhole) && !slices.Contains(words, t.term) && len(words) < maxTerms {
			words = append(words, t.term)
		}
	})
	if len(words) == 0 {
		return nil
	}
	ids, err := l.s.list(ctx, match(append(words, l.s.p.must...)), literalLists)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if err := l.try(ctx, id); err != nil || l.found >= l.want {
			return err
		}
		if l.s.p.re != nil && l.late() { // an expression may take long on each
			l.s.p.addNote("there was only time to look through events %d to %d: narrow the range, or add words", id>>passageBits, l.s.p.hi>>passageBits)
			return nil
		}
	}
	return nil
}

// try looks at one passage.
func (l *lookup) try(ctx context.Context, id int64) error {
	if l.tried[id] {
		return nil
	}
	l.tried[id] = true
	if err := l.pool.fetch(ctx, []int64{id}); err != nil {
		return err
	}
	if d := l.pool.docs[id]; d != nil {
		ok, err := l.fits(ctx, d)
		if err != nil {
			return err
		}
		if !ok {
			delete(l.pool.docs, d.id)
			return nil
		}
		l.pool.admit(d)
		if d.candidate {
			l.found++
		}
	}
	return nil
}

// fits reports whether d is what was looked for, and notes where it stands. Of
// several strings one has to be in the passage, all in its event.
func (l *lookup) fits(ctx context.Context, d *doc) (bool, error) {
	if re := l.s.p.re; re != nil {
		m := re.FindStringIndex(d.text)
		if m == nil {
			return false, nil
		}
		d.at = (m[0] + min(m[1], m[0]+MaxQuote)) / 2
	}
	if len(l.s.p.Exact) == 0 {
		return true, nil
	}
	i := strings.Index(d.text, l.needles[0])
	if i < 0 {
		return false, nil
	}
	d.at = i + len(l.needles[0])/2
	for _, n := range l.needles[1:] {
		if strings.Contains(d.text, n) {
			continue
		}
		var there bool
		err := l.s.tx.QueryRowContext(ctx, "SELECT EXISTS(SELECT 1 FROM passage WHERE id BETWEEN ? AND ? AND instr(text, ?) > 0)",
			d.event()<<passageBits, (d.event()+1)<<passageBits-1, n).Scan(&there)
		if err != nil || !there {
			return false, err
		}
	}
	return true, nil
}

// scan looks at all passages of the range, newest first, until enough is found
// or the time is up. Then a note says how far it came.
func (l *lookup) scan(ctx context.Context) error {
	p := l.s.p
	needle := ""
	if len(l.needles) > 0 {
		needle = l.needles[0]
	}
	if l.s.p.re != nil && l.late() {
		return nil
	}
	l.begun = time.Now()
	for hi := p.hi; hi >= p.lo; {
		ids, lowest, err := l.chunk(ctx, hi, needle)
		if err != nil {
			return err
		}
		for _, id := range ids {
			if err := l.try(ctx, id); err != nil {
				return err
			}
			if l.found >= l.want {
				return nil
			}
			if p.re != nil && l.late() {
				lowest = id
				break
			}
		}
		if lowest < p.lo {
			return nil
		}
		hi = lowest - 1
		if l.late() {
			p.addNote("there was only time to look through events %d to %d: narrow the range, or add words", hi>>passageBits+1, p.hi>>passageBits)
			return nil
		}
	}
	return nil
}

// chunk returns, of the next passages down from hi, those that hold needle,
// and the lowest that it looked at; one below the range at its end.
func (l *lookup) chunk(ctx context.Context, hi int64, needle string) (ids []int64, lowest int64, err error) {
	p := l.s.p
	if len(p.must) > 0 { // then the lists are short enough
		ids, err = l.s.list(ctx, match(p.must), literalLists)
		return ids, p.lo - 1, err
	}
	rows, err := l.s.tx.QueryContext(ctx, "SELECT id, instr(text, ?) > 0 FROM passage WHERE id BETWEEN ? AND ? ORDER BY id DESC LIMIT ?", needle, p.lo, hi, scanChunk)
	if err != nil {
		return nil, 0, err
	}
	defer rows.Close()
	n := 0
	lowest = p.lo - 1
	for rows.Next() {
		var id int64
		var has bool
		if err := rows.Scan(&id, &has); err != nil {
			return nil, 0, err
		}
		if n++; n == scanChunk {
			lowest = id
		}
		if has || needle == "" {
			ids = append(ids, id)
		}
	}
	return ids, lowest, rows.Err()
}

// required returns strings that are in every match of a regular expression.
func required(expr string) []string {
	re, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return nil
	}
	var out []string
	var walk func(*syntax.Regexp)
	walk = func(r *syntax.Regexp) {
		switch r.Op {
		case syntax.OpLiteral:
			if r.Flags&syntax.FoldCase == 0 && len(r.Rune) > 1 {
				out = append(out, string(r.Rune))
			}
		case syntax.OpConcat, syntax.OpCapture, syntax.OpPlus:
			for _, s := range r.Sub {
				walk(s)
			}
		case syntax.OpRepeat:
			if r.Min > 0 {
				walk(r.Sub[0])
			}
		}
	}
	walk(re.Simplify())
	return out
}
