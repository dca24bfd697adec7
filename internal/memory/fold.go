package memory

import (
	"github.com/glovebox-dev/glovebox"
)

// CodeContext is the code of the error of [Builder.Fold]: the request can't be
// made short enough.
const CodeContext glovebox.Code = "context"

// Fold returns the event that opens the next epoch. Summaries have to be there
// for all of Spans(m, reason). Recalled is shown at the epoch's beginning.
// The builder does not change: the event has to be recorded, and applied like
// any other. The error has CodeContext if folding frees less than a fifth of
// what it should.
func (b *Builder) Fold(m Marks, reason glovebox.FoldReason, recalled []glovebox.Quote) (glovebox.Folded, error) {
	return glovebox.Folded{}, &glovebox.Error{Code: CodeContext, Msg: "nothing can be folded"}
}

// Use returns what the next request is made of, and the marks.
func (b *Builder) Use(m Marks) glovebox.WindowUse {
	return glovebox.WindowUse{Window: m.Window, High: m.High, Low: m.Low, Tail: b.Tokens()}
}

// Fixed returns about how many tokens of the request a fold leaves as they
// are: rules, tools, task and instructions.
func (b *Builder) Fixed() int64 { return b.fixed }

// Growth returns about how many tokens a call adds to the request, on average.
func (b *Builder) Growth() int64 { return 1500 }

// PlanStep returns the text of the plan's active step, empty if there is none.
func (b *Builder) PlanStep() string { return "" }
