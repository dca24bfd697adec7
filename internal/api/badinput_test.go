package api

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/store"
)

// TestBadInput sends what must be refused. Each refusal is a problem that
// names code, field and remedy, and creates nothing.
func TestBadInput(t *testing.T) {
	t.Parallel()
	e := newEnv(t, func(o *Options) {
		o.CheckModel = func(name string) error {
			if name == "known:m" {
				return nil
			}
			return errors.New("unknown model " + name)
		}
		o.CheckEgress = func(g glovebox.Egress) error {
			if len(g.Allow) > 0 && g.Allow[0] == "bad rule" {
				return glovebox.Invalid("egress.allow[0]", "give a host", "%q is not a host", g.Allow[0])
			}
			return nil
		}
		o.DefaultModel = "known:m"
	})
	id := e.submit("a job that is there")
	ended := e.submit("a job that has ended")
	e.do("POST", "/jobs/"+ended+"/cancel", "")
	text, js := "text/plain", "application/json"
	many := func(n int, f string) string {
		var b strings.Builder
		for i := range n {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, f, i)
		}
		return b.String()
	}
	for _, tt := range []struct {
		name, method, path, contentType, body string
		status                                int
		field                                 string
		value                                 string
	}{
		{"empty task", "POST", "/schedule", text, "", 400, "task", ""},
		{"blank task", "POST", "/schedule", text, " \n\t ", 400, "task", " \n\t "},
		{"NUL", "POST", "/schedule", text, "a\x00b", 400, "task", ""},
		{"not UTF-8", "POST", "/schedule", text, "a\xffb", 400, "task", ""},
		{"too long", "POST", "/schedule", text, strings.Repeat("x", 1<<20+1), 413, "task", ""},
		{"too long JSON", "POST", "/schedule", js, `{"task":"` + strings.Repeat("x", 1<<20+1) + `"}`, 413, "task", ""},
		{"far too long JSON", "POST", "/schedule", js, `{"task":"` + strings.Repeat("x", 5<<20) + `"}`, 413, "task", ""},
		{"latin1", "POST", "/schedule", "text/plain; charset=iso-8859-1", "x", 415, "Content-Type", "text/plain; charset=iso-8859-1"},
		{"XML", "POST", "/schedule", "application/xml", "<x/>", 415, "Content-Type", "application/xml"},
		{"malformed type", "POST", "/schedule", "///", "x", 415, "Content-Type", "///"},
		{"multipart without boundary", "POST", "/schedule", "multipart/form-data", "x", 415, "Content-Type", ""},
		{"multipart cut off", "POST", "/schedule", "multipart/form-data; boundary=x", "--x\r\nContent-Disposition: form-data; name=task\r\n\r\nhel", 400, "body", ""},
		{"no JSON", "POST", "/schedule", js, "{", 400, "body", ""},
		{"empty JSON", "POST", "/schedule", js, "", 400, "body", ""},
		{"JSON null", "POST", "/schedule", js, "null", 400, "body", ""},
		{"JSON list", "POST", "/schedule", js, `["task"]`, 400, "body", ""},
		{"two JSON values", "POST", "/schedule", js, `{"task":"x"}{}`, 400, "body", ""},
		{"JSON not UTF-8", "POST", "/schedule", js, "{\"task\":\"a\xff\"}", 400, "body", ""},
		{"half a surrogate pair", "POST", "/schedule", js, `{"task":"a\ud83d b"}`, 400, "body", ""},
		{"the other half", "POST", "/schedule", js, `{"task":"\\\ude00"}`, 400, "body", ""},
		{"a pair in the wrong order", "POST", "/schedule", js, `{"metadata":{"k":"\ude00\ud83d"},"task":"x"}`, 400, "body", ""},
		{"no task in JSON", "POST", "/schedule", js, "{}", 400, "task", ""},
		{"unknown field", "POST", "/schedule", js, `{"task":"x","taks":"y"}`, 400, "taks", "taks"},
		{"field in another case", "POST", "/schedule", js, `{"Task":"x"}`, 400, "Task", "Task"},
		{"unknown field inside", "POST", "/schedule", js, `{"task":"x","limits":{"step":1}}`, 400, "limits.step", "step"},
		{"field twice", "POST", "/schedule", js, `{"task":"x","task":"y"}`, 400, "task", ""},
		{"task and prompt", "POST", "/schedule", js, `{"task":"x","prompt":"y"}`, 400, "prompt", ""},
		{"task is a number", "POST", "/schedule", js, `{"task":7}`, 400, "task", "7"},
		{"task is null", "POST", "/schedule", js, `{"task":null}`, 400, "task", ""},
		{"deep", "POST", "/schedule", js, `{"task":` + strings.Repeat("[", 100_000), 400, "body", ""},
		{"unknown model", "POST", "/schedule", js, `{"task":"x","model":"no:such"}`, 400, "model", "no:such"},
		{"long model", "POST", "/schedule", js, `{"task":"x","model":"` + strings.Repeat("m", 201) + `"}`, 400, "model", ""},
		{"negative limit", "POST", "/schedule", js, `{"task":"x","limits":{"steps":-1}}`, 400, "limits.steps", "-1"},
		{"absurd limit", "POST", "/schedule", js, `{"task":"x","limits":{"memory_bytes":9223372036854775807}}`, 400, "limits.memory_bytes", "9223372036854775807"},
		{"overflowing limit", "POST", "/schedule", js, `{"task":"x","limits":{"steps":9223372036854775808}}`, 400, "limits.steps", "9223372036854775808"},
		{"fractional limit", "POST", "/schedule", js, `{"task":"x","limits":{"steps":1.5}}`, 400, "limits.steps", "1.5"},
		{"limit as text", "POST", "/schedule", js, `{"task":"x","limits":{"steps":"many"}}`, 400, "limits.steps", "many"},
		{"limits as list", "POST", "/schedule", js, `{"task":"x","limits":[1]}`, 400, "limits", ""},
		{"unknown egress mode", "POST", "/schedule", js, `{"task":"x","egress":{"mode":"all"}}`, 400, "egress.mode", "all"},
		{"rules without a mode", "POST", "/schedule", js, `{"task":"x","egress":{"allow":["a"]}}`, 400, "egress.allow", "1"},
		{"bad rule", "POST", "/schedule", js, `{"task":"x","egress":{"mode":"only","allow":["bad rule"]}}`, 400, "egress.allow[0]", ""},
		{"many rules", "POST", "/schedule", js, `{"task":"x","egress":{"mode":"only","allow":[` + many(257, `"h%d"`) + `]}}`, 400, "egress.allow", "257"},
		{"much metadata", "POST", "/schedule", js, `{"task":"x","metadata":{` + many(65, `"k%d":""`) + `}}`, 400, "metadata", "65"},
		{"metadata key", "POST", "/schedule", js, `{"task":"x","metadata":{"a b":""}}`, 400, "metadata", "a b"},
		{"metadata value", "POST", "/schedule", js, `{"task":"x","metadata":{"a":"` + strings.Repeat("x", 1025) + `"}}`, 400, "metadata.a", ""},
		{"metadata number", "POST", "/schedule", js, `{"task":"x","metadata":{"a":1}}`, 400, "metadata.a", "1"},
		{"git over ssh", "POST", "/schedule", js, `{"task":"x","files":{"git_url":"ssh://example.org/x"}}`, 400, "files.git_url", "ssh://example.org/x"},
		{"git file", "POST", "/schedule", js, `{"task":"x","files":{"git_url":"file:///etc"}}`, 400, "files.git_url", "file:///etc"},
		{"git option", "POST", "/schedule", js, `{"task":"x","files":{"git_url":"https://example.org/x","git_ref":"--upload-pack=x"}}`, 400, "files.git_ref", "--upload-pack=x"},
		{"git password", "POST", "/schedule", js, `{"task":"x","files":{"git_url":"https://me:SECRET@example.org/x"}}`, 400, "files.git_url", ""},
		{"project name", "POST", "/schedule", js, `{"task":"x","project":"../x"}`, 400, "project", "../x"},
		{"long project", "POST", "/schedule", js, `{"task":"x","project":"` + strings.Repeat("x", 65) + `"}`, 400, "project", ""},
		{"project in the query", "POST", "/schedule?project=a%20b", text, "x", 400, "project", "a b"},
		{"empty project in the query", "POST", "/schedule?project=", text, "x", 400, "project", ""},
		{"two projects", "POST", "/schedule?project=a&project=b", text, "x", 400, "query.project", ""},
		{"a project twice", "POST", "/schedule?project=a", js, `{"task":"x","project":"b"}`, 400, "query.project", ""},
		{"parameter", "POST", "/schedule?model=x", text, "x", 400, "query.model", "model"},

		{"unknown id", "GET", "/status/" + glovebox.NewID(), "", "", 404, "id", ""},
		{"malformed id", "GET", "/status/x", "", "", 404, "id", "x"},
		{"id with a wrong letter", "GET", "/status/" + strings.Repeat("u", 26), "", "", 404, "id", ""},
		{"id with SQL", "GET", "/status/'%20or%201=1--", "", "", 404, "id", "' or 1=1--"},
		{"wait is no time", "GET", "/status/" + id + "?wait=soon", "", "", 400, "query.wait", "soon"},
		{"long wait", "GET", "/status/" + id + "?wait=61s", "", "", 400, "query.wait", "61s"},
		{"negative wait", "GET", "/status/" + id + "?wait=-1s", "", "", 400, "query.wait", "-1s"},
		{"seq is no number", "GET", "/status/" + id + "?seq=x", "", "", 400, "query.seq", "x"},
		{"unknown parameter", "GET", "/status/" + id + "?waits=1s", "", "", 400, "query.waits", "waits"},
		{"bad escape", "GET", "/status/" + id + "?wait=%zz", "", "", 400, "query", ""},
		{"unknown status", "GET", "/jobs?status=done", "", "", 400, "query.status", "done"},
		{"no limit", "GET", "/jobs?limit=0", "", "", 400, "query.limit", "0"},
		{"large limit", "GET", "/jobs?limit=101", "", "", 400, "query.limit", "101"},
		{"long q", "GET", "/jobs?q=" + strings.Repeat("x", 501), "", "", 400, "query.q", ""},
		{"events limit", "GET", "/jobs/" + id + "/events?limit=501", "", "", 400, "query.limit", "501"},
		{"events after", "GET", "/jobs/" + id + "/events?after=-1", "", "", 400, "query.after", "-1"},
		{"message blank", "POST", "/jobs/" + id + "/messages", text, " ", 400, "text", ""},
		{"message long", "POST", "/jobs/" + id + "/messages", text, strings.Repeat("x", 8<<20+1), 413, "text", ""},
		{"message NUL", "POST", "/jobs/" + id + "/messages", js, `{"text":"\u0000"}`, 400, "text", ""},
		{"message unknown field", "POST", "/jobs/" + id + "/messages", js, `{"txt":"x"}`, 400, "txt", "txt"},
		{"message type", "POST", "/jobs/" + id + "/messages", "image/png", "x", 415, "Content-Type", "image/png"},
		{"message to one that ended", "POST", "/jobs/" + ended + "/messages", text, "x", 409, "", ""},
		{"limits lowered", "PATCH", "/jobs/" + id + "/limits", js, `{"steps":1}`, 400, "limits.steps", "1"},
		{"limits of the sandbox", "PATCH", "/jobs/" + id + "/limits", js, `{"memory_bytes":8589934592}`, 400, "limits.memory_bytes", "8589934592"},
		{"limits absent", "PATCH", "/jobs/" + id + "/limits", js, `{"cost_micros":5}`, 400, "limits.cost_micros", "5"},
		{"limits absurd", "PATCH", "/jobs/" + id + "/limits", js, `{"steps":1000001}`, 400, "limits.steps", "1000001"},
		{"limits unknown", "PATCH", "/jobs/" + id + "/limits", js, `{"stepz":5}`, 400, "stepz", "stepz"},
		{"limits none", "PATCH", "/jobs/" + id + "/limits", js, `{}`, 400, "body", ""},
		{"limits as text", "PATCH", "/jobs/" + id + "/limits", text, "5", 415, "Content-Type", "text/plain"},
		{"artifact too early", "GET", "/jobs/" + id + "/artifact.zip", "", "", 409, "id", id},
		{"manifest of one that has none", "GET", "/jobs/" + ended + "/artifact", "", "", 409, "id", ended},
		{"files of one that has none", "GET", "/jobs/" + ended + "/files/", "", "", 409, "id", ended},
		{"delete too early", "DELETE", "/jobs/" + id, "", "", 409, "id", id},
		{"no such path", "GET", "/nothing", "", "", 404, "path", "/nothing"},
		{"no such path below", "GET", "/jobs/" + id + "/nothing", "", "", 404, "path", ""},
		{"wrong method", "GET", "/schedule", "", "", 405, "method", "GET"},
		{"odd method", "BREW", "/jobs", "", "", 405, "method", "BREW"},
		{"options", "OPTIONS", "/schedule", "", "", 405, "method", "OPTIONS"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := e.do(tt.method, tt.path, tt.body, "Content-Type", tt.contentType)
			p := r.problem(t)
			if r.StatusCode != tt.status || p.Status != tt.status {
				t.Fatalf("status %d, want %d: %s", r.StatusCode, tt.status, r.body)
			}
			if p.Field != tt.field && tt.field != "" {
				t.Errorf("field %q, want %q: %s", p.Field, tt.field, r.body)
			}
			if tt.value != "" && p.Value != tt.value {
				t.Errorf("value %q, want %q", p.Value, tt.value)
			}
			if p.Title == "" || p.Detail == "" || p.Code == "" || (p.Hint == "" && tt.status != 409) || p.Type != "about:blank" {
				t.Errorf("says too little: %s", r.body)
			}
			if strings.Contains(string(r.body), "SECRET") {
				t.Errorf("repeats a secret: %s", r.body)
			}
			if tt.status == 405 && r.Header.Get("Allow") == "" {
				t.Error("no Allow")
			}
		})
	}
	if jobs := decode[glovebox.JobList](t, e.do("GET", "/jobs", "").body).Jobs; len(jobs) != 2 {
		t.Errorf("%d jobs: a refused request created one", len(jobs))
	}
	if ks := e.blobs.keys(); len(ks) != 0 {
		t.Errorf("blobs left: %v", ks)
	}
	if strings.Contains(e.log.String(), "SECRET") {
		t.Error("a secret is in the log")
	}
	for _, h := range []string{"Idempotency-Key\x00é", "Content-Encoding\x00gzip"} {
		name, v, _ := strings.Cut(h, "\x00")
		r := e.do("POST", "/schedule", "x", "Content-Type", text, name, v)
		if p := r.problem(t); p.Field != name {
			t.Errorf("%s: %+v", name, p)
		}
	}
	r := e.do("GET", "/jobs/"+id+"/events", "", "Accept", "text/event-stream", "Last-Event-ID", "x")
	if p := r.problem(t); r.StatusCode != 400 || p.Field != "Last-Event-ID" {
		t.Errorf("Last-Event-ID: %+v", p)
	}
}

