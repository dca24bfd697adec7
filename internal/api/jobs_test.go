package api

import (
	"bytes"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
)

// TestDocumentedCall is the call of the README, as curl sends it.
func TestDocumentedCall(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	r := e.do("POST", "/schedule", "Build me a todo app in React", "Content-Type", "application/x-www-form-urlencoded", "User-Agent", "curl/8", "Accept", "*/*")
	if r.StatusCode != http.StatusAccepted {
		t.Fatalf("status %d: %s", r.StatusCode, r.body)
	}
	acc := decode[glovebox.Accepted](t, r.body)
	if r.Header.Get("Location") != acc.StatusURL || acc.StatusURL != "/status/"+acc.JobID || acc.EventsURL != "/jobs/"+acc.JobID+"/events" {
		t.Errorf("got %+v, Location %q", acc, r.Header.Get("Location"))
	}
	v := e.view(acc.JobID)
	if v.Status != glovebox.StatusPending || v.Phase != glovebox.PhaseQueued || v.QueuePosition != 1 || v.Task != "Build me a todo app in React" ||
		v.Model != "replay:test" || v.Limits != glovebox.DefaultLimits() {
		t.Errorf("got %+v", v)
	}
}

func TestSubmitForms(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	for _, tt := range []struct {
		name, contentType, body string
		task                    string
	}{
		{"text", "text/plain", "a & b = c %41", "a & b = c %41"},
		{"text with charset", "text/plain; charset=UTF-8", "grüße 你好 🎉", "grüße 你好 🎉"},
		{"no type", "", "plain", "plain"},
		{"curl", "application/x-www-form-urlencoded", "x=1&y=%20+z", "x=1&y=%20+z"},
		{"curl with JSON", "application/x-www-form-urlencoded", `{"task": "from json"}`, "from json"},
		{"curl with other JSON", "application/x-www-form-urlencoded", `{"fix": "this"}`, `{"fix": "this"}`},
		{"text that is JSON stays text", "text/plain", `{"task": "literal"}`, `{"task": "literal"}`},
		{"json", "application/json", `{"task":"a\nb"}`, "a\nb"},
		{"prompt", "application/json; charset=utf-8", `{"prompt":"hello"}`, "hello"},
		{"largest", "text/plain", strings.Repeat("x", 1<<20), strings.Repeat("x", 2048) + "..."},
		{"one byte", "text/plain", "x", "x"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := e.do("POST", "/submit", tt.body, "Content-Type", tt.contentType)
			if r.StatusCode != 202 {
				t.Fatalf("status %d: %s", r.StatusCode, r.body)
			}
			if v := e.view(decode[glovebox.Accepted](t, r.body).JobID); v.Task != tt.task {
				t.Errorf("task %.80q, want %.80q", v.Task, tt.task)
			}
		})
	}
}

func TestSubmitEverything(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	r := e.do("POST", "/schedule", `{"task":"t","model":"chat:m","limits":{"steps":7,"memory_bytes":536870912},"egress":{"mode":"only","allow":[".example.org"]},
		"metadata":{"a.b":"c"},"files":{"git_url":"https://example.org/x.git","git_ref":"main"}}`, "Content-Type", "application/json")
	if r.StatusCode != 202 {
		t.Fatalf("status %d: %s", r.StatusCode, r.body)
	}
	v := e.view(decode[glovebox.Accepted](t, r.body).JobID)
	want := glovebox.DefaultLimits()
	want.Steps, want.MemoryBytes = 7, 512<<20
	if v.Model != "chat:m" || v.Limits != want || v.Egress.Mode != "only" || v.Egress.Allow[0] != ".example.org" || v.Metadata["a.b"] != "c" ||
		v.Files == nil || v.Files.GitURL != "https://example.org/x.git" || v.Files.GitRef != "main" {
		t.Errorf("got %+v", v)
	}
}

type part struct{ name, file, text string }

func multipartBody(t testing.TB, parts ...part) (body, contentType string) {
	t.Helper()
	var buf bytes.Buffer
	m := multipart.NewWriter(&buf)
	for _, p := range parts {
		create := func(name, _ string) (io.Writer, error) { return m.CreateFormField(name) }
		if p.file != "" {
			create = m.CreateFormFile
		}
		w, err := create(p.name, p.file)
		if err != nil {
			t.Fatal(err)
		}
		w.Write([]byte(p.text))
	}
	m.Close()
	return buf.String(), m.FormDataContentType()
}

