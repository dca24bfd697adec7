package api

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox"
)

func TestChangeModel(t *testing.T) {
	t.Parallel()
	e := newEnv(t, func(o *Options) {
		o.CheckModel = func(name string) error {
			if name == "nobody:x" {
				return errors.New("no provider nobody")
			}
			return nil
		}
	})
	id := e.submit("x")
	post := func(body string, headers ...string) reply {
		t.Helper()
		if len(headers) == 0 {
			headers = []string{"Content-Type", "application/json"}
		}
		return e.do("POST", "/jobs/"+id+"/model", body, headers...)
	}
	for _, tt := range []struct {
		body, words string
		status      int
	}{
		{`{"model":"nobody:x"}`, "no provider nobody", 400},
		{`{"model":""}`, "is not the name of a model", 400},
		{`{}`, "is not the name of a model", 400},
		{`{"model":"a\nb:c"}`, "is not the name of a model", 400},
		{`{"model":"` + strings.Repeat("x", 201) + `"}`, "at most 200 bytes", 400},
		{`{"model":7}`, "model", 400},
		{`{"name":"x:y"}`, "name", 400},
		{`{"model":"` + strings.Repeat("x", 5000) + `"}`, "", 413},
	} {
		r := post(tt.body)
		if r.problem(t); r.StatusCode != tt.status || !strings.Contains(string(r.body), tt.words) {
			t.Errorf("%.60s: %d %s", tt.body, r.StatusCode, r.body)
		}
	}
	if r := post("x:y", "Content-Type", "text/plain"); r.StatusCode != http.StatusUnsupportedMediaType {
		t.Errorf("text: status %d", r.StatusCode)
	}
	pending := func() []glovebox.Signal {
		t.Helper()
		s, err := e.store.PendingSignals(context.Background(), id)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	if r := post(`{"model":"replay:test"}`); r.StatusCode != http.StatusOK || len(pending()) != 0 {
		t.Errorf("the same model: status %d, signals %v", r.StatusCode, pending())
	}
	l := e.claim()
	if r := post(`{"model":"openai:other"}`); r.StatusCode != http.StatusAccepted {
		t.Fatalf("status %d: %s", r.StatusCode, r.body)
	}
	if r := post(`{"model":"openai:other"}`); r.StatusCode != http.StatusOK {
		t.Errorf("one that is on its way: status %d", r.StatusCode)
	}
	if s := pending(); len(s) != 1 || s[0].Model != "openai:other" {
		t.Errorf("signals %+v", s)
	}
	e.append(l, ev(glovebox.EventModelChanged, glovebox.ModelChanged{Model: "openai:other"}))
	if v := e.view(id); v.Model != "openai:other" {
		t.Errorf("model %q", v.Model)
	}
	e.append(l, finished(glovebox.StatusCancelled))
	if r := post(`{"model":"a:b"}`); r.StatusCode != http.StatusConflict {
		t.Errorf("a job that has ended: status %d", r.StatusCode)
	}
}
