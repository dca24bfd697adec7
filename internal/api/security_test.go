package api

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
)

// TestHost: under a name that is not ours, nothing is answered, or a page
// whose name was rebound to this address could use the server.
func TestHost(t *testing.T) {
	t.Parallel()
	e := newEnv(t, func(o *Options) { o.AllowedHosts = []string{"Glovebox.Example"} })
	for host, want := range map[string]int{
		"localhost": 200, "localhost:8000": 200, "LOCALHOST": 200, "localhost.": 200, "127.0.0.1:1": 200, "127.9.9.9": 200, "[::1]:80": 200, "[::1]": 200,
		"gb.localhost:8000": 200, "glovebox.example": 200, "glovebox.example:443": 200, "[::ffff:127.0.0.1]": 200,
		"evil.example": 403, "localhost.evil.example": 403, "evil-localhost": 403, "127.0.0.1.evil.example": 403, "0.0.0.0": 403, "[::]": 403,
		"10.0.0.1": 403, "2130706433": 403, "0177.0.0.1": 403, "localhost@evil": 403, "evil.example:localhost": 403, "sub.glovebox.example": 403, "127.0.0.1:x": 403,
	} {
		r := e.do("GET", "/jobs", "", "Host", host)
		if r.StatusCode != want && (want != 403 || r.StatusCode != 400) { // 400 is net/http's own refusal
			t.Errorf("Host %s: %d, want %d", host, r.StatusCode, want)
		}
		if h := e.do("GET", "/healthz", "", "Host", host); want == 403 && h.StatusCode != 200 && h.StatusCode != 400 {
			t.Errorf("Host %s: probes must get through: %d", host, h.StatusCode)
		}
	}
}

// TestOrigin: pages of other sites can't write.
func TestOrigin(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	for _, tt := range []struct {
		name    string
		headers []string
		want    int
	}{
		{"a program", nil, 202},
		{"own page", []string{"Sec-Fetch-Site", "same-origin"}, 202},
		{"typed in", []string{"Sec-Fetch-Site", "none"}, 202},
		{"own origin", []string{"Origin", e.srv.URL()}, 202},
		{"another site", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"a sister site", []string{"Sec-Fetch-Site", "same-site"}, 403},
		{"another origin", []string{"Origin", "https://evil.example"}, 403},
		{"another port", []string{"Origin", "http://127.0.0.1:1"}, 403},
		{"no origin to speak of", []string{"Origin", "null"}, 403},
	} {
		r := e.do("POST", "/schedule", "x", append([]string{"Content-Type", "text/plain"}, tt.headers...)...)
		if r.StatusCode != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, r.StatusCode, tt.want)
		}
	}
	r := e.do("GET", "/jobs", "", "Sec-Fetch-Site", "cross-site")
	if r.StatusCode != 200 || r.Header.Get("Access-Control-Allow-Origin") != "" || r.Header.Get("Cross-Origin-Resource-Policy") != "same-origin" {
		t.Errorf("a read is answered, but no other site may see it: %d %v", r.StatusCode, r.Header)
	}
}

func (e *env) token(tenant string, scope glovebox.Scope) string {
	e.t.Helper()
	secret, tok, err := glovebox.NewToken(tenant, scope, time.Now())
	if err != nil {
		e.t.Fatal(err)
	}
	if err := e.store.CreateToken(context.Background(), tok); err != nil {
		e.t.Fatal(err)
	}
	return "Bearer " + secret
}

