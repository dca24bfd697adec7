package llmtest

import (
	"encoding/json"
	"strings"

	"github.com/glovebox-dev/glovebox"
)

// Sent is a request as a scripted model reads it: what every provider's format
// says, without what is opaque.
type Sent struct {
	API       API
	Model     string
	System    string
	Tools     []string           // names
	Messages  []glovebox.Message // results of tools are blocks of a user message; images have no bytes
	MaxOutput int64
	CacheKey  string // of OpenAI
	Tokens    int64  // of all that goes in, as the server counts

	Body []byte // as it was sent
}

// Last returns the last message, which is the user's.
func (s Sent) Last() glovebox.Message {
	if len(s.Messages) == 0 {
		return glovebox.Message{}
	}
	return s.Messages[len(s.Messages)-1]
}

// Text returns all text of a message, that of results included.
func Text(m glovebox.Message) string {
	var b strings.Builder
	for _, x := range m.Blocks {
		b.WriteString(x.Text + "\n")
		for _, c := range x.Content {
			b.WriteString(c.Text + "\n")
		}
	}
	return b.String()
}

// read returns a request that was checked.
func read(api API, model string, body []byte) (Sent, error) {
	s := Sent{API: api, Model: modelOf(model, body), Body: body}
	var err error
	switch api {
	case Anthropic:
		err = s.anthropic()
	case OpenAI:
		err = s.openai()
	case Chat:
		err = s.chat()
	case Gemini:
		err = s.gemini()
	}
	return s, err
}

// say adds blocks to the last message if it is of that role, or to a new one.
func (s *Sent) say(role glovebox.Role, blocks ...glovebox.Block) {
	if n := len(s.Messages); n == 0 || s.Messages[n-1].Role != role {
		s.Messages = append(s.Messages, glovebox.Message{Role: role})
	}
	m := &s.Messages[len(s.Messages)-1]
	m.Blocks = append(m.Blocks, blocks...)
}

func (s *Sent) anthropic() error {
	var q anthropicRequest
	if err := json.Unmarshal(s.Body, &q); err != nil {
		return err
	}
	s.MaxOutput = q.MaxTokens
	for _, t := range q.Tools {
		s.Tools = append(s.Tools, t.Name)
	}
	for _, b := range q.System {
		s.System += b.Text
	}
	for _, m := range q.Messages {
		s.say(glovebox.Role(m.Role))
		for _, b := range m.Content {
			s.say(glovebox.Role(m.Role), anthropicSent(b))
		}
	}
	return nil
}

func anthropicSent(b anthropicContent) glovebox.Block {
	switch b.Type {
	case "tool_use":
		return glovebox.Block{Type: glovebox.BlockToolUse, CallID: b.ID, Name: b.Name, Input: b.Input}
	case "tool_result":
		out := glovebox.Block{Type: glovebox.BlockToolResult, CallID: b.ToolUseID, IsError: b.IsError}
		for _, c := range b.Content {
			out.Content = append(out.Content, anthropicSent(c))
		}
		return out
	case "thinking", "redacted_thinking":
		return glovebox.Block{Type: glovebox.BlockReasoning}
	case "image":
		return glovebox.Block{Type: glovebox.BlockImage, MediaType: b.Source.MediaType, Size: int64(len(b.Source.Data))}
	}
	return glovebox.Text(b.Text)
}

