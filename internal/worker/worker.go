// Package worker runs jobs: it claims them with leases, gives each a sandbox,
// runs the agent's loop, keeps checkpoints, packs the artifact and records
// the end.
//
// # Who owns what
//
// One goroutine owns the run of a job. It stops at once when the lease is
// lost, and appends nothing from then on: the store would refuse it, and
// whoever holds the job now has its sandbox.
//
// # How a job ends
//
// Exactly one Finished event is appended, together with the artifact of a
// complete job. If the store refuses for the moment, the worker tries again
// until it succeeds or the lease is lost. Then the sandbox is destroyed.
//
// # Faults
//
// What goes wrong in one job ends that job, with a cause that its user
// understands, and not the worker. A sandbox that dies is rebuilt from the
// last checkpoint, at most [maxLost] times in a job. A worker that dies leaves
// its jobs' sandboxes; who claims the jobs finds them, and [Worker.Start]
// destroys those that no job needs any more.
package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/agent"
	"github.com/glovebox-dev/glovebox/internal/blob"
	"github.com/glovebox-dev/glovebox/internal/egress"
	"github.com/glovebox-dev/glovebox/internal/guest"
	"github.com/glovebox-dev/glovebox/internal/live"
	"github.com/glovebox-dev/glovebox/internal/llm"
	"github.com/glovebox-dev/glovebox/internal/memory/recall"
	"github.com/glovebox-dev/glovebox/internal/project"
	"github.com/glovebox-dev/glovebox/internal/sandbox"
	"github.com/glovebox-dev/glovebox/internal/store"
	"github.com/glovebox-dev/glovebox/internal/tool"
)

// Options configures a Worker. Store, Blobs, Driver and Models are needed.
type Options struct {
	Name        string // of this worker, in events; empty means host name, process id and something random
	Concurrency int    // jobs that run at once; 0 means 2

	// Lease is how long a job stays with a worker that died, Renew how often a
	// living one renews it. 0 means 15 s, and a fifth of Lease.
	Lease, Renew time.Duration

	// Presence is a directory that the workers of one machine share. With it,
	// the jobs of one that died are taken over at once, without waiting for
	// their leases to run out. Empty: nobody knows who died.
	Presence string

	// Drain is how long Stop waits for what the jobs are doing to end by
	// itself; what has not ended then has an unknown outcome for who runs the
	// job next. 0 means 5 s; negative is not at all.
	Drain time.Duration

	// Poll is how often the queue is looked at beside being woken. 0 means 2 s.
	Poll time.Duration

	// Sweep is how often sandboxes that no job needs are looked for, beside
	// at Start: a job that was cancelled in the queue may have left one. 0
	// means 1 minute.
	Sweep time.Duration

	Store      store.Store
	Blobs      blob.Store
	Driver     sandbox.Driver
	DriverName string    // for events, e.g. "gvisor"
	Image      string    // of every sandbox; empty is the driver's default
	Live       *live.Hub // nil: nobody watches

	// Projects keeps what jobs of a project learned. Whoever else changes it in
	// this process has to have the same one. nil: one in Blobs.
	Projects *project.Store

	// Models returns the model of a job, by its name ("provider:model"). Its
	// error ends the job and is shown to the user.
	Models func(ctx context.Context, name string) (llm.Model, llm.Info, error)

	Tools    []tool.Tool // nil means tool.All()
	Standing []string    // standing instructions of whoever runs the server

	Recall  *recall.Keeper // search indexes of what jobs saw; nil: nothing can be recalled
	Digests bool           // summaries of folded history are derived; no model is asked for one

	EgressDefaults egress.Defaults
	Egress         egress.Options // Record is the worker's own

	// GuestSettings is what every guest is told; Hostname, Now, Secret and Seed are
	// the worker's own.
	GuestSettings guest.Settings

	// Desktop starts the services of every machine (display, desktop,
	// Jupyter) in the background, as soon as it is there.
	Desktop bool

	// IdlePause is after how long a machine is paused whose job waits for an
	// answer while nobody watches. 0 means 1 minute; negative is never.
	IdlePause time.Duration

	screen    func(*guest.Client) screen // for tests; nil: the guest's own
	patience  time.Duration              // for tests: in place of frameGrace and handoverTimeout; 0: these
	published func(error)                // for tests: told each time that the files below guest.StateDir were brought up to date, or why not

	Metrics prometheus.Registerer // nil: none are kept
	Log     *slog.Logger          // nil: none
	Now     func() time.Time      // the clock for events; nil means time.Now
}

