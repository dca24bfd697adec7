package memory

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
)

//go:embed summarize.md
var summarize string

// Bytes of text that the model is asked for at most.
const (
	askedLeaf  = 1600
	askedMerge = 2400
)

// SummaryRequest returns the request that asks the model for summaries of
// spans: the current request, so that the provider's cache is read, with more
// at its end. It is longer than the current request: where that does not fit
// the model (it was refused, the model changed), use DigestSpan.
func (b *Builder) SummaryRequest(spans []glovebox.Span, maxOutput int64) *llm.Request {
	b.catchUp(true)
	r := b.Request(maxOutput)
	var w strings.Builder
	w.WriteString(strings.TrimRight(summarize, "\n"))
	for i, s := range spans {
		fmt.Fprintf(&w, "\n\nspan %d, events %d to %d, at most %d characters: %s", i+1, s.From, s.Through, b.most(s), b.anchors(s))
	}
	last := len(r.Messages) - 1
	m := r.Messages[last]
	m.Blocks = append(m.Blocks[:len(m.Blocks):len(m.Blocks)], noticeText(w.String()))
	r.Messages[last] = m
	// The end of it will not come again: only what was sent before is worth
	// a mark, and the results that the next request begins to add.
	if len(r.CacheMarks) > 1 {
		r.CacheMarks = r.CacheMarks[:len(r.CacheMarks)-1]
	}
	return r
}

// most returns how many bytes the summary of s is asked to have at most.
func (b *Builder) most(s glovebox.Span) int {
	if s.Level > 0 {
		return min(askedMerge, max(b.sourceSize(s)/3, 1))
	}
	return min(askedLeaf, max(b.sourceSize(s)/4, 1))
}

// anchors says where in the conversation the model finds s.
func (b *Builder) anchors(s glovebox.Span) string {
	if s.Level > 0 {
		kids := b.tree.children(s)
		if len(kids) == 0 {
			return "the notes on these events in the first message, in one."
		}
		first, last := kids[0], kids[len(kids)-1]
		return fmt.Sprintf("in one, the %d notes in the first message from \"Events %d to %d\" to \"Events %d to %d\".", len(kids), first.From, first.Through, last.From, last.Through)
	}
	turns := b.settle().turns
	first, end := b.turnsOf(s)
	if first >= end {
		return "what was said before your first answer."
	}
	var last *turn
	for i := first; i < end; i++ {
		if turns[i].seq > 0 {
			last = &turns[i]
		}
	}
	from := "your answer that " + anchor(turns[first])
	if first == 1 && s.From == 1 {
		from = "the beginning"
	}
	if last == nil {
		return "from " + from + "."
	}
	return fmt.Sprintf("from %s through your answer that %s, with its results.", from, anchor(*last))
}

// anchor describes an answer by words that are in it.
func anchor(t turn) string {
	var parts []string
	for _, x := range t.msg.Blocks {
		switch {
		case x.Type == glovebox.BlockText && len(parts) == 0 && oneLine(x.Text, 1) != "":
			parts = append(parts, "begins "+strconv.Quote(oneLine(x.Text, 100)))
		case x.Type == glovebox.BlockToolUse:
			parts = append(parts, "calls "+x.Name+" with "+oneLine(string(x.Input), 140))
			return strings.Join(parts, " and ")
		}
	}
	if len(parts) == 0 {
		return "has no words"
	}
	return parts[0]
}

// turnsOf returns the turns of a leaf: from first up to, not including, end.
// There are none if it is not in the epoch.
func (b *Builder) turnsOf(s glovebox.Span) (first, end int) {
	turns := b.settle().turns
	first = -1
	for i := range turns {
		if turns[i].seq == 0 {
			continue
		}
		if turns[i].seq > s.Through {
			break
		}
		if turns[i].seq >= s.From {
			if first < 0 {
				first = i
			}
			end = i + 1
		}
	}
	if first < 0 {
		return 0, 0
	}
	if end < len(turns) && turns[end].seq == 0 {
		end++
	}
	return first, end
}

// sourceSize returns how many bytes of text a span has.
func (b *Builder) sourceSize(s glovebox.Span) (n int) {
	b.source(s, func(text string) { n += len(text) })
	return n
}

// source calls f with the texts that a span is made of.
func (b *Builder) source(s glovebox.Span, f func(string)) {
	if s.Level > 0 {
		for _, k := range b.tree.children(s) {
			f(k.Text)
		}
		return
	}
	c := b.settle()
	first, end := b.turnsOf(s)
	if s.From == 1 && len(c.turns) > 0 { // what was said before the first answer
		for _, x := range c.turns[0].msg.Blocks[min(len(b.opening.blocks), len(c.turns[0].msg.Blocks)):] {
			f(x.Text)
		}
	}
	for i := first; i < end; i++ {
		for _, x := range c.turns[i].msg.Blocks {
			f(x.Text)
			f(string(x.Input))
			for _, y := range x.Content {
				f(y.Text)
			}
		}
	}
}
