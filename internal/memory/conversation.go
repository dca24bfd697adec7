package memory

import (
	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
)

// conversation is the messages of an epoch, read from its entries. It is made
// anew with each fold and grows with each event.
type conversation struct {
	b     *Builder
	read  int  // entries that were read
	early bool // what is read now came before the fold that opened the epoch
	room  room

	calls   int // so far
	repeats repeats

	turns []turn // messages that have been answered, or are answers
	open  pending

	frozen turnSize // of turns
	model  string   // that was asked last
	next   string   // that goes on; empty for the same
	images imageBudget

	// What the provider counted for the newest answered request, if it did,
	// and what was estimated for the same.
	counted, countedAs int64
	requestedAs        int64 // what the newest request was estimated at
}

// turn is a message of the conversation that will not grow any more.
type turn struct {
	msg   glovebox.Message
	seq   int64    // of the answer; 0 for a message of the user
	calls int      // before the answer, in the epoch
	from  []origin // for each block of a message of the user
	size  turnSize
	sum   sum // zero until it is needed
}

// turnSize is what messages weigh.
type turnSize struct {
	tokens    int64 // estimated
	reasoning int64 // of them, of reasoning
	bytes     int64 // of text and images
	images    int
}

func (s turnSize) plus(o turnSize) turnSize {
	return turnSize{s.tokens + o.tokens, s.reasoning + o.reasoning, s.bytes + o.bytes, s.images + o.images}
}

func (s turnSize) minus(o turnSize) turnSize {
	return turnSize{s.tokens - o.tokens, s.reasoning - o.reasoning, s.bytes - o.bytes, s.images - o.images}
}

func sizeOf(m glovebox.Message) turnSize {
	s := turnSize{tokens: messageTokens(m)}
	for _, b := range m.Blocks {
		s.weigh(b)
		if b.Type == glovebox.BlockReasoning {
			s.reasoning += llm.BoundBlock(b)
		}
	}
	return s
}

func (s *turnSize) weigh(b glovebox.Block) {
	s.bytes += int64(len(b.Text) + len(b.Input) + len(b.Opaque))
	if b.Type == glovebox.BlockImage {
		s.images++
		s.bytes += imageSize(b)
	}
	for _, c := range b.Content {
		s.weigh(c)
	}
}

// origin says where a block of the user's message came from.
type origin struct {
	event int64  // 0 for what no event holds
	blob  string // handle of the whole, if the result was cut
}

// pending is the user's message that the next request ends with.
type pending struct {
	calls []call // of the newest answer, in order
	notes []note // what the user and Glovebox said since
	seen  int    // how many notes the newest request holds
	asked bool   // there is a request without an answer

	results, said, ruled int64 // tokens so far of results, of notes and of instructions, about

	left leftOut // notes that did not fit
	late leftOut // of them, those that the newest request does not speak of

	made *turn // the message as it is; nil if it changed
}

// leftOut counts notes that are not shown.
type leftOut struct {
	count int
	from  int64 // event of the first
}

func (l *leftOut) add(event int64) {
	if l.count == 0 {
		l.from = event
	}
	l.count++
}

// note is a block that stands beside the results.
type note struct {
	block glovebox.Block
	event int64
}

// call is a call of a tool and, once it is there, its result.
type call struct {
	id     string
	number int // in the epoch
	tool   string
	result *glovebox.Block
	origin origin

	asked  bool // it is a question to the user
	answer bool // which the user has answered; the answer is note number
	note   int
}

// newConversation returns the conversation with nothing but its beginning.
func newConversation(b *Builder) *conversation {
	c := &conversation{b: b, early: b.fold.seq > 0, room: roomFor(b.fold.Use, b.fixedTokens())}
	for _, x := range b.opening.blocks {
		c.open.notes = append(c.open.notes, note{block: x})
	}
	return c
}

