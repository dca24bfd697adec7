package api

import (
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/project"
)

func TestProjects(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	do := func(status int, method, path, body string, headers ...string) reply {
		t.Helper()
		r := e.do(method, path, body, headers...)
		if r.StatusCode != status {
			t.Fatalf("%s %s: status %d: %s", method, path, r.StatusCode, r.body)
		}
		return r
	}
	js, text := []string{"Content-Type", "application/json"}, []string{"Content-Type", "text/plain"}
	if l := decode[glovebox.ProjectList](t, do(200, "GET", "/projects", "").body); l.Projects == nil || len(l.Projects) != 0 {
		t.Errorf("%+v", l)
	}
	v := decode[glovebox.ProjectView](t, do(200, "PUT", "/projects/web/memory/conventions.md", "Use tabs.\n", text...).body)
	if v.Project != "web" || !v.Memory || len(v.Files) != 1 || v.Files[0].Size != 10 || v.UpdatedAt.IsZero() {
		t.Errorf("%+v", v)
	}
	r := do(200, "GET", "/projects/web/memory/conventions.md", "")
	tag := r.Header.Get("ETag")
	if string(r.body) != "Use tabs.\n" || r.Header.Get("Content-Type") != "text/plain; charset=utf-8" || tag == "" {
		t.Errorf("%q, %v", r.body, r.Header)
	}
	do(200, "PUT", "/projects/web/memory/conventions.md", "Use spaces.\n", "Content-Type", "text/plain", "If-Match", tag)
	do(409, "PUT", "/projects/web/memory/conventions.md", "Use both.\n", "Content-Type", "text/plain", "If-Match", tag)
	do(409, "PUT", "/projects/web/memory/new.md", "x", "Content-Type", "text/plain", "If-Match", tag)
	if v := decode[glovebox.ProjectView](t, do(200, "PUT", "/projects/web", `{"memory": false}`, js...).body); v.Memory {
		t.Errorf("%+v", v)
	}
	if v := decode[glovebox.ProjectView](t, do(200, "GET", "/projects/web", "").body); v.Memory || len(v.Files) != 1 {
		t.Errorf("%+v", v)
	}
	do(200, "PUT", "/projects/never-seen", `{"memory": false}`, js...)
	if l := decode[glovebox.ProjectList](t, do(200, "GET", "/projects", "").body); len(l.Projects) != 2 || l.Projects[0].Project != "never-seen" {
		t.Errorf("%+v", l)
	}
	do(204, "DELETE", "/projects/web/memory/conventions.md", "")
	do(404, "DELETE", "/projects/web/memory/conventions.md", "")
	do(204, "DELETE", "/projects/web", "")
	do(404, "DELETE", "/projects/web", "")
	do(404, "GET", "/projects/web", "")
	do(404, "GET", "/projects/web/memory/conventions.md", "")
	do(404, "GET", "/projects/.hidden", "")
	do(404, "GET", "/projects/never-seen/memory/x", "")
	if r := do(405, "PATCH", "/projects/web", "", js...); !strings.Contains(r.Header.Get("Allow"), "PUT") {
		t.Errorf("Allow is %q", r.Header.Get("Allow"))
	}

	for name, tt := range map[string]struct {
		status            int
		path, body, field string
		kind              []string
	}{
		"long file":        {413, "/projects/p/memory/a", strings.Repeat("x", glovebox.MaxProjectFile+1), "text", text},
		"not UTF-8":        {400, "/projects/p/memory/a", "\xff", "text", text},
		"NUL":              {400, "/projects/p/memory/a", "\x00", "text", text},
		"file name":        {400, "/projects/p/memory/.a", "x", "file", text},
		"escaped name":     {400, "/projects/p/memory/a%2fb", "x", "file", text},
		"long name":        {400, "/projects/p/memory/" + strings.Repeat("x", 65), "x", "file", text},
		"project":          {400, "/projects/a%20b/memory/a", "x", "project", text},
		"parent":           {400, "/projects/%2e%2e%2fother/memory/a", "x", "project", text},
		"file as JSON":     {415, "/projects/p/memory/a", `"x"`, "Content-Type", js},
		"switch as text":   {415, "/projects/p", "off", "Content-Type", text},
		"switch of what":   {400, "/projects/p", "{}", "memory", js},
		"switch to what":   {400, "/projects/p", `{"memory":"off"}`, "memory", js},
		"switch something": {400, "/projects/p", `{"memory":true,"x":1}`, "x", js},
	} {
		if p := do(tt.status, "PUT", tt.path, tt.body, tt.kind...).problem(t); p.Field != tt.field {
			t.Errorf("%s: %+v", name, p)
		}
	}
	for i := range glovebox.MaxProjectFiles {
		do(200, "PUT", "/projects/full/memory/f"+string(rune('0'+i)), "x", text...)
	}
	do(409, "PUT", "/projects/full/memory/one-more", "x", text...)
}

