package worker

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/agent"
	"github.com/glovebox-dev/glovebox/internal/guest"
	"github.com/glovebox-dev/glovebox/internal/llm"
	"github.com/glovebox-dev/glovebox/internal/store"
)

// storeTries is how often a run is begun anew after the store failed, before
// the job ends in error.
const storeTries = 3

// Waits between attempts to do what has to be done.
const (
	firstWait = 100 * time.Millisecond
	maxWait   = 5 * time.Second
)

// run is one run of a job under one lease. One goroutine owns it: main.
type run struct {
	w     *Worker
	o     *Options
	life  *life
	lease store.Lease
	log   *slog.Logger
	wake  chan struct{} // receives when signals may wait

	ctx  context.Context // ends when the lease is lost or the worker is out of patience
	end  context.CancelCauseFunc
	host *host
	rec  *recorder
	pub  *publisher

	endSpan func(error)
	done    chan struct{} // closed when main has returned

	artifact *glovebox.Artifact // made, not yet recorded
}

func newRun(w *Worker, l *life, lease store.Lease) *run {
	r := &run{w: w, o: &w.o, life: l, lease: lease, wake: make(chan struct{}, 1), done: make(chan struct{}),
		log: w.o.Log.With("job", lease.JobID, "fence", lease.Fence)}
	ctx, endSpan := span(l.work, "job run", attribute.String("job", lease.JobID), attribute.Int64("fence", lease.Fence))
	r.ctx, r.end = context.WithCancelCause(ctx)
	r.endSpan = endSpan
	r.host = newHost(r)
	r.rec = newRecorder(r.host)
	r.pub = newPublisher(r.host)
	return r
}

// poke has the loop look for signals.
func (r *run) poke() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// errLost is why a run ends whose lease is lost.
var errLost = glovebox.Errorf(glovebox.CodeFenced, "the lease was lost")

// main runs the job and leaves it finished, released, or to its new owner.
func (r *run) main() {
	kept := make(chan struct{})
	stopKeeping := make(chan struct{})
	go func() {
		defer close(kept)
		r.keepLease(stopKeeping)
	}()
	defer func() {
		close(stopKeeping)
		<-kept
		r.endSpan(context.Cause(r.ctx)) // nil, unless it was cut off
		r.end(nil)
	}()
	defer r.host.close()
	defer r.rec.finish(0)
	defer r.pub.finish()
	idle := make(chan struct{})
	idleCtx, stopIdle := context.WithCancel(r.ctx)
	go func() {
		defer close(idle)
		r.host.box.idleLoop(idleCtx)
	}()
	defer func() {
		stopIdle()
		<-idle
	}()
	r.log.Info("job claimed", "worker", r.lease.Worker)

	out, err := r.guard(r.work)
	if err != nil && !r.lost(err) && !r.stopping(err) {
		r.log.Error("the job can't go on", "error", err)
		out, err = failed(failureOf(err)), nil
	}
	if err == nil && r.finish(out) {
		return
	}
	switch {
	case r.lost(err):
		r.w.metrics.lost.Inc()
		r.log.Warn("the lease was lost; the job is another worker's")
	default:
		r.release()
	}
}

func (r *run) lost(err error) bool {
	return glovebox.CodeOf(err) == glovebox.CodeFenced || errors.Is(context.Cause(r.ctx), errLost)
}

func (r *run) stopping(err error) bool {
	return errors.Is(err, agent.ErrDrained) || errors.Is(context.Cause(r.ctx), errStopping)
}

// work brings the job to its outcome. If the store fails in between, it
// begins anew from the log, a few times.
func (r *run) work() (agent.Outcome, error) {
	wait := firstWait
	for try := 1; ; try++ {
		out, err := r.attempt()
		if err == nil || try == storeTries || r.ctx.Err() != nil || glovebox.CodeOf(err) != glovebox.CodeUnavailable {
			return out, err
		}
		r.log.Warn("a fault interrupted the job; it is taken up again", "error", err)
		if !r.sleep(&wait) {
			return out, err
		}
	}
}

// sleep waits, longer each time. It reports false if the run ended meanwhile.
func (r *run) sleep(wait *time.Duration) bool {
	timer := time.NewTimer(*wait)
	defer timer.Stop()
	*wait = min(2**wait, maxWait)
	select {
	case <-timer.C:
		return true
	case <-r.ctx.Done():
		return false
	}
}

func (r *run) attempt() (agent.Outcome, error) {
	job, err := r.o.Store.Job(r.ctx, "", r.lease.JobID)
	if err != nil {
		return agent.Outcome{}, err
	}
	r.host.setJob(job)
	model, info, err := r.model()
	if err != nil {
		return r.modelless(err)
	}
	if out, err := r.prepare(); out != nil || err != nil {
		if out == nil {
			out = &agent.Outcome{}
		}
		return *out, err
	}
	if err := r.recallProject(); err != nil {
		return agent.Outcome{}, err
	}
	out, err := r.loop(model, info)
	for errors.Is(err, agent.ErrModelChanged) {
		if model, info, err = r.model(); err != nil {
			return r.modelless(err)
		}
		r.log.Info("another model goes on with the job", "model", r.host.state().Model)
		out, err = r.loop(model, info)
	}
	if err != nil || out.Status != glovebox.StatusComplete {
		return out, err
	}
	return r.pack(out)
}

// model returns the model that the job names now.
func (r *run) model() (llm.Model, llm.Info, error) { return r.o.Models(r.ctx, r.host.state().Model) }

