package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sort"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/clip"
	"github.com/glovebox-dev/glovebox/internal/guest"
	"github.com/glovebox-dev/glovebox/internal/memory"
	"github.com/glovebox-dev/glovebox/internal/tool"
)

// call deals with one call of the newest answer: it gets its result, or the
// question that it asks is waited on.
func (r *run) call(ctx context.Context, c pendingCall) error {
	if c.question != nil {
		return r.await(ctx, c)
	}
	if c.Name == finishTool && !c.started && r.at.holder() == glovebox.ControlUser {
		return r.hold(ctx)
	}
	if c.started { // by a Run that died (L4)
		return r.finish(ctx, c, unknown(c, memory.UnknownOutcome, 0))
	}
	if complaint := r.complaint(c); complaint != "" {
		started := event(glovebox.EventToolStarted, glovebox.ToolStarted{CallID: c.CallID, Name: c.Name, Input: c.Input})
		return r.finish(ctx, c, glovebox.ToolFinished{
			CallID: c.CallID, Name: c.Name, IsError: true, Content: []glovebox.Block{glovebox.Text(complaint)},
		}, started)
	}
	g, err := r.guest(ctx)
	if err != nil {
		return err
	}
	return r.act(ctx, g, c)
}

// notDone is the result of a call of gui after one in the same answer that
// failed. The words are those that models were trained with.
const notDone = "Not executed: an earlier computer action in this turn failed."

