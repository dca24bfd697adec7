package api

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox"
)

// TestLongPaste: what is too long for a signal is kept whole, and the event
// has its beginning.
func TestLongPaste(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	pending := e.submit("t")
	long := strings.Repeat("äöü € 😀\n", 400_000)[:5<<20]
	long = strings.ToValidUTF8(long, "") + "END"
	asJSON, err := json.Marshal(map[string]string{"text": long})
	if err != nil {
		t.Fatal(err)
	}
	for name, body := range map[string][2]string{"text": {"text/plain", long}, "json": {"application/json", string(asJSON)}, "again": {"text/plain", long}} {
		if r := e.do("POST", "/jobs/"+pending+"/messages", body[1], "Content-Type", body[0]); r.StatusCode != 202 {
			t.Fatalf("%s: %d %s", name, r.StatusCode, r.body)
		}
	}
	check := func(m glovebox.UserMessage) {
		t.Helper()
		if len(m.Text) > glovebox.MaxSignalText || m.Size != int64(len(long)) || m.Blob == "" || !utf8.ValidString(m.Text) || len(m.Text) < glovebox.MaxSignalText-1200 {
			t.Fatalf("%d bytes of text, %d in all, blob %q", len(m.Text), m.Size, m.Blob)
		}
		if !strings.HasPrefix(long, m.Text) || long[len(m.Text)] != '\n' {
			t.Errorf("it ends with %q", m.Text[len(m.Text)-200:])
		}
		r := e.do("GET", "/jobs/"+pending+"/outputs/"+m.Blob, "")
		if r.StatusCode != 200 || string(r.body) != long {
			t.Errorf("the whole is %d, %d bytes", r.StatusCode, len(r.body))
		}
	}
	events, err := e.store.Events(t.Context(), pending, 1, 10)
	if err != nil || len(events) != 3 {
		t.Fatalf("%d events, %v", len(events), err)
	}
	for _, ev := range events {
		m, err := glovebox.Decode[glovebox.UserMessage](ev)
		if err != nil {
			t.Fatal(err)
		}
		check(m)
	}
	outputs := 0
	for _, k := range e.blobs.keys() {
		if strings.Contains(k, "/outputs/") {
			outputs++
		}
	}
	if outputs != 1 {
		t.Errorf("the same text is kept %d times", outputs)
	}

	// A running job gets it as a signal.
	l := e.claim()
	if r := e.do("POST", "/jobs/"+pending+"/messages", long, "Content-Type", "text/plain"); r.StatusCode != 202 {
		t.Fatalf("%d %s", r.StatusCode, r.body)
	}
	signals, err := e.store.PendingSignals(t.Context(), l.JobID)
	if err != nil || len(signals) != 1 {
		t.Fatalf("%v, %v", signals, err)
	}
	check(glovebox.UserMessage{Text: signals[0].Text, Blob: signals[0].Blob, Size: signals[0].Size})

	// The bounds: all of 64 KiB in the signal, 8 MiB kept, more refused.
	id := e.submit("t2")
	for n, status := range map[int]int{glovebox.MaxSignalText: 202, glovebox.MaxSignalText + 1: 202, glovebox.MaxUserText: 202, glovebox.MaxUserText + 1: 413} {
		r := e.do("POST", "/jobs/"+id+"/messages", strings.Repeat("x", n), "Content-Type", "text/plain")
		if r.StatusCode != status {
			t.Errorf("%d bytes: %d %.300s", n, r.StatusCode, r.body)
		} else if status == 413 && (r.problem(t).Hint == "" || !strings.Contains(r.problem(t).Detail, "8388608")) {
			t.Errorf("%s", r.body)
		}
	}
	req := e.request(http.MethodPost, "/jobs/"+id+"/messages", bytes.NewReader(bytes.Repeat([]byte(" "), glovebox.MaxSignalText+1)), "Content-Type", "text/plain")
	if r := e.send(req); r.StatusCode != 400 {
		t.Errorf("blank: %d", r.StatusCode)
	}

	// To a job that has ended nothing is kept.
	e.append(l, finished(glovebox.StatusCancelled))
	before := len(e.blobs.keys())
	if r := e.do("POST", "/jobs/"+l.JobID+"/messages", long+"new", "Content-Type", "text/plain"); r.StatusCode != 409 {
		t.Errorf("ended: %d %s", r.StatusCode, r.body)
	}
	if got := len(e.blobs.keys()); got != before {
		t.Error("it is kept")
	}
}
