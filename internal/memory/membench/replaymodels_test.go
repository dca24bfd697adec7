package membench

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
	"github.com/glovebox-dev/glovebox/internal/memory"
)

// twoModels is a log in which another model goes on from the middle on, with
// no folds: the engine is to decide them.
func twoModels(t *testing.T, created, first, second string) string {
	t.Helper()
	var events []glovebox.Event
	for line := range strings.Lines(logOf(t, 200_000)) {
		var e glovebox.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		if !ofMemory[e.Type] {
			events = append(events, e)
		}
	}
	middle := len(events) / 2
	for events[middle-1].Type != glovebox.EventToolFinished {
		middle++
	}
	events = slices.Insert(events, middle, glovebox.NewEvent(events[middle].Time, glovebox.EventModelChanged, glovebox.ModelChanged{Model: second}))
	var b bytes.Buffer
	w := json.NewEncoder(&b)
	for i, e := range events {
		e.Seq = int64(i + 1)
		switch e.Type {
		case glovebox.EventCreated:
			c, err := glovebox.Decode[glovebox.Created](e)
			if err != nil {
				t.Fatal(err)
			}
			c.Model = created
			e.Data = glovebox.NewEvent(e.Time, e.Type, c).Data
		case glovebox.EventModelRequested:
			r, err := glovebox.Decode[glovebox.ModelRequested](e)
			if err != nil {
				t.Fatal(err)
			}
			if r.Model = first; i > middle {
				r.Model = second
			}
			e.Data = glovebox.NewEvent(e.Time, e.Type, r).Data
		}
		if err := w.Encode(e); err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

// TestReplayModels: each epoch is replayed with the model that it had.
func TestReplayModels(t *testing.T) {
	t.Parallel()
	infos := map[string]llm.Info{
		"a:large": {Provider: "a", Name: "large", Window: 200_000, Priced: true, InputPrice: 3_000_000, OutputPrice: 15_000_000, CacheReadPrice: 300_000, CacheWritePrice: 3_750_000},
		"b:small": {Provider: "b", Name: "small", Window: 60_000, Priced: true, InputPrice: 30_000_000, OutputPrice: 150_000_000, CacheReadPrice: 3_000_000, CacheWritePrice: 37_500_000},
	}
	tools := map[string][]llm.ToolSpec{"a:large": nil, "b:small": {{Name: "only_of_small", Description: strings.Repeat("long ", 2_000), Schema: json.RawMessage(`{}`)}}}
	o := ReplayOptions{Model: func(name string) (memory.Options, llm.Info, error) {
		info, ok := infos[name]
		if !ok {
			t.Errorf("asked for the model %q", name)
		}
		return memory.Options{Tools: tools[name]}, info, nil
	}}
	log := twoModels(t, "", "a:large", "b:small") // that of its first call
	got, err := Replay(t.Context(), strings.NewReader(log), o)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got.Models, []string{"a:large", "b:small"}) || got.Recorded || !got.Priced {
		t.Fatalf("got %+v", got)
	}
	var micros int64
	changed := false
	for i, e := range got.Epochs {
		info := infos[e.Model]
		left := i+1 < len(got.Epochs) && got.Epochs[i+1].Reason == glovebox.FoldModel // the next model may have written its last summaries
		if e.Reason == glovebox.FoldModel {
			changed = true
			if e.Begins > info.Window || e.Use.Head < 2_000 {
				t.Errorf("the other model begins with %+v", e)
			}
		}
		if changed != (e.Model == "b:small") || e.Use.Window != info.Window || e.Ends > info.Window {
			t.Errorf("epoch %d: %+v", e.Number, e)
		}
		if d := e.Micros - info.Cost(e.Usage); d < 0 || d > e.Usage.Calls && !left { // each call is rounded up
			t.Errorf("epoch %d costs %d, and by the prices of %s %d", e.Number, e.Micros, e.Model, info.Cost(e.Usage))
		}
		micros += e.Micros
	}
	if !changed || micros != got.Total.Micros {
		t.Errorf("epochs cost %d, all %d; changed: %t", micros, got.Total.Micros, changed)
	}
	var out bytes.Buffer
	if err := got.Write(&out); err != nil || !strings.Contains(out.String(), "model a:large, then b:small") || !strings.Contains(out.String(), "  b:small\n") {
		t.Errorf("%v:\n%s", err, &out)
	}
	o.Name = "a:large"
	one, err := Replay(t.Context(), strings.NewReader(twoModels(t, "b:small", "b:small", "c:other")), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range one.Epochs {
		if e.Model != "a:large" || e.Reason == glovebox.FoldModel || e.Use.Window != 200_000 {
			t.Errorf("with one model: epoch %+v", e)
		}
	}
}

// TestCacheOfModels: what one model's cache has kept, another's has not.
func TestCacheOfModels(t *testing.T) {
	t.Parallel()
	c := newCache()
	blocks, marks := []block{{id: 1, tokens: 5_000}, {id: 2, tokens: 5_000}}, []int{0, 1}
	for i, want := range []struct {
		model string
		read  int64
	}{{"a", 0}, {"a", 10_000}, {"b", 0}, {"b", 10_000}, {"a", 10_000}} {
		c.become(want.model, llm.Info{})
		if u := c.call(blocks, marks, 1, false); u.CacheRead != want.read {
			t.Errorf("call %d of %s reads %d, want %d", i, want.model, u.CacheRead, want.read)
		}
	}
	if c.total.breaks != 0 {
		t.Errorf("%d breaks", c.total.breaks)
	}
}
