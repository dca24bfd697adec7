package memory

import (
	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
)

// Builder is a log read up to some event, from which the request follows.
// Make it with New.
type Builder struct {
	o      Options
	system string
	job    string // its id; the cache key

	turns []turn // messages that have been answered, or are answers
	open  pending

	maxOutput int64 // of the newest request
	head      sum   // of system, tools and cache key; zero until it is needed
	fixed     int64 // estimated tokens of rules and tools
	frozen    int64 // estimated tokens of turns

	// What the provider counted for the newest answered request, if it did,
	// and what was estimated for the same.
	counted, countedAs int64
	requestedAs        int64 // what the newest request was estimated at
}

// turn is a message of the conversation that will not grow any more.
type turn struct {
	msg    glovebox.Message
	tokens int64
	sum    sum
	from   []origin // for each block
}

// origin says where a result came from; it is zero for other blocks.
type origin struct {
	event int64
	blob  string // handle of the whole, if the result was cut
}

// pending is the user's message that the next request ends with.
type pending struct {
	calls []call           // of the newest answer, in order
	notes []glovebox.Block // what the user and Glovebox said since
	seen  int              // how many notes the newest request holds
	asked bool             // there is a request without an answer
}

// call is a call of a tool and, once it is there, its result.
type call struct {
	id     string
	result *glovebox.Block
	origin origin

	asked  bool // it is a question to the user
	answer bool // which the user has answered; the answer is note number
	note   int
}

// New returns a builder that has read nothing yet.
func New(o Options) *Builder {
	b := &Builder{o: o, system: o.system()}
	b.fixed = llm.EstimateTokens(&llm.Request{System: b.system, Tools: o.Tools})
	return b
}

// Build returns the request that a log leads to: the one that its newest
// ModelRequested event stands for, if the log ends with one.
func Build(events []glovebox.Event, o Options) (*llm.Request, error) {
	b := New(o)
	for _, e := range events {
		if err := b.Apply(e); err != nil {
			return nil, err
		}
	}
	return b.Request(b.maxOutput), nil
}

// Apply reads the next event. Types that have no part in the conversation are
// passed over. An error means that the event can't be decoded; it changes nothing.
func (b *Builder) Apply(e glovebox.Event) error {
	if apply, ok := appliers[e.Type]; ok {
		return apply(b, e)
	}
	return nil
}

var appliers = map[glovebox.EventType]func(*Builder, glovebox.Event) error{
	glovebox.EventCreated: on(func(b *Builder, c glovebox.Created, _ int64) {
		b.job, b.head = c.ID, sum{}
		b.open.notes = append(b.open.notes, head(c)...)
	}),
	glovebox.EventModelRequested: on(func(b *Builder, r glovebox.ModelRequested, _ int64) {
		b.requestedAs = b.estimate()
		b.open.seen, b.open.asked, b.maxOutput = len(b.open.notes), true, r.MaxOutput
	}),
	glovebox.EventModelAnswered: on((*Builder).answered),
	glovebox.EventModelFailed: on(func(b *Builder, f glovebox.ModelFailed, _ int64) {
		b.open.asked = false
		if f.Kind == string(llm.KindContextTooLong) {
			b.counted, b.countedAs = 0, 0 // what the provider counted misled
		}
	}),
	glovebox.EventToolFinished: on((*Builder).finished),
	glovebox.EventQuestion: on(func(b *Builder, q glovebox.QuestionAsked, _ int64) {
		if c := b.call(q.CallID); c != nil {
			c.asked = true
		}
	}),
	glovebox.EventUserMessage: on(func(b *Builder, m glovebox.UserMessage, _ int64) {
		b.note(userText(m.Text))
		if c := b.question(); c != nil {
			c.answer, c.note = true, len(b.open.notes)-1
		}
	}),
	glovebox.EventNotice: on(func(b *Builder, n glovebox.Notice, _ int64) {
		b.note(noticeText(n.Text))
	}),
	glovebox.EventControl: on(func(b *Builder, c glovebox.ControlChanged, _ int64) {
		b.note(controlText(c))
	}),
	glovebox.EventSandboxReady: on(func(b *Builder, r glovebox.SandboxReady, _ int64) {
		if r.How == "rebuilt" {
			b.note(rebuiltText(r))
		}
	}),
	glovebox.EventTrimmed: on((*Builder).trimmed),
}

func on[T any](apply func(*Builder, T, int64)) func(*Builder, glovebox.Event) error {
	return func(b *Builder, e glovebox.Event) error {
		v, err := glovebox.Decode[T](e)
		if err == nil {
			apply(b, v, e.Seq)
		}
		return err
	}
}

