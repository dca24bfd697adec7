package memory

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
)

// TestLongHistory folds often enough for a tree of several levels.
func TestLongHistory(t *testing.T) {
	t.Parallel()
	w := newWorld(Marks{Window: 20_000, Low: 8_000, High: 15_000, Prepare: 13_500})
	folds := 0
	w.check = func(e glovebox.Event) {
		if e.Type != glovebox.EventFolded {
			return
		}
		folds++
		if err := checkTree(w.b); err != nil {
			t.Fatalf("event %d: %v", e.Seq, err)
		}
		if err := checkLegal(w.b.Request(1)); err != nil {
			t.Fatalf("event %d: %v", e.Seq, err)
		}
		if n := w.b.Tokens(); n > w.marks.Low*5/4 {
			t.Fatalf("event %d: %d tokens after the fold", e.Seq, n)
		}
	}
	for i := range 1500 {
		if err := w.room(); err != nil {
			t.Fatal(err)
		}
		w.ask()
		id := w.answer(glovebox.Usage{}, 1, glovebox.Text(fmt.Sprintf("Step %d of many.", i)))[0]
		w.record(glovebox.EventToolFinished, glovebox.ToolFinished{CallID: id, Name: "shell", Content: []glovebox.Block{glovebox.Text(strings.Repeat(fmt.Sprintf("a line of step %d\n", i), 60))}})
	}
	levels := w.b.tree.levels
	if len(levels) < 3 || len(levels[2]) == 0 {
		t.Fatalf("%d levels after %d folds, leaves %d", len(levels), folds, len(levels[0]))
	}
	for level, nodes := range levels[:len(levels)-1] {
		if n := len(nodes) - fanout*len(levels[level+1]); n >= 3*fanout {
			t.Errorf("level %d has %d nodes without a parent", level, n)
		}
	}
	kept := 0
	for _, nodes := range levels {
		for _, n := range nodes {
			kept += len(n.Text)
		}
	}
	if kept > 200<<10 {
		t.Errorf("%d bytes of summaries are kept", kept)
	}
	scratch := build(t, w.events) // with other rules, but of the same log
	if got, want := len(scratch.Messages), len(w.b.Request(1).Messages); got != want {
		t.Errorf("rebuilt, the request has %d messages, else %d", got, want)
	}
}

// TestTreeTakesOnlyWhatFits: a log from elsewhere can't tear holes.
func TestTreeTakesOnlyWhatFits(t *testing.T) {
	t.Parallel()
	var tr tree
	leaf := func(from, through int64) glovebox.Summary {
		return glovebox.Summary{Span: glovebox.Span{From: from, Through: through}, Text: "x"}
	}
	for _, s := range []glovebox.Summary{leaf(2, 5), leaf(0, 5), leaf(1, 0), {Span: glovebox.Span{From: 1, Through: 5}}, {Span: glovebox.Span{From: 1, Through: 5}, Text: " \n\x00"},
		{Span: glovebox.Span{From: 1, Through: 5}, Text: strings.Repeat("x", glovebox.MaxSummary+1)}, {Span: glovebox.Span{Level: 1, From: 1, Through: 5}, Text: "x"}, {Span: glovebox.Span{Level: -1, From: 1, Through: 5}, Text: "x"}} {
		if tr.add(s) {
			t.Errorf("%+v was taken", s.Span)
		}
	}
	for i := range int64(20) {
		if !tr.add(leaf(10*i+1, 10*i+10)) {
			t.Fatalf("leaf %d was not taken", i)
		}
	}
	merge := func(from, through int64) glovebox.Summary {
		return glovebox.Summary{Span: glovebox.Span{Level: 1, From: from, Through: through}, Text: "m"}
	}
	if tr.add(merge(1, 80)) {
		t.Error("a merge of leaves that are not shown was taken")
	}
	tr.shown = 200
	if got := tr.merges(); len(got) != 2 || got[0].Through != 80 || got[1].Through != 160 {
		t.Errorf("due are %v", got)
	}
	for _, s := range []glovebox.Summary{merge(1, 70), merge(11, 90), merge(81, 160)} {
		if tr.add(s) {
			t.Errorf("%+v was taken", s.Span)
		}
	}
	if !tr.add(merge(1, 80)) || tr.add(merge(1, 80)) {
		t.Error("a merge was not taken, or taken twice")
	}
	if got := tr.frontier(200); len(got) != 13 || got[0].Level != 1 || got[1].From != 81 {
		t.Errorf("the frontier is %v", got)
	}
	if tr.cut(195) != 200 { // what is shown stays
		t.Errorf("cut at %d", tr.cut(195))
	}
}

// TestSummariesOfWhatIsNot: a log may hold anything. A summary stands for
// nothing that came after it, and none follows one up to the last number.
func TestSummariesOfWhatIsNot(t *testing.T) {
	t.Parallel()
	b := New(small)
	for i, x := range []glovebox.Span{{From: 1, Through: 9}, {From: 1, Through: 1}, {From: 2, Through: math.MaxInt64}, {From: math.MinInt64, Through: math.MinInt64}, {From: 1, Through: 1}, {From: 2, Through: 3}} {
		e := glovebox.NewEvent(time.Unix(1, 0), glovebox.EventSummarized, glovebox.Summarized{Summaries: []glovebox.Summary{{Span: x, Text: "done: it"}}})
		e.Seq = int64(i + 2)
		if err := b.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	if got := b.tree.end(); got != 3 || len(b.tree.levels[0]) != 2 {
		t.Errorf("%d leaves up to event %d", len(b.tree.levels[0]), got)
	}
	last := tree{}
	if !last.add(glovebox.Summary{Span: glovebox.Span{From: 1, Through: math.MaxInt64}, Text: "x"}) || last.add(glovebox.Summary{Span: glovebox.Span{From: math.MinInt64, Through: math.MinInt64}, Text: "x"}) {
		t.Error("the tree goes on beyond the last number")
	}
}
