package recall

import (
	"cmp"
	"context"
	"hash/maphash"
	"slices"
	"strconv"
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
	close      float64   // what terms that stand close to each other are worth
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
	seed maphash.Seed
	size int // bytes of their text
}

func newPool(s *searcher) *pool {
	return &pool{s: s, docs: map[int64]*doc{}, seen: map[uint64]*doc{}, seed: maphash.MakeSeed()}
}

// fetch reads passages by number. Those that are there already stay as they are.
func (p *pool) fetch(ctx context.Context, ids []int64) error {
	ids = slices.DeleteFunc(slices.Clone(ids), func(id int64) bool { return p.docs[id] != nil })
	if len(ids) == 0 {
		return nil
	}
	rows, err := p.s.tx.QueryContext(ctx, `SELECT p.id, p.text, e.step, e.time, e.type, e.tool, e.file
		FROM json_each(?) j CROSS JOIN passage p ON p.id = j.value CROSS JOIN event e ON e.seq = p.id >> 12`, list(ids))
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		d := &doc{at: -1}
		var ms int64
		if err := rows.Scan(&d.id, &d.text, &d.step, &ms, &d.typ, &d.tool, &d.file); err != nil {
			return err
		}
		d.time = time.UnixMilli(ms).UTC()
		d.label = labelEnd(d.text)
		p.docs[d.id] = d
		p.size += len(d.text)
	}
	return rows.Err()
}

// list returns numbers as JSON.
func list(ids []int64) string {
	b := []byte{'['}
	for i, id := range ids {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, id, 10)
	}
	return string(append(b, ']'))
}

const (
	queryBefore = `SELECT j.value, p.id FROM json_each(?) j CROSS JOIN passage p
		ON p.id IN (SELECT id FROM passage WHERE id < j.value ORDER BY id DESC LIMIT 3) ORDER BY 1, 2`
	queryAfter = `SELECT j.value, p.id FROM json_each(?) j CROSS JOIN passage p
		ON p.id IN (SELECT id FROM passage WHERE id > j.value ORDER BY id LIMIT 3) ORDER BY 1, 2`
)

// beside returns the numbers of the three passages before or after each of
// some numbers, in order.
func (p *pool) beside(ctx context.Context, query string, ids []int64) (map[int64][]int64, error) {
	rows, err := p.s.tx.QueryContext(ctx, query, list(ids))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := map[int64][]int64{}
	for rows.Next() {
		var of, id int64
		if err := rows.Scan(&of, &id); err != nil {
			return nil, err
		}
		out[of] = append(out[of], id)
	}
	return out, rows.Err()
}

// load reads passages that may be hits, as many as the bound on their text
// allows, and leaves out those that only repeat a newer one.
func (p *pool) load(ctx context.Context, ids []int64) error {
	for chunk := range slices.Chunk(ids, 100) {
		if p.size > poolBytes {
			break
		}
		if err := p.fetch(ctx, chunk); err != nil {
			return err
		}
		for _, id := range chunk {
			if d := p.docs[id]; d != nil {
				p.admit(d)
			}
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

// surround reads the neighbours of docs, the first docs first, as far as the
// bound on text allows. Where free is set they may be hits themselves.
func (p *pool) surround(ctx context.Context, docs []*doc, free bool) error {
	for chunk := range slices.Chunk(docs, 30) {
		if p.size > windowBytes {
			break
		}
		var ids []int64
		for _, d := range chunk {
			if !d.known(reach) {
				ids = append(ids, d.id)
			}
		}
		if err := p.link(ctx, ids); err != nil {
			return err
		}
		if !free {
			continue
		}
		for _, d := range chunk {
			for n, k := 0, d.prev; k != nil && n < reach; n, k = n+1, k.prev {
				p.neighbour(k)
			}
			for n, k := 0, d.next; k != nil && n < reach; n, k = n+1, k.next {
				p.neighbour(k)
			}
		}
	}
	return nil
}

// link joins passages with those beside them.
func (p *pool) link(ctx context.Context, ids []int64) error {
	if len(ids) == 0 {
		return nil
	}
	before, err := p.beside(ctx, queryBefore, ids)
	if err != nil {
		return err
	}
	after, err := p.beside(ctx, queryAfter, ids)
	if err != nil {
		return err
	}
	var unknown []int64
	for _, id := range ids {
		unknown = append(append(unknown, before[id]...), after[id]...)
	}
	slices.Sort(unknown)
	if err := p.fetch(ctx, slices.Compact(unknown)); err != nil {
		return err
	}
	for _, id := range ids {
		var last *doc
		for _, at := range append(append(before[id], id), after[id]...) {
			d := p.docs[at]
			if d == nil {
				break
			}
			if last != nil {
				last.next, d.prev = d, last
			}
			last = d
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