func (s *Sent) openai() error {
	var q openaiRequest
	if err := json.Unmarshal(s.Body, &q); err != nil {
		return err
	}
	s.System, s.MaxOutput, s.CacheKey = q.Instructions, q.MaxOutput, q.CacheKey
	for _, t := range q.Tools {
		s.Tools = append(s.Tools, t.Name)
	}
	for _, raw := range q.Input {
		var it openaiInput
		if err := json.Unmarshal(raw, &it); err != nil {
			return err
		}
		switch it.Type {
		case "message":
			s.say(glovebox.Role(it.Role), partsSent(it.Content)...)
		case "reasoning":
			s.say(glovebox.RoleAssistant, glovebox.Block{Type: glovebox.BlockReasoning})
		case "function_call":
			s.say(glovebox.RoleAssistant, glovebox.Block{Type: glovebox.BlockToolUse, CallID: it.CallID, Name: it.Name, Input: json.RawMessage(*it.Arguments)})
		case "function_call_output":
			b := glovebox.Block{Type: glovebox.BlockToolResult, CallID: it.CallID}
			var text string
			var list []openaiPart
			if json.Unmarshal(it.Output, &text) == nil {
				b.Content = []glovebox.Block{glovebox.Text(text)}
			} else if json.Unmarshal(it.Output, &list) == nil {
				b.Content = partsSent(list)
			}
			s.say(glovebox.RoleUser, b)
		}
	}
	return nil
}

func partsSent(parts []openaiPart) (list []glovebox.Block) {
	for _, p := range parts {
		if p.ImageURL != "" {
			list = append(list, glovebox.Block{Type: glovebox.BlockImage})
		} else {
			list = append(list, glovebox.Text(p.Text))
		}
	}
	return list
}

func (s *Sent) chat() error {
	var q chatRequest
	if err := json.Unmarshal(s.Body, &q); err != nil {
		return err
	}
	s.MaxOutput = q.MaxTokens
	for _, t := range q.Tools {
		s.Tools = append(s.Tools, t.Function.Name)
	}
	for _, m := range q.Messages {
		text := glovebox.Text(chatText(m.Content))
		switch m.Role {
		case "system":
			s.System = text.Text
		case "tool":
			s.say(glovebox.RoleUser, glovebox.Block{Type: glovebox.BlockToolResult, CallID: m.ToolCallID, Content: []glovebox.Block{text}})
		default:
			s.say(glovebox.Role(m.Role), text)
			for _, c := range m.ToolCalls {
				s.say(glovebox.RoleAssistant, glovebox.Block{Type: glovebox.BlockToolUse, CallID: c.ID, Name: c.Function.Name, Input: json.RawMessage(c.Function.Arguments)})
			}
		}
	}
	return nil
}

func chatText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var parts []chatPart
	if json.Unmarshal(raw, &parts) != nil {
		return ""
	}
	for _, p := range parts {
		text += p.Text + "\n"
	}
	return text
}

func (s *Sent) gemini() error {
	var q geminiRequest
	if err := json.Unmarshal(s.Body, &q); err != nil {
		return err
	}
	s.MaxOutput = q.Config.MaxOutput
	for _, t := range q.Tools {
		for _, f := range t.Functions {
			s.Tools = append(s.Tools, f.Name)
		}
	}
	if q.System != nil {
		for _, p := range q.System.Parts {
			s.System += *p.Text
		}
	}
	for _, c := range q.Contents {
		for _, p := range c.Parts {
			switch {
			case p.Call != nil:
				s.say(glovebox.RoleAssistant, glovebox.Block{Type: glovebox.BlockToolUse, CallID: p.Call.ID, Name: p.Call.Name, Input: p.Call.Args})
			case p.Response != nil:
				b := glovebox.Block{Type: glovebox.BlockToolResult, CallID: p.Response.ID, IsError: p.Response.Response["error"] != ""}
				b.Content = []glovebox.Block{glovebox.Text(p.Response.Response["output"] + p.Response.Response["error"])}
				s.say(glovebox.RoleUser, b)
			case p.Image != nil:
				s.say(glovebox.RoleUser, glovebox.Block{Type: glovebox.BlockImage, MediaType: p.Image.MimeType, Size: int64(len(p.Image.Data))})
			case c.Role == "model":
				s.say(glovebox.RoleAssistant, glovebox.Text(*p.Text))
			default:
				s.say(glovebox.RoleUser, glovebox.Text(*p.Text))
			}
		}
	}
	return nil
}
