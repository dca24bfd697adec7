package memory

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
	"github.com/glovebox-dev/glovebox/internal/llm/anthropic"
	"github.com/glovebox-dev/glovebox/internal/llm/chat"
	"github.com/glovebox-dev/glovebox/internal/llm/gemini"
	"github.com/glovebox-dev/glovebox/internal/llm/llmtest"
	"github.com/glovebox-dev/glovebox/internal/llm/openai"
	"github.com/glovebox-dev/glovebox/internal/llm/wire"
)

// providers are servers that refuse what breaks a rule of their provider, also
// over the requests of a job.
type providers struct {
	testing.TB
	servers  map[string]*llmtest.Server
	next     llmtest.Answer
	problems []string
	jobs     int
}

func (p *providers) Errorf(format string, args ...any) {
	p.problems = append(p.problems, fmt.Sprintf(format, args...))
}

func newProviders(t *testing.T) *providers {
	t.Helper()
	p := &providers{TB: t, servers: map[string]*llmtest.Server{}}
	for _, api := range []llmtest.API{llmtest.Anthropic, llmtest.OpenAI, llmtest.Gemini, llmtest.Chat} {
		p.servers[string(api)] = llmtest.NewScripted(p, api, 0, func(llmtest.Sent) llmtest.Answer { return p.next })
	}
	return p
}

// live are the models that a job may have.
var live = []string{"anthropic:a", "anthropic:b", "openai:a", "openai:b", "gemini:gemini-3-a", "gemini:gemini-4-b", "chat:a"}

func (p *providers) model(name string) llm.Model {
	kind, model, _ := strings.Cut(name, ":")
	cfg := wire.Config{Info: llm.Info{Provider: kind, Name: model, Window: 1 << 20, MaxOutput: 1000, Images: true, Reasoning: true},
		APIKey: llmtest.Key, BaseURL: p.servers[kind].URL, HTTP: p.servers[kind].Client()}
	switch kind {
	case "anthropic":
		return anthropic.New(cfg)
	case "openai":
		return openai.New(cfg)
	case "gemini":
		return gemini.New(cfg)
	}
	return chat.New(cfg)
}

// ask sends a request, as an agent does, and returns the answer to it.
func (p *providers) ask(t *rapid.T, model string, r *llm.Request, a llmtest.Answer) *llm.Response {
	p.next = a
	resp, err := p.model(model).Stream(t.Context(), shown(r), nil)
	if err != nil || len(p.problems) > 0 {
		t.Fatalf("%s: %v %s", model, err, p.problems)
	}
	return resp
}

// failures are a request that the provider does not take, and one whose answer breaks.
var failures = []llmtest.Fault{{Kind: llmtest.Refuse, Status: 529, Code: "overloaded_error"}, {Kind: llmtest.Cut, After: 1}}

// fail sends a request that gets no answer.
func (p *providers) fail(t *rapid.T, model string, r *llm.Request, f llmtest.Fault) {
	p.next = llmtest.Answer{Blocks: []glovebox.Block{glovebox.Text("I say nothing.")}, Fault: f}
	if _, err := p.model(model).Stream(t.Context(), shown(r), nil); err == nil || len(p.problems) > 0 {
		t.Fatalf("%s: %v %s", model, err, p.problems)
	}
}

var pixel = func() []byte {
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, 8, 8))); err != nil {
		panic(err)
	}
	return b.Bytes()
}()

// shown returns r with its images.
func shown(r *llm.Request) *llm.Request {
	out := *r
	out.Messages = nil
	for _, m := range r.Messages {
		m.Blocks = withPixels(m.Blocks)
		out.Messages = append(out.Messages, m)
	}
	return &out
}

func withPixels(blocks []glovebox.Block) (out []glovebox.Block) {
	for _, b := range blocks {
		if b.Type == glovebox.BlockImage {
			b.MediaType, b.Data = "image/png", pixel
		}
		b.Content = withPixels(b.Content)
		out = append(out, b)
	}
	return out
}

// TestProviders draws histories and sends each of their requests in the form
// of the provider, of which there is another from time to time: also one that
// was left before, or that is left again before it was asked or has answered.
func TestProviders(t *testing.T) {
	t.Parallel()
	histories, p := 300, newProviders(t)
	if testing.Short() || raceDetector {
		histories = 60
	}
	folds, sent := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		if p.jobs >= histories {
			return
		}
		p.jobs, p.problems = p.jobs+1, nil
		w := &wired{world: &world{b: New(small), marks: smallMarks(t), now: time.Unix(1_700_000_000, 0), model: rapid.SampledFrom(live).Draw(t, "first")}, p: p}
		w.check = w.see
		w.record(glovebox.EventCreated, glovebox.Created{ID: fmt.Sprint("job-", p.jobs), Tenant: "default", Task: fmt.Sprint(task, p.jobs), Model: w.model})
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			if err := w.step(t); err != nil {
				if glovebox.CodeOf(err) != CodeContext {
					t.Fatal(err)
				}
				break
			}
		}
		folds, sent = folds+w.folds, sent+w.sent
	})
	t.Logf("%d histories, %d requests, %d folds", p.jobs, sent, folds)
}

