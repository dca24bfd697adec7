//go:build linux

package browser

import (
	"bytes"
	"context"
	"fmt"
	"image/png"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
)

// site serves pages by their path. It says on asked, if there is someone who
// hears it, that a page which never ends loading has got so far.
func site(t *testing.T, asked chan<- struct{}) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	say := func() {
		select {
		case asked <- struct{}{}:
		default:
		}
	}
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
	html("/loop", `<title>Loop</title><script>const x = new XMLHttpRequest(); x.open("GET", "/seen", false); x.send(); while (true) {}</script>`)
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
	mux.HandleFunc("/seen", func(http.ResponseWriter, *http.Request) { say() })
	mux.HandleFunc("/hang", func(_ http.ResponseWriter, r *http.Request) {
		say()
		<-r.Context().Done()
	})
	mux.HandleFunc("/half", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<title>Half</title><p>the first half<script>fetch('/seen').catch(() => {})</script>")
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
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	p, err := b.Open(ctx, url, o)
	if err != nil {
		t.Fatalf("open %s: %v", url, err)
	}
	t.Cleanup(p.Close)
	return p
}

// endWhenAsked has the time of a page to load end when its site says on asked
// that it was asked for it and, if shown, the browser has it.
func endWhenAsked(b *Browser, asked <-chan struct{}, shown bool) {
	select {
	case <-asked: // by the page before
	default:
	}
	has := func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, w := range b.open {
			w.mu.Lock()
			has := w.has()
			w.mu.Unlock()
			if has {
				return true
			}
		}
		return false
	}
	b.within = func(ctx context.Context, _ time.Duration) (context.Context, context.CancelFunc) {
		ctx, end := context.WithCancelCause(ctx)
		go func() {
			defer end(errSlow)
			select {
			case <-asked:
			case <-ctx.Done():
			}
			for shown && ctx.Err() == nil && !has() {
				<-time.After(time.Millisecond) // nothing else is told of it
			}
		}()
		return ctx, func() { end(nil) }
	}
}

// TestReports opens pages of every kind and compares what is said of them.
func TestReports(t *testing.T) {
	asked := make(chan struct{}, 1)
	s, b := site(t, asked), realBrowser(t)
	for _, test := range []struct {
		path    string
		status  int
		title   string
		failure string   // is in Failure; a space is in any; empty if there is none
		console []string // each is in one of Console
		throws  int
		ends    string // when its time to load is over: "asked", "shown", or else long after
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
		{path: "/loop", failure: "hang", ends: "shown"},
		{path: "/hang", failure: "sent nothing within", ends: "asked"},
		{path: "/half", status: 200, title: "Half", failure: "did not finish loading within", ends: "shown"},
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
			b.within = loadWithin
			if test.ends != "" {
				endWhenAsked(b, asked, test.ends == "shown")
			}
			p := open(t, b, s.URL+test.path, OpenOptions{Timeout: time.Minute})
			r := p.Report()
			for end := time.Now().Add(time.Minute); !hasAll(r.Console, test.console) && time.Now().Before(end); r = p.Report() {
				<-time.After(time.Millisecond) // some of it may come once the page has settled
			}
			if test.failure == "" && r.Failure != "" || !strings.Contains(r.Failure, test.failure) {
				t.Errorf("failure: %q, want %q", r.Failure, test.failure)
			}
			if test.status != 0 && r.Status != test.status || test.title != "" && r.Title != test.title {
				t.Errorf("got %d %q, want %d %q", r.Status, r.Title, test.status, test.title)
			}
			all := strings.Join(r.Console, "\n")
			if !hasAll(r.Console, test.console) {
				t.Errorf("console:\n%s\nwithout one of %q", all, test.console)
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
	for end := time.Now().Add(time.Minute); len(tabs) > 6 && time.Now().Before(end); tabs, err = b.tabs(t.Context()) {
		<-time.After(time.Millisecond) // windows that were told to close are about to
	}
	if err != nil || len(tabs) > 6 {
		t.Errorf("%d tabs are left, %v: %v", len(tabs), err, tabs)
	}
}

// hasAll reports whether each text is in one of the lines.
func hasAll(lines, texts []string) bool {
	return !slices.ContainsFunc(texts, func(text string) bool {
		return !slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, text) })
	})
}

// TestCrash has a tab crash, while it loads and while it is looked at.
func TestCrash(t *testing.T) {
	s, b := site(t, nil), realBrowser(t)
	p := open(t, b, s.URL+"/", OpenOptions{})
	p.b.c.post(p.session, "Page.crash", nil)
	select {
	case <-p.watch.dead.Done():
	case <-time.After(time.Minute):
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
	s, b := site(t, nil), realBrowser(t)
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
	s, b := site(t, nil), realBrowser(t)
	p := open(t, b, s.URL+"/", OpenOptions{})
	p.Close()
	q := open(t, b, s.URL+"/tall", OpenOptions{})
	q.Close()
	again := open(t, b, s.URL+"/#x", OpenOptions{})
	other := open(t, b, site(t, nil).URL+"/", OpenOptions{})
	if p.target != again.target || q.target != p.target || other.target == p.target {
		t.Errorf("tabs: %s, %s, %s, %s", p.target, q.target, again.target, other.target)
	}
}
