package api

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox"
)

// Bounds of what is open at once, for each job.
const (
	maxScreens   = 32  // watched at once
	maxShells    = 8   // terminals that run
	maxAttached  = 32  // connections to terminals
	maxPreviews  = 256 // requests to ports and the notebook that are being answered
	maxDoors     = 10_000
	maxLive      = 12 * time.Hour // of a connection; the page opens another
	dialMachine  = 10 * time.Second
	socketPing   = 25 * time.Second // less than proxies wait
	socketWrite  = 30 * time.Second
	unattended   = 15 * time.Minute // that a terminal runs without anyone at it
	idleTerminal = time.Hour
)

// lives counts what is open of the live views.
type lives struct {
	now func() time.Time

	mu    sync.Mutex
	open  map[string]int         // by kind and job
	doors map[string]int64       // nonces of doors that were used, until when they matter
	seats map[string]*time.Timer // terminals that nobody is at
}

func (l *lives) init(a *API) {
	l.now = a.o.Now
	l.open, l.doors, l.seats = map[string]int{}, map[string]int64{}, map[string]*time.Timer{}
}

// enter counts one more of a kind, at most most of a job.
func (l *lives) enter(kind, job string, most int) (leave func(), err error) {
	key := kind + " " + job
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[key] >= most {
		return nil, &glovebox.Error{Code: glovebox.CodeUnavailable, Field: "id", Value: job, Msg: "too many connections to the " + kind + " of this job are open", Hint: "close one"}
	}
	l.open[key]++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.open[key]--; l.open[key] == 0 {
			delete(l.open, key)
		}
	}, nil
}

// useDoor reports whether a door was not used before.
func (l *lives) useDoor(nonce string, expires int64) bool {
	now := l.now().Unix()
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, used := l.doors[nonce]; used {
		return false
	}
	if len(l.doors) >= maxDoors {
		for n, e := range l.doors {
			if e <= now {
				delete(l.doors, n)
			}
		}
		if len(l.doors) >= maxDoors {
			return false
		}
	}
	l.doors[nonce] = expires
	return true
}

var (
	errDrained = errors.New("the server is shutting down")
	errTooLong = errors.New("it was open for long enough: open another")
	errEnded   = errors.New("the job has ended")
	errIdle    = errors.New("nothing happened for an hour")
)

// liveContext returns the context of a connection that is to stay: it ends
// with the request, when the server drains, and after maxLive.
func (a *API) liveContext(r *http.Request) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(r.Context())
	timer := time.AfterFunc(maxLive, func() { cancel(errTooLong) })
	stop := make(chan struct{})
	context.AfterFunc(ctx, func() { timer.Stop(); close(stop) })
	go func() {
		select {
		case <-a.drain:
			cancel(errDrained)
		case <-stop:
		}
	}()
	return ctx, cancel
}
