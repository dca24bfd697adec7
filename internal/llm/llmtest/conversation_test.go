package llmtest_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
	"github.com/glovebox-dev/glovebox/internal/llm/anthropic"
	"github.com/glovebox-dev/glovebox/internal/llm/chat"
	"github.com/glovebox-dev/glovebox/internal/llm/gemini"
	. "github.com/glovebox-dev/glovebox/internal/llm/llmtest"
	"github.com/glovebox-dev/glovebox/internal/llm/openai"
	"github.com/glovebox-dev/glovebox/internal/llm/wire"
)

var apis = []API{Anthropic, OpenAI, Chat, Gemini}

// talk is a conversation with a server of one provider.
type talk struct {
	t      *testing.T
	api    API
	server *Server
	name   string
	r      *llm.Request

	*problems
}

// problems keeps what a server complains about.
type problems struct {
	testing.TB
	list []string
}

func (p *problems) Errorf(format string, args ...any) {
	p.list = append(p.list, fmt.Sprintf(format, args...))
}

func newTalk(t *testing.T, api API) (*talk, *problems) {
	p := &problems{TB: t}
	n := 0
	script := func(s Sent) Answer {
		n++
		if len(s.Tools) != 2 || s.System == "" || !strings.HasPrefix(Text(s.Messages[0]), "Build it") {
			t.Errorf("sent %+v", s)
		}
		return Answer{Blocks: []glovebox.Block{{Type: glovebox.BlockReasoning, Text: fmt.Sprintf("thought %d", n)},
			{Type: glovebox.BlockToolUse, Name: "shell", CallID: fmt.Sprintf("call_%d", n), Input: json.RawMessage(fmt.Sprintf(`{"command":"c%d"}`, n))}}}
	}
	r := Request()
	r.Messages[0].Blocks = append(r.Messages[0].Blocks, glovebox.Text("Second block."))
	return &talk{t: t, api: api, server: NewScripted(p, api, 100_000, script), name: "gemini-3-test", r: r, problems: p}, p
}

// ask sends the conversation as it is and returns the answer, nil if it is refused.
func (k *talk) ask() *glovebox.Message {
	cfg := wire.Config{Info: llm.Info{Provider: string(k.api), Name: k.name, Window: 100_000, MaxOutput: 8_000, Images: true, Reasoning: true}, APIKey: Key, BaseURL: k.server.URL, HTTP: k.server.Client()}
	var m llm.Model
	switch k.api {
	case Anthropic:
		m = anthropic.New(cfg)
	case OpenAI:
		m = openai.New(cfg)
	case Chat:
		m = chat.New(cfg)
	case Gemini:
		m = gemini.New(cfg)
	}
	n := len(k.r.Messages)
	k.r.CacheMarks = slices.DeleteFunc([]llm.CacheMark{{Message: n - 3}, {Message: n - 2}, {Message: n - 1}}, func(m llm.CacheMark) bool { return m.Message < 0 })
	resp, err := m.Stream(k.t.Context(), k.r, nil)
	if err != nil {
		return nil
	}
	return &resp.Message
}

// add adds an answer and the results of its calls, each in so many blocks of notes.
func (k *talk) add(m *glovebox.Message, notes ...string) {
	k.t.Helper()
	if m == nil {
		k.t.Fatalf("there is no answer to add: %q", k.list)
	}
	user := glovebox.Message{Role: glovebox.RoleUser}
	for _, u := range m.ToolUses() {
		user.Blocks = append(user.Blocks, glovebox.Block{Type: glovebox.BlockToolResult, CallID: u.CallID, Content: []glovebox.Block{glovebox.Text("result of " + u.CallID)}})
	}
	for _, s := range notes {
		user.Blocks = append(user.Blocks, glovebox.Text(s))
	}
	k.r.Messages = append(slices.Clone(k.r.Messages), *m, user)
}