// TestRefusedBodyIsReadAway: who still writes a body that is refused comes to
// read the answer, since the connection is not closed on them; who asks before
// it writes is answered at once.
func TestRefusedBodyIsReadAway(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	c, err := net.Dial("tcp", e.srv.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	br := bufio.NewReader(c)
	ask := func(head, body string, status int) {
		t.Helper()
		io.WriteString(c, head+"Host: localhost\r\n\r\n"+body)
		resp, err := http.ReadResponse(br, nil)
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		if resp.StatusCode != status {
			t.Errorf("status %d, want %d", resp.StatusCode, status)
		}
	}
	ask("POST /schedule HTTP/1.1\r\nContent-Length: 3145728\r\n", strings.Repeat("x", 3<<20), 413)
	ask("POST /schedule HTTP/1.1\r\nTransfer-Encoding: chunked\r\n", "300000\r\n"+strings.Repeat("x", 3<<20)+"\r\n0\r\n\r\n", 413)
	ask("GET /healthz HTTP/1.1\r\n", "", 200) // on the same connection
	ask("POST /schedule HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 3145728\r\n", "", 413)
}

// TestSlowBody: a body that does not arrive is a 408, also where nobody would
// have read it, and the connection is not held.
func TestSlowBody(t *testing.T) {
	t.Parallel()
	e := newEnv(t, func(o *Options) { o.BodyTimeout = 50 * time.Millisecond })
	id := glovebox.NewID() // not by HTTP: that body could be slow, too
	if _, _, err := e.store.CreateJob(t.Context(), glovebox.Created{ID: id, Tenant: glovebox.DefaultTenant, Task: "t", Limits: glovebox.DefaultLimits()}, store.IdempotencyKey{}); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, head string
		status     int
	}{
		{"text", "POST /schedule HTTP/1.1\r\nContent-Type: text/plain\r\nContent-Length: 100\r\n", 408},
		{"chunked", "POST /schedule HTTP/1.1\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n", 408},
		{"multipart", "POST /schedule HTTP/1.1\r\nContent-Type: multipart/form-data; boundary=x\r\nContent-Length: 100\r\n", 408},
		{"message", "POST /jobs/" + id + "/messages HTTP/1.1\r\nContent-Type: text/plain\r\nContent-Length: 100\r\n", 408},
		{"refused before", "POST /nothing HTTP/1.1\r\nContent-Length: 100\r\n", 404},
		{"no body wanted", "GET /healthz HTTP/1.1\r\nContent-Length: 100\r\n", 200},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, err := net.Dial("tcp", e.srv.Addr())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			c.SetDeadline(time.Now().Add(time.Minute))
			io.WriteString(c, tt.head+"Host: localhost\r\n\r\n")
			resp, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if resp.StatusCode != tt.status {
				t.Errorf("status %d, want %d", resp.StatusCode, tt.status)
			}
		})
	}
}

// TestSlowHeader: a request that does not get to the end of its header, and a
// header that does not end, are cut off.
func TestSlowHeader(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	srv, err := StartServer(ServerOptions{Listen: "127.0.0.1:0", Handler: e.api, HeaderTimeout: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Stop(t.Context())
	c, err := net.Dial("tcp", srv.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: localhost\r\nX: ")
	if _, err := io.ReadAll(c); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("not cut off: %v", err)
	}
	large, err := net.Dial("tcp", e.srv.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer large.Close()
	large.SetDeadline(time.Now().Add(time.Minute))
	// All at once: the server cuts off who still writes half a second after its answer.
	io.WriteString(large, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: "+strings.Repeat("x", 64<<10)+"\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(large), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("large header: %d", resp.StatusCode)
	}
}
