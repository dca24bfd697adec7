package api

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/store"
)

const (
	readyTTL  = 3 * time.Second // how old the answer to a probe may be
	readyWait = 2 * time.Second // for a store that is slow
)

// readiness remembers for a moment whether the store works: probes come often,
// and to find out costs a write.
type readiness struct {
	now  func() time.Time
	wait time.Duration // readyWait

	mu    sync.Mutex
	err   error
	until time.Time
	asked chan struct{} // closed when the check that runs has ended; nil if none runs
}

// check returns why the store does not work, nil if it does. A check that
// takes longer than a moment goes on for those who ask next.
func (rd *readiness) check(ctx context.Context, s Store) error {
	rd.mu.Lock()
	if rd.now().Before(rd.until) {
		defer rd.mu.Unlock()
		return rd.err
	}
	if rd.asked == nil {
		rd.asked = make(chan struct{})
		go rd.ask(context.WithoutCancel(ctx), s, rd.asked)
	}
	asked := rd.asked
	rd.mu.Unlock()
	timer := time.NewTimer(rd.wait)
	defer timer.Stop()
	select {
	case <-asked:
		rd.mu.Lock()
		defer rd.mu.Unlock()
		return rd.err
	case <-timer.C:
		return errSlowStore
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

var errSlowStore = &glovebox.Error{Code: glovebox.CodeUnavailable, Msg: "the store does not answer", Hint: "look into the server's log"}

func (rd *readiness) ask(ctx context.Context, s Store, asked chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var err error = errSlowStore // if it panics
	defer func() {
		_ = recover() // a probe is no reason to take the server down
		rd.mu.Lock()
		defer rd.mu.Unlock()
		rd.err, rd.until, rd.asked = err, rd.now().Add(readyTTL), nil
		close(asked)
	}()
	err = probe(ctx, s)
}

// probe uses the store once.
func probe(ctx context.Context, s Store) error {
	_, err := s.Job(ctx, glovebox.DefaultTenant, strings.Repeat("0", len(glovebox.NewID())))
	if err != nil && glovebox.CodeOf(err) != glovebox.CodeNotFound {
		return &glovebox.Error{Code: glovebox.CodeUnavailable, Msg: errSlowStore.Msg, Hint: errSlowStore.Hint, Err: err}
	}
	if c, ok := s.(store.Checker); ok {
		return c.Check(ctx)
	}
	return nil
}

// reason is what a probe is told of an error: neither paths nor causes.
func reason(err error) error {
	e, ok := errors.AsType[*glovebox.Error](err)
	if !ok {
		return errSlowStore
	}
	return &glovebox.Error{Code: glovebox.CodeUnavailable, Msg: e.Msg, Hint: e.Hint}
}
