package anthropic

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
	"github.com/glovebox-dev/glovebox/internal/llm/llmtest"
	"github.com/glovebox-dev/glovebox/internal/llm/wire"
)

// TestEncode fixes the bytes: a change of them is a miss of every cache.
func TestEncode(t *testing.T) {
	t.Parallel()
	m := New(wire.Config{Info: llm.Info{Name: "m", MaxOutput: 100}})
	r := llmtest.Request()
	r.MaxOutput = 0
	r.Tools = r.Tools[1:]
	got, err := m.Encode(r)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"model":"m","max_tokens":100,"tools":[{"name":"read_file","description":"Reads.","input_schema":{"type":"object","properties":{"path":{"type":"string"}}}}],` +
		`"system":[{"type":"text","text":"You are careful: a < b && b > a.","cache_control":{"type":"ephemeral"}}],` +
		`"messages":[{"role":"user","content":[{"type":"text","text":"Build it. 建てて <now>","cache_control":{"type":"ephemeral"}}]}],"stream":true}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestCacheBreakpoints(t *testing.T) {
	t.Parallel()
	m := New(wire.Config{Info: llm.Info{Name: "m", MaxOutput: 100}})
	reasoning := glovebox.Block{Type: glovebox.BlockReasoning, Provider: Provider, Opaque: json.RawMessage(`{"type":"thinking","thinking":"","signature":"x"}`)}
	text := func(role glovebox.Role, s string) glovebox.Message {
		return glovebox.Message{Role: role, Blocks: []glovebox.Block{glovebox.Text(s), reasoning}}
	}
	r := &llm.Request{Tools: llmtest.Request().Tools, CacheMarks: []llm.CacheMark{{}, {Message: 1}, {Message: 2}, {Message: 3}, {Message: 4}}}
	for _, s := range []string{"m0", "m1", "m2", "m3", "m4"} {
		role := glovebox.RoleUser
		if s == "m1" || s == "m3" {
			role = glovebox.RoleAssistant
		}
		r.Messages = append(r.Messages, text(role, s))
	}
	got, err := m.Encode(r)
	if err != nil {
		t.Fatal(err)
	}
	const mark = `,"cache_control":{"type":"ephemeral"}}`
	if n := strings.Count(string(got), mark); n != 4 {
		t.Errorf("%d breakpoints: %s", n, got)
	}
	for _, s := range []string{`"m2"`, `"m3"`, `"m4"`} { // the last three, and the tools
		if !strings.Contains(string(got), s+mark) {
			t.Errorf("no breakpoint behind %s: %s", s, got)
		}
	}
	if !strings.Contains(string(got), `}`+mark+`],"messages"`) {
		t.Errorf("no breakpoint behind the tools: %s", got)
	}
}

// TestCacheBreakpointInAMessage: a mark may be behind the first blocks of a
// message, as far as they are sent.
func TestCacheBreakpointInAMessage(t *testing.T) {
	t.Parallel()
	m := New(wire.Config{Info: llm.Info{Name: "m", MaxOutput: 100}})
	r := &llm.Request{System: "s", Messages: []glovebox.Message{{Role: glovebox.RoleUser, Blocks: []glovebox.Block{
		glovebox.Text("a"), glovebox.Text("b"), glovebox.Text(" \n"), glovebox.Text("c"), glovebox.Text("d"),
	}}}}
	for _, test := range []struct {
		marks []llm.CacheMark
		want  string
	}{
		{[]llm.CacheMark{{Blocks: 1}}, "a"},
		{[]llm.CacheMark{{Blocks: 3}}, "b"}, // the third can't be seen, and is not sent
		{[]llm.CacheMark{{Blocks: 1}, {Blocks: 4}, {}}, "a c d"},
		{[]llm.CacheMark{{Blocks: 99}}, "d"},
		{[]llm.CacheMark{{Blocks: -1}}, "d"},
		{nil, ""},
	} {
		r.CacheMarks = test.marks
		raw, err := m.Encode(r)
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			Messages []struct {
				Content []struct {
					Text         string
					CacheControl json.RawMessage `json:"cache_control"`
				}
			}
		}
		if err := json.Unmarshal(raw, &got); err != nil {
			t.Fatal(err)
		}
		var marked []string
		for _, c := range got.Messages[0].Content {
			if c.CacheControl != nil {
				marked = append(marked, c.Text)
			}
		}
		if s := strings.Join(marked, " "); s != test.want {
			t.Errorf("marks %+v: breakpoints behind %q, want %q", test.marks, s, test.want)
		}
	}
}

// TestRedacted checks that thinking that can't be read goes back as it came.
func TestRedacted(t *testing.T) {
	t.Parallel()
	redacted := glovebox.Block{Type: glovebox.BlockReasoning, Name: "redacted"}
	s := llmtest.NewServer(t, llmtest.Anthropic,
		llmtest.Answer{Blocks: []glovebox.Block{redacted, glovebox.Text("a")}},
		llmtest.Answer{Blocks: []glovebox.Block{glovebox.Text("b")}})
	m := New(wire.Config{Info: llm.Info{Name: "m", MaxOutput: 100}, APIKey: llmtest.Key, BaseURL: s.URL, HTTP: s.Client()})
	r := llmtest.Request()
	resp, err := m.Stream(t.Context(), r, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Messages = append(r.Messages, resp.Message, glovebox.Message{Role: glovebox.RoleUser, Blocks: []glovebox.Block{glovebox.Text("c")}})
	if _, err := m.Stream(t.Context(), r, nil); err != nil {
		t.Fatal(err)
	}
	if sent := string(s.Requests()[1]); !strings.Contains(sent, string(resp.Message.Blocks[0].Opaque)) {
		t.Errorf("%s is not in %s", resp.Message.Blocks[0].Opaque, sent)
	}
}

// TestThinkingOfAnotherPast checks that a conversation goes on whose earlier
// part was changed, although the provider does not take back what the model
// thought after it.
func TestThinkingOfAnotherPast(t *testing.T) {
	t.Parallel()
	no := llmtest.Answer{Fault: llmtest.Fault{Kind: llmtest.Refuse, Status: 400, Code: "invalid_request_error",
		Message: "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation. Remove the block."}}
	said := llmtest.Answer{Blocks: []glovebox.Block{{Type: glovebox.BlockReasoning, Text: "hm"}, glovebox.Text("a")}}
	s := llmtest.NewServer(t, llmtest.Anthropic, said, no, said, no)
	m := New(wire.Config{Info: llm.Info{Name: "m", MaxOutput: 100, Reasoning: true}, APIKey: llmtest.Key, BaseURL: s.URL, HTTP: s.Client()})
	r := llmtest.Request()
	for range 2 {
		resp, err := m.Stream(t.Context(), r, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Messages = append(r.Messages, resp.Message, glovebox.Message{Role: glovebox.RoleUser, Blocks: []glovebox.Block{glovebox.Text("on")}})
	}
	for i, body := range s.Requests() {
		if has := strings.Contains(string(body), `"signature"`); has != (i == 1) {
			t.Errorf("request %d: %s", i, body)
		}
	}
	// Where there is nothing to leave out, the refusal stands.
	if _, err := m.Stream(t.Context(), llmtest.Request(), nil); llmtest.KindOf(err) != llm.KindInvalid {
		t.Error(err)
	}
}
