package api

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/glovebox-dev/glovebox"
)

// appMachine is a machine in which handler listens on port 3000.
func appMachine(t testing.TB, handler http.Handler) *fakeMachine {
	t.Helper()
	app := httptest.NewServer(handler)
	t.Cleanup(app.Close)
	return rawMachine(app.Listener.Addr().String())
}

func rawMachine(addr string) *fakeMachine {
	dial := func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", addr)
	}
	return &fakeMachine{
		port: func(ctx context.Context, port uint16) (net.Conn, error) {
			if port != 3000 {
				return nil, glovebox.Errorf(glovebox.CodeUnavailable, "nothing answers on port %d", port)
			}
			return dial(ctx)
		},
		service: func(ctx context.Context, _ string) (net.Conn, error) { return dial(ctx) },
	}
}

// browser is a client that resolves every name to the server and keeps cookies
// as a browser does.
type browser struct {
	t       testing.TB
	addr    string
	cookies map[string]string // by host and name
}

func newBrowser(e *env) *browser {
	return &browser{t: e.t, addr: e.srv.Addr(), cookies: map[string]string{}}
}

// get asks for an absolute address and follows no redirect.
func (b *browser) get(addr string, headers ...string) reply { return b.do("GET", addr, "", headers...) }

func (b *browser) do(method, addr, body string, headers ...string) reply {
	b.t.Helper()
	u, err := url.Parse(addr)
	if err != nil {
		b.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(b.t.Context(), method, "http://"+b.addr+u.RequestURI(), strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	req.Host = u.Host
	req.Header.Set("Accept", "text/html")
	req.Header.Set("Sec-Fetch-Mode", "navigate")
	for k, v := range b.cookies {
		if host, name, _ := strings.Cut(k, " "); host == u.Hostname() {
			req.AddCookie(&http.Cookie{Name: name, Value: v})
		}
	}
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i+1] == "" {
			req.Header.Del(headers[i])
		} else {
			req.Header.Set(headers[i], headers[i+1])
		}
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, ck := range resp.Cookies() {
		if ck.Domain != "" {
			b.t.Errorf("a cookie for %s", ck.Domain)
		}
		b.cookies[u.Hostname()+" "+ck.Name] = ck.Value
	}
	return reply{resp, data}
}

// enter opens the preview of port 3000 and returns the base of its origin.
func (b *browser) enter(e *env, id string) string {
	b.t.Helper()
	_, port, _ := net.SplitHostPort(b.addr)
	r := b.get("http://localhost:" + port + "/jobs/" + id + "/preview/3000/")
	loc := r.Header.Get("Location")
	base := "http://3000--" + id + ".localhost:" + port
	if r.StatusCode != 303 || !strings.HasPrefix(loc, base+doorPath+"?door=") {
		b.t.Fatalf("the door: %d %s", r.StatusCode, loc)
	}
	if r = b.get(loc); r.StatusCode != 303 || r.Header.Get("Location") != "/" {
		b.t.Fatalf("entering: %d %s %s", r.StatusCode, r.Header.Get("Location"), r.body)
	}
	return base
}

func TestPreviewOnItsOwnOrigin(t *testing.T) {
	t.Parallel()
	var got http.Request
	e, id := liveEnv(t, appMachine(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = *r
		h := w.Header()
		for k, v := range map[string]string{
			"Strict-Transport-Security": "max-age=1", "Clear-Site-Data": `"*"`, "Content-Security-Policy": "frame-ancestors 'none'", "X-Frame-Options": "DENY", "Alt-Svc": "h3", "Service-Worker-Allowed": "/",
			"Access-Control-Allow-Origin": "*", "Refresh": "0;url=https://evil.example", "Report-To": "{}", "X-Accel-Redirect": "/etc/passwd", "Permissions-Policy": "camera=*", "X-App": "kept",
		} {
			h.Set(k, v)
		}
		h.Add("Set-Cookie", "app=1; Domain=localhost; Path=/; HttpOnly")
		h.Add("Set-Cookie", seatCookie+"=stolen")
		h.Add("Set-Cookie", "bad cookie")
		io.WriteString(w, "<h1>hi</h1>")
	})))
	b := newBrowser(e)
	base := b.enter(e, id)
	r := b.get(base+"/a%2Fb/c?q=1&link=theirs", "Referer", "http://localhost/secret", "X-Forwarded-User", "alice", "Via", "x", "Authorization", "Bearer gbx_secret", "Origin", base)
	if r.StatusCode != 200 || string(r.body) != "<h1>hi</h1>" || r.Header.Get("X-App") != "kept" {
		t.Fatalf("got %d %s", r.StatusCode, r.body)
	}
	if got.Host != "localhost:3000" || got.RequestURI != "/a%2Fb/c?q=1&link=theirs" || got.Header.Get("Origin") != "http://localhost:3000" {
		t.Errorf("the app saw %s %s %v", got.Host, got.RequestURI, got.Header)
	}
	for _, k := range []string{"Referer", "X-Forwarded-User", "X-Forwarded-For", "Via", "Authorization", "Cookie"} {
		if v := got.Header.Get(k); v != "" {
			t.Errorf("%s reached the app: %s", k, v)
		}
	}
	for _, k := range []string{"Strict-Transport-Security", "Clear-Site-Data", "X-Frame-Options", "Alt-Svc", "Service-Worker-Allowed", "Access-Control-Allow-Origin", "Refresh", "Report-To", "X-Accel-Redirect"} {
		if v := r.Header.Get(k); v != "" {
			t.Errorf("%s reached the browser: %s", k, v)
		}
	}
	if csp := r.Header["Content-Security-Policy"]; len(csp) != 1 || !strings.Contains(csp[0], "default-src 'self'") || !strings.Contains(csp[0], "frame-ancestors http://127.0.0.1:") {
		t.Errorf("policy: %q", csp)
	}
	if pp := r.Header.Get("Permissions-Policy"); !strings.HasPrefix(pp, "camera=()") {
		t.Errorf("permissions: %s", pp)
	}
	if cks := r.Header["Set-Cookie"]; len(cks) != 1 || cks[0] != "app=1; Path=/; HttpOnly" {
		t.Errorf("cookies: %q", cks)
	}
	if b.get(base + "/"); got.Header.Get("Cookie") != "app=1" {
		t.Errorf("cookies that reached the app: %q", got.Header.Get("Cookie"))
	}
	if b.get(base+"/", "Authorization", "Bearer of-the-app"); got.Header.Get("Authorization") != "Bearer of-the-app" {
		t.Error("the app's own token did not reach it")
	}
	if r := b.do("POST", base+"/x", "body", "Origin", "https://evil.example"); r.StatusCode != 403 {
		t.Errorf("a write from elsewhere: %d", r.StatusCode)
	}
	if r := b.do("POST", base+"/x", "body", "Origin", base); r.StatusCode != 200 {
		t.Errorf("a write: %d", r.StatusCode)
	}
}

