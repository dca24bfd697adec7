package sqlite

import (
	"container/list"
	"sync"

	"github.com/glovebox-dev/glovebox"
)

// cache holds decoded states, the least recently used leaving first. A state
// is valid for one sequence number of one row, which the reader compares with
// the database: so the cache is never wrong, whoever else writes.
type cache struct {
	mu    sync.Mutex
	limit int64
	used  int64
	order *list.List // of *cached, most recent first
	byID  map[string]*list.Element
}

type cached struct {
	id   string
	num  int64
	job  *glovebox.Job // never changed
	size int64
}

func newCache(limit int64) *cache {
	return &cache{limit: limit, order: list.New(), byID: map[string]*list.Element{}}
}

// get returns the state of the row num at seq, which must not be changed.
func (c *cache) get(id string, num, seq int64) (*glovebox.Job, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	el, ok := c.byID[id]
	if !ok {
		return nil, false
	}
	e := el.Value.(*cached)
	if e.num != num || e.job.Seq != seq {
		return nil, false
	}
	c.order.MoveToFront(el)
	return e.job, true
}

// put remembers a state, unless a newer one of the same row is there.
func (c *cache) put(id string, num int64, j *glovebox.Job, size int64) {
	size += 1024 // what the entry takes beside the texts
	c.mu.Lock()
	defer c.mu.Unlock()
	if el, ok := c.byID[id]; ok {
		e := el.Value.(*cached)
		if e.num == num && e.job.Seq > j.Seq {
			return
		}
		c.used += size - e.size
		e.num, e.job, e.size = num, j, size
		c.order.MoveToFront(el)
	} else {
		c.byID[id] = c.order.PushFront(&cached{id: id, num: num, job: j, size: size})
		c.used += size
	}
	for c.used > c.limit && c.order.Len() > 0 {
		c.remove(c.order.Back())
	}
}

func (c *cache) drop(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if el, ok := c.byID[id]; ok {
		c.remove(el)
	}
}

func (c *cache) remove(el *list.Element) {
	e := c.order.Remove(el).(*cached)
	delete(c.byID, e.id)
	c.used -= e.size
}
