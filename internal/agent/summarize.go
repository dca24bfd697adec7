package agent

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/clip"
	"github.com/glovebox-dev/glovebox/internal/llm"
	"github.com/glovebox-dev/glovebox/internal/memory"
)

const (
	// summaryTries is how often the model is asked for a summary of the same span.
	summaryTries = 2

	// summaryBatch is how many spans one call is asked about.
	summaryBatch = 8

	// What a call for summaries may write: for each, and to think.
	summaryOutput  = 1600
	summaryThought = 6000
)

// summaryCall is a call of the model for summaries, made beside the loop. Its
// goroutine ends with done; what it set may be read then.
type summaryCall struct {
	asked  glovebox.SummariesRequested
	input  int64 // tokens, about
	begun  time.Time
	cancel context.CancelCauseFunc
	done   chan struct{}

	resp    *llm.Response
	err     error
	written atomic.Int64 // bytes
}

// summarized is closed when the call that runs has ended; nil if none runs.
func (r *run) summarized() <-chan struct{} {
	if r.summary == nil {
		return nil
	}
	return r.summary.done
}

// shortEpoch is how many answers an epoch has that is too short for the
// model to be asked for summaries: each such call reads the whole request.
const shortEpoch = 2

// crowded reports whether epochs are so short that calls for summaries would
// double what the job costs: the window is small beside what one step adds.
// Digests do then.
func (r *run) crowded() bool {
	return r.job.Memory != nil && r.job.Memory.Folds > 1 && r.job.Memory.Calls.Calls <= shortEpoch
}

// wanted returns the spans that the model is to be asked about next: none if
// all have summaries, or it must not be asked. One that it was asked about
// often enough gets a digest: those after it can only follow it.
func (r *run) wanted(ctx context.Context, m memory.Marks, reason glovebox.FoldReason) ([]glovebox.Span, error) {
	if m.Free || r.crowded() {
		return nil, nil
	}
	for last := (glovebox.Span{}); ; {
		spans := r.memory.Spans(m, reason)
		n := 0
		for n < min(len(spans), summaryBatch) && r.at.tried(spans[n]) < summaryTries {
			n++
		}
		if n > 0 || len(spans) == 0 {
			return spans[:n], nil
		}
		if err := r.digest(ctx, spans[:1], last); err != nil {
			return nil, err
		}
		last = spans[0]
	}
}

// digest records summaries that are derived from the events. That the first
// of them is the one that was recorded last would go on for ever.
func (r *run) digest(ctx context.Context, spans []glovebox.Span, last glovebox.Span) error {
	if spans[0] == last {
		return glovebox.Errorf(glovebox.CodeInternal, "the digest of events %d to %d is not taken", last.From, last.Through)
	}
	var s glovebox.Summarized
	for _, span := range spans {
		d, err := r.memory.DigestSpan(span)
		if err != nil {
			return err
		}
		s.Summaries = append(s.Summaries, d)
	}
	return r.append(ctx, []glovebox.Event{event(glovebox.EventSummarized, s)})
}

// prepare has summaries made ahead of the fold that needs them.
func (r *run) prepare(ctx context.Context, m memory.Marks) error {
	if r.summary != nil {
		return nil
	}
	spans, err := r.wanted(ctx, m, "")
	if err == nil && len(spans) > 0 {
		_, err = r.summarize(ctx, spans)
	}
	return err
}

// summarize begins a call for summaries of spans, if the job can afford it
// beside the next call of the loop.
func (r *run) summarize(ctx context.Context, spans []glovebox.Span) (begun bool, err error) {
	now := time.Now()
	main, f := afford(r.job, r.Info, r.memory.Tokens(), now)
	if f != nil {
		return false, nil // the loop is about to say so
	}
	output := int64(len(spans)) * summaryOutput
	if r.Info.Reasoning {
		output += summaryThought
	}
	if r.Info.MaxOutput > 0 {
		output = min(output, r.Info.MaxOutput)
	}
	req := r.memory.SummaryRequest(spans, output)
	input := r.memory.Tokens() + max(0, llm.EstimateTokens(req)-llm.EstimateTokens(r.memory.Request(output)))
	if r.Info.Window > 0 && input+output > r.Info.Window {
		return false, nil
	}
	c := &summaryCall{input: input, begun: now, done: make(chan struct{}), asked: glovebox.SummariesRequested{
		Spans: spans, Attempt: r.at.tried(spans[0]) + 1, Model: r.named,
		MaxTokens: input + output, MaxMicros: worst(r.Info, input, output), MaxOutput: output,
	}}
	if both, f := afford(reserve(r.job, c), r.Info, r.memory.Tokens(), now); f != nil || both.maxOutput < main.maxOutput {
		r.Log.Debug("a summary by the model is not affordable", "tokens", c.asked.MaxTokens)
		return false, nil
	}
	if err := r.append(ctx, append(r.phase(glovebox.PhaseWorking), event(glovebox.EventSummaries, c.asked))); err != nil {
		return false, err
	}
	req.Step, req.Attempt, req.Aside = r.job.Step, c.asked.Attempt, true
	cctx, cancel := context.WithCancelCause(ctx)
	c.cancel, r.summary = cancel, c
	go r.makeSummaries(cctx, c, req)
	return true, nil
}

