package memory

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
)

// TestEpochsShareTheirHead: what a fold leaves of the first message is marked
// in every epoch, and is the same until there are new instructions.
func TestEpochsShareTheirHead(t *testing.T) {
	t.Parallel()
	w := newWorld(Marks{Window: 60_000, Low: 4_000, High: 12_000, Prepare: 11_000})
	w.record(glovebox.EventInstructions, glovebox.InstructionsRead{Path: "AGENTS.md", Text: "- Never use tabs.\n- Always run the tests."})
	var head []glovebox.Block // that the epoch before had marked
	said, news := false, 0
	for call := range 120 {
		folds := w.folds
		if err := w.room(); err != nil {
			t.Fatal(err)
		}
		r := w.b.Request(1000)
		last := r.CacheMarks[len(r.CacheMarks)-1]
		if last != (llm.CacheMark{Message: len(r.Messages) - 1}) {
			t.Fatalf("call %d: the last mark is %+v of %d messages", call, last, len(r.Messages))
		}
		if w.folds > folds {
			if len(r.CacheMarks) != 3 || r.CacheMarks[0] != (llm.CacheMark{Blocks: 2}) || r.CacheMarks[1] != (llm.CacheMark{Blocks: 3}) {
				t.Fatalf("an epoch begins with the marks %+v", r.CacheMarks)
			}
			now := r.Messages[0].Blocks[:3]
			if !strings.Contains(now[2].Text, "Never use tabs.") {
				t.Fatalf("the instructions are not before the mark: %s", now[2].Text)
			}
			if same := reflect.DeepEqual(now, head); head != nil && same == said {
				t.Fatalf("new instructions: %t; the head is the same: %t", said, same)
			}
			head, said = now, false
		}
		w.ask()
		for _, id := range w.answer(glovebox.Usage{}, 1, glovebox.Text(fmt.Sprint("call ", call))) {
			w.record(glovebox.EventToolFinished, glovebox.ToolFinished{CallID: id, Name: "shell", Content: []glovebox.Block{glovebox.Text(strings.Repeat(fmt.Sprintf("line of call %d\n", call), 40))}})
		}
		if w.folds == 3 && len(w.events)%7 == 0 && !said {
			w.record(glovebox.EventUserMessage, glovebox.UserMessage{Text: fmt.Sprintf("From now on call it %d.", call)})
			said, news = true, news+1
		}
	}
	if w.folds < 6 || news == 0 {
		t.Fatalf("%d folds, %d new instructions", w.folds, news)
	}
}
