package memory

import (
	"fmt"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
)

// costPerCall is what a call costs on average, in uncached tokens: the
// formula of [MarksFor], without the bounds.
func costPerCall(r, w, l, s, g, d float64) float64 {
	return r*(l+d/2) + g*w + g/d*((l-s)*w+(l+d)*r+summaryCosts)
}

func TestMarksAreTheCheapest(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"claude-opus-5", "claude-sonnet-5-5", "claude-fable-5-1", "gpt-6.1-sol", "gpt-5.5"} {
		provider := "anthropic"
		if name[0] == 'g' {
			provider = "openai"
		}
		info := llm.Lookup(provider, name)
		r, w := float64(info.CacheReadPrice)/float64(info.InputPrice), float64(info.CacheWritePrice)/float64(info.InputPrice)
		for _, g := range []int64{300, 1500, 6000} {
			m := MarksFor(info, 9000, g)
			l, d := float64(m.Low), float64(m.High-m.Low)
			if m.High-m.Low <= leastGrowth || m.High >= info.LongFrom*95/100 && info.LongFrom > 0 {
				continue // at a bound
			}
			best := costPerCall(r, w, l, 9000, float64(g), d)
			for _, other := range []float64{d * .8, d * 1.25} {
				if cost := costPerCall(r, w, l, 9000, float64(g), other); cost < best {
					t.Errorf("%s, %d a call: %.0f tokens between the marks cost %.1f a call, %.0f cost %.1f", name, g, d, best, other, cost)
				}
			}
		}
	}
}

func TestMarksAreWithinTheWindow(t *testing.T) {
	t.Parallel()
	for _, window := range []int64{0, 16_000, 32_768, 64_000, 128_000, 200_000, 1_000_000} {
		for _, fixed := range []int64{0, 3_000, 12_000, 100_000} {
			for _, growth := range []int64{0, 1, 700, 50_000} {
				info := llm.Info{Window: window, MaxOutput: 32_000}
				m := MarksFor(info, fixed, growth)
				if m.Low <= 0 || m.Low >= m.High || m.Prepare <= m.Low || m.Prepare > m.High {
					t.Errorf("window %d, fixed %d, growth %d: %+v", window, fixed, growth, m)
				}
				if window > 0 && m.High > window*8/10 {
					t.Errorf("window %d, fixed %d, growth %d: high is %d", window, fixed, growth, m.High)
				}
				if window >= 200_000 && fixed < 50_000 && m.High-m.Low < leastGrowth {
					t.Errorf("window %d, fixed %d, growth %d: %d between the marks", window, fixed, growth, m.High-m.Low)
				}
			}
		}
	}
	m := MarksFor(llm.Info{Window: 200_000, FoldHigh: 90_000, FoldLow: 30_000}, 9000, 700)
	if m.High != 90_000 || m.Low != 30_000 {
		t.Errorf("as they are set: %+v", m)
	}
	if a, b := MarksFor(llm.Info{Window: 200_000}, 9000, 700), MarksFor(llm.Info{Window: 200_000, Priced: true, InputPrice: 100, CacheReadPrice: 10, CacheWritePrice: 125}, 9000, 700); a != b {
		t.Errorf("without prices %+v, with those that are assumed %+v", a, b)
	}
}

