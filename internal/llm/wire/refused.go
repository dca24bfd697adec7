package wire

import (
	"bytes"
	"encoding/json"
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox/internal/clip"
	"github.com/glovebox-dev/glovebox/internal/llm"
)

// maxRetryAfter is the longest wait that a server may ask for.
const maxRetryAfter = time.Hour

// fault is what a provider says about an error, whatever shape it says it in.
type fault struct {
	kind  string // its type, code or status, in lower case, separated by spaces
	msg   string
	retry time.Duration
	daily bool // a quota that only the next day brings back
}

// Refused turns an answer of HTTP that is not a success into an error.
func Refused(status int, header http.Header, body []byte) *llm.Error {
	f, ok := parseFault(body)
	if !ok {
		f.msg = strings.TrimSpace(strings.ToValidUTF8(string(body), "?"))
	}
	if f.msg == "" {
		f.msg = http.StatusText(status)
	}
	e := &llm.Error{Kind: f.kindOf(status), Status: status, Msg: clip.Short(f.msg, maxMsg), RetryAfter: retryAfter(header, time.Now())}
	if e.RetryAfter == 0 {
		e.RetryAfter = f.retry
	}
	return e
}

// InStream turns an error that came as an event of a stream, as JSON, into an
// error.
func InStream(data []byte) *llm.Error {
	f, ok := parseFault(data)
	if !ok {
		return &llm.Error{Kind: llm.KindMalformed, Msg: clip.Short(strings.ToValidUTF8(string(data), "?"), maxMsg)}
	}
	return &llm.Error{Kind: f.kindOf(0), Msg: clip.Short(f.msg, maxMsg), RetryAfter: f.retry}
}

// unstreamed looks for an error in an answer that should have been a stream.
func unstreamed(head []byte) *llm.Error {
	if f, ok := parseFault(head); ok {
		return &llm.Error{Kind: f.kindOf(0), Msg: clip.Short(f.msg, maxMsg), RetryAfter: f.retry}
	}
	return nil
}

// parseFault reads an error in JSON: {"error": {...}}, {"error": "..."},
// {"message": ...}, {"detail": ...} or a list with such a thing in it.
func parseFault(body []byte) (fault, bool) {
	body = bytes.TrimSpace(body)
	var list []json.RawMessage
	if json.Unmarshal(body, &list) == nil && len(list) > 0 {
		body = list[0]
	}
	var top map[string]json.RawMessage
	if json.Unmarshal(body, &top) != nil {
		return fault{}, false
	}
	inner := top
	if raw, ok := top["error"]; ok {
		var s string
		if json.Unmarshal(raw, &s) == nil {
			return fault{msg: s}, s != ""
		}
		var m map[string]json.RawMessage
		if json.Unmarshal(raw, &m) == nil && m != nil {
			inner = m
		}
	}
	var f fault
	var kinds []string
	for _, field := range []string{"type", "code", "status"} {
		var v any
		if json.Unmarshal(inner[field], &v) != nil {
			continue
		}
		switch v := v.(type) {
		case string:
			kinds = append(kinds, strings.ToLower(v))
		case float64:
			kinds = append(kinds, strconv.Itoa(int(v)))
		}
	}
	f.kind = strings.Join(kinds, " ")
	for _, field := range []string{"message", "detail"} {
		if json.Unmarshal(inner[field], &f.msg) == nil && f.msg != "" {
			break
		}
		if raw := inner[field]; len(raw) > 0 && raw[0] != '"' {
			f.msg = string(raw)
		}
	}
	f.details(inner["details"])
	return f, f.msg != "" || f.kind != ""
}

// details reads what Google adds: how long to wait, which quota it is.
func (f *fault) details(raw json.RawMessage) {
	var list []struct {
		RetryDelay string `json:"retryDelay"`
		Violations []struct {
			QuotaID string `json:"quotaId"`
		} `json:"violations"`
	}
	if json.Unmarshal(raw, &list) != nil {
		return
	}
	for _, d := range list {
		if t, err := time.ParseDuration(d.RetryDelay); err == nil && t > 0 {
			f.retry = min(t, maxRetryAfter)
		}
		for _, v := range d.Violations {
			f.daily = f.daily || strings.Contains(v.QuotaID, "PerDay")
		}
	}
}

