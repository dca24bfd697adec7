// Package anthropic calls Claude models through the Messages API.
package anthropic

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync/atomic"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
	"github.com/glovebox-dev/glovebox/internal/llm/wire"
)

// Provider names the maker of opaque data in blocks.
const Provider = "anthropic"

// Model is a Claude model. It is safe for concurrent use.
type Model struct {
	cfg wire.Config

	// plain is set when the provider has refused its own computer tool, which
	// is not there on all platforms that serve the model: from then on the
	// model gets ours alone.
	plain atomic.Bool
}

var _ llm.Model = (*Model)(nil)

// New returns the model that cfg describes. It opens no connection.
func New(cfg wire.Config) *Model { return &Model{cfg: cfg} }

// config returns what requests are made from now.
func (m *Model) config() wire.Config {
	cfg := m.cfg
	if m.plain.Load() {
		cfg.Info.Computer = ""
	}
	return cfg
}

// Encode returns r as it is sent. It is a pure function, until the provider
// refuses its own computer tool.
func (m *Model) Encode(r *llm.Request) ([]byte, error) { return wire.Marshal(encode(m.config(), r)) }

// Stream sends r and returns the whole answer.
func (m *Model) Stream(ctx context.Context, r *llm.Request, delta func(glovebox.ModelDelta)) (*llm.Response, error) {
	cfg := m.config()
	resp, err := m.stream(ctx, cfg, r, delta)
	e, ok := errors.AsType[*llm.Error](err)
	if !ok || e.Kind != llm.KindInvalid {
		return resp, err
	}
	if kind := offered(cfg, r).kind; kind != "" && strings.Contains(e.Msg, kind) {
		m.plain.Store(true)
		return m.stream(ctx, m.config(), r, delta)
	}
	if strings.Contains(e.Msg, "`signature` in `thinking`") {
		if bare, had := withoutThinking(r); had {
			return m.stream(ctx, cfg, bare, delta)
		}
	}
	return resp, err
}

// withoutThinking returns r without what the model thought before. Some
// models take it back only while all that came before it is unchanged, which
// it is no more once old results were left out to make room.
func withoutThinking(r *llm.Request) (bare *llm.Request, had bool) {
	out := *r
	out.Messages = slices.Clone(r.Messages)
	for i, m := range out.Messages {
		blocks := slices.DeleteFunc(slices.Clone(m.Blocks), func(b glovebox.Block) bool { return b.Type == glovebox.BlockReasoning })
		had = had || len(blocks) < len(m.Blocks)
		out.Messages[i].Blocks = blocks
	}
	return &out, had
}

func (m *Model) stream(ctx context.Context, cfg wire.Config, r *llm.Request, delta func(glovebox.ModelDelta)) (*llm.Response, error) {
	body, err := wire.Marshal(encode(cfg, r))
	if err != nil {
		return nil, err
	}
	call := m.cfg.Begin(ctx, delta)
	defer call.End()
	opts := []option.RequestOption{
		option.WithoutEnvironmentDefaults(), option.WithAPIKey(m.cfg.APIKey),
		option.WithHTTPClient(call.Client()), option.WithMaxRetries(0),
	}
	if m.cfg.BaseURL != "" {
		opts = append(opts, option.WithBaseURL(m.cfg.BaseURL))
	}
	o := offered(cfg, r)
	if beta := betas[o.kind]; beta != "" {
		opts = append(opts, option.WithHeader("anthropic-beta", beta))
	}
	messages := sdk.NewMessageService(append([]option.RequestOption{option.WithEnvironmentProduction()}, opts...)...)
	stream := messages.NewStreaming(call.Context(), sdk.MessageNewParams{Model: m.cfg.Info.Name},
		option.WithRequestBody("application/json", body))
	defer stream.Close()

	a := answer{call: call, offer: o}
	for stream.Next() {
		call.Event()
		if err := a.event(stream.Current()); err != nil {
			return nil, call.Fail(err, a.usage)
		}
		if a.done {
			return call.Finish(r, a.finished(), a.stop, a.usage)
		}
	}
	return nil, call.Fail(inStream(stream.Err()), a.usage)
}

// inStream turns the library's form of an error event into ours. An answer of
// HTTP that is no success is told from it by the call.
func inStream(err error) error {
	if e, ok := asError(err); ok && e.RawJSON() != "" && e.StatusCode < 300 {
		return wire.InStream([]byte(e.RawJSON()))
	}
	return err
}

// answer is an answer as it arrives.
type answer struct {
	call   *wire.Call
	offer  offer
	blocks []*block // by the index that the events give them
	usage  glovebox.Usage
	stop   llm.StopReason
	done   bool
}

// block is a block of an answer as it arrives.
type block struct {
	kind      string
	text      []byte // of text and thinking
	signature string
	data      string // of redacted thinking
	id, name  string
	toolset   string // of a call of the provider's own
	input     []byte
	start     json.RawMessage // the input that the block began with
}

// maxBlocks bounds the blocks of an answer.
const maxBlocks = 1024

