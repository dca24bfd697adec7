// Package llm is the contract for language models.
package llm

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/glovebox-dev/glovebox"
)

// Model is a language model behind some provider's API.
type Model interface {
	// Stream sends a request and returns the whole answer. While it arrives,
	// delta (if not nil) is called with each piece, from one goroutine. The
	// error is an *Error. A cancelled ctx ends the call at once. Stream does not retry.
	Stream(ctx context.Context, r *Request, delta func(glovebox.ModelDelta)) (*Response, error)
}

// Request is one call of a model. The same Request gives the same bytes on
// the wire.
type Request struct {
	System    string             `json:"system"`
	Tools     []ToolSpec         `json:"tools,omitempty"`
	Messages  []glovebox.Message `json:"messages"`
	MaxOutput int64              `json:"max_output"`          // tokens, reasoning included
	CacheKey  string             `json:"cache_key,omitempty"` // one a job: lets the provider route to its cache

	// CacheMarks are places up to which the prefix should be cached, where the
	// provider needs to be told (at most 3, ascending).
	CacheMarks []CacheMark `json:"cache_marks,omitempty"`

	// Step is how many calls of the model the job has had answered, and
	// Attempt is 1 for the first try of a call and grows with each repetition.
	// Nothing of them is sent: a replay finds its place by them.
	Step    int64 `json:"-"`
	Attempt int64 `json:"-"`

	// Aside is set on a call that is none of the job's steps: one for
	// summaries, made beside them. A recording leaves it out.
	Aside bool `json:"-"`
}

// CacheMark is a place in a request: behind a message, or behind its first
// so many blocks.
type CacheMark struct {
	Message int `json:"message"`          // index of Messages
	Blocks  int `json:"blocks,omitempty"` // 0 for all
}

// ToolSpec declares a tool to a model.
type ToolSpec struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema"` // JSON Schema of the input, an object

	// Computer is set for the tool that works a screen. Where the model has a
	// computer tool of its provider's, that is declared too, its calls come as
	// calls of this tool, and this tool is declared as Computer says.
	Computer *Computer `json:"computer,omitempty"`
}

// Computer says what a tool that works a screen is beside a provider's own
// computer tool. The screen's pixels are those of the screenshots that the
// tool returns.
type Computer struct {
	Width       int             `json:"width"`       // of a screenshot, at most
	Height      int             `json:"height"`      // of a screenshot, at most
	Description string          `json:"description"` // of what is left to the tool
	Schema      json.RawMessage `json:"schema"`      // of the input of what is left
}

// ComputerTool returns the tool of r that works a screen, nil if there is none.
func (r *Request) ComputerTool() *ToolSpec {
	for i := range r.Tools {
		if r.Tools[i].Computer != nil {
			return &r.Tools[i]
		}
	}
	return nil
}

// Response is a whole answer.
type Response struct {
	Message    glovebox.Message // of RoleAssistant; at least one block
	StopReason StopReason
	Usage      glovebox.Usage // CostMicros computed from Info's prices
	First      time.Duration  // to the first piece
}

// StopReason says why the model stopped writing.
type StopReason string

// The reasons.
const (
	StopEnd       StopReason = "end"        // it is done speaking
	StopToolUse   StopReason = "tool_use"   // it wants tools run
	StopMaxOutput StopReason = "max_output" // MaxOutput was reached; the message is cut
	StopRefusal   StopReason = "refusal"    // it, or a filter, declined
)

