package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/browser/browsertest"
	"github.com/glovebox-dev/glovebox/internal/guest"
	"github.com/glovebox-dev/glovebox/internal/leaktest"
	"github.com/glovebox-dev/glovebox/internal/llm"
	"github.com/glovebox-dev/glovebox/internal/memory"
	"github.com/glovebox-dev/glovebox/internal/memory/recall"
	"github.com/glovebox-dev/glovebox/internal/tool"
)

func TestMain(m *testing.M) { leaktest.Main(browsertest.Tests{M: m}) }

const task = "Build me a todo app in React, \"quickly\" & <well>."

// world is a job with its host, its model and its tools, all in memory.
type world struct {
	mu      sync.Mutex
	job     *glovebox.Job
	events  []glovebox.Event
	signals []glovebox.Signal
	sent    int64
	appends int
	wake    chan struct{}
	ran     map[string]int // calls by id
	blobs   map[string][]byte
	live    []glovebox.Event

	info       llm.Info
	model      modelFunc
	jitter     float64
	extra      []tool.Tool
	appendErr  func([]glovebox.Event) error
	guestErr   func() error
	onGuest    func() []glovebox.Event
	checkpoint func() error
	saved      int
	prove      func(ctx context.Context, command string) (glovebox.Proof, error)
	drain      chan struct{}
	digests    bool
	recall     func(context.Context, recall.Query) (recall.Result, error)
}

type modelFunc func(ctx context.Context, r *llm.Request, delta func(glovebox.ModelDelta)) (*llm.Response, error)

func (f modelFunc) Stream(ctx context.Context, r *llm.Request, delta func(glovebox.ModelDelta)) (*llm.Response, error) {
	return f(ctx, r, delta)
}

func newWorld(limits glovebox.Limits, model modelFunc) *world {
	w := &world{
		job: &glovebox.Job{}, wake: make(chan struct{}, 1), ran: map[string]int{}, blobs: map[string][]byte{}, model: model,
		info: llm.Info{Provider: "test", Name: "m", Window: 200_000, MaxOutput: 8000, Images: true}, drain: make(chan struct{}), jitter: 0.5,
	}
	w.record(event(glovebox.EventCreated, glovebox.Created{ID: glovebox.NewID(), Tenant: "default", Task: task, Model: "test:m", Limits: limits.Or(glovebox.DefaultLimits())}))
	w.claim()
	return w
}

// resumed returns a world of the same kind as w whose log is a prefix of w's,
// claimed by another worker.
func (w *world) resumed(events []glovebox.Event) *world {
	n := newWorld(glovebox.Limits{}, w.model)
	n.job, n.events = &glovebox.Job{}, nil
	n.info, n.extra, n.prove, n.digests, n.recall = w.info, w.extra, w.prove, w.digests, w.recall
	n.record(events...)
	n.claim()
	return n
}

func (w *world) claim() {
	w.record(event(glovebox.EventClaimed, glovebox.Claimed{Worker: "w", Fence: w.job.Attempts + 1, Attempt: w.job.Attempts + 1}),
		event(glovebox.EventSandboxReady, glovebox.SandboxReady{ID: "s", How: "found"}))
}

func (w *world) record(events ...glovebox.Event) {
	for _, e := range events {
		e.Seq = w.job.Seq + 1
		if err := w.job.Apply(e); err != nil {
			panic(err)
		}
		w.events = append(w.events, e)
	}
}

func (w *world) Append(_ context.Context, events []glovebox.Event, consume ...int64) (*glovebox.Job, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.appendErr != nil {
		if err := w.appendErr(events); err != nil {
			return nil, err
		}
	}
	if w.appends++; w.appends%3 == 0 { // others append too
		w.record(event(glovebox.EventEgress, glovebox.EgressAttempted{Host: "example.com", Port: 443}))
	}
	w.record(events...)
	for _, id := range consume {
		for i, s := range w.signals {
			if s.ID == id {
				w.signals = append(w.signals[:i:i], w.signals[i+1:]...)
				break
			}
		}
	}
	job := *w.job
	return &job, nil
}

