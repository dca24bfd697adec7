package agent

import (
	"strings"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
)

// stage is what a log asks for next.
type stage string

const (
	stageAsk        stage = "ask"        // the model has to be asked
	stageUnanswered stage = "unanswered" // it was asked, and the worker died
	stageCalls      stage = "calls"      // calls of its answer have no result
	stageNudge      stage = "nudge"      // its answer called no tool
	stageVerified   stage = "verified"   // the proofs passed: the job is complete
)

// position is where a log stands. The zero position and all events, in order,
// give it; it is a pure function of them.
type position struct {
	seq       int64
	requested *glovebox.ModelRequested // without an answer
	verified  *glovebox.Verified       // passed, and nothing was said since
	calls     []pendingCall            // of the newest answer, without a result, in order
	silent    bool                     // the newest answer called nothing, and nothing was said since
	stop      llm.StopReason           // of the newest answer

	model       string                       // that goes on, as the log names it
	summarizing *glovebox.SummariesRequested // that was not ended
	asked       map[spanKey]int64            // how often a summary of each was asked for

	attempts int64                 // requests since the newest answer
	tries    int                   // of them, that failed in a way that a retry may mend
	waitedMS int64                 // before retries since the newest answer
	tooLong  int                   // times since the newest answer that the provider refused the length
	folded   int                   // of them, that were followed by a fold
	gaveUp   *glovebox.ModelFailed // the newest failure, if it is not retried
	idle     int                   // answers in a row that ran no tool
	unproven int                   // finishes whose proofs failed
	unseen   int                   // texts of the user that no answer took into account
	inFlight int                   // texts that the newest request holds for the first time
	repeats  repeats
	ahead    *sum                     // of the result that is read next, where it was made ahead
	taken    *glovebox.ControlChanged // the event with which a person took mouse and keyboard; nil when the agent holds them
	unsaved  bool                     // a tool was run since the newest checkpoint
	touched  bool                     // a person had mouse and keyboard at some time since the newest answer
	halted   bool                     // a call of gui in the newest answer was not done as meant: those after it would meet another screen
}

// pendingCall is a call without a result.
type pendingCall struct {
	glovebox.Block
	cut      bool                    // the answer was cut while it was written
	double   bool                    // another call of the answer had its id first
	started  bool                    // it may have acted
	question *glovebox.QuestionAsked // it waits for the user
	answered bool
	answer   glovebox.UserMessage
}

// stage returns what the log asks for next.
func (p *position) stage() stage {
	switch {
	case p.verified != nil:
		return stageVerified
	case p.requested != nil:
		return stageUnanswered
	case len(p.calls) > 0:
		return stageCalls
	case p.silent:
		return stageNudge
	}
	return stageAsk
}

// nextCall returns the call to deal with next: the first, but finish after
// all others, since it ends the job.
func (p *position) nextCall() pendingCall {
	for _, c := range p.calls {
		if c.Name != finishTool || c.started {
			return c
		}
	}
	return p.calls[0]
}

// finishTool is the name of the tool that ends the job.
const finishTool = "finish"

// guiTool is the name of the tool that works the screen.
const guiTool = "gui"

// apply reads the next event. An error changes nothing.
func (p *position) apply(e glovebox.Event) error {
	if e.Seq != p.seq+1 {
		return glovebox.Errorf(glovebox.CodeInternal, "the log has a gap: event %d follows event %d", e.Seq, p.seq)
	}
	if apply, ok := readers[e.Type]; ok {
		if err := apply(p, e); err != nil {
			return err
		}
	}
	p.seq, p.ahead = e.Seq, nil
	return nil
}

var readers = map[glovebox.EventType]func(*position, glovebox.Event) error{
	glovebox.EventModelRequested: reads((*position).onRequested),
	glovebox.EventModelAnswered:  reads((*position).onAnswered),
	glovebox.EventModelFailed:    reads((*position).onFailed),
	glovebox.EventToolStarted: reads(func(p *position, s glovebox.ToolStarted) {
		p.unsaved = true
		if c := p.call(s.CallID); c != nil {
			c.started = true
		}
	}),
	glovebox.EventToolFinished: reads((*position).onFinished),
	glovebox.EventQuestion: reads(func(p *position, q glovebox.QuestionAsked) {
		if c := p.call(q.CallID); c != nil {
			c.question = &q
		}
	}),
	glovebox.EventUserMessage: reads((*position).onSaid),
	glovebox.EventNotice:      reads(func(p *position, _ glovebox.Notice) { p.silent = false }),
	glovebox.EventVerified: reads(func(p *position, v glovebox.Verified) {
		p.verified = nil
		if v.Passed {
			p.verified = &v
		} else {
			p.unproven++
		}
	}),
	glovebox.EventCreated:      reads(func(p *position, c glovebox.Created) { p.model = c.Model }),
	glovebox.EventModelChanged: reads((*position).onModelChanged),
	glovebox.EventSummaries:    reads((*position).onSummaries),
	glovebox.EventSummarized: reads(func(p *position, s glovebox.Summarized) {
		if s.Asked {
			p.summarizing = nil
		}
	}),
	glovebox.EventFolded:     reads(func(p *position, _ glovebox.Folded) { p.folded = p.tooLong }),
	glovebox.EventCheckpoint: reads(func(p *position, _ glovebox.CheckpointSaved) { p.unsaved = p.acting() }),
	glovebox.EventControl: reads(func(p *position, c glovebox.ControlChanged) {
		if p.taken = nil; c.Control == glovebox.ControlUser {
			p.taken, p.touched = &c, true
		}
	}),
	glovebox.EventResumed: reads(func(p *position, _ glovebox.Resumed) {
		p.taken = nil
		p.anew()
	}),
}

