package memory

import (
	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
)

// Spans returns what lacks a summary before history can be folded to the
// low-water mark: leaves, then merges. An empty reason asks for what to
// prepare; with a reason nothing is returned if what is there already brings
// the request near enough to the mark.
func (b *Builder) Spans(m Marks, reason glovebox.FoldReason) []glovebox.Span { return nil }

// SummaryRequest returns the request that asks the model for summaries of
// spans: the current request, so that the provider's cache is read, with more
// at its end. It is longer than the current request: where that does not fit
// the model (it was refused, the model changed), use DigestSpan.
func (b *Builder) SummaryRequest(spans []glovebox.Span, maxOutput int64) *llm.Request {
	return b.Request(maxOutput)
}

// ReadSummaries returns those summaries of spans in the answer of the model
// that can be used, and what is wrong with the others, empty if all are there.
func (b *Builder) ReadSummaries(spans []glovebox.Span, answer glovebox.Message) (got []glovebox.Summary, problem string) {
	return nil, "no summaries"
}

// DigestSpan returns a summary of s that is derived from the events, where no
// model could or should write one. It is an error if s is none of Spans.
func (b *Builder) DigestSpan(s glovebox.Span) (glovebox.Summary, error) {
	return glovebox.Summary{}, glovebox.Errorf(glovebox.CodeInvalid, "no span of this job")
}