// apply reads the next entry.
func (c *conversation) apply(e entry) {
	switch d := e.data.(type) {
	case glovebox.ModelRequested:
		c.requested(d)
	case glovebox.ModelAnswered:
		c.answered(d, e.seq)
	case glovebox.ModelFailed:
		c.open.asked = false
		if d.Kind == string(llm.KindContextTooLong) {
			c.counted, c.countedAs = 0, 0 // what the provider counted misled
		}
	case glovebox.ModelChanged:
		c.next = d.Model // it may be left again before it is asked
	case glovebox.ToolFinished:
		c.finished(d, e.seq)
	case glovebox.QuestionAsked:
		if x := c.call(d.CallID); x != nil {
			x.asked = true
		}
	case glovebox.UserMessage:
		c.note(userText(d, c.room.note, e.seq), e.seq)
		if x := c.question(); x != nil && c.open.left.count == 0 {
			x.answer, x.note = true, len(c.open.notes)-1
		}
	case glovebox.Notice:
		c.note(noticeText(cut(d.Text, c.room.note, eventHandle("message", e.seq))), e.seq)
	case glovebox.ControlChanged:
		c.note(controlText(d), e.seq)
	case glovebox.SandboxReady:
		c.note(rebuiltText(d), e.seq)
	case glovebox.InstructionsRead:
		if !c.early { // what came before is in the head
			c.rule(instructionsText(d, c.ruleRoom(), e.seq), e.seq)
		}
	case glovebox.ProjectRecalled:
		if !c.early {
			c.rule(projectText(d, c.ruleRoom(), e.seq), e.seq)
		}
	case glovebox.Folded:
		if e.seq == c.b.fold.seq {
			c.begin()
		}
	}
}

func (c *conversation) requested(r glovebox.ModelRequested) {
	c.requestedAs = c.estimate()
	c.open.seen, c.open.asked, c.open.late = len(c.open.notes), true, leftOut{}
	if r.Model != "" {
		c.goOn(r.Model)
	}
	if !c.early && r.Use.High > 0 {
		c.room = roomFor(r.Use, c.b.fixedTokens())
	}
}

// goOn ends what only the model before could read of the answers so far, if
// another is asked from now on.
func (c *conversation) goOn(name string) {
	if c.model != "" && c.model != name {
		for i := range c.turns {
			c.change(i, func(x glovebox.Block) (glovebox.Block, bool) {
				x.Provider, x.Opaque = "", nil
				return x, x.Type != glovebox.BlockReasoning
			})
		}
	}
	c.model, c.next = name, ""
}

// begin ends what the tail leaves behind when an epoch begins: reasoning, and
// images but for the newest few. The orders are restated at its end.
func (c *conversation) begin() {
	c.early = false
	if c.next != "" {
		c.goOn(c.next)
	}
	for i := range c.turns {
		c.change(i, func(x glovebox.Block) (glovebox.Block, bool) { return x, x.Type != glovebox.BlockReasoning })
	}
	c.thinImages()
	if c.b.fold.orders != "" {
		c.open.notes = append(c.open.notes, note{block: noticeText(c.b.fold.orders)})
		c.open.made = nil
	}
	c.counted, c.countedAs = c.b.fold.Use.Tokens(), c.estimate()
}

// change rewrites the blocks of an answer; those for which f returns false leave it.
func (c *conversation) change(i int, f func(glovebox.Block) (glovebox.Block, bool)) {
	t := &c.turns[i]
	if t.msg.Role != glovebox.RoleAssistant {
		return
	}
	blocks := make([]glovebox.Block, 0, len(t.msg.Blocks))
	for _, x := range t.msg.Blocks {
		if y, keep := f(x); keep && !empty(y) {
			blocks = append(blocks, y)
		}
	}
	if len(blocks) == 0 {
		blocks = append(blocks, glovebox.Text("(no words)"))
	}
	c.replace(i, blocks)
}

// replace gives a message other blocks. Messages that were handed out are not touched.
func (c *conversation) replace(i int, blocks []glovebox.Block) {
	t := &c.turns[i]
	t.msg.Blocks, t.sum = blocks, sum{}
	c.frozen = c.frozen.minus(t.size)
	t.size = sizeOf(t.msg)
	c.frozen = c.frozen.plus(t.size)
}

// note adds a note. What is beyond the room for notes is only counted: the
// log has it.
func (c *conversation) note(n glovebox.Block, event int64) {
	c.open.made = nil
	size := llm.BoundBlock(n)
	if c.open.left.count > 0 || c.open.said+size > c.room.notes && c.open.said > 0 {
		c.open.left.add(event)
		c.open.late.add(event)
		return
	}
	c.open.said += size
	c.open.notes = append(c.open.notes, note{n, event})
}

// rule adds a note with instructions, which is never left out.
func (c *conversation) rule(n glovebox.Block, event int64) {
	c.open.made = nil
	c.open.ruled += llm.BoundBlock(n)
	c.open.notes = append(c.open.notes, note{n, event})
}

// ruleRoom returns how many tokens of instructions the message can still take.
func (c *conversation) ruleRoom() int64 {
	return max(c.room.instructions-c.open.ruled, leastCut)
}

