package api

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox"
)

// Bounds of what is open at once, for each job.
const (
	maxScreens   = 32             // watched at once
	maxShells    = 8              // terminals that run
	maxAttached  = 32             // connections to terminals
	maxPreviews  = 256            // requests to ports and the notebook that are being answered
	maxDoors     = 500            // of one job that were used within a minute: one job's visitors keep nobody else's out
	maxLive      = 12 * time.Hour // of a connection; the page opens another
	dialMachine  = 10 * time.Second
	dialNotebook = 40 * time.Second // JupyterLab is started by the first who opens it
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
	doors map[string]usedDoors   // by job
	swept int64                  // when doors that matter no more were last removed, in Unix seconds
	seats map[string]*time.Timer // terminals that nobody is at
}

func (l *lives) init(a *API) {
	l.now = a.o.Now
	l.open, l.doors, l.seats = map[string]int{}, map[string]usedDoors{}, map[string]*time.Timer{}
}

// enter counts one more of a kind, at most most of a job.
func (l *lives) enter(kind, job string, most int) (leave func(), err error) {
	leave, _, err = l.queue(kind, job, most)
	return leave, err
}

// queue is enter, and says how many there were before.
func (l *lives) queue(kind, job string, most int) (leave func(), before int, err error) {
	key := kind + " " + job
	l.mu.Lock()
	defer l.mu.Unlock()
	before = l.open[key]
	if before >= most {
		return nil, before, &glovebox.Error{Code: glovebox.CodeUnavailable, Field: "id", Value: job, Msg: "too many connections to the " + kind + " of this job are open", Hint: "close one"}
	}
	l.open[key]++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.open[key]--; l.open[key] == 0 {
			delete(l.open, key)
		}
	}, before, nil
}

// usedDoors are nonces of doors that were used, until when they matter.
type usedDoors map[string]int64

// useDoor reports whether a door of a job was not used before.
func (l *lives) useDoor(job, nonce string, expires int64) bool {
	now := l.now().Unix()
	l.mu.Lock()
	defer l.mu.Unlock()
	if now-l.swept >= int64(doorTTL.Seconds()) {
		l.swept = now
		for j, used := range l.doors {
			maps.DeleteFunc(used, func(_ string, e int64) bool { return e <= now })
			if len(used) == 0 {
				delete(l.doors, j)
			}
		}
	}
	used := l.doors[job]
	if _, again := used[nonce]; again || len(used) >= maxDoors {
		return false
	}
	if used == nil {
		used = usedDoors{}
		l.doors[job] = used
	}
	used[nonce] = expires
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
