package chat

import (
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
	"github.com/glovebox-dev/glovebox/internal/llm/wire"
)

// The request. max_tokens is the name of the bound that all servers know.
type (
	request struct {
		Model     string    `json:"model"`
		Messages  []message `json:"messages"`
		Tools     []tool    `json:"tools,omitempty"`
		MaxTokens int64     `json:"max_tokens"`
		Stream    bool      `json:"stream"`
		Options   options   `json:"stream_options"`
	}
	options struct {
		IncludeUsage bool `json:"include_usage"`
	}
	tool struct {
		Type     string   `json:"type"`
		Function function `json:"function"`
	}
	function struct {
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		Parameters  json.RawMessage `json:"parameters"`
	}
	message struct {
		Role       string    `json:"role"`
		Content    any       `json:"content"` // a string, or parts where there are images
		ToolCalls  []callOut `json:"tool_calls,omitempty"`
		ToolCallID string    `json:"tool_call_id,omitempty"`
	}
	callOut struct {
		ID       string       `json:"id"`
		Type     string       `json:"type"`
		Function functionCall `json:"function"`
	}
	functionCall struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	}
	part struct {
		Type     string    `json:"type"`
		Text     string    `json:"text,omitempty"`
		ImageURL *imageURL `json:"image_url,omitempty"`
	}
	imageURL struct {
		URL string `json:"url"`
	}
)

func encode(cfg wire.Config, r *llm.Request) request {
	q := request{Model: cfg.Info.Name, Messages: []message{}, MaxTokens: cfg.MaxOutput(r), Stream: true, Options: options{IncludeUsage: true}}
	if wire.Visible(r.System) {
		q.Messages = append(q.Messages, message{Role: "system", Content: r.System})
	}
	for _, t := range r.Tools {
		q.Tools = append(q.Tools, tool{Type: "function", Function: function{Name: t.Name, Description: t.Description, Parameters: t.Schema}})
	}
	for _, m := range r.Messages {
		if m.Role == glovebox.RoleAssistant {
			q.Messages = append(q.Messages, assistant(m))
		} else {
			q.Messages = append(q.Messages, user(cfg, m)...)
		}
	}
	return q
}

func assistant(m glovebox.Message) message {
	out := message{Role: "assistant"}
	for _, b := range m.ToolUses() {
		// Servers parse the arguments of past calls and fail on what is no
		// object.
		out.ToolCalls = append(out.ToolCalls, callOut{ID: wire.ID(b.CallID), Type: "function",
			Function: functionCall{Name: wire.Name(b.Name), Arguments: string(wire.InputObject(b.Input))}})
	}
	text := m.PlainText()
	if !wire.Visible(text) && out.ToolCalls == nil {
		text = wire.NoContent
	}
	out.Content = text
	return out
}

// user returns the results of tools, and then what else there is: results are
// text here, so their images follow them.
func user(cfg wire.Config, m glovebox.Message) []message {
	var list []message
	var rest []part
	for _, b := range m.Blocks {
		if b.Type != glovebox.BlockToolResult {
			rest = append(rest, parts(cfg, b)...)
			continue
		}
		var texts []string
		if b.IsError {
			texts = []string{"error:"}
		}
		for _, c := range b.Content {
			for _, p := range parts(cfg, c) {
				if p.ImageURL != nil {
					rest = append(rest, p)
					p.Text = "(the image follows)"
				}
				texts = append(texts, p.Text)
			}
		}
		list = append(list, message{Role: "tool", ToolCallID: wire.ID(b.CallID), Content: strings.Join(texts, "\n")})
	}
	if rest == nil && list == nil {
		rest = []part{{Type: "text", Text: wire.NoContent}}
	}
	if rest != nil {
		list = append(list, message{Role: "user", Content: simple(rest)})
	}
	return list
}

// simple returns parts that are all text as a string: not every server takes
// a list.
func simple(list []part) any {
	var texts []string
	for _, p := range list {
		if p.ImageURL != nil {
			return list
		}
		texts = append(texts, p.Text)
	}
	return strings.Join(texts, "\n\n")
}

func parts(cfg wire.Config, b glovebox.Block) []part {
	switch {
	case b.Type == glovebox.BlockImage && cfg.Sendable(b):
		return []part{{Type: "image_url", ImageURL: &imageURL{"data:" + b.MediaType + ";base64," + base64.StdEncoding.EncodeToString(b.Data)}}}
	case b.Type == glovebox.BlockImage:
		return []part{{Type: "text", Text: wire.NoImage}}
	case b.Type == glovebox.BlockText && wire.Visible(b.Text):
		return []part{{Type: "text", Text: b.Text}}
	}
	return nil
}
