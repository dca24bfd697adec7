package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/clip"
	"github.com/glovebox-dev/glovebox/internal/llm"
)

// Marshal encodes a request with < > & as they are: they are most of a
// program's text, and escaping would make six bytes of each.
func Marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, &llm.Error{Kind: llm.KindInvalid, Msg: "the request can't be encoded: " + clip.Short(err.Error(), maxMsg), Err: err}
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// Input returns what a model wrote as the input of a call: the text itself
// where it is JSON, {} where there is none, and a JSON string of it where it
// is not JSON.
func Input(text string) json.RawMessage {
	text = strings.TrimSpace(text)
	if text == "" {
		return json.RawMessage("{}")
	}
	if json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	quoted, err := Marshal(text)
	if err != nil { // a string can always be encoded
		return json.RawMessage("{}")
	}
	return quoted
}

// InputObject returns the input of a call as an object, for providers that
// take nothing else. What is not one is put into one.
func InputObject(input json.RawMessage) json.RawMessage {
	trimmed := bytes.TrimSpace(input)
	if len(trimmed) == 0 {
		return json.RawMessage("{}")
	}
	if trimmed[0] == '{' && json.Valid(trimmed) {
		return trimmed
	}
	if !json.Valid(trimmed) {
		trimmed = Input(string(trimmed))
	}
	return slices.Concat([]byte(`{"unreadable_input":`), trimmed, []byte("}"))
}

// Name returns the name of a tool in the letters that all providers take. A
// model may have called for a tool that does not exist, under any name.
func Name(s string) string {
	s = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, s)
	if s == "" {
		return "unknown"
	}
	return s[:min(len(s), 64)]
}

// Visible reports whether s has anything in it that can be seen. Providers
// refuse blocks of text that have not.
func Visible(s string) bool { return strings.TrimSpace(s) != "" }

// What stands in a request for what can't be sent.
const (
	NoContent = "(nothing)"
	NoImage   = "(an image, not shown)"
)

// Sendable reports whether an image can be sent: the model takes images and
// its bytes are here.
func (c Config) Sendable(b glovebox.Block) bool { return c.Info.Images && len(b.Data) > 0 }

// MaxOutput returns how many tokens the model may write.
func (c Config) MaxOutput(r *llm.Request) int64 {
	if r.MaxOutput > 0 {
		return r.MaxOutput
	}
	return c.Info.MaxOutput
}

// Finish makes the response of a call that came to its end: ids of calls made
// unique in the conversation, the cost computed. An answer without any block
// is an error, unless there is a reason for it.
func (c *Call) Finish(r *llm.Request, blocks []glovebox.Block, stop llm.StopReason, usage glovebox.Usage) (*llm.Response, error) {
	usage.Calls = 1
	usage.CostMicros = c.cfg.Info.Cost(usage)
	if len(blocks) == 0 {
		if stop == llm.StopEnd || stop == llm.StopToolUse {
			return nil, c.Fail(&llm.Error{Kind: llm.KindMalformed, Msg: "the answer is empty"}, usage)
		}
		blocks = []glovebox.Block{glovebox.Text("")}
	}
	calls := uniqueIDs(r, blocks)
	if calls > 0 && stop == llm.StopEnd {
		stop = llm.StopToolUse
	}
	if calls == 0 && stop == llm.StopToolUse {
		stop = llm.StopEnd
	}
	return &llm.Response{
		Message:    glovebox.Message{Role: glovebox.RoleAssistant, Blocks: blocks},
		StopReason: stop, Usage: usage, First: c.first,
	}, nil
}

// counted is an id that counts the calls of an answer, or of a conversation:
// after history was folded it may come again.
var counted = regexp.MustCompile(`(^|[^A-Za-z0-9])[0-9]{1,5}$`)

// uniqueIDs gives each call in blocks an id that no other call of the job has,
// and returns how many calls there are. Some servers give none, and some begin
// with call_0 in each answer. The request may not have all calls of the job in
// it: the step makes ids of ours different.
func uniqueIDs(r *llm.Request, blocks []glovebox.Block) int {
	taken := map[string]bool{}
	for _, m := range r.Messages {
		for _, b := range m.ToolUses() {
			taken[b.CallID] = true
		}
	}
	calls := 0
	for i := range blocks {
		b := &blocks[i]
		if b.Type != glovebox.BlockToolUse {
			continue
		}
		calls++
		if r.Step > 0 && counted.MatchString(b.CallID) {
			b.CallID = ""
		}
		for n := calls; b.CallID == "" || taken[b.CallID]; n++ {
			b.CallID = fmt.Sprintf("call_g%d_%d", r.Step, n)
		}
		taken[b.CallID] = true
	}
	return calls
}

// ID returns the id of a call in the letters and length that all providers
// take. Different ids that are not in that form may become the same only if
// they differ in nothing but their odd characters.
func ID(s string) string { return Name(s) }
