package api

import (
	"context"
	"sync"
	"time"
)

const (
	positionTTL  = 500 * time.Millisecond // how old a position in the queue may be
	maxPositions = 10_000                 // jobs whose position is remembered
)

// positions remembers for a moment where jobs are in the queue: counting who
// is ahead takes the longer the longer the queue is, and that is when many ask.
type positions struct {
	mu sync.Mutex
	m  map[string]position
}

type position struct {
	pos   int64
	until time.Time
}

// of returns the position of a pending job. While one caller counts anew, the
// others go on with the old figure.
func (p *positions) of(ctx context.Context, s Store, id string) (int64, error) {
	now := time.Now()
	p.mu.Lock()
	old, known := p.m[id]
	if known && now.Before(old.until) {
		p.mu.Unlock()
		return old.pos, nil
	}
	if known {
		p.m[id] = position{old.pos, now.Add(positionTTL)}
	}
	p.mu.Unlock()
	pos, err := s.QueuePosition(ctx, id)
	if err != nil {
		return 0, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.m == nil || len(p.m) >= maxPositions {
		p.m = map[string]position{}
	}
	if pos == 0 {
		delete(p.m, id) // it is not pending any more
	} else {
		p.m[id] = position{pos, time.Now().Add(positionTTL)}
	}
	return pos, nil
}
