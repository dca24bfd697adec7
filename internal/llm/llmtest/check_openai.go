package llmtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/glovebox-dev/glovebox/internal/llm"
)

type (
	openaiRequest struct {
		Model        string            `json:"model"`
		Instructions string            `json:"instructions"`
		Tools        []openaiTool      `json:"tools"`
		Input        []json.RawMessage `json:"input"`
		Reasoning    *struct {
			Summary string `json:"summary"`
		} `json:"reasoning"`
		Include   []string `json:"include"`
		MaxOutput int64    `json:"max_output_tokens"`
		CacheKey  string   `json:"prompt_cache_key"`
		Store     *bool    `json:"store"`
		Stream    bool     `json:"stream"`
	}
	openaiTool struct {
		Type        string          `json:"type"`
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
		Strict      bool            `json:"strict"`
	}
	openaiInput struct {
		Type      string            `json:"type"`
		ID        string            `json:"id"`
		Role      string            `json:"role"`
		Content   []openaiPart      `json:"content"`
		Phase     string            `json:"phase"`
		CallID    string            `json:"call_id"`
		Name      string            `json:"name"`
		Arguments *string           `json:"arguments"`
		Output    json.RawMessage   `json:"output"`
		Action    json.RawMessage   `json:"action"`
		Actions   []json.RawMessage `json:"actions"`
		Checks    []json.RawMessage `json:"pending_safety_checks"`
		Status    string            `json:"status"`
		Summary   []json.RawMessage `json:"summary"`
		Encrypted string            `json:"encrypted_content"`
	}
	openaiPart struct {
		Type     string `json:"type"`
		Text     string `json:"text"`
		ImageURL string `json:"image_url"`
		Detail   string `json:"detail"`
	}
)

func checkOpenAI(body []byte) error {
	var q openaiRequest
	if err := strict(body, &q); err != nil {
		return err
	}
	if q.Model == "" || q.MaxOutput < 16 || !q.Stream {
		return errors.New("model, max_output_tokens (at least 16) and stream are needed")
	}
	if q.Store == nil || *q.Store {
		return errors.New("store is not false")
	}
	if q.CacheKey == "" || len(q.CacheKey) > 64 {
		return fmt.Errorf("prompt_cache_key %q is not one of 1 to 64 bytes", q.CacheKey)
	}
	names := tools{}
	c := openaiCheck{ledger: newLedger(), computer: map[string]bool{}, encrypted: slices.Contains(q.Include, "reasoning.encrypted_content")}
	for _, t := range q.Tools {
		if t.Type == llm.OpenAIComputer && !c.declared && t.Name == "" && t.Description == "" && t.Parameters == nil {
			c.declared = true
			continue
		}
		if err := names.add(t.Name, t.Parameters); err != nil || t.Type != "function" {
			return fmt.Errorf("type %q: %w", t.Type, err)
		}
	}
	for i, raw := range q.Input {
		if err := c.item(raw); err != nil {
			return fmt.Errorf("input[%d]: %w", i, err)
		}
	}
	if len(q.Input) == 0 || c.reasoning || c.last == "assistant" || c.last == "function_call" || c.last == "computer_call" {
		return errors.New("the conversation does not end with the user")
	}
	return c.settled("the end")
}

// openaiCheck is a check under way.
type openaiCheck struct {
	*ledger
	encrypted bool   // may reasoning come back
	answering bool   // the item before was a result
	reasoning bool   // the item before was reasoning
	last      string // the type or role of the item before

	declared bool            // is the provider's computer tool
	computer map[string]bool // ids of calls of it
}

