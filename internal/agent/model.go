package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
)

// ask asks the model for the next answer and records what came of it.
func (r *run) ask(ctx context.Context) error {
	if err := r.checkpoint(ctx); err != nil {
		return err
	}
	if f := r.at.verdict(r.named); f != nil {
		return fail(*f)
	}
	if err := r.readInstructions(ctx); err != nil {
		return err
	}
	m := r.marks()
	if err := r.makeRoom(ctx, m); err != nil {
		return err
	}
	input := r.memory.Tokens()
	p, f := afford(reserve(r.job, r.summary), r.Info, input, time.Now())
	if f != nil && r.summary != nil { // it may cost less than it could
		if err := r.awaitSummaries(ctx, time.Now().Add(min(foldWait, r.timeLeft()))); err != nil {
			return err
		}
		p, f = afford(r.job, r.Info, input, time.Now())
	}
	if f != nil {
		return fail(*f)
	}
	if r.Info.Window > 0 {
		p.maxOutput = min(p.maxOutput, r.Info.Window-input) // makeRoom left enough
		p.tokens, p.micros = input+p.maxOutput, worst(r.Info, input, p.maxOutput)
	}
	if r.at.model != r.named { // it was changed while room was made
		return errAgain
	}
	req := r.memory.Request(p.maxOutput)
	req.Step, req.Attempt = r.job.Step, r.at.attempts+1
	begin := append(r.phase(glovebox.PhaseWorking), event(glovebox.EventModelRequested, glovebox.ModelRequested{
		Step: r.job.Step + 1, Attempt: req.Attempt, Model: r.named, RequestSHA: r.memory.Digest(req),
		MaxTokens: p.tokens, MaxMicros: p.micros, MaxOutput: p.maxOutput, Use: r.memory.Use(m),
	}))
	if err := r.append(ctx, begin); err != nil {
		return err
	}
	return r.stream(ctx, req, input)
}

// stream makes the call and records its answer or failure.
func (r *run) stream(ctx context.Context, req *llm.Request, input int64) error {
	var (
		written atomic.Int64 // bytes
		resp    *llm.Response
		failed  error
		start   = time.Now()
	)
	why, panicked, end := r.during(ctx, action{yield: errInterrupted, model: true}, func(ctx context.Context) {
		ctx, end := r.span(ctx, "model.call", attribute.String("model", r.named), attribute.Int64("step", req.Step+1), attribute.Int64("attempt", req.Attempt))
		defer func() { end(failed) }()
		full, err := r.withImages(ctx, req)
		if err != nil {
			failed = err
			return
		}
		resp, failed = r.Model.Stream(ctx, full, func(d glovebox.ModelDelta) {
			written.Add(int64(len(d.Text)))
			r.Live(event(glovebox.EventModelDelta, d))
		})
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	failed = errors.Join(failed, panicked)
	if failed == nil && resp == nil {
		failed = &llm.Error{Kind: llm.KindMalformed, Msg: "no answer"}
	}
	var record glovebox.Event
	var wait time.Duration
	if failed == nil {
		r.Log.Debug("model answered", "step", req.Step+1, "tokens", resp.Usage.Tokens(), "ms", time.Since(start).Milliseconds())
		record = event(glovebox.EventModelAnswered, glovebox.ModelAnswered{
			Message: tidy(resp.Message), StopReason: string(resp.StopReason), Usage: called(resp.Usage),
			DurationMS: time.Since(start).Milliseconds(), FirstMS: resp.First.Milliseconds(),
		})
	} else {
		f := r.failure(failed, why)
		if f.Usage == (glovebox.Usage{}) && (written.Load() > 0 || llm.Kind(f.Kind) == llm.KindCancelled || llm.Kind(f.Kind) == llm.KindStalled) {
			f.Usage = r.guessUsage(input, min(written.Load()/3+1, req.MaxOutput))
		}
		wait = time.Duration(f.WaitMS) * time.Millisecond
		r.Log.Warn("model failed", "step", req.Step+1, "attempt", req.Attempt, "kind", f.Kind, "error", f.Message, "retry", f.Retry, "wait", wait)
		record = event(glovebox.EventModelFailed, f)
	}
	if end != nil && !isEnd(end) {
		return end // the lease or the store is lost: nothing can be recorded
	}
	if err := r.append(ctx, []glovebox.Event{record}); err != nil {
		return err
	}
	if end != nil || wait == 0 {
		return end
	}
	return r.pause(ctx, min(wait, r.timeLeft()), false)
}

// errInterrupted is the cause with which a call of the model is cancelled so
// that it can be made again with what the user said, or by another model.
var errInterrupted = errors.New("the call is made again")

func isEnd(err error) bool {
	_, ok := errors.AsType[*ended](err)
	return ok
}

// called returns u as that of one call.
func called(u glovebox.Usage) glovebox.Usage {
	u.Calls = 1
	return u
}

// guessUsage is what a call cost that ended before the provider said so:
// limits fail closed, so such a call does not count as free.
func (r *run) guessUsage(input, output int64) glovebox.Usage {
	u := glovebox.Usage{Input: input, Output: output}
	u.CostMicros = worst(r.Info, input, output)
	return u
}

// recordInterrupted records that a request of a Run that died has no answer.
// Nobody knows what it cost, so it counts at its worst case.
func (r *run) recordInterrupted(ctx context.Context) error {
	q := r.at.requested
	return r.append(ctx, []glovebox.Event{event(glovebox.EventModelFailed, glovebox.ModelFailed{
		Kind:    string(llm.KindCancelled),
		Message: "the worker stopped during the call; it is made again, and counted at what it could cost at most",
		Retry:   true,
		Usage:   glovebox.Usage{Input: q.MaxTokens - q.MaxOutput, Output: q.MaxOutput, CostMicros: q.MaxMicros},
	})})
}

// tidy makes an answer fit for the log: every call has JSON as input and an
// id that no other call of the answer has.
func tidy(m glovebox.Message) glovebox.Message {
	out := glovebox.Message{Role: glovebox.RoleAssistant, Blocks: make([]glovebox.Block, len(m.Blocks))}
	ids := map[string]bool{}
	for i, b := range m.Blocks {
		if len(b.Opaque) > 0 && !json.Valid(b.Opaque) {
			b.Opaque = nil
		}
		if b.Type == glovebox.BlockToolUse {
			b.CallID = uniqueID(ids, b.CallID)
			switch {
			case len(b.Input) == 0:
				b.Input = json.RawMessage("{}")
			case !json.Valid(b.Input):
				b.Input, _ = json.Marshal(string(b.Input))
			}
		}
		out.Blocks[i] = b
	}
	return out
}

// doubleMark comes between an id that was used before in an answer and the
// number that makes it another.
const doubleMark = "~"

func uniqueID(ids map[string]bool, id string) string {
	if id == "" {
		id = fmt.Sprintf("call_%d", len(ids)+1)
	}
	unique := id
	for n := 2; ids[unique]; n++ {
		unique = fmt.Sprintf("%s%s%d", id, doubleMark, n)
	}
	ids[unique] = true
	return unique
}
