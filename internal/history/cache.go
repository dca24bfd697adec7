package history

import (
	"context"
	"sync"
	"time"
)

// Bounds of a cache.
const (
	cachedJobs    = 64
	cachedObjects = 1_000_000 // of all jobs; some 80 bytes of memory each
	loadTimeout   = time.Minute
	loaders       = 2 // jobs whose packs are read in at once
)

// Cache keeps the histories of the jobs that were looked at last.
type Cache struct {
	open    Opener
	loaders chan struct{}

	mu    sync.Mutex
	repos map[string]*cached
	clock int64
}

type cached struct {
	repo *Repo
	used int64 // by the cache's clock
	size int   // objects, when it was looked at last
}

// NewCache returns an empty cache.
func NewCache(open Opener) *Cache {
	return &Cache{open: open, loaders: make(chan struct{}, loaders), repos: map[string]*cached{}}
}

// Repo returns the history of a job, with the given packs read in. It takes
// at most a minute; what it came to counts the next time.
func (c *Cache) Repo(ctx context.Context, job string, packs []string) (*Repo, error) {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	r := c.get(job)
	if ok, err := r.loaded(packs); err != nil {
		return nil, err
	} else if !ok {
		select {
		case c.loaders <- struct{}{}:
			defer func() { <-c.loaders }()
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if err := r.Load(ctx, packs); err != nil {
			return nil, err
		}
	}
	c.trim(job, r)
	return r, nil
}

func (c *Cache) get(job string) *Repo {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clock++
	e := c.repos[job]
	if e == nil {
		e = &cached{repo: New(c.open)}
		c.repos[job] = e
	}
	e.used = c.clock
	return e.repo
}

// trim drops the histories that were not used for the longest time. Who uses
// one goes on with it.
func (c *Cache) trim(job string, r *Repo) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.repos[job]; e != nil && e.repo == r {
		e.size = r.size()
	}
	for {
		total, oldest := 0, ""
		for id, e := range c.repos {
			total += e.size
			if id != job && (oldest == "" || e.used < c.repos[oldest].used) {
				oldest = id
			}
		}
		if oldest == "" || len(c.repos) <= cachedJobs && total <= cachedObjects {
			return
		}
		delete(c.repos, oldest)
	}
}