// Worker runs jobs. Make it with New.
type Worker struct {
	o       Options
	metrics *metrics

	mu      sync.Mutex
	running map[string]*run // by job id
	life    *life           // nil when stopped
}

// life is what exists between Start and Stop.
type life struct {
	claim  context.Context // ends when Stop begins
	stop   context.CancelFunc
	work   context.Context // ends when Stop is out of patience
	kill   context.CancelCauseFunc
	drain  chan struct{} // closed when Stop begins
	slots  chan struct{} // one token a job that runs
	freed  chan struct{} // receives when a slot became free
	claims sync.WaitGroup
	runs   sync.WaitGroup

	presence *presence // nil: none
	leave    sync.Once
}

// errStopping is why a run ends when its worker stops.
var errStopping = errors.New("the worker is stopping")

// New returns a worker that is not started. It panics if something that is
// needed is missing.
func New(o Options) *Worker {
	if o.Store == nil || o.Blobs == nil || o.Driver == nil || o.Models == nil {
		panic("worker: Store, Blobs, Driver and Models are needed")
	}
	if o.Name == "" {
		host, _ := os.Hostname()
		id := glovebox.NewID()
		o.Name = fmt.Sprintf("%s-%d-%s", host, os.Getpid(), id[len(id)-4:])
	}
	if o.Concurrency <= 0 {
		o.Concurrency = 2
	}
	if o.Tools == nil {
		o.Tools = tool.All()
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Projects == nil {
		o.Projects = project.NewStore(o.Blobs, o.Now)
	}
	orDefault(&o.Lease, 15*time.Second)
	orDefault(&o.Renew, o.Lease/5)
	orDefault(&o.Poll, 2*time.Second)
	orDefault(&o.Sweep, time.Minute)
	if o.IdlePause == 0 {
		o.IdlePause = time.Minute
	}
	if o.Drain == 0 {
		o.Drain = 5 * time.Second
	}
	o.Tools = traced(o.Tools)
	return &Worker{o: o, metrics: newMetrics(o.Metrics, o.Tools), running: map[string]*run{}}
}

func orDefault(d *time.Duration, def time.Duration) {
	if *d <= 0 {
		*d = def
	}
}

// Start begins to claim and run jobs, and to remove what a crash left behind.
// It does not wait. A worker that is started already is not started again.
// After Stop it may be started anew. When ctx ends, the worker stops as with
// Stop, which has to be called nevertheless, to wait for it.
func (w *Worker) Start(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.life != nil {
		return glovebox.Errorf(glovebox.CodeConflict, "the worker is started already")
	}
	l := &life{drain: make(chan struct{}), slots: make(chan struct{}, w.o.Concurrency), freed: make(chan struct{}, 1)}
	if w.o.Presence != "" {
		p, err := announce(w.o.Presence, w.o.Name)
		if err != nil {
			return err
		}
		l.presence = p
		// Who had this name before is dead. Without this its jobs wait for their leases to end.
		if err := w.o.Store.ExpireLeases(ctx, w.o.Name); err != nil {
			w.o.Log.Warn("can't take over from the worker of the same name", "error", err)
		}
	}
	l.claim, l.stop = context.WithCancel(ctx)
	l.work, l.kill = context.WithCancelCause(context.WithoutCancel(ctx))
	w.life = l
	l.claims.Go(func() { w.claimLoop(l) })
	l.claims.Go(func() { w.sweepLoop(l) })
	return nil
}

// Stop ends claiming, hands the jobs that run over (their sandboxes stay for
// who runs them next), and returns when all is done. If ctx ends first, the
// actions that still run are cut off at once. Calling it again, or without
// Start, does nothing.
func (w *Worker) Stop(ctx context.Context) error {
	w.mu.Lock()
	l := w.life
	w.mu.Unlock()
	if l == nil {
		return nil
	}
	l.stop()
	stopKilling := context.AfterFunc(ctx, func() { l.kill(errStopping) })
	defer stopKilling()
	l.claims.Wait() // and with it the runs
	l.kill(errStopping)
	if l.presence != nil {
		l.leave.Do(l.presence.leave)
	}

	w.mu.Lock()
	if w.life == l {
		w.life = nil
	}
	w.mu.Unlock()
	return nil
}

// Guest returns a connection to the sandbox of a job that this worker runs.
func (w *Worker) Guest(jobID string) (*guest.Client, bool) {
	w.mu.Lock()
	r := w.running[jobID]
	w.mu.Unlock()
	if r == nil {
		return nil, false
	}
	c := r.host.box.look()
	return c, c != nil
}

// Running returns how many jobs this worker runs.
func (w *Worker) Running() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.running)
}

