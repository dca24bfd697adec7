package memory

import (
	"fmt"
	"math"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/clip"
)

// CodeContext is the code of the error of [Builder.Fold]: the request can't be
// made short enough.
const CodeContext glovebox.Code = "context"

// Fold returns the event that opens the next epoch, down to the low-water
// mark or as near as the summaries that are there allow; after a refusal, to
// half of it, then a quarter. Recalled is shown at the epoch's beginning. The
// builder does not change: the event has to be recorded, and applied like any
// other. The error has [CodeContext] if folding frees less than a fifth of
// what it should.
//
// Through may be what it was: a change of model, or many images, can ask for
// an epoch in which nothing more is folded.
func (b *Builder) Fold(m Marks, reason glovebox.FoldReason, recalled []glovebox.Quote) (glovebox.Folded, error) {
	b.catchUp(true)
	m = b.marks(m, reason)
	target, c := b.target(m, reason), b.settle()
	f := glovebox.Folded{Epoch: b.fold.Epoch + 1, Reason: reason, Before: c.tokens()}
	if b.fold.seq == 0 {
		f.Epoch = 2
	}
	for _, q := range recalled[:min(len(recalled), maxQuotes)] {
		f.Recalled = append(f.Recalled, glovebox.Quote{Event: q.Event, Text: clip.Head(q.Text, maxQuoteBytes)})
	}
	ends := append([]int64{b.tree.shown}, b.tree.ends()...)
	var after turnSize
	for i, through := range ends {
		last := i == len(ends)-1
		if !last && c.scale(b.after(m, through)) > target+target/8 {
			continue
		}
		f.Through = through
		f.Use, after = b.foldedUse(m, f)
		if last || f.Use.Tokens() <= target+target/8 {
			break
		}
	}
	return f, b.enough(m, f, target, after)
}

// foldedUse returns what the first request after f is made of.
func (b *Builder) foldedUse(m Marks, f glovebox.Folded) (glovebox.WindowUse, turnSize) {
	next, c := *b, b.settle()
	f.Use = glovebox.WindowUse{Window: m.Window, High: m.High, Low: m.Low}
	next.onFolded(f, math.MaxInt64)
	n := next.settle()
	o := next.opening
	f.Use.Head, f.Use.Folded = c.scale(next.rules+o.head), c.scale(o.folded)
	f.Use.Tail = max(0, c.scale(n.estimate())-f.Use.Head-f.Use.Folded)
	return f.Use, n.size()
}

// enough returns an error if a fold is not worth being made.
func (b *Builder) enough(m Marks, f glovebox.Folded, target int64, after turnSize) error {
	now := f.Use.Tokens()
	switch freed, should := f.Before-now, f.Before-target; {
	case f.Reason == glovebox.FoldModel:
		return nil
	case f.Reason == glovebox.FoldBytes:
		if m.MaxBytes > 0 && after.bytes > m.MaxBytes*4/5 || m.MaxImages > 0 && after.images > m.MaxImages*4/5 {
			return &glovebox.Error{Code: CodeContext, Op: "fold history",
				Msg: fmt.Sprintf("the request would still have %d bytes and %d images of at most %d and %d", after.bytes, after.images, m.MaxBytes, m.MaxImages)}
		}
	case should > 0 && freed*5 < should:
		return &glovebox.Error{Code: CodeContext, Op: "fold history",
			Msg:  fmt.Sprintf("of about %d tokens at least %d are needed (%d for rules, task, instructions and plan); %d were asked for", f.Before, now, f.Use.Head, target),
			Hint: "choose a model with a larger window, or split the task"}
	}
	return nil
}

// target returns to how many tokens a fold for a reason is to go.
func (b *Builder) target(m Marks, reason glovebox.FoldReason) int64 {
	if reason != glovebox.FoldRefused {
		return m.Low
	}
	return min(m.Low>>max(b.refused, 1), b.settle().tokens()/2)
}

// marks returns m as far as the model keeps what it promises: a request that
// it refused for its length says more than its data.
func (b *Builder) marks(m Marks, reason glovebox.FoldReason) Marks {
	high := m.High
	if b.ceiling > 0 && !b.changed {
		high = min(high, b.ceiling*3/4)
	}
	if reason == glovebox.FoldRefused {
		high = min(high, b.settle().tokens()*3/4)
	}
	if high < m.High {
		m.Low = min(m.Low, high*2/3)
		m.High, m.Prepare = high, high-min((high-m.Low)/5, m.High-m.Prepare)
		m.Window = min(m.Window, high*4/3) // of unknown size it stays
	}
	return m
}

// Use returns what the next request is made of, and the marks.
func (b *Builder) Use(m Marks) glovebox.WindowUse {
	b.catchUp(true)
	m, c := b.marks(m, ""), b.settle()
	now := c.tokens()
	u := glovebox.WindowUse{Window: m.Window, High: m.High, Low: m.Low, Head: c.scale(b.rules + b.opening.head), Folded: c.scale(b.opening.folded)}
	u.Tail = max(0, now-u.Head-u.Folded)
	return u
}

// Fixed returns about how many tokens of the request a fold leaves as they
// are: rules, tools, task and instructions.
func (b *Builder) Fixed() int64 {
	b.catchUp(true)
	head := b.opening.head
	if b.fold.seq == 0 {
		head += b.ruled
	}
	return b.settle().scale(b.rules + head)
}

// Growth returns about how many tokens a call adds to the request, on
// average: 1,500 at first.
func (b *Builder) Growth() int64 {
	b.catchUp(true)
	const first, weight = 1500, 8
	now := max(0, b.settle().tokens()-b.begun())
	return (first*weight + b.grown + now) / (weight + b.calls)
}