// wired is a world whose model is behind a provider's API.
type wired struct {
	*world
	p       *providers
	sent    int
	thought int
	through int64 // what is folded
}

// see tells the servers of an epoch that they can't know of.
func (w *wired) see(e glovebox.Event) {
	if e.Type != glovebox.EventFolded {
		return
	}
	f, _ := glovebox.Decode[glovebox.Folded](e)
	if f.Through == w.through {
		for _, s := range w.p.servers {
			s.Fold()
		}
	}
	w.through = f.Through
}

// change has another model go on, or the same.
func (w *wired) change(t *rapid.T) {
	w.model = rapid.SampledFrom(live).Draw(t, "model")
	w.record(glovebox.EventModelChanged, glovebox.ModelChanged{Model: w.model})
}

// fail sends a request that gets no answer, and may have another model go on.
func (w *wired) fail(t *rapid.T, f llmtest.Fault) error {
	w.p.fail(t, w.model, w.b.Request(1000), f)
	w.record(glovebox.EventModelFailed, glovebox.ModelFailed{Kind: string(llm.KindOverloaded), Retry: true})
	if rapid.Bool().Draw(t, "elsewhere") {
		w.change(t)
	}
	if err := w.room(); err != nil {
		return err
	}
	w.world.ask()
	return nil
}

// step asks the model once and has its calls done.
func (w *wired) step(t *rapid.T) error {
	w.now = w.now.Add(time.Duration(rapid.SampledFrom([]int{1, 5, 400}).Draw(t, "seconds")) * time.Second)
	if rapid.IntRange(0, 9).Draw(t, "another") == 0 {
		w.change(t)
	}
	w.interject(t, live...)
	var aside *llm.Request
	if spans := w.b.Spans(w.marks, ""); len(spans) > 0 && w.b.Due(w.marks, w.now).Action == DuePrepare {
		aside = w.b.SummaryRequest(spans, 1000)
	}
	late := rapid.Bool().Draw(t, "late")
	if aside != nil && !late {
		w.ask(t, aside)
	}
	if err := w.room(); err != nil {
		return err
	}
	w.world.ask()
	if k := rapid.IntRange(0, 19).Draw(t, "fails"); k < len(failures) {
		if err := w.fail(t, failures[k]); err != nil {
			return err
		}
		aside = nil // it is of the epoch that may have ended
	}
	for range rapid.SampledFrom([]int{0, 0, 0, 1}).Draw(t, "lost") { // the worker died before it was recorded
		w.ask(t, w.b.Request(1000))
	}
	resp := w.ask(t, w.b.Request(1000))
	if aside != nil && late {
		w.ask(t, aside)
	}
	w.record(glovebox.EventModelAnswered, glovebox.ModelAnswered{Message: resp.Message, Usage: resp.Usage})
	for _, c := range resp.Message.ToolUses() {
		w.finish(t, c.CallID)
	}
	return nil
}

// ask sends a request, to which the answer is drawn.
func (w *wired) ask(t *rapid.T, r *llm.Request) *llm.Response {
	w.sent++
	var a llmtest.Answer
	if rapid.IntRange(0, 9).Draw(t, "reasons") < 7 {
		w.thought++
		a.Blocks = append(a.Blocks, glovebox.Block{Type: glovebox.BlockReasoning, Text: fmt.Sprintf("Thought %d.", w.thought)})
	}
	calls := rapid.SampledFrom([]int{0, 1, 1, 1, 2, 3, 18}).Draw(t, "calls")
	if calls == 0 || rapid.Bool().Draw(t, "speaks") {
		a.Blocks = append(a.Blocks, glovebox.Text("I say "+strings.TrimSpace(text(t, 10))+"."))
	}
	for range calls {
		w.ids++
		a.Blocks = append(a.Blocks, glovebox.Block{Type: glovebox.BlockToolUse, CallID: fmt.Sprintf("call_x%06d", w.ids), Name: "shell", Input: json.RawMessage(fmt.Sprintf(`{"command":"ls %d"}`, w.ids))})
	}
	r.Step = int64(w.sent)
	return w.p.ask(t, w.model, r, a)
}
