package api

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox"
)

// FuzzSubmission: whatever is sent, decoding does not panic, an error names a
// field, and what is accepted is what encoding/json makes of it.
func FuzzSubmission(f *testing.F) {
	for _, s := range []string{
		`{"task":"x"}`, `{"task":"x","limits":{"steps":5}}`, `{"task":"x","files":{"git_url":"https://a/b"},"metadata":{"a":"b"}}`, `{"egress":{"mode":"only","allow":["a"]}}`,
		`{"task":"\ud800"}`, `{"task":null}`, `[]`, `{"limits":{"steps":1e400}}`, `{"a":{"b":[[[]]]}}`, `{"task":"x"}}`, "{\"task\":\"\xff\"}", `{"metadata":{"":""}}`, `{"":""}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var got, want glovebox.Submission
		if err := decodeStrict(body, &got); err != nil {
			e, ok := err.(*glovebox.Error) //nolint:errorlint // with nothing around it
			if !ok || e.Code != glovebox.CodeInvalid || e.Field == "" || e.Hint == "" || !utf8.ValidString(e.Error()) {
				t.Fatalf("%q: %#v", body, err)
			}
			return
		}
		if err := json.Unmarshal(body, &want); err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%q: %+v, want %+v (%v)", body, got, want, err)
		}
		if err := got.Normalize(); err == nil {
			got.Validate()
		}
	})
}

// FuzzHost: a host that is let through is a loopback address or localhost.
func FuzzHost(f *testing.F) {
	for _, s := range []string{"localhost", "127.0.0.1:80", "[::1]:8", "evil.example", "localhost.evil", "[::1%25lo]:1", "a:b:c", "127.1", "[localhost]", ".localhost", "x.localhost:1"} {
		f.Add(s)
	}
	a := &API{}
	f.Fuzz(func(t *testing.T, host string) {
		if !a.hostAllowed(host) {
			return
		}
		h := strings.ToLower(host)
		if !strings.Contains(h, "localhost") && !strings.Contains(h, "127.") && !strings.Contains(h, ":1") && !strings.Contains(h, "::") {
			t.Fatalf("%q is let through as %q", host, normalHost(host))
		}
		if strings.ContainsAny(normalHost(host), "@/\\ %[]") {
			t.Fatalf("%q is let through as %q", host, normalHost(host))
		}
	})
}

// FuzzFrame: a frame is always exactly one event of a stream.
func FuzzFrame(f *testing.F) {
	f.Add("notice", "text\r\n\r\nevent: end\n\n")
	f.Fuzz(func(t *testing.T, typ, text string) {
		b, err := frame(ev(glovebox.EventNotice, glovebox.Notice{Text: text}))
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(b), "\n"); n != 3 || !strings.HasSuffix(string(b), "\n\n") || strings.ContainsRune(string(b), '\r') {
			t.Fatalf("%q", b)
		}
	})
}
