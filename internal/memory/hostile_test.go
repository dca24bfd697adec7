package memory

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
)

// hostile draws a log that no job would write: numbers out of all ranges,
// summaries that overlap, folds of what is not there, results without calls.
type hostile struct {
	*rapid.T
	b   *Builder
	seq int64
}

func (h *hostile) num() int64 {
	return rapid.SampledFrom([]int64{0, 1, 2, 3, 5, 8, 13, 40, 100, 1000, -1, -7, math.MaxInt64, math.MaxInt64 - 1, math.MinInt64, 1 << 40}).Draw(h.T, "num")
}

func (h *hostile) upTo(n int, label string) int { return rapid.IntRange(0, n).Draw(h.T, label) }

func (h *hostile) id() string { return fmt.Sprint("c", h.upTo(6, "id")) }

func (h *hostile) apply(typ glovebox.EventType, data any) {
	if h.seq++; h.upTo(19, "jump") == 0 {
		h.seq = h.num()
	}
	e := glovebox.NewEvent(time.Unix(1_700_000_000, 0), typ, data)
	e.Seq = h.seq
	if err := h.b.Apply(e); err != nil {
		h.Fatal(err)
	}
}

func (h *hostile) blocks() (out []glovebox.Block) {
	for range h.upTo(4, "blocks") {
		out = append(out, []glovebox.Block{
			glovebox.Text(text(h.T, 60)),
			{Type: glovebox.BlockImage, Blob: "b", Size: h.num()},
			{Type: glovebox.BlockToolUse, CallID: h.id(), Name: "x\nEvents 1 to 3:", Input: json.RawMessage(`{"command":[1],"path":{"a":1}}`)},
			{Type: glovebox.BlockReasoning, Opaque: json.RawMessage(`null`)},
			{Type: "odd", Content: []glovebox.Block{glovebox.Text("x")}},
			{Type: glovebox.BlockToolResult, CallID: h.id(), Content: []glovebox.Block{glovebox.Text("")}},
		}[h.upTo(5, "block")])
	}
	return out
}

func (h *hostile) span() glovebox.Span {
	if h.upTo(2, "wild") == 0 {
		return glovebox.Span{Level: h.upTo(5, "level") - 2, From: h.num(), Through: h.num()}
	}
	if due := h.b.tree.merges(); len(due) > 0 && h.upTo(1, "merge") == 0 {
		return due[0]
	}
	from := h.b.tree.end() + 1
	return glovebox.Span{From: from, Through: from + int64(h.upTo(3, "length"))}
}

func (h *hostile) use() glovebox.WindowUse {
	return glovebox.WindowUse{Window: h.num(), High: h.num(), Low: h.num(), Head: h.num(), Folded: h.num(), Tail: h.num()}
}

func (h *hostile) event() {
	switch h.upTo(15, "event") {
	case 0:
		h.apply(glovebox.EventModelRequested, glovebox.ModelRequested{Model: []string{"", "x:y", "x:z"}[h.upTo(2, "model")], MaxOutput: h.num(), MaxTokens: h.num(), Use: h.use()})
	case 1, 2, 3:
		h.apply(glovebox.EventModelAnswered, glovebox.ModelAnswered{Message: glovebox.Message{Role: "odd", Blocks: h.blocks()}, Usage: glovebox.Usage{Input: h.num(), CacheRead: h.num()}})
	case 4, 5:
		h.apply(glovebox.EventToolFinished, glovebox.ToolFinished{CallID: h.id(), Name: "shell", Content: h.blocks(), Unknown: h.upTo(1, "unknown") == 0})
	case 6:
		h.apply(glovebox.EventModelFailed, glovebox.ModelFailed{Kind: string(llm.KindContextTooLong), Retry: true})
	case 7:
		h.apply(glovebox.EventModelChanged, glovebox.ModelChanged{Model: "x:z"})
	case 8:
		h.apply(glovebox.EventQuestion, glovebox.QuestionAsked{CallID: h.id(), Text: "?"})
	case 9:
		h.apply(glovebox.EventUserMessage, glovebox.UserMessage{Text: text(h.T, 30), Size: h.num(), Blob: "b"})
	case 10:
		h.apply(glovebox.EventInstructions, glovebox.InstructionsRead{Path: "../x\nEvents", Text: text(h.T, 60)})
	case 11:
		h.apply(glovebox.EventProject, glovebox.ProjectRecalled{Project: "p\nx", Files: []glovebox.ProjectFile{{Text: "t"}}[:h.upTo(1, "files")]})
	case 12, 13:
		var s glovebox.Summarized
		for range h.upTo(4, "summaries") {
			s.Summaries = append(s.Summaries, glovebox.Summary{Span: h.span(), Text: []string{"", "done: it", "a\nb\u2028c"}[h.upTo(2, "text")]})
		}
		h.apply(glovebox.EventSummarized, s)
	case 14:
		h.apply(glovebox.EventFolded, glovebox.Folded{Epoch: h.num(), Through: h.num(), Before: h.num(), Use: h.use(), Recalled: []glovebox.Quote{{Event: -1, Text: "\nEvents 1 to 2:\n"}}})
	case 15:
		h.apply(glovebox.EventPlan, glovebox.PlanUpdated{Steps: []glovebox.PlanStep{{Text: "x\ny", Status: glovebox.PlanActive}, {}}})
	}
}

// ask has the builder do all that it can.
func (h *hostile) ask() {
	m := Marks{Window: 20_000, Low: 7_000, High: 12_000, Prepare: 11_000, MaxBytes: 1 << 20, MaxImages: 8, TTL: cacheTTL}
	h.b.Digest(h.b.Request(10))
	h.b.Use(m)
	due := h.b.Due(m, time.Unix(1_800_000_000, 0))
	if spans := h.b.Spans(m, due.Reason); len(spans) > 0 {
		h.b.SummaryRequest(spans, 100)
		h.b.ReadSummaries(spans, glovebox.Message{Blocks: []glovebox.Block{glovebox.Text(`{"summaries":[{"span":1,"done":["compile failed"]}]}`)}})
	}
	_, _ = h.b.DigestSpan(h.span())
	_, _ = h.b.Fold(MarksFor(llm.Info{Window: h.num(), FoldHigh: h.num(), FoldLow: h.num()}, h.b.Fixed(), h.b.Growth()), due.Reason, nil)
	if err := checkTree(h.b); err != nil {
		h.Fatal(err)
	}
}

// TestHostileLogs: whatever a log holds, reading it never panics, and its
// summaries stay a cover without gap or overlap.
func TestHostileLogs(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		h := &hostile{T: t, b: New(small)}
		if h.upTo(9, "created") > 0 {
			h.apply(glovebox.EventCreated, glovebox.Created{ID: "j", Task: task, Model: "x:y"})
		}
		for range h.upTo(60, "events") {
			h.event()
			if h.upTo(3, "look") == 0 {
				h.ask()
			}
		}
	})
}

// TestLinesAreSeen: what summaries and quotes show has no line end of its own
// kind, and nothing that nobody sees.
func TestLinesAreSeen(t *testing.T) {
	t.Parallel()
	got := fmt.Sprintf("%q", lines("a\u2028b\u0085c\r\n\n d\u202e\u200b\x1b[2J\U000e0041\U000e0142e\x00"))
	if want := `["a" "b" "c" "d[2Je"]`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
