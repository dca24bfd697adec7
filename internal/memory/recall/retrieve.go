package recall

import (
	"cmp"
	"context"
	"database/sql"
	"math"
	"slices"
	"sort"
)

// searcher is one search: a view of the file that does not change under it.
type searcher struct {
	x  *Index
	tx *sql.Tx
	a  *analyzer
	p  *parsed

	total  int64 // passages in the file, about
	newest int64 // number of the newest event
}

// What a search reads at most. With these, a history of 100 million tokens is
// searched in some tens of milliseconds, whatever the words.
const (
	glance      = 500     // of one term's list, to see whether it is short
	postings    = 16_000  // of one term's list, newest first
	poolSize    = 300     // passages whose text is compared
	poolBytes   = 400_000 // of their text
	windowBytes = 700_000 // of their text and that of their neighbours, as far as these are looked at
)

// resolve makes steps and times a range of events, and events one of passages.
// Steps and times grow with the number of the event.
func (s *searcher) resolve(ctx context.Context) error {
	p := s.p
	from, through := max(p.From, 1), p.Through
	if through == 0 {
		through = s.newest
	}
	for _, b := range []struct {
		column string
		value  int64
		first  bool // the range begins with the first event that has it; else it ends before the first that is beyond
		set    bool
	}{
		{"step", p.FromStep, true, p.FromStep > 0},
		{"step", min(p.ThroughStep, math.MaxInt64-1) + 1, false, p.ThroughStep > 0},
		{"time", p.After.UnixMilli(), true, !p.After.IsZero()},
		{"time", p.Before.UnixMilli() + 1, false, !p.Before.IsZero()},
	} {
		if !b.set {
			continue
		}
		at, err := s.firstEvent(ctx, b.column, b.value)
		if err != nil {
			return err
		}
		if b.first {
			from = max(from, at)
		} else {
			through = min(through, at-1)
		}
	}
	from = min(from, s.newest+1) // a larger one would not fit into a passage's number
	p.lo, p.hi = from<<passageBits, (min(through, s.newest)+1)<<passageBits-1
	return nil
}

// firstEvent returns the number from which on column is at least value.
func (s *searcher) firstEvent(ctx context.Context, column string, value int64) (int64, error) {
	st, err := s.tx.PrepareContext(ctx, "SELECT seq, "+column+" FROM event WHERE seq >= ? ORDER BY seq LIMIT 1") //nolint:sqlclosecheck // below
	if err != nil {
		return 0, err
	}
	defer st.Close()
	var failed error
	at := sort.Search(int(s.newest), func(i int) bool {
		var seq, v int64
		switch err := st.QueryRowContext(ctx, i+1).Scan(&seq, &v); err {
		case nil:
			return v >= value
		case sql.ErrNoRows:
		default:
			failed = err
		}
		return true
	})
	return int64(at) + 1, failed
}

