package memory

import (
	"strings"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
)

// fanout is how many nodes of a level one of the next level stands for.
const fanout = 8

// keptNodes is how many nodes of a level are left as they are when older ones
// are merged: what is recent is told in more words.
const keptNodes = 4

// tree is the summaries of a job. Level 0 covers the events from 1 on without
// gap or overlap; node i of a level above stands for the nodes fanout*i to
// fanout*i+7 of the level below. Nodes are only ever added.
type tree struct {
	levels [][]node
	shown  int64 // the event up to which the epoch shows summaries
}

// node is a summary as it is shown: its text has nothing but lines. Of one
// with a parent the text is gone: the log has it.
type node struct {
	glovebox.Summary
	tokens int64 // estimated, of the text
}

// add takes a summary into the tree. One that does not continue its level, or
// says nothing, is passed over.
func (t *tree) add(s glovebox.Summary) bool {
	if s.Text = strings.Join(lines(s.Text), "\n"); s.Level < 0 || s.Level > len(t.levels) || s.Text == "" || len(s.Text) > glovebox.MaxSummary || s.Span != t.next(s.Level, s.Through) {
		return false
	}
	if s.Level == len(t.levels) {
		t.levels = append(t.levels, nil)
	}
	if s.Level > 0 {
		first := fanout * len(t.levels[s.Level])
		for i := range fanout {
			t.levels[s.Level-1][first+i].Text = ""
		}
	}
	t.levels[s.Level] = append(t.levels[s.Level], node{s, llm.Bound(s.Text)})
	return true
}

// next returns the span of the node that continues a level; zero if there can
// be none yet. That of a leaf ends at through.
func (t *tree) next(level int, through int64) glovebox.Span {
	if level == 0 {
		if from := t.end() + 1; from > 0 && through >= from {
			return glovebox.Span{From: from, Through: through}
		}
		return glovebox.Span{Level: -1}
	}
	first := 0
	if level < len(t.levels) {
		first = fanout * len(t.levels[level])
	}
	below := t.levels[level-1]
	if len(below) < first+fanout || below[first+fanout-1].Through > t.shown {
		return glovebox.Span{Level: -1}
	}
	return glovebox.Span{Level: level, From: below[first].From, Through: below[first+fanout-1].Through}
}

// end returns the event up to which there are leaves.
func (t *tree) end() int64 {
	if len(t.levels) == 0 || len(t.levels[0]) == 0 {
		return 0
	}
	return t.levels[0][len(t.levels[0])-1].Through
}

// cut returns the last end of a leaf up to the event through, no less than
// what is shown already.
func (t *tree) cut(through int64) int64 {
	best := t.shown
	for _, end := range t.ends() {
		if end <= through {
			best = end
		}
	}
	return best
}

// ends returns the ends of the leaves that are not shown yet, ascending.
func (t *tree) ends() []int64 {
	if len(t.levels) == 0 {
		return nil
	}
	leaves := t.levels[0]
	i := len(leaves)
	for i > 0 && leaves[i-1].Through > t.shown {
		i--
	}
	var out []int64
	for _, s := range leaves[i:] {
		out = append(out, s.Through)
	}
	return out
}

// merges returns the merges that are due among what is shown, the lowest
// level first, and of a level the oldest first.
func (t *tree) merges() []glovebox.Span {
	var out []glovebox.Span
	for level := range t.levels {
		parents := 0
		if level+1 < len(t.levels) {
			parents = len(t.levels[level+1])
		}
		nodes := t.levels[level]
		for len(nodes) > 0 && nodes[len(nodes)-1].Through > t.shown {
			nodes = nodes[:len(nodes)-1]
		}
		for first := fanout * parents; len(nodes)-first >= fanout+keptNodes; first += fanout {
			out = append(out, glovebox.Span{Level: level + 1, From: nodes[first].From, Through: nodes[first+fanout-1].Through})
		}
	}
	return out
}

// children returns the nodes that a merge stands for; nil if it is none that
// could be made.
func (t *tree) children(s glovebox.Span) []node {
	if s.Level < 1 || s.Level > len(t.levels) {
		return nil
	}
	below := t.levels[s.Level-1]
	parents := 0
	if s.Level < len(t.levels) {
		parents = len(t.levels[s.Level])
	}
	for i := fanout * parents; i+fanout <= len(below); i += fanout {
		if below[i].From == s.From && below[i+fanout-1].Through == s.Through {
			return below[i : i+fanout]
		}
	}
	return nil
}

// frontier returns what stands for the events up to through: the nodes that
// no other node stands for, the oldest first.
func (t *tree) frontier(through int64) []node {
	var out []node
	for level := len(t.levels) - 1; level >= 0; level-- {
		first := 0
		if level+1 < len(t.levels) {
			first = fanout * len(t.levels[level+1])
		}
		for _, s := range t.levels[level][min(first, len(t.levels[level])):] {
			if s.Through <= through {
				out = append(out, s)
			}
		}
	}
	return out
}

// Frontier returns the summaries that stand for the folded events in the
// request, the oldest first. Together they cover the events from 1 on to the
// end of the last without gap or overlap.
func (b *Builder) Frontier() []glovebox.Summary {
	b.catchUp(true)
	var out []glovebox.Summary
	for _, n := range b.tree.frontier(b.tree.shown) {
		out = append(out, n.Summary)
	}
	return out
}
