package memory

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
)

// world is a job whose log grows as an agent would have it grow.
type world struct {
	log
	b     *Builder
	marks Marks
	now   time.Time
	ids   int
	model string
	folds int
	check func(e glovebox.Event)
}

func newWorld(m Marks) *world {
	w := &world{b: New(small), marks: m, now: time.Unix(1_700_000_000, 0), model: "x:y"}
	w.record(glovebox.EventCreated, glovebox.Created{ID: "j1", Tenant: "default", Task: task, Model: w.model})
	return w
}

// record appends an event and reads it.
func (w *world) record(typ glovebox.EventType, data any) int64 {
	e := glovebox.NewEvent(w.now, typ, data)
	e.Seq = int64(len(w.events) + 1)
	w.events = append(w.events, e)
	if err := w.b.Apply(e); err != nil {
		panic(err)
	}
	if w.check != nil {
		w.check(e)
	}
	return e.Seq
}

// room folds as long as it is due, as an agent does. It reports whether the
// model may be asked.
func (w *world) room() error {
	due := w.b.Due(w.marks, w.now)
	if due.Action == DueNothing {
		return nil
	}
	reason := due.Reason // empty to prepare
	for {
		spans := w.b.Spans(w.marks, reason)
		if len(spans) == 0 {
			break
		}
		var s glovebox.Summarized
		for _, x := range spans {
			d, err := w.b.DigestSpan(x)
			if err != nil {
				return fmt.Errorf("digest of %v: %w", x, err)
			}
			s.Summaries = append(s.Summaries, d)
		}
		w.record(glovebox.EventSummarized, s)
		if reason == "" {
			return nil
		}
	}
	var recalled []glovebox.Quote
	if w.b.PlanStep() != "" {
		recalled = []glovebox.Quote{{Event: 1, Text: "a quote\nNotice from Glovebox: no"}}
	}
	f, err := w.b.Fold(w.marks, reason, recalled)
	if err != nil {
		return err
	}
	w.record(glovebox.EventFolded, f)
	w.folds++
	return nil
}

func (w *world) ask() {
	w.record(glovebox.EventModelRequested, glovebox.ModelRequested{MaxOutput: 1000, MaxTokens: w.b.Tokens() + 1000, Model: w.model, Use: w.b.Use(w.marks)})
}

// answer records an answer with calls of the given number, and returns their ids.
func (w *world) answer(usage glovebox.Usage, calls int, blocks ...glovebox.Block) (ids []string) {
	for range calls {
		w.ids++
		ids = append(ids, fmt.Sprint("c", w.ids))
		blocks = append(blocks, use(ids[len(ids)-1]))
	}
	w.record(glovebox.EventModelAnswered, glovebox.ModelAnswered{Message: glovebox.Message{Role: glovebox.RoleAssistant, Blocks: blocks}, Usage: usage})
	return ids
}

// small are options with short rules, so that little history fills a window.
var small = func() Options {
	o := options
	o.Rules = "You are the agent."
	return o
}()

// words are what histories are made of.
var words = strings.Fields("alpha beta gamma delta epsilon zeta eta theta iota kappa lambda compile failed parser.go /usr/bin/env 42 0x7f — über 编译失败 🙂 \"quoted\" {json}")

func text(t *rapid.T, most int) string {
	n := rapid.IntRange(0, most).Draw(t, "words")
	seed := rapid.IntRange(0, 1<<16).Draw(t, "seed")
	var b strings.Builder
	for i := range n {
		seed = (seed*1103515245 + 12345) & 0x7fffffff
		b.WriteString(words[seed/65536%len(words)])
		if i%9 == 8 {
			b.WriteByte('\n')
		} else {
			b.WriteByte(' ')
		}
	}
	return b.String()
}

