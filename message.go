package glovebox

import "encoding/json"

// Role says who speaks in a [Message].
type Role string

// The roles. The results of tools are blocks of a user message.
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
)

// Message is one turn of the conversation with a model, in a form that every
// provider's can be made from.
type Message struct {
	Role   Role    `json:"role"`
	Blocks []Block `json:"blocks"`
}

// BlockType says which fields of a [Block] are set.
type BlockType string

// The types of block.
const (
	BlockText       BlockType = "text"        // Text
	BlockImage      BlockType = "image"       // MediaType, and Data or Blob
	BlockToolUse    BlockType = "tool_use"    // CallID, Name, Input
	BlockToolResult BlockType = "tool_result" // CallID, Content, IsError
	BlockReasoning  BlockType = "reasoning"   // Text (may be empty), Opaque
)

// Block is one piece of a [Message].
type Block struct {
	Type BlockType `json:"type"`
	Text string    `json:"text,omitempty"`

	// An image: either its bytes or the key of the blob that holds them.
	MediaType string `json:"media_type,omitempty"`
	Data      []byte `json:"data,omitempty"`
	Blob      string `json:"blob,omitempty"`
	Size      int64  `json:"size,omitempty"` // of an image in Blob, in bytes; 0 if unknown

	// A call of a tool, and its answer. Input is what the model wrote,
	// unchecked; where that is not JSON it is a JSON string of the raw text.
	CallID  string          `json:"call_id,omitempty"`
	Name    string          `json:"name,omitempty"`
	Input   json.RawMessage `json:"input,omitempty"`
	Content []Block         `json:"content,omitempty"`
	IsError bool            `json:"is_error,omitempty"`

	// Opaque is what the provider attached to this block and wants back
	// exactly as it came: signatures, encrypted reasoning, item ids. It means
	// something only to the provider that made it, named in Provider.
	Provider string          `json:"provider,omitempty"`
	Opaque   json.RawMessage `json:"opaque,omitempty"`
}

// Text returns a text block.
func Text(s string) Block { return Block{Type: BlockText, Text: s} }

// ToolUses returns the calls of tools in m, in order.
func (m Message) ToolUses() []Block {
	var calls []Block
	for _, b := range m.Blocks {
		if b.Type == BlockToolUse {
			calls = append(calls, b)
		}
	}
	return calls
}

// PlainText returns the text blocks of m joined by newlines.
func (m Message) PlainText() string {
	var s string
	for _, b := range m.Blocks {
		if b.Type != BlockText || b.Text == "" {
			continue
		}
		if s != "" {
			s += "\n"
		}
		s += b.Text
	}
	return s
}
