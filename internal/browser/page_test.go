//go:build linux

package browser

import (
	"bytes"
	"context"
	"fmt"
	"image/png"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// site serves pages by their path.
func site(t *testing.T) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	html := func(path, body string) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			fmt.Fprint(w, "<!doctype html>", body)
		})
	}
	html("/{$}", `<title>Home</title><h1>Hello <b>you</b></h1><p>Some  text.</p>`)
	html("/errors", `<title>Errors</title><script>console.error("it is", {a: 1}, 42); console.log("fine");</script>
		<script>undefinedFunction()</script><script>Promise.reject(new Error("nobody caught me"))</script><img src="/missing.png">
		<script>fetch("http://127.0.0.1:65533/").catch(() => {})</script>`)
	html("/alert", `<title>Dialogs</title><script>alert("boo"); document.title = "after " + confirm("sure?") + prompt("name?")</script>`)
	html("/alerts", `<script>while (true) alert("again")</script>`)
	html("/spam", `<title>Spam</title><p>under</p><script>setInterval(() => { for (let i = 0; i < 100; i++) console.error("spam", i) }, 20)</script>`)
	html("/loop", `<title>Loop</title><script>while (true) {}</script>`)
	html("/later", `<title>Later</title><p id=p></p><script>setTimeout(() => p.textContent = "It has COME", 700)</script><style>p{text-transform:uppercase}</style>`)
	html("/polls", `<title>Polls</title><script>fetch("/hang")</script>ok`)
	html("/popup", `<title>Popup</title><script>for (let i = 0; i < 5; i++) window.open("/?" + i)</script>`)
	html("/jumps", `<script>location = "/jumps?" + Math.random()</script>`)
	html("/moves", `<script>location = "/"</script>`)
	html("/tall", `<title>Tall</title><div style="height:9000px;background:linear-gradient(red,blue)">top</div><button>Bottom</button>`)
	html("/huge", `<title>Huge</title><div id=d></div><script>let s = ""; for (let i = 0; i < 9000; i++) s += "<div><button>b" + i + "</button></div>"; d.innerHTML = s</script>`)
	html("/deep", `<title>Deep</title><body><script>let e = document.body; for (let i = 0; i < 900; i++) { const c = document.createElement("div"); e.appendChild(c); e = c }</script>`)
	html("/evil", `<title>Evil</title><button>Go</button><script>document.createTreeWalker = document.querySelector = () => { throw 1 };
		Element.prototype.getAttribute = () => { throw 2 }; window.getComputedStyle = () => { throw 3 }; Object.prototype.toJSON = () => "gotcha"; String.prototype.slice = () => { throw 4 }</script>`)
	html("/control", "<title>a\u202eb\x1b[31mc</title><p>x\u200by</p>")
	mux.HandleFunc("/hang", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	mux.HandleFunc("/half", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<title>Half</title><p>the first half")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	mux.HandleFunc("/away", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/errors", http.StatusFound) })
	mux.HandleFunc("/circle", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/circle", http.StatusFound) })
	mux.HandleFunc("/empty", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux.HandleFunc("/file", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Disposition", "attachment; filename=x.zip")
		w.Header().Set("Content-Type", "application/zip")
		fmt.Fprint(w, "PK")
	})
	mux.HandleFunc("/broken", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprint(w, "<title>Oh</title>it broke")
	})
	html("/controls", controlsPage)
	html("/todo", todoPage)
	s := httptest.NewServer(mux)
	t.Cleanup(func() {
		s.CloseClientConnections() // pages of it may still be open
		s.Close()
	})
	return s
}

func open(t *testing.T, b *Browser, url string, o OpenOptions) *Page {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	p, err := b.Open(ctx, url, o)
	if err != nil {
		t.Fatalf("open %s: %v", url, err)
	}
	t.Cleanup(p.Close)
	return p
}

