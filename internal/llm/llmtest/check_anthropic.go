package llmtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/glovebox-dev/glovebox/internal/llm"
	"github.com/glovebox-dev/glovebox/internal/llm/computer"
)

type (
	anthropicRequest struct {
		Model     string             `json:"model"`
		MaxTokens int64              `json:"max_tokens"`
		Thinking  *anthropicThinking `json:"thinking"`
		Tools     []anthropicTool    `json:"tools"`
		System    []anthropicContent `json:"system"`
		Messages  []anthropicMessage `json:"messages"`
		Stream    bool               `json:"stream"`
	}
	anthropicThinking struct {
		Type    string `json:"type"`
		Display string `json:"display"`
	}
	anthropicTool struct {
		Type         string          `json:"type"`
		Name         string          `json:"name"`
		Width        int             `json:"display_width_px"`
		Height       int             `json:"display_height_px"`
		Zoom         bool            `json:"enable_zoom"`
		Description  string          `json:"description"`
		InputSchema  json.RawMessage `json:"input_schema"`
		CacheControl *obj            `json:"cache_control"`
	}
	anthropicMessage struct {
		Role    string             `json:"role"`
		Content []anthropicContent `json:"content"`
	}
	anthropicContent struct {
		Type      string             `json:"type"`
		Text      string             `json:"text"`
		Thinking  *string            `json:"thinking"`
		Signature string             `json:"signature"`
		Data      string             `json:"data"`
		Source    *anthropicSource   `json:"source"`
		ID        string             `json:"id"`
		Name      string             `json:"name"`
		Input     json.RawMessage    `json:"input"`
		ToolUseID string             `json:"tool_use_id"`
		Toolset   *string            `json:"toolset_name"`
		IsError   bool               `json:"is_error"`
		Content   []anthropicContent `json:"content"`
		Cache     *obj               `json:"cache_control"`
	}
	anthropicSource struct {
		Type      string `json:"type"`
		MediaType string `json:"media_type"`
		Data      []byte `json:"data"`
	}
)

// anthropicCheck is a check under way.
type anthropicCheck struct {
	*ledger
	marks    int
	computer string          // the type of the computer tool that is declared
	members  map[string]bool // ids of calls of the toolset
}

func checkAnthropic(body []byte) error {
	var q anthropicRequest
	if err := strict(body, &q); err != nil {
		return err
	}
	if q.Model == "" || q.MaxTokens < 1 || !q.Stream {
		return errors.New("model, max_tokens and stream are needed")
	}
	if q.Thinking != nil && q.Thinking.Type != "adaptive" {
		return fmt.Errorf("thinking.type %q is not supported", q.Thinking.Type)
	}
	if err := inOrder(body, "tools", "system", "messages"); err != nil {
		return err
	}
	c := anthropicCheck{ledger: newLedger(), members: map[string]bool{}}
	names := tools{}
	for _, t := range q.Tools {
		if err := c.tool(names, t); err != nil {
			return err
		}
	}
	for _, s := range q.System {
		if err := c.block("system", s); err != nil {
			return err
		}
	}
	for i, m := range q.Messages {
		if err := c.message(m, i == 0); err != nil {
			return fmt.Errorf("messages.%d: %w", i, err)
		}
	}
	if c.marks > 4 {
		return fmt.Errorf("%d cache breakpoints, and 4 are the most", c.marks)
	}
	if len(q.Messages) == 0 || q.Messages[len(q.Messages)-1].Role != "user" {
		return errors.New("the conversation does not end with the user")
	}
	return c.settled("the end")
}

func (c *anthropicCheck) tool(names tools, t anthropicTool) error {
	c.mark(t.CacheControl)
	if t.Type == "" {
		if t.Width != 0 || t.Height != 0 || t.Zoom {
			return fmt.Errorf("tool %q has a display", t.Name)
		}
		return names.add(t.Name, t.InputSchema)
	}
	toolset := t.Type == llm.AnthropicToolset
	switch {
	case !slices.Contains(llm.ComputerTools["anthropic"], t.Type):
		return fmt.Errorf("input tag %q does not match any of the expected tags", t.Type)
	case names[computer.Toolset]:
		return errors.New(`tool "computer" is declared twice`)
	case t.InputSchema != nil || t.Description != "" || (t.Zoom && t.Type != llm.AnthropicComputer2):
		return fmt.Errorf("%s: extra inputs are not permitted", t.Type)
	case toolset && (t.Name != "" || t.Width != 0 || t.Height != 0):
		return fmt.Errorf("%s: a toolset has no name and no display", t.Type)
	case !toolset && (t.Name != computer.Toolset || t.Width < 1 || t.Height < 1):
		return fmt.Errorf("%s: its name and the size of the display are needed", t.Type)
	}
	c.computer, names[computer.Toolset] = t.Type, true
	return nil
}