func (w *world) Signals(context.Context) ([]glovebox.Signal, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]glovebox.Signal(nil), w.signals...), nil
}

func (w *world) Guest(context.Context) (*guest.Client, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.onGuest != nil {
		w.record(w.onGuest()...)
	}
	if w.guestErr != nil {
		if err := w.guestErr(); err != nil {
			return nil, err
		}
	}
	return &guest.Client{}, nil
}

func (w *world) Checkpoint(context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.saved++
	if w.checkpoint != nil {
		return w.checkpoint()
	}
	w.record(event(glovebox.EventCheckpoint, glovebox.CheckpointSaved{Commit: fmt.Sprint("c", w.saved), Pack: "p"}))
	return nil
}

func (w *world) Save(_ context.Context, data []byte) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := fmt.Sprint("blob-", len(w.blobs)+1)
	w.blobs[h] = data
	return h, nil
}

func (w *world) send(s glovebox.Signal) {
	w.mu.Lock()
	w.sent++
	s.ID = w.sent
	w.signals = append(w.signals, s)
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *world) options() Options {
	job := *w.job
	return Options{
		Host: w, Job: &job, Model: w.model, Info: w.info, Tools: append(w.tools(), w.extra...), SignalWake: w.wake, Drain: w.drain,
		Digests: w.digests, Recall: w.recall,
		Jitter: func() float64 { return w.jitter },
		Events: func(_ context.Context, after int64, limit int) ([]glovebox.Event, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			rest := w.events[after:]
			return append([]glovebox.Event(nil), rest[:min(limit, len(rest))]...), nil
		},
		Load: func(_ context.Context, h string, _, _ int64) ([]byte, int64, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			b, ok := w.blobs[h]
			if !ok {
				return nil, 0, glovebox.Errorf(glovebox.CodeNotFound, "no blob %s", h)
			}
			return b, int64(len(b)), nil
		},
		Live: func(e glovebox.Event) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.live = append(w.live, e)
		},
		Prove: func(ctx context.Context, env *tool.Env, proof tool.Proof) (glovebox.Proof, error) {
			if proof.Page != "" {
				return provedPage(ctx, env, proof)
			}
			command := proof.Command
			if w.prove != nil {
				return w.prove(ctx, command)
			}
			p := glovebox.Proof{Command: command, Output: "out of " + command}
			if strings.HasPrefix(command, "false") {
				p.ExitCode = 1
			}
			return p, nil
		},
	}
}

// provedPage is the browser of the tests: a page that is expected to show
// "nothing" does not.
func provedPage(ctx context.Context, env *tool.Env, p tool.Proof) (glovebox.Proof, error) {
	handle, err := env.Save(ctx, []byte("a picture"))
	out := glovebox.Proof{Page: p.Page, Title: "A page", Screenshot: handle}
	if p.Expect == "nothing" {
		out.ExitCode, out.Output = 1, "there is something"
	}
	return out, err
}

// run runs the job to its end and records it, as a worker does.
func (w *world) run(ctx context.Context) (Outcome, error) {
	out, err := Run(ctx, w.options())
	if err == nil {
		_, err = w.Append(ctx, []glovebox.Event{event(glovebox.EventFinished, out.Finished())}, out.Consume...)
	}
	return out, err
}

