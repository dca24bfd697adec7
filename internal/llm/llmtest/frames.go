package llmtest

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
	"github.com/glovebox-dev/glovebox/internal/llm/computer"
)

// obj is a JSON object.
type obj = map[string]any

// Frames returns an answer as the events of its stream, each whole.
func Frames(api API, a Answer) []string {
	a.Blocks = shaped(a)
	switch api {
	case Anthropic:
		return anthropicFrames(a)
	case OpenAI:
		return openaiFrames(a)
	case Chat:
		return chatFrames(a)
	}
	return geminiFrames(a)
}

// shaped gives calls their ids and their faults.
func shaped(a Answer) []glovebox.Block {
	list := make([]glovebox.Block, len(a.Blocks))
	for i, b := range a.Blocks {
		if b.Type == glovebox.BlockToolUse {
			if b.CallID == "" && b.Provider == Native {
				b.CallID = nativeID(b.Name, b.Input)
			} else if b.CallID == "" {
				b.CallID = fmt.Sprintf("call_%s_%d", short(string(b.Input)+b.Name), i)
			}
			switch a.Fault.Kind {
			case SameIDs:
				b.CallID = "call_0"
			case NoIDs:
				b.CallID = ""
			case BadInput:
				b.Input = json.RawMessage(`{"command": "cut o`)
			}
		}
		list[i] = b
	}
	return list
}

func (a Answer) stop() llm.StopReason {
	if a.Stop != "" {
		return a.Stop
	}
	for _, b := range a.Blocks {
		if b.Type == glovebox.BlockToolUse {
			return llm.StopToolUse
		}
	}
	return llm.StopEnd
}

// short is a digest that looks like an id.
func short(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:8])
}

// nativeMark begins the ids of calls of a provider's own computer tool.
const nativeMark = "native_"

// nativeID returns the id of such a call, from which it can be told whether
// the call comes back as it was.
func nativeID(name string, input json.RawMessage) string {
	var v any
	if json.Unmarshal(input, &v) != nil {
		return nativeMark + "unreadable"
	}
	return nativeMark + short(name+encode(v))
}

// sign returns what a provider attaches to its reasoning.
func sign(api API, text string) string {
	sum := sha256.Sum256([]byte(string(api) + "\x00" + text))
	return base64.StdEncoding.EncodeToString(sum[:])
}

