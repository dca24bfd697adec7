package anthropic

import (
	"encoding/json"
	"errors"
	"slices"

	sdk "github.com/anthropics/anthropic-sdk-go"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
	"github.com/glovebox-dev/glovebox/internal/llm/wire"
)

// The request, with fields in the order in which the provider's cache reads
// them. Raw JSON (schemas, inputs) keeps the order of its keys.
type (
	request struct {
		Model     string        `json:"model"`
		MaxTokens int64         `json:"max_tokens"`
		Thinking  *thinkingMode `json:"thinking,omitempty"`
		Tools     []tool        `json:"tools,omitempty"`
		System    []content     `json:"system,omitempty"`
		Messages  []message     `json:"messages"`
		Stream    bool          `json:"stream"`
	}
	thinkingMode struct {
		Type    string `json:"type"`
		Display string `json:"display"`
	}
	tool struct {
		Type         string          `json:"type,omitempty"` // of the provider's own
		Name         string          `json:"name,omitempty"`
		Description  string          `json:"description,omitempty"`
		Schema       json.RawMessage `json:"input_schema,omitempty"`
		Width        int             `json:"display_width_px,omitempty"`
		Height       int             `json:"display_height_px,omitempty"`
		Zoom         bool            `json:"enable_zoom,omitempty"`
		CacheControl *cacheControl   `json:"cache_control,omitempty"`
	}
	message struct {
		Role    string    `json:"role"`
		Content []content `json:"content"`
	}
	// content is a block. Raw, if set, is the whole of it.
	content struct {
		Type         string          `json:"type"`
		Text         string          `json:"text,omitempty"`
		Source       *source         `json:"source,omitempty"`
		ID           string          `json:"id,omitempty"`
		Name         string          `json:"name,omitempty"`
		Input        json.RawMessage `json:"input,omitempty"`
		ToolUseID    string          `json:"tool_use_id,omitempty"`
		Toolset      string          `json:"toolset_name,omitempty"` // of a call of the provider's own, and of its result
		IsError      bool            `json:"is_error,omitempty"`
		Content      []content       `json:"content,omitempty"`
		CacheControl *cacheControl   `json:"cache_control,omitempty"`
		Raw          json.RawMessage `json:"-"`
		of           int             // index of the message's block that it was made of
	}
	source struct {
		Type      string `json:"type"`
		MediaType string `json:"media_type"`
		Data      []byte `json:"data"`
	}
	cacheControl struct {
		Type string `json:"type"`
	}
	thinking struct {
		Type      string `json:"type"`
		Thinking  string `json:"thinking"`
		Signature string `json:"signature"`
	}
	redacted struct {
		Type string `json:"type"`
		Data string `json:"data"`
	}
)

// MarshalJSON writes a block.
func (c content) MarshalJSON() ([]byte, error) {
	if c.Raw != nil {
		return c.Raw, nil
	}
	type plain content
	return wire.Marshal(plain(c))
}

// maxMarks is how many marks beside the one behind the system text fit: the
// provider takes four.
const maxMarks = 3

var ephemeral = &cacheControl{Type: "ephemeral"}

func encode(cfg wire.Config, r *llm.Request) request {
	q := request{Model: cfg.Info.Name, MaxTokens: cfg.MaxOutput(r), Messages: []message{}, Stream: true}
	if cfg.Info.Reasoning {
		q.Thinking = &thinkingMode{Type: "adaptive", Display: "summarized"}
	}
	e := encoder{cfg: cfg, offer: offered(cfg, r), toolsets: map[string]string{}}
	for i := range r.Tools {
		q.Tools = append(q.Tools, e.declare(&r.Tools[i])...)
	}
	if wire.Visible(r.System) {
		q.System = []content{{Type: "text", Text: r.System, CacheControl: ephemeral}}
	} else if len(q.Tools) > 0 {
		q.Tools[len(q.Tools)-1].CacheControl = ephemeral
	}
	for _, m := range r.Messages {
		q.Messages = append(q.Messages, e.message(m))
	}
	marks := r.CacheMarks
	if len(marks) > maxMarks { // the last ones matter most
		marks = marks[len(marks)-maxMarks:]
	}
	for _, at := range marks {
		if i := at.Message; i >= 0 && i < len(q.Messages) {
			mark(q.Messages[i].Content, at.Blocks)
		}
	}
	return q
}

