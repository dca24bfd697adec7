package llmtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
)

// Check returns an error about the first rule of the provider that the body
// of a request breaks. The rules are those of the providers' references, and
// stricter where a request that is accepted would cost more or work less:
//
//   - nothing but known fields; text that can be seen; tools with unique names
//     and schemas that are objects; a conversation that ends with the user
//   - every call answered once, before anything else is said
//   - reasoning returned exactly as it came (that of a [Server] is signed)
//   - calls of the provider's own computer tool returned exactly as they came
//     (those of a [Server] have an id that tells), with results of their form
//   - Anthropic: tools, system and messages in this order; at most four cache
//     breakpoints, none on reasoning; results first in the next message; no
//     image in a result that is an error
//   - OpenAI: nothing stored, reasoning encrypted and directly before what it
//     led to, the results of calls directly behind them, a cache key
//   - Gemini: a signature on the first call of an answer
func Check(api API, body []byte) error {
	switch api {
	case Anthropic:
		return checkAnthropic(body)
	case OpenAI:
		return checkOpenAI(body)
	case Chat:
		return checkChat(body)
	case Gemini:
		return checkGemini(body)
	}
	return fmt.Errorf("unknown API %q", api)
}

// checkHTTP checks what is around the body.
func checkHTTP(api API, r *http.Request) error {
	header, want, path := "Authorization", "Bearer "+Key, ""
	switch api {
	case Anthropic:
		header, want, path = "X-Api-Key", Key, "/v1/messages"
		if r.Header.Get("Anthropic-Version") == "" {
			return errors.New("there is no anthropic-version")
		}
	case OpenAI:
		path = "/v1/responses"
	case Chat:
		path = "/v1/chat/completions"
	case Gemini:
		header, want, path = "X-Goog-Api-Key", Key, "/v1beta/models/*:streamGenerateContent?alt=sse"
	}
	if got := r.Header.Get(header); got != want {
		return fmt.Errorf("the header %s does not have the key", header)
	}
	pattern := "^" + strings.ReplaceAll(regexp.QuoteMeta(path), `\*`, `[a-z0-9.-]+`) + "$"
	if got := r.URL.RequestURI(); r.Method != http.MethodPost || !regexp.MustCompile(pattern).MatchString(got) {
		return fmt.Errorf("%s %s is not the place", r.Method, got)
	}
	if strings.Contains(r.URL.RequestURI(), Key) {
		return errors.New("the key is in the address")
	}
	return nil
}

// inOrder returns an error if those fields of an object that are there do not
// come in this order.
func inOrder(body []byte, fields ...string) error {
	d := json.NewDecoder(bytes.NewReader(body))
	if _, err := d.Token(); err != nil {
		return err
	}
	next := 0
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return err
		}
		for i, f := range fields {
			if f != name {
				continue
			}
			if i < next {
				return fmt.Errorf("%s comes too late", f)
			}
			next = i
		}
	}
	return nil
}

// strict decodes JSON that has no other fields than v.
func strict(raw []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("there is more than one JSON value")
	}
	return nil
}

var (
	toolName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	dataURL  = regexp.MustCompile(`^data:image/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/]+=*$`)
)

// tools checks the declarations of tools.
type tools map[string]bool

func (t tools) add(name string, schema json.RawMessage) error {
	if !toolName.MatchString(name) {
		return fmt.Errorf("tool %q: not a name", name)
	}
	if t[name] {
		return fmt.Errorf("tool %q is declared twice", name)
	}
	t[name] = true
	var s struct{ Type string }
	if json.Unmarshal(schema, &s) != nil || s.Type != "object" {
		return fmt.Errorf("tool %q: the schema is not that of an object", name)
	}
	return nil
}

// ledger keeps which calls wait for an answer.
type ledger struct {
	ever    map[string]bool
	waiting map[string]bool
}

func newLedger() *ledger { return &ledger{map[string]bool{}, map[string]bool{}} }

func (l *ledger) call(id, name string) error {
	if !toolName.MatchString(id) || !toolName.MatchString(name) {
		return fmt.Errorf("call %q of %q: not an id and a name", id, name)
	}
	if l.ever[id] {
		return fmt.Errorf("call %q is there twice", id)
	}
	l.ever[id], l.waiting[id] = true, true
	return nil
}

func (l *ledger) answer(id string) error {
	if !l.waiting[id] {
		return fmt.Errorf("the result %q answers no call that waits for one", id)
	}
	delete(l.waiting, id)
	return nil
}

// settled returns an error if a call has no answer.
func (l *ledger) settled(before string) error {
	for id := range l.waiting {
		return fmt.Errorf("call %q has no result before %s", id, before)
	}
	return nil
}

func isObject(raw json.RawMessage) bool {
	var m map[string]json.RawMessage
	return json.Unmarshal(raw, &m) == nil && m != nil
}

func visible(s string) bool { return strings.TrimSpace(s) != "" }
