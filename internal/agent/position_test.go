package agent

import (
	"testing"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
)

// at reads a log, given without its first event.
func at(t *testing.T, events ...glovebox.Event) position {
	t.Helper()
	var p position
	for i, e := range append([]glovebox.Event{event(glovebox.EventCreated, glovebox.Created{Task: "t"})}, events...) {
		e.Seq = int64(i + 1)
		if err := p.apply(e); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func TestPosition(t *testing.T) {
	t.Parallel()
	asked := event(glovebox.EventModelRequested, glovebox.ModelRequested{MaxTokens: 10})
	answered := func(stop llm.StopReason, blocks ...glovebox.Block) glovebox.Event {
		return event(glovebox.EventModelAnswered, glovebox.ModelAnswered{Message: glovebox.Message{Blocks: blocks}, StopReason: string(stop)})
	}
	failed := func(k llm.Kind, retry bool) glovebox.Event {
		return event(glovebox.EventModelFailed, glovebox.ModelFailed{Kind: string(k), Retry: retry, WaitMS: 1000})
	}
	started := func(id string) glovebox.Event {
		return event(glovebox.EventToolStarted, glovebox.ToolStarted{CallID: id})
	}
	finished := func(id string) glovebox.Event {
		return event(glovebox.EventToolFinished, glovebox.ToolFinished{CallID: id})
	}
	said := event(glovebox.EventUserMessage, glovebox.UserMessage{Text: "hi"})
	notice := event(glovebox.EventNotice, glovebox.Notice{Text: "n"})
	passed := event(glovebox.EventVerified, glovebox.Verified{Passed: true, Summary: "s"})
	unpassed := event(glovebox.EventVerified, glovebox.Verified{})
	claimed := event(glovebox.EventClaimed, glovebox.Claimed{})
	question := event(glovebox.EventQuestion, glovebox.QuestionAsked{CallID: "a"})
	resumed := event(glovebox.EventResumed, glovebox.Resumed{})
	a, b, f := shell("a", "x"), shell("b", "y"), finish("f", "true")
	const end = llm.StopEnd

	for _, test := range []struct {
		name string
		log  []glovebox.Event
		want stage
		and  func(p position) bool // nil: nothing more
	}{
		{"a new job", nil, stageAsk, nil},
		{"claimed", []glovebox.Event{claimed}, stageAsk, nil},
		{"asked", []glovebox.Event{asked}, stageUnanswered, func(p position) bool { return p.attempts == 1 }},
		{"asked, then said something", []glovebox.Event{asked, said}, stageUnanswered, func(p position) bool { return p.unseen == 1 }},
		{"failed, to be retried", []glovebox.Event{asked, failed(llm.KindNetwork, true)}, stageAsk, func(p position) bool { return p.tries == 1 && p.waitedMS == 1000 && p.gaveUp == nil }},
		{"cancelled by us: no failed try", []glovebox.Event{asked, failed(llm.KindCancelled, true)}, stageAsk, func(p position) bool { return p.tries == 0 && p.attempts == 1 }},
		{"failed for good", []glovebox.Event{asked, failed(llm.KindAuth, false)}, stageAsk, func(p position) bool { return p.verdict("m").Code == "model" }},
		{"failed for good, resumed", []glovebox.Event{asked, failed(llm.KindNetwork, false), resumed}, stageAsk, func(p position) bool { return p.verdict("m") == nil }},
		{"an answer ends the tries", []glovebox.Event{asked, failed(llm.KindNetwork, true), asked, answered(end, a)}, stageCalls, func(p position) bool { return p.tries == 0 && p.attempts == 0 }},
		{"calls", []glovebox.Event{asked, answered(end, a, b)}, stageCalls, func(p position) bool { return p.nextCall().CallID == "a" && !p.nextCall().started }},
		{"a call began", []glovebox.Event{asked, answered(end, a, b), started("a")}, stageCalls, func(p position) bool { return p.nextCall().started && p.unsaved }},
		{"the first has its result", []glovebox.Event{asked, answered(end, a, b), started("a"), finished("a")}, stageCalls, func(p position) bool { return p.nextCall().CallID == "b" && !p.nextCall().started }},
		{"all have", []glovebox.Event{asked, answered(end, a, b), started("a"), finished("a"), started("b"), finished("b")}, stageAsk, nil},
		{"finish is last", []glovebox.Event{asked, answered(end, f, a)}, stageCalls, func(p position) bool { return p.nextCall().CallID == "a" }},
		{"unless it began", []glovebox.Event{asked, answered(end, f, a), started("f")}, stageCalls, func(p position) bool { return p.nextCall().CallID == "f" }},
		{"a cut call", []glovebox.Event{asked, answered(llm.StopMaxOutput, a, b)}, stageCalls, func(p position) bool { return !p.calls[0].cut && p.calls[1].cut && p.idle == 0 }},
		{"only a cut call", []glovebox.Event{asked, answered(llm.StopMaxOutput, a)}, stageCalls, func(p position) bool { return p.idle == 1 }},
		{"text after the call", []glovebox.Event{asked, answered(llm.StopMaxOutput, a, glovebox.Text("and"))}, stageCalls, func(p position) bool { return !p.calls[0].cut }},
		{"no call", []glovebox.Event{asked, answered(end, glovebox.Text("hm"))}, stageNudge, func(p position) bool { return p.idle == 1 }},
		{"no call, told", []glovebox.Event{asked, answered(end, glovebox.Text("hm")), notice}, stageAsk, nil},
		{"no call, but the user says something", []glovebox.Event{asked, answered(end, glovebox.Text("hm")), said}, stageAsk, func(p position) bool { return p.idle == 0 }},
		{"a question", []glovebox.Event{asked, answered(end, a), started("a"), question}, stageCalls, func(p position) bool { return p.nextCall().question != nil && !p.nextCall().answered }},
		{"an answered question", []glovebox.Event{asked, answered(end, a), started("a"), question, claimed, said}, stageCalls, func(p position) bool { return p.nextCall().answer.Text == "hi" && p.unseen == 0 }},
		{"the answer stays the first", []glovebox.Event{asked, answered(end, a), started("a"), question, said, event(glovebox.EventUserMessage, glovebox.UserMessage{Text: "more"})}, stageCalls, func(p position) bool { return p.nextCall().answer.Text == "hi" && p.unseen == 1 }},
		{"verified", []glovebox.Event{asked, answered(end, f), started("f"), passed, finished("f")}, stageVerified, func(p position) bool { return p.verified.Summary == "s" }},
		{"verified, claimed again", []glovebox.Event{asked, answered(end, f), started("f"), passed, finished("f"), claimed}, stageVerified, nil},
		{"verified, but the user wants more", []glovebox.Event{asked, answered(end, f), started("f"), passed, finished("f"), said}, stageAsk, nil},
		{"not verified", []glovebox.Event{asked, answered(end, f), started("f"), unpassed, finished("f")}, stageAsk, func(p position) bool { return p.unproven == 1 }},
		{"seen", []glovebox.Event{said, asked, answered(end, a)}, stageCalls, func(p position) bool { return p.unseen == 0 }},
		{"said too late to be seen", []glovebox.Event{said, asked, said, answered(end, a)}, stageCalls, func(p position) bool { return p.unseen == 1 }},
		{"not seen, since the call failed", []glovebox.Event{said, asked, failed(llm.KindNetwork, true)}, stageAsk, func(p position) bool { return p.unseen == 1 }},
	} {
		p := at(t, test.log...)
		if got := p.stage(); got != test.want || test.and != nil && !test.and(p) {
			t.Errorf("%s: %s: %+v", test.name, got, p)
		}
	}
}

func TestPositionRefusesGap(t *testing.T) {
	t.Parallel()
	p := at(t)
	before := p
	e := event(glovebox.EventNotice, glovebox.Notice{})
	e.Seq = 3
	if p.apply(e) == nil || p.seq != before.seq {
		t.Errorf("a gap was passed over: %+v", p)
	}
	e = glovebox.Event{Seq: 2, Type: glovebox.EventUserMessage, Data: []byte("no JSON")}
	if p.apply(e) == nil || p.seq != before.seq || p.unseen != 0 {
		t.Errorf("what is not JSON was read: %+v", p)
	}
}
