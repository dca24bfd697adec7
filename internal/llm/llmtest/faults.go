package llmtest

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
)

// faultCase is a misbehaviour and what a provider has to make of it.
type faultCase struct {
	name  string
	fault Fault
	want  llm.Kind // "" if it has to cope
	after time.Duration
	until time.Time // instead of after: a time of day
	only  API       // "" for all
}

// The words of each provider for a request that is too long.
var tooLong = []struct {
	api           API
	status        int
	code, message string
}{
	{Anthropic, 400, "invalid_request_error", "prompt is too long: 208310 tokens > 200000 maximum"},
	{Anthropic, 400, "invalid_request_error", "input length and `max_tokens` exceed context limit: 198000 + 8000 > 200000"},
	{Anthropic, 413, "request_too_large", "Request exceeds the maximum size"},
	{OpenAI, 400, "context_length_exceeded", "Your input exceeds the context window of this model. Please adjust your input and try again."},
	{Gemini, 400, "INVALID_ARGUMENT", "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."},
	{Chat, 400, "invalid_request_error", "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens"},
	{Chat, 400, "exceed_context_size_error", "the request exceeds the available context size, try increasing it"},
	{Chat, 400, "api_error", "prompt too long; exceeded max context length by 12 tokens"},
}

func (x exercise) faultCases() []faultCase {
	until := time.Now().Add(30 * time.Minute).Truncate(time.Second)
	cases := []faultCase{
		{name: "429", fault: Fault{Kind: Refuse, Status: 429, Code: "rate_limit_error", Message: "slow down", Header: map[string]string{"Retry-After": "7"}}, want: llm.KindRateLimited, after: 7 * time.Second},
		{name: "429 in milliseconds", fault: Fault{Kind: Refuse, Status: 429, Code: "rate_limit_error", Header: map[string]string{"Retry-After-Ms": "1500"}}, want: llm.KindRateLimited, after: 1500 * time.Millisecond},
		{name: "429 with a date", fault: Fault{Kind: Refuse, Status: 429, Header: map[string]string{"Retry-After": until.UTC().Format(http.TimeFormat)}}, want: llm.KindRateLimited, until: until},
		{name: "429 for ever", fault: Fault{Kind: Refuse, Status: 429, Header: map[string]string{"Retry-After": "1e300"}}, want: llm.KindRateLimited, after: time.Hour},
		{name: "500", fault: Fault{Kind: Refuse, Status: 500, Code: "api_error", Message: "oops"}, want: llm.KindOverloaded},
		{name: "503", fault: Fault{Kind: Refuse, Status: 503, Code: "UNAVAILABLE", Message: "overloaded"}, want: llm.KindOverloaded},
		{name: "529", fault: Fault{Kind: Refuse, Status: 529, Code: "overloaded_error", Message: "Overloaded"}, want: llm.KindOverloaded},
		{name: "401", fault: Fault{Kind: Refuse, Status: 401, Code: "authentication_error"}, want: llm.KindAuth},
		{name: "403", fault: Fault{Kind: Refuse, Status: 403, Code: "permission_error"}, want: llm.KindAuth},
		{name: "404", fault: Fault{Kind: Refuse, Status: 404, Code: "not_found_error", Message: "model: x"}, want: llm.KindInvalid},
		{name: "400", fault: Fault{Kind: Refuse, Status: 400, Code: "invalid_request_error", Message: "tools.0: no"}, want: llm.KindInvalid},
		{name: "402", fault: Fault{Kind: Refuse, Status: 402, Code: "billing_error"}, want: llm.KindQuota},
		{name: "no money", fault: Fault{Kind: Refuse, Status: 400, Code: "invalid_request_error", Message: "Your credit balance is too low to access the API"}, want: llm.KindQuota},
		{name: "insufficient quota", fault: Fault{Kind: Refuse, Status: 429, Code: "insufficient_quota", Message: "You exceeded your current quota, please check your plan and billing details."}, want: llm.KindQuota},
		{name: "bad key", fault: Fault{Kind: Refuse, Status: 400, Code: "INVALID_ARGUMENT", Message: "API key not valid. Please pass a valid API key."}, want: llm.KindAuth},
		{name: "error event", fault: Fault{Kind: ErrorEvent, After: 3, Code: "overloaded_error", Message: "Overloaded"}, want: llm.KindOverloaded},
		{name: "error event, server", fault: Fault{Kind: ErrorEvent, After: 3, Code: "server_error", Message: "sorry"}, want: llm.KindOverloaded},
		{name: "error event, rate", fault: Fault{Kind: ErrorEvent, After: 3, Code: "rate_limit_exceeded", Message: "slow down"}, want: llm.KindRateLimited},
		{name: "error event first", fault: Fault{Kind: ErrorEvent, Code: "overloaded_error", Message: "Overloaded"}, want: llm.KindOverloaded},
		{name: "end at once", fault: Fault{Kind: End}, want: llm.KindTruncated},
		{name: "end in the middle", fault: Fault{Kind: End, After: 4}, want: llm.KindTruncated},
		{name: "cut at once", fault: Fault{Kind: Cut}, want: llm.KindTruncated},
		{name: "cut in the middle", fault: Fault{Kind: Cut, After: 4}, want: llm.KindTruncated},
		{name: "garbage", fault: Fault{Kind: Garbage}, want: llm.KindMalformed},
		{name: "html", fault: Fault{Kind: HTML}, want: llm.KindMalformed},
		{name: "plain error", fault: Fault{Kind: PlainError, Code: "overloaded_error", Message: "Overloaded"}, want: llm.KindOverloaded},
		{name: "redirect", fault: Fault{Kind: Redirect}, want: llm.KindInvalid},
		{name: "trickle", fault: Fault{Kind: Trickle}},
		{name: "same ids", fault: Fault{Kind: SameIDs}},
		{name: "no ids", fault: Fault{Kind: NoIDs}},
		{name: "no usage", fault: Fault{Kind: NoUsage}},
		{name: "gemini rate", only: Gemini, want: llm.KindRateLimited, after: 17 * time.Second, fault: Fault{Kind: Refuse, Status: 429, Code: "RESOURCE_EXHAUSTED",
			Message: "You exceeded your current quota, please check your plan and billing details.", Details: `[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"17s"}]`}},
		{name: "gemini day", only: Gemini, want: llm.KindQuota, after: 17 * time.Second, fault: Fault{Kind: Refuse, Status: 429, Code: "RESOURCE_EXHAUSTED", Message: "quota",
			Details: `[{"violations":[{"quotaId":"GenerateRequestsPerDayPerProjectPerModel"}]},{"retryDelay":"17s"}]`}},
	}
	for _, l := range tooLong {
		cases = append(cases, faultCase{name: l.message, only: l.api, want: llm.KindContextTooLong, fault: Fault{Kind: Refuse, Status: l.status, Code: l.code, Message: l.message}})
	}
	return cases
}