func TestSubmitArchive(t *testing.T) {
	t.Parallel()
	e := newEnv(t, func(o *Options) { o.MaxArchive = 1 << 20 })
	zipped := "PK\x03\x04rest"
	body, ct := multipartBody(t, part{"archive", "in.zip", zipped}, part{"options", "", `{"limits":{"steps":5}}`}, part{"task", "", "go on"})
	r := e.do("POST", "/schedule", body, "Content-Type", ct, "Idempotency-Key", "k1")
	if r.StatusCode != 202 {
		t.Fatalf("status %d: %s", r.StatusCode, r.body)
	}
	id := decode[glovebox.Accepted](t, r.body).JobID
	v := e.view(id)
	if v.Files == nil || v.Files.Blob != "jobs/"+id+"/input.zip" || v.Limits.Steps != 5 || v.Task != "go on" {
		t.Fatalf("got %+v", v)
	}
	if got := string(e.blobs.m[v.Files.Blob]); got != zipped {
		t.Errorf("blob %q", got)
	}
	again := e.do("POST", "/schedule", body, "Content-Type", ct, "Idempotency-Key", "k1")
	if got := decode[glovebox.Accepted](t, again.body).JobID; got != id || again.Header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("replay gave %s, want %s", got, id)
	}
	if ks := e.blobs.keys(); len(ks) != 1 {
		t.Errorf("blobs %v: a replay must leave none", ks)
	}
	for _, tt := range []struct {
		name   string
		parts  []part
		status int
		field  string
	}{
		{"not an archive", []part{{"task", "", "t"}, {"archive", "x", "hello"}}, 400, "archive"},
		{"too large", []part{{"task", "", "t"}, {"archive", "x", "PK\x03\x04" + strings.Repeat("x", 1<<20)}}, 413, "archive"},
		{"no task", []part{{"archive", "x", zipped}}, 400, "task"},
		{"unknown part", []part{{"archive", "x", zipped}, {"tusk", "", "t"}}, 400, "parts.tusk"},
		{"twice", []part{{"task", "", "t"}, {"task", "", "t"}}, 400, "task"},
		{"contradiction", []part{{"task", "", "t"}, {"options", "", `{"task":"u"}`}}, 400, "options"},
		{"both sources", []part{{"archive", "x", zipped}, {"options", "", `{"task":"u","files":{"git_url":"https://example.org/x"}}`}}, 400, "files"},
		{"unknown option", []part{{"options", "", `{"tusk":"u"}`}}, 400, "tusk"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			body, ct := multipartBody(t, tt.parts...)
			r := e.do("POST", "/schedule", body, "Content-Type", ct)
			if p := r.problem(t); r.StatusCode != tt.status || p.Field != tt.field || p.Hint == "" {
				t.Errorf("got %d %+v", r.StatusCode, p)
			}
			if ks := e.blobs.keys(); len(ks) != 1 {
				t.Errorf("blobs left: %v", ks)
			}
		})
	}
}

func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	first := e.submit("one", "Idempotency-Key", "k")
	if second := e.submit("one", "Idempotency-Key", "k"); second != first {
		t.Errorf("got %s, want %s", second, first)
	}
	r := e.do("POST", "/schedule", "two", "Content-Type", "text/plain", "Idempotency-Key", "k")
	if p := r.problem(t); r.StatusCode != 409 || p.Code != glovebox.CodeConflict {
		t.Errorf("another request under the key: %d %+v", r.StatusCode, p)
	}
	if third := e.submit("one"); third == first {
		t.Error("without a key every request is a new one")
	}
}

