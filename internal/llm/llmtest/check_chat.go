package llmtest

import (
	"encoding/json"
	"errors"
	"fmt"
)

type (
	chatRequest struct {
		Model     string        `json:"model"`
		Messages  []chatMessage `json:"messages"`
		Tools     []chatTool    `json:"tools"`
		MaxTokens int64         `json:"max_tokens"`
		Stream    bool          `json:"stream"`
		Options   *struct {
			IncludeUsage bool `json:"include_usage"`
		} `json:"stream_options"`
	}
	chatTool struct {
		Type     string `json:"type"`
		Function struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Parameters  json.RawMessage `json:"parameters"`
		} `json:"function"`
	}
	chatMessage struct {
		Role       string          `json:"role"`
		Content    json.RawMessage `json:"content"`
		ToolCallID string          `json:"tool_call_id"`
		ToolCalls  []struct {
			ID       string `json:"id"`
			Type     string `json:"type"`
			Function struct {
				Name      string `json:"name"`
				Arguments string `json:"arguments"`
			} `json:"function"`
		} `json:"tool_calls"`
	}
	chatPart struct {
		Type     string `json:"type"`
		Text     string `json:"text"`
		ImageURL *struct {
			URL string `json:"url"`
		} `json:"image_url"`
	}
)

func checkChat(body []byte) error {
	var q chatRequest
	if err := strict(body, &q); err != nil {
		return err
	}
	if q.Model == "" || q.MaxTokens < 1 || !q.Stream || q.Options == nil || !q.Options.IncludeUsage {
		return errors.New("model, max_tokens, stream and include_usage are needed")
	}
	names := tools{}
	for _, t := range q.Tools {
		if err := names.add(t.Function.Name, t.Function.Parameters); err != nil || t.Type != "function" {
			return fmt.Errorf("type %q: %w", t.Type, err)
		}
	}
	l := newLedger()
	for i, m := range q.Messages {
		if err := checkChatMessage(l, m, i == 0); err != nil {
			return fmt.Errorf("messages[%d]: %w", i, err)
		}
	}
	if n := len(q.Messages); n == 0 || q.Messages[n-1].Role == "assistant" || q.Messages[n-1].Role == "system" {
		return errors.New("the conversation does not end with the user")
	}
	return l.settled("the end")
}

func checkChatMessage(l *ledger, m chatMessage, first bool) error {
	if m.Role == "tool" {
		return errors.Join(checkChatText(m.Content, true), l.answer(m.ToolCallID))
	}
	if err := l.settled("a message of " + m.Role); err != nil {
		return err
	}
	switch m.Role {
	case "system":
		if !first {
			return errors.New("the system message is not the first")
		}
		return checkChatText(m.Content, false)
	case "assistant":
		for _, c := range m.ToolCalls {
			if !isObject(json.RawMessage(c.Function.Arguments)) || c.Type != "function" {
				return fmt.Errorf("call %q: the arguments are no object", c.ID)
			}
			if err := l.call(c.ID, c.Function.Name); err != nil {
				return err
			}
		}
		return checkChatText(m.Content, len(m.ToolCalls) > 0)
	case "user":
		var parts []chatPart
		if json.Unmarshal(m.Content, &parts) != nil {
			return checkChatText(m.Content, false)
		}
		for _, p := range parts {
			if (p.Type == "text") != visible(p.Text) || (p.Type == "image_url") != (p.ImageURL != nil && dataURL.MatchString(p.ImageURL.URL)) {
				return fmt.Errorf("the part %q can't be read", p.Type)
			}
		}
		return nil
	}
	return fmt.Errorf("unknown role %q", m.Role)
}

func checkChatText(raw json.RawMessage, empty bool) error {
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return err
	}
	if !empty && !visible(s) {
		return errors.New("there is no content")
	}
	return nil
}
