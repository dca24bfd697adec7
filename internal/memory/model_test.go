package memory

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
)

// signed returns a world with an answer that has reasoning and a call with a
// signature, and the result of the call.
func signed() *world {
	w := newWorld(MarksFor(llm.Info{Window: 200_000}, 3000, 700))
	w.ask()
	w.sign("g")
	return w
}

// sign records such an answer.
func (w *world) sign(call string) {
	signature := json.RawMessage(`{"signature":"x"}`)
	used := use(call)
	used.Provider, used.Opaque = "p", signature
	w.record(glovebox.EventModelAnswered, glovebox.ModelAnswered{Message: glovebox.Message{Blocks: []glovebox.Block{
		{Type: glovebox.BlockReasoning, Provider: "p", Opaque: signature, Text: "hm"}, used}}})
	w.record(glovebox.EventToolFinished, glovebox.ToolFinished{CallID: call, Content: []glovebox.Block{glovebox.Text("out")}})
}

func (w *world) change(model string) {
	w.model = model
	w.record(glovebox.EventModelChanged, glovebox.ModelChanged{Model: model})
}

// checkBare returns an error if r has anything that only one model can read.
func checkBare(r *llm.Request) error {
	for i, m := range r.Messages {
		for _, x := range m.Blocks {
			if x.Type == glovebox.BlockReasoning || len(x.Opaque) > 0 {
				return fmt.Errorf("message %d: %+v of the model before", i, x)
			}
		}
	}
	return checkLegal(r)
}

// TestModelChange: nothing that only the model before could read goes to the
// next one, folded or not.
func TestModelChange(t *testing.T) {
	t.Parallel()
	w := signed()
	if blocks := w.b.Request(1).Messages[1].Blocks; len(blocks) != 2 || len(blocks[1].Opaque) == 0 {
		t.Fatalf("%+v", blocks)
	}
	w.ask()
	w.answer(glovebox.Usage{}, 0, glovebox.Block{Type: glovebox.BlockReasoning, Provider: "p", Opaque: json.RawMessage(`{}`)})
	w.change("x:z")
	for _, next := range []func() error{func() error { w.ask(); return nil }, w.room} {
		if err := next(); err != nil {
			t.Fatal(err)
		}
		if err := checkBare(w.b.Request(1)); err != nil {
			t.Error(err)
		}
	}
	if w.folds != 1 || w.b.fold.Through != 0 || w.b.fold.Reason != glovebox.FoldModel {
		t.Errorf("fold %+v", w.b.fold)
	}
}

// TestModelChangedMeanwhile: what the model before answers after another was
// chosen is of the model before.
func TestModelChangedMeanwhile(t *testing.T) {
	t.Parallel()
	w := signed()
	w.ask()
	w.change("x:z")
	w.sign("h")
	if err := w.room(); err != nil {
		t.Fatal(err)
	}
	if err := checkBare(w.b.Request(1)); err != nil || w.folds != 1 {
		t.Errorf("%d folds: %v", w.folds, err)
	}
}

// TestModelTakenBack: a model that is left again before it was asked changes
// nothing; one that was asked begins an epoch, and so does the way back.
func TestModelTakenBack(t *testing.T) {
	t.Parallel()
	w := signed()
	before := Digest(w.b.Request(1))
	w.change("x:z")
	w.change("x:y")
	if err := w.room(); err != nil {
		t.Fatal(err)
	}
	if w.folds != 0 || Digest(w.b.Request(1)) != before {
		t.Errorf("%d folds; the request is %+v", w.folds, w.b.Request(1).Messages)
	}
	w.ask()
	if Digest(w.b.Request(1)) != before {
		t.Error("asked, the request is another")
	}
	w.sign("h")
	for i, model := range []string{"x:z", "x:y"} {
		w.change(model)
		if err := w.room(); err != nil {
			t.Fatal(err)
		}
		w.ask()
		w.record(glovebox.EventModelFailed, glovebox.ModelFailed{Kind: string(llm.KindQuota)})
		if err := checkBare(w.b.Request(1)); err != nil || w.folds != i+1 {
			t.Errorf("%s: %d folds: %v", model, w.folds, err)
		}
	}
}
