package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/clip"
	"github.com/glovebox-dev/glovebox/internal/llm"
)

// Causes for which a call ends itself.
var (
	errStalled = errors.New("stalled")
	errTooLong = errors.New("too long")
)

// Call watches one call of a provider. Its methods, the transport apart, are
// for the goroutine that runs the call.
type Call struct {
	cfg    Config
	outer  context.Context
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	start  time.Time
	delta  func(glovebox.ModelDelta)

	first time.Duration // to the first piece; 0 until it came
	bytes int           // of the answer
	seen  bool          // an event of the provider was understood

	mu      sync.Mutex // what the transport saw
	refused *refusal
	read    int64
	head    []byte // the first bytes of a stream, for a message
	tail    []byte // the last bytes of a stream
	readErr error  // what ended the stream, if not its end
}

// refusal is an answer of HTTP that is not a stream.
type refusal struct {
	status int
	header http.Header
	body   []byte
}

// Begin starts to watch a call. End must be called.
func (c Config) Begin(ctx context.Context, delta func(glovebox.ModelDelta)) *Call {
	call := &Call{cfg: c, outer: ctx, start: time.Now(), delta: delta}
	call.ctx, call.cancel = context.WithCancelCause(ctx)
	if call.cfg.Stall <= 0 {
		call.cfg.Stall = DefaultStall
	}
	if call.cfg.FirstStall <= 0 {
		call.cfg.FirstStall = max(DefaultFirstStall, call.cfg.Stall)
	}
	call.timer = time.AfterFunc(call.cfg.FirstStall, func() { call.cancel(errStalled) })
	return call
}

// End stops watching and frees what the call holds.
func (c *Call) End() {
	c.timer.Stop()
	c.cancel(nil)
}

// Context ends with the call: when its caller does, when it stalls, when its
// answer is too long.
func (c *Call) Context() context.Context { return c.ctx }

// Client is the HTTP client to make the call with, once.
func (c *Call) Client() *http.Client {
	base := c.cfg.HTTP
	if base == nil {
		base = http.DefaultClient
	}
	transport := base.Transport
	if transport == nil {
		transport = http.DefaultTransport
	}
	return &http.Client{
		Transport:     watch{c, transport},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Event says that an event in the provider's format has come.
func (c *Call) Event() { c.seen = true }

// Piece passes a piece of the answer on. It fails when the answer is longer
// than [MaxAnswer].
func (c *Call) Piece(d glovebox.ModelDelta) error {
	if c.first == 0 {
		c.first = max(1, time.Since(c.start))
	}
	c.bytes += len(d.Text)
	if c.bytes > MaxAnswer {
		return &llm.Error{Kind: llm.KindMalformed, Msg: fmt.Sprintf("the answer is longer than %d bytes", MaxAnswer)}
	}
	if c.delta != nil && (d.Text != "" || d.Name != "") {
		c.delta(d)
	}
	return nil
}

// SaidDone reports whether the stream ended with OpenAI's mark for its end,
// which the library does not pass on.
func (c *Call) SaidDone() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return bytes.HasSuffix(bytes.TrimSpace(c.tail), []byte("[DONE]"))
}

// Broken reports whether the stream ended otherwise than by its end.
func (c *Call) Broken() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.readErr != nil || c.ctx.Err() != nil
}

// tailLen is how much of the end of a stream is kept.
const tailLen = 32

// First is the time that the first piece took.
func (c *Call) First() time.Duration { return c.first }

// Fail says what went wrong with the call, given the error that the client
// library returned (nil if the stream just ended) and what the call had
// cost by then.
func (c *Call) Fail(err error, usage glovebox.Usage) *llm.Error {
	e := c.fault(err)
	if usage.Tokens() > 0 {
		usage.Calls = 0
		usage.CostMicros = c.cfg.Info.Cost(usage)
		e.Usage = usage
	}
	e.Msg = redact(e.Msg, c.cfg.APIKey)
	return e
}

