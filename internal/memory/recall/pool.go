package recall

import (
	"cmp"
	"context"
	"database/sql"
	"hash/maphash"
	"slices"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox"
)

// doc is a passage that is compared with the query.
type doc struct {
	id   int64
	text string

	step int64
	time time.Time
	typ  glovebox.EventType
	tool string
	file string

	label      int       // bytes at its beginning that say who speaks
	tf         []float64 // how often each term is in it, label left out
	named      []bool    // terms that are in its label
	about      float64   // weight of what its label and its date match
	prev, next *doc      // what stands directly before and after it, where that is known
	candidate  bool      // it may be a hit
	score      float64
	at         int // where in text what was looked for begins; -1: find it by the terms
}

func (d *doc) event() int64 { return d.id >> passageBits }

// pool are the passages that are compared, by number.
type pool struct {
	s    *searcher
	docs map[int64]*doc
	seen map[uint64]*doc // by their text: what was said twice is shown once, the newest

	one, before, after *sql.Stmt
	seed               maphash.Seed
}

const docColumns = "SELECT p.id, p.text, e.step, e.time, e.type, e.tool, e.file FROM passage p JOIN event e ON e.seq = p.id >> 12 WHERE "

func newPool(ctx context.Context, s *searcher) (*pool, error) {
	p := &pool{s: s, docs: map[int64]*doc{}, seen: map[uint64]*doc{}, seed: maphash.MakeSeed()}
	for _, q := range []struct {
		to  **sql.Stmt
		sql string
	}{
		{&p.one, docColumns + "p.id = ?"},
		{&p.before, docColumns + "p.id < ? ORDER BY p.id DESC LIMIT ?"},
		{&p.after, docColumns + "p.id > ? ORDER BY p.id LIMIT ?"},
	} {
		st, err := s.tx.PrepareContext(ctx, q.sql)
		if err != nil {
			p.close()
			return nil, err
		}
		*q.to = st
	}
	return p, nil
}

func (p *pool) close() {
	for _, st := range []*sql.Stmt{p.one, p.before, p.after} {
		if st != nil {
			st.Close()
		}
	}
}

// query returns passages, those that are known already as they are.
func (p *pool) query(ctx context.Context, st *sql.Stmt, args ...any) ([]*doc, error) {
	rows, err := st.QueryContext(ctx, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []*doc
	for rows.Next() {
		d := &doc{at: -1}
		var ms int64
		if err := rows.Scan(&d.id, &d.text, &d.step, &ms, &d.typ, &d.tool, &d.file); err != nil {
			return nil, err
		}
		if known := p.docs[d.id]; known != nil {
			out = append(out, known)
			continue
		}
		d.time = time.UnixMilli(ms).UTC()
		d.label = labelEnd(d.text)
		p.docs[d.id] = d
		out = append(out, d)
	}
	return out, rows.Err()
}

// load reads passages that may be hits, as many as the bound on their text
// allows, and leaves out those that only repeat a newer one.
func (p *pool) load(ctx context.Context, ids []int64) error {
	size := 0
	for _, id := range ids {
		found, err := p.query(ctx, p.one, id)
		if err != nil {
			return err
		}
		for _, d := range found {
			p.admit(d)
			size += len(d.text)
		}
		if size > poolBytes {
			break
		}
	}
	return nil
}

// admit makes d a candidate unless a newer one says the same.
func (p *pool) admit(d *doc) {
	if d.candidate {
		return
	}
	h := maphash.String(p.seed, strings.TrimSpace(d.text))
	if o := p.seen[h]; o != nil && o != d {
		if o.id > d.id {
			return
		}
		o.candidate = false
	}
	p.seen[h] = d
	d.candidate = true
}

// reach is how many passages before and after one are scored with it.
const reach = 3

// surround reads the neighbours of docs. Where free is set they may be hits
// themselves.
func (p *pool) surround(ctx context.Context, docs []*doc, free bool) error {
	for _, d := range docs {
		if !d.known(reach) {
			before, err := p.query(ctx, p.before, d.id, reach)
			if err != nil {
				return err
			}
			after, err := p.query(ctx, p.after, d.id, reach)
			if err != nil {
				return err
			}
			slices.Reverse(before)
			chain := append(append(before, d), after...)
			for i := 1; i < len(chain); i++ {
				chain[i-1].next, chain[i].prev = chain[i], chain[i-1]
			}
		}
		if !free {
			continue
		}
		for n, k := 0, d.prev; k != nil && n < reach; n, k = n+1, k.prev {
			p.neighbour(k)
		}
		for n, k := 0, d.next; k != nil && n < reach; n, k = n+1, k.next {
			p.neighbour(k)
		}
	}
	return nil
}

func (p *pool) neighbour(d *doc) {
	if d.id >= p.s.p.lo && d.id <= p.s.p.hi {
		p.admit(d)
	}
}

// known reports whether n passages on both sides are known.
func (d *doc) known(n int) bool {
	a, b := d, d
	for range n {
		if a = a.prev; a == nil {
			return false
		}
		if b = b.next; b == nil {
			return false
		}
	}
	return true
}

// sorted returns all passages in order.
func (p *pool) sorted() []*doc {
	all := make([]*doc, 0, len(p.docs))
	for _, d := range p.docs {
		all = append(all, d)
	}
	slices.SortFunc(all, func(a, b *doc) int { return cmp.Compare(a.id, b.id) })
	return all
}

// labelEnd returns where what is said begins in "Name: what is said"; 0 if
// nobody is named.
func labelEnd(text string) int {
	head := text[:min(len(text), 40)]
	i := strings.Index(head, ": ")
	if i <= 0 || strings.ContainsAny(head[:i], "\n.,;?!(\"'=") || strings.Count(head[:i], " ") > 2 {
		return 0
	}
	return i + 1
}