// TestEveryRoute walks the table of routes: without a token, with a wrong
// one, with one for reading, and with one of another tenant.
func TestEveryRoute(t *testing.T) {
	t.Parallel()
	e := newEnv(t, func(o *Options) { o.RequireTokens = true })
	alice, bob, reader := e.token("alice", "write"), e.token("bob", "write"), e.token("alice", "read")
	id := e.submit("alice's secret", "Authorization", alice)
	e.complete(e.claim(), map[string]string{"a.txt": "x"})
	handle := e.output(id, "alice's secret")
	before := e.view(id, "Authorization", alice)
	ofJob := 0
	for _, rt := range e.api.routes() {
		path := strings.NewReplacer("{id}", id, "{path...}", "a.txt", "{handle}", handle, "{port}", "80", "{capability}", "x", "{$}", "").Replace(rt.path)
		t.Run(rt.method+" "+rt.path, func(t *testing.T) {
			ask := func(token string) reply {
				return e.do(rt.method, path, "x", "Authorization", token, "Content-Type", "text/plain")
			}
			if rt.foreign {
				if r := ask(alice); r.StatusCode != 403 {
					t.Errorf("without what should be in its path: %d", r.StatusCode)
				}
				return
			}
			if rt.scope == "" {
				if r := ask(""); r.StatusCode != 200 {
					t.Errorf("public: %d", r.StatusCode)
				}
				return
			}
			for _, wrong := range []string{"", "Bearer", "Bearer ", "Bearer gbx_wrong", "Basic eDp5", strings.TrimSuffix(alice, alice[len(alice)-1:]), "Bearer " + strings.Repeat("x", 10_000)} {
				r := ask(wrong)
				if p := r.problem(t); (r.StatusCode != 401 && r.StatusCode != 429) || p.Field != "Authorization" {
					t.Errorf("token %.20q: %d %+v", wrong, r.StatusCode, p)
				}
				e.api.auth.init(e.store, time.Now) // each gets all tries
			}
			if rt.scope == glovebox.ScopeWrite {
				if r := ask(reader); r.StatusCode != 403 {
					t.Errorf("a token for reading: %d", r.StatusCode)
				}
			}
			if !strings.Contains(rt.path, "{id}") {
				return
			}
			ofJob++
			r := ask(bob)
			if (strings.HasSuffix(rt.path, "/limits") || strings.HasSuffix(rt.path, "/model")) && r.StatusCode == 415 {
				r = e.do(rt.method, path, `{"steps":1000}`, "Authorization", bob, "Content-Type", "application/json")
			}
			none := e.do(rt.method, strings.Replace(path, id, strings.Repeat("0", 26), 1), `{"text":"x"}`, "Authorization", bob, "Content-Type", "application/json")
			if r.StatusCode != 404 || none.StatusCode != 404 {
				t.Errorf("of another tenant: %d, of nobody: %d", r.StatusCode, none.StatusCode)
			}
			if got, want := strings.ReplaceAll(string(r.body), id, "ID"), strings.ReplaceAll(string(none.body), strings.Repeat("0", 26), "ID"); got != want {
				t.Errorf("the answers differ:\n%s\n%s", got, want)
			}
		})
	}
	if ofJob < 10 {
		t.Errorf("only %d routes of a job were walked", ofJob)
	}
	if after := e.view(id, "Authorization", alice); after.Seq != before.Seq {
		t.Error("a refused request changed the job")
	}
	if got := decode[glovebox.JobList](t, e.do("GET", "/jobs?q=secret", "", "Authorization", bob).body); len(got.Jobs) != 0 {
		t.Errorf("bob finds %+v", got)
	}
	for _, secret := range []string{alice, bob, reader, "gbx_wrong"} {
		if strings.Contains(e.log.String(), strings.TrimPrefix(secret, "Bearer ")) {
			t.Error("a token is in the log")
		}
	}
}