// TestDue goes through the reasons to fold.
func TestDue(t *testing.T) {
	t.Parallel()
	marks := Marks{Window: 60_000, Low: 10_000, High: 30_000, Prepare: 24_000, MaxBytes: 1 << 20, MaxImages: 6, TTL: cacheTTL}
	grown := func(tokens int64) *world {
		w := newWorld(marks)
		for w.b.Tokens() < tokens {
			w.ask()
			id := w.answer(glovebox.Usage{}, 1)[0]
			w.record(glovebox.EventToolFinished, glovebox.ToolFinished{CallID: id, Name: "shell", Content: []glovebox.Block{glovebox.Text(fmt.Sprint("some output of a command ", w.ids, stringsOf(120)))}})
		}
		return w
	}
	check := func(w *world, after time.Duration, want Due) {
		t.Helper()
		if got := w.b.Due(w.marks, w.now.Add(after)); got != want {
			t.Errorf("%v is due, want %v", got, want)
		}
	}
	w := grown(12_000)
	check(w, 0, Due{})
	check(w, time.Hour, Due{}) // not well above the mark
	w = grown(20_000)
	check(w, 0, Due{})
	check(w, time.Hour, Due{}) // to have summaries made would cost what it saves
	w.marks.Free = true
	check(w, time.Hour, Due{DueFold, glovebox.FoldCold})
	w = grown(25_000)
	check(w, 0, Due{Action: DuePrepare})
	if err := w.room(); err != nil {
		t.Fatal(err)
	}
	check(w, 0, Due{})
	if len(w.b.Spans(w.marks, glovebox.FoldFull)) != 0 {
		t.Error("a fold needs more than what was prepared")
	}
	check(w, time.Hour, Due{DueFold, glovebox.FoldCold})
	if w.now = w.now.Add(time.Hour); w.room() != nil || w.folds != 1 {
		t.Fatal("no fold")
	}
	check(w, time.Hour, Due{})
	w = grown(30_000)
	check(w, 0, Due{DueFold, glovebox.FoldFull})
	w.record(glovebox.EventModelFailed, glovebox.ModelFailed{Kind: string(llm.KindContextTooLong), Retry: true})
	check(w, 0, Due{DueFold, glovebox.FoldRefused})
	w.record(glovebox.EventModelChanged, glovebox.ModelChanged{Model: "x:z"})
	check(w, 0, Due{DueFold, glovebox.FoldModel})

	w = newWorld(marks)
	for range 7 {
		w.ask()
		id := w.answer(glovebox.Usage{}, 1)[0]
		w.record(glovebox.EventToolFinished, glovebox.ToolFinished{CallID: id, Name: "gui", Content: []glovebox.Block{{Type: glovebox.BlockImage, Blob: "b", Size: 1000}}})
	}
	w.marks.High, w.marks.Prepare = 100_000, 90_000
	check(w, 0, Due{DueFold, glovebox.FoldBytes})
	if err := w.room(); err != nil {
		t.Fatal(err)
	}
	check(w, 0, Due{})
	if n := w.b.settle().size().images; n != keptImages {
		t.Errorf("%d images are left", n)
	}
}

func stringsOf(n int) (s string) {
	for i := range n {
		s += fmt.Sprintf(" word%d", i)
	}
	return s
}

// TestRefusedTwice: each refusal halves what is asked for, and the marks
// remember at which length it was.
func TestRefusedTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(Marks{Window: 100_000, Low: 20_000, High: 60_000, Prepare: 50_000, Free: true})
	for w.b.Tokens() < 40_000 {
		w.ask()
		id := w.answer(glovebox.Usage{}, 1)[0]
		w.record(glovebox.EventToolFinished, glovebox.ToolFinished{CallID: id, Name: "shell", Content: []glovebox.Block{glovebox.Text(stringsOf(150))}})
	}
	sizes := []int64{w.b.Tokens()}
	for range 2 {
		w.ask()
		w.record(glovebox.EventModelFailed, glovebox.ModelFailed{Kind: string(llm.KindContextTooLong), Retry: true})
		if err := w.room(); err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, w.b.Tokens())
	}
	if w.folds != 2 || sizes[1] > 12_000 || sizes[2] > sizes[1]*2/3 {
		t.Errorf("%d folds, requests of %v tokens", w.folds, sizes)
	}
	if u := w.b.Use(w.marks); u.High >= sizes[0] || u.Low >= u.High {
		t.Errorf("the marks are still %+v", u)
	}
}

// TestOneLargeAnswer: what fills a request that fits, and can't be folded yet,
// is no reason to fold.
func TestOneLargeAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(Marks{Window: 100_000, Low: 10_000, High: 20_000, Prepare: 18_000, Free: true})
	w.ask()
	id := w.answer(glovebox.Usage{}, 1, glovebox.Text(stringsOf(8000)))[0]
	w.record(glovebox.EventToolFinished, glovebox.ToolFinished{CallID: id, Content: []glovebox.Block{glovebox.Text("ok")}})
	if n := w.b.Tokens(); n < w.marks.High || n > 80_000 {
		t.Fatalf("%d tokens", n)
	}
	if got := w.b.Due(w.marks, w.now); got != (Due{}) {
		t.Errorf("%v is due", got)
	}
	w.ask()
	w.answer(glovebox.Usage{}, 0, glovebox.Text("on"))
	if err := w.room(); err != nil || w.folds != 1 || w.b.Tokens() > w.marks.Low {
		t.Errorf("%d folds, %d tokens, %v", w.folds, w.b.Tokens(), err)
	}
}
