package agent

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/clip"
)

// news is what people want of the job that concerns what is running.
type news struct {
	said  bool // the user said something
	model bool // another model goes on
}

// takeSignals records what people want of the job. A cancel is returned as
// the end of the job.
func (r *run) takeSignals(ctx context.Context) (heard news, err error) {
	signals, err := r.Host.Signals(ctx)
	if err != nil {
		return heard, err
	}
	var events []glovebox.Event
	var consume []int64
	cancelled := false
	taken := r.at.taken
	model := r.at.model
	for _, s := range signals {
		if s.Cancel {
			cancelled = true
			break
		}
		switch {
		case s.Limits != nil:
			events = append(events, event(glovebox.EventLimitsRaised, glovebox.LimitsRaised{Limits: *s.Limits}))
		case s.Notice != "":
			events = append(events, event(glovebox.EventNotice, glovebox.Notice{Text: s.Notice}))
		case s.Control != nil && (*s.Control == glovebox.ControlUser) == (taken != nil): // it is so already
		case s.Control != nil:
			c := r.handover(ctx, *s.Control, taken)
			if taken = nil; c.Control == glovebox.ControlUser {
				taken = &c
			}
			events = append(events, event(glovebox.EventControl, c))
		case s.Model != "" && s.Model == model: // it is so already
		case s.Model != "":
			e := r.modelEvent(ctx, s.Model)
			if e.Type == glovebox.EventModelChanged {
				model, heard.model = s.Model, s.Model != r.named
			}
			events = append(events, e)
		default:
			events = append(events, event(glovebox.EventUserMessage, glovebox.UserMessage{Text: s.Text, Blob: s.Blob, Size: s.Size}))
			heard.said = true
		}
		consume = append(consume, s.ID)
	}
	if len(consume) > 0 {
		if err := r.append(ctx, events, consume...); err != nil {
			return heard, err
		}
		r.gate.set(r.at.holder())
	}
	if cancelled {
		end := &ended{Outcome{Status: glovebox.StatusCancelled}}
		for _, s := range signals[len(consume):] {
			end.Consume = append(end.Consume, s.ID)
		}
		return heard, end
	}
	return heard, nil
}

// modelEvent returns the event with which another model goes on, or the
// notice that says why it can't.
func (r *run) modelEvent(ctx context.Context, name string) glovebox.Event {
	if r.CheckModel != nil {
		if err := r.CheckModel(ctx, name); err != nil {
			return event(glovebox.EventNotice, glovebox.Notice{Text: fmt.Sprintf(
				"The model %s can't go on with the job, so %s does: %s", clip.Short(name, 200), r.at.model, clip.Short(err.Error(), 1000))})
		}
	}
	return event(glovebox.EventModelChanged, glovebox.ModelChanged{Model: name})
}

// stopped says why an action was stopped.
type stopped string

const (
	notStopped   stopped = ""
	stoppedUser  stopped = "the user said something"
	stoppedTime  stopped = "the limit of wall time was reached"
	stoppedModel stopped = "another model goes on"
	stoppedEnded stopped = "the job ended"
)

// causeTime is the cause with which actions are cancelled at the limit of
// wall time.
var causeTime = glovebox.Errorf(glovebox.CodeLimit, "the job's limit of wall time was reached")

// action is how to run something in [run.during].
type action struct {
	yield   error // the cause with which to cancel it when the user says something; nil: don't
	model   bool  // cancel it with yield also when another model is to go on
	untimed bool  // not bound by the limit of wall time
}

// during runs f in a goroutine of its own, waits for it, and obeys signals
// and the limit of wall time meanwhile.
//
// The error is one that ends this Run: the job was cancelled, the store
// failed. f has returned in any case. A panic of f is returned in panicked:
// a fault in one tool is no reason to take all jobs of the server down.
func (r *run) during(ctx context.Context, a action, f func(context.Context)) (why stopped, panicked, err error) {
	actx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := make(chan error, 1)
	go func() {
		defer func() {
			if v := recover(); v != nil {
				r.Log.Error("panic in an action of a job", "panic", v, "stack", string(debug.Stack()))
				done <- glovebox.Errorf(glovebox.CodeInternal, "panic: %s", fmt.Sprint(v))
			}
			close(done)
		}()
		f(actx)
	}()

	limit := time.NewTimer(r.timeLeft())
	defer limit.Stop()
	wake := r.SignalWake
	for {
		select {
		case panicked = <-done:
			return why, panicked, err
		case <-r.summarized():
			if failed := r.collect(ctx); failed != nil && err == nil {
				err, why = failed, stoppedEnded
				cancel(err)
			}
		case <-limit.C:
			if !a.untimed {
				why = stoppedTime
				cancel(causeTime)
			}
		case _, open := <-wake:
			if !open {
				wake = nil
				continue
			}
			if err != nil {
				continue
			}
			var heard news
			if heard, err = r.takeSignals(ctx); err != nil {
				why = stoppedEnded
				cancel(err)
				continue
			}
			limit.Reset(r.timeLeft())
			switch {
			case a.yield == nil || why != notStopped:
			case heard.model && a.model:
				why = stoppedModel
				cancel(a.yield)
			case heard.said:
				why = stoppedUser
				cancel(a.yield)
			}
		}
	}
}

// timeLeft returns how long the job may still work.
func (r *run) timeLeft() time.Duration {
	s := r.job.Limits.WallTimeSeconds
	if s <= 0 {
		return 365 * 24 * time.Hour
	}
	return max(0, time.Duration(s)*time.Second-r.job.WorkedFor(time.Now()))
}

// pause waits, obeying signals. It ends when another model is to go on; with
// early also when the user says something, or mouse and keyboard change hands.
func (r *run) pause(ctx context.Context, d time.Duration, early bool) error {
	holder := r.at.holder()
	timer := time.NewTimer(d)
	defer timer.Stop()
	wake := r.SignalWake
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-r.Drain:
			return ErrDrained
		case <-timer.C:
			return nil
		case <-r.summarized():
			if err := r.collect(ctx); err != nil {
				return err
			}
		case _, open := <-wake:
			if !open {
				wake = nil
				continue
			}
			heard, err := r.takeSignals(ctx)
			if err != nil || heard.model || early && (heard.said || holder != r.at.holder()) {
				return err
			}
		}
	}
}