func (b *Builder) note(n glovebox.Block) { b.open.notes = append(b.open.notes, n) }

// call returns the newest answer's call of that id that has no result yet.
func (b *Builder) call(id string) *call {
	for i := range b.open.calls {
		if c := &b.open.calls[i]; c.id == id && c.result == nil {
			return c
		}
	}
	return nil
}

// question returns the call that waits for the user's answer, if one does.
func (b *Builder) question() *call {
	for i := range b.open.calls {
		if c := &b.open.calls[i]; c.asked && !c.answer && c.result == nil {
			return c
		}
	}
	return nil
}

// answered ends the user's message at what the model has seen of it, and adds
// the answer. An answer of nothing is left out: providers refuse it.
func (b *Builder) answered(a glovebox.ModelAnswered, _ int64) {
	if !b.open.asked {
		b.open.seen = len(b.open.notes)
	}
	b.open.asked = false
	msg := a.Message
	msg.Role = glovebox.RoleAssistant
	msg.Blocks = said(msg.Blocks)
	if u := a.Usage; u.Input+u.CacheRead+u.CacheWrite > 0 {
		b.counted, b.countedAs = u.Input+u.CacheRead+u.CacheWrite, b.requestedAs
	}
	if len(msg.Blocks) == 0 {
		return
	}
	late := b.open.notes[b.open.seen:]
	b.open.notes = b.open.notes[:b.open.seen:b.open.seen]
	b.freeze(b.open.turn())
	b.freeze(turn{msg: msg, tokens: messageTokens(msg)})
	b.open = pending{notes: append([]glovebox.Block(nil), late...)}
	for _, use := range msg.ToolUses() {
		b.open.calls = append(b.open.calls, call{id: use.CallID})
	}
}

// said returns blocks without empty text, which providers refuse.
func said(blocks []glovebox.Block) []glovebox.Block {
	var out []glovebox.Block
	for _, x := range blocks {
		if x.Type == glovebox.BlockText && x.Text == "" && len(x.Opaque) == 0 {
			continue
		}
		out = append(out, x)
	}
	return out
}

// finished records the result of a call. The user's answer to a question is
// in the result and no longer beside it.
func (b *Builder) finished(f glovebox.ToolFinished, seq int64) {
	c := b.call(f.CallID)
	if c == nil {
		return
	}
	content := said(f.Content)
	if len(content) == 0 {
		content = []glovebox.Block{glovebox.Text("(no output)")}
	}
	c.result = &glovebox.Block{Type: glovebox.BlockToolResult, CallID: f.CallID, Content: content, IsError: f.IsError || f.Unknown}
	c.origin = origin{event: seq, blob: f.Blob}
	if c.answer && !f.Unknown {
		b.dropNote(c.note)
	}
	c.answer = false
}

// dropNote removes a note. Notes of the newest request are never dropped: a
// question is answered before the next request.
func (b *Builder) dropNote(i int) {
	b.open.notes = append(b.open.notes[:i:i], b.open.notes[i+1:]...)
	if b.open.seen > i {
		b.open.seen--
	}
	for j := range b.open.calls {
		if c := &b.open.calls[j]; c.answer && c.note > i {
			c.note--
		}
	}
}

func (b *Builder) freeze(t turn) {
	t.sum = messageSum(t.msg)
	b.turns = append(b.turns, t)
	b.frozen += t.tokens
}

// turn returns the user's message as it is now: a result for each call, then
// the notes. A call without a result has, for now, an unknown outcome.
func (p *pending) turn() turn {
	var t turn
	add := func(x glovebox.Block, from origin) {
		t.msg.Blocks = append(t.msg.Blocks, x)
		t.from = append(t.from, from)
	}
	t.msg.Role = glovebox.RoleUser
	for _, c := range p.calls {
		if c.result != nil {
			add(*c.result, c.origin)
			continue
		}
		add(glovebox.Block{Type: glovebox.BlockToolResult, CallID: c.id, IsError: true, Content: []glovebox.Block{glovebox.Text(UnknownOutcome)}}, origin{})
	}
	for _, n := range p.notes {
		add(n, origin{})
	}
	if len(t.msg.Blocks) == 0 {
		add(noticeText("Go on."), origin{})
	}
	t.tokens = messageTokens(t.msg)
	return t
}

// UnknownOutcome is what the model is told about a call whose result nobody
// recorded.
const UnknownOutcome = glovebox.UnknownOutcome + ": this call was interrupted before its result was recorded. It may have happened wholly, partly or not at all. Check before you repeat it."
