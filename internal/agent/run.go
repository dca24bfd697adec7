package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/memory"
	"github.com/glovebox-dev/glovebox/internal/tool"
)

// ErrDrained is returned by Run after Options.Drain was closed.
var ErrDrained = errors.New("agent: drained")

// ErrModelChanged is returned by Run when the log says that another model than
// Options.Model goes on. What ran is recorded.
var ErrModelChanged = errors.New("agent: another model goes on")

// pageSize is how many events are read at once.
const pageSize = 500

// run is one Run. It belongs to one goroutine.
type run struct {
	Options
	id    string // of the job
	named string // its model, as the job names it
	tools map[string]*tool.Tool
	job   *glovebox.Job // the newest state that is known; only for the goroutine of Run

	// Readings of the log, up to event at.seq.
	at     position
	memory *memory.Builder

	lookout lookout // for files of instructions

	summary *summaryCall // that runs beside the loop; nil if none does

	gate *gate // for the tools
	held bool  // it was said that finish waits for a person

	dirty        bool // the workspace may have changed since the last checkpoint
	unsavedSteps int  // checkpoints in a row that failed
}

// ended is returned, as an error, by what finds that the job has ended.
type ended struct{ Outcome }

func (e *ended) Error() string { return "agent: the job ended: " + string(e.Status) }

// fail returns the error that ends the job with a failure.
func fail(f glovebox.Failure) error {
	return &ended{Outcome{Status: glovebox.StatusError, Failure: &f}}
}

func newRun(ctx context.Context, o Options) (*run, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Live == nil {
		o.Live = func(glovebox.Event) {}
	}
	if o.Jitter == nil {
		o.Jitter = rand.Float64
	}
	if o.Prove == nil {
		o.Prove = prove
	}
	r := &run{Options: o, id: o.Job.ID, named: o.Job.Model, job: o.Job, tools: make(map[string]*tool.Tool, len(o.Tools))}
	for i := range o.Tools {
		t := &o.Tools[i]
		if r.tools[t.Name] != nil {
			return nil, glovebox.Errorf(glovebox.CodeInternal, "two tools are named %q", t.Name)
		}
		r.tools[t.Name] = t
	}
	r.memory = memory.New(tool.Memory(o.Tools, o.Standing, o.Info))
	if err := r.load(ctx); err != nil {
		return nil, err
	}
	if r.at.seq == 0 {
		return nil, glovebox.Errorf(glovebox.CodeInternal, "job %s has no events", o.Job.ID)
	}
	r.dirty = r.at.unsaved
	r.gate = newGate(r.at.holder())
	return r, nil
}

// loop steps until the job ends or can't go on here.
func (r *run) loop(ctx context.Context) (Outcome, error) {
	defer r.abandon()
	for {
		err := r.step(ctx)
		end, over := errors.AsType[*ended](err)
		if over || errors.Is(err, ErrDrained) || errors.Is(err, ErrModelChanged) {
			if failed := r.dismiss(ctx); failed != nil {
				err, over = failed, false
			}
		}
		switch {
		case over:
			return end.Outcome, nil
		case ctx.Err() != nil:
			return Outcome{}, fmt.Errorf("agent: %w", context.Cause(ctx))
		case err != nil && !errors.Is(err, errAgain):
			return Outcome{}, err
		}
	}
}

// step does the next thing that the log asks for.
func (r *run) step(ctx context.Context) error {
	if isClosed(r.Drain) {
		if err := r.checkpoint(ctx); err != nil { // the next worker may have another sandbox
			return err
		}
		return ErrDrained
	}
	if _, err := r.takeSignals(ctx); err != nil {
		return err
	}
	if err := r.collect(ctx); err != nil {
		return err
	}
	if r.at.summarizing != nil && r.summary == nil {
		return r.summariesInterrupted(ctx)
	}
	stage := r.at.stage()
	if stage != stageVerified && r.at.model != r.named {
		return ErrModelChanged
	}
	switch stage {
	case stageVerified:
		return &ended{Outcome{Status: glovebox.StatusComplete, Summary: r.at.verified.Summary}}
	case stageUnanswered:
		return r.recordInterrupted(ctx)
	case stageCalls:
		if r.timeLeft() == 0 {
			if err := r.checkpoint(ctx); err != nil {
				return err
			}
			return fail(*timeReached(r.job))
		}
		return r.call(ctx, r.at.nextCall())
	case stageNudge:
		return r.nudge(ctx)
	default:
		return r.ask(ctx)
	}
}

// append records events, consuming signals, and reads them.
func (r *run) append(ctx context.Context, events []glovebox.Event, consume ...int64) error {
	job, err := r.Host.Append(ctx, events, consume...)
	if err != nil {
		return err
	}
	r.job = job
	if job.Seq != r.at.seq+int64(len(events)) {
		return r.sync(ctx) // others append too: what the sandbox reached, for one
	}
	for _, e := range events {
		e.Seq = r.at.seq + 1
		if err := r.read(e); err != nil {
			return err
		}
	}
	return nil
}

// sync reads what is new in the log.
func (r *run) sync(ctx context.Context) error {
	for {
		page, err := r.Events(ctx, r.at.seq, pageSize)
		if err != nil {
			return err
		}
		for _, e := range page {
			if err := r.read(e); err != nil {
				return err
			}
		}
		if len(page) < pageSize {
			return nil
		}
	}
}

func (r *run) read(e glovebox.Event) error {
	if err := r.memory.Apply(e); err != nil {
		return err
	}
	if err := r.lookout.apply(e); err != nil {
		return err
	}
	return r.at.apply(e)
}

// event returns an event of now.
func event(typ glovebox.EventType, data any) glovebox.Event {
	return glovebox.NewEvent(time.Now(), typ, data)
}

// phase returns the event that brings the job into a phase; none if it is in it.
func (r *run) phase(p glovebox.Phase) []glovebox.Event {
	if r.job.Phase == p {
		return nil
	}
	return []glovebox.Event{event(glovebox.EventPhase, glovebox.PhaseChanged{Phase: p})}
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}
