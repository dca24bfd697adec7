// Package gemini calls Google's Gemini models through the Gemini API.
package gemini

import (
	"context"
	"errors"

	"google.golang.org/genai"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
	"github.com/glovebox-dev/glovebox/internal/llm/wire"
)

// Provider names the maker of opaque data in blocks.
const Provider = "gemini"

// defaultURL is where the API is unless the configuration says otherwise.
const defaultURL = "https://generativelanguage.googleapis.com/"

// Model is a Gemini model. It is safe for concurrent use.
type Model struct{ cfg wire.Config }

var _ llm.Model = (*Model)(nil)

// New returns the model that cfg describes. It opens no connection.
func New(cfg wire.Config) *Model {
	if cfg.BaseURL == "" {
		cfg.BaseURL = defaultURL
	}
	return &Model{cfg}
}

// Encode returns r as it is sent, but for the order of its outermost fields
// and the escaping of < > &, which are the library's. It is a pure function.
func (m *Model) Encode(r *llm.Request) ([]byte, error) { return wire.Marshal(encode(m.cfg, r)) }

// Stream sends r and returns the whole answer.
func (m *Model) Stream(ctx context.Context, r *llm.Request, delta func(glovebox.ModelDelta)) (*llm.Response, error) {
	body, err := asMap(encode(m.cfg, r))
	if err != nil {
		return nil, err
	}
	call := m.cfg.Begin(ctx, delta)
	defer call.End()
	client, err := genai.NewClient(call.Context(), &genai.ClientConfig{
		APIKey: m.cfg.APIKey, Backend: genai.BackendGeminiAPI, HTTPClient: call.Client(),
		HTTPOptions: genai.HTTPOptions{BaseURL: m.cfg.BaseURL},
	})
	if err != nil {
		return nil, call.Fail(&llm.Error{Kind: llm.KindInvalid, Msg: err.Error()}, glovebox.Usage{})
	}
	config := &genai.GenerateContentConfig{
		AutomaticContinuation: new(false), // one call is one request
		HTTPOptions:           &genai.HTTPOptions{ExtrasRequestProvider: func(map[string]any) map[string]any { return body }},
	}
	a := answer{call: call, model: m.cfg.Info.Name}
	for chunk, err := range client.Models.GenerateContentStream(call.Context(), m.cfg.Info.Name, genai.Text("-"), config) {
		if err != nil {
			return nil, call.Fail(inStream(err), a.usage)
		}
		call.Event()
		if err := a.chunk(chunk); err != nil {
			return nil, call.Fail(err, a.usage)
		}
	}
	if !a.done {
		return nil, call.Fail(nil, a.usage)
	}
	if a.broken {
		return nil, call.Fail(&llm.Error{Kind: llm.KindMalformed, Msg: "the model wrote a call that can't be read"}, a.usage)
	}
	return call.Finish(r, a.blocks, a.stop, a.usage)
}

// inStream turns the library's form of an error event into ours.
func inStream(err error) error {
	e, ok := errors.AsType[genai.APIError](err)
	if !ok {
		return err
	}
	raw, err := wire.Marshal(map[string]any{"error": e})
	if err != nil {
		return e
	}
	return wire.InStream(raw)
}

// answer is an answer as it arrives.
type answer struct {
	call   *wire.Call
	model  string
	blocks []glovebox.Block
	open   bool // the last block may grow
	usage  glovebox.Usage
	stop   llm.StopReason
	broken bool
	done   bool
}

// maxBlocks bounds the blocks of an answer.
const maxBlocks = 1024

func (a *answer) chunk(c *genai.GenerateContentResponse) error {
	if u := c.UsageMetadata; u != nil {
		read := int64(u.CachedContentTokenCount)
		a.usage = glovebox.Usage{
			Input: max(0, int64(u.PromptTokenCount)+int64(u.ToolUsePromptTokenCount)-read), CacheRead: read,
			Output: int64(u.CandidatesTokenCount) + int64(u.ThoughtsTokenCount), Reasoning: int64(u.ThoughtsTokenCount),
		}
	}
	if f := c.PromptFeedback; f != nil && f.BlockReason != "" { // there will be no candidate
		a.done, a.stop = true, llm.StopRefusal
	}
	for _, cand := range c.Candidates {
		if cand == nil || cand.Index != 0 {
			continue
		}
		if cand.Content != nil {
			for _, p := range cand.Content.Parts {
				if err := a.part(p); err != nil {
					return err
				}
			}
		}
		if cand.FinishReason != "" && cand.FinishReason != genai.FinishReasonUnspecified {
			a.done, a.stop = true, stopReason(cand.FinishReason)
			a.broken = cand.FinishReason == genai.FinishReasonMalformedFunctionCall || cand.FinishReason == genai.FinishReasonUnexpectedToolCall
		}
	}
	return nil
}

// part adds a part. Pieces of text are joined, but a part with a signature
// stays a block of its own: the signature belongs to that part.
func (a *answer) part(p *genai.Part) error {
	if p == nil {
		return nil
	}
	if len(a.blocks) == maxBlocks {
		return &llm.Error{Kind: llm.KindMalformed, Msg: "the answer has too many parts"}
	}
	if p.FunctionCall != nil {
		return a.function(p)
	}
	kind := glovebox.BlockText
	if p.Thought {
		kind = glovebox.BlockReasoning
	}
	if p.Text == "" && len(p.ThoughtSignature) == 0 {
		return nil
	}
	last := len(a.blocks) - 1
	if a.open && a.blocks[last].Type == kind && len(p.ThoughtSignature) == 0 {
		a.blocks[last].Text += p.Text
	} else {
		b := glovebox.Block{Type: kind, Text: p.Text}
		a.blocks = append(a.blocks, a.withMeta(b, meta{Signature: p.ThoughtSignature}))
		a.open = len(p.ThoughtSignature) == 0
	}
	return a.call.Piece(glovebox.ModelDelta{Type: kind, Text: p.Text})
}

func (a *answer) function(p *genai.Part) error {
	f := p.FunctionCall
	input := []byte("{}")
	if f.Args != nil {
		raw, err := wire.Marshal(f.Args)
		if err != nil {
			return err
		}
		input = raw
	}
	b := glovebox.Block{Type: glovebox.BlockToolUse, CallID: f.ID, Name: f.Name, Input: input}
	a.blocks = append(a.blocks, a.withMeta(b, meta{Signature: p.ThoughtSignature, ID: f.ID}))
	a.open = false
	return a.call.Piece(glovebox.ModelDelta{Type: glovebox.BlockToolUse, Name: f.Name, Text: string(input)})
}

func (a *answer) withMeta(b glovebox.Block, m meta) glovebox.Block {
	if len(m.Signature) == 0 && m.ID == "" {
		return b
	}
	m.Model = a.model
	if raw, err := wire.Marshal(m); err == nil { // strings and bytes can always be encoded
		b.Provider, b.Opaque = Provider, raw
	}
	return b
}

func stopReason(f genai.FinishReason) llm.StopReason {
	switch f {
	case genai.FinishReasonStop:
		return llm.StopEnd
	case genai.FinishReasonMaxTokens:
		return llm.StopMaxOutput
	case genai.FinishReasonSafety, genai.FinishReasonRecitation, genai.FinishReasonBlocklist, genai.FinishReasonProhibitedContent,
		genai.FinishReasonSPII, genai.FinishReasonLanguage, genai.FinishReasonImageSafety, genai.FinishReasonImageProhibitedContent:
		return llm.StopRefusal
	}
	return llm.StopEnd
}
