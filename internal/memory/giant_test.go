package memory

import (
	"fmt"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
)

// TestGiants: what is very long is shown by its ends from the start.
func TestGiants(t *testing.T) {
	t.Parallel()
	w := newWorld(MarksFor(llm.Info{Window: 200_000}, 3000, 700))
	before := w.b.Tokens()
	w.ask()
	ids := w.answer(glovebox.Usage{}, 2)
	long := "first line\n" + strings.Repeat("one more line of some output\n", 30_000) + "last line"
	event := w.record(glovebox.EventToolFinished, glovebox.ToolFinished{CallID: ids[0], Content: []glovebox.Block{glovebox.Text(long)}})
	w.record(glovebox.EventToolFinished, glovebox.ToolFinished{CallID: ids[1], Blob: "out-7", Content: []glovebox.Block{glovebox.Text(strings.ReplaceAll(long, "one", "another"))}})
	said := w.record(glovebox.EventUserMessage, glovebox.UserMessage{Text: "look:\n" + strings.Repeat("pasted 好 \n", 8000), Blob: "paste-1", Size: 5 << 20})
	m := w.b.Request(1).Messages
	open := m[len(m)-1].Blocks
	for i, where := range []string{fmt.Sprintf("open_event with event %d has the whole", event), `read_output with handle "out-7" has the whole`} {
		if text := open[i].Content[0].Text; !strings.HasPrefix(text, "first line\n") || !strings.HasSuffix(text, "\nlast line") || !strings.Contains(text, where) {
			t.Errorf("result %d is shown as %.300q", i, text)
		}
	}
	for _, where := range []string{"look:", fmt.Sprintf("open_event with event %d", said), `a message of 5242880 bytes; read_output with handle "paste-1"`} {
		if !strings.Contains(open[2].Text, where) {
			t.Errorf("%q is not in the message", where)
		}
	}
	if n := w.b.Tokens() - before; n > 50_000 {
		t.Errorf("they take %d tokens", n)
	}
}

// TestGiantTask: the task is there whole, whatever its length.
func TestGiantTask(t *testing.T) {
	t.Parallel()
	b, whole := New(small), strings.Repeat("Do this, too. ", 70_000)
	b.Apply(glovebox.Event{Seq: 1, Type: glovebox.EventCreated, Data: encode(glovebox.Created{ID: "j", Task: whole})})
	if b.Request(1).Messages[0].Blocks[1].Text != whole {
		t.Error("the task is not word for word")
	}
	_, err := b.Fold(MarksFor(llm.Info{Window: 100_000}, b.Fixed(), 700), glovebox.FoldFull, nil)
	if glovebox.CodeOf(err) != CodeContext {
		t.Errorf("folding it returns %v", err)
	}
}

// TestManySaid: what does not fit beside the results is named, and what was
// sent stays as it was.
func TestManySaid(t *testing.T) {
	t.Parallel()
	w := newWorld(Marks{Window: 50_000, Low: 10_000, High: 20_000, Prepare: 18_000})
	w.ask()
	w.answer(glovebox.Usage{}, 0, glovebox.Text("hello"))
	for range 300 {
		w.record(glovebox.EventUserMessage, glovebox.UserMessage{Text: strings.Repeat("more words ", 40)})
	}
	w.ask()
	sent := w.b.Request(1)
	first := w.record(glovebox.EventUserMessage, glovebox.UserMessage{Text: "late"})
	w.answer(glovebox.Usage{}, 0, glovebox.Text("I see"))
	now := w.b.Request(1)
	if !samePrefix(sent.Messages, now.Messages) {
		t.Error("what was sent changed")
	}
	if n := w.b.Tokens(); n > 20_000 {
		t.Errorf("%d tokens", n)
	}
	last := now.Messages[len(now.Messages)-1].Blocks
	if text := last[len(last)-1].Text; !strings.Contains(text, fmt.Sprintf("from event %d on", first)) {
		t.Errorf("the late message is shown as %q", text)
	}
}
