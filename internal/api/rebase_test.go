package api

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

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

// TestRebaseParts: a path is found wherever the parts of a script end.
func TestRebaseParts(t *testing.T) {
	t.Parallel()
	for _, around := range []int{rebasePart - maxMatch, rebasePart} {
		for i := around - 40; i < around+4; i++ { // so that each of its letters is the last of a part
			pad := strings.Repeat("x", i-1) + "\n"
			long := `url("/` + strings.Repeat("y", 3*maxMatch) + `")`
			for in, want := range map[string]string{
				pad + `import a from "/a.js"; import("/"); import "//cdn/x"; "/a"` + pad[i-100:]: pad + `import a from "../../a.js"; import("../../"); import "//cdn/x"; "/a"` + pad[i-100:],
			} {
				got, err := io.ReadAll(&rebaser{r: strings.NewReader(in), match: importPath, path: "/b/c/d.js"})
				if err != nil || string(got) != want {
					t.Fatalf("import at %d: %v", i, err)
				}
			}
			got, err := io.ReadAll(&rebaser{r: iotest.HalfReader(strings.NewReader(pad + long + `url(/z)`)), match: cssPath, path: "/b/c.css"})
			if err != nil || len(got) < len(pad+long) || !strings.HasSuffix(string(got), `yy")url(../z)`) {
				t.Fatalf("style at %d: %v", i, err)
			}
		}
	}
	_, err := io.ReadAll(&rebaser{r: io.MultiReader(strings.NewReader("x"), iotest.ErrReader(io.ErrUnexpectedEOF)), match: cssPath, path: "/"})
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a broken script: %v", err)
	}
}

// TestRebaseIsNoBomb: pages choose how deep they are and how many paths they
// have. The product of both is not made in our memory.
func TestRebaseIsNoBomb(t *testing.T) {
	// Not parallel: it measures the memory of all.
	live := func() uint64 {
		var st runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&st)
		return st.HeapAlloc
	}
	deep := strings.Repeat("/d", maxDepth)
	for typ, piece := range map[string]string{"text/javascript": `from"/"`, "text/css": `url(/a`, "text/html": `<a href=/ src=/ action=/>`} {
		body := bytes.Repeat([]byte(piece), 512<<10/len(piece))
		for _, path := range []string{deep, strings.Repeat("/d", 5_000)} {
			res := &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {typ}}, Body: io.NopCloser(bytes.NewReader(body))}
			rebase(res, path)
			buf := make([]byte, 1<<20)
			n, before, most := int64(0), live(), uint64(0)
			for {
				m, err := io.ReadFull(res.Body, buf)
				n += int64(m)
				if err != nil {
					break
				}
				if n>>20%4 == 0 {
					most = max(most, live())
				}
			}
			if n < int64(len(body)) || n > int64(len(body))*(3*maxDepth+20) || path != deep && n != int64(len(body)) {
				t.Errorf("%s at depth %d: %d bytes of %d", typ, strings.Count(path, "/"), n, len(body))
			}
			if most > before+8<<20 {
				t.Errorf("%s: %d MiB of memory, %d before", typ, most>>20, before>>20)
			}
		}
	}
}
