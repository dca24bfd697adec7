package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/clip"
	"github.com/glovebox-dev/glovebox/internal/memory"
	"github.com/glovebox-dev/glovebox/internal/memory/recall"
)

const (
	// foldTries is how often a fold is tried, the second time harder, before
	// the job ends because its conversation can't be made shorter.
	foldTries = 2

	// foldWait is how long a fold waits for summaries. What is not there then
	// is derived.
	foldWait = 90 * time.Second

	// recallWait is how long a fold waits for what is recalled for it.
	recallWait = 10 * time.Second

	recallHits   = 6
	recallTokens = 2000 // of the quotes that a fold brings along, about
)

// errAgain ends a step early: something happened that is to be looked at
// before the model is asked. The log is as it was.
var errAgain = errors.New("agent: look at the log again")

// marks returns when history is folded, and to what.
func (r *run) marks() memory.Marks {
	m := memory.MarksFor(r.Info, r.memory.Fixed(), r.memory.Growth())
	m.Free = m.Free || r.Digests
	return m
}

// makeRoom has summaries made ahead of need, folds history when it is time to,
// and makes sure that the next request fits into the model's window.
func (r *run) makeRoom(ctx context.Context, m memory.Marks) error {
	due := r.memory.Due(m, time.Now())
	if r.at.tooLong > r.at.folded { // the count was wrong
		due = memory.Due{Action: memory.DueFold, Reason: glovebox.FoldRefused}
	}
	switch due.Action {
	case memory.DuePrepare:
		if err := r.prepare(ctx, m); err != nil {
			return err
		}
	case memory.DueFold:
		if err := r.fold(ctx, m, due.Reason); err != nil {
			return err
		}
	}
	if n := r.memory.Tokens(); m.Window > 0 && n+leastOutput > m.Window {
		return fail(*contextFailure(fmt.Sprintf("it has about %d tokens, the window has %d.", n, m.Window)))
	}
	return nil
}

// fold opens the next epoch. If that frees too little even when it is tried
// harder, the job ends, unless the fold was a matter of cost alone: the mark
// of a model with a large window may be far below it.
func (r *run) fold(ctx context.Context, m memory.Marks, reason glovebox.FoldReason) error {
	var failed error
	for range foldTries {
		if failed = r.foldTo(ctx, m, reason); glovebox.CodeOf(failed) != memory.CodeContext {
			return failed
		}
		m = harder(m)
	}
	matters := reason == glovebox.FoldRefused || reason == glovebox.FoldFull && r.memory.Tokens() > m.Window/2
	if !matters {
		r.Log.Warn("history was not folded", "reason", reason, "error", failed)
		return nil
	}
	return fail(*contextFailure(fmt.Sprintf("it has about %d tokens, and folding its history %d times did not free enough: %s.", r.memory.Tokens(), foldTries, failed)))
}

// harder returns marks that leave half of what m leaves.
func harder(m memory.Marks) memory.Marks {
	m.Low /= 2
	return m
}

// foldTo opens the next epoch, at the low-water mark of m. Everything that
// it needs is in the log before the one event that does it.
func (r *run) foldTo(ctx context.Context, m memory.Marks, reason glovebox.FoldReason) error {
	if err := r.completeSummaries(ctx, m, reason); err != nil {
		return err
	}
	f, err := r.memory.Fold(m, reason, nil)
	if err != nil {
		return err
	}
	quotes, err := r.quotes(ctx, f.Through)
	if err != nil {
		return err
	}
	if len(quotes) > 0 {
		with, err := r.memory.Fold(m, reason, quotes)
		if err == nil { // else there is no room for quotes
			f = with
		}
	}
	r.Log.Info("history is folded", "epoch", f.Epoch, "through", f.Through, "reason", f.Reason, "before", f.Before, "after", f.Use.Tokens())
	return r.append(ctx, []glovebox.Event{event(glovebox.EventFolded, f)})
}

// completeSummaries has the log hold a summary of all that is to be folded:
// the model's, if one can be had in time, else one that is derived.
func (r *run) completeSummaries(ctx context.Context, m memory.Marks, reason glovebox.FoldReason) error {
	deadline := time.Now().Add(min(foldWait, r.timeLeft()))
	if err := r.awaitSummaries(ctx, deadline); err != nil {
		return err
	}
	// After a refusal or a change of model the request does not fit; when the
	// cache is cold, asking would cost what the fold saves.
	for reason == glovebox.FoldFull || reason == glovebox.FoldBytes {
		spans, err := r.wanted(ctx, m, reason)
		if err != nil {
			return err
		}
		if len(spans) == 0 || !time.Now().Before(deadline) {
			break
		}
		begun, err := r.summarize(ctx, spans)
		if err != nil {
			return err
		}
		if !begun {
			break
		}
		if err := r.awaitSummaries(ctx, deadline); err != nil {
			return err
		}
	}
	for last := (glovebox.Span{}); ; { // first the leaves, then what is made of them
		spans := r.memory.Spans(m, reason)
		if len(spans) == 0 {
			return nil
		}
		if err := r.digest(ctx, spans, last); err != nil {
			return err
		}
		last = spans[0]
	}
}

// quotes recalls what the active step of the plan needs of the events up to
// through, within bounds. That it can't be had is no reason not to go on.
func (r *run) quotes(ctx context.Context, through int64) ([]glovebox.Quote, error) {
	step := r.memory.PlanStep()
	if r.Recall == nil || step == "" {
		return nil, nil
	}
	var res recall.Result
	var failed error
	_, panicked, end := r.during(ctx, action{}, func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, recallWait)
		defer cancel()
		res, failed = r.Recall(ctx, recall.Query{Words: clip.Short(step, recall.MaxWords), Through: through, Limit: recallHits, Tokens: recallTokens})
	})
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if end != nil {
		return nil, end
	}
	if failed = errors.Join(failed, panicked); failed != nil {
		r.Log.Warn("nothing was recalled for the next epoch", "error", failed)
		return nil, nil //nolint:nilerr // said in the log
	}
	var quotes []glovebox.Quote
	left := 4 * recallTokens // bytes, whatever the budget was taken for
	for _, h := range res.Hits {
		if h.SupersededBy != 0 || h.Event > through || len(quotes) == recallHits {
			continue
		}
		text := clip.Short(h.Text, recall.MaxQuote)
		if left -= len(text); left < 0 {
			break
		}
		quotes = append(quotes, glovebox.Quote{Event: h.Event, Text: text})
	}
	return quotes, nil
}
