package gemini

import (
	"encoding/json"
	"strings"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
	"github.com/glovebox-dev/glovebox/internal/llm/wire"
)

// The request. Raw JSON (schemas, inputs) keeps the order of its keys.
type (
	request struct {
		System   *content   `json:"systemInstruction,omitempty"`
		Tools    []tools    `json:"tools,omitempty"`
		Contents []content  `json:"contents"`
		Config   generation `json:"generationConfig"`
	}
	generation struct {
		MaxOutput int64     `json:"maxOutputTokens"`
		Thinking  *thinking `json:"thinkingConfig,omitempty"`
	}
	thinking struct {
		IncludeThoughts bool `json:"includeThoughts"`
	}
	tools struct {
		Functions []function `json:"functionDeclarations"`
	}
	function struct {
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		Parameters  json.RawMessage `json:"parametersJsonSchema"`
	}
	content struct {
		Role  string `json:"role,omitempty"`
		Parts []part `json:"parts"`
	}
	part struct {
		Text      *string           `json:"text,omitempty"`
		Thought   bool              `json:"thought,omitempty"`
		Image     *inlineData       `json:"inlineData,omitempty"`
		Call      *functionCall     `json:"functionCall,omitempty"`
		Response  *functionResponse `json:"functionResponse,omitempty"`
		Signature []byte            `json:"thoughtSignature,omitempty"`
	}
	inlineData struct {
		MimeType string `json:"mimeType"`
		Data     []byte `json:"data"`
	}
	functionCall struct {
		ID   string          `json:"id,omitempty"`
		Name string          `json:"name"`
		Args json.RawMessage `json:"args"`
	}
	functionResponse struct {
		ID       string            `json:"id,omitempty"`
		Name     string            `json:"name"`
		Response map[string]string `json:"response"` // of one key
	}

	// meta is what a block carries for its return.
	meta struct {
		Signature []byte `json:"signature,omitempty"`
		ID        string `json:"id,omitempty"`    // the provider's, of a call
		Model     string `json:"model,omitempty"` // whose signature it is; old logs don't say
	}
)

// unsigned stands in for the signature of a call that another model made:
// models from Gemini 3 on refuse a call without any. Google documents it for
// that purpose.
const unsigned = "skip_thought_signature_validator"

// called is what an answer to a call has to repeat of it.
type called struct{ id, name string }

func encode(cfg wire.Config, r *llm.Request) request {
	q := request{Contents: []content{}, Config: generation{MaxOutput: cfg.MaxOutput(r)}}
	if cfg.Info.Reasoning {
		q.Config.Thinking = &thinking{IncludeThoughts: true}
	}
	if wire.Visible(r.System) {
		q.System = &content{Parts: []part{text(r.System)}}
	}
	if len(r.Tools) > 0 {
		q.Tools = make([]tools, 1)
	}
	for _, t := range r.Tools {
		q.Tools[0].Functions = append(q.Tools[0].Functions, function{Name: t.Name, Description: t.Description, Parameters: t.Schema})
	}
	calls := map[string]called{}
	for _, m := range r.Messages {
		if m.Role == glovebox.RoleAssistant {
			q.Contents = append(q.Contents, modelContent(cfg, m, calls))
		} else {
			q.Contents = append(q.Contents, userContent(cfg, m, calls))
		}
	}
	return q
}

// asMap returns the request as the library wants it, its parts still encoded
// by us.
func asMap(q request) (map[string]any, error) {
	raw, err := wire.Marshal(q)
	if err != nil {
		return nil, err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, &llm.Error{Kind: llm.KindInvalid, Msg: "the request can't be encoded", Err: err}
	}
	m := make(map[string]any, len(fields))
	for k, v := range fields {
		m[k] = v
	}
	return m, nil
}

func text(s string) part { return part{Text: &s} }

// metaOf returns what b carries, if this provider made it. A signature means
// something to the model that made it alone.
func metaOf(b glovebox.Block, model string) (m meta) {
	if b.Provider != Provider || json.Unmarshal(b.Opaque, &m) != nil {
		return meta{}
	}
	if m.Model != "" && m.Model != model {
		m.Signature = nil
	}
	return m
}

func modelContent(cfg wire.Config, m glovebox.Message, calls map[string]called) content {
	c := content{Role: "model"}
	first := true // the first call of an answer bears its signature
	for _, b := range m.Blocks {
		own := metaOf(b, cfg.Info.Name)
		switch b.Type {
		case glovebox.BlockText:
			if wire.Visible(b.Text) || len(own.Signature) > 0 {
				p := text(b.Text)
				p.Signature = own.Signature
				c.Parts = append(c.Parts, p)
			}
		case glovebox.BlockReasoning:
			if len(own.Signature) > 0 {
				p := text(b.Text)
				p.Thought, p.Signature = true, own.Signature
				c.Parts = append(c.Parts, p)
			}
		case glovebox.BlockToolUse:
			f := functionCall{ID: own.ID, Name: wire.Name(b.Name), Args: wire.InputObject(b.Input)}
			calls[b.CallID] = called{f.ID, f.Name}
			p := part{Call: &f, Signature: own.Signature}
			if first && len(p.Signature) == 0 && needsSignature(cfg.Info.Name) {
				p.Signature = []byte(unsigned)
			}
			first = false
			c.Parts = append(c.Parts, p)
		}
	}
	if c.Parts == nil {
		c.Parts = []part{text(wire.NoContent)}
	}
	return c
}

func needsSignature(model string) bool {
	return !strings.HasPrefix(model, "gemini-1") && !strings.HasPrefix(model, "gemini-2")
}

// userContent returns the results of tools, and then what else there is:
// images in a result follow it.
func userContent(cfg wire.Config, m glovebox.Message, calls map[string]called) content {
	c := content{Role: "user"}
	var rest []part
	for _, b := range m.Blocks {
		if b.Type != glovebox.BlockToolResult {
			rest = append(rest, userParts(cfg, b)...)
			continue
		}
		var texts []string
		for _, inner := range b.Content {
			for _, p := range userParts(cfg, inner) {
				if p.Image != nil {
					rest = append(rest, p)
					p = text("(the image follows)")
				}
				texts = append(texts, *p.Text)
			}
		}
		key := "output"
		if b.IsError {
			key = "error"
		}
		call := calls[b.CallID]
		f := functionResponse{ID: call.id, Name: wire.Name(call.name), Response: map[string]string{key: strings.Join(texts, "\n")}}
		c.Parts = append(c.Parts, part{Response: &f})
	}
	c.Parts = append(c.Parts, rest...)
	if c.Parts == nil {
		c.Parts = []part{text(wire.NoContent)}
	}
	return c
}

func userParts(cfg wire.Config, b glovebox.Block) []part {
	switch {
	case b.Type == glovebox.BlockImage && cfg.Sendable(b):
		return []part{{Image: &inlineData{MimeType: b.MediaType, Data: b.Data}}}
	case b.Type == glovebox.BlockImage:
		return []part{text(wire.NoImage)}
	case b.Type == glovebox.BlockText && wire.Visible(b.Text):
		return []part{text(b.Text)}
	}
	return nil
}