func TestStatusETag(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	id := e.submit("t")
	tag := e.do("GET", "/status/"+id, "").Header.Get("ETag")
	if tag == "" {
		t.Fatal("no ETag")
	}
	for _, h := range []string{tag, `"x", ` + tag, "*", strings.TrimPrefix(tag, "W/")} {
		if r := e.do("GET", "/jobs/"+id, "", "If-None-Match", h); r.StatusCode != 304 || len(r.body) != 0 {
			t.Errorf("If-None-Match %s: %d %s", h, r.StatusCode, r.body)
		}
	}
	e.claim()
	if r := e.do("GET", "/status/"+id, "", "If-None-Match", tag); r.StatusCode != 200 || r.Header.Get("ETag") == tag {
		t.Errorf("after a change: %d, tag %s", r.StatusCode, r.Header.Get("ETag"))
	}
}

func TestLongPoll(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	id := e.submit("t")
	tag := e.do("GET", "/status/"+id, "").Header.Get("ETag")
	type result struct {
		name string
		r    reply
	}
	got := make(chan result)
	refs := make(chan int, 100)
	e.api.feeds.mu.Lock()
	e.api.feeds.onRefs = func(_ string, n int) { refs <- n }
	e.api.feeds.mu.Unlock()
	waiting := func(n int) {
		for <-refs != n {
		}
	}
	go func() { got <- result{"tag", e.do("GET", "/status/"+id+"?wait=60s", "", "If-None-Match", tag)} }()
	go func() { got <- result{"seq", e.do("GET", "/status/"+id+"?wait=60&seq=1", "")} }()
	go func() { got <- result{"now", e.do("GET", "/status/"+id+"?wait=1m", "")} }()
	waiting(3)
	e.claim()
	for range 3 {
		res := <-got
		if v := decode[glovebox.JobView](t, res.r.body); res.r.StatusCode != 200 || v.Status != glovebox.StatusRunning {
			t.Errorf("%s: %d %+v", res.name, res.r.StatusCode, v)
		}
	}
	waiting(0)
	// What the client does not know yet is told at once, and a time that is over is no error.
	if v := decode[glovebox.JobView](t, e.do("GET", "/status/"+id+"?wait=60s&seq=1", "").body); v.Seq < 2 {
		t.Errorf("got %+v", v)
	}
	seq := e.view(id).Seq
	if r := e.do("GET", fmt.Sprintf("/status/%s?wait=1ms&seq=%d", id, seq), ""); r.StatusCode != 200 {
		t.Errorf("timeout: %d", r.StatusCode)
	}
	if r := e.do("GET", "/status/"+id+"?wait=1ms", "", "If-None-Match", fmt.Sprintf(`W/"%d"`, seq)); r.StatusCode != 304 {
		t.Errorf("timeout with a tag: %d", r.StatusCode)
	}
	// Draining ends it.
	go func() { got <- result{"drain", e.do("GET", "/status/"+id+"?wait=60s", "")} }()
	waiting(1)
	e.api.Drain()
	if res := <-got; res.r.StatusCode != 200 {
		t.Errorf("drain: %d", res.r.StatusCode)
	}
}

func TestPhaseTimes(t *testing.T) {
	t.Parallel()
	now := time.Now().Add(time.Hour)
	e := newEnv(t, func(o *Options) { o.Now = func() time.Time { return now } })
	id := e.submit("t")
	if v := e.view(id); v.PhaseMS["queued"] < 3_500_000 {
		t.Errorf("the current phase is not counted: %v", v.PhaseMS)
	}
	l := e.claim()
	e.append(l, finished(glovebox.StatusError))
	v := e.view(id)
	if _, ok := v.PhaseMS["done"]; ok || v.Error == nil || v.Error.Limit != "steps" {
		t.Errorf("got %v %+v", v.PhaseMS, v.Error)
	}
}

func TestListJobs(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	var ids []string
	for i := range 5 {
		ids = append(ids, e.submit(fmt.Sprintf("Task number%d", i)))
	}
	e.claim()
	page := decode[glovebox.JobList](t, e.do("GET", "/jobs?limit=2", "").body)
	if len(page.Jobs) != 2 || page.Jobs[0].JobID != ids[4] || page.Cursor == "" {
		t.Fatalf("got %+v", page)
	}
	next := decode[glovebox.JobList](t, e.do("GET", "/jobs?limit=100&cursor="+page.Cursor, "").body)
	if len(next.Jobs) != 3 || next.Jobs[2].JobID != ids[0] || next.Cursor != "" {
		t.Fatalf("got %+v", next)
	}
	if got := decode[glovebox.JobList](t, e.do("GET", "/jobs?status=running", "").body); len(got.Jobs) != 1 {
		t.Errorf("running: %+v", got)
	}
	if got := decode[glovebox.JobList](t, e.do("GET", "/jobs?status=running&status=pending", "").body); len(got.Jobs) != 5 {
		t.Errorf("running and pending: %+v", got)
	}
	if got := decode[glovebox.JobList](t, e.do("GET", "/jobs?q=NUMBER3", "").body); len(got.Jobs) != 1 || got.Jobs[0].JobID != ids[3] {
		t.Errorf("q: %+v", got)
	}
	if got := string(e.do("GET", "/jobs?status=complete", "").body); got != `{"jobs":[]}`+"\n" {
		t.Errorf("none: %s", got)
	}
}