// modelless is how an attempt ends for which there is no model.
func (r *run) modelless(err error) (agent.Outcome, error) {
	if r.ctx.Err() != nil {
		return agent.Outcome{}, context.Cause(r.ctx)
	}
	return failed(glovebox.Failure{Code: "model", Message: plain(err), Hint: hintOf(err)}), nil
}

// checkModel says why a model can't go on with the job, nil if it can.
func (r *run) checkModel(ctx context.Context, name string) error {
	_, info, err := r.o.Models(ctx, name)
	if err == nil && !info.Priced && r.host.state().Limits.CostMicros > 0 {
		err = glovebox.Errorf(glovebox.CodeInvalid, "its price is not known, so the job's limit of money can't be kept")
	}
	return err
}

// loop runs the agent.
func (r *run) loop(model llm.Model, info llm.Info) (agent.Outcome, error) {
	id := r.lease.JobID
	o := agent.Options{
		Host: r.host, Job: r.host.state(), Model: tracedModel{model, r.host.state().Model}, Info: info, Tools: r.o.Tools, Standing: r.o.Standing,
		Events: func(ctx context.Context, after int64, limit int) ([]glovebox.Event, error) {
			return r.o.Store.Events(ctx, id, after, limit)
		},
		Workspace:  func(g *guest.Client) agent.Workspace { return g },
		CheckModel: r.checkModel, Handover: r.host.handover, StepDone: r.stepDone,
		Load: r.host.load, SignalWake: r.wake, Drain: r.life.drain, Log: r.log,
	}
	if hub := r.o.Live; hub != nil {
		o.Live = func(e glovebox.Event) { hub.Publish(id, e) }
	}
	if r.o.Desktop && o.Job.Step == 0 {
		r.rec.stepDone(0) // what it begins with
	}
	if o.Job.Step == 0 {
		r.pub.poke()
	}
	search, closed := r.openRecall()
	defer closed()
	o.Recall, o.Digests = search, r.o.Digests
	return agent.Run(r.ctx, o)
}

// stepDone is told after each step. It does not block.
func (r *run) stepDone(step int64) {
	r.rec.stepDone(step)
	r.pub.poke()
}

// prepare gives the job its sandbox. A non-nil outcome ends the job.
func (r *run) prepare() (*agent.Outcome, error) {
	return r.cancellable(func(ctx context.Context) error {
		g, err := r.host.Guest(ctx)
		if err != nil {
			return err
		}
		return r.host.saveStart(ctx, g)
	}, func(err error) agent.Outcome { return failed(noMachine(err)) })
}

// cancellable runs f, and cancels it when the user cancels the job. It
// returns how the job ends: by that cancel, or as fail says if f failed; nil
// if it goes on.
func (r *run) cancellable(f func(context.Context) error, fail func(error) agent.Outcome) (*agent.Outcome, error) {
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := r.guard(func() (agent.Outcome, error) { return agent.Outcome{}, f(ctx) })
		done <- err
	}()
	drain := r.life.drain
	var cancelled *agent.Outcome
	look := true // also at what was sent before
	for {
		if look && cancelled == nil {
			out, err := r.cancelSignal()
			if err != nil {
				r.log.Warn("can't read signals", "error", err)
			}
			if cancelled = out; cancelled != nil {
				cancel()
			}
		}
		look = false
		select {
		case err := <-done:
			switch {
			case r.ctx.Err() != nil:
				return nil, context.Cause(r.ctx)
			case cancelled != nil:
				return cancelled, nil
			case err != nil && drain == nil && ctx.Err() != nil:
				return nil, agent.ErrDrained
			case glovebox.CodeOf(err) == glovebox.CodeFenced || isStoreError(err):
				return nil, err
			case err != nil:
				out := fail(err)
				return &out, nil
			}
			return nil, nil
		case <-r.wake:
			look = true
		case <-drain:
			drain = nil
			cancel() // it is begun anew elsewhere
		}
	}
}

// cancelSignal returns how the job ends if the user has cancelled it.
func (r *run) cancelSignal() (*agent.Outcome, error) {
	signals, err := r.host.Signals(r.ctx)
	if err != nil {
		return nil, err
	}
	for _, s := range signals {
		if s.Cancel {
			return &agent.Outcome{Status: glovebox.StatusCancelled, Consume: []int64{s.ID}}, nil
		}
	}
	return nil, nil
}

// keepLease renews the lease until stop. If it is lost, or can't be renewed
// before it runs out, the run ends.
func (r *run) keepLease(stop <-chan struct{}) {
	held := time.Now().Add(r.o.Lease) // as of the claim, roughly; the store knows exactly
	tick := time.NewTicker(r.o.Renew)
	defer tick.Stop()
	for {
		over := time.NewTimer(time.Until(held))
		select {
		case <-stop:
			over.Stop()
			return
		case <-over.C: // others may have it by now
			r.end(errLost)
			return
		case <-tick.C:
			over.Stop()
		}
		begun := time.Now()
		ctx, cancel := context.WithDeadline(context.WithoutCancel(r.ctx), held)
		err := r.o.Store.Renew(ctx, r.lease, r.o.Lease)
		cancel()
		switch {
		case err == nil:
			held = begun.Add(r.o.Lease)
			continue
		case glovebox.CodeOf(err) == glovebox.CodeFenced || glovebox.CodeOf(err) == glovebox.CodeNotFound:
		case time.Now().Before(held):
			r.log.Warn("can't renew the lease", "error", err, "left", time.Until(held).Round(time.Millisecond))
			continue
		}
		r.end(errLost)
		return
	}
}
