package openai

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
	"github.com/glovebox-dev/glovebox/internal/llm/wire"
)

// The request. Raw JSON (schemas) keeps the order of its keys.
type (
	request struct {
		Model        string     `json:"model"`
		Instructions string     `json:"instructions,omitempty"`
		Tools        []any      `json:"tools,omitempty"`
		Input        []any      `json:"input"`
		Reasoning    *reasoning `json:"reasoning,omitempty"`
		Include      []string   `json:"include,omitempty"`
		MaxOutput    int64      `json:"max_output_tokens"`
		CacheKey     string     `json:"prompt_cache_key,omitempty"`
		Store        bool       `json:"store"`
		Stream       bool       `json:"stream"`
	}
	reasoning struct {
		Summary string `json:"summary"`
	}
	tool struct {
		Type        string          `json:"type"`
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		Parameters  json.RawMessage `json:"parameters"`
		Strict      bool            `json:"strict"`
	}
	message struct {
		Type    string `json:"type"`
		Role    string `json:"role"`
		Content []part `json:"content"`
		Phase   string `json:"phase,omitempty"`
	}
	part struct {
		Type     string `json:"type"`
		Text     string `json:"text,omitempty"`
		ImageURL string `json:"image_url,omitempty"`
		Detail   string `json:"detail,omitempty"`
	}
	functionCall struct {
		Type      string `json:"type"`
		CallID    string `json:"call_id"`
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	}
	functionOutput struct {
		Type   string `json:"type"`
		CallID string `json:"call_id"`
		Output any    `json:"output"` // a string, or parts where there are images
	}
	reasoningItem struct {
		Type      string    `json:"type"`
		ID        string    `json:"id"`
		Summary   []summary `json:"summary"`
		Encrypted string    `json:"encrypted_content"`
	}
	summary struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	textMeta struct {
		Phase string `json:"phase"`
	}
)

// maxCacheKey is the longest key that the API takes.
const maxCacheKey = 64

func encode(cfg wire.Config, r *llm.Request, summaries bool) request {
	q := request{Model: cfg.Info.Name, Instructions: r.System, Input: []any{}, MaxOutput: max(16, cfg.MaxOutput(r)), CacheKey: r.CacheKey, Stream: true}
	if len(q.CacheKey) > maxCacheKey {
		sum := sha256.Sum256([]byte(q.CacheKey))
		q.CacheKey = hex.EncodeToString(sum[:])
	}
	if cfg.Info.Reasoning {
		q.Include = []string{"reasoning.encrypted_content"}
		if summaries {
			q.Reasoning = &reasoning{Summary: "auto"}
		}
	}
	e := encoder{cfg: cfg, parts: map[string]computerPart{}}
	native := offered(cfg, r)
	if native != nil {
		e.shots = shotsOf(cfg, r.Messages)
	}
	for i := range r.Tools {
		t := &r.Tools[i]
		declared := tool{Type: "function", Name: t.Name, Description: t.Description, Parameters: t.Schema}
		if t == native {
			q.Tools = append(q.Tools, computerTool{Type: llm.OpenAIComputer})
			declared.Description, declared.Parameters = t.Computer.Description, t.Computer.Schema
		}
		q.Tools = append(q.Tools, declared)
	}
	for _, m := range r.Messages {
		if m.Role == glovebox.RoleAssistant {
			q.Input = append(q.Input, e.assistantItems(m)...)
		} else {
			q.Input = append(q.Input, e.userItems(m)...)
		}
	}
	return q
}

// encoder makes the items of one request.
type encoder struct {
	cfg   wire.Config
	shots shots
	parts map[string]computerPart // of calls of the provider's that went as such, by the ids of ours
}

// use returns a call: nothing for all parts but the first of the provider's.
func (e *encoder) use(b glovebox.Block) []any {
	if p, ok := partOf(b); ok {
		if _, ok := e.shots[p.Of]; ok {
			e.parts[b.CallID] = p
			if p.Call == nil {
				return nil
			}
			return []any{*p.Call}
		}
	}
	return []any{functionCall{Type: "function_call", CallID: wire.ID(b.CallID), Name: wire.Name(b.Name), Arguments: arguments(b.Input)}}
}

// result returns the result of a call: that of the provider's call for its
// first part, and nothing for the others.
func (e *encoder) result(b glovebox.Block) []any {
	if p, ok := e.parts[b.CallID]; ok {
		if p.Call == nil {
			return nil
		}
		return []any{e.shots.output(p.Of)}
	}
	return []any{functionOutput{Type: "function_call_output", CallID: wire.ID(b.CallID), Output: output(e.cfg, b)}}
}

// assistantItems returns what an answer consisted of. Reasoning is refused
// without the item that it led to, so that at the end is left out.
func (e *encoder) assistantItems(m glovebox.Message) []any {
	var items []any
	whole := 0 // items up to the last that is not reasoning
	for _, b := range m.Blocks {
		switch b.Type {
		case glovebox.BlockReasoning:
			if b.Provider == Provider && len(b.Opaque) > 0 {
				items = append(items, b.Opaque)
			}
			continue
		case glovebox.BlockToolUse:
			items = append(items, e.use(b)...)
		case glovebox.BlockText:
			if !wire.Visible(b.Text) {
				continue
			}
			var meta textMeta
			if b.Provider == Provider && json.Unmarshal(b.Opaque, &meta) != nil {
				meta = textMeta{}
			}
			items = append(items, message{Type: "message", Role: "assistant", Content: []part{{Type: "output_text", Text: b.Text}}, Phase: meta.Phase})
		default:
			continue
		}
		whole = len(items)
	}
	return items[:whole]
}

// arguments returns the input of a call as the model wrote it.
func arguments(input json.RawMessage) string {
	var raw string
	if json.Unmarshal(input, &raw) == nil { // what was no JSON is kept as a string
		return raw
	}
	if len(input) == 0 {
		return "{}"
	}
	return string(input)
}

func (e *encoder) userItems(m glovebox.Message) []any {
	var items []any
	var rest []part
	for _, b := range m.Blocks {
		if b.Type == glovebox.BlockToolResult {
			items = append(items, e.result(b)...)
			continue
		}
		rest = append(rest, parts(e.cfg, b)...)
	}
	if rest == nil && items == nil {
		rest = []part{{Type: "input_text", Text: wire.NoContent}}
	}
	if rest != nil {
		items = append(items, message{Type: "message", Role: "user", Content: rest})
	}
	return items
}

func output(cfg wire.Config, b glovebox.Block) any {
	var list []part
	if b.IsError {
		list = []part{{Type: "input_text", Text: "error:"}}
	}
	images := false
	for _, c := range b.Content {
		list = append(list, parts(cfg, c)...)
		images = images || (c.Type == glovebox.BlockImage && cfg.Sendable(c))
	}
	if images {
		return list
	}
	text := ""
	for i, p := range list {
		if i > 0 {
			text += "\n"
		}
		text += p.Text
	}
	return text
}

func parts(cfg wire.Config, b glovebox.Block) []part {
	switch {
	case b.Type == glovebox.BlockImage && cfg.Sendable(b):
		return []part{{Type: "input_image", ImageURL: "data:" + b.MediaType + ";base64," + base64.StdEncoding.EncodeToString(b.Data), Detail: "auto"}}
	case b.Type == glovebox.BlockImage:
		return []part{{Type: "input_text", Text: wire.NoImage}}
	case b.Type == glovebox.BlockText && wire.Visible(b.Text):
		return []part{{Type: "input_text", Text: b.Text}}
	}
	return nil
}
