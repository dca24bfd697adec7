package membench

import (
	"fmt"
	"slices"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
)

// What the peers do, in tokens and events.
const (
	peerWindow = 200_000
	peerHigh   = peerWindow * 8 / 10 // at which a window is cut down
	peerLow    = peerWindow * 4 / 10 // to which a sliding window is: not by a message a call, which would miss the cache each time
	keepMasks  = 10                  // newest results that observation masking leaves
	maskBatch  = 10                  // calls between two maskings: each misses the cache
	maskTokens = 12                  // of what stands for a masked result
	handsMost  = 80                  // events of OpenHands' condenser
	handsFirst = 4                   // of them at the beginning that it keeps; the system prompt is the first
	handsEvent = 2_500               // tokens of an event that it shows to who summarises: 10,000 characters
	askTokens  = 400                 // of the text that asks for a summary
)

// piece is a message of the conversation.
type piece struct {
	assistant bool
	blocks    []block
	results   []int // indexes of the blocks that are results
	facts     []*fact
	masked    []*fact // facts in the result
}

func (p *piece) tokens() (n int64) {
	for _, b := range p.blocks {
		n += b.tokens
	}
	return n
}

// peer is another way to fit a history into requests.
type peer struct {
	name, how string
	tidy      func(*peer) // brings the view into bounds, before a call

	first  int    // messages at the beginning that stay
	masked [2]int // messages at the beginning that masking was done with, before and now

	cache   *cache
	ratio   int64   // of a summary to what it stands for
	flat    []block // the head, then the view
	view    []piece
	length  int64          // tokens of flat
	visible map[*fact]bool // facts that are in flat
	calls   int
	made    int // summaries
}

// peers returns the peers, each before its first call.
func peers(head block, ratio int64) []*peer {
	all := []*peer{
		{name: "full history", how: "everything, in a window without end"},
		{name: "sliding window", how: "the task and the newest; at 160,000 tokens down to 80,000", tidy: (*peer).slide},
		{name: "observation masking", how: "results but the newest 10 to 20 are left out; at 160,000 tokens the oldest go, down to 80,000", tidy: (*peer).mask},
		{name: "summarise at 80% of 200k", how: "at 160,000 tokens the task, a summary and the newest exchange are left; the summary is asked for at the end of the request, from the cache", tidy: (*peer).summarise},
		{name: "OpenHands condenser", how: "above 80 events the first 4 and the newest 35 are left, with a summary between them that a prompt of its own asks for", tidy: (*peer).condense, first: handsFirst - 1},
	}
	for _, p := range all {
		p.cache, p.ratio, p.visible = newCache(), ratio, map[*fact]bool{}
		p.flat, p.length = []block{head}, head.tokens
		p.first = max(p.first, 1)
	}
	return all
}

// add appends a message.
func (p *peer) add(m piece) {
	p.view = append(p.view, m)
	p.flat = append(p.flat, m.blocks...)
	p.length += m.tokens()
	for _, f := range m.facts {
		p.visible[f] = true
	}
	for _, f := range m.masked {
		p.visible[f] = true
	}
}

// ask makes the next call.
func (p *peer) ask(output int64) {
	if p.tidy != nil {
		p.tidy(p)
	}
	p.calls++
	p.cache.call(p.flat, p.marks(), output, false)
}

// marks are the breakpoints: after the head, what stays at the beginning, the
// message before the newest answer, and the newest message. With masking: what
// it had come to and what it has come to, in place of the two in the middle.
func (p *peer) marks() []int {
	last, n := len(p.flat)-1, len(p.view)
	if n < 2 {
		return []int{0, last}
	}
	at := func(messages int) (end int) { // of so many at the beginning
		for _, m := range p.view[:min(messages, n-1)] {
			end += len(m.blocks)
		}
		return end
	}
	marks := []int{0, at(p.first), at(n - 2), last}
	if p.masked[1] > 0 {
		marks = []int{0, at(p.masked[0]), at(p.masked[1]), last}
	}
	slices.Sort(marks)
	return slices.Compact(marks)
}

// set replaces the view.
func (p *peer) set(view []piece) {
	head := p.flat[0]
	p.view, p.flat, p.length, p.visible = nil, []block{head}, head.tokens, map[*fact]bool{}
	for _, m := range view {
		p.add(m)
	}
}

func (p *peer) slide() {
	if p.length <= peerHigh {
		return
	}
	drop, left := 1, p.length
	for drop < len(p.view)-2 && (left > peerLow || !p.view[drop].assistant) {
		left -= p.view[drop].tokens()
		drop++
	}
	p.masked = [2]int{max(p.masked[0]-drop+1, 0), max(p.masked[1]-drop+1, 0)}
	p.set(append(p.view[:1:1], p.view[drop:]...))
}

func (p *peer) mask() {
	if p.calls%maskBatch == 0 {
		p.maskOld()
	}
	p.slide()
}

