package memory

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
)

const task = "Build me a todo app in React.\n\tUse <b>TypeScript</b> — \"strict\" \u2028 please."

var options = Options{
	Standing: []string{"Never use jQuery.", "Licence: Apache-2.0 & nothing else."},
	Tools: []llm.ToolSpec{
		{Name: "shell", Description: "Runs.", Schema: json.RawMessage(`{"type":"object"}`)},
		{Name: "ask_user", Description: "Asks.", Schema: json.RawMessage(`{"type":"object"}`)},
	},
}

// log builds a log for tests.
type log struct{ events []glovebox.Event }

func (l *log) add(typ glovebox.EventType, data any) int64 {
	e := glovebox.NewEvent(time.Unix(1_700_000_000, 0), typ, data)
	e.Seq = int64(len(l.events) + 1)
	l.events = append(l.events, e)
	return e.Seq
}

func newLog() *log {
	l := &log{}
	l.add(glovebox.EventCreated, glovebox.Created{ID: "j1", Tenant: "default", Task: task, Model: "x:y"})
	return l
}

func (l *log) ask() { l.add(glovebox.EventModelRequested, glovebox.ModelRequested{MaxOutput: 1000}) }

func (l *log) answer(blocks ...glovebox.Block) {
	l.add(glovebox.EventModelAnswered, glovebox.ModelAnswered{Message: glovebox.Message{Role: glovebox.RoleAssistant, Blocks: blocks}})
}

func (l *log) result(id, text string) int64 {
	return l.add(glovebox.EventToolFinished, glovebox.ToolFinished{CallID: id, Name: "shell", Content: []glovebox.Block{glovebox.Text(text)}})
}

func (l *log) say(text string) { l.add(glovebox.EventUserMessage, glovebox.UserMessage{Text: text}) }

func use(id string) glovebox.Block {
	return glovebox.Block{Type: glovebox.BlockToolUse, CallID: id, Name: "shell", Input: json.RawMessage(`{"command":"ls"}`)}
}

