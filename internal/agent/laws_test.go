package agent

import (
	"fmt"
	"slices"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
)

// hasTask reports whether a block of the first message is the task, word for word.
func hasTask(r *llm.Request) bool {
	return slices.ContainsFunc(r.Messages[0].Blocks, func(b glovebox.Block) bool { return b.Text == task })
}

// summaryLaws are what holds of calls for summaries: one at a time, each
// affordable, none for a span that has one, none asked for a third time.
type summaryLaws struct {
	open  *glovebox.SummariesRequested
	asked map[spanKey]int
	have  map[glovebox.Span]bool
}

// running returns the call that may cost something yet.
func (l *summaryLaws) running() *summaryCall {
	if l.open == nil {
		return nil
	}
	return &summaryCall{asked: *l.open}
}

func (l *summaryLaws) apply(job glovebox.Job, e glovebox.Event) error {
	if l.asked == nil {
		l.asked, l.have = map[spanKey]int{}, map[glovebox.Span]bool{}
	}
	if e.Type == glovebox.EventSummaries {
		q, err := glovebox.Decode[glovebox.SummariesRequested](e)
		if err != nil || l.open != nil {
			return fmt.Errorf("summaries are asked for while they are (%v)", err) //nolint:errorlint // err may be nil
		}
		job.Step = 0 // they are no steps
		if err := affordable(job, glovebox.ModelRequested{MaxTokens: q.MaxTokens, MaxMicros: q.MaxMicros}); err != nil {
			return fmt.Errorf("L8: %w", err)
		}
		for _, s := range q.Spans {
			k := keyOfSpan(s)
			if l.asked[k]++; l.asked[k] > summaryTries || l.have[s] {
				return fmt.Errorf("%+v is asked for %d times, had: %v", s, l.asked[k], l.have[s])
			}
		}
		l.open = &q
		return nil
	}
	s, err := glovebox.Decode[glovebox.Summarized](e)
	if err != nil || s.Asked != (l.open != nil) && s.Asked {
		return fmt.Errorf("an answer that nobody asked for (%v)", err) //nolint:errorlint // err may be nil
	}
	if s.Asked {
		if u := s.Usage; u.Tokens() > l.open.MaxTokens || u.CostMicros > l.open.MaxMicros {
			return fmt.Errorf("L8: %+v is more than %+v", u, l.open)
		}
		l.open = nil
	}
	for _, x := range s.Summaries {
		if l.have[x.Span] {
			return fmt.Errorf("%+v is summarized again", x.Span)
		}
		l.have[x.Span] = true
	}
	return nil
}
