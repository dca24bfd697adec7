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

// TestEncodeComputer fixes the bytes of what is declared, and of calls and
// results: those of the provider's tool go back as they came, others as ours.
func TestEncodeComputer(t *testing.T) {
	t.Parallel()
	use := func(id, input, opaque string) glovebox.Block {
		return glovebox.Block{Type: glovebox.BlockToolUse, CallID: id, Name: "gui", Input: json.RawMessage(input), Provider: Provider, Opaque: json.RawMessage(opaque)}
	}
	result := func(id string, isError bool, content ...glovebox.Block) glovebox.Block {
		return glovebox.Block{Type: glovebox.BlockToolResult, CallID: id, IsError: isError, Content: content}
	}
	shot := glovebox.Block{Type: glovebox.BlockImage, MediaType: "image/png", Data: []byte("x")}
	r := llmtest.ComputerRequest()
	r.System, r.MaxOutput, r.CacheMarks, r.Tools = "", 0, nil, r.Tools[2:]
	r.Messages = []glovebox.Message{
		{Role: glovebox.RoleUser, Blocks: []glovebox.Block{glovebox.Text("a")}},
		{Role: glovebox.RoleAssistant, Blocks: []glovebox.Block{
			use("c1", `{"action":"left_click","coordinate":[1,2]}`, `{"name":"left_click","toolset_name":"computer","input":{"coordinate":[1.4,2]}}`),
			use("c2", `{"action":"left_click","coordinate":[1,2]}`, `{"name":"computer","input":{"action":"left_click","coordinate":[1.4,2]}}`),
			use("c3", `{"action":"read"}`, ``)}},
		{Role: glovebox.RoleUser, Blocks: []glovebox.Block{
			result("c1", true, glovebox.Text("no"), shot), result("c2", false, shot), result("c3", true)}},
	}
	const (
		ours   = `{"name":"gui","description":"Does the rest.","input_schema":{"type":"object","properties":{"action":{"enum":["read"]}}},"cache_control":{"type":"ephemeral"}}`
		called = `"name":"gui","input":{"action":"left_click","coordinate":[1,2]}}`
		image  = `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"eA=="}}`
		plain  = `{"type":"tool_result","tool_use_id":"c3","is_error":true,"content":[{"type":"text","text":"(nothing)"}]}`
	)
	for kind, want := range map[string]string{
		llm.AnthropicToolset: `"tools":[{"type":"computer_toolset_20260801"},` + ours + `],"messages":[{"role":"user","content":[{"type":"text","text":"a"}]},` +
			`{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"left_click","input":{"coordinate":[1.4,2]},"toolset_name":"computer"},{"type":"tool_use","id":"c2",` + called +
			`,{"type":"tool_use","id":"c3","name":"gui","input":{"action":"read"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","toolset_name":"computer","content":[{"type":"text","text":"error:"},{"type":"text","text":"no"},` + image + `]},` +
			`{"type":"tool_result","tool_use_id":"c2","content":[` + image + `]},` + plain + `]}]`,
		llm.AnthropicComputer2: `"tools":[{"type":"computer_20251124","name":"computer","display_width_px":1280,"display_height_px":800,"enable_zoom":true},` + ours + `],"messages":[{"role":"user","content":[{"type":"text","text":"a"}]},` +
			`{"role":"assistant","content":[{"type":"tool_use","id":"c1",` + called + `,{"type":"tool_use","id":"c2","name":"computer","input":{"action":"left_click","coordinate":[1.4,2]}},` +
			`{"type":"tool_use","id":"c3","name":"gui","input":{"action":"read"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":[{"type":"text","text":"error:"},{"type":"text","text":"no"},` + image + `]},` +
			`{"type":"tool_result","tool_use_id":"c2","content":[` + image + `]},` + plain + `]}]`,
		llm.AnthropicComputer1: `"tools":[{"type":"computer_20250124","name":"computer","display_width_px":1280,"display_height_px":800},` + ours + `]`,
		"":                     `"tools":[{"name":"gui","description":"Works the screen.",`,
	} {
		m := New(wire.Config{Info: llm.Info{Name: "m", MaxOutput: 100, Images: true, Computer: kind}})
		got, err := m.Encode(r)
		if err != nil || !strings.Contains(string(got), want) {
			t.Errorf("%q: got\n%s\nwant\n%s\n%v", kind, got, want, err)
		}
		if err := llmtest.Check(llmtest.Anthropic, got); err != nil {
			t.Errorf("%q: %v", kind, err)
		}
	}
}