// tooLong is how providers and servers say that a request does not fit.
var tooLong = regexp.MustCompile(`(?i)prompt (is )?too long|exceeds? (the |this |its )?(model'?s? )?(maximum |max |available )?context|context (window|length|limit|size)[^.]{0,60}exceed|exceeds? the context|exceeds? context limit|maximum context length|context_length_exceeded|exceed_context_size|token count[^.]{0,40}exceeds|exceeds the maximum number of tokens|greater than the context length|input (is )?too long|inputs? tokens?[^.]{0,60}must be|request too large for`)

// noMoney is how they say that an account can't pay.
var noMoney = regexp.MustCompile(`(?i)insufficient[_ ](quota|credits?|balance|funds)|credit balance|billing|payment required|out of credits?|exceeded your current quota, please check`)

// badKey is how a key is refused with a status that does not say so.
var badKey = regexp.MustCompile(`(?i)api[_ ]key (not valid|is invalid|not found|expired)|invalid api[_ ]key|api_key_invalid|incorrect api key`)

// byKind are the words of providers for their errors.
var byKind = []struct {
	word string
	kind llm.Kind
}{
	{"context_length_exceeded", llm.KindContextTooLong},
	{"exceed_context_size_error", llm.KindContextTooLong},
	{"request_too_large", llm.KindContextTooLong},
	{"insufficient_quota", llm.KindQuota},
	{"billing", llm.KindQuota},
	{"authentication", llm.KindAuth},
	{"unauthenticated", llm.KindAuth},
	{"permission", llm.KindAuth},
	{"invalid_api_key", llm.KindAuth},
	{"rate_limit", llm.KindRateLimited},
	{"resource_exhausted", llm.KindRateLimited},
	{"overloaded", llm.KindOverloaded},
	{"server_error", llm.KindOverloaded},
	{"internal", llm.KindOverloaded},
	{"unavailable", llm.KindOverloaded},
	{"deadline_exceeded", llm.KindOverloaded},
	{"timeout", llm.KindOverloaded},
	{"api_error", llm.KindOverloaded},
	{"vector_store_timeout", llm.KindOverloaded},
	{"not_found", llm.KindInvalid},
	{"invalid", llm.KindInvalid},
	{"failed_precondition", llm.KindInvalid},
}

// kindOf tells what f is. status is that of HTTP, 0 for an event of a stream.
func (f fault) kindOf(status int) llm.Kind {
	text := f.kind + " " + f.msg
	switch {
	case status == 401 || (status != 429 && status < 500 && badKey.MatchString(text)):
		return llm.KindAuth
	case status == 402:
		return llm.KindQuota
	case status < 500 && tooLong.MatchString(text), status == 413:
		return llm.KindContextTooLong
	case status == 429 && f.daily:
		return llm.KindQuota
	case status == 429 && f.retry > 0:
		return llm.KindRateLimited
	case (status == 0 || status == 400 || status == 403 || status == 429) && !strings.Contains(f.kind, "resource_exhausted") && noMoney.MatchString(text):
		return llm.KindQuota
	case status == 403:
		return llm.KindAuth
	case status == 429:
		return llm.KindRateLimited
	case status == 408 || status == 409 || status == 425 || status >= 500:
		return llm.KindOverloaded
	case status >= 300:
		return llm.KindInvalid
	}
	for _, k := range byKind {
		if strings.Contains(f.kind, k.word) {
			return k.kind
		}
	}
	if n, err := strconv.Atoi(f.kind); err == nil && n >= 400 && n < 600 {
		return f.kindOf(n)
	}
	return llm.KindOverloaded // an error in the middle of an answer, of no known kind
}

// retryAfter reads how long a server wants to be left alone.
func retryAfter(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil {
		return span(ms / 1000)
	}
	v := h.Get("Retry-After")
	if s, err := strconv.ParseFloat(v, 64); err == nil {
		return span(s)
	}
	if t, err := http.ParseTime(v); err == nil {
		return span(t.Sub(now).Seconds())
	}
	return 0
}

func span(seconds float64) time.Duration {
	if math.IsNaN(seconds) || seconds <= 0 {
		return 0
	}
	return time.Duration(min(seconds, maxRetryAfter.Seconds()) * float64(time.Second))
}

// keyLike matches what looks like a key: providers quote part of a wrong one.
var keyLike = regexp.MustCompile(`\b(sk-|AIza|Bearer )[-_.*A-Za-z0-9]{6,}`)

// redact takes keys out of a message.
func redact(s, key string) string {
	if len(key) >= 4 {
		s = strings.ReplaceAll(s, key, "[key]")
	}
	return keyLike.ReplaceAllString(s, "[key]")
}

// maxMsg bounds what is kept of a provider's message.
const maxMsg = 2048