// Info is what is constant about a model. It is data: see models.go.
type Info struct {
	Provider  string // "anthropic", "openai", "gemini", "chat", "replay"
	Name      string
	Window    int64 // tokens, input and output together
	MaxOutput int64 // tokens
	Images    bool  // accepts images
	Reasoning bool  // reasons, and shows it when asked to

	// Computer is the type of the provider's own computer tool that the model
	// was trained with, one of [ComputerTools]; empty if there is none.
	Computer string

	// Prices, in millionths of a US dollar for a million tokens (so 3_000_000
	// is $3 per million tokens). Priced is false if they are unknown.
	Priced                          bool
	InputPrice, OutputPrice         int64
	CacheReadPrice, CacheWritePrice int64

	// A request of more than LongFrom tokens costs LongInput percent of the
	// prices of input (cached or not) and LongOutput percent of that of
	// output. LongFrom 0 means that the prices do not depend on the length.
	LongFrom, LongInput, LongOutput int64

	// The marks, in tokens of a request, at which history is folded and to
	// which. 0: computed from window and prices.
	FoldHigh, FoldLow int64
}

// At returns i with the prices that a request of so many tokens has, whatever
// its length does to them.
func (i Info) At(input int64) Info {
	if i.LongFrom > 0 && input > i.LongFrom {
		i.InputPrice = i.InputPrice * i.LongInput / 100
		i.CacheReadPrice = i.CacheReadPrice * i.LongInput / 100
		i.CacheWritePrice = i.CacheWritePrice * i.LongInput / 100
		i.OutputPrice = i.OutputPrice * i.LongOutput / 100
	}
	i.LongFrom = 0
	return i
}

// Cost returns what u costs in millionths of a US dollar, rounded up.
func (i Info) Cost(u glovebox.Usage) int64 {
	if !i.Priced {
		return 0
	}
	i = i.At(u.Input + u.CacheRead + u.CacheWrite)
	total := u.Input*i.InputPrice + u.Output*i.OutputPrice + u.CacheRead*i.CacheReadPrice + u.CacheWrite*i.CacheWritePrice
	return (total + 999_999) / 1_000_000
}

// MaxCost returns the most that a call can cost, in millionths of a US
// dollar: input tokens that are all the dearest kind, and output tokens.
func (i Info) MaxCost(input, output int64) int64 {
	u := glovebox.Usage{Input: input, Output: output}
	if i.CacheWritePrice > i.InputPrice {
		u.Input, u.CacheWrite = 0, input
	}
	return i.Cost(u)
}

// Kind says what went wrong with a call, and so whether repeating it can help.
type Kind string

// The kinds.
const (
	KindRateLimited    Kind = "rate_limited"     // wait, then repeat
	KindOverloaded     Kind = "overloaded"       // also 5xx; wait, then repeat
	KindNetwork        Kind = "network"          // no connection, or it broke; repeat
	KindStalled        Kind = "stalled"          // nothing came for too long; repeat
	KindTruncated      Kind = "truncated"        // the stream ended before the answer did; repeat
	KindMalformed      Kind = "malformed"        // what came is not the provider's format; repeat
	KindContextTooLong Kind = "context_too_long" // the request must shrink
	KindInvalid        Kind = "invalid"          // the provider refuses the request
	KindAuth           Kind = "auth"             // no key, a wrong one, or no right to the model
	KindQuota          Kind = "quota"            // the account is out of money
	KindCancelled      Kind = "cancelled"        // ctx ended
	KindExhausted      Kind = "exhausted"        // a replay has no further turn
	KindDiverged       Kind = "diverged"         // the job is not as a replay expects it
)

// Retryable reports whether the same request may succeed later.
func (k Kind) Retryable() bool {
	switch k {
	case KindRateLimited, KindOverloaded, KindNetwork, KindStalled, KindTruncated, KindMalformed:
		return true
	}
	return false
}

// Error is a call that gave no answer.
type Error struct {
	Kind       Kind
	Status     int            // of HTTP; 0 if there was none
	Msg        string         // what the provider said; never contains a key
	RetryAfter time.Duration  // as the provider asked; 0 if it did not
	Usage      glovebox.Usage // what it cost nevertheless, where known
	Err        error
}

// Error returns kind, status and message.
func (e *Error) Error() string {
	s := "model: " + string(e.Kind)
	if e.Status != 0 {
		s += fmt.Sprintf(" (HTTP %d)", e.Status)
	}
	if e.Msg != "" {
		s += ": " + e.Msg
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