// use checks a call. One of the provider's own tool has to come back as it was.
func (c *anthropicCheck) use(b anthropicContent) error {
	if !isObject(b.Input) {
		return fmt.Errorf("call %q: input: input should be a valid dictionary", b.ID)
	}
	native := b.Name == computer.Toolset
	if b.Toolset != nil {
		if *b.Toolset != computer.Toolset || c.computer != llm.AnthropicToolset {
			return fmt.Errorf("call %q: the toolset %q is not declared", b.ID, *b.Toolset)
		}
		native, c.members[b.ID] = true, true
	}
	if native && c.computer == "" {
		return fmt.Errorf("call %q of a computer tool that is not declared", b.ID)
	}
	if native && strings.HasPrefix(b.ID, nativeMark) && b.ID != nativeID(b.Name, b.Input) {
		return fmt.Errorf("call %q is not as it came: %s", b.ID, b.Input)
	}
	return c.call(b.ID, b.Name)
}

// result checks the result of a call.
func (c *anthropicCheck) result(b anthropicContent) error {
	for _, inner := range b.Content {
		if err := c.block("tool_result", inner); err != nil {
			return err
		}
		if b.IsError && inner.Type != "text" {
			return errors.New("all content must be type `text` if `is_error` is true")
		}
	}
	if b.IsError && len(b.Content) == 0 {
		return errors.New("content cannot be empty if is_error is true")
	}
	if member := b.Toolset != nil && *b.Toolset == computer.Toolset; member != c.members[b.ToolUseID] || !member && b.Toolset != nil {
		return fmt.Errorf("the result %q: toolset_name is not that of the call", b.ToolUseID)
	}
	return c.answer(b.ToolUseID)
}

func (c *anthropicCheck) mark(v *obj) {
	if v != nil {
		c.marks++
	}
}

func (c *anthropicCheck) message(m anthropicMessage, first bool) error {
	if m.Role != "user" && (m.Role != "assistant" || first) {
		return fmt.Errorf("the role %q is not possible here", m.Role)
	}
	if len(m.Content) == 0 {
		return errors.New("there is no content")
	}
	if m.Role == "assistant" {
		if err := c.settled("the next answer"); err != nil {
			return err
		}
	}
	other := false
	for _, b := range m.Content {
		if b.Type == "tool_result" && other {
			return errors.New("a tool_result does not come first")
		}
		if b.Type != "tool_result" && m.Role == "user" {
			other = true
			if err := c.settled("other content"); err != nil {
				return err
			}
		}
		if err := c.block(m.Role, b); err != nil {
			return err
		}
	}
	if m.Role == "user" {
		return c.settled("the end of the message")
	}
	return nil
}

// allowed are the blocks of each role.
var allowed = map[string][]string{
	"system":      {"text"},
	"user":        {"text", "image", "tool_result"},
	"assistant":   {"text", "tool_use", "thinking", "redacted_thinking"},
	"tool_result": {"text", "image"},
}

func (c *anthropicCheck) block(role string, b anthropicContent) error {
	if !slices.Contains(allowed[role], b.Type) {
		return fmt.Errorf("a block %q is not possible in %s", b.Type, role)
	}
	c.mark(b.Cache)
	switch b.Type {
	case "text":
		if !visible(b.Text) {
			return errors.New("text content blocks must contain non-whitespace text")
		}
	case "image":
		if b.Source == nil || b.Source.Type != "base64" || len(b.Source.Data) == 0 || !dataURL.MatchString("data:"+b.Source.MediaType+";base64,AA") {
			return errors.New("the image has no source that can be read")
		}
	case "tool_use":
		return c.use(b)
	case "tool_result":
		return c.result(b)
	case "thinking":
		if b.Thinking == nil || b.Signature != sign(Anthropic, *b.Thinking) || b.Cache != nil {
			return errors.New("invalid signature in thinking block")
		}
	case "redacted_thinking":
		if b.Data != sign(Anthropic, "redacted") || b.Cache != nil {
			return errors.New("invalid data in redacted_thinking block")
		}
	}
	return nil
}

// checkBeta checks that a request has the header which the computer tool that
// it declares needs, and no other.
func checkBeta(h http.Header, body []byte) error {
	var q struct{ Tools []struct{ Type string } }
	if err := json.Unmarshal(body, &q); err != nil {
		return err
	}
	want := ""
	for _, t := range q.Tools {
		switch t.Type {
		case llm.AnthropicComputer2:
			want = "computer-use-2025-11-24"
		case llm.AnthropicComputer1:
			want = "computer-use-2025-01-24"
		}
	}
	if got := h.Get("Anthropic-Beta"); got != want {
		return fmt.Errorf("the header anthropic-beta is %q, and has to be %q", got, want)
	}
	return nil
}