// list returns the passages that match, newest first, at most limit.
func (s *searcher) list(ctx context.Context, match string, limit int) ([]int64, error) {
	rows, err := s.tx.QueryContext(ctx, "SELECT rowid FROM words WHERE words MATCH ? AND rowid BETWEEN ? AND ? ORDER BY rowid DESC LIMIT ?", match, s.p.lo, s.p.hi, limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var ids []int64
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}

// candidates returns the passages that may be among the best for the words,
// best first by what can be told without their text: the rarity of the terms
// that they and their neighbours hold.
func (s *searcher) candidates(ctx context.Context) ([]int64, error) {
	p := s.p
	if err := s.rarest(ctx); err != nil {
		return nil, err
	}
	score := map[int64]float64{}
	var long []int // terms whose list was not read to its end
	for i := range p.terms {
		ids, err := s.list(ctx, match(append([]string{p.terms[i].text}, p.must...)), postings)
		if err != nil {
			return nil, err
		}
		t := &p.terms[i]
		t.df = len(ids)
		if len(ids) == postings {
			t.df, t.cut = s.estimate(ids), ids[len(ids)-1]
			long = append(long, i)
		}
		t.idf = idf(float64(t.df), float64(s.total))
		for _, id := range ids {
			score[id] += t.idf
		}
	}
	slices.SortFunc(long, func(a, b int) int { return cmp.Compare(p.terms[a].df, p.terms[b].df) })
	if err := s.together(ctx, long, score); err != nil {
		return nil, err
	}
	return best(score, poolSize+2*p.Limit), nil
}

// rarest leaves, of very many terms, those whose lists are short: the others
// would cost more than they tell.
func (s *searcher) rarest(ctx context.Context) error {
	p := s.p
	if len(p.terms) <= maxTerms {
		return nil
	}
	for i := range p.terms {
		ids, err := s.list(ctx, match([]string{p.terms[i].text}), glance)
		if err != nil {
			return err
		}
		p.terms[i].df = len(ids)
	}
	p.terms = slices.DeleteFunc(p.terms, func(t term) bool { return t.df == 0 })
	if len(p.terms) > maxTerms {
		slices.SortStableFunc(p.terms, func(a, b term) int { return cmp.Compare(a.df, b.df) })
		p.terms = p.terms[:maxTerms]
		p.addNote("of so many words, the %d rarest were used", maxTerms)
	}
	return nil
}

// together adds what a list that was cut leaves out: passages that hold its
// term beside a rarer one.
func (s *searcher) together(ctx context.Context, long []int, score map[int64]float64) error {
	p := s.p
	for n, i := range long {
		t := p.terms[i]
		var others []string
		for k, o := range p.terms {
			if k != i && o.df > 0 && (!slices.Contains(long, k) || slices.Index(long, k) < n) {
				others = append(others, o.text)
			}
		}
		if len(others) == 0 {
			continue
		}
		ids, err := s.list(ctx, match(append([]string{t.text}, p.must...), others...), postings)
		if err != nil {
			return err
		}
		for _, id := range ids {
			if id < t.cut { // the others have it already
				score[id] += t.idf
			}
		}
	}
	return nil
}

// estimate returns how long a list is that was cut: as dense in the rest of
// the range as in its newest part.
func (s *searcher) estimate(ids []int64) int {
	covered := float64(s.p.hi-ids[len(ids)-1]) + 1
	return int(float64(len(ids)) * float64(s.p.hi-s.p.lo+1) / covered)
}

func idf(df, total float64) float64 {
	return math.Log(1 + (max(total, df)-df+.5)/(df+.5))
}

// nearEvents is how many events apart passages may be to count as neighbours
// before their text is known: between two that say something there are some
// that do not.
const nearEvents = 6

// best returns the n passages of the highest score, each raised by its
// neighbours', the newest first among equals.
func best(score map[int64]float64, n int) []int64 {
	ids := make([]int64, 0, len(score))
	for id := range score {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	type scored struct {
		id int64
		v  float64
	}
	all := make([]scored, len(ids))
	for i, id := range ids {
		v, w := score[id], .5
		for k := i - 1; k >= 0 && w > .1 && (id>>passageBits)-(ids[k]>>passageBits) <= nearEvents; k-- {
			v, w = v+w*score[ids[k]]/2, w/2
		}
		w = .5
		for k := i + 1; k < len(ids) && w > .1 && (ids[k]>>passageBits)-(id>>passageBits) <= nearEvents; k++ {
			v, w = v+w*score[ids[k]]/2, w/2
		}
		all[i] = scored{id, v}
	}
	slices.SortFunc(all, func(a, b scored) int {
		return cmp.Or(cmp.Compare(b.v, a.v), cmp.Compare(b.id, a.id))
	})
	all = all[:min(n, len(all))]
	for i, x := range all {
		ids[i] = x.id
	}
	return ids[:len(all)]
}