func (x exercise) faults(t *testing.T) {
	t.Parallel()
	for _, c := range x.faultCases() {
		if c.only != "" && c.only != x.api {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			x.fault(t, c)
		})
	}
	t.Run("bad input", x.badInput)
	t.Run("empty", x.empty)
	t.Run("garbage in the middle", x.garbage)
	t.Run("huge", x.huge)
}

func (x exercise) fault(t *testing.T, c faultCase) {
	_, m := x.start(t, Answer{Blocks: []glovebox.Block{glovebox.Text("I begin"), use("shell", `{"command":"ls"}`), use("shell", `{"command":"pwd"}`)},
		Usage: glovebox.Usage{Input: 10, Output: 5}, Fault: c.fault})
	most := time.Until(c.until)
	resp, err := m.Stream(t.Context(), Request(), nil)
	if KindOf(err) != c.want {
		t.Fatalf("%v, want %q", err, c.want)
	}
	if c.want != "" {
		least := time.Until(c.until)
		if c.until.IsZero() {
			least, most = c.after, c.after
		}
		if e, _ := errors.AsType[*llm.Error](err); e.RetryAfter < least || e.RetryAfter > most {
			t.Errorf("retry after %v, want %v to %v", e.RetryAfter, least, most)
		}
		return
	}
	calls := resp.Message.ToolUses()
	if len(calls) != 2 || calls[0].CallID == calls[1].CallID || calls[0].CallID == "" || string(calls[1].Input) != `{"command":"pwd"}` {
		t.Errorf("calls %s", encode(calls))
	}
}

// badInput is a call whose input is no JSON. It is passed on as a string,
// except by a provider that never lets one out.
func (x exercise) badInput(t *testing.T) {
	t.Parallel()
	_, m := x.start(t, Answer{Blocks: []glovebox.Block{use("shell", `{"command":"ls"}`)}, Fault: Fault{Kind: BadInput}}, Answer{Blocks: []glovebox.Block{glovebox.Text("Sorry")}})
	r := Request()
	resp, err := m.Stream(t.Context(), r, nil)
	if x.api == Gemini {
		if KindOf(err) != llm.KindMalformed {
			t.Error(err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(resp.Message.ToolUses()[0].Input), `"{\"command\": \"cut o"`; got != want {
		t.Errorf("input %s, want %s", got, want)
	}
	reply(r, resp.Message)
	if _, err := m.Stream(t.Context(), r, nil); err != nil {
		t.Errorf("it can't go back: %v", err)
	}
}

func (x exercise) empty(t *testing.T) {
	t.Parallel()
	_, m := x.start(t, Answer{Usage: glovebox.Usage{Input: 10, Output: 1}})
	_, err := m.Stream(t.Context(), Request(), nil)
	if KindOf(err) != llm.KindMalformed {
		t.Fatal(err)
	}
	if e, _ := errors.AsType[*llm.Error](err); e.Usage.Input != 10 || e.Usage.CostMicros == 0 || e.Usage.Calls != 0 {
		t.Errorf("usage %+v", e.Usage)
	}
}

// garbage in the middle of an answer is noticed, or its end is missed.
func (x exercise) garbage(t *testing.T) {
	t.Parallel()
	_, m := x.start(t, Answer{Blocks: []glovebox.Block{glovebox.Text("a story")}, Fault: Fault{Kind: Garbage, After: x.begun()}})
	_, err := m.Stream(t.Context(), Request(), nil)
	if k := KindOf(err); k != llm.KindMalformed && k != llm.KindTruncated {
		t.Error(err)
	}
}

func (x exercise) huge(t *testing.T) {
	t.Parallel()
	_, m := x.start(t, Answer{Blocks: []glovebox.Block{glovebox.Text("a story")}, Fault: Fault{Kind: Huge, After: x.begun()}})
	_, err := m.Stream(t.Context(), Request(), nil)
	if KindOf(err) != llm.KindMalformed || !strings.Contains(err.Error(), "longer than") {
		t.Error(err)
	}
}

// begun is after how many events an answer is under way.
func (x exercise) begun() int {
	if x.api == Gemini {
		return 1
	}
	return 3
}