// TestReports opens pages of every kind and compares what is said of them.
func TestReports(t *testing.T) {
	s, b := site(t), realBrowser(t)
	for _, test := range []struct {
		path    string
		status  int
		title   string
		failure string   // is in Failure; a space is in any; empty if there is none
		console []string // each is in one of Console
		throws  int
	}{
		{path: "/", status: 200, title: "Home"},
		{path: "/#part", status: 200, title: "Home"},
		{path: "/away", status: 200, title: "Errors", throws: 2, console: []string{
			"console.error: it is Object 42", "uncaught ReferenceError: undefinedFunction is not defined", "nobody caught me", "HTTP 404: ", "127.0.0.1:65533/: nothing listens"}},
		{path: "/moves", status: 200, title: "Home"},
		{path: "/nowhere", status: 404},
		{path: "/broken", status: 500, title: "Oh"},
		{path: "/alert", status: 200, title: "after falsenull", console: []string{"alert dialog, dismissed: boo", "confirm dialog, dismissed: sure?", "prompt dialog"}},
		{path: "/alerts", failure: "dialogs without end", console: []string{"alert dialog"}},
		{path: "/spam", status: 200, title: "Spam", console: []string{"console.error: spam 0"}},
		{path: "/loop", failure: "hang"},
		{path: "/hang", failure: "sent nothing within"},
		{path: "/half", status: 200, title: "Half", failure: "did not finish loading within"},
		{path: "/polls", status: 200, title: "Polls"},
		{path: "/circle", failure: "redirects without end"},
		{path: "/jumps", failure: "leads on to other pages without end"},
		{path: "/file", failure: "download"},
		{path: "/empty", failure: "ABORTED"},
		{path: "/control", status: 200, title: "ab [31mc"},
		{path: "/popup", status: 200, title: "Popup"},
		{path: "/deep", status: 200, title: "Deep"},
	} {
		t.Run(strings.TrimPrefix(test.path, "/"), func(t *testing.T) {
			p := open(t, b, s.URL+test.path, OpenOptions{Timeout: 4 * time.Second})
			r := p.Report()
			if test.failure == "" && r.Failure != "" || !strings.Contains(r.Failure, test.failure) {
				t.Errorf("failure: %q, want %q", r.Failure, test.failure)
			}
			if test.status != 0 && r.Status != test.status || test.title != "" && r.Title != test.title {
				t.Errorf("got %d %q, want %d %q", r.Status, r.Title, test.status, test.title)
			}
			all := strings.Join(r.Console, "\n")
			for _, c := range test.console {
				if !strings.Contains(all, c) {
					t.Errorf("console:\n%s\nwithout %q", all, c)
				}
			}
			if test.console == nil && test.path != "/popup" && len(r.Console) > 0 {
				t.Errorf("console:\n%s", all)
			}
			if r.Exceptions != test.throws {
				t.Errorf("%d exceptions, want %d", r.Exceptions, test.throws)
			}
			if len(r.Console) > maxProblems {
				t.Errorf("%d lines of console", len(r.Console))
			}
		})
	}
	tabs, err := b.tabs(t.Context())
	if err != nil || len(tabs) > 6 {
		t.Errorf("%d tabs are left, %v: %v", len(tabs), err, tabs)
	}
}

// TestCrash has a tab crash, while it loads and while it is looked at.
func TestCrash(t *testing.T) {
	s, b := site(t), realBrowser(t)
	p := open(t, b, s.URL+"/", OpenOptions{})
	p.b.c.post(p.session, "Page.crash", nil)
	select {
	case <-p.watch.dead.Done():
	case <-time.After(20 * time.Second):
		t.Fatal("nobody noticed the crash")
	}
	if _, err := p.Screenshot(t.Context(), false); err == nil {
		t.Error("a crashed page has a picture")
	}
	if _, err := p.Outline(t.Context()); err == nil {
		t.Error("a crashed page has an outline")
	}
	p.Close()
	if r := open(t, b, s.URL+"/", OpenOptions{}).Report(); r.Status != 200 || r.Failure != "" {
		t.Errorf("after the crash: %+v", r)
	}
}

// TestScreenshot takes pictures of a page in its viewport, and whole.
func TestScreenshot(t *testing.T) {
	s, b := site(t), realBrowser(t)
	p := open(t, b, s.URL+"/tall", OpenOptions{Viewport: true})
	for _, test := range []struct {
		full bool
		w, h int
		cut  bool
	}{{false, ViewportWidth, ViewportHeight, false}, {true, ViewportWidth, MaxShotHeight, true}} {
		shot, err := p.Screenshot(t.Context(), test.full)
		if err != nil {
			t.Fatal(err)
		}
		if shot.W != test.w && shot.W != test.w-15 || shot.H != test.h || shot.Cut != test.cut || shot.MediaType != "image/png" {
			t.Errorf("got %d x %d, cut %v, %s; want %+v", shot.W, shot.H, shot.Cut, shot.MediaType, test)
		}
		if _, err := png.Decode(bytes.NewReader(shot.Data)); err != nil {
			t.Error(err)
		}
	}
}

// TestTabs has a page come back to the tab that shows it, or its site.
func TestTabs(t *testing.T) {
	s, b := site(t), realBrowser(t)
	p := open(t, b, s.URL+"/", OpenOptions{})
	p.Close()
	q := open(t, b, s.URL+"/tall", OpenOptions{})
	q.Close()
	again := open(t, b, s.URL+"/#x", OpenOptions{})
	other := open(t, b, site(t).URL+"/", OpenOptions{})
	if p.target != again.target || q.target != p.target || other.target == p.target {
		t.Errorf("tabs: %s, %s, %s, %s", p.target, q.target, again.target, other.target)
	}
}