// mark puts a cache breakpoint behind the last block that can bear one, of
// those that were made of the first so many of a message; 0 for all.
func mark(list []content, first int) {
	for i := range slices.Backward(list) {
		if list[i].Raw == nil && (first <= 0 || list[i].of < first) {
			list[i].CacheControl = ephemeral
			return
		}
	}
}

// encoder makes the messages of one request.
type encoder struct {
	offer
	cfg      wire.Config
	toolsets map[string]string // of calls so far, by their ids as they are sent
}

func (e *encoder) message(m glovebox.Message) message {
	out := message{Role: string(m.Role)}
	var after []content // the results of tools come first
	for i, b := range m.Blocks {
		var c content
		switch b.Type {
		case glovebox.BlockToolResult:
			c = e.result(b)
			c.of = i
			out.Content = append(out.Content, c)
			continue
		case glovebox.BlockToolUse:
			c = e.use(b)
		case glovebox.BlockReasoning:
			if b.Provider != Provider || len(b.Opaque) == 0 || m.Role != glovebox.RoleAssistant {
				continue
			}
			c = content{Raw: b.Opaque}
		case glovebox.BlockText:
			if !wire.Visible(b.Text) {
				continue
			}
			c = content{Type: "text", Text: b.Text}
		case glovebox.BlockImage:
			c = image(e.cfg, b)
		default:
			continue
		}
		c.of = i
		after = append(after, c)
	}
	out.Content = append(out.Content, after...)
	if !slices.ContainsFunc(out.Content, func(c content) bool { return c.Raw == nil }) {
		out.Content = append(out.Content, content{Type: "text", Text: wire.NoContent})
	}
	return out
}

// use returns a call, as it came where it was one of the provider's own tool.
func (e *encoder) use(b glovebox.Block) content {
	c := content{Type: "tool_use", ID: wire.ID(b.CallID), Name: wire.Name(b.Name), Input: wire.InputObject(b.Input)}
	if came, ok := e.came(b); ok {
		c.Name, c.Toolset, c.Input = wire.Name(came.Name), came.Toolset, wire.InputObject(came.Input)
		e.toolsets[c.ID] = c.Toolset
	}
	return c
}

// result returns the result of a call. An error with an image in it is
// refused: it says that it is one.
func (e *encoder) result(b glovebox.Block) content {
	r := content{Type: "tool_result", ToolUseID: wire.ID(b.CallID), IsError: b.IsError}
	r.Toolset = e.toolsets[r.ToolUseID]
	for _, c := range b.Content {
		switch {
		case c.Type == glovebox.BlockImage:
			img := image(e.cfg, c)
			if img.Type == "image" && r.IsError {
				r.IsError = false
				r.Content = append([]content{{Type: "text", Text: "error:"}}, r.Content...)
			}
			r.Content = append(r.Content, img)
		case wire.Visible(c.Text):
			r.Content = append(r.Content, content{Type: "text", Text: c.Text})
		}
	}
	if r.Content == nil && r.IsError {
		r.Content = []content{{Type: "text", Text: wire.NoContent}}
	}
	return r
}

func image(cfg wire.Config, b glovebox.Block) content {
	if !cfg.Sendable(b) {
		return content{Type: "text", Text: wire.NoImage}
	}
	return content{Type: "image", Source: &source{Type: "base64", MediaType: b.MediaType, Data: b.Data}}
}

func asError(err error) (*sdk.Error, bool) { return errors.AsType[*sdk.Error](err) }