// fold leaves out what is before the newest answer, and reasoning if it is bare.
func (k *talk) fold(bare bool) {
	n := len(k.r.Messages)
	head := k.r.Messages[0]
	head.Blocks = append(slices.Clone(head.Blocks[:2]), glovebox.Text("What happened before: much."))
	tail := slices.Clone(k.r.Messages[n-2:])
	if bare {
		tail[0].Blocks = slices.DeleteFunc(slices.Clone(tail[0].Blocks), func(b glovebox.Block) bool { return b.Type == glovebox.BlockReasoning })
	}
	k.r.Messages = append([]glovebox.Message{head}, tail...)
}

// TestConversation has what a job does that keeps all rules.
func TestConversation(t *testing.T) {
	t.Parallel()
	for _, api := range apis {
		t.Run(string(api), func(t *testing.T) {
			t.Parallel()
			k, p := newTalk(t, api)
			first := k.ask()
			k.add(first)
			k.ask() // an answer that was lost
			second := k.ask()
			k.add(second, "The user says: on.")

			// Summaries: twice, before the request that they share the prefix of.
			main := k.r.Messages
			for _, ask := range []string{"Write summaries.", "Write them again."} {
				k.r.Messages = append(slices.Clone(main[:len(main)-1]), glovebox.Message{Role: glovebox.RoleUser,
					Blocks: append(slices.Clone(main[len(main)-1].Blocks), glovebox.Text(ask))})
				k.ask()
			}
			main[len(main)-1].Blocks = append(main[len(main)-1].Blocks, glovebox.Text("The user says: and on."))
			k.r.Messages = main
			k.add(k.ask())
			k.add(k.ask())
			grown := k.r.Messages // and once after what went on meanwhile
			k.r.Messages = append(slices.Clone(main[:len(main)-1]), glovebox.Message{Role: glovebox.RoleUser,
				Blocks: append(slices.Clone(main[len(main)-1].Blocks), glovebox.Text("Write the rest."))})
			k.ask()
			k.r.Messages = grown
			k.add(k.ask())
			k.fold(true)
			k.add(k.ask())
			if api == Gemini || api == Anthropic { // another model goes on
				k.name = "gemini-4-test"
				k.fold(true)
			}
			k.add(k.ask())
			k.ask()
			if len(p.list) > 0 {
				t.Fatal(p.list)
			}
			want := Tally{Jobs: 1, Epochs: 2, Requests: 12}
			if k.name == "gemini-4-test" {
				want.Epochs = 3
			}
			got := k.server.Tally()
			if got.Jobs != want.Jobs || got.Epochs != want.Epochs || got.Requests != want.Requests || got.Longest == 0 {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

// TestConversationRefuses breaks each rule of successive requests in turn.
func TestConversationRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		breaks func(k *talk)
		only   []API
		want   string
	}{
		{"reasoning of an earlier epoch", func(k *talk) { k.fold(false) }, []API{Anthropic, OpenAI}, "of an earlier epoch"},
		{"a changed system text", func(k *talk) { k.r.System += "!" }, []API{Anthropic, OpenAI}, "of an earlier epoch"},
		{"other tools", func(k *talk) { k.r.Tools[0].Description += "!" }, []API{Anthropic, OpenAI}, "of an earlier epoch"},
		{"an old result that changes", func(k *talk) {
			m := slices.Clone(k.r.Messages[2].Blocks)
			m[0].Content = []glovebox.Block{glovebox.Text("(left out)")}
			k.r.Messages[2].Blocks = m
		}, []API{Anthropic, OpenAI}, "of an earlier epoch"},
		{"reasoning that is left out", func(k *talk) {
			n := len(k.r.Messages) - 2
			k.r.Messages[n].Blocks = k.r.Messages[n].Blocks[1:]
		}, []API{Anthropic, OpenAI}, "does not come back as it came"},
		{"another model with the old one's reasoning", func(k *talk) { k.name = "gemini-4-test" }, []API{Anthropic, OpenAI}, "of an earlier epoch"},
		{"another model with the old one's signature", func(k *talk) {
			for i, m := range k.r.Messages { // as a log that does not say whose they are
				k.r.Messages[i].Blocks = slices.Clone(m.Blocks)
				for j, b := range m.Blocks {
					k.r.Messages[i].Blocks[j].Opaque = json.RawMessage(strings.Replace(string(b.Opaque), `,"model":"gemini-3-test"`, "", 1))
				}
			}
			k.name = "gemini-4-test"
		}, []API{Gemini}, "of an earlier epoch"},
		{"growth without a breakpoint", func(k *talk) {
			n := len(k.r.Messages) - 1
			for i := range 20 {
				k.r.Messages[n].Blocks = append(k.r.Messages[n].Blocks, glovebox.Text(fmt.Sprint("note ", i)))
			}
			for range 2 {
				k.r.Messages = append(k.r.Messages, glovebox.Message{Role: glovebox.RoleAssistant, Blocks: []glovebox.Block{glovebox.Text("on")}},
					glovebox.Message{Role: glovebox.RoleUser, Blocks: []glovebox.Block{glovebox.Text("on")}})
			}
		}, []API{Anthropic}, "no cache breakpoint"},
		{"another key of the cache", func(k *talk) { k.r.CacheKey = "job-2" }, []API{OpenAI}, "another prompt_cache_key"},
		{"a request that is longer than the window", func(k *talk) {
			k.r.Messages[len(k.r.Messages)-1].Blocks = append(k.r.Messages[len(k.r.Messages)-1].Blocks, glovebox.Text(strings.Repeat("all work and no play ", 30_000)))
		}, apis, "prompt is too long"},
	} {
		for _, api := range c.only {
			t.Run(c.name+" "+string(api), func(t *testing.T) {
				t.Parallel()
				k, p := newTalk(t, api)
				k.add(k.ask())
				k.add(k.ask())
				if len(p.list) > 0 {
					t.Fatal(p.list)
				}
				k.r.Tools = slices.Clone(k.r.Tools)
				c.breaks(k)
				if k.ask() != nil || len(p.list) != 1 || !strings.Contains(p.list[0], c.want) {
					t.Errorf("%q, want %q", p.list, c.want)
				}
			})
		}
	}
}

// TestSent checks that a scripted model sees the same in every format.
func TestSent(t *testing.T) {
	t.Parallel()
	for _, api := range apis {
		var seen Sent
		s := NewScripted(t, api, 0, func(q Sent) Answer {
			seen = q
			return Answer{Blocks: []glovebox.Block{glovebox.Text("Ok")}}
		})
		k := &talk{t: t, api: api, server: s, name: "gemini-3-test", r: Request(), problems: &problems{TB: t}}
		k.r.Messages = append(k.r.Messages, glovebox.Message{Role: glovebox.RoleAssistant, Blocks: []glovebox.Block{
			glovebox.Text("I look."), {Type: glovebox.BlockToolUse, CallID: "c1", Name: "shell", Input: json.RawMessage(`{"command":"ls"}`)}}},
			glovebox.Message{Role: glovebox.RoleUser, Blocks: []glovebox.Block{{Type: glovebox.BlockToolResult, CallID: "c1", Content: []glovebox.Block{glovebox.Text("a.txt")}}, glovebox.Text("Hurry.")}})
		if k.ask() == nil {
			continue
		}
		m := seen.Messages
		if len(m) != 3 || seen.Model != "gemini-3-test" && api != Gemini || seen.MaxOutput != 4000 || seen.Tokens == 0 || !slices.Equal(seen.Tools, []string{"shell", "read_file"}) {
			t.Fatalf("%s: %+v", api, seen)
		}
		use := m[1].ToolUses()
		if Text(m[0]) != Text(k.r.Messages[0]) || len(use) != 1 || use[0].Name != "shell" || string(use[0].Input) != `{"command":"ls"}` || Text(seen.Last()) != "\na.txt\nHurry.\n" {
			t.Errorf("%s: %+v", api, m)
		}
	}
}
