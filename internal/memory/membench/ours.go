package membench

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
	"github.com/glovebox-dev/glovebox/internal/memory"
	"github.com/glovebox-dev/glovebox/internal/memory/recall"
)

// began is when simulated jobs begin.
var began = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Between two events of a simulated job.
const tick = 2 * time.Second

// indexBatch is how many events the index is given at once.
const indexBatch = 256

// engine runs histories through the engine as the loop does, with a simulated
// model and provider.
type engine struct {
	b     *memory.Builder
	info  llm.Info
	marks func(*memory.Builder) memory.Marks
	ratio int64 // of a summary to what it stands for, see summaryTokens; 0: digests as they are, free

	sizer *sizer
	cache *cache
	head  block

	index    *recall.Index // nil: none
	batch    []glovebox.Event
	keep     func(glovebox.Event) error // may be nil
	asked    func(*memory.Builder)      // called before each request, may be nil
	bare     bool                       // only events are wanted: no requests are built
	numbered bool                       // no two results are the same: the loop ends a job that repeats itself, as some recorded ones do

	sizes   map[int64]int64         // tokens of the events that have no summary yet
	lengths map[glovebox.Span]int64 // tokens of summaries that have no parent yet

	ctx   context.Context
	seq   int64
	step  int64
	now   time.Time
	folds int
	got   asked
	spent time.Duration // on the index
	long  time.Duration // the longest fold
}

func newEngine(ctx context.Context, o memory.Options, info llm.Info) *engine {
	e := &engine{ctx: ctx, b: memory.New(o), info: info, sizer: newSizer(), cache: newCache(), now: began, sizes: map[int64]int64{}, lengths: map[glovebox.Span]int64{}}
	e.marks = func(b *memory.Builder) memory.Marks { return memory.MarksFor(e.info, b.Fixed(), b.Growth()) }
	r := e.b.Request(1)
	e.head = e.sizer.head(r.System, r.Tools)
	return e
}

// jobID is the id of simulated jobs.
const jobID = "job_bench"

// model returns the name of the simulated model.
func (e *engine) model() string { return e.info.Provider + ":" + e.info.Name }

// emit records an event, and returns its number.
func (e *engine) emit(typ glovebox.EventType, data any) (int64, error) {
	e.now = e.now.Add(tick)
	ev := glovebox.NewEvent(e.now, typ, data)
	e.seq++
	ev.Seq = e.seq
	if !e.bare {
		if err := e.b.Apply(ev); err != nil {
			return 0, err
		}
	}
	if e.ratio > 0 {
		if err := e.weigh(ev); err != nil {
			return 0, err
		}
	}
	if e.keep != nil {
		if err := e.keep(ev); err != nil {
			return 0, err
		}
	}
	if e.index != nil {
		e.batch = append(e.batch, ev)
		if len(e.batch) >= indexBatch {
			return e.seq, e.flush()
		}
	}
	return e.seq, nil
}

// weigh remembers how long an event is until it has a summary.
func (e *engine) weigh(ev glovebox.Event) error {
	var blocks []glovebox.Block
	switch ev.Type {
	case glovebox.EventUserMessage:
		m, err := glovebox.Decode[glovebox.UserMessage](ev)
		if err != nil {
			return err
		}
		blocks = []glovebox.Block{glovebox.Text(m.Text)}
	case glovebox.EventModelAnswered:
		a, err := glovebox.Decode[glovebox.ModelAnswered](ev)
		if err != nil {
			return err
		}
		blocks = a.Message.Blocks
	case glovebox.EventToolFinished:
		f, err := glovebox.Decode[glovebox.ToolFinished](ev)
		if err != nil {
			return err
		}
		blocks = f.Content
	case glovebox.EventSummarized:
		return e.summarized(ev)
	}
	for i := range blocks {
		e.sizes[ev.Seq] += tokensOf(&blocks[i])
	}
	return nil
}

