package api

import (
	"flag"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"

	"github.com/glovebox-dev/glovebox"
)

var update = flag.Bool("update", false, "write docs/openapi.json")

const committedSpec = "../../docs/openapi.json"

// TestSpecIsCurrent: docs/openapi.json is what the server serves. After a
// change: go test ./internal/api -run TestSpecIsCurrent -update
func TestSpecIsCurrent(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	r := e.do("GET", "/openapi.json", "")
	if *update {
		if err := os.WriteFile(committedSpec, r.body, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(committedSpec)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != string(r.body) {
		t.Errorf("%s is not current: run this test with -update", committedSpec)
	}
}

// TestAnswersMatchSpec: what the server answers is what the document says.
func TestAnswersMatchSpec(t *testing.T) {
	t.Parallel()
	e := newEnv(t, withMemory)
	doc := describeAPI(e.api.routes())
	id := e.submit("t")
	l := e.claim()
	e.append(l, ev(glovebox.EventModelRequested, glovebox.ModelRequested{Step: 1, Attempt: 1, Use: glovebox.WindowUse{Window: 9, Head: 5}}), ev(glovebox.EventPlan, glovebox.PlanUpdated{Steps: []glovebox.PlanStep{{Text: "a", Status: glovebox.PlanDone}}}),
		ev(glovebox.EventSandboxReady, glovebox.SandboxReady{ID: "s", Driver: "fake", Enforced: map[string]string{"memory_bytes": "cgroup v2"}}),
		ev(glovebox.EventVerified, glovebox.Verified{Passed: true, Proofs: []glovebox.Proof{{Command: "true"}}}))
	e.complete(l, map[string]string{"a": "x"})
	for _, tt := range []struct{ method, route, path, body string }{
		{"post", "/schedule", "/schedule", "x"},
		{"post", "/schedule", "/schedule", ""},
		{"get", "/status/{id}", "/status/" + id, ""},
		{"get", "/status/{id}", "/status/x", ""},
		{"get", "/jobs", "/jobs", ""},
		{"get", "/jobs", "/jobs?limit=x", ""},
		{"get", "/jobs/{id}/events", "/jobs/" + id + "/events", ""},
		{"get", "/jobs/{id}/artifact", "/jobs/" + id + "/artifact", ""},
		{"get", "/jobs/{id}/files/{path}", "/jobs/" + id + "/files/", ""},
		{"post", "/jobs/{id}/messages", "/jobs/" + id + "/messages", "x"},
		{"post", "/jobs/{id}/cancel", "/jobs/" + id + "/cancel", ""},
		{"get", "/jobs/{id}/steps", "/jobs/" + id + "/steps", ""},
		{"get", "/jobs/{id}/diff", "/jobs/" + id + "/diff", ""},
		{"get", "/jobs/{id}/diff", "/jobs/" + id + "/diff?from=9", ""},
		{"get", "/jobs/{id}/requests/{step}", "/jobs/" + id + "/requests/newest", ""},
		{"get", "/jobs/{id}/requests/{step}", "/jobs/" + id + "/requests/2", ""},
		{"get", "/jobs/{id}/requests/{step}", "/jobs/" + id + "/requests/x", ""},
		{"post", "/jobs/{id}/model", "/jobs/" + id + "/model", "x"},
		{"post", "/jobs/{id}/control", "/jobs/" + id + "/control", ""},
		{"put", "/projects/{project}/memory/{file}", "/projects/p/memory/a.md", "x"},
		{"put", "/projects/{project}", "/projects/p", "x"},
		{"get", "/projects", "/projects", ""},
		{"get", "/projects/{project}", "/projects/p", ""},
		{"get", "/projects/{project}", "/projects/q", ""},
		{"get", "/healthz", "/healthz", ""},
	} {
		r := e.do(strings.ToUpper(tt.method), tt.path, tt.body, "Content-Type", "text/plain")
		op := map[string]*huma.Operation{"get": doc.Paths[tt.route].Get, "post": doc.Paths[tt.route].Post, "put": doc.Paths[tt.route].Put}[tt.method]
		resp := op.Responses[strconv.Itoa(r.StatusCode)]
		if resp == nil {
			t.Errorf("%s %s: status %d is not in the document", tt.method, tt.path, r.StatusCode)
			continue
		}
		media := resp.Content[r.Header.Get("Content-Type")]
		if media == nil {
			t.Errorf("%s %s: content type %s is not in the document", tt.method, tt.path, r.Header.Get("Content-Type"))
			continue
		}
		var res huma.ValidateResult
		huma.Validate(doc.Components.Schemas, media.Schema, huma.NewPathBuffer(nil, 0), huma.ModeReadFromServer, decode[any](t, r.body), &res)
		for _, err := range res.Errors {
			t.Errorf("%s %s: %v in %s", tt.method, tt.path, err, r.body)
		}
	}
}
