// Package llmtest serves scripted answers in the real formats of the
// providers, over HTTP, to whoever tests something that calls a model.
//
// A server refuses every request that breaks a rule of its provider, by itself
// (see [Check]) or after those before it of the same job (see [Conversation]),
// with the rule in the message and as a failure of the test. It can be told to
// misbehave in the ways in which providers do.
package llmtest

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
)

// API is the format that a server speaks.
type API string

// The formats.
const (
	Anthropic API = "anthropic" // Messages
	OpenAI    API = "openai"    // Responses
	Chat      API = "chat"      // chat completions
	Gemini    API = "gemini"    // streamGenerateContent
)

// Native marks a call of the provider's own computer tool in an [Answer]. For
// Anthropic its Name is a member of the toolset, or "computer" for the versions
// before that. For OpenAI its Input is the computer_call without its ids.
const Native = "native"

// Key is the key that every server wants.
const Key = "sk-llmtest-0123456789abcdef"

// Answer is what a server says to one request: blocks, or a misbehaviour.
type Answer struct {
	// Blocks are text, reasoning and tool_use. Reasoning is signed or
	// encrypted by the server, and has to come back that way; with the Name
	// "redacted" (Anthropic) it has no text. A CallID may be empty. A tool_use
	// of the Provider [Native] is one of the provider's own computer tool.
	Blocks []glovebox.Block
	Stop   llm.StopReason // empty: follows from Blocks
	Usage  glovebox.Usage
	Fault  Fault
}

// Fault is a way to misbehave. The zero Fault is none.
type Fault struct {
	Kind    FaultKind
	After   int               // events before it, where it is in the middle of an answer
	Status  int               // of Refuse
	Header  map[string]string // of Refuse
	Code    string            // of Refuse and ErrorEvent, in the provider's words
	Message string            // of Refuse and ErrorEvent
	Details string            // of Refuse by Gemini: more JSON
}

// FaultKind is what goes wrong.
type FaultKind int

// The ways to misbehave.
const (
	None       FaultKind = iota
	Refuse               // a status of HTTP with an error
	ErrorEvent           // an error in the middle of the answer
	End                  // the answer ends early, as if it were whole
	Cut                  // the connection breaks
	Stall                // nothing more comes until the client leaves
	BadInput             // the inputs of calls are no JSON
	SameIDs              // all calls have the same id
	NoIDs                // calls have no id
	NoUsage              // no tokens are counted
	Huge                 // the answer never ends
	Garbage              // bytes that are no events
	HTML                 // a page of some proxy, with status 200
	PlainError           // an error as plain JSON, with status 200
	Redirect             // to somewhere else
	Trickle              // the answer comes a byte at a time
)

// Server is a provider.
type Server struct {
	URL string // with the path that the provider's base URL has

	tb   testing.TB
	api  API
	http *httptest.Server

	script func(Sent) Answer // instead of answers
	window int64             // tokens; 0 is none

	mu       sync.Mutex
	answers  []Answer
	requests [][]byte
	jobs     []*job
	bare     bool          // the next request may leave reasoning out
	stalled  chan struct{} // receives when an answer has stalled
}

// NewServer starts a server that gives the answers in order. It stops with
// the test, which fails if a request breaks a rule or has no answer.
func NewServer(tb testing.TB, api API, answers ...Answer) *Server {
	tb.Helper()
	s := &Server{tb: tb, api: api, answers: answers, stalled: make(chan struct{}, 64)}
	s.start()
	return s
}

// NewScripted starts a server whose answers script gives, one at a time. What
// an answer cost is counted, with a cache that never forgets, unless the answer
// says so itself. A request of more tokens than the window is refused, and
// fails the test, as one that breaks a rule does. The bodies of requests are
// not kept.
func NewScripted(tb testing.TB, api API, window int64, script func(Sent) Answer) *Server {
	tb.Helper()
	s := &Server{tb: tb, api: api, script: script, window: window, stalled: make(chan struct{}, 64)}
	s.start()
	return s
}