// TestWrongTokens: an address that tries tokens is slowed down; the tokens
// that are in use from there go on working.
func TestWrongTokens(t *testing.T) {
	t.Parallel()
	now := time.Now() // stands still: tries come back with time
	e := newEnv(t, func(o *Options) { o.RequireTokens, o.Now = true, func() time.Time { return now } })
	e.api.auth.pause = func() {}
	good := e.token("alice", "read")
	e.do("GET", "/jobs", "", "Authorization", good)
	var last reply
	for range maxTries + 1 {
		last = e.do("GET", "/jobs", "", "Authorization", "Bearer gbx_wrong")
	}
	if last.StatusCode != 429 || last.Header.Get("Retry-After") == "" {
		t.Errorf("after %d wrong tokens: %d", maxTries+1, last.StatusCode)
	}
	if r := e.do("GET", "/jobs", "", "Authorization", good); r.StatusCode != 200 {
		t.Errorf("the token in use: %d", r.StatusCode)
	}
	// Also when it was looked up long ago, until it is deleted.
	now = now.Add(tokenTTL + 1)
	for range maxTries + 1 {
		last = e.do("GET", "/jobs", "", "Authorization", "Bearer gbx_wrong")
	}
	if last.StatusCode != 429 {
		t.Errorf("after %d more: %d", maxTries+1, last.StatusCode)
	}
	if r := e.do("GET", "/jobs", "", "Authorization", good); r.StatusCode != 200 {
		t.Errorf("the token in use, later: %d", r.StatusCode)
	}
	ts, err := e.store.ListTokens(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := e.store.DeleteToken(t.Context(), ts[0].ID); err != nil {
		t.Fatal(err)
	}
	now = now.Add(tokenTTL + 1)
	for _, want := range []int{401, 401} {
		if r := e.do("GET", "/jobs", "", "Authorization", good); r.StatusCode != want {
			t.Errorf("the token, deleted: %d", r.StatusCode)
		}
	}
}

// TestGuessesKeepNobodyOut: a token that was never used before is let in from
// an address that guesses, as fast as it guesses, and its guesses stay slow.
func TestGuessesKeepNobodyOut(t *testing.T) {
	t.Parallel()
	now := time.Now() // stands still: no tries come back
	e := newEnv(t, func(o *Options) { o.RequireTokens, o.Now = true, func() time.Time { return now } })
	paused, resume := make(chan struct{}, maxWaiting), make(chan struct{})
	e.api.auth.pause = func() { paused <- struct{}{}; <-resume }
	alice, bob := e.token("alice", "read"), e.token("bob", "read")
	for range maxTries {
		if r := e.do("GET", "/jobs", "", "Authorization", "Bearer gbx_wrong"); r.StatusCode != 401 {
			t.Fatalf("a wrong token: %d", r.StatusCode)
		}
	}
	guess := func(ctx context.Context) error {
		_, err := e.api.auth.lookup(ctx, glovebox.HashToken("gbx_wrong"), "127.0.0.1")
		return err
	}
	answers := make(chan error, maxWaiting)
	for range maxGuesses - 1 {
		go func() { answers <- guess(t.Context()) }()
		<-paused
	}
	if r := e.do("GET", "/jobs", "", "Authorization", alice); r.StatusCode != 200 {
		t.Errorf("a token beside guesses: %d", r.StatusCode)
	}
	go func() { answers <- guess(t.Context()) }()
	<-paused
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := guess(gone); !errors.Is(err, context.Canceled) {
		t.Errorf("a guess beyond the places, from who goes away: %v", err)
	}
	entered := make(chan int, 1)
	go func() { entered <- e.do("GET", "/jobs", "", "Authorization", bob).StatusCode }()
	close(resume)
	for range maxGuesses {
		if e, ok := errors.AsType[*httpError](<-answers); !ok || e.status != 429 {
			t.Errorf("a guess: %v", e)
		}
	}
	if got := <-entered; got != 200 {
		t.Errorf("a token that waited for guesses: %d", got)
	}
}

func TestTokenExpiresFromMemory(t *testing.T) {
	t.Parallel()
	now := time.Now()
	e := newEnv(t, func(o *Options) { o.RequireTokens, o.Now = true, func() time.Time { return now } })
	good := e.token("alice", "read")
	if r := e.do("GET", "/jobs", "", "Authorization", good); r.StatusCode != 200 {
		t.Fatal(r.StatusCode)
	}
	ts, err := e.store.ListTokens(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := e.store.DeleteToken(t.Context(), ts[0].ID); err != nil {
		t.Fatal(err)
	}
	now = now.Add(tokenTTL + 1)
	if r := e.do("GET", "/jobs", "", "Authorization", good); r.StatusCode != 401 {
		t.Errorf("a deleted token: %d", r.StatusCode)
	}
}

func TestListenNeedsTokens(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	_, err := StartServer(ServerOptions{Listen: "0.0.0.0:0", Handler: e.api})
	if glovebox.CodeOf(err) != glovebox.CodeInvalid || !strings.Contains(err.Error(), "glovebox token create") {
		t.Errorf("got %v", err)
	}
	if _, err := StartServer(ServerOptions{Listen: e.srv.Addr(), Handler: e.api}); glovebox.CodeOf(err) != glovebox.CodeUnavailable {
		t.Errorf("address in use: %v", err)
	}
}

// TestServerURL opens the address that a server names, wherever it listens.
func TestServerURL(t *testing.T) {
	t.Parallel()
	e := newEnv(t, func(o *Options) { o.RequireTokens = true })
	for listen, want := range map[string]struct {
		url        string
		everywhere bool
	}{
		"0.0.0.0:0":   {"http://127.0.0.1:", true},
		"[::]:0":      {"http://127.0.0.1:", true},
		":0":          {"http://127.0.0.1:", true},
		"127.0.0.1:0": {"http://127.0.0.1:", false},
		"127.0.0.2:0": {"http://127.0.0.2:", false},
		"localhost:0": {"http://localhost:", false},
	} {
		t.Run(listen, func(t *testing.T) {
			s, err := StartServer(ServerOptions{Listen: listen, Handler: e.api})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Stop(context.Background())
			if !strings.HasPrefix(s.URL(), want.url) || s.Everywhere() != want.everywhere {
				t.Errorf("listening on %s it is said to be at %s, everywhere: %t", s.Addr(), s.URL(), s.Everywhere())
			}
			resp, err := http.Get(s.URL() + "/healthz")
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				t.Errorf("%s answers %s", s.URL(), resp.Status)
			}
		})
	}
}

func TestSecurityHeaders(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	for _, path := range []string{"/", "/jobs", "/nothing", "/status/x", "/openapi.json"} {
		h := e.do("GET", path, "").Header
		if h.Get("X-Content-Type-Options") != "nosniff" || !strings.Contains(h.Get("Content-Security-Policy"), "default-src 'none'") || h.Get("X-Frame-Options") != "DENY" {
			t.Errorf("%s: %v", path, h)
		}
	}
}

// brokenStore fails, or panics, where it is told to.
type brokenStore struct {
	Store
	err   error
	panic bool
}

func (b *brokenStore) Job(ctx context.Context, tenant, id string) (*glovebox.Job, error) {
	if b.panic {
		panic("SECRET internals")
	}
	return nil, b.err
}

// TestFaults: what goes wrong on our side is told without its insides, under
// a name that the log has.
func TestFaults(t *testing.T) {
	t.Parallel()
	broken := &brokenStore{err: errors.New("SECRET disk error")}
	e := newEnv(t, func(o *Options) { broken.Store = o.Store; o.Store = broken })
	for range 2 {
		r := e.do("GET", "/status/"+glovebox.NewID(), "")
		p := r.problem(t)
		id := strings.TrimPrefix(p.Instance, "urn:glovebox:fault:")
		if r.StatusCode != 500 || p.Code != glovebox.CodeInternal || strings.Contains(string(r.body), "SECRET") || !strings.Contains(e.log.String(), id) || len(id) != 26 {
			t.Errorf("got %d %s", r.StatusCode, r.body)
		}
		broken.panic = true
	}
	broken.panic = false
	if r := e.do("GET", "/readyz", ""); r.StatusCode != 503 || r.problem(t).Code != glovebox.CodeUnavailable {
		t.Errorf("readyz: %d", r.StatusCode)
	}
	broken.err = &glovebox.Error{Code: glovebox.CodeUnavailable, Msg: "the disk is full"}
	if r := e.do("GET", "/status/"+glovebox.NewID(), ""); r.StatusCode != 503 || r.Header.Get("Retry-After") == "" {
		t.Errorf("unavailable: %d", r.StatusCode)
	}
}

func TestProbesAndMetrics(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.submit("t")
	for path, want := range map[string]string{"/healthz": `"ok"`, "/readyz": `"ok"`, "/": "curl -X POST", "/metrics": `glovebox_submissions_total{result="created"} 1`} {
		if r := e.do("GET", path, ""); r.StatusCode != 200 || !strings.Contains(string(r.body), want) {
			t.Errorf("%s: %d %.300s", path, r.StatusCode, r.body)
		}
	}
	if r := e.do("GET", "/", "", "Accept", "application/json"); decode[about](t, r.body).Name != "glovebox" {
		t.Errorf("got %s", r.body)
	}
	body := string(e.do("GET", "/metrics", "").body)
	if !strings.Contains(body, `glovebox_http_request_duration_seconds_count{method="POST",route="POST /schedule",status="202"} 1`) {
		t.Errorf("no duration of the submission:\n%.2000s", body)
	}
	if !strings.Contains(body, `glovebox_jobs{status="pending"} 1`) || !strings.Contains(body, `glovebox_jobs{status="running"} 0`) {
		t.Error("no count of jobs")
	}
	if r := e.send(e.request(http.MethodHead, "/healthz", nil)); r.StatusCode != 200 || len(r.body) != 0 {
		t.Errorf("HEAD: %d", r.StatusCode)
	}
	e.api.Drain()
	if r := e.do("GET", "/readyz", ""); r.StatusCode != 503 {
		t.Errorf("readyz while draining: %d", r.StatusCode)
	}
}