// TestPlaces: who may come in where, and that the API is not there.
func TestPlaces(t *testing.T) {
	t.Parallel()
	e, id := liveEnv(t, appMachine(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "app") })))
	other := e.submit("other")
	b := newBrowser(e)
	base := b.enter(e, id)
	_, port, _ := net.SplitHostPort(b.addr)
	for host, want := range map[string]int{
		"3000--" + id: 200, "3001--" + id: 403, "3000--" + other: 403, "notebook--" + id: 403, "3000--x": 404, "03000--" + id: 404, "0--" + id: 404, "70000--" + id: 404, "x.3000--" + id: 404, "api--x": 404,
	} {
		addr := "http://" + host + ".localhost:" + port
		for k, v := range b.cookies {
			b.cookies[host+".localhost "+strings.Fields(k)[1]] = v // as if tossed there by a page
		}
		if r := b.get(addr + "/status/" + id); r.StatusCode != want || want == 200 && string(r.body) != "app" {
			t.Errorf("%s: %d %s", host, r.StatusCode, r.body)
		}
	}
	r := e.do("POST", "/jobs/"+id+"/places", `{"port":3000,"path":"/x?y=1"}`)
	pl := decode[glovebox.Place](t, r.body)
	if r.StatusCode != 201 || !pl.Own || !strings.HasPrefix(pl.URL, base+doorPath) && !strings.Contains(pl.URL, ".localhost:") {
		t.Fatalf("place: %d %+v", r.StatusCode, pl)
	}
	stranger := newBrowser(e)
	if r := stranger.get(pl.URL); r.Header.Get("Location") != "/x?y=1" {
		t.Errorf("a place leads to %q", r.Header.Get("Location"))
	}
	if r := newBrowser(e).get(pl.URL); r.StatusCode != 403 {
		t.Errorf("a door is used twice: %d", r.StatusCode)
	}
	if r := stranger.get(pl.URL); r.StatusCode != 303 {
		t.Errorf("who is in comes again: %d", r.StatusCode)
	}
	r = newBrowser(e).get(base + "/")
	if r.StatusCode != 403 || r.Header.Get("Content-Type") != "text/html; charset=utf-8" || !strings.Contains(string(r.body), "open the preview from the job&#39;s page") || r.Header.Get("X-Frame-Options") != "" {
		t.Errorf("a stranger: %d %s %v", r.StatusCode, r.body, r.Header)
	}
	for _, to := range []string{"//evil.example", "https://evil.example", "x", `/\evil.example`, "/%2F/evil"} {
		r := b.get(base + doorPath + "?door=x&to=" + url.QueryEscape(to))
		if loc := r.Header.Get("Location"); strings.Contains(loc, `\`) || strings.HasPrefix(loc, "//") || strings.HasPrefix(loc, "http") {
			t.Errorf("to %s: %s", to, loc)
		}
	}
	for _, body := range []string{`{}`, `{"port":0}`, `{"port":70000}`, `{"port":80,"notebook":true}`, `{"port":80,"path":"//x"}`, `{"port":80,"path":"x"}`} {
		if r := e.do("POST", "/jobs/"+id+"/places", body); r.StatusCode != 400 {
			t.Errorf("%s: %d", body, r.StatusCode)
		}
	}
	if r := b.get("http://localhost:" + port + "/jobs/" + id + "/preview/3000/?link=" + e.link(id, "view")); r.StatusCode != 403 {
		t.Errorf("a link to view opens a preview: %d", r.StatusCode)
	}
}

// TestPreviewRedirects: none takes anyone away unseen.
func TestPreviewRedirects(t *testing.T) {
	t.Parallel()
	e, id := liveEnv(t, appMachine(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Location"] = []string{r.URL.Query().Get("to")}
		w.WriteHeader(302)
	})))
	b := newBrowser(e)
	base := b.enter(e, id)
	for to, want := range map[string]string{
		"/login": "/login", "next": "next", "?a=b": "?a=b", "http://localhost:3000/x?y#z": "/x?y#z", "http://127.0.0.1:3000/": "/", "http://0.0.0.0:3000": "/", "//localhost:3000/x": "/x", `/\evil.example`: "/%5Cevil.example",
		"http://localhost:3000//evil.example": "/evil.example", "http://localhost:3001/x": "", "https://evil.example/<script>": "", "//evil.example": "", "javascript:alert(1)": "502", "data:text/html,x": "502", "ftp://evil.example": "", "http://localhost@evil.example/": "",
	} {
		r := b.get(base + "/?to=" + url.QueryEscape(to))
		if want == "502" {
			if r.StatusCode != 502 {
				t.Errorf("%s: %d", to, r.StatusCode)
			}
			continue
		}
		if got := r.Header.Get("Location"); got != want {
			t.Errorf("%s: %q, want %q", to, got, want)
		}
		if want == "" && (r.StatusCode != 403 || strings.Contains(string(r.body), "<script>") || !strings.Contains(string(r.body), "lead to another site")) {
			t.Errorf("%s: %d %s", to, r.StatusCode, r.body)
		}
	}
	// From a page without an origin, a path is relative: nobody knows the prefix.
	r := e.send2(e.request("GET", "/jobs/"+id+"/preview/3000/a/b/c?to=/login", nil))
	if got := r.Header.Get("Location"); got != "../../login" {
		t.Errorf("by path: %q", got)
	}
}

// TestHostilePreviews: answers on a raw connection, and what becomes of them.
func TestHostilePreviews(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		answer string
		want   int
	}{
		"huge header":     {"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 100<<10) + "\r\n\r\n", 502},
		"many headers":    {"HTTP/1.1 200 OK\r\n" + strings.Repeat("X: xxxxxxxxxxxxxxxxxxxxx\r\n", 10_000) + "\r\n", 502},
		"not HTTP":        {"SSH-2.0-OpenSSH\r\n", 502},
		"nothing":         {"", 502},
		"unasked upgrade": {"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", 502},
		"odd status":      {"HTTP/1.1 099 Odd\r\nContent-Length: 0\r\n\r\n", 502},
		"large status":    {"HTTP/1.1 999 Odd\r\nContent-Length: 0\r\n\r\n", 502},
		"two lengths":     {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 9\r\n\r\nx", 502},
		"both framings":   {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", 200},
		"early hints":     {"HTTP/1.1 103 Early Hints\r\nSet-Cookie: evil=1\r\nLink: </x>; rel=preload\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 200},
		"trailers":        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: Set-Cookie\r\n\r\n2\r\nok\r\n0\r\nSet-Cookie: evil=1\r\n\r\n", 200},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer ln.Close()
			go func() {
				for {
					c, err := ln.Accept()
					if err != nil {
						return
					}
					http.ReadRequest(bufio.NewReader(c))
					io.WriteString(c, tt.answer)
					c.Close()
				}
			}()
			e, id := liveEnv(t, rawMachine(ln.Addr().String()))
			r := e.send2(e.request("GET", "/jobs/"+id+"/preview/3000/", nil))
			if r.StatusCode != tt.want || tt.want == 200 && string(r.body) != "ok" {
				t.Fatalf("got %d %s", r.StatusCode, r.body)
			}
			if len(r.Header["Set-Cookie"])+len(r.Trailer) > 0 || r.Header.Get("Link") != "" {
				t.Errorf("got %v %v", r.Header, r.Trailer)
			}
			if tt.want == 502 {
				if p := r.problem(t); p.Code != glovebox.CodeUnavailable || r.Header.Get("X-Content-Type-Options") != "nosniff" {
					t.Errorf("got %+v", p)
				}
			}
		})
	}
}

// TestEndlessPreview: a body without an end reaches who reads it as it comes,
// and stops with them.
func TestEndlessPreview(t *testing.T) {
	t.Parallel()
	stopped := make(chan struct{})
	e, id := liveEnv(t, appMachine(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(stopped)
		for i := 0; ; i++ {
			if _, err := fmt.Fprintf(w, "%d\n%s", i, strings.Repeat(" ", 32<<10)); err != nil || r.Context().Err() != nil {
				return
			}
			w.(http.Flusher).Flush()
		}
	})))
	resp, err := http.DefaultClient.Do(e.request("GET", "/jobs/"+id+"/preview/3000/", nil))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.CopyN(io.Discard, resp.Body, 1<<20); err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	select {
	case <-stopped:
	case <-time.After(time.Minute):
		t.Fatal("the app goes on sending")
	}
	if r := e.do("GET", "/jobs/"+id+"/preview/1/", ""); r.StatusCode != 502 || !strings.Contains(r.problem(t).Detail, "nothing answers at port 1") {
		t.Errorf("nothing there: %d %s", r.StatusCode, r.body)
	}
}

// TestPreviewSockets: WebSockets reach the app by all ways, other upgrades none.
func TestPreviewSockets(t *testing.T) {
	t.Parallel()
	e, id := liveEnv(t, appMachine(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" {
			fmt.Fprint(w, "plain")
			return
		}
		c, err := websocket.Accept(w, r, nil) // checks that Origin is Host
		if err != nil {
			return
		}
		defer c.CloseNow()
		for {
			typ, b, err := c.Read(r.Context())
			if err != nil || c.Write(r.Context(), typ, append([]byte("echo "), b...)) != nil {
				return
			}
		}
	})))
	b := newBrowser(e)
	base := b.enter(e, id)
	u, _ := url.Parse(base)
	cookie := ""
	for k, v := range b.cookies {
		cookie += strings.Fields(k)[1] + "=" + v + "; "
	}
	pl := decode[glovebox.Place](t, e.do("POST", "/jobs/"+id+"/places", `{"port":3000}`, "Host", "localhost", "Via", "a proxy").body)
	echo := func(path string, host string, headers http.Header) error {
		c, resp, err := websocket.Dial(t.Context(), e.srv.URL()+path, &websocket.DialOptions{Host: host, HTTPHeader: headers})
		if err != nil {
			if resp != nil && resp.StatusCode != 403 {
				t.Errorf("%s: %v", path, err)
			}
			return err
		}
		defer c.CloseNow()
		c.Write(t.Context(), websocket.MessageText, []byte("hi"))
		if _, got, err := c.Read(t.Context()); err != nil || string(got) != "echo hi" {
			t.Errorf("%s: %q %v", path, got, err)
		}
		return nil
	}
	for name, err := range map[string]error{
		"own origin":      echo("/hmr", u.Host, http.Header{"Origin": {base}, "Cookie": {cookie}}),
		"program":         echo("/jobs/"+id+"/preview/3000/hmr", "", nil),
		"without origin":  echo(pl.URL+"hmr", "", http.Header{"Origin": {"null"}}),
		"via the API too": echo("/jobs/"+id+"/preview/3000/hmr", "", http.Header{"Origin": {e.srv.URL()}}),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if echo("/hmr", u.Host, http.Header{"Origin": {"https://evil.example"}, "Cookie": {cookie}}) == nil {
		t.Error("a page of elsewhere opens a WebSocket")
	}
	if echo("/hmr", u.Host, http.Header{"Origin": {base}}) == nil {
		t.Error("a stranger opens a WebSocket")
	}
	if r := e.do("GET", "/jobs/"+id+"/preview/3000/", "", "Connection", "Upgrade, HTTP2-Settings", "Upgrade", "h2c", "HTTP2-Settings", "x"); string(r.body) != "plain" {
		t.Errorf("h2c: %d %s", r.StatusCode, r.body)
	}
	if r := e.do("TRACE", "/jobs/"+id+"/preview/3000/", ""); r.StatusCode != 405 {
		t.Errorf("TRACE: %d", r.StatusCode)
	}
}

func TestNotebook(t *testing.T) {
	t.Parallel()
	var got http.Request
	e, id := liveEnv(t, appMachine(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = *r
		io.WriteString(w, "lab")
	})))
	b := newBrowser(e)
	_, port, _ := net.SplitHostPort(b.addr)
	r := b.get("http://localhost:" + port + "/jobs/" + id + "/notebook")
	r = b.get(r.Header.Get("Location"))
	if r.Header.Get("Location") != "/lab" {
		t.Fatalf("got %d %s", r.StatusCode, r.Header.Get("Location"))
	}
	r = b.get("http://notebook--"+id+".localhost:"+port+"/lab", "Authorization", "token guessed")
	if string(r.body) != "lab" || got.Header.Get("Authorization") != "token "+fakeSecret || got.Host != "localhost" || got.Header.Get("Cookie") != "" {
		t.Errorf("got %s; it saw %s %v", r.body, got.Host, got.Header)
	}
	if r := e.do("GET", "/jobs/"+id+"/notebook?link="+e.link(id, "view"), ""); r.StatusCode != 403 {
		t.Errorf("a link to view: %d", r.StatusCode)
	}
}

func TestPreviewDomain(t *testing.T) {
	t.Parallel()
	e, id := liveEnv(t, appMachine(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "app") })),
		func(o *Options) {
			o.RequireTokens, o.PublicURL, o.PreviewDomain = false, "https://box.example.com/x", "view.example.com:8443"
		})
	pl := decode[glovebox.Place](t, e.do("POST", "/jobs/"+id+"/places", `{"port":3000}`, "Host", "box.example.com").body)
	host := "3000--" + id + ".view.example.com"
	if !pl.Own || !strings.HasPrefix(pl.URL, "https://"+host+":8443/~glovebox/enter?") {
		t.Fatalf("got %+v", pl)
	}
	b := newBrowser(e)
	r := b.get(pl.URL)
	for _, ck := range r.Cookies() {
		if !ck.Secure || !ck.HttpOnly || ck.Domain != "" || ck.Path != "/" {
			t.Errorf("cookie %+v", ck)
		}
	}
	if r = b.get("https://" + host + ":8443/"); string(r.body) != "app" || !strings.Contains(r.Header.Get("Content-Security-Policy"), "frame-ancestors https://box.example.com") {
		t.Errorf("got %d %s %v", r.StatusCode, r.body, r.Header)
	}
	for _, h := range []string{"view.example.com", "x.view.example.com", "x." + host} {
		if r := e.do("GET", "/jobs", "", "Host", h); r.StatusCode == 200 {
			t.Errorf("the API is at %s", h)
		}
	}
}

func FuzzLabel(f *testing.F) {
	f.Add("3000--0123456789abcdefghjkmnpqrs.localhost:8000")
	a := &API{}
	f.Fuzz(func(t *testing.T, host string) {
		p, ok := a.placeOf(host)
		if p.job != "" && (!ok || !glovebox.ValidID(p.job) || (p.port == 0) == !p.notebook) {
			t.Fatalf("%q: %+v %v", host, p, ok)
		}
	})
}

func FuzzTarget(f *testing.F) {
	f.Add("/x?y#z")
	f.Fuzz(func(t *testing.T, s string) {
		to, ok := cleanTarget(s)
		if !ok {
			return
		}
		base := &url.URL{Scheme: "http", Host: "own.example", Path: "/a/b"}
		u, err := base.Parse(to)
		if err != nil || u.Host != "own.example" || strings.Contains(to, `\`) || strings.HasPrefix(to, "//") {
			t.Fatalf("%q leads to %q", s, to)
		}
	})
}