func encode(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

// halves cuts s in two, so that pieces have to be joined.
func halves(s string) []string {
	i := len(s) / 2
	for i > 0 && i < len(s) && s[i]&0xC0 == 0x80 {
		i--
	}
	if i == 0 {
		return []string{s}
	}
	return []string{s[:i], s[i:]}
}

func event(name string, v obj) string {
	v["type"] = name
	return "event: " + name + "\ndata: " + encode(v) + "\n\n"
}

func data(v any) string { return "data: " + encode(v) + "\n\n" }

// errorBody is how a provider says what is wrong, as the body of an answer.
func errorBody(api API, f Fault) string {
	switch api {
	case Anthropic:
		return encode(obj{"type": "error", "error": obj{"type": f.Code, "message": f.Message}, "request_id": "req_1"})
	case Gemini:
		e := obj{"code": f.Status, "message": f.Message, "status": f.Code}
		if f.Details != "" {
			e["details"] = json.RawMessage(f.Details)
		}
		return encode(obj{"error": e})
	}
	return encode(obj{"error": obj{"message": f.Message, "type": f.Code, "param": nil, "code": f.Code}})
}

// errorFrame is how it says so in the middle of a stream.
func errorFrame(api API, f Fault) string {
	switch api {
	case Anthropic:
		return "event: error\ndata: " + errorBody(api, f) + "\n\n"
	case OpenAI:
		return event("response.failed", obj{"response": obj{"id": "resp_1", "status": "failed", "error": obj{"code": f.Code, "message": f.Message}}})
	}
	return "data: " + errorBody(api, f) + "\n\n"
}

func anthropicFrames(a Answer) []string {
	u := a.Usage
	frames := []string{
		event("message_start", obj{"message": obj{"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": []any{},
			"stop_reason": nil, "stop_sequence": nil, "usage": obj{"input_tokens": u.Input, "cache_read_input_tokens": u.CacheRead,
				"cache_creation_input_tokens": u.CacheWrite, "output_tokens": min(1, u.Output)}}}),
		event("ping", obj{}),
	}
	for i, b := range a.Blocks {
		start, deltas := anthropicBlock(b)
		frames = append(frames, event("content_block_start", obj{"index": i, "content_block": start}))
		for _, d := range deltas {
			frames = append(frames, event("content_block_delta", obj{"index": i, "delta": d}))
		}
		frames = append(frames, event("content_block_stop", obj{"index": i}))
	}
	stop := map[llm.StopReason]string{llm.StopEnd: "end_turn", llm.StopToolUse: "tool_use", llm.StopMaxOutput: "max_tokens", llm.StopRefusal: "refusal"}[a.stop()]
	usage := obj{"output_tokens": u.Output, "output_tokens_details": obj{"thinking_tokens": u.Reasoning}}
	return append(frames,
		event("message_delta", obj{"delta": obj{"stop_reason": stop, "stop_sequence": nil}, "usage": usage}),
		event("message_stop", obj{}))
}

func anthropicBlock(b glovebox.Block) (start obj, deltas []obj) {
	switch {
	case b.Type == glovebox.BlockReasoning && b.Name == "redacted":
		return obj{"type": "redacted_thinking", "data": sign(Anthropic, "redacted")}, nil
	case b.Type == glovebox.BlockReasoning:
		for _, s := range halves(b.Text) {
			deltas = append(deltas, obj{"type": "thinking_delta", "thinking": s})
		}
		deltas = append(deltas, obj{"type": "signature_delta", "signature": sign(Anthropic, b.Text)})
		return obj{"type": "thinking", "thinking": "", "signature": ""}, deltas
	case b.Type == glovebox.BlockToolUse:
		deltas = []obj{{"type": "input_json_delta", "partial_json": ""}}
		for _, s := range halves(string(b.Input)) {
			deltas = append(deltas, obj{"type": "input_json_delta", "partial_json": s})
		}
		start = obj{"type": "tool_use", "id": b.CallID, "name": b.Name, "input": obj{}}
		if b.Provider == Native && b.Name != computer.Toolset {
			start["toolset_name"] = computer.Toolset
		}
		return start, deltas
	}
	for _, s := range halves(b.Text) {
		deltas = append(deltas, obj{"type": "text_delta", "text": s})
	}
	return obj{"type": "text", "text": ""}, deltas
}

func openaiFrames(a Answer) []string {
	frames := []string{
		event("response.created", obj{"response": obj{"id": "resp_1", "status": "in_progress", "error": nil, "output": []any{}}}),
		event("response.in_progress", obj{"response": obj{"id": "resp_1", "status": "in_progress", "error": nil, "output": []any{}}}),
	}
	output := []obj{}
	for i, b := range a.Blocks {
		item, begun, pieces := openaiItem(i, b)
		frames = append(frames, event("response.output_item.added", obj{"output_index": i, "item": begun}))
		frames = append(frames, pieces...)
		frames = append(frames, event("response.output_item.done", obj{"output_index": i, "item": item}))
		output = append(output, item)
	}
	u := a.Usage
	resp := obj{"id": "resp_1", "status": "completed", "error": nil, "incomplete_details": nil, "output": output, "usage": obj{
		"input_tokens": u.Input + u.CacheRead + u.CacheWrite, "input_tokens_details": obj{"cached_tokens": u.CacheRead, "cache_write_tokens": u.CacheWrite},
		"output_tokens": u.Output, "output_tokens_details": obj{"reasoning_tokens": u.Reasoning}, "total_tokens": u.Tokens()}}
	if a.Fault.Kind == NoUsage {
		resp["usage"] = nil
	}
	switch a.stop() {
	case llm.StopMaxOutput:
		resp["status"], resp["incomplete_details"] = "incomplete", obj{"reason": "max_output_tokens"}
		return append(frames, event("response.incomplete", obj{"response": resp}))
	case llm.StopRefusal:
		resp["status"], resp["incomplete_details"] = "incomplete", obj{"reason": "content_filter"}
		return append(frames, event("response.incomplete", obj{"response": resp}))
	}
	return append(frames, event("response.completed", obj{"response": resp}))
}

func openaiItem(i int, b glovebox.Block) (item, begun obj, pieces []string) {
	id := fmt.Sprintf("item_%d", i)
	piece := func(name, text string) {
		for _, s := range halves(text) {
			pieces = append(pieces, event(name, obj{"item_id": id, "output_index": i, "content_index": 0, "summary_index": 0, "delta": s}))
		}
	}
	switch b.Type {
	case glovebox.BlockReasoning:
		pieces = append(pieces, event("response.reasoning_summary_part.added", obj{"item_id": id, "output_index": i, "summary_index": 0, "part": obj{"type": "summary_text", "text": ""}}))
		piece("response.reasoning_summary_text.delta", b.Text)
		return obj{"type": "reasoning", "id": id, "summary": []obj{{"type": "summary_text", "text": b.Text}}, "encrypted_content": sign(OpenAI, b.Text)},
			obj{"type": "reasoning", "id": id, "summary": []obj{}, "encrypted_content": ""}, pieces
	case glovebox.BlockToolUse:
		if b.Provider == Native {
			item = obj{"type": "computer_call", "id": id, "call_id": b.CallID, "status": "completed", "pending_safety_checks": []obj{}}
			var call obj
			if json.Unmarshal(b.Input, &call) == nil {
				maps.Copy(item, call)
			}
			return item, obj{"type": "computer_call", "id": id, "call_id": b.CallID, "status": "in_progress", "pending_safety_checks": []obj{}}, nil
		}
		piece("response.function_call_arguments.delta", string(b.Input))
		return obj{"type": "function_call", "id": id, "call_id": b.CallID, "name": b.Name, "arguments": string(b.Input), "status": "completed"},
			obj{"type": "function_call", "id": id, "call_id": b.CallID, "name": b.Name, "arguments": "", "status": "in_progress"}, pieces
	}
	piece("response.output_text.delta", b.Text)
	return obj{"type": "message", "id": id, "role": "assistant", "status": "completed", "phase": "commentary", "content": []obj{{"type": "output_text", "text": b.Text, "annotations": []any{}}}},
		obj{"type": "message", "id": id, "role": "assistant", "status": "in_progress", "content": []obj{}}, pieces
}

func chatFrames(a Answer) []string {
	chunk := func(delta obj, finish any) string {
		return data(obj{"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": []obj{{"index": 0, "delta": delta, "finish_reason": finish}}})
	}
	frames := []string{": keep-alive\n\n", chunk(obj{"role": "assistant", "content": ""}, nil)}
	calls := 0
	for _, b := range a.Blocks {
		switch b.Type {
		case glovebox.BlockReasoning:
			frames = append(frames, chunk(obj{"reasoning_content": b.Text}, nil))
		case glovebox.BlockToolUse:
			head := obj{"index": calls, "type": "function", "function": obj{"name": b.Name, "arguments": ""}}
			if b.CallID != "" {
				head["id"] = b.CallID
			}
			frames = append(frames, chunk(obj{"tool_calls": []obj{head}}, nil))
			for _, s := range halves(string(b.Input)) {
				frames = append(frames, chunk(obj{"tool_calls": []obj{{"index": calls, "function": obj{"arguments": s}}}}, nil))
			}
			calls++
		default:
			for _, s := range halves(b.Text) {
				frames = append(frames, chunk(obj{"content": s}, nil))
			}
		}
	}
	stop := map[llm.StopReason]string{llm.StopEnd: "stop", llm.StopToolUse: "tool_calls", llm.StopMaxOutput: "length", llm.StopRefusal: "content_filter"}[a.stop()]
	frames = append(frames, chunk(obj{}, stop))
	if a.Fault.Kind != NoUsage {
		u := a.Usage
		frames = append(frames, data(obj{"id": "c1", "object": "chat.completion.chunk", "choices": []obj{}, "usage": obj{
			"prompt_tokens": u.Input + u.CacheRead, "completion_tokens": u.Output, "total_tokens": u.Tokens(),
			"prompt_tokens_details": obj{"cached_tokens": u.CacheRead}, "completion_tokens_details": obj{"reasoning_tokens": u.Reasoning}}}))
	}
	return append(frames, "data: [DONE]\n\n")
}

func geminiFrames(a Answer) []string {
	var frames []string
	chunk := func(part obj) {
		frames = append(frames, data(obj{"candidates": []obj{{"content": obj{"role": "model", "parts": []obj{part}}, "index": 0}}, "modelVersion": "m"}))
	}
	signed := false // the first call of an answer bears its signature
	for _, b := range a.Blocks {
		switch b.Type {
		case glovebox.BlockReasoning:
			chunk(obj{"text": b.Text, "thought": true})
		case glovebox.BlockToolUse:
			call := obj{"name": b.Name, "args": b.Input}
			if !json.Valid(b.Input) {
				call["args"] = obj{}
			}
			if b.CallID != "" {
				call["id"] = b.CallID
			}
			part := obj{"functionCall": call}
			if !signed {
				part["thoughtSignature"] = sign(Gemini, b.Name)
			}
			signed = true
			chunk(part)
		default:
			for _, s := range halves(b.Text) {
				chunk(obj{"text": s})
			}
			if signedText(b.Text) && !signed { // a signature may come after the text
				chunk(obj{"text": "", "thoughtSignature": sign(Gemini, "")})
			}
		}
	}
	stop := map[llm.StopReason]string{llm.StopEnd: "STOP", llm.StopToolUse: "STOP", llm.StopMaxOutput: "MAX_TOKENS", llm.StopRefusal: "SAFETY"}[a.stop()]
	if a.Fault.Kind == BadInput {
		stop = "MALFORMED_FUNCTION_CALL"
	}
	last := obj{"candidates": []obj{{"index": 0, "finishReason": stop}}}
	if a.Fault.Kind != NoUsage {
		u := a.Usage
		last["usageMetadata"] = obj{"promptTokenCount": u.Input + u.CacheRead, "cachedContentTokenCount": u.CacheRead,
			"candidatesTokenCount": u.Output - u.Reasoning, "thoughtsTokenCount": u.Reasoning, "totalTokenCount": u.Tokens()}
	}
	return append(frames, data(last))
}

// signedText reports whether a signature comes after a text.
func signedText(s string) bool { return strings.HasSuffix(s, ".") }
