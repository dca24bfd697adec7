package worker

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
	"github.com/glovebox-dev/glovebox/internal/memory/recall"
)

// TestModelChange: a person lets another model go on while the first hangs. A
// model that there is not, or whose price the job's limit needs, is refused.
func TestModelChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := w.options()
	other := script{nil, finish("test -d .")}
	o.Models = func(_ context.Context, name string) (llm.Model, llm.Info, error) {
		info := llm.Info{Provider: "test", Window: 200_000, MaxOutput: 8000, Priced: true}
		switch name {
		case "test:x":
			return script{shell("true"), nil}, info, nil
		case "test:y":
			return script{1: other[1]}, info, nil
		case "test:unpriced":
			info.Priced = false
			return other, info, nil
		}
		return nil, info, glovebox.Invalid("model", "name another", "there is no model %s", name)
	}
	worker := w.start(o)
	id := w.submit(func(c *glovebox.Created) { c.Limits.CostMicros = 1_000_000 })
	w.await(id, "the second call", func(j *glovebox.Job) bool { return j.Step == 1 })
	for _, name := range []string{"test:none", "test:unpriced", "test:y"} {
		if err := w.store.SendSignal(w.ctx(), "", id, glovebox.Signal{Model: name}); err != nil {
			t.Fatal(err)
		}
	}
	j := w.awaitEnd(id)
	w.checkLaws(id, j)
	if n := data[glovebox.Notice](w, id, glovebox.EventNotice); len(n) != 2 || j.Model != "test:y" {
		t.Errorf("model %s, notices %+v", j.Model, n)
	}
	var asked []string
	for _, q := range data[glovebox.ModelRequested](w, id, glovebox.EventModelRequested) {
		asked = append(asked, q.Model)
	}
	if asked = slices.Compact(asked); !slices.Equal(asked, []string{"test:x", "test:y"}) {
		t.Errorf("asked %v", asked)
	}
	w.awaitNoSandbox(worker)
}

// TestRecallSwept: an index goes with its job, and some time after its end.
func TestRecallSwept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.model = script{finish("test -d .")}
	dir := filepath.Join(t.TempDir(), "recall")
	o := w.options()
	o.Recall, o.Now = &recall.Keeper{Dir: dir}, w.clock.Now
	worker := w.start(o)
	id := w.submit()
	w.awaitEnd(id)
	if err := worker.Stop(w.ctx()); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	waiting := w.submit()
	unknown := glovebox.NewID()
	for _, name := range []string{id + ".db", unknown + ".db", unknown + ".db-wal", waiting + ".db", "note.txt"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	left := func() []string {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	want := []string{id + ".db", waiting + ".db", "note.txt"}
	slices.Sort(want)
	if worker.sweepRecall(w.ctx()); !slices.Equal(left(), want) {
		t.Errorf("left are %v", left())
	}
	w.clock.Add(2 * time.Hour)
	want = []string{waiting + ".db", "note.txt"}
	if worker.sweepRecall(w.ctx()); !slices.Equal(left(), want) {
		t.Errorf("left are %v after the job's end", left())
	}
}
