// Package chat calls any server that speaks OpenAI's chat completions: Ollama,
// vLLM, llama.cpp and many others. They differ in what they leave out, so it
// takes what it gets: no usage, no ids of calls or the same ones, arguments as
// an object, an end without a reason.
package chat

import (
	"context"
	"encoding/json"
	"errors"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/ssestream"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
	"github.com/glovebox-dev/glovebox/internal/llm/wire"
)

// DefaultURL is where Ollama listens.
const DefaultURL = "http://127.0.0.1:11434/v1"

// Model is a model behind a chat completions server. It is safe for
// concurrent use.
type Model struct{ cfg wire.Config }

var _ llm.Model = (*Model)(nil)

// New returns the model that cfg describes. It opens no connection.
func New(cfg wire.Config) *Model {
	if cfg.BaseURL == "" {
		cfg.BaseURL = DefaultURL
	}
	return &Model{cfg}
}

// Encode returns r as it is sent. It is a pure function.
func (m *Model) Encode(r *llm.Request) ([]byte, error) { return wire.Marshal(encode(m.cfg, r)) }

// Stream sends r and returns the whole answer.
func (m *Model) Stream(ctx context.Context, r *llm.Request, delta func(glovebox.ModelDelta)) (*llm.Response, error) {
	body, err := m.Encode(r)
	if err != nil {
		return nil, err
	}
	call := m.cfg.Begin(ctx, delta)
	defer call.End()
	opts := []option.RequestOption{option.WithBaseURL(m.cfg.BaseURL), option.WithHTTPClient(call.Client()), option.WithMaxRetries(0)}
	if m.cfg.APIKey != "" {
		opts = append(opts, option.WithAPIKey(m.cfg.APIKey))
	}
	service := sdk.NewChatCompletionService(opts...)
	stream := service.NewStreaming(call.Context(), sdk.ChatCompletionNewParams{}, option.WithRequestBody("application/json", body))
	defer stream.Close()

	a := answer{call: call}
	for stream.Next() {
		call.Event()
		if err := a.chunk(stream.Current()); err != nil {
			return nil, call.Fail(err, a.usage)
		}
	}
	err = stream.Err()
	if e, ok := errors.AsType[*ssestream.StreamError](err); ok {
		call.Event()
		err = wire.InStream(e.Event.Data)
	}
	// The end is said twice, by a reason and by a mark. Servers forget one.
	if err != nil || call.Broken() || (a.stop == "" && (!call.SaidDone() || !a.started())) {
		return nil, call.Fail(err, a.usage)
	}
	if a.stop == "" {
		a.stop = llm.StopEnd
	}
	return call.Finish(r, a.blocks(), a.stop, a.usage)
}

// answer is an answer as it arrives.
type answer struct {
	call      *wire.Call
	reasoning []byte
	text      []byte
	calls     []*toolCall
	usage     glovebox.Usage
	stop      llm.StopReason
}

// toolCall is a call of a tool as it arrives.
type toolCall struct {
	index int64
	id    string
	name  string
	input []byte
}

// maxCalls bounds the calls of an answer.
const maxCalls = 256

func (a *answer) started() bool { return len(a.text)+len(a.reasoning)+len(a.calls) > 0 }

func (a *answer) chunk(c sdk.ChatCompletionChunk) error {
	if u := c.Usage; u.PromptTokens+u.CompletionTokens > 0 {
		read := u.PromptTokensDetails.CachedTokens
		a.usage = glovebox.Usage{Input: max(0, u.PromptTokens-read), CacheRead: read, Output: u.CompletionTokens,
			Reasoning: u.CompletionTokensDetails.ReasoningTokens}
	}
	for _, choice := range c.Choices {
		if choice.Index != 0 {
			continue
		}
		if err := a.delta(choice.Delta); err != nil {
			return err
		}
		if choice.FinishReason != "" {
			a.stop = stopReason(choice.FinishReason)
		}
	}
	return nil
}

func (a *answer) delta(d sdk.ChatCompletionChunkChoiceDelta) error {
	for _, field := range []string{"reasoning_content", "reasoning"} {
		var text string
		if json.Unmarshal([]byte(d.JSON.ExtraFields[field].Raw()), &text) == nil && text != "" {
			a.reasoning = append(a.reasoning, text...)
			if err := a.call.Piece(glovebox.ModelDelta{Type: glovebox.BlockReasoning, Text: text}); err != nil {
				return err
			}
			break
		}
	}
	if text := d.Content + d.Refusal; text != "" {
		a.text = append(a.text, text...)
		if err := a.call.Piece(glovebox.ModelDelta{Type: glovebox.BlockText, Text: text}); err != nil {
			return err
		}
	}
	for _, t := range d.ToolCalls {
		if err := a.tool(t); err != nil {
			return err
		}
	}
	return nil
}

// tool adds a piece of a call. Some servers give all calls the index 0: a new
// id, or a name where there is one already, begins a new call.
func (a *answer) tool(t sdk.ChatCompletionChunkChoiceDeltaToolCall) error {
	var call *toolCall
	for _, c := range a.calls {
		if c.index == t.Index {
			call = c
		}
	}
	fresh := call == nil || (t.ID != "" && call.id != "" && t.ID != call.id) || (t.Function.Name != "" && call.name != "" && len(call.input) > 0)
	name := t.Function.Name
	if fresh {
		if len(a.calls) == maxCalls {
			return &llm.Error{Kind: llm.KindMalformed, Msg: "the answer has too many calls of tools"}
		}
		call = &toolCall{index: t.Index}
		a.calls = append(a.calls, call)
	}
	if t.ID != "" {
		call.id = t.ID
	}
	call.name += name
	input := t.Function.Arguments
	if raw := t.Function.JSON.Arguments.Raw(); len(raw) > 0 && raw[0] == '{' { // an object instead of its text
		input = raw
	}
	call.input = append(call.input, input...)
	return a.call.Piece(glovebox.ModelDelta{Type: glovebox.BlockToolUse, Name: name, Text: input})
}

// blocks returns the blocks of a whole answer.
func (a *answer) blocks() []glovebox.Block {
	var list []glovebox.Block
	if len(a.reasoning) > 0 {
		list = append(list, glovebox.Block{Type: glovebox.BlockReasoning, Text: string(a.reasoning)})
	}
	if len(a.text) > 0 {
		list = append(list, glovebox.Text(string(a.text)))
	}
	for _, c := range a.calls {
		list = append(list, glovebox.Block{Type: glovebox.BlockToolUse, CallID: c.id, Name: c.name, Input: wire.Input(string(c.input))})
	}
	return list
}

func stopReason(s string) llm.StopReason {
	switch s {
	case "length":
		return llm.StopMaxOutput
	case "content_filter":
		return llm.StopRefusal
	case "tool_calls", "function_call":
		return llm.StopToolUse
	}
	return llm.StopEnd
}