func reads[T any](apply func(*position, T)) func(*position, glovebox.Event) error {
	return func(p *position, e glovebox.Event) error {
		v, err := glovebox.Decode[T](e)
		if err == nil {
			apply(p, v)
		}
		return err
	}
}

// anew forgets how calls of the model failed.
func (p *position) anew() {
	p.tries, p.waitedMS, p.tooLong, p.folded, p.gaveUp = 0, 0, 0, 0, nil
}

// onModelChanged: what the model before refused the next one may take.
func (p *position) onModelChanged(m glovebox.ModelChanged) {
	p.model = m.Model
	p.anew()
}

func (p *position) onSummaries(s glovebox.SummariesRequested) {
	p.summarizing = &s
	if p.asked == nil {
		p.asked = map[spanKey]int64{}
	}
	for _, span := range s.Spans {
		p.asked[keyOfSpan(span)]++
	}
}

// spanKey is a span as far as tries of it are counted. Where the newest ends
// may change from one try to the next.
type spanKey struct {
	level int
	from  int64
}

func keyOfSpan(s glovebox.Span) spanKey { return spanKey{s.Level, s.From} }

// tried returns how often a summary of s was asked for.
func (p *position) tried(s glovebox.Span) int64 { return p.asked[keyOfSpan(s)] }

func (p *position) call(id string) *pendingCall {
	for i := range p.calls {
		if p.calls[i].CallID == id {
			return &p.calls[i]
		}
	}
	return nil
}

// acting reports whether a call that began has no result: what it changes may
// not be in a checkpoint that is made now.
func (p *position) acting() bool {
	for _, c := range p.calls {
		if c.started {
			return true
		}
	}
	return false
}

func (p *position) onRequested(r glovebox.ModelRequested) {
	p.requested, p.verified, p.silent, p.gaveUp = &r, nil, false, nil
	p.attempts++
	p.inFlight = p.unseen
}

func (p *position) onAnswered(a glovebox.ModelAnswered) {
	p.requested = nil
	p.attempts = 0
	p.anew()
	p.unseen -= p.inFlight
	p.inFlight = 0
	p.stop = llm.StopReason(a.StopReason)
	p.calls = callsOf(a.Message, p.stop)
	p.silent = len(p.calls) == 0
	p.halted, p.touched = false, p.taken != nil
	p.idle++
	for _, c := range p.calls {
		if !c.cut && !c.double {
			p.idle = 0
		}
	}
}

// callsOf returns the calls of an answer. One that ends an answer which the
// bound on its length ended may lack its end.
func callsOf(m glovebox.Message, stop llm.StopReason) []pendingCall {
	var calls []pendingCall
	ids := map[string]bool{}
	for i, b := range m.Blocks {
		if b.Type != glovebox.BlockToolUse {
			continue
		}
		c := pendingCall{Block: b, cut: stop == llm.StopMaxOutput && i == len(m.Blocks)-1}
		if k := strings.LastIndex(b.CallID, doubleMark); k >= 0 && ids[b.CallID[:k]] {
			c.double = true
		}
		ids[b.CallID] = true
		calls = append(calls, c)
	}
	return calls
}

func (p *position) onFailed(f glovebox.ModelFailed) {
	p.requested = nil
	p.inFlight = 0
	switch k := llm.Kind(f.Kind); {
	case !f.Retry:
		p.gaveUp = &f
	case k == llm.KindContextTooLong:
		p.tooLong++
	case k.Retryable():
		p.tries++
		p.waitedMS += f.WaitMS
	}
}

func (p *position) onFinished(f glovebox.ToolFinished) {
	for i, c := range p.calls {
		if c.CallID != f.CallID {
			continue
		}
		if c.Name == guiTool && (f.IsError || p.touched) {
			p.halted = true
		}
		if !interrupted(f) {
			p.repeats.add(p.repeatKeyOf(c.Block, f))
		}
		p.calls = append(p.calls[:i:i], p.calls[i+1:]...)
		return
	}
}

func (p *position) repeatKeyOf(call glovebox.Block, f glovebox.ToolFinished) repeatKey {
	if p.ahead != nil {
		return keyOf(call, *p.ahead)
	}
	return repeatKeyOf(call, f)
}

func (p *position) onSaid(m glovebox.UserMessage) {
	p.verified, p.silent, p.idle = nil, false, 0
	for i := range p.calls {
		if c := &p.calls[i]; c.question != nil && !c.answered {
			c.answered, c.answer = true, m
			return
		}
	}
	p.unseen++
}