// summarized forgets the sizes of events that have a summary now.
func (e *engine) summarized(ev glovebox.Event) error {
	s, err := glovebox.Decode[glovebox.Summarized](ev)
	for _, x := range s.Summaries {
		for n := range e.sizes {
			if x.Level == 0 && n <= x.Through {
				delete(e.sizes, n)
			}
		}
	}
	return err
}

// flush brings the index up to date.
func (e *engine) flush() error {
	if e.index == nil || len(e.batch) == 0 {
		return nil
	}
	start := time.Now()
	err := e.index.Add(e.ctx, e.batch)
	e.spent += time.Since(start)
	e.batch = e.batch[:0]
	return err
}

// run runs a history.
func (e *engine) run(h *history) error {
	for i := range h.calls {
		if err := e.ctx.Err(); err != nil {
			return err
		}
		at := h.at(i)
		if err := e.hear(at, i, h.facts[i]); err != nil {
			return err
		}
		for _, f := range h.asks[i] {
			if err := e.lookUp(f); err != nil {
				return err
			}
		}
		if err := e.answer(at, i, h.facts[i]); err != nil {
			return err
		}
	}
	return e.flush()
}

// hear records what is said before a step.
func (e *engine) hear(at step, i int, facts []*fact) error {
	var seq int64
	var err error
	switch {
	case i == 0:
		if seq, err = e.emit(glovebox.EventCreated, glovebox.Created{ID: jobID, Tenant: "bench", Task: at.user, Model: e.model()}); err == nil {
			_, err = e.emit(glovebox.EventClaimed, glovebox.Claimed{Worker: "bench", Fence: 1, Attempt: 1})
		}
	case at.user != "":
		seq, err = e.emit(glovebox.EventUserMessage, glovebox.UserMessage{Text: at.user})
	}
	if err == nil && at.note != "" {
		_, err = e.emit(glovebox.EventNotice, glovebox.Notice{Text: at.note})
	}
	for _, f := range facts {
		if f.place == placeUser {
			f.event = seq
		}
	}
	return err
}

// answer makes the call of a step and records what came of it.
func (e *engine) answer(at step, i int, facts []*fact) error {
	msg := glovebox.Message{Role: glovebox.RoleAssistant}
	if at.answer != "" {
		msg.Blocks = append(msg.Blocks, glovebox.Text(at.answer))
	}
	if at.tool != "" {
		msg.Blocks = append(msg.Blocks, glovebox.Block{Type: glovebox.BlockToolUse, CallID: callID(i), Name: at.tool, Input: at.input})
	}
	answered, err := e.call(msg, outputOf(at))
	if err != nil {
		return err
	}
	result := answered
	if at.tool != "" {
		blob := ""
		if at.whole > 0 {
			blob = "bench-" + callID(i)
		}
		output := at.output
		if e.numbered {
			output += fmt.Sprintf("\n[%d]", i)
		}
		if result, err = e.act(callID(i), at.tool, at.input, output, blob); err != nil {
			return err
		}
	}
	for _, f := range facts {
		switch {
		case f.place == placeUser:
		case f.place == placeResult && at.tool != "":
			f.event = result
		default:
			f.event = answered
		}
	}
	return nil
}

// act records a call of a tool and its result, and returns the result's number.
func (e *engine) act(id, name string, input json.RawMessage, output, blob string) (int64, error) {
	if _, err := e.emit(glovebox.EventToolStarted, glovebox.ToolStarted{CallID: id, Name: name, Input: input}); err != nil {
		return 0, err
	}
	return e.emit(glovebox.EventToolFinished, glovebox.ToolFinished{CallID: id, Name: name, Content: []glovebox.Block{glovebox.Text(output)}, Blob: blob})
}

// maxOutput is what requests allow an answer to have, in tokens.
const maxOutput = 16_000