func build(t interface{ Fatal(...any) }, events []glovebox.Event) *llm.Request {
	r, err := Build(events, options)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// outline shows a conversation on a line a message.
func outline(r *llm.Request) string {
	var b strings.Builder
	for _, m := range r.Messages {
		fmt.Fprintf(&b, "%s:", m.Role)
		for _, x := range m.Blocks {
			switch x.Type {
			case glovebox.BlockToolUse:
				fmt.Fprintf(&b, " use(%s)", x.CallID)
			case glovebox.BlockToolResult:
				fmt.Fprintf(&b, " result(%s %s)", x.CallID, firstWords(x.Content[0].Text))
			default:
				fmt.Fprintf(&b, " %s", firstWords(x.Text))
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

func firstWords(s string) string {
	s = strings.ReplaceAll(s, "\n\n", " ")
	s = strings.TrimPrefix(s, "The user says: ")
	s = strings.TrimPrefix(s, "Notice from Glovebox: ")
	if s == task {
		return "TASK"
	}
	if i := strings.IndexAny(s, ":."); i > 0 {
		s = s[:i]
	}
	return "[" + s + "]"
}

func TestConversation(t *testing.T) {
	t.Parallel()
	const head = "user: [The workspace is empty] TASK"
	for _, test := range []struct {
		name string
		log  func(l *log)
		want string
	}{
		{"only the task", func(l *log) {}, head + "\n"},
		{"said before the first answer", func(l *log) { l.say("one") }, head + " [one]\n"},
		{"results in the order of the calls, before all else", func(l *log) {
			l.ask()
			l.answer(glovebox.Text("Hm"), use("a"), use("b"))
			l.say("during")
			l.result("b", "B")
			l.result("a", "A")
			l.say("after")
		}, head + "\nassistant: [Hm] use(a) use(b)\nuser: result(a [A]) result(b [B]) [during] [after]\n"},
		{"said while the model was asked, and it answered", func(l *log) {
			l.ask()
			l.say("late")
			l.answer(use("a"))
			l.result("a", "A")
		}, head + "\nassistant: use(a)\nuser: result(a [A]) [late]\n"},
		{"said while the model was asked, and asked again", func(l *log) {
			l.ask()
			l.say("in time")
			l.add(glovebox.EventModelFailed, glovebox.ModelFailed{Kind: "cancelled", Retry: true})
			l.ask()
			l.answer(use("a"))
		}, head + " [in time]\nassistant: use(a)\nuser: result(a [Outcome unknown])\n"},
		{"the worker died during the call", func(l *log) {
			l.ask()
			l.say("x")
			l.ask()
		}, head + " [x]\n"},
		{"an answer of nothing is left out", func(l *log) {
			l.ask()
			l.answer(glovebox.Text(""))
			l.add(glovebox.EventNotice, glovebox.Notice{Text: "call a tool"})
			l.ask()
			l.answer(glovebox.Text("sorry"))
			l.add(glovebox.EventNotice, glovebox.Notice{Text: "call one"})
		}, head + " [call a tool]\nassistant: [sorry]\nuser: [call one]\n"},
		{"nothing to say is never an empty message", func(l *log) {
			l.ask()
			l.answer(glovebox.Text("thinking"))
		}, head + "\nassistant: [thinking]\nuser: [Go on]\n"},
		{"the answer to a question is in its result", func(l *log) {
			l.ask()
			l.answer(use("a"), use("q"))
			l.add(glovebox.EventQuestion, glovebox.QuestionAsked{CallID: "q", Text: "Red?"})
			l.say("yes")
			l.say("and blue")
			l.result("q", "The user answers yes")
			l.result("a", "A")
		}, head + "\nassistant: use(a) use(q)\nuser: result(a [A]) result(q [The user answers yes]) [and blue]\n"},
		{"an answer to a question whose outcome is unknown stays", func(l *log) {
			l.ask()
			l.answer(use("q"))
			l.add(glovebox.EventQuestion, glovebox.QuestionAsked{CallID: "q", Text: "Red?"})
			l.say("yes")
			l.add(glovebox.EventToolFinished, glovebox.ToolFinished{CallID: "q", Unknown: true, Content: []glovebox.Block{glovebox.Text("Unknown")}})
		}, head + "\nassistant: use(q)\nuser: result(q [Unknown]) [yes]\n"},
		{"a rebuilt machine is told, a found one is not", func(l *log) {
			l.ask()
			l.answer(use("a"))
			l.add(glovebox.EventSandboxReady, glovebox.SandboxReady{How: "found"})
			l.add(glovebox.EventSandboxReady, glovebox.SandboxReady{How: "rebuilt", Commit: "c"})
			l.result("a", "A")
		}, head + "\nassistant: use(a)\nuser: result(a [A]) [The machine was lost and has been rebuilt from the last copy of the workspace]\n"},
		{"a result nobody asked for, or given twice, is passed over", func(l *log) {
			l.ask()
			l.answer(use("a"))
			l.result("a", "A")
			l.result("a", "again")
			l.result("z", "Z")
		}, head + "\nassistant: use(a)\nuser: result(a [A])\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			l := newLog()
			test.log(l)
			if got := outline(build(t, l.events)); got != test.want {
				t.Errorf("got\n%swant\n%s", got, test.want)
			}
		})
	}
}

func TestHead(t *testing.T) {
	t.Parallel()
	r := build(t, newLog().events)
	if !strings.HasPrefix(r.System, Rules()) {
		t.Error("the rules are not in the request word for word")
	}
	for _, s := range options.Standing {
		if !strings.Contains(r.System, s) {
			t.Errorf("the standing instruction %q is not in the request", s)
		}
	}
	if r.CacheKey != "j1" || len(r.Tools) != 2 {
		t.Errorf("cache key %q, tools %v", r.CacheKey, r.Tools)
	}
	l := &log{}
	l.add(glovebox.EventCreated, glovebox.Created{ID: "j", Task: "t", Files: &glovebox.Files{GitURL: "https://example.com/x.git", GitRef: "v1"},
		Egress: glovebox.Egress{Mode: glovebox.EgressOnly, Allow: []string{"example.com", ".example.org:8443"}}})
	first := build(t, l.events).Messages[0].Blocks[0].Text
	for _, want := range []string{"https://example.com/x.git at v1", "only: example.com, .example.org:8443."} {
		if !strings.Contains(first, want) {
			t.Errorf("%q is not in %q", want, first)
		}
	}
}

func TestBadEventChangesNothing(t *testing.T) {
	t.Parallel()
	b := New(options)
	before := Digest(b.Request(1))
	if err := b.Apply(glovebox.Event{Seq: 1, Type: glovebox.EventUserMessage, Data: json.RawMessage(`{"text":1}`)}); err == nil {
		t.Error("no error")
	}
	if Digest(b.Request(1)) != before {
		t.Error("the request changed")
	}
}

func TestOldTextIsNotReplacedByNewOnes(t *testing.T) {
	t.Parallel()
	a, _ := json.Marshal(build(t, newLog().events))
	first, again := build(t, newLog().events), build(t, newLog().events)
	if !json.Valid(a) || Digest(first) != Digest(again) {
		t.Error("the digest is not stable")
	}
}

// checkLegal reports what providers would refuse in a request.
func checkLegal(r *llm.Request) error {
	for i, m := range r.Messages {
		if want := []glovebox.Role{glovebox.RoleUser, glovebox.RoleAssistant}[i%2]; m.Role != want {
			return fmt.Errorf("message %d is of %s", i, m.Role)
		}
		if len(m.Blocks) == 0 {
			return fmt.Errorf("message %d is empty", i)
		}
		if m.Role == glovebox.RoleAssistant {
			if i == len(r.Messages)-1 {
				return fmt.Errorf("the request ends with an answer")
			}
			continue
		}
		var want []string
		if i > 0 {
			for _, u := range r.Messages[i-1].ToolUses() {
				want = append(want, u.CallID)
			}
		}
		var got []string
		for k, b := range m.Blocks {
			switch {
			case b.Type == glovebox.BlockToolResult && k != len(got):
				return fmt.Errorf("message %d: a result after other blocks", i)
			case b.Type == glovebox.BlockToolResult:
				got = append(got, b.CallID)
				if len(b.Content) == 0 {
					return fmt.Errorf("message %d: an empty result", i)
				}
			case b.Type == glovebox.BlockText && b.Text == "":
				return fmt.Errorf("message %d: an empty text", i)
			}
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("message %d: results for %v, calls of %v", i, got, want)
		}
	}
	marks := r.CacheMarks
	place := func(m llm.CacheMark) int { // of the block behind which it is
		if n := len(r.Messages[m.Message].Blocks); m.Blocks == 0 || m.Blocks > n {
			return 1000 * (m.Message + 1)
		}
		return 1000*m.Message + m.Blocks
	}
	if len(marks) == 0 || len(marks) > 3 || marks[len(marks)-1] != (llm.CacheMark{Message: len(r.Messages) - 1}) ||
		!slices.IsSortedFunc(marks, func(a, b llm.CacheMark) int { return place(a) - place(b) }) {
		return fmt.Errorf("cache marks %v of %d messages", marks, len(r.Messages))
	}
	return nil
}

func TestTokensFollowTheProvider(t *testing.T) {
	t.Parallel()
	b := New(options)
	l := newLog()
	l.ask()
	l.add(glovebox.EventModelAnswered, glovebox.ModelAnswered{Message: glovebox.Message{Blocks: []glovebox.Block{glovebox.Text("x")}}, Usage: glovebox.Usage{Input: 10, CacheRead: 90_000}})
	for _, e := range l.events {
		b.Apply(e)
	}
	if got := b.Tokens(); got < 90_010 || got > 90_200 {
		t.Errorf("%d tokens, the provider counted 90010 before the answer", got)
	}
}
