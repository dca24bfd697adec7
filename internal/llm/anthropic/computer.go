package anthropic

import (
	"encoding/json"
	"slices"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
	"github.com/glovebox-dev/glovebox/internal/llm/computer"
	"github.com/glovebox-dev/glovebox/internal/llm/wire"
)

// betas are the headers that the versions before the toolset need.
var betas = map[string]string{
	llm.AnthropicComputer2: "computer-use-2025-11-24",
	llm.AnthropicComputer1: "computer-use-2025-01-24",
}

// offer says which computer tool of the provider's a request declares.
type offer struct {
	kind string        // its type; empty: none
	tool *llm.ToolSpec // ours, which its calls are calls of
}

// offered returns the offer of a request: a model that has a computer tool
// and takes images is offered it for ours.
func offered(cfg wire.Config, r *llm.Request) offer {
	t := r.ComputerTool()
	taken := slices.ContainsFunc(r.Tools, func(t llm.ToolSpec) bool { return t.Name == computer.Toolset })
	if t == nil || taken || !cfg.Info.Images || !slices.Contains(llm.ComputerTools[Provider], cfg.Info.Computer) {
		return offer{}
	}
	return offer{kind: cfg.Info.Computer, tool: t}
}

// declare returns the declarations of a tool.
func (o offer) declare(t *llm.ToolSpec) []tool {
	ours := tool{Name: t.Name, Description: t.Description, Schema: t.Schema}
	if o.kind == "" || t.Computer == nil {
		return []tool{ours}
	}
	ours.Description, ours.Schema = t.Computer.Description, t.Computer.Schema
	theirs := tool{Type: o.kind}
	if o.kind != llm.AnthropicToolset { // which takes neither a name nor a size
		theirs.Name, theirs.Width, theirs.Height = computer.Toolset, t.Computer.Width, t.Computer.Height
		theirs.Zoom = o.kind == llm.AnthropicComputer2
	}
	return []tool{theirs, ours}
}

// nativeCall is a call of the provider's tool as it came, which the block of
// it keeps.
type nativeCall struct {
	Name    string          `json:"name"`
	Toolset string          `json:"toolset_name,omitempty"`
	Input   json.RawMessage `json:"input"`
}

// native reports whether a call is one of the tool that is offered.
func (o offer) native(name, toolset string) bool {
	if o.kind == llm.AnthropicToolset {
		return toolset == computer.Toolset
	}
	return o.kind != "" && toolset == "" && name == computer.Toolset
}

// call returns the block of a call, given its input as [wire.Input] returns
// it: one of the provider's tool becomes one of
// ours. What can't be translated becomes a call that ours refuses.
func (o offer) call(b *block, input json.RawMessage) glovebox.Block {
	use := glovebox.Block{Type: glovebox.BlockToolUse, CallID: b.id, Name: b.name, Input: input}
	if !o.native(b.name, b.toolset) {
		return use
	}
	member := ""
	if b.toolset != "" {
		member = b.name
	}
	use.Name, use.Input = o.tool.Name, computer.Unreadable(member, input)
	if in, err := computer.Anthropic(member, input); err == nil {
		if raw, err := wire.Marshal(in); err == nil {
			use.Input = raw
		}
	}
	if input[0] != '{' { // it was cut, or no object: it could not go back as it came
		return use
	}
	if raw, err := wire.Marshal(nativeCall{Name: b.name, Toolset: b.toolset, Input: input}); err == nil { // valid JSON can always be encoded
		use.Provider, use.Opaque = Provider, raw
	}
	return use
}

// came returns a block as the call of the provider's tool that it was, if it
// was one of the tool that is offered now. Other calls of ours go as such.
func (o offer) came(b glovebox.Block) (nativeCall, bool) {
	var c nativeCall
	if o.kind == "" || b.Provider != Provider || json.Unmarshal(b.Opaque, &c) != nil || c.Input == nil {
		return nativeCall{}, false
	}
	return c, o.native(c.Name, c.Toolset)
}