// makeSummaries makes the call. It runs beside the loop and touches nothing of
// it but what never changes.
func (r *run) makeSummaries(ctx context.Context, c *summaryCall, req *llm.Request) {
	defer close(c.done)
	defer c.cancel(nil)
	defer func() {
		if v := recover(); v != nil {
			r.Log.Error("panic while a job's history was summarized", "panic", v, "stack", string(debug.Stack()))
			c.err = glovebox.Errorf(glovebox.CodeInternal, "panic: %s", fmt.Sprint(v))
		}
	}()
	ctx, end := r.span(ctx, "model.summarize", attribute.String("model", c.asked.Model), attribute.Int("spans", len(c.asked.Spans)))
	defer func() { end(c.err) }()
	full, err := r.withImages(ctx, req)
	if err != nil {
		c.err = err
		return
	}
	c.resp, c.err = r.Model.Stream(ctx, full, func(d glovebox.ModelDelta) { c.written.Add(int64(len(d.Text))) })
	if c.err == nil && c.resp == nil {
		c.err = &llm.Error{Kind: llm.KindMalformed, Msg: "no answer"}
	}
}

// reserve returns the job as it will be if a call costs the most that it can.
func reserve(job *glovebox.Job, c *summaryCall) *glovebox.Job {
	if c == nil {
		return job
	}
	j := *job
	j.Usage.Input += c.asked.MaxTokens - c.asked.MaxOutput
	j.Usage.Output += c.asked.MaxOutput
	j.Usage.CostMicros += c.asked.MaxMicros
	return &j
}

// collect records what the call for summaries came to, if it has ended.
func (r *run) collect(ctx context.Context) error {
	c := r.summary
	if c == nil || !isClosed(c.done) {
		return nil
	}
	r.summary = nil
	s := glovebox.Summarized{Asked: true, DurationMS: time.Since(c.begun).Milliseconds()}
	if c.err != nil {
		s.Problem, s.Usage = r.summaryFailure(c)
	} else {
		s.Usage = called(c.resp.Usage)
		s.Summaries, s.Problem = r.memory.ReadSummaries(c.asked.Spans, c.resp.Message)
		s.Summaries = r.closeGaps(c.asked.Spans, s.Summaries)
	}
	if s.Problem != "" {
		r.Log.Warn("history was not summarized as it was asked", "problem", s.Problem, "attempt", c.asked.Attempt)
	}
	return r.append(ctx, []glovebox.Event{event(glovebox.EventSummarized, s)})
}

// closeGaps adds digests for spans that the model did not summarize as it
// should, where it did summarize one that follows: that is paid for, and can
// only be kept if nothing is missing before it.
func (r *run) closeGaps(spans []glovebox.Span, got []glovebox.Summary) []glovebox.Summary {
	have := map[glovebox.Span]glovebox.Summary{}
	last := map[int]int64{} // the end of what there is of each level
	for _, s := range got {
		have[s.Span] = s
		last[s.Level] = max(last[s.Level], s.Through)
	}
	var out []glovebox.Summary
	broken := map[int]bool{}
	for _, span := range spans {
		s, ok := have[span]
		if !ok && span.Through < last[span.Level] {
			d, err := r.memory.DigestSpan(span)
			s, ok = d, err == nil
		}
		if broken[span.Level] = broken[span.Level] || !ok; !broken[span.Level] {
			out = append(out, s)
		}
	}
	return out
}

// summaryFailure describes a call for summaries without an answer, and what it cost.
func (r *run) summaryFailure(c *summaryCall) (problem string, cost glovebox.Usage) {
	kind := llm.KindCancelled
	if e, ok := errors.AsType[*llm.Error](c.err); ok {
		kind, cost = e.Kind, e.Usage
	}
	if cost == (glovebox.Usage{}) && (c.written.Load() > 0 || kind == llm.KindCancelled || kind == llm.KindStalled) {
		cost = r.guessUsage(c.input, min(c.written.Load()/3+1, c.asked.MaxOutput))
	}
	return clip.Short(c.err.Error(), 500), cost
}

// errUnwanted is the cause with which a call for summaries is cancelled.
var errUnwanted = errors.New("the summaries are not wanted any more")

// awaitSummaries waits until the call for summaries has ended and is
// recorded, obeying signals. At the deadline the call is ended.
func (r *run) awaitSummaries(ctx context.Context, deadline time.Time) error {
	if r.summary == nil {
		return nil
	}
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	wake := r.SignalWake
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-r.Drain:
			return errAgain
		case <-r.summarized():
			return r.collect(ctx)
		case <-timer.C:
			return r.dismiss(ctx)
		case _, open := <-wake:
			if !open {
				wake = nil
				continue
			}
			if heard, err := r.takeSignals(ctx); err != nil {
				return err
			} else if heard.model {
				return errAgain
			}
		}
	}
}

// dismiss ends the call for summaries, if one runs, and records that.
func (r *run) dismiss(ctx context.Context) error {
	if r.summary == nil {
		return nil
	}
	r.summary.cancel(errUnwanted)
	<-r.summary.done
	return r.collect(ctx)
}

// abandon ends the call for summaries, if one runs, and records nothing: the
// next Run counts it at its worst case.
func (r *run) abandon() {
	if r.summary != nil {
		r.summary.cancel(errUnwanted)
		<-r.summary.done
		r.summary = nil
	}
}

// summariesInterrupted records that a call of a Run that died gave no
// summaries. Nobody knows what it cost, so it counts at its worst case.
func (r *run) summariesInterrupted(ctx context.Context) error {
	q := r.at.summarizing
	return r.append(ctx, []glovebox.Event{event(glovebox.EventSummarized, glovebox.Summarized{
		Asked: true, Problem: "interrupted: the worker stopped during the call",
		Usage: glovebox.Usage{Input: q.MaxTokens - q.MaxOutput, Output: q.MaxOutput, CostMicros: q.MaxMicros},
	})})
}
