package api

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox"
)

// TestSandboxedPreview: behind a proxy, without a domain for previews, pages
// have no origin.
func TestSandboxedPreview(t *testing.T) {
	t.Parallel()
	var got http.Request
	e, id := liveEnv(t, appMachine(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = *r
		switch r.URL.Path {
		case "/app.js":
			w.Header().Set("Content-Type", "text/javascript")
			io.WriteString(w, `import a from "/src/a.js"; import "/b.js"; const c = import('/c.js'), d = "/api"; import e from "./e.js"; export * from "//cdn/x"`)
		case "/app.css":
			w.Header().Set("Content-Type", "text/css")
			io.WriteString(w, `a{background:url("/x.png")} b{background:url(y.png)}`)
		default:
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			w.Header().Set("Set-Cookie", "evil=1")
			w.Header().Set("WWW-Authenticate", "Basic")
			io.WriteString(w, `<!doctype html><link href="/a.css?x&amp;y" rel=stylesheet><img src=/i.png alt="/no"><a href="https://x/">x</a><script type=module>import "/m.js"</script><p>src="/text"</p><script src="//cdn/x"></script>`)
		}
	})), func(o *Options) { o.PublicURL = "https://example.com/glove" })
	r := e.send2(e.request("GET", "/jobs/"+id+"/preview/3000/a/b?q=1", nil, "Accept", "text/html", "Host", "localhost"))
	loc := r.Header.Get("Location")
	if r.StatusCode != 303 || !strings.HasPrefix(loc, "../../../../../preview/") || !strings.HasSuffix(loc, "/a/b?q=1") {
		t.Fatalf("got %d %s", r.StatusCode, loc)
	}
	at := strings.TrimPrefix(loc, "../../../../..")
	capability := strings.Split(at, "/")[2]
	r = e.do("GET", "/glove"+at, "", "Cookie", "session=ours", "Authorization", "Bearer of-the-app", "Origin", "null", "Sec-Fetch-Site", "cross-site")
	want := `<!doctype html><link href="../a.css?x&amp;y" rel="stylesheet"><img src="../i.png" alt="/no"><a href="https://x/">x</a><script type=module>import "../m.js"</script><p>src="/text"</p><script src="//cdn/x"></script>`
	if r.StatusCode != 200 || string(r.body) != want {
		t.Errorf("got %d\n%s\n%s", r.StatusCode, r.body, want)
	}
	csp := r.Header.Get("Content-Security-Policy")
	if !strings.HasPrefix(csp, "sandbox allow-scripts") || strings.Contains(csp, "allow-same-origin") || strings.Contains(csp, "allow-top") || r.Header.Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("got %v", r.Header)
	}
	if r.Header.Get("Set-Cookie") != "" || r.Header.Get("Www-Authenticate") != "" || got.Header.Get("Cookie") != "" || got.Header.Get("Authorization") != "" || got.RequestURI != "/a/b?q=1" {
		t.Errorf("got %v; the app saw %s %v", r.Header, got.RequestURI, got.Header)
	}
	base := "/preview/" + capability
	if r := e.do("GET", base+"/app.js", ""); string(r.body) != `import a from "./src/a.js"; import "./b.js"; const c = import('./c.js'), d = "/api"; import e from "./e.js"; export * from "//cdn/x"` {
		t.Errorf("got %s", r.body)
	}
	if r := e.do("GET", base+"/app.css", ""); string(r.body) != `a{background:url("./x.png")} b{background:url(y.png)}` {
		t.Errorf("got %s", r.body)
	}
	if r := e.do("POST", base+"/x", "x", "Origin", "null", "Sec-Fetch-Site", "cross-site"); r.StatusCode != 200 {
		t.Errorf("the page posts: %d", r.StatusCode)
	}
	for name, headers := range map[string][]string{"elsewhere": {"Origin", "https://evil.example"}, "worker": {"Service-Worker", "script"}} {
		if r := e.do("POST", base+"/x", "x", headers...); r.StatusCode != 403 {
			t.Errorf("%s: %d", name, r.StatusCode)
		}
	}
	if r := e.do("OPTIONS", base+"/x", "", "Origin", "null", "Access-Control-Request-Method", "PUT"); r.StatusCode != 204 || r.Header.Get("Access-Control-Allow-Methods") == "" {
		t.Errorf("preflight: %d", r.StatusCode)
	}
	if r := e.do("GET", "/jobs/"+id+"/notebook", ""); r.StatusCode != 409 || !strings.Contains(r.problem(t).Hint, "preview_domain") {
		t.Errorf("the notebook: %d %s", r.StatusCode, r.body)
	}
	if strings.Contains(e.log.String(), capability) {
		t.Error("the log has what lets people in")
	}
	if pl := decode[glovebox.Place](t, e.do("POST", "/jobs/"+id+"/places", `{"port":3000}`).body); pl.Own || !strings.HasPrefix(pl.URL, "https://example.com/glove/preview/") {
		t.Errorf("got %+v", pl)
	}
}
