// Package openai calls OpenAI's models through the Responses API. Nothing is
// stored there: the whole conversation goes with each call, reasoning in the
// encrypted form in which it came.
package openai

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"

	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/ssestream"
	"github.com/openai/openai-go/v3/responses"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
	"github.com/glovebox-dev/glovebox/internal/llm/wire"
)

// Provider names the maker of opaque data in blocks.
const Provider = "openai"

// defaultURL is where the API is unless the configuration says otherwise.
const defaultURL = "https://api.openai.com/v1"

// Model is a model of OpenAI's. It is safe for concurrent use.
type Model struct {
	cfg wire.Config

	// Summaries of reasoning are for organisations that OpenAI has verified.
	// noSummary is set by the first refusal: reasoning is then not shown.
	noSummary atomic.Bool

	// plain is set when the provider has refused its own computer tool: from
	// then on the model gets ours alone.
	plain atomic.Bool
}

var _ llm.Model = (*Model)(nil)

// New returns the model that cfg describes. It opens no connection.
func New(cfg wire.Config) *Model {
	if cfg.BaseURL == "" {
		cfg.BaseURL = defaultURL
	}
	return &Model{cfg: cfg}
}

// Encode returns r as it is sent.
func (m *Model) Encode(r *llm.Request) ([]byte, error) {
	return wire.Marshal(encode(m.config(), r, !m.noSummary.Load()))
}

// config returns what requests are made from now.
func (m *Model) config() wire.Config {
	cfg := m.cfg
	if m.plain.Load() {
		cfg.Info.Computer = ""
	}
	return cfg
}

// Stream sends r and returns the whole answer.
func (m *Model) Stream(ctx context.Context, r *llm.Request, delta func(glovebox.ModelDelta)) (*llm.Response, error) {
	for {
		cfg, summaries := m.config(), !m.noSummary.Load()
		resp, err := m.stream(ctx, cfg, summaries, r, delta)
		e, ok := errors.AsType[*llm.Error](err)
		switch {
		case !ok || e.Kind != llm.KindInvalid:
			return resp, err
		case summaries && strings.Contains(e.Msg, "verified to generate reasoning summaries"):
			m.noSummary.Store(true)
		case offered(cfg, r) != nil && strings.Contains(e.Msg, "'"+llm.OpenAIComputer+"'"):
			m.plain.Store(true)
		default:
			return resp, err
		}
	}
}

func (m *Model) stream(ctx context.Context, cfg wire.Config, summaries bool, r *llm.Request, delta func(glovebox.ModelDelta)) (*llm.Response, error) {
	body, err := wire.Marshal(encode(cfg, r, summaries))
	if err != nil {
		return nil, err
	}
	call := m.cfg.Begin(ctx, delta)
	defer call.End()
	service := responses.NewResponseService(option.WithBaseURL(m.cfg.BaseURL), option.WithAPIKey(m.cfg.APIKey),
		option.WithHTTPClient(call.Client()), option.WithMaxRetries(0))
	stream := service.NewStreaming(call.Context(), responses.ResponseNewParams{}, option.WithRequestBody("application/json", body))
	defer stream.Close()

	a := answer{call: call, computer: offered(cfg, r)}
	for stream.Next() {
		call.Event()
		if err := a.event(stream.Current()); err != nil {
			return nil, call.Fail(err, a.usage)
		}
		if a.done {
			return call.Finish(r, a.blocks(), a.stop, a.usage)
		}
	}
	err = stream.Err()
	if e, ok := errors.AsType[*ssestream.StreamError](err); ok {
		err = wire.InStream(e.Event.Data)
	}
	return nil, call.Fail(err, a.usage)
}

// answer is an answer as it arrives.
type answer struct {
	call  *wire.Call
	items []responses.ResponseOutputItemUnion // those that are whole, in order

	computer *llm.ToolSpec // ours, which calls of the provider's computer tool are calls of; nil if it is not offered

	parts int // parts of a summary so far
	usage glovebox.Usage
	stop  llm.StopReason
	done  bool
}

// maxItems bounds the items of an answer.
const maxItems = 1024