// call folds if that is due, asks the simulated model and records its answer.
// It returns the answer's number.
func (e *engine) call(msg glovebox.Message, output int64) (int64, error) {
	e.step++
	asked := glovebox.ModelRequested{Step: e.step, Attempt: 1, Model: e.model(), MaxOutput: maxOutput}
	usage := glovebox.Usage{Output: output, Calls: 1}
	if !e.bare {
		if err := e.tidy(); err != nil {
			return 0, err
		}
		if e.asked != nil {
			e.asked(e.b)
		}
		blocks, marks := e.sizer.request(e.head, e.b.Request(maxOutput))
		usage = e.cache.call(blocks, marks, output, false)
		asked.MaxTokens, asked.Use = e.b.Tokens()+maxOutput, e.b.Use(e.marks(e.b))
	}
	if _, err := e.emit(glovebox.EventModelRequested, asked); err != nil {
		return 0, err
	}
	return e.emit(glovebox.EventModelAnswered, glovebox.ModelAnswered{Message: msg, StopReason: string(llm.StopToolUse), Usage: usage})
}

// tidy does what is due about the request's length.
func (e *engine) tidy() error {
	m := e.marks(e.b)
	due := e.b.Due(m, e.now)
	if due.Action == memory.DueNothing {
		return nil
	}
	start := time.Now()
	// Merges are due only once their leaves are there.
	for range 64 {
		spans := e.b.Spans(m, due.Reason)
		if len(spans) == 0 {
			break
		}
		if err := e.summarise(spans); err != nil {
			return err
		}
		if due.Action == memory.DuePrepare { // as the loop does: merges wait for the next time
			break
		}
	}
	if due.Action != memory.DueFold {
		return nil
	}
	folded, err := e.b.Fold(m, due.Reason, nil)
	if err != nil {
		return fmt.Errorf("fold at event %d: %w", e.seq, err)
	}
	if _, err := e.emit(glovebox.EventFolded, folded); err != nil {
		return err
	}
	e.folds++
	e.long = max(e.long, time.Since(start))
	return nil
}

// summarise has summaries made: by the digest, but as long as a model's would
// be, and at what a model's would cost.
func (e *engine) summarise(spans []glovebox.Span) error {
	done := glovebox.Summarized{}
	var output int64
	for _, s := range spans {
		d, err := e.b.DigestSpan(s)
		if err != nil {
			return err
		}
		if e.ratio > 0 {
			n := e.summaryOf(s)
			d.By, d.Text = glovebox.SummaryByModel, resize(d.Text, n)
			output += n
		}
		done.Summaries = append(done.Summaries, d)
	}
	if e.ratio > 0 {
		blocks, marks := e.sizer.request(e.head, e.b.SummaryRequest(spans, maxOutput))
		done.Usage = e.cache.call(blocks, marks, output, true)
		done.Asked = true
		if _, err := e.emit(glovebox.EventSummaries, glovebox.SummariesRequested{Spans: spans, Attempt: 1, Model: e.model(), MaxOutput: output}); err != nil {
			return err
		}
	}
	_, err := e.emit(glovebox.EventSummarized, done)
	return err
}

// summaryTokens returns how long a summary is taken to be, of what has so many
// tokens: a part of it, and neither shorter nor longer than people write them.
func summaryTokens(source, ratio int64) int64 {
	return min(max(source/ratio, leastSummary), mostSummary)
}

// Bounds of a summary, in tokens. mostSummary is what glovebox.MaxSummary holds.
const (
	leastSummary = 100
	mostSummary  = 1_500
)

// mergeRatio is what the summary of summaries leaves of them.
const mergeRatio = 3

// summaryOf returns how long the summary of a span is taken to be.
func (e *engine) summaryOf(s glovebox.Span) int64 {
	var source int64
	if s.Level == 0 {
		for n, tokens := range e.sizes {
			if n >= s.From && n <= s.Through {
				source += tokens
			}
		}
		n := summaryTokens(source, e.ratio)
		e.lengths[s] = n
		return n
	}
	for child, tokens := range e.lengths {
		if child.Level == s.Level-1 && child.From >= s.From && child.Through <= s.Through {
			source += tokens
			delete(e.lengths, child)
		}
	}
	n := min(max(source/mergeRatio, leastSummary), mostSummary)
	e.lengths[s] = n
	return n
}