func (c *openaiCheck) item(raw json.RawMessage) error {
	var it openaiInput
	if err := strict(raw, &it); err != nil {
		return err
	}
	if c.reasoning && it.Type != "function_call" && it.Type != "computer_call" && it.Role != "assistant" && it.Type != "reasoning" {
		return errors.New("an item of type 'reasoning' was provided without its required following item")
	}
	output := strings.HasSuffix(it.Type, "_output")
	if c.answering && !output {
		if err := c.settled("an item of type " + it.Type); err != nil {
			return err
		}
	}
	c.reasoning, c.last, c.answering = it.Type == "reasoning", it.Type, output
	switch it.Type {
	case "reasoning":
		return c.reasoned(it)
	case "function_call":
		if it.Arguments == nil {
			return errors.New("arguments are missing")
		}
		return c.call(it.CallID, it.Name)
	case "function_call_output":
		if c.computer[it.CallID] {
			return fmt.Errorf("the result %q is not that of a computer_call", it.CallID)
		}
		return errors.Join(checkOutput(it.Output), c.answer(it.CallID))
	case "computer_call":
		return c.computerCall(it)
	case "computer_call_output":
		return c.computerOutput(it)
	case "message":
		c.last = it.Role
		if err := c.settled("a message"); err != nil {
			return err
		}
		return checkParts(it.Role, it.Content)
	}
	return fmt.Errorf("unknown type %q", it.Type)
}

// computerCall checks a call of the provider's computer tool, which has to
// come back as it was.
func (c *openaiCheck) computerCall(it openaiInput) error {
	switch {
	case !c.declared:
		return errors.New("a computer_call, and no computer tool is declared")
	case it.ID == "" || it.Status != "completed" || it.Checks == nil || (len(it.Actions) == 0) == (it.Action == nil):
		return fmt.Errorf("the computer_call %q lacks its id, status, checks or actions", it.CallID)
	case len(it.Checks) > 0:
		return fmt.Errorf("computer_call %q: its safety checks are not acknowledged", it.CallID)
	}
	body := obj{}
	if it.Action != nil {
		body["action"] = it.Action
	} else {
		body["actions"] = it.Actions
	}
	if strings.HasPrefix(it.CallID, nativeMark) && it.CallID != nativeID(llm.OpenAIComputer, json.RawMessage(encode(body))) {
		return fmt.Errorf("computer_call %q is not as it came: %s", it.CallID, encode(body))
	}
	c.computer[it.CallID] = true
	return c.call(it.CallID, llm.OpenAIComputer)
}

// computerOutput checks the result of such a call: a screenshot.
func (c *openaiCheck) computerOutput(it openaiInput) error {
	var shot struct {
		Type     string `json:"type"`
		ImageURL string `json:"image_url"`
	}
	if err := strict(it.Output, &shot); err != nil {
		return err
	}
	if shot.Type != "computer_screenshot" || !dataURL.MatchString(shot.ImageURL) || !c.computer[it.CallID] {
		return fmt.Errorf("the result %q is no screenshot for a computer_call", it.CallID)
	}
	return c.answer(it.CallID)
}

func (c *openaiCheck) reasoned(it openaiInput) error {
	if !c.encrypted || it.ID == "" || it.Summary == nil {
		return errors.New("reasoning comes back without include, id or summary")
	}
	text := ""
	for _, raw := range it.Summary {
		var s struct{ Type, Text string }
		if err := strict(raw, &s); err != nil || s.Type != "summary_text" {
			return fmt.Errorf("a summary of type %q: %w", s.Type, err)
		}
		text += s.Text
	}
	if it.Encrypted != sign(OpenAI, text) {
		return errors.New("the encrypted content could not be verified")
	}
	return nil
}

// checkOutput checks the result of a call: a string, or parts.
func checkOutput(raw json.RawMessage) error {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return nil
	}
	var parts []openaiPart
	if err := strict(raw, &parts); err != nil {
		return err
	}
	return checkParts("user", parts)
}

func checkParts(role string, parts []openaiPart) error {
	if len(parts) == 0 {
		return errors.New("there is no content")
	}
	for _, p := range parts {
		switch {
		case p.Type == "input_text" && role == "user", p.Type == "output_text" && role == "assistant":
			if !visible(p.Text) {
				return errors.New("there is text that can't be seen")
			}
		case p.Type == "input_image" && role == "user":
			if !dataURL.MatchString(p.ImageURL) {
				return errors.New("the image can't be read")
			}
		default:
			return fmt.Errorf("content %q is not possible for %q", p.Type, role)
		}
	}
	return nil
}