// tools are those of the tests. shell prints what it is told to, or fails, or
// waits until its context ends.
func (w *world) tools() []tool.Tool {
	count := func(env *tool.Env) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.ran[env.CallID]++
	}
	schema := json.RawMessage(`{"type":"object"}`)
	return []tool.Tool{
		{Name: "shell", Description: "Runs a command.", Schema: schema, Yields: true, Run: func(ctx context.Context, env *tool.Env, in json.RawMessage) (tool.Result, error) {
			count(env)
			var c struct{ Command string }
			json.Unmarshal(in, &c)
			env.Output("running")
			switch word, rest, _ := strings.Cut(c.Command, " "); word {
			case "hang":
				<-ctx.Done()
				if errors.Is(context.Cause(ctx), tool.ErrYield) {
					return tool.TextResult("in the background"), nil
				}
				return tool.Result{}, context.Cause(ctx)
			case "lose":
				return tool.Result{}, glovebox.Errorf(glovebox.CodeUnavailable, "the stream broke")
			case "panic":
				panic("oh")
			case "fail":
				return tool.ErrorResult(rest), nil
			default:
				return tool.TextResult(c.Command), nil
			}
		}},
		{Name: "read_file", Description: "Reads.", Schema: schema, ReadOnly: true, Run: func(_ context.Context, env *tool.Env, _ json.RawMessage) (tool.Result, error) {
			count(env)
			return tool.TextResult("text"), nil
		}},
		{Name: "plan", Description: "Plans.", Schema: schema, ReadOnly: true, Run: func(_ context.Context, env *tool.Env, in json.RawMessage) (tool.Result, error) {
			count(env)
			r := tool.TextResult("noted")
			r.Plan = []glovebox.PlanStep{{Text: string(in), Status: glovebox.PlanActive}}
			return r, nil
		}},
		{Name: "ask_user", Description: "Asks.", Schema: schema, ReadOnly: true, Run: func(_ context.Context, env *tool.Env, _ json.RawMessage) (tool.Result, error) {
			count(env)
			return tool.Result{Ask: &tool.Ask{Question: "Red or blue?", Timeout: time.Hour}}, nil
		}},
		{Name: "finish", Description: "Finishes.", Schema: schema, Run: func(_ context.Context, env *tool.Env, in json.RawMessage) (tool.Result, error) {
			count(env)
			var f struct{ Proofs []tool.Proof }
			json.Unmarshal(in, &f)
			return tool.Result{Finish: &tool.Finish{Summary: "It is done.", HowToRun: "npm start", Proofs: f.Proofs}}, nil
		}},
	}
}

// script answers the call of step n, counted from 0, with its turn n.
func script(turns ...[]glovebox.Block) modelFunc {
	return func(_ context.Context, r *llm.Request, delta func(glovebox.ModelDelta)) (*llm.Response, error) {
		if r.Step >= int64(len(turns)) {
			return nil, &llm.Error{Kind: llm.KindExhausted, Msg: fmt.Sprintf("turn %d", r.Step)}
		}
		delta(glovebox.ModelDelta{Type: glovebox.BlockText, Text: "..."})
		return answer(turns[r.Step]...), nil
	}
}

func answer(blocks ...glovebox.Block) *llm.Response {
	return &llm.Response{Message: glovebox.Message{Role: glovebox.RoleAssistant, Blocks: blocks}, StopReason: llm.StopEnd,
		Usage: glovebox.Usage{Input: 100, Output: 10}}
}

func turn(blocks ...glovebox.Block) []glovebox.Block { return blocks }

func use(id, name, input string) glovebox.Block {
	return glovebox.Block{Type: glovebox.BlockToolUse, CallID: id, Name: name, Input: json.RawMessage(input)}
}

func shell(id, command string) glovebox.Block {
	in, _ := json.Marshal(map[string]string{"command": command})
	return use(id, "shell", string(in))
}

func finish(id string, proofs ...string) glovebox.Block {
	in, _ := json.Marshal(map[string]any{"proofs": proofs})
	return use(id, "finish", string(in))
}

// bubble runs f with a clock of its own.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

// check checks a property, each case with a clock of its own.
func check(t *testing.T, property func(*rapid.T)) {
	t.Helper()
	rapid.Check(t, func(r *rapid.T) {
		var failed any
		synctest.Test(t, func(*testing.T) {
			defer func() { failed = recover() }() // rapid fails by panic, on its own goroutine
			property(r)
		})
		if failed != nil {
			panic(failed)
		}
	})
}

