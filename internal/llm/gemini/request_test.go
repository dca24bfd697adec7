package gemini

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
	"github.com/glovebox-dev/glovebox/internal/llm/llmtest"
	"github.com/glovebox-dev/glovebox/internal/llm/wire"
)

// TestSignatures checks what stands in for the signature of another model's
// call, and for which models.
func TestSignatures(t *testing.T) {
	t.Parallel()
	r := llmtest.Request()
	r.Messages = append(r.Messages,
		glovebox.Message{Role: glovebox.RoleAssistant, Blocks: []glovebox.Block{
			{Type: glovebox.BlockToolUse, CallID: "a", Name: "shell", Input: json.RawMessage(`{"b":1,"a":"<"}`), Provider: "openai", Opaque: json.RawMessage(`{"signature":"eA=="}`)},
			{Type: glovebox.BlockToolUse, CallID: "b", Name: "read_file", Input: json.RawMessage(`{}`)},
		}},
		glovebox.Message{Role: glovebox.RoleUser, Blocks: []glovebox.Block{
			{Type: glovebox.BlockToolResult, CallID: "a", Content: []glovebox.Block{glovebox.Text("x")}},
			{Type: glovebox.BlockToolResult, CallID: "b", IsError: true, Content: []glovebox.Block{glovebox.Text("y")}},
		}})
	for name, want := range map[string]string{
		"gemini-2.5-pro": `{"role":"model","parts":[{"functionCall":{"name":"shell","args":{"b":1,"a":"<"}}},{"functionCall":{"name":"read_file","args":{}}}]},` +
			`{"role":"user","parts":[{"functionResponse":{"name":"shell","response":{"output":"x"}}},{"functionResponse":{"name":"read_file","response":{"error":"y"}}}]}`,
		"gemini-4-argon": `{"functionCall":{"name":"shell","args":{"b":1,"a":"<"}},"thoughtSignature":"c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="},{"functionCall":{"name":"read_file","args":{}}}]`,
	} {
		got, err := New(wire.Config{Info: llm.Info{Name: name, MaxOutput: 10}}).Encode(r)
		if err != nil || !strings.Contains(string(got), want) {
			t.Errorf("%s: %s %v, want %s", name, got, err, want)
		}
		if err := llmtest.Check(llmtest.Gemini, got); (err != nil) != strings.HasPrefix(name, "gemini-2") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
