package memory

import (
	"github.com/glovebox-dev/glovebox"
)

// Bounds of leaves.
const (
	mostLeaf   = 24_000 // tokens as they are estimated: about 16,000 of the provider's
	leastLeaf  = 3_000
	mostLeaves = 24  // at once; they are longer where there would be more
	noteTokens = 600 // that a leaf is reckoned with, as they are estimated
	lineTokens = 30  // of the line in the place of an image
)

func leafTokens(m Marks) int64 { return min(max((m.High-m.Low)/4, leastLeaf), mostLeaf) }

// Spans returns what lacks a summary before history can be folded to the
// low-water mark: leaves, then merges. They are cut between the answers of
// the model, so that no call is separated from its result.
//
// An empty reason asks for what to prepare. With the reason of a fold nothing
// is returned if what is there already brings the request near enough to the
// mark: it has grown since summaries were prepared.
func (b *Builder) Spans(m Marks, reason glovebox.FoldReason) []glovebox.Span {
	b.catchUp(true)
	m = b.marks(m, reason)
	c, target := b.settle(), b.target(m, reason)
	goal := target
	switch reason {
	case glovebox.FoldFull, glovebox.FoldCold:
		goal += m.High - m.Prepare
	case glovebox.FoldModel, glovebox.FoldBytes:
		goal = m.Prepare
	}
	var out []glovebox.Span
	if c.scale(b.after(m, b.tree.end())) > goal {
		out = b.leaves(m, c.unscale(target))
	}
	if len(out) > 0 || reason == "" {
		out = append(out, b.tree.merges()...)
	}
	return out
}

// after returns the estimated tokens of the request if all up to the event
// through is folded.
func (b *Builder) after(m Marks, through int64) int64 {
	c := b.settle()
	if i := b.firstAnswer(through); i >= 0 {
		return b.wouldOpen(m, through) + c.lean(i)
	}
	return b.wouldOpen(m, b.tree.shown) + c.lean(1)
}

// firstAnswer returns the first turn that is an answer behind the event through.
func (b *Builder) firstAnswer(through int64) int {
	for i, t := range b.settle().turns {
		if t.seq > through {
			return i
		}
	}
	return -1
}

// wouldOpen returns the estimated tokens of rules, tools and beginning if all
// up to the event through is folded.
func (b *Builder) wouldOpen(m Marks, through int64) int64 {
	next := *b
	next.tree.shown = through
	next.fold.Use, next.fold.Recalled = glovebox.WindowUse{Window: m.Window, High: m.High}, nil
	o := next.nextOpening()
	return b.rules + o.head + o.folded
}

// lean returns the estimated tokens of what follows turn i, an answer, and of
// itself, without reasoning and old images, and with what a fold shows again.
func (c *conversation) lean(i int) int64 {
	s := c.open.turn().size
	for _, t := range c.turns[min(i, len(c.turns)):] {
		s = s.plus(t.size)
	}
	n := s.lean(c.room.images)
	if i < len(c.turns) {
		n += c.repeats.unfolded(c.turns[i].calls)
	}
	return n
}

func (s turnSize) lean(images int) int64 {
	return s.tokens - s.reasoning - int64(max(0, s.images-images))*(imageTokens-lineTokens)
}

// leaves returns the leaves that have to be there before the request has at
// most target estimated tokens, or all that can be there.
func (b *Builder) leaves(m Marks, target int64) []glovebox.Span {
	c, end := b.settle(), b.tree.end()
	first := b.firstAnswer(end)
	if first < 0 {
		return nil
	}
	opening := b.wouldOpen(m, end)
	per := leafTokens(m)
	rest := c.open.turn().size
	for i := first; i < len(c.turns); i++ {
		rest = rest.plus(c.turns[i].size)
	}
	// The last answer stays: its calls belong to what the request ends with.
	var folded int64
	cut := first
	for i := first; i < len(c.turns); i++ {
		if c.turns[i].seq > 0 {
			cut = i
			if opening+rest.lean(c.room.images)+c.repeats.unfolded(c.turns[i].calls)+(folded/per+1)*noteTokens <= target {
				break
			}
		}
		folded += c.turns[i].size.tokens
		rest = rest.minus(c.turns[i].size)
	}
	return b.divide(first, cut, max(per, folded/mostLeaves))
}

// divide makes leaves of about per tokens of what lies behind the tree and
// before turn cut, from turn first on.
func (b *Builder) divide(first, cut int, per int64) []glovebox.Span {
	turns := b.settle().turns
	var out []glovebox.Span
	from := b.tree.end() + 1
	add := func(through int64) {
		if through >= from {
			out = append(out, glovebox.Span{From: from, Through: through})
			from = through + 1
		}
	}
	var sum int64
	for i := first; i < cut; i++ {
		if turns[i].seq > 0 {
			n := turns[i].size.tokens
			if i+1 < cut && turns[i+1].seq == 0 {
				n += turns[i+1].size.tokens
			}
			if sum > 0 && sum+n > per {
				add(turns[i].seq - 1)
				sum = 0
			}
			sum += n
		}
	}
	add(turns[cut].seq - 1)
	return out
}