// laws returns the first law that a log breaks, under the given tools.
func (w *world) laws() error {
	var specs []llm.ToolSpec
	for _, t := range w.options().Tools {
		specs = append(specs, llm.ToolSpec{Name: t.Name, Description: t.Description, Schema: t.Schema})
	}
	b := memory.New(memory.Options{Tools: specs})
	job := &glovebox.Job{}
	started, finished := map[string]bool{}, map[string]bool{}
	outstanding := false
	var paid summaryLaws
	for i, e := range w.events {
		if job.Status.Terminal() && e.Type != glovebox.EventLimitsRaised && e.Type != glovebox.EventResumed {
			return fmt.Errorf("L2: %s follows the end", e.Type)
		}
		before := *job
		if err := job.Apply(e); err != nil {
			return fmt.Errorf("L3: %w", err)
		}
		if err := b.Apply(e); err != nil {
			return err
		}
		switch e.Type {
		case glovebox.EventModelRequested:
			q, _ := glovebox.Decode[glovebox.ModelRequested](e)
			if outstanding {
				return fmt.Errorf("event %d: asked while another call has no result", e.Seq)
			}
			outstanding = true
			if err := affordable(*reserve(&before, paid.running()), q); err != nil {
				return fmt.Errorf("L8: event %d: %w", e.Seq, err)
			}
			if i%(3+len(w.events)/40) == 0 { // at once from the log: the same bytes
				r, err := memory.Build(w.events[:i+1], memory.Options{Tools: specs})
				if err != nil || memory.Digest(r) != q.RequestSHA {
					return fmt.Errorf("L9: event %d: the request differs (%v)", e.Seq, err) //nolint:errorlint // err may be nil
				}
			}
			r := b.Request(q.MaxOutput)
			if memory.Digest(r) != q.RequestSHA {
				return fmt.Errorf("L9: event %d: the request differs", e.Seq)
			}
			if !hasTask(r) || !strings.HasPrefix(r.System, memory.Rules()) {
				return fmt.Errorf("L10: event %d", e.Seq)
			}
		case glovebox.EventModelAnswered:
			outstanding = false
			started, finished = map[string]bool{}, map[string]bool{}
		case glovebox.EventModelFailed:
			outstanding = false
		case glovebox.EventSummaries, glovebox.EventSummarized:
			if err := paid.apply(before, e); err != nil {
				return fmt.Errorf("event %d: %w", e.Seq, err)
			}
		case glovebox.EventToolStarted:
			s, _ := glovebox.Decode[glovebox.ToolStarted](e)
			if started[s.CallID] {
				return fmt.Errorf("L4: event %d: %s is run again", e.Seq, s.CallID)
			}
			started[s.CallID] = true
		case glovebox.EventToolFinished:
			f, _ := glovebox.Decode[glovebox.ToolFinished](e)
			if !started[f.CallID] || finished[f.CallID] {
				return fmt.Errorf("L4: event %d: result of %s", e.Seq, f.CallID)
			}
			finished[f.CallID] = true
		}
	}
	return nil
}

// affordable checks the worst case of a call against what is left.
func affordable(job glovebox.Job, q glovebox.ModelRequested) error {
	l := job.Limits
	switch {
	case l.Steps > 0 && job.Step+1 > l.Steps:
		return fmt.Errorf("step %d of %d", job.Step+1, l.Steps)
	case l.Tokens > 0 && job.Usage.Tokens()+q.MaxTokens > l.Tokens:
		return fmt.Errorf("%d tokens used, up to %d more, of %d", job.Usage.Tokens(), q.MaxTokens, l.Tokens)
	case l.CostMicros > 0 && job.Usage.CostMicros+q.MaxMicros > l.CostMicros:
		return fmt.Errorf("%d spent, up to %d more, of %d", job.Usage.CostMicros, q.MaxMicros, l.CostMicros)
	}
	return nil
}

// count returns how many events of a type the log has.
func (w *world) count(typ glovebox.EventType) int {
	n := 0
	for _, e := range w.events {
		if e.Type == typ {
			n++
		}
	}
	return n
}

// all returns the data of all events of a type.
func all[T any](w *world, typ glovebox.EventType) []T {
	var out []T
	for _, e := range w.events {
		if e.Type == typ {
			v, err := glovebox.Decode[T](e)
			if err != nil {
				panic(err)
			}
			out = append(out, v)
		}
	}
	return out
}

// results returns the text of each result by the id of its call.
func (w *world) results() map[string]string {
	out := map[string]string{}
	for _, f := range all[glovebox.ToolFinished](w, glovebox.EventToolFinished) {
		out[f.CallID] = f.Content[0].Text
	}
	return out
}