// resize returns text with about so many tokens: cut, or filled up with words.
func resize(text string, tokens int64) string {
	have := llm.TokensOf(text)
	if have > tokens {
		text = strings.ToValidUTF8(text[:int64(len(text))*tokens/have], "")
		return text
	}
	const filler = " and so on, in the words of a model that had more to say about it"
	per := llm.TokensOf(filler)
	return text + strings.Repeat(filler, int((tokens-have)/per))
}

// lookUp answers a question of the user as an agent would: from the request
// if the answer is there, else with a call of recall.
func (e *engine) lookUp(f *fact) error {
	if err := e.tidy(); err != nil { // what is asked has to be in the request itself
		return err
	}
	e.got.of++
	if inRequest(e.b.Request(maxOutput), f.value) {
		e.got.found++
		return nil
	}
	if e.index == nil {
		return nil
	}
	id := fmt.Sprintf("recall_%06d", e.got.of)
	input := queryInput(f.query)
	text := "I look that up."
	msg := glovebox.Message{Role: glovebox.RoleAssistant, Blocks: []glovebox.Block{glovebox.Text(text), {Type: glovebox.BlockToolUse, CallID: id, Name: "recall", Input: input}}}
	if _, err := e.call(msg, llm.TokensOf(text)+llm.TokensOf(string(input))+2*frameTokens); err != nil {
		return err
	}
	if err := e.flush(); err != nil {
		return err
	}
	q := f.query
	q.Limit, q.Tokens = 10, recallTokens
	r, err := e.index.Search(e.ctx, q)
	if err != nil {
		return err
	}
	if holds(r.Hits, f) {
		e.got.found++
	}
	_, err = e.act(id, "recall", input, shown(r), "")
	return err
}

// recallTokens is the budget of a recall's quotes.
const recallTokens = 2_000

// queryInput returns a query as the model writes it.
func queryInput(q recall.Query) json.RawMessage {
	if len(q.Exact) > 0 {
		return object("exact", q.Exact[0])
	}
	return object("words", q.Words)
}

// shown returns what a search found as the model reads it.
func shown(r recall.Result) string {
	var b strings.Builder
	for _, h := range r.Hits {
		fmt.Fprintf(&b, "event %d, step %d, %s", h.Event, h.Step, h.Type)
		if h.SupersededBy > 0 {
			fmt.Fprintf(&b, ", superseded by event %d", h.SupersededBy)
		}
		b.WriteString(":\n" + h.Text + "\n\n")
	}
	if b.Len() == 0 {
		return "Nothing was found."
	}
	return b.String()
}

// hits reports whether the event of a fact is among the hits, or a quote of
// them has what an answer needs.
func hits(list []recall.Hit, f *fact) bool {
	for _, h := range list[:min(len(list), 10)] {
		if h.Event == f.event {
			return true
		}
	}
	return holds(list, f)
}

// holds reports whether a quote of the hits has what an answer needs.
func holds(hits []recall.Hit, f *fact) bool {
	for _, h := range hits[:min(len(hits), 10)] {
		if strings.Contains(h.Text, f.value) {
			return true
		}
	}
	return false
}

// inRequest reports whether text is in a request.
func inRequest(r *llm.Request, text string) bool {
	if strings.Contains(r.System, text) {
		return true
	}
	for _, m := range r.Messages {
		for _, b := range m.Blocks {
			if strings.Contains(b.Text, text) || strings.Contains(string(b.Input), text) {
				return true
			}
			for _, c := range b.Content {
				if strings.Contains(c.Text, text) {
					return true
				}
			}
		}
	}
	return false
}