func (c *Call) fault(err error) *llm.Error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.outer.Err() != nil {
		return &llm.Error{Kind: llm.KindCancelled, Msg: c.outer.Err().Error(), Err: c.outer.Err()}
	}
	if c.refused != nil {
		return Refused(c.refused.status, c.refused.header, c.refused.body)
	}
	if e, ok := errors.AsType[*llm.Error](err); ok {
		copied := *e
		return &copied
	}
	switch cause := context.Cause(c.ctx); {
	case errors.Is(cause, errStalled):
		wait, what := c.cfg.FirstStall, "nothing came"
		if c.read > 0 {
			wait, what = c.cfg.Stall, "the answer stopped and nothing more came"
		}
		return &llm.Error{Kind: llm.KindStalled, Msg: fmt.Sprintf("%s for %v", what, wait)}
	case errors.Is(cause, errTooLong):
		return &llm.Error{Kind: llm.KindMalformed, Msg: fmt.Sprintf("more than %d bytes came", int64(MaxWire))}
	}
	if errors.Is(c.readErr, io.ErrUnexpectedEOF) {
		return &llm.Error{Kind: llm.KindTruncated, Msg: "the connection ended before the answer did", Err: c.readErr}
	}
	if c.readErr != nil {
		return network(c.readErr)
	}
	if c.read == 0 && err != nil {
		return network(err)
	}
	if !c.seen && len(c.head) > 0 {
		if e := unstreamed(c.head); e != nil {
			return e
		}
		return &llm.Error{Kind: llm.KindMalformed, Msg: fmt.Sprintf("the answer is no stream of events: %.200q", c.head), Err: err}
	}
	if err != nil {
		return &llm.Error{Kind: llm.KindMalformed, Msg: clip.Short(err.Error(), maxMsg), Err: errors.New(redact(clip.Short(err.Error(), maxMsg), c.cfg.APIKey))}
	}
	return &llm.Error{Kind: llm.KindTruncated, Msg: "the answer ended without saying so"}
}

// network is a connection that was not made or broke. The address stays out
// of the message: it may have been given with a password in it.
func network(err error) *llm.Error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	return &llm.Error{Kind: llm.KindNetwork, Msg: clip.Short(err.Error(), maxMsg), Err: err}
}

// watch is the transport of a call.
type watch struct {
	c    *Call
	base http.RoundTripper
}

// RoundTrip sends the request and watches what comes back.
func (w watch) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := w.base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	w.c.timer.Reset(w.c.cfg.FirstStall)
	if resp.StatusCode >= 200 && resp.StatusCode < 300 {
		resp.Body = &watchedBody{w.c, resp.Body}
		return resp, nil
	}
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefuse)) // part of a refusal is better than none
	resp.Body.Close()
	w.c.mu.Lock()
	w.c.refused = &refusal{resp.StatusCode, resp.Header, body}
	w.c.mu.Unlock()
	if resp.StatusCode < 400 { // a library may take it for an answer
		resp.StatusCode = http.StatusBadGateway
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, nil
}

// watchedBody is the body of an answer.
type watchedBody struct {
	c *Call
	io.ReadCloser
}

// Read reads, and notes that something came.
func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	c := b.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if n > 0 {
		c.timer.Reset(c.cfg.Stall)
		c.read += int64(n)
		if room := 1024 - len(c.head); room > 0 {
			c.head = append(c.head, p[:min(n, room)]...)
		}
		c.tail = append(c.tail, p[max(0, n-tailLen):n]...)
		c.tail = c.tail[max(0, len(c.tail)-tailLen):]
		if c.read > MaxWire {
			c.cancel(errTooLong)
			return n, io.EOF
		}
	}
	if err != nil && err != io.EOF {
		c.readErr = err
		err = io.EOF // one library would log it
	}
	return n, err
}
