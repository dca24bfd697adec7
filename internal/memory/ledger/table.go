package ledger

import (
	"container/list"
	"strconv"
	"strings"
)

// table is rows by key, the most recently touched at the end. It holds at
// most so many: the one that was touched longest ago makes room.
type table[T any] struct {
	max     int
	rows    map[string]*list.Element
	order   list.List // of *row[T]
	dropped int64     // rows that made room
	gone    func(*T)  // told of each of them; may be nil
}

type row[T any] struct {
	key   string
	value T
}

func newTable[T any](most int) *table[T] {
	return &table[T]{max: most, rows: make(map[string]*list.Element)}
}

// get returns the row of a key without touching it, nil if there is none.
func (t *table[T]) get(key string) *T {
	if e, ok := t.rows[key]; ok {
		return &e.Value.(*row[T]).value
	}
	return nil
}

// touch returns the row of a key, which it makes if there is none, and puts it last.
func (t *table[T]) touch(key string) *T {
	if e, ok := t.rows[key]; ok {
		t.order.MoveToBack(e)
		return &e.Value.(*row[T]).value
	}
	if t.order.Len() >= t.max {
		oldest := t.order.Front()
		r := t.order.Remove(oldest).(*row[T])
		delete(t.rows, r.key)
		t.dropped++
		if t.gone != nil {
			t.gone(&r.value)
		}
	}
	r := &row[T]{key: strings.Clone(key)}
	t.rows[r.key] = t.order.PushBack(r)
	return &r.value
}

// remove takes a row out.
func (t *table[T]) remove(key string) {
	if e, ok := t.rows[key]; ok {
		t.order.Remove(e)
		delete(t.rows, key)
	}
}

// newest calls f with each row, the most recently touched first, until it
// returns false.
func (t *table[T]) newest(f func(*T) bool) {
	for e := t.order.Back(); e != nil; e = e.Prev() {
		if !f(&e.Value.(*row[T]).value) {
			return
		}
	}
}

// recent is how many of the newest events a trail names.
const recent = 4

// trail is the events that touched something: the first, the newest few, and
// how many there are.
type trail struct {
	first int64
	last  [recent]int64 // ascending; 0 where there are fewer
	n     int64
}

func (t *trail) add(seq int64) {
	if t.n > 0 && t.last[recent-1] == seq {
		return
	}
	if t.n == 0 {
		t.first = seq
	}
	t.n++
	copy(t.last[:], t.last[1:])
	t.last[recent-1] = seq
}

// newest returns the newest event.
func (t *trail) newest() int64 { return t.last[recent-1] }

// String names the events: "event 7", "events 3, 7", "events 3 ... 60, 71 (19 times)".
func (t *trail) String() string { return t.naming(recent) }

// naming is String with at most so many of the newest.
func (t *trail) naming(most int) string {
	var b strings.Builder
	shown := int(min(t.n, int64(most)))
	if t.n == 1 {
		return "event " + strconv.FormatInt(t.first, 10)
	}
	b.WriteString("events ")
	if t.n > int64(shown) {
		b.WriteString(strconv.FormatInt(t.first, 10))
		if t.n > int64(shown)+1 {
			b.WriteString(" ... ")
		} else {
			b.WriteString(", ")
		}
	}
	for i := recent - shown; i < recent; i++ {
		b.WriteString(strconv.FormatInt(t.last[i], 10))
		if i < recent-1 {
			b.WriteString(", ")
		}
	}
	if t.n > int64(shown)+1 {
		b.WriteString(" (" + strconv.FormatInt(t.n, 10) + " times)")
	}
	return b.String()
}
