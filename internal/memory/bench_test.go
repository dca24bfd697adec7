package memory

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
)

// million is about how many tokens of the trajectories' kind make a history
// of a million tokens: calls of some 700 tokens.
const callsPerMillion = 1400

// longLog returns the log of a job of so many calls, folded as it goes, and
// its size in bytes.
func longLog(tb testing.TB, calls int) (events []glovebox.Event, b *Builder, m Marks) {
	tb.Helper()
	w := newWorld(Marks{})
	info := llm.Info{Provider: "replay", Window: 200_000, MaxOutput: 32_000}
	out := strings.Repeat("   12\tfunc (s *Server) handle(w http.ResponseWriter, r *http.Request) error {\n", 18)
	for i := range calls {
		if i%10 == 0 {
			w.marks = MarksFor(info, w.b.Fixed(), w.b.Growth())
		}
		if err := w.room(); err != nil {
			tb.Fatal(err)
		}
		w.now = w.now.Add(20 * time.Second)
		w.ask()
		w.ids++
		id := fmt.Sprint("c", w.ids)
		in, _ := json.Marshal(map[string]string{"command": fmt.Sprintf("sed -n %d,%dp internal/server/handle_%d.go && go test ./internal/server -run Handle%d", i, i+18, i%97, i%31)})
		w.record(glovebox.EventModelAnswered, glovebox.ModelAnswered{Message: glovebox.Message{Blocks: []glovebox.Block{
			{Type: glovebox.BlockReasoning, Provider: "p", Text: strings.Repeat("I should look at the handler first. ", 6), Opaque: json.RawMessage(`{"signature":"` + strings.Repeat("abcd", 80) + `"}`)},
			glovebox.Text("I look at the handler before I change it."),
			{Type: glovebox.BlockToolUse, CallID: id, Name: "shell", Input: in}}}})
		w.record(glovebox.EventToolStarted, glovebox.ToolStarted{CallID: id, Name: "shell", Input: in})
		w.record(glovebox.EventToolFinished, glovebox.ToolFinished{CallID: id, Name: "shell", Content: []glovebox.Block{glovebox.Text(out + "\n[exit 0]")}})
		if i%20 == 19 {
			w.record(glovebox.EventCheckpoint, glovebox.CheckpointSaved{Commit: "c", Changes: []glovebox.FileChange{{Path: "internal/server/server.go", Added: 3}}})
		}
	}
	return w.events, w.b, w.marks
}

// BenchmarkApply reads a log of about ten million tokens, as a worker does
// that takes a job over.
func BenchmarkApply(b *testing.B) {
	events, _, _ := longLog(b, 10*callsPerMillion)
	var bytes int64
	for _, e := range events {
		bytes += int64(len(e.Data))
	}
	b.SetBytes(bytes)
	b.ReportAllocs()
	for b.Loop() {
		next := New(small)
		for _, e := range events {
			if err := next.Apply(e); err != nil {
				b.Fatal(err)
			}
		}
		next.Request(1000)
	}
}

// BenchmarkRequest makes the request of a step, with its digest.
func BenchmarkRequest(b *testing.B) {
	for _, millions := range []int{1, 10} {
		b.Run(fmt.Sprint(millions, "M"), func(b *testing.B) {
			_, bld, m := longLog(b, millions*callsPerMillion)
			b.ReportAllocs()
			for b.Loop() {
				bld.Due(m, time.Time{})
				bld.Digest(bld.Request(1000))
				bld.Use(m)
			}
		})
	}
}

// BenchmarkFold decides and applies a fold.
func BenchmarkFold(b *testing.B) {
	_, bld, m := longLog(b, 2*callsPerMillion)
	for b.Loop() {
		if _, err := bld.Fold(m, glovebox.FoldModel, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// TestMemoryIsBounded: what a builder keeps does not grow with the history.
func TestMemoryIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("reads ten million tokens")
	}
	heap := func(calls int) uint64 {
		_, b, _ := longLog(t, calls)
		var s runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&s)
		runtime.KeepAlive(b)
		return s.HeapAlloc
	}
	short, long := heap(callsPerMillion), heap(4*callsPerMillion)
	if long > short+16<<20 {
		t.Errorf("%d bytes after a million tokens, %d after four", short, long)
	}
}