func (a *answer) event(e sdk.MessageStreamEventUnion) error {
	switch e.Type {
	case "message_start":
		u := e.Message.Usage
		a.usage = glovebox.Usage{Input: u.InputTokens, CacheRead: u.CacheReadInputTokens, CacheWrite: u.CacheCreationInputTokens, Output: u.OutputTokens}
	case "content_block_start":
		return a.begin(e.Index, e.ContentBlock)
	case "content_block_delta":
		if e.Index < 0 || e.Index >= int64(len(a.blocks)) {
			return &llm.Error{Kind: llm.KindMalformed, Msg: "a piece of the answer belongs to no block"}
		}
		return a.piece(a.blocks[e.Index], e.Delta)
	case "message_delta":
		a.stop = stopReason(string(e.Delta.StopReason))
		u := e.Usage // the total so far; older servers leave the input out
		a.usage.Input = max(a.usage.Input, u.InputTokens)
		a.usage.CacheRead = max(a.usage.CacheRead, u.CacheReadInputTokens)
		a.usage.CacheWrite = max(a.usage.CacheWrite, u.CacheCreationInputTokens)
		a.usage.Output = max(a.usage.Output, u.OutputTokens)
		a.usage.Reasoning = u.OutputTokensDetails.ThinkingTokens
	case "message_stop":
		a.done = true
	}
	return nil
}

func (a *answer) begin(index int64, c sdk.ContentBlockStartEventContentBlockUnion) error {
	if index != int64(len(a.blocks)) || index >= maxBlocks {
		return &llm.Error{Kind: llm.KindMalformed, Msg: "the blocks of the answer are not in order"}
	}
	b := &block{kind: c.Type, id: c.ID, name: c.Name, toolset: c.ToolsetName, data: c.Data, signature: c.Signature}
	b.start = json.RawMessage(c.JSON.Input.Raw())
	a.blocks = append(a.blocks, b)
	switch c.Type {
	case "text":
		b.text = []byte(c.Text)
		return a.call.Piece(glovebox.ModelDelta{Type: glovebox.BlockText, Text: c.Text})
	case "thinking":
		b.text = []byte(c.Thinking)
		return a.call.Piece(glovebox.ModelDelta{Type: glovebox.BlockReasoning, Text: c.Thinking})
	case "tool_use":
		name := c.Name
		if a.offer.native(c.Name, c.ToolsetName) {
			name = a.offer.tool.Name
		}
		return a.call.Piece(glovebox.ModelDelta{Type: glovebox.BlockToolUse, Name: name})
	}
	return nil
}

func (a *answer) piece(b *block, d sdk.MessageStreamEventUnionDelta) error {
	switch d.Type {
	case "text_delta":
		b.text = append(b.text, d.Text...)
		return a.call.Piece(glovebox.ModelDelta{Type: glovebox.BlockText, Text: d.Text})
	case "thinking_delta":
		b.text = append(b.text, d.Thinking...)
		return a.call.Piece(glovebox.ModelDelta{Type: glovebox.BlockReasoning, Text: d.Thinking})
	case "signature_delta":
		b.signature += d.Signature
		return a.call.Piece(glovebox.ModelDelta{Type: glovebox.BlockReasoning})
	case "input_json_delta":
		b.input = append(b.input, d.PartialJSON...)
		return a.call.Piece(glovebox.ModelDelta{Type: glovebox.BlockToolUse, Text: d.PartialJSON})
	}
	return nil
}

// finished returns the blocks of a whole answer.
func (a *answer) finished() []glovebox.Block {
	var blocks []glovebox.Block
	for _, b := range a.blocks {
		switch b.kind {
		case "text":
			if len(b.text) > 0 {
				blocks = append(blocks, glovebox.Text(string(b.text)))
			}
		case "thinking":
			if b.signature == "" { // it could not go back
				blocks = append(blocks, glovebox.Block{Type: glovebox.BlockReasoning, Text: string(b.text)})
				continue
			}
			blocks = append(blocks, opaque(string(b.text), thinking{Type: b.kind, Thinking: string(b.text), Signature: b.signature}))
		case "redacted_thinking":
			blocks = append(blocks, opaque("", redacted{Type: b.kind, Data: b.data}))
		case "tool_use":
			input := string(b.input)
			if input == "" {
				input = string(b.start)
			}
			blocks = append(blocks, a.offer.call(b, wire.Input(input)))
		}
	}
	return blocks
}

// opaque returns a block of reasoning that goes back exactly as it came.
func opaque(text string, v any) glovebox.Block {
	raw, err := wire.Marshal(v)
	if err != nil { // strings can always be encoded
		raw = nil
	}
	return glovebox.Block{Type: glovebox.BlockReasoning, Text: text, Provider: Provider, Opaque: raw}
}

func stopReason(s string) llm.StopReason {
	switch s {
	case "tool_use":
		return llm.StopToolUse
	case "max_tokens", "model_context_window_exceeded":
		return llm.StopMaxOutput
	case "refusal":
		return llm.StopRefusal
	}
	return llm.StopEnd
}
