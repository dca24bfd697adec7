package openai

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/openai/openai-go/v3/responses"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
	"github.com/glovebox-dev/glovebox/internal/llm/computer"
	"github.com/glovebox-dev/glovebox/internal/llm/wire"
)

// The provider's tool differs from ours in three ways. One call of it is
// several actions, so it becomes several calls of ours, its parts. Its result
// is a screenshot and nothing else, so the parts end with one, and a call of
// which a part failed, or was not done, goes back as the calls of ours that
// it became, whose results say so. And it may come with safety checks, which
// only a person could acknowledge: none is, and the call is not made.

// Bounds of what is taken over from a call.
const (
	maxParts = 200  // calls of ours
	maxCheck = 1000 // bytes of a safety check that are shown
)

type (
	computerTool struct {
		Type string `json:"type"`
	}
	// computerCall is a call as it goes back. Raw JSON is as it came.
	computerCall struct {
		Type    string            `json:"type"`
		ID      string            `json:"id"`
		CallID  string            `json:"call_id"`
		Action  json.RawMessage   `json:"action,omitempty"`
		Actions []json.RawMessage `json:"actions,omitempty"`
		Checks  []safetyCheck     `json:"pending_safety_checks"`
		Status  string            `json:"status"`
	}
	safetyCheck struct {
		ID      string `json:"id"`
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	computerOutput struct {
		Type   string     `json:"type"`
		CallID string     `json:"call_id"`
		Output screenshot `json:"output"`
	}
	screenshot struct {
		Type     string `json:"type"`
		ImageURL string `json:"image_url"`
	}
	// computerPart is what the block of a part keeps.
	computerPart struct {
		Of   string        `json:"part_of"`        // id of the provider's call
		Call *computerCall `json:"call,omitempty"` // of the first part
	}
)

// offered returns our tool for which the model is offered the provider's, nil
// if it has none or takes no images.
func offered(cfg wire.Config, r *llm.Request) *llm.ToolSpec {
	if cfg.Info.Computer != llm.OpenAIComputer || !cfg.Info.Images {
		return nil
	}
	if slices.ContainsFunc(r.Tools, func(t llm.ToolSpec) bool { return t.Name == computer.Toolset }) {
		return nil
	}
	return r.ComputerTool()
}

// computerBlocks returns the calls of ours that a call of the provider's tool
// becomes.
func computerBlocks(ours *llm.ToolSpec, item responses.ResponseOutputItemUnion) []glovebox.Block {
	var call computerCall
	if err := json.Unmarshal([]byte(item.RawJSON()), &call); err != nil {
		return []glovebox.Block{{Type: glovebox.BlockToolUse, CallID: item.CallID, Name: ours.Name, Input: computer.Unreadable("unreadable", json.RawMessage(item.RawJSON()))}}
	}
	if len(call.Checks) > 0 {
		return stopped(ours, &call)
	}
	call.Type, call.Checks, call.Status = "computer_call", []safetyCheck{}, "completed"
	inputs := partsOf(&call)
	base := call.CallID[:min(len(call.CallID), 56)] // with what follows, within the bound of ids
	var list []glovebox.Block
	for i, in := range inputs {
		b := glovebox.Block{Type: glovebox.BlockToolUse, CallID: call.CallID, Name: ours.Name, Input: in}
		meta := computerPart{Of: call.CallID, Call: &call}
		if i > 0 {
			b.CallID, meta.Call = fmt.Sprintf("%s_%d", base, i+1), nil
		}
		list = append(list, opaque(b, meta))
	}
	return list
}

// partsOf returns the inputs of the parts of a call. What can't be translated
// is refused by our tool, and so is all that would follow.
func partsOf(call *computerCall) []json.RawMessage {
	actions := call.Actions
	if len(actions) == 0 && len(call.Action) > 0 && !bytes.Equal(call.Action, []byte("null")) {
		actions = []json.RawMessage{call.Action}
	}
	var inputs []json.RawMessage
	last := ""
	for _, a := range actions {
		list, err := computer.OpenAI(a)
		if err != nil || len(inputs)+len(list) > maxParts {
			var named struct{ Type string }
			_ = json.Unmarshal(a, &named) // the name is for the message alone
			inputs = append(inputs, computer.Unreadable(named.Type, a))
			return inputs
		}
		for _, in := range list {
			raw, err := wire.Marshal(in)
			if err != nil { // strings and numbers can always be encoded
				raw = computer.Unreadable(in.Action, a)
			}
			inputs, last = append(inputs, raw), in.Action
		}
	}
	if last != "screenshot" {
		inputs = append(inputs, json.RawMessage(`{"action":"screenshot"}`))
	}
	return inputs
}

// stopped returns what a call with safety checks becomes: words for the user,
// and a call that our tool refuses.
func stopped(ours *llm.ToolSpec, call *computerCall) []glovebox.Block {
	var said []string
	for _, c := range call.Checks {
		said = append(said, strings.TrimSpace(c.Code+": "+c.Message))
	}
	why := strings.ToValidUTF8(strings.Join(said, "; "), "")
	if len(why) > maxCheck {
		why = strings.ToValidUTF8(why[:maxCheck], "") + "..."
	}
	raw, err := wire.Marshal(map[string]string{"action": "stopped_by_safety_check", "input": why})
	if err != nil { // strings can always be encoded
		raw = computer.Unreadable("stopped_by_safety_check", nil)
	}
	return []glovebox.Block{
		glovebox.Text("[The provider's safety check stopped an action on the screen. It was not done. " + why + "]"),
		{Type: glovebox.BlockToolUse, CallID: call.CallID, Name: ours.Name, Input: raw},
	}
}

// shots are the calls of the provider's tool that go back as such, by their
// ids, with the screenshots that are their results.
type shots map[string]glovebox.Block

// shotsOf returns the calls of which all parts went well, and a screenshot is there.
func shotsOf(cfg wire.Config, messages []glovebox.Message) shots {
	results := map[string]glovebox.Block{}
	for _, m := range messages {
		for _, b := range m.Blocks {
			if b.Type == glovebox.BlockToolResult {
				results[b.CallID] = b
			}
		}
	}
	found, spoiled := shots{}, map[string]bool{}
	for _, m := range messages {
		for _, b := range m.ToolUses() {
			meta, ok := partOf(b)
			if !ok {
				continue
			}
			_, again := found[meta.Of]
			r, answered := results[b.CallID]
			if !answered || r.IsError || again && meta.Call != nil || !again && meta.Call == nil {
				spoiled[meta.Of] = true
			}
			shot := found[meta.Of]
			for _, c := range r.Content {
				if c.Type == glovebox.BlockImage && cfg.Sendable(c) {
					shot = c
				}
			}
			found[meta.Of] = shot
		}
	}
	for id, shot := range found {
		if spoiled[id] || shot.Type == "" {
			delete(found, id)
		}
	}
	return found
}

// partOf returns what the block of a part keeps.
func partOf(b glovebox.Block) (computerPart, bool) {
	var p computerPart
	if b.Type != glovebox.BlockToolUse || b.Provider != Provider || json.Unmarshal(b.Opaque, &p) != nil || p.Of == "" {
		return computerPart{}, false
	}
	return p, true
}

// output returns the result of a call of the provider's tool.
func (s shots) output(id string) computerOutput {
	b := s[id]
	return computerOutput{Type: "computer_call_output", CallID: id, Output: screenshot{Type: "computer_screenshot",
		ImageURL: "data:" + b.MediaType + ";base64," + base64.StdEncoding.EncodeToString(b.Data)}}
}
