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

// call is an answer with one call of the provider's computer tool.
func call(input string) llmtest.Answer {
	return llmtest.Answer{Blocks: []glovebox.Block{{Type: glovebox.BlockToolUse, CallID: "call_1", Name: "computer", Provider: llmtest.Native, Input: json.RawMessage(input)}}}
}

func config(s *llmtest.Server) wire.Config {
	return wire.Config{Info: llm.Info{Name: "m", MaxOutput: 100, Images: true, Computer: llm.OpenAIComputer}, APIKey: llmtest.Key, BaseURL: s.URL, HTTP: s.Client()}
}

// begin has a call answered and returns the request that follows it, in which
// each of the calls that it became has the result that result returns.
func begin(t *testing.T, input string, result func(i int) glovebox.Block) *llm.Request {
	t.Helper()
	s := llmtest.NewServer(t, llmtest.OpenAI, call(input))
	r := llmtest.ComputerRequest()
	resp, err := New(config(s)).Stream(t.Context(), r, nil)
	if err != nil {
		t.Fatal(err)
	}
	user := glovebox.Message{Role: glovebox.RoleUser}
	for i, u := range resp.Message.ToolUses() {
		b := result(i)
		b.Type, b.CallID = glovebox.BlockToolResult, u.CallID
		user.Blocks = append(user.Blocks, b)
	}
	r.Messages = append(r.Messages, resp.Message, user)
	return r
}

// sent returns the items of r behind its first message, as they are sent and taken.
func sent(t *testing.T, r *llm.Request) string {
	t.Helper()
	s := llmtest.NewServer(t, llmtest.OpenAI, llmtest.Answer{Blocks: []glovebox.Block{glovebox.Text("Ok")}})
	if _, err := New(config(s)).Stream(t.Context(), r, nil); err != nil {
		t.Fatal(err)
	}
	var q struct{ Input []json.RawMessage }
	if err := json.Unmarshal(s.Requests()[0], &q); err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, raw := range q.Input[1:] {
		list = append(list, string(raw))
	}
	return strings.Join(list, "\n")
}

func shot(data string) glovebox.Block {
	return glovebox.Block{Type: glovebox.BlockImage, MediaType: "image/png", Data: []byte(data)}
}

const twoActions = `{"actions":[{"type":"click","button":"left","x":1,"y":2},{"type":"type","text":"ab"}]}`

// TestBatch checks that a call of several actions goes back as the one call
// that it was, with the newest screenshot.
func TestBatch(t *testing.T) {
	t.Parallel()
	r := begin(t, twoActions, func(i int) glovebox.Block {
		if i == 1 {
			return glovebox.Block{Content: []glovebox.Block{glovebox.Text("Nothing changed.")}}
		}
		return glovebox.Block{Content: []glovebox.Block{glovebox.Text("It changed."), shot(string(rune('a' + i)))}}
	})
	want := `{"type":"computer_call","id":"item_0","call_id":"call_1","actions":[{"button":"left","type":"click","x":1,"y":2},{"text":"ab","type":"type"}],"pending_safety_checks":[],"status":"completed"}
{"type":"computer_call_output","call_id":"call_1","output":{"type":"computer_screenshot","image_url":"data:image/png;base64,Yw=="}}`
	if got := sent(t, r); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestBatchInPieces checks that a call whose result is more than a screenshot
// can say goes back as the calls of ours that it became.
func TestBatchInPieces(t *testing.T) {
	t.Parallel()
	for name, result := range map[string]func(i int) glovebox.Block{
		"a part failed": func(i int) glovebox.Block {
			return glovebox.Block{IsError: i == 1, Content: []glovebox.Block{glovebox.Text("result"), shot("x")}}
		},
		"no screenshot": func(int) glovebox.Block {
			return glovebox.Block{Content: []glovebox.Block{glovebox.Text("[an earlier image, left out]")}}
		},
	} {
		got := sent(t, begin(t, twoActions, result))
		if strings.Contains(got, "computer_call") || strings.Count(got, `"function_call"`) != 3 || strings.Count(got, `"function_call_output"`) != 3 || !strings.Contains(got, `"name":"gui"`) {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// TestSafetyChecks checks that a call with safety checks is neither made nor
// acknowledged, and that the user is told.
func TestSafetyChecks(t *testing.T) {
	t.Parallel()
	s := llmtest.NewServer(t, llmtest.OpenAI, call(`{"actions":[{"type":"click","x":1,"y":2}],"pending_safety_checks":[{"id":"sc_1","code":"malicious_instructions","message":"`+strings.Repeat("Look out. ", 500)+`"}]}`))
	r := llmtest.ComputerRequest()
	resp, err := New(config(s)).Stream(t.Context(), r, nil)
	if err != nil {
		t.Fatal(err)
	}
	blocks := resp.Message.Blocks
	if len(blocks) != 2 || !strings.Contains(blocks[0].Text, "malicious_instructions: Look out.") || len(blocks[0].Text) > 2*maxCheck {
		t.Fatalf("%+v", blocks)
	}
	if use := blocks[1]; use.Name != "gui" || use.Opaque != nil || !strings.Contains(string(use.Input), `"action":"stopped_by_safety_check"`) {
		t.Errorf("%+v", use)
	}
	r.Messages = append(r.Messages, resp.Message, glovebox.Message{Role: glovebox.RoleUser, Blocks: []glovebox.Block{
		{Type: glovebox.BlockToolResult, CallID: blocks[1].CallID, IsError: true, Content: []glovebox.Block{glovebox.Text("no such action"), shot("x")}}}})
	if got := sent(t, r); strings.Contains(got, "computer_call") || strings.Contains(got, "acknowledged") {
		t.Errorf("%s", got)
	}
}

// TestStrangeCalls checks that no call is too strange: each becomes calls of
// ours, which ours can refuse.
func TestStrangeCalls(t *testing.T) {
	t.Parallel()
	many := `{"actions":[` + strings.Repeat(`{"type":"wait"},`, 300) + `{"type":"wait"}]}`
	for _, input := range []string{`{}`, `{"actions":[]}`, `{"action":null}`, `{"actions":[7]}`, `{"actions":[null]}`, `{"actions":{"type":"wait"}}`, `{"actions":[{}]}`, many,
		`{"call_id":"","actions":[{"type":"wait"}]}`, `{"call_id":"` + strings.Repeat("x", 100) + `","actions":[{"type":"wait"},{"type":"wait"}]}`} {
		r := begin(t, input, func(int) glovebox.Block {
			return glovebox.Block{Content: []glovebox.Block{shot("x")}, IsError: true}
		})
		calls := r.Messages[1].ToolUses()
		ids := map[string]bool{}
		for _, c := range calls {
			if c.Name != "gui" || !json.Valid(c.Input) {
				t.Errorf("%s: %+v", input, c)
			}
			ids[c.CallID] = true
		}
		if len(calls) == 0 || len(calls) > maxParts+1 || len(ids) != len(calls) {
			t.Errorf("%.100s: %d calls, %d ids", input, len(calls), len(ids))
		}
		sent(t, r)
	}
}
