package openai

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
	m := New(wire.Config{Info: llm.Info{Name: "m", MaxOutput: 100, Reasoning: true}})
	r := llmtest.Request()
	r.MaxOutput = 0
	r.Tools = r.Tools[1:]
	own := glovebox.Block{Type: glovebox.BlockReasoning, Provider: Provider, Opaque: json.RawMessage(`{"type":"reasoning","id":"r1","summary":[],"encrypted_content":"x<y"}`)}
	r.Messages = append(r.Messages, glovebox.Message{Role: glovebox.RoleAssistant, Blocks: []glovebox.Block{own,
		{Type: glovebox.BlockText, Text: "I go", Provider: Provider, Opaque: json.RawMessage(`{"phase":"commentary"}`)}, own}},
		glovebox.Message{Role: glovebox.RoleUser, Blocks: []glovebox.Block{glovebox.Text("on")}})
	got, err := m.Encode(r)
	if err != nil {
		t.Fatal(err)
	}
	// The reasoning at the end led to nothing, and would be refused.
	want := `{"model":"m","instructions":"You are careful: a < b && b > a.","tools":[{"type":"function","name":"read_file","description":"Reads.","parameters":{"type":"object","properties":{"path":{"type":"string"}}},"strict":false}],` +
		`"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"Build it. 建てて <now>"}]},` +
		`{"type":"reasoning","id":"r1","summary":[],"encrypted_content":"x<y"},` +
		`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"I go"}],"phase":"commentary"},` +
		`{"type":"message","role":"user","content":[{"type":"input_text","text":"on"}]}],` +
		`"reasoning":{"summary":"auto"},"include":["reasoning.encrypted_content"],"max_output_tokens":100,"prompt_cache_key":"job-1","store":false,"stream":true}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestNoSummary checks that an organisation that may not see summaries of
// reasoning can use the model nevertheless, and pays for the refusal once.
func TestNoSummary(t *testing.T) {
	t.Parallel()
	ok := llmtest.Answer{Blocks: []glovebox.Block{glovebox.Text("a")}}
	s := llmtest.NewServer(t, llmtest.OpenAI, llmtest.Answer{Fault: llmtest.Fault{Kind: llmtest.Refuse, Status: 400, Code: "unsupported_value",
		Message: "Your organization must be verified to generate reasoning summaries."}}, ok, ok)
	m := New(wire.Config{Info: llm.Info{Name: "m", MaxOutput: 100, Reasoning: true}, APIKey: llmtest.Key, BaseURL: s.URL, HTTP: s.Client()})
	for range 2 {
		if _, err := m.Stream(t.Context(), llmtest.Request(), nil); err != nil {
			t.Fatal(err)
		}
	}
	for i, body := range s.Requests() {
		if asked := strings.Contains(string(body), `"summary":"auto"`); asked != (i == 0) {
			t.Errorf("request %d: %s", i, body)
		}
	}
}
