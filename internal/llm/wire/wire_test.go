package wire

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/leaktest"
	"github.com/glovebox-dev/glovebox/internal/llm"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status int
		body   string
		kind   llm.Kind
		msg    string
	}{
		{429, `{"error":{"message":"Rate limit reached for gpt-6 on tokens per min","type":"tokens","code":"rate_limit_exceeded"}}`, llm.KindRateLimited, "Rate limit reached for gpt-6 on tokens per min"},
		{429, `{"error":{"message":"Request too large for gpt-6 on tokens per min (TPM): Limit 30000, Requested 40000","code":"rate_limit_exceeded"}}`, llm.KindContextTooLong, "Request too large"},
		{400, `[{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT"}}]`, llm.KindAuth, "API key not valid"},
		{400, `{"object":"error","message":"This model's maximum context length is 4096 tokens.","type":"BadRequestError","code":400}`, llm.KindContextTooLong, "This model's maximum"},
		{422, `{"detail":[{"loc":["body"],"msg":"field required"}]}`, llm.KindInvalid, "field required"},
		{404, `{"error":"model 'llama9' not found"}`, llm.KindInvalid, "model 'llama9' not found"},
		{500, "internal server error", llm.KindOverloaded, "internal server error"},
		{502, "", llm.KindOverloaded, "Bad Gateway"},
		{403, `{"error":{"code":403,"message":"This API method requires billing to be enabled.","status":"PERMISSION_DENIED"}}`, llm.KindQuota, "billing"},
		{400, `{"error":{"type":"invalid_request_error","message":"max_tokens: 500000 > 128000, which is the maximum allowed number of output tokens"}}`, llm.KindInvalid, "max_tokens"},
		{307, "", llm.KindInvalid, "Temporary Redirect"},
		{418, "\xff\xfe", llm.KindInvalid, "?"},
	} {
		e := Refused(c.status, http.Header{}, []byte(c.body))
		if e.Kind != c.kind || e.Status != c.status || !strings.Contains(e.Msg, c.msg) {
			t.Errorf("Refused(%d, %s) = %v, want %s", c.status, c.body, e, c.kind)
		}
	}
	if e := Refused(500, nil, []byte(strings.Repeat("é", 10_000))); len(e.Msg) > maxMsg+3 {
		t.Errorf("a message of %d bytes", len(e.Msg))
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for v, want := range map[string]time.Duration{
		"": 0, "3": 3 * time.Second, "0.5": 500 * time.Millisecond, "-1": 0, "NaN": 0, "+Inf": time.Hour, "soon": 0,
		"Fri, 20 Nov 2026 12:00:30 GMT": 30 * time.Second, "Fri, 20 Nov 2020 12:00:30 GMT": 0, "99999999": time.Hour,
	} {
		if got := retryAfter(http.Header{"Retry-After": {v}}, now); got != want {
			t.Errorf("retryAfter(%q) = %v, want %v", v, got, want)
		}
	}
}

func TestInput(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, input, object string }{
		{"", "{}", "{}"},
		{" {\"a\": 1} ", `{"a": 1}`, `{"a": 1}`},
		{`{"a":`, `"{\"a\":"`, `{"unreadable_input":"{\"a\":"}`},
		{`[1]`, `[1]`, `{"unreadable_input":[1]}`},
		{`null`, `null`, `{"unreadable_input":null}`},
		{`rm -rf <x>`, `"rm -rf <x>"`, `{"unreadable_input":"rm -rf <x>"}`},
	} {
		input := Input(c.text)
		if string(input) != c.input {
			t.Errorf("Input(%q) = %s, want %s", c.text, input, c.input)
		}
		if got := InputObject(input); string(got) != c.object || !json.Valid(got) {
			t.Errorf("InputObject(%s) = %s, want %s", input, got, c.object)
		}
	}
}

func TestUniqueIDs(t *testing.T) {
	t.Parallel()
	use := func(id string) glovebox.Block { return glovebox.Block{Type: glovebox.BlockToolUse, CallID: id} }
	r := &llm.Request{Messages: []glovebox.Message{{Role: glovebox.RoleAssistant, Blocks: []glovebox.Block{use("call_0"), use("call_g0_3")}}}}
	blocks := []glovebox.Block{use("call_0"), glovebox.Text("a"), use(""), use("x"), use("x")}
	if n := uniqueIDs(r, blocks); n != 4 {
		t.Errorf("%d calls", n)
	}
	seen := map[string]bool{"call_0": true, "call_g0_3": true}
	for _, b := range blocks {
		if b.Type == glovebox.BlockToolUse && (b.CallID == "" || seen[b.CallID]) {
			t.Errorf("the id %q is not unique", b.CallID)
		}
		seen[b.CallID] = true
	}
}

// FuzzRefused checks that no answer of a server can break the error: it has a
// kind, a bound, and no key.
func FuzzRefused(f *testing.F) {
	f.Add(429, "7", []byte(`{"error":{"message":"a","details":[{"retryDelay":"1s"}]}}`))
	f.Add(400, "Fri, 20 Nov 2026 12:00:30 GMT", []byte(`[{"error":"x"}]`))
	f.Add(0, "1e999", []byte(`{"error":{"code":429}}`))
	f.Fuzz(func(t *testing.T, status int, after string, body []byte) {
		for _, e := range []*llm.Error{Refused(status, http.Header{"Retry-After": {after}}, body), InStream(body)} {
			if e.Kind == "" || len(e.Msg) > maxMsg+3 || e.RetryAfter < 0 || e.RetryAfter > maxRetryAfter {
				t.Errorf("%+v", e)
			}
		}
		if s := redact("a sk-ant-0123456789 b "+string(body)+" secretkey", "secretkey"); strings.Contains(s, "secretkey") || strings.Contains(s, "sk-ant-0") {
			t.Error(s)
		}
	})
}

// TestUniqueIDsOfAJob checks that a call gets an id that no other of the job has,
// also when those before it are no longer in the request.
func TestUniqueIDsOfAJob(t *testing.T) {
	t.Parallel()
	use := func(id string) glovebox.Block { return glovebox.Block{Type: glovebox.BlockToolUse, CallID: id} }
	seen := map[string]bool{}
	for step := range int64(50) {
		blocks := []glovebox.Block{use("call_0"), use(""), use("call_0"), use("functions.shell:1"), use(fmt.Sprintf("call_x7Yq%04d", step)), glovebox.Text("a")}
		if n := uniqueIDs(&llm.Request{Step: step}, blocks); n != 5 {
			t.Fatalf("%d calls", n)
		}
		for _, b := range blocks[:5] {
			if b.CallID == "" || seen[b.CallID] {
				t.Errorf("step %d: the id %q is there twice", step, b.CallID)
			}
			seen[b.CallID] = true
		}
		if id := blocks[4].CallID; id != fmt.Sprintf("call_x7Yq%04d", step) {
			t.Errorf("an id that was unique became %q", id)
		}
	}
}
