package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
	"github.com/glovebox-dev/glovebox/internal/memory"
	"github.com/glovebox-dev/glovebox/internal/store"
)

var testTools = []llm.ToolSpec{{Name: "shell", Description: "Runs a command.", Schema: json.RawMessage(`{"type":"object"}`)}}

func withMemory(o *Options) {
	o.MemoryOptions = func(context.Context, string) (memory.Options, error) { return memory.Options{Tools: testTools}, nil }
}

// teller writes the log of a job as its loop would.
type teller struct {
	*env
	lease store.Lease
	b     *memory.Builder
	seq   int64
	step  int64
}

func (e *env) teller(lease store.Lease) *teller {
	e.t.Helper()
	t := &teller{env: e, lease: lease, b: memory.New(memory.Options{Tools: testTools})}
	t.read()
	return t
}

func (t *teller) read() {
	t.t.Helper()
	events, err := t.store.Events(context.Background(), t.lease.JobID, t.seq, 500)
	if err != nil {
		t.t.Fatal(err)
	}
	for _, e := range events {
		if err := t.b.Apply(e); err != nil {
			t.t.Fatal(err)
		}
		t.seq = e.Seq
	}
}

func (t *teller) tell(events ...glovebox.Event) {
	t.t.Helper()
	t.append(t.lease, events...)
	t.read()
}

// ask records a request and returns its sum.
func (t *teller) ask(attempt int64) string {
	t.t.Helper()
	sha := t.b.Digest(t.b.Request(1000))
	t.tell(ev(glovebox.EventModelRequested, glovebox.ModelRequested{Step: t.step + 1, Attempt: attempt, Model: "replay:test", RequestSHA: sha, MaxOutput: 1000,
		Use: glovebox.WindowUse{Window: 100_000, High: 60_000, Low: 30_000, Head: 900, Tail: 100 * t.step}}))
	return sha
}

func (t *teller) answer(text string) {
	t.t.Helper()
	t.step++
	id := fmt.Sprintf("c%d", t.step)
	t.tell(ev(glovebox.EventModelAnswered, glovebox.ModelAnswered{StopReason: "tool_use", Usage: glovebox.Usage{Input: 100, CacheRead: 300, Output: 10, Calls: 1},
		Message: glovebox.Message{Role: glovebox.RoleAssistant, Blocks: []glovebox.Block{glovebox.Text(text), {Type: glovebox.BlockToolUse, CallID: id, Name: "shell", Input: json.RawMessage(`{"command":"ls"}`)}}}}),
		ev(glovebox.EventToolStarted, glovebox.ToolStarted{CallID: id, Name: "shell", Input: json.RawMessage(`{"command":"ls"}`)}),
		ev(glovebox.EventToolFinished, glovebox.ToolFinished{CallID: id, Name: "shell", Content: []glovebox.Block{glovebox.Text("a.txt")}}))
}

func (e *env) requestView(path string) glovebox.RequestView {
	e.t.Helper()
	r := e.do("GET", path, "")
	if r.StatusCode != http.StatusOK {
		e.t.Fatalf("GET %s: status %d: %s", path, r.StatusCode, r.body)
	}
	return decode[glovebox.RequestView](e.t, r.body)
}

// TestRequestByLink: what the operator tells every model is not for who was
// given a link to watch one job.
func TestRequestByLink(t *testing.T) {
	t.Parallel()
	const told = "Never speak of the merger."
	e := newEnv(t, withMemory, func(o *Options) {
		o.RequireTokens = true
		o.MemoryOptions = func(context.Context, string) (memory.Options, error) {
			return memory.Options{Standing: []string{told}}, nil
		}
	})
	alice, reader := e.token("alice", "write"), e.token("alice", "read")
	id := e.submit("Build a todo app", "Authorization", alice)
	e.teller(e.claim()).ask(1)
	path := "/jobs/" + id + "/requests/1"
	view, control := e.link(id, "view", "Authorization", alice), e.link(id, "control", "Authorization", alice)
	r := e.do("GET", path+"?link="+view, "")
	if p := r.problem(t); r.StatusCode != http.StatusForbidden || p.Code != glovebox.CodeForbidden || p.Hint == "" || strings.Contains(string(r.body), told) {
		t.Errorf("a link to view: %d %s", r.StatusCode, r.body)
	}
	for who, r := range map[string]reply{"a link to control": e.do("GET", path+"?link="+control, ""), "a token to read": e.do("GET", path, "", "Authorization", reader)} {
		if r.StatusCode != http.StatusOK || !strings.Contains(string(r.body), told) {
			t.Errorf("%s: %d %s", who, r.StatusCode, r.body)
		}
	}
}