func TestControl(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	jsonType := []string{"Content-Type", "application/json"}
	pending := e.submit("t")
	r := e.do("POST", "/jobs/"+pending+"/cancel", "")
	if v := decode[glovebox.JobView](t, r.body); r.StatusCode != 202 || v.Status != glovebox.StatusCancelled {
		t.Errorf("cancel of a pending job: %d %+v", r.StatusCode, v)
	}
	if r := e.do("POST", "/jobs/"+pending+"/cancel", ""); r.StatusCode != 202 {
		t.Errorf("cancel twice: %d", r.StatusCode)
	}
	if r := e.do("POST", "/jobs/"+pending+"/messages", "hi", "Content-Type", "text/plain"); r.StatusCode != 409 || r.problem(t).Detail == "" {
		t.Errorf("message to a cancelled job: %d", r.StatusCode)
	}

	id := e.submit("t")
	l := e.claim()
	for _, m := range [][]string{{"text/plain", "use TypeScript"}, {"application/json", `{"text":"and tests"}`}, {"application/x-www-form-urlencoded", "a=b"}} {
		if r := e.do("POST", "/jobs/"+id+"/messages", m[1], "Content-Type", m[0]); r.StatusCode != 202 {
			t.Errorf("message: %d %s", r.StatusCode, r.body)
		}
	}
	if r := e.do("PATCH", "/jobs/"+id+"/limits", `{"steps":400}`, jsonType...); r.StatusCode != 202 {
		t.Errorf("limits: %d %s", r.StatusCode, r.body)
	}
	if r := e.do("PATCH", "/jobs/"+id+"/limits", `{"tokens":30000000}`, jsonType...); r.StatusCode != 202 {
		t.Errorf("limits: %d %s", r.StatusCode, r.body)
	}
	signals, err := e.store.PendingSignals(t.Context(), id)
	if err != nil || len(signals) != 5 {
		t.Fatalf("signals %+v, %v", signals, err)
	}
	if signals[0].Text != "use TypeScript" || signals[1].Text != "and tests" || signals[2].Text != "a=b" {
		t.Errorf("got %+v", signals)
	}
	if got := signals[4].Limits; got == nil || got.Steps != 400 || got.Tokens != 30_000_000 {
		t.Errorf("the second raise forgot the first: %+v", got)
	}
	e.append(l, finished(glovebox.StatusError))
	r = e.do("PATCH", "/jobs/"+id+"/limits", `{"steps":500}`, jsonType...)
	if v := decode[glovebox.JobView](t, r.body); r.StatusCode != 202 || v.Status != glovebox.StatusPending || v.Limits.Steps != 500 {
		t.Errorf("raise after the limit was reached: %d %+v", r.StatusCode, v)
	}
}

func TestDelete(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	id := e.submit("t")
	if r := e.do("DELETE", "/jobs/"+id, ""); r.StatusCode != 409 {
		t.Errorf("pending: %d", r.StatusCode)
	}
	e.complete(e.claim(), map[string]string{"a.txt": "x"})
	if r := e.do("DELETE", "/jobs/"+id, ""); r.StatusCode != 204 {
		t.Errorf("complete: %d %s", r.StatusCode, r.body)
	}
	if r := e.do("GET", "/status/"+id, ""); r.StatusCode != 404 {
		t.Errorf("after: %d", r.StatusCode)
	}
	if ks := e.blobs.keys(); len(ks) != 0 {
		t.Errorf("blobs left: %v", ks)
	}
}