// TestProjectsOfOthers: a tenant sees its own alone, and who may only read
// changes nothing.
func TestProjectsOfOthers(t *testing.T) {
	t.Parallel()
	e := newEnv(t, func(o *Options) { o.RequireTokens = true })
	token := func(tenant string, scope glovebox.Scope) []string {
		t.Helper()
		secret, tok, err := glovebox.NewToken(tenant, scope, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if err := e.store.CreateToken(t.Context(), tok); err != nil {
			t.Fatal(err)
		}
		return []string{"Authorization", "Bearer " + secret, "Content-Type", "text/plain"}
	}
	ada, bob, reader := token("ada", glovebox.ScopeWrite), token("bob", glovebox.ScopeWrite), token("ada", glovebox.ScopeRead)
	if r := e.do("PUT", "/projects/web/memory/a.md", "ada's\n", ada...); r.StatusCode != 200 {
		t.Fatalf("%d %s", r.StatusCode, r.body)
	}
	for path, method := range map[string]string{"/projects/web": "GET", "/projects/web/memory/a.md": "GET"} {
		if r := e.do(method, path, "", bob...); r.StatusCode != 404 {
			t.Errorf("%s %s: %d", method, path, r.StatusCode)
		}
		if r := e.do("DELETE", path, "", bob...); r.StatusCode != 404 {
			t.Errorf("DELETE %s: %d", path, r.StatusCode)
		}
		if r := e.do(method, path, "", reader...); r.StatusCode != 200 {
			t.Errorf("%s %s: %d", method, path, r.StatusCode)
		}
		for _, m := range []string{"PUT", "DELETE"} {
			if r := e.do(m, path, "x", reader...); r.StatusCode != 403 {
				t.Errorf("reader: %s %s: %d", m, path, r.StatusCode)
			}
			if r := e.do(m, path, "x"); r.StatusCode != 401 {
				t.Errorf("nobody: %s %s: %d", m, path, r.StatusCode)
			}
		}
	}
	if r := e.do("GET", "/projects", "", bob...); r.StatusCode != 200 || len(decode[glovebox.ProjectList](t, r.body).Projects) != 0 {
		t.Errorf("%s", r.body)
	}
	if r := e.do("PUT", "/projects/web/memory/a.md", "bob's\n", bob...); r.StatusCode != 200 {
		t.Errorf("%d", r.StatusCode)
	}
	if r := e.do("GET", "/projects/web/memory/a.md", "", ada...); string(r.body) != "ada's\n" {
		t.Errorf("%s", r.body)
	}
}

// TestScheduleInProject: by JSON, by a part, in the query, by options.
func TestScheduleInProject(t *testing.T) {
	t.Parallel()
	e := newEnv(t, func(o *Options) { o.Projects = project.NewStore(o.Blobs, o.Now) })
	const parts = "--b\r\nContent-Disposition: form-data; name=\"task\"\r\n\r\nt\r\n--b\r\nContent-Disposition: form-data; name=\"%s\"\r\n\r\n%s\r\n--b--\r\n"
	form := "multipart/form-data; boundary=b"
	for name, tt := range map[string][3]string{
		"json":    {"/schedule", `{"task":"t","project":"web.1"}`, "application/json"},
		"query":   {"/schedule?project=web.1", "t", "text/plain"},
		"part":    {"/submit", strings.Replace(strings.Replace(parts, "%s", "project", 1), "%s", "web.1", 1), form},
		"options": {"/schedule", strings.Replace(strings.Replace(parts, "%s", "options", 1), "%s", `{"project":"web.1"}`, 1), form},
	} {
		r := e.do("POST", tt[0], tt[1], "Content-Type", tt[2])
		if r.StatusCode != 202 {
			t.Errorf("%s: %d %s", name, r.StatusCode, r.body)
			continue
		}
		if v := e.view(decode[glovebox.Accepted](t, r.body).JobID); v.Project != "web.1" {
			t.Errorf("%s: project %q", name, v.Project)
		}
	}
	if v := e.view(e.submit("t")); v.Project != "" {
		t.Errorf("project %q", v.Project)
	}
}