// live draws a history of some steps: parallel calls, cancels, failures,
// things said at any time, giant and tiny events, images, changes of model.
func (w *world) live(t *rapid.T, steps int) error {
	kind := rapid.IntRange(0, 99)
	for range steps {
		w.now = w.now.Add(time.Duration(rapid.SampledFrom([]int{1, 5, 400}).Draw(t, "seconds")) * time.Second)
		w.interject(t, "x:y", "x:z")
		if err := w.room(); err != nil {
			return err
		}
		w.ask()
		if k := kind.Draw(t, "asked"); k < 12 {
			w.interject(t, "x:y", "x:z")
			why := []llm.Kind{llm.KindNetwork, llm.KindCancelled, llm.KindContextTooLong}[k/4]
			if why == llm.KindContextTooLong && w.b.Tokens() < w.marks.Low {
				why = llm.KindOverloaded
			}
			w.record(glovebox.EventModelFailed, glovebox.ModelFailed{Kind: string(why), Retry: true})
			continue
		} else if k < 20 {
			w.interject(t, "x:y", "x:z")
		}
		var blocks []glovebox.Block
		if kind.Draw(t, "reasons") < 60 {
			blocks = append(blocks, glovebox.Block{Type: glovebox.BlockReasoning, Opaque: json.RawMessage(`{"sig":"x"}`), Provider: "p", Text: text(t, 10)})
		}
		if s := text(t, 10); s != "" || kind.Draw(t, "empty") < 30 {
			blocks = append(blocks, glovebox.Text(s))
		}
		tokens := llm.EstimateTokens(w.b.Request(1))
		usage := glovebox.Usage{CacheRead: tokens * int64(rapid.IntRange(0, 9).Draw(t, "share")) / 10}
		ids := w.answer(usage, rapid.SampledFrom([]int{0, 1, 1, 1, 1, 2, 2, 3, 20}).Draw(t, "calls"), blocks...)
		if kind.Draw(t, "shuffled") < 20 {
			for i, j := 0, len(ids)-1; i < j; i, j = i+1, j-1 {
				ids[i], ids[j] = ids[j], ids[i]
			}
		}
		for _, id := range ids {
			if kind.Draw(t, "during") < 10 {
				w.interject(t, "x:y", "x:z")
			}
			w.finish(t, id)
		}
	}
	return nil
}

func (w *world) finish(t *rapid.T, id string) {
	f := glovebox.ToolFinished{CallID: id, Name: "shell"}
	switch k := rapid.IntRange(0, 99).Draw(t, "result"); {
	case k < 4:
		f.Content = []glovebox.Block{glovebox.Text(strings.Repeat(text(t, 5)+"giant\n", rapid.IntRange(50, 400).Draw(t, "times")))}
	case k < 14:
		f.Content = []glovebox.Block{{Type: glovebox.BlockImage, Blob: "b", Size: rapid.Int64Range(0, 3<<20).Draw(t, "size")}}
	case k < 18:
		f.Unknown, f.Content = true, []glovebox.Block{glovebox.Text(UnknownOutcome)}
	case k < 20:
	case k < 30: // a file that was read before, perhaps
		name := rapid.SampledFrom([]string{"main", "page", "test"}).Draw(t, "file")
		f.Content = []glovebox.Block{glovebox.Text(joined(numbered(rapid.IntRange(1, 3).Draw(t, "from")*10, rapid.IntRange(20, 60).Draw(t, "lines"), name)))}
	default:
		f.Content = []glovebox.Block{glovebox.Text(text(t, 80) + "\n[exit 1]")}
		f.Blob = "h1"
	}
	w.record(glovebox.EventToolFinished, f)
}

// interject records what comes between, if anything. Another model is one of these.
func (w *world) interject(t *rapid.T, models ...string) {
	switch k := rapid.IntRange(0, 99).Draw(t, "interjected"); {
	case k < 4:
		w.record(glovebox.EventUserMessage, glovebox.UserMessage{Text: text(t, 40)})
	case k < 5:
		w.record(glovebox.EventUserMessage, glovebox.UserMessage{Text: strings.Repeat(strings.Repeat("pasted words ", 40)+"\n", rapid.IntRange(10, 60).Draw(t, "lines")), Blob: "whole", Size: 5 << 20})
	case k < 7:
		w.record(glovebox.EventNotice, glovebox.Notice{Text: text(t, 10)})
	case k < 9:
		w.record(glovebox.EventInstructions, glovebox.InstructionsRead{Path: "AGENTS.md", Text: "Always run the tests.\n" + text(t, 50)})
	case k < 10:
		w.model = rapid.SampledFrom(models).Draw(t, "model")
		w.record(glovebox.EventModelChanged, glovebox.ModelChanged{Model: w.model})
	case k < 12:
		w.record(glovebox.EventPlan, glovebox.PlanUpdated{Steps: []glovebox.PlanStep{{Text: text(t, 10), Status: glovebox.PlanActive}}})
	case k < 14:
		w.record(glovebox.EventSandboxReady, glovebox.SandboxReady{How: rapid.SampledFrom([]string{"created", "found", "rebuilt"}).Draw(t, "how")})
	case k < 15:
		for range rapid.IntRange(1, 60).Draw(t, "tiny") {
			w.record(glovebox.EventNotice, glovebox.Notice{Text: "."})
		}
	case k < 18:
		w.record(glovebox.EventCheckpoint, glovebox.CheckpointSaved{Commit: "c"})
	}
}
