package llmtest

import (
	"encoding/json"
	"strings"

	"github.com/glovebox-dev/glovebox/internal/llm"
)

// piece is a block of a request, in the order in which caches read them.
type piece struct {
	text      string // the whole of it, without a cache breakpoint
	place     string // "tools", "system", "user" or "assistant"
	mark      bool   // a cache breakpoint is behind it
	result    bool   // of a call
	reasoning string // what the provider attached to it and wants back, if anything
	tokens    int64
}

// prefixed reports whether list begins with prefix.
func prefixed(list, prefix []piece) bool { return common(list, prefix) == len(prefix) }

// common returns how many pieces a and b begin with alike.
func common(a, b []piece) int {
	n := 0
	for n < len(a) && n < len(b) && a[n].text == b[n].text {
		n++
	}
	return n
}

// fields are where a request has its pieces, in the order in which they are
// read; the last three are the conversation.
var fields = []string{"tools", "system", "instructions", "systemInstruction", "messages", "input", "contents"}

// pieces returns the blocks of a request.
func pieces(api API, body []byte) ([]piece, error) {
	var top map[string]json.RawMessage
	if err := json.Unmarshal(body, &top); err != nil {
		return nil, err
	}
	var list []piece
	for i, field := range fields {
		if top[field] == nil {
			continue
		}
		var elements []json.RawMessage
		if json.Unmarshal(top[field], &elements) != nil {
			list = append(list, piece{text: field + " " + string(top[field]), place: "system"})
			continue
		}
		for _, e := range elements {
			blocks, where := blocksOf(e)
			for _, b := range blocks {
				p := piece{place: field}
				if i >= len(fields)-3 {
					p.place = placeOf(b, where)
				}
				_, p.mark = b["cache_control"]
				delete(b, "cache_control")
				p.text = field + " " + where + " " + encode(b)
				p.reasoning = reasoningOf(api, b)
				p.result = b["tool_use_id"] != nil || b["tool_call_id"] != nil || b["output"] != nil || b["functionResponse"] != nil
				list = append(list, p)
			}
		}
	}
	for i := range list {
		list[i].tokens = count(list[i].text)
	}
	return list, nil
}

// placeOf returns who speaks in a block.
func placeOf(b map[string]json.RawMessage, where string) string {
	kind := string(b["type"])
	switch {
	case strings.Contains(where, `"assistant"`), strings.Contains(where, `"model"`), string(b["role"]) == `"assistant"`,
		kind == `"reasoning"`, kind == `"function_call"`, kind == `"computer_call"`:
		return "assistant"
	case strings.Contains(where, `"system"`), string(b["role"]) == `"system"`:
		return "system"
	}
	return "user"
}

// reasoningOf returns what a provider attached to a block, as it is.
func reasoningOf(api API, b map[string]json.RawMessage) string {
	switch kind := string(b["type"]); {
	case api == Anthropic && kind == `"thinking"`:
		return string(b["signature"])
	case api == Anthropic && kind == `"redacted_thinking"`:
		return string(b["data"])
	case api == OpenAI && kind == `"reasoning"`:
		return string(b["encrypted_content"])
	case api == Gemini && b["thoughtSignature"] != nil:
		var raw []byte
		if json.Unmarshal(b["thoughtSignature"], &raw) == nil && string(raw) == documented {
			return ""
		}
		return string(b["thoughtSignature"])
	}
	return ""
}

// pictureTokens is what a picture counts for, whatever its size.
const pictureTokens = 1500

// count returns how many tokens a piece has.
func count(text string) int64 {
	for _, mark := range []string{`"data":"`, `;base64,`} {
		if i := strings.Index(text, mark); i >= 0 && len(text)-i > 100 && !strings.Contains(text[i+len(mark):i+100], " ") && strings.Contains(text, "image") {
			return pictureTokens
		}
	}
	return llm.TokensOf(text)
}

// blocksOf returns the blocks of a message, or what is a block itself.
func blocksOf(raw json.RawMessage) (blocks []map[string]json.RawMessage, where string) {
	var m map[string]json.RawMessage
	if json.Unmarshal(raw, &m) != nil {
		return nil, ""
	}
	for _, field := range []string{"content", "parts"} {
		if json.Unmarshal(m[field], &blocks) == nil && blocks != nil {
			delete(m, field)
			return blocks, strings.Trim(encode(m), "{}")
		}
	}
	return []map[string]json.RawMessage{m}, ""
}