func (s *Server) start() {
	s.http = httptest.NewServer(http.HandlerFunc(s.serve))
	s.URL = s.http.URL
	if s.api == OpenAI || s.api == Chat {
		s.URL += "/v1"
	}
	s.tb.Cleanup(s.http.Close)
}

// Client returns a client whose connections end with the server.
func (s *Server) Client() *http.Client { return s.http.Client() }

// Requests returns the bodies that were sent so far.
func (s *Server) Requests() [][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([][]byte(nil), s.requests...)
}

// Stalled is received from when an answer has come to where it stalls.
func (s *Server) Stalled() <-chan struct{} { return s.stalled }

// maxRequest bounds the body of a request.
const maxRequest = 64 << 20

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err != nil {
		return
	}
	problem := checkHTTP(s.api, r)
	if problem == nil && s.api == Anthropic {
		problem = checkBeta(r.Header, body)
	}
	var a Answer
	if problem == nil {
		a, problem = s.answer(r.Context(), modelIn(r.URL.Path), body)
	}
	if errors.Is(problem, errLeft) {
		return
	}
	if problem != nil {
		s.tb.Errorf("%s: %v", s.api, problem)
		s.refuse(w, Fault{Status: 400, Code: "invalid_request_error", Message: problem.Error()})
		return
	}
	switch a.Fault.Kind {
	case Refuse:
		s.refuse(w, a.Fault)
	case HTML:
		w.Header().Set("Content-Type", "text/html")
		io.WriteString(w, "<html><body>Please sign in to the network</body></html>")
	case PlainError:
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, errorBody(s.api, a.Fault))
	case Redirect:
		http.Redirect(w, r, s.http.URL+"/elsewhere", http.StatusTemporaryRedirect)
	default:
		s.stream(w, r, a)
	}
}

func (s *Server) refuse(w http.ResponseWriter, f Fault) {
	for k, v := range f.Header {
		w.Header().Set(k, v)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(f.Status)
	io.WriteString(w, errorBody(s.api, f))
}

// stream sends an answer as events, up to its fault.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, a Answer) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	flush := func() { http.NewResponseController(w).Flush() }
	flush()
	frames := Frames(s.api, a)
	f := a.Fault
	switch f.Kind {
	case ErrorEvent, End, Cut, Stall, Huge, Garbage:
		frames = frames[:min(f.After, len(frames))]
	}
	for _, frame := range frames {
		if f.Kind == Trickle {
			trickle(w, frame, flush)
			continue
		}
		io.WriteString(w, frame)
		flush()
	}
	switch f.Kind {
	case ErrorEvent:
		io.WriteString(w, errorFrame(s.api, f))
	case Cut:
		panic(http.ErrAbortHandler)
	case Stall:
		s.stalled <- struct{}{}
		<-r.Context().Done()
	case Huge:
		s.flood(w, r)
	case Garbage:
		io.WriteString(w, "\x00\xff not an event\n\n{]\n\n"+strings.Repeat("x", 4096)+"\n\n")
	}
}

func trickle(w io.Writer, frame string, flush func()) {
	for i := range len(frame) {
		io.WriteString(w, frame[i:i+1])
		flush()
	}
}

// flood repeats a piece of text until the client leaves.
func (s *Server) flood(w io.Writer, r *http.Request) {
	big := Frames(s.api, Answer{Blocks: []glovebox.Block{glovebox.Text(strings.Repeat("all work and no play ", 50_000))}})
	var pieces bytes.Buffer
	for _, frame := range big {
		if len(frame) > 100_000 && (strings.Contains(frame, `"delta"`) || s.api == Gemini) {
			pieces.WriteString(frame)
		}
	}
	deadline := time.Now().Add(time.Minute) // a client that never leaves is a failure, not a hang
	for r.Context().Err() == nil && time.Now().Before(deadline) {
		if _, err := w.Write(pieces.Bytes()); err != nil {
			return
		}
	}
	if r.Context().Err() == nil {
		s.tb.Errorf("%s: the client reads an answer without end", s.api)
	}
}
