package api

import (
	"context"
	"testing"

	"github.com/glovebox-dev/glovebox"
)

func TestTakeOver(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	id := e.submit("t")
	post := func(body string, headers ...string) reply {
		t.Helper()
		return e.do("POST", "/jobs/"+id+"/control", body, append([]string{"Content-Type", "application/json"}, headers...)...)
	}
	for body, field := range map[string]string{
		"": "body", "{}": "control", `{"control":"root"}`: "control", `{"control":null}`: "control", `{"Control":"user"}`: "Control", `{"control":1}`: "control", `[]`: "body",
	} {
		if r := post(body); r.StatusCode != 400 || r.problem(t).Field != field {
			t.Errorf("%s: %d %s", body, r.StatusCode, r.body)
		}
	}
	if r := post("user", "Content-Type", "text/plain"); r.StatusCode != 415 {
		t.Errorf("text: %d", r.StatusCode)
	}
	if r := post(`{"control":"` + string(make([]byte, 2000)) + `"}`); r.StatusCode != 413 {
		t.Errorf("a long body: %d", r.StatusCode)
	}
	if r := e.do("POST", "/jobs/"+glovebox.NewID()+"/control", `{"control":"user"}`, "Content-Type", "application/json"); r.StatusCode != 404 {
		t.Errorf("no such job: %d", r.StatusCode)
	}

	// A job that waits for a worker.
	for range 2 {
		if r := post(`{"control":"user"}`); r.StatusCode != 202 || decode[glovebox.JobView](t, r.body).Control != glovebox.ControlUser {
			t.Fatalf("%d %s", r.StatusCode, r.body)
		}
	}
	if v := e.view(id); v.Seq != 2 {
		t.Errorf("taken %d times", v.Seq-1)
	}
	// A running one: what is on its way counts.
	l := e.claim()
	signals := func() int {
		t.Helper()
		s, err := e.store.PendingSignals(context.Background(), id)
		if err != nil {
			t.Fatal(err)
		}
		return len(s)
	}
	for _, c := range []struct {
		body string
		want int
	}{{`{"control":"user"}`, 0}, {`{"control":"agent"}`, 1}, {`{"control":""}`, 1}, {`{"control":"user"}`, 2}, {`{"control":"user"}`, 2}} {
		if r := post(c.body); r.StatusCode != 202 || signals() != c.want {
			t.Errorf("%s: %d, %d signals", c.body, r.StatusCode, signals())
		}
	}
	e.append(l, finished(glovebox.StatusCancelled))
	if r := post(`{"control":"user"}`); r.StatusCode != 409 {
		t.Errorf("a job that has ended: %d %s", r.StatusCode, r.body)
	}
	if v := e.view(id); v.Control != "" {
		t.Error("a person holds the mouse of a job that has ended")
	}
}