func (a *answer) event(e responses.ResponseStreamEventUnion) error {
	switch e.Type {
	case "response.output_text.delta", "response.refusal.delta":
		return a.call.Piece(glovebox.ModelDelta{Type: glovebox.BlockText, Text: e.Delta})
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		return a.call.Piece(glovebox.ModelDelta{Type: glovebox.BlockReasoning, Text: e.Delta})
	case "response.reasoning_summary_part.added":
		if a.parts++; a.parts > 1 {
			return a.call.Piece(glovebox.ModelDelta{Type: glovebox.BlockReasoning, Text: "\n\n"})
		}
	case "response.function_call_arguments.delta":
		return a.call.Piece(glovebox.ModelDelta{Type: glovebox.BlockToolUse, Text: e.Delta})
	case "response.output_item.added":
		if e.Item.Type == "function_call" {
			return a.call.Piece(glovebox.ModelDelta{Type: glovebox.BlockToolUse, Name: e.Item.Name})
		}
		if e.Item.Type == "computer_call" && a.computer != nil {
			return a.call.Piece(glovebox.ModelDelta{Type: glovebox.BlockToolUse, Name: a.computer.Name})
		}
	case "response.output_item.done":
		if len(a.items) == maxItems {
			return &llm.Error{Kind: llm.KindMalformed, Msg: "the answer has too many items"}
		}
		a.items = append(a.items, e.Item)
		return a.call.Piece(glovebox.ModelDelta{Type: glovebox.BlockText})
	case "response.completed", "response.incomplete":
		a.finish(e.Response)
	case "response.failed", "error":
		a.count(e.Response.Usage)
		return failed(e)
	}
	return nil
}

// failed returns the error that an event reports.
func failed(e responses.ResponseStreamEventUnion) error {
	raw := e.Response.Error.RawJSON()
	if e.Type == "error" || raw == "" || raw == "null" {
		raw = e.RawJSON()
	}
	return wire.InStream([]byte(raw))
}

// finish takes from the last event what the others did not say.
func (a *answer) finish(r responses.Response) {
	a.done, a.stop = true, llm.StopEnd
	if r.Status == responses.ResponseStatusIncomplete {
		a.stop = llm.StopMaxOutput
		if r.IncompleteDetails.Reason == "content_filter" {
			a.stop = llm.StopRefusal
		}
	}
	if len(a.items) == 0 {
		a.items = r.Output[:min(len(r.Output), maxItems)]
	}
	a.count(r.Usage)
}

func (a *answer) count(u responses.ResponseUsage) {
	read, write := u.InputTokensDetails.CachedTokens, u.InputTokensDetails.CacheWriteTokens
	a.usage = glovebox.Usage{
		Input: max(0, u.InputTokens-read-write), CacheRead: read, CacheWrite: write,
		Output: u.OutputTokens, Reasoning: u.OutputTokensDetails.ReasoningTokens,
	}
}

// blocks returns the blocks of a whole answer.
func (a *answer) blocks() []glovebox.Block {
	var list []glovebox.Block
	for _, item := range a.items {
		switch item.Type {
		case "reasoning":
			list = append(list, reasoningBlock(item))
		case "message":
			for _, c := range item.Content {
				text := c.Text
				if c.Type == "refusal" {
					text, a.stop = c.Refusal, llm.StopRefusal
				}
				if text != "" {
					list = append(list, textBlock(text, string(item.Phase)))
				}
			}
		case "function_call":
			list = append(list, glovebox.Block{Type: glovebox.BlockToolUse, CallID: item.CallID, Name: item.Name, Input: wire.Input(item.Arguments.OfString)})
		case "computer_call":
			if a.computer != nil {
				list = append(list, computerBlocks(a.computer, item)...)
			}
		}
	}
	return list
}

func reasoningBlock(item responses.ResponseOutputItemUnion) glovebox.Block {
	var texts []string
	q := reasoningItem{Type: "reasoning", ID: item.ID, Summary: []summary{}, Encrypted: item.EncryptedContent}
	for _, s := range item.Summary {
		texts = append(texts, s.Text)
		q.Summary = append(q.Summary, summary{Type: "summary_text", Text: s.Text})
	}
	b := glovebox.Block{Type: glovebox.BlockReasoning, Text: strings.Join(texts, "\n\n")}
	if item.EncryptedContent != "" { // otherwise it can't go back
		b = opaque(b, q)
	}
	return b
}

// textBlock returns a block of text with the phase that its maker wants back.
func textBlock(text, phase string) glovebox.Block {
	b := glovebox.Text(text)
	if phase == "" {
		return b
	}
	return opaque(b, textMeta{Phase: phase})
}

func opaque(b glovebox.Block, v any) glovebox.Block {
	if raw, err := wire.Marshal(v); err == nil { // strings can always be encoded
		b.Provider, b.Opaque = Provider, raw
	}
	return b
}