// claimLoop claims jobs while there are slots, until Stop; then it waits for
// the runs.
func (w *Worker) claimLoop(l *life) {
	defer l.runs.Wait()
	defer func() { // the runs hear of it, then lose patience
		close(l.drain)
		if w.o.Drain < 0 {
			l.kill(errStopping)
			return
		}
		timer := time.AfterFunc(w.o.Drain, func() { l.kill(errStopping) })
		context.AfterFunc(l.work, func() { timer.Stop() })
	}()
	wake := w.o.Store.Wake(l.claim)
	poll := time.NewTicker(w.o.Poll)
	defer poll.Stop()
	for {
		w.claimAll(l)
		select {
		case <-l.claim.Done():
			return
		case _, open := <-wake:
			if !open {
				wake = nil
			}
			w.pokeRuns()
		case <-poll.C:
			w.pokeRuns()
		case <-l.freed:
		}
	}
}

// claimAll claims until there is no job or no slot.
func (w *Worker) claimAll(l *life) {
	for {
		select {
		case l.slots <- struct{}{}:
		default:
			return
		}
		lease, err := w.o.Store.Claim(l.claim, w.o.Name, w.o.Lease)
		if err != nil || lease == nil {
			<-l.slots
			if err != nil && l.claim.Err() == nil {
				w.o.Log.Warn("can't claim a job", "error", err)
			}
			return
		}
		w.metrics.claimed.Inc()
		l.runs.Go(func() {
			defer func() {
				<-l.slots
				select {
				case l.freed <- struct{}{}:
				default:
				}
			}()
			w.run(l, *lease)
		})
	}
}

// pokeRuns has every run look for signals.
func (w *Worker) pokeRuns() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.running {
		r.poke()
	}
}

// run runs one job. A panic ends the job and not the worker.
func (w *Worker) run(l *life, lease store.Lease) {
	r := newRun(w, l, lease)
	defer close(r.done)
	w.mu.Lock()
	before := w.running[lease.JobID]
	w.running[lease.JobID] = r
	w.mu.Unlock()
	if before != nil { // we could not renew our own lease, and claimed the job anew
		before.end(errLost)
		<-before.done
	}
	w.metrics.running.Inc()
	defer func() {
		w.metrics.running.Dec()
		w.mu.Lock()
		if w.running[lease.JobID] == r {
			delete(w.running, lease.JobID)
		}
		w.mu.Unlock()
	}()
	r.main()
}

// guard runs f and returns a panic in it as an error.
func (r *run) guard(f func() (agent.Outcome, error)) (out agent.Outcome, err error) {
	defer func() {
		if v := recover(); v != nil {
			r.log.Error("panic while a job was run", "panic", v, "stack", string(debug.Stack()))
			err = glovebox.Errorf(glovebox.CodeInternal, "a fault of Glovebox: %s", fmt.Sprint(v))
		}
	}()
	return f()
}