// call returns the newest answer's call of that id that has no result yet.
func (c *conversation) call(id string) *call {
	for i := range c.open.calls {
		if x := &c.open.calls[i]; x.id == id && x.result == nil {
			return x
		}
	}
	return nil
}

// question returns the call that waits for the user's answer, if one does.
func (c *conversation) question() *call {
	for i := range c.open.calls {
		if x := &c.open.calls[i]; x.asked && !x.answer && x.result == nil {
			return x
		}
	}
	return nil
}

// answered ends the user's message at what the model has seen of it, and adds
// the answer. An answer of nothing is left out: providers refuse it.
func (c *conversation) answered(a glovebox.ModelAnswered, seq int64) {
	if !c.open.asked {
		c.open.seen, c.open.late = len(c.open.notes), leftOut{}
	}
	c.open.asked = false
	if u := a.Usage; !c.early && u.Input+u.CacheRead+u.CacheWrite > 0 && c.requestedAs > 0 {
		// Some servers count only what was not in their cache: a count that no
		// tokenizer comes down to is not believed.
		c.counted, c.countedAs = max(u.Input+u.CacheRead+u.CacheWrite, c.requestedAs/leastShare), c.requestedAs
	}
	if len(a.Message.Blocks) == 0 {
		return
	}
	late, lateOut := c.open.notes[c.open.seen:], c.open.late
	c.open.notes = c.open.notes[:c.open.seen:c.open.seen]
	if c.open.left.count -= lateOut.count; c.open.left.count == 0 {
		c.open.left = leftOut{}
	}
	c.open.made = nil
	c.freeze(*c.open.turn())
	c.freeze(turn{msg: a.Message, seq: seq, calls: c.calls, size: sizeOf(a.Message)})
	c.open = pending{left: lateOut, late: lateOut}
	for _, n := range late { // they were within bounds already
		c.open.notes = append(c.open.notes, n)
		c.open.said += llm.BoundBlock(n.block)
	}
	for _, use := range a.Message.ToolUses() {
		c.calls++
		c.open.calls = append(c.open.calls, call{id: use.CallID, number: c.calls, tool: use.Name})
	}
}

func (c *conversation) freeze(t turn) {
	c.turns = append(c.turns, t)
	c.frozen = c.frozen.plus(t.size)
}

// said returns blocks without those of empty text, which providers refuse.
func said(blocks []glovebox.Block) []glovebox.Block {
	var out []glovebox.Block
	for _, x := range blocks {
		if !empty(x) {
			out = append(out, x)
		}
	}
	return out
}

func empty(x glovebox.Block) bool {
	return x.Type == glovebox.BlockText && x.Text == "" && len(x.Opaque) == 0
}

// finished records the result of a call. The user's answer to a question is
// in the result and no longer beside it.
func (c *conversation) finished(f glovebox.ToolFinished, seq int64) {
	x := c.call(f.CallID)
	if x == nil {
		return
	}
	c.open.made = nil
	x.origin = origin{event: seq, blob: f.Blob}
	content := c.bounded(said(f.Content), x)
	if len(content) == 0 {
		content = []glovebox.Block{glovebox.Text("(no output)")}
	}
	x.result = &glovebox.Block{Type: glovebox.BlockToolResult, CallID: f.CallID, Content: content, IsError: f.IsError || f.Unknown}
	if x.answer && !f.Unknown {
		c.dropNote(x.note)
	}
	x.answer = false
}

// dropNote removes a note. Notes of the newest request are never dropped: a
// question is answered before the next request.
func (c *conversation) dropNote(i int) {
	c.open.notes = append(c.open.notes[:i:i], c.open.notes[i+1:]...)
	if c.open.seen > i {
		c.open.seen--
	}
	for j := range c.open.calls {
		if x := &c.open.calls[j]; x.answer && x.note > i {
			x.note--
		}
	}
}

// turn returns the user's message as it is now: a result for each call, then
// the notes. A call without a result has, for now, an unknown outcome.
func (p *pending) turn() *turn {
	if p.made != nil {
		return p.made
	}
	t := &turn{}
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
		add(n.block, origin{event: n.event})
	}
	if p.left.count > 0 {
		add(leftText(p.left), origin{})
	}
	if len(t.msg.Blocks) == 0 {
		add(noticeText("Go on."), origin{})
	}
	t.size = sizeOf(t.msg)
	p.made = t
	return t
}

// UnknownOutcome is what the model is told about a call whose result nobody
// recorded.
const UnknownOutcome = glovebox.UnknownOutcome + ": this call was interrupted before its result was recorded. It may have happened wholly, partly or not at all. Check before you repeat it."