func (p *peer) maskOld() {
	kept, changed := 0, false
	for i := len(p.view) - 1; i >= 0; i-- {
		m := &p.view[i]
		if len(m.results) == 0 {
			continue
		}
		if kept += len(m.results); kept <= keepMasks {
			continue
		}
		m.blocks = append([]block(nil), m.blocks...)
		for _, j := range m.results {
			if b := m.blocks[j]; b.tokens > maskTokens {
				m.blocks[j] = block{id: mix(b.id, 1), tokens: maskTokens}
			}
		}
		m.results, m.masked = nil, nil
		if !changed { // the newest of them
			p.masked, changed = [2]int{p.masked[1], i + 1}, true
		}
	}
	if changed {
		p.set(p.view)
	}
}

// written returns a summary as a message.
func (p *peer) written(tokens int64) piece {
	p.made++
	return piece{blocks: []block{{id: mix(uint64(p.made), 2), tokens: tokens}}}
}

func (p *peer) summarise() {
	if p.length <= peerHigh || len(p.view) < 4 {
		return
	}
	length := summaryTokens(p.length-p.flat[0].tokens, p.ratio)
	p.cache.call(append(p.flat[:len(p.flat):len(p.flat)], block{id: 3, tokens: askTokens}), p.marks(), length, true)
	p.set(append([]piece{p.view[0], p.written(length)}, p.view[len(p.view)-2:]...))
}

func (p *peer) condense() {
	if len(p.view)+1 <= handsMost {
		return
	}
	first := p.first
	tail := len(p.view) - (handsMost/2 - handsFirst - 1)
	for !p.view[tail].assistant { // a result goes with its call
		tail++
	}
	input := int64(askTokens)
	for _, m := range p.view[first:tail] {
		input += min(m.tokens(), handsEvent)
	}
	length := summaryTokens(input-askTokens, p.ratio)
	p.cache.pay(glovebox.Usage{Input: input, Output: length, Calls: 1})
	p.cache.total.side++
	p.cache.total.sideOut += length
	view := append([]piece(nil), p.view[:first]...)
	p.set(append(append(view, p.written(length)), p.view[tail:]...))
}

// said returns the answer of a step as a message.
func (s *sizer) said(at step, i int) piece {
	answer := piece{assistant: true}
	if at.answer != "" {
		b := glovebox.Text(at.answer)
		answer.blocks = append(answer.blocks, s.of(glovebox.RoleAssistant, &b))
	}
	if at.tool != "" {
		b := glovebox.Block{Type: glovebox.BlockToolUse, CallID: callID(i), Name: at.tool, Input: at.input}
		answer.blocks = append(answer.blocks, s.of(glovebox.RoleAssistant, &b))
	}
	return answer
}

// callID is the made-up id of the call of a step.
func callID(i int) string { return fmt.Sprintf("call_%06d", i) }

// heard returns the user's message that comes before step at: the result of
// the step before, and what was said since.
func (s *sizer) heard(before *step, at step, i int) piece {
	var m piece
	if before != nil && before.tool != "" {
		b := glovebox.Block{Type: glovebox.BlockToolResult, CallID: callID(i - 1), Content: []glovebox.Block{glovebox.Text(before.output)}}
		m.results = append(m.results, len(m.blocks))
		m.blocks = append(m.blocks, s.of(glovebox.RoleUser, &b))
	}
	for _, text := range []string{at.note, at.user} {
		if text != "" {
			b := glovebox.Text(text)
			m.blocks = append(m.blocks, s.of(glovebox.RoleUser, &b))
		}
	}
	if len(m.blocks) == 0 {
		b := glovebox.Text("Go on.")
		m.blocks = append(m.blocks, s.of(glovebox.RoleUser, &b))
	}
	return m
}

// outputOf returns what the model writes in a step, in tokens.
func outputOf(at step) int64 {
	n := llm.TokensOf(at.answer)
	if at.tool != "" {
		n += llm.TokensOf(at.tool) + llm.TokensOf(string(at.input)) + frameTokens
	}
	return max(n, 1)
}

// asked is what someone had before it of what it was asked for.
type asked struct{ found, of int }

func (a asked) share() float64 {
	if a.of == 0 {
		return 1
	}
	return float64(a.found) / float64(a.of)
}

// replayPeer runs a peer over a history.
func replayPeer(p *peer, s *sizer, h *history) asked {
	var got asked
	var before *step
	var owed []*fact // in the result of the step before
	for i := range h.calls {
		at := h.at(i)
		m := s.heard(before, at, i)
		m.masked = owed
		owed = nil
		var inAnswer []*fact
		for _, f := range h.facts[i] {
			switch {
			case f.place == placeUser:
				m.facts = append(m.facts, f)
			case f.place == placeResult && at.tool != "":
				owed = append(owed, f)
			default:
				inAnswer = append(inAnswer, f)
			}
		}
		p.add(m)
		if p.tidy != nil && len(h.asks[i]) > 0 {
			p.tidy(p) // what is asked has to be in the request itself
		}
		for _, f := range h.asks[i] {
			got.of++
			if p.visible[f] {
				got.found++
			}
		}
		p.ask(outputOf(at))
		answer := s.said(at, i)
		answer.facts = inAnswer
		if len(answer.blocks) > 0 {
			p.add(answer)
		}
		before = &at
	}
	return got
}