// complaint says what is wrong with a call that can't be run.
func (r *run) complaint(c pendingCall) string {
	switch {
	case c.cut:
		return "Your answer reached the limit on its length while this call was written, so the call was not run. Go on in smaller pieces: for a large file, write a first part and add the rest with further calls."
	case c.double:
		return fmt.Sprintf("This answer used the id %s for two calls. Only the first was run. If you still want this one, make it again.", c.CallID[:strings.LastIndex(c.CallID, doubleMark)])
	case r.tools[c.Name] == nil:
		names := make([]string, 0, len(r.tools))
		for n := range r.tools {
			names = append(names, n)
		}
		sort.Strings(names)
		return fmt.Sprintf("There is no tool %q. The tools are: %s.", clip.Short(c.Name, 100), strings.Join(names, ", "))
	}
	if c.Name == guiTool && r.at.halted {
		return notDone
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(c.Input, &object); err != nil || object == nil {
		return fmt.Sprintf("The input of %s has to be a JSON object. What came is not: %s", c.Name, clip.Short(string(c.Input), 200))
	}
	return ""
}

// act runs a call and records its start before it acts and its result after.
func (r *run) act(ctx context.Context, g *guest.Client, c pendingCall) error {
	started := event(glovebox.EventToolStarted, glovebox.ToolStarted{CallID: c.CallID, Name: c.Name, Input: c.Input})
	if err := r.append(ctx, append(r.phase(glovebox.PhaseWorking), started)); err != nil {
		return err
	}
	t := r.tools[c.Name]
	env := &tool.Env{
		Guest: g, CallID: c.CallID, Job: r.job, Save: r.Host.Save, Load: r.Load, Control: r.gate.get,
		Recall: r.Recall, Events: r.Events,
		Output: func(text string) {
			r.Live(event(glovebox.EventToolOutput, glovebox.ToolOutput{CallID: c.CallID, Text: text}))
		},
	}
	var how action
	if t.Yields {
		how.yield = tool.ErrYield
	}
	var res tool.Result
	var failed error
	start := time.Now()
	why, panicked, end := r.during(ctx, how, func(ctx context.Context) {
		ctx, end := r.span(ctx, "tool.call", attribute.String("tool", c.Name))
		defer func() { end(failed, attribute.Bool("is_error", res.IsError)) }()
		res, failed = t.Run(ctx, env, c.Input)
	})
	r.dirty = r.dirty || !t.ReadOnly
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if end != nil {
		return end
	}
	took := time.Since(start)
	if failed = errors.Join(failed, panicked); failed != nil {
		return r.lost(ctx, c, failed, why, took)
	}
	switch {
	case res.Finish != nil:
		return r.verify(ctx, g, c, *res.Finish, start)
	case res.Ask != nil:
		return r.question(ctx, c, *res.Ask)
	}
	f := r.result(ctx, env, res, c, took)
	var also []glovebox.Event
	if res.Plan != nil {
		also = append(also, event(glovebox.EventPlan, glovebox.PlanUpdated{Steps: res.Plan}))
	}
	return r.finish(ctx, c, f, also...)
}

// lost records that nobody knows what a call did, and has the sandbox rebuilt
// if that is why.
func (r *run) lost(ctx context.Context, c pendingCall, cause error, why stopped, took time.Duration) error {
	text := memory.UnknownOutcome + " What is known: " + clip.Short(cause.Error(), 1000)
	if why != notStopped {
		text = memory.UnknownOutcome + " It was stopped because " + string(why) + "."
	}
	if err := r.finish(ctx, c, unknown(c, text, took)); err != nil {
		return err
	}
	if glovebox.CodeOf(cause) != glovebox.CodeUnavailable {
		return nil
	}
	_, err := r.guest(ctx) // now, so that the model is told before it is asked
	return err
}

func unknown(c pendingCall, text string, took time.Duration) glovebox.ToolFinished {
	return glovebox.ToolFinished{
		CallID: c.CallID, Name: c.Name, IsError: true, Unknown: true, DurationMS: took.Milliseconds(),
		Content: []glovebox.Block{glovebox.Text(text)},
	}
}

// finish records the result of a call, together with other events, and tells
// the model if it repeats itself.
func (r *run) finish(ctx context.Context, c pendingCall, f glovebox.ToolFinished, also ...glovebox.Event) error {
	var events []glovebox.Event
	var after []glovebox.Event
	for _, e := range also {
		if e.Type == glovebox.EventToolStarted || e.Type == glovebox.EventVerified {
			events = append(events, e)
		} else {
			after = append(after, e)
		}
	}
	events = append(events, event(glovebox.EventToolFinished, f))
	if !interrupted(f) && r.at.repeats.count(repeatKeyOf(c.Block, f)) == repeatsNoticed {
		after = append(after, event(glovebox.EventNotice, glovebox.Notice{Text: fmt.Sprintf(
			"You have called %s %d times with the same input and got the same result, with nothing new in between. Repeating it will not change it. Find out why, and take another way; after %d more times the job is stopped.",
			clip.Short(c.Name, 100), repeatsNoticed, repeatsStopped-repeatsNoticed)}))
	}
	if err := r.append(ctx, append(events, after...)); err != nil {
		return err
	}
	if len(r.at.calls) == 0 && r.StepDone != nil {
		r.StepDone(r.job.Step)
	}
	return nil
}

// guest returns a connection to the sandbox, rebuilt if need be.
func (r *run) guest(ctx context.Context) (*guest.Client, error) {
	var g *guest.Client
	var failed error
	why, panicked, end := r.during(ctx, action{}, func(ctx context.Context) { g, failed = r.Host.Guest(ctx) })
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if end != nil {
		return nil, end
	}
	if err := r.sync(ctx); err != nil { // Guest appends too
		return nil, err
	}
	if failed = errors.Join(failed, panicked); failed == nil {
		return g, nil
	}
	if why == stoppedTime {
		return nil, fail(*timeReached(r.job))
	}
	switch glovebox.CodeOf(failed) {
	case glovebox.CodeFenced:
		return nil, failed
	case glovebox.CodeLimit:
		return nil, fail(glovebox.Failure{Code: "sandbox", Message: "The job's machine died too often: " + failed.Error(),
			Hint: "it may need more memory or disk: raise limits.memory_bytes or limits.disk_bytes in a new job"})
	}
	return nil, fail(glovebox.Failure{Code: "sandbox", Message: "The job has no machine to work in: " + failed.Error(), Hint: hintOf(failed)})
}

func hintOf(err error) string {
	if e, ok := errors.AsType[*glovebox.Error](err); ok && e.Hint != "" {
		return e.Hint
	}
	return "run glovebox doctor on the server to see what is missing"
}

// checkpointTries is how many checkpoints in a row may fail. One that fails
// costs nothing unless the sandbox is lost before the next.
const checkpointTries = 3

// checkpoint copies the workspace off the sandbox, if a tool may have changed it.
func (r *run) checkpoint(ctx context.Context) error {
	if !r.dirty && r.at.holder() == glovebox.ControlAgent { // a person changes files unseen
		return nil
	}
	var failed error
	_, panicked, end := r.during(ctx, action{untimed: true}, func(ctx context.Context) { failed = r.Host.Checkpoint(ctx) })
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if end != nil {
		return end
	}
	if err := r.sync(ctx); err != nil { // Checkpoint appends too
		return err
	}
	failed = errors.Join(failed, panicked)
	code := glovebox.CodeOf(failed)
	switch {
	case failed == nil:
		r.dirty, r.unsavedSteps = false, 0
		return nil
	case code == glovebox.CodeFenced:
		return failed
	case code == glovebox.CodeUnavailable:
		_, err := r.guest(ctx)
		return err
	}
	r.unsavedSteps++
	r.Log.Warn("checkpoint failed", "error", failed)
	if r.unsavedSteps < checkpointTries {
		return nil
	}
	return fail(glovebox.Failure{Code: "sandbox", Hint: hintOf(failed),
		Message: fmt.Sprintf("The workspace could not be copied off its machine %d times: %s", checkpointTries, failed)})
}