// TestRequestOfAStep: what is shown is what was asked, byte for byte.
func TestRequestOfAStep(t *testing.T) {
	t.Parallel()
	e := newEnv(t, withMemory)
	id := e.submit("Build a todo app")
	tl := e.teller(e.claim())
	var sums []string
	for i := range 3 {
		sums = append(sums, tl.ask(1))
		tl.answer(fmt.Sprintf("answer %d", i+1))
	}
	failed := tl.ask(1)
	tl.tell(ev(glovebox.EventModelFailed, glovebox.ModelFailed{Kind: "overloaded", Message: "later", Retry: true}), ev(glovebox.EventUserMessage, glovebox.UserMessage{Text: "make it blue"}))
	again := tl.ask(2)

	for i, sha := range sums {
		v := e.requestView(fmt.Sprintf("/jobs/%s/requests/%d", id, i+1))
		if !v.Same || v.SHA256 != sha || v.Step != int64(i+1) || v.Attempts != 1 || v.Epoch != 1 {
			t.Errorf("step %d: %+v, want sum %s", i+1, v, sha)
		}
		req := decode[llm.Request](t, v.Request)
		if memory.Digest(&req) != sha {
			t.Errorf("step %d: what is shown has another sum than what was asked", i+1)
		}
		if len(req.Messages) != 2*i+1 || req.Messages[0].Blocks[1].Text != "Build a todo app" {
			t.Errorf("step %d: %d messages", i+1, len(req.Messages))
		}
	}
	if v := e.requestView("/jobs/" + id + "/requests/newest"); v.SHA256 != again || v.Attempt != 2 || v.Attempts != 2 || !strings.Contains(string(v.Request), "make it blue") {
		t.Errorf("newest attempt: %+v", v)
	}
	if v := e.requestView("/jobs/" + id + "/requests/4?attempt=1"); v.SHA256 != failed || v.Attempt != 1 || strings.Contains(string(v.Request), "make it blue") {
		t.Errorf("first attempt: %+v", v)
	}

	v := e.view(id)
	if m := v.Memory; m == nil || m.Epoch != 1 || m.Tokens != 1200 || m.Use.High != 60_000 || m.CacheShare != 0.75 || m.EpochCacheShare != 0.75 {
		t.Errorf("memory: %+v", v.Memory)
	}
}

// TestRequestOfAnotherVersion: a request that is built otherwise now is shown
// as it is now, and that is said.
func TestRequestOfAnotherVersion(t *testing.T) {
	t.Parallel()
	e := newEnv(t, withMemory)
	id := e.submit("x")
	tl := e.teller(e.claim())
	tl.tell(ev(glovebox.EventModelRequested, glovebox.ModelRequested{Step: 1, Attempt: 1, RequestSHA: "00", MaxOutput: 5}))
	v := e.requestView("/jobs/" + id + "/requests/1")
	if v.Same || v.Recorded != "00" || len(v.SHA256) != 64 {
		t.Errorf("%+v", v)
	}
}

func TestRequestRefusals(t *testing.T) {
	t.Parallel()
	e := newEnv(t, withMemory)
	id := e.submit("x")
	tl := e.teller(e.claim())
	check := func(path string, status int, code glovebox.Code, words string) {
		t.Helper()
		r := e.do("GET", path, "")
		p := r.problem(t)
		if r.StatusCode != status || p.Code != code || !strings.Contains(string(r.body), words) {
			t.Errorf("GET %s: %d %s, want %d and %q", path, r.StatusCode, r.body, status, words)
		}
	}
	check("/jobs/"+id+"/requests/1", 404, glovebox.CodeNotFound, "has not been asked yet")
	tl.ask(1)
	tl.answer("x")
	check("/jobs/"+id+"/requests/2", 404, glovebox.CodeNotFound, "give one from 1 to 1")
	check("/jobs/"+id+"/requests/1?attempt=3", 404, glovebox.CodeNotFound, "has no attempt 3")
	for _, bad := range []string{"0", "-1", "x", "99999999999999999999"} {
		check("/jobs/"+id+"/requests/"+bad, 400, glovebox.CodeInvalid, "the number of a step")
	}
	for _, bad := range []string{"0", "x"} {
		check("/jobs/"+id+"/requests/1?attempt="+bad, 400, glovebox.CodeInvalid, "whole number")
	}
	check("/jobs/"+glovebox.NewID()+"/requests/1", 404, glovebox.CodeNotFound, "there is no job")
	bare := newEnv(t)
	id = bare.submit("x")
	if r := bare.do("GET", "/jobs/"+id+"/requests/1", ""); r.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("without what requests depend on: status %d", r.StatusCode)
	}
}
