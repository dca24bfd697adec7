package api

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
)

// TestDoorsOfOneJob: whoever opens the previews of one job again and again
// keeps nobody out of those of another.
func TestDoorsOfOneJob(t *testing.T) {
	t.Parallel()
	now := time.Now()
	var l lives
	l.init(&API{o: Options{Now: func() time.Time { return now }}})
	until := now.Add(doorTTL).Unix()
	for i := range maxDoors {
		if !l.useDoor("greedy", fmt.Sprint(i), until) {
			t.Fatalf("door %d was refused", i)
		}
	}
	if l.useDoor("greedy", "one more", until) || l.useDoor("greedy", "0", until) {
		t.Error("a door beyond the bound, or used, was taken")
	}
	if !l.useDoor("other", "0", until) || l.useDoor("other", "0", until) {
		t.Error("the doors of another job")
	}
	now = now.Add(2 * doorTTL)
	if !l.useDoor("greedy", "later", now.Add(doorTTL).Unix()) || len(l.doors) != 1 || len(l.doors["greedy"]) != 1 {
		t.Errorf("after they expired: %d jobs, %d doors", len(l.doors), len(l.doors["greedy"]))
	}
}

// TestTerminalsAtOnce: the bound of terminals holds for those that are opened
// at the same moment.
func TestTerminalsAtOnce(t *testing.T) {
	t.Parallel()
	m := &fakeMachine{}
	e, id := liveEnv(t, m)
	var wg sync.WaitGroup
	for range 3 * maxShells {
		wg.Go(func() {
			if c, resp, err := e.dial("/jobs/" + id + "/terminal/ws"); err == nil {
				readText(t, c)
			} else if resp == nil || resp.StatusCode != http.StatusConflict {
				t.Errorf("refused with %v", err)
			}
		})
	}
	wg.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := len(m.terms); n == 0 || n > maxShells {
		t.Errorf("%d terminals run, at most %d may", n, maxShells)
	}
}

// TestNoCapabilityInLogs: what lets people in is in no log, also where a proxy
// in front leads to the wrong place.
func TestNoCapabilityInLogs(t *testing.T) {
	t.Parallel()
	e, id := liveEnv(t, appMachine(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for k, v := range map[string]string{"Use-As-Dictionary": `match="/*"`, "Attribution-Reporting-Register-Source": "{}", "Sec-Shared-Storage-Writable": "?1", "X-App": "kept"} {
			w.Header().Set(k, v)
		}
		io.WriteString(w, "hi")
	})))
	j, err := e.store.Job(t.Context(), "", id)
	if err != nil {
		t.Fatal(err)
	}
	capability := e.api.capability(place{job: id, port: 3000}, j)
	link := e.link(id, glovebox.LinkControl)
	r := e.do("GET", "/preview/"+capability+"/x", "")
	if r.StatusCode != 200 || r.Header.Get("X-App") != "kept" {
		t.Fatalf("got %d", r.StatusCode)
	}
	for _, k := range []string{"Use-As-Dictionary", "Attribution-Reporting-Register-Source", "Sec-Shared-Storage-Writable"} {
		if v := r.Header.Get(k); v != "" {
			t.Errorf("%s reached the browser: %s", k, v)
		}
	}
	for _, path := range []string{
		"/wrong/preview/" + capability + "/x", "/preview/" + capability, "/preview//" + capability + "/", "/preview/x" + capability + "/y", "/jobs/preview/" + capability + "/",
		"/jobs/" + id + "/screen?link=" + link, "/jobs?link=" + link, "/status/" + id + "?link=" + link + "&nonsense=%zz", "/jobs/" + id + "/terminal/ws?link=" + link + "x",
	} {
		for _, method := range []string{"GET", "DELETE", "POST"} {
			e.do(method, path, "", "Accept", "text/html")
		}
	}
	log := e.log.String()
	if strings.Contains(log, capability) || strings.Contains(log, link) {
		at := max(strings.Index(log, capability), strings.Index(log, link))
		t.Errorf("the log has what lets people in: %s", log[max(0, at-200):at+20])
	}
}

// TestEveryRouteOfAJob asks every route of a job, those to come as well, on
// behalf of everyone who may not.
func TestEveryRouteOfAJob(t *testing.T) {
	t.Parallel()
	e := newEnv(t, func(o *Options) {
		o.RequireTokens = true
		o.Guest = func(string) (Machine, bool) { return &fakeMachine{}, true }
	})
	alice, reader, bob := e.token("alice", "write"), e.token("alice", "read"), e.token("bob", "write")
	id, other := e.submit("mine", "Authorization", alice), e.submit("another", "Authorization", alice)
	e.claim()
	view, control := e.link(id, "view", "Authorization", alice), e.link(id, "control", "Authorization", alice)
	elsewhere := e.link(other, "control", "Authorization", alice)
	forged := strings.Map(func(r rune) rune {
		if r == 'x' {
			return 'y'
		}
		return 'x'
	}, control[:1]) + control[1:]
	ask := func(rt route, link string, headers ...string) int {
		path := strings.NewReplacer("{id}", id, "{port}", "3000", "{path...}", "", "{handle}", strings.Repeat("a", 64), "{name}", "display").Replace(rt.path)
		if link != "" {
			path += "?link=" + link
		}
		headers = append(headers, "Content-Type", "application/json")
		if strings.HasSuffix(rt.path, "/ws") {
			headers = append(headers, "Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
		}
		return e.do(rt.method, path, `{"scope":"control","control":"user","text":"x","port":3000}`, headers...).StatusCode
	}
	n := 0
	for _, rt := range e.api.routes() {
		if !strings.Contains(rt.path, "{id}") {
			continue
		}
		n++
		name := rt.method + " " + rt.path
		if rt.scope == "" {
			t.Errorf("%s asks for no token", name)
		}
		for who, got := range map[string]int{"nobody": ask(rt, ""), "a wrong token": ask(rt, "", "Authorization", "Bearer gbx_"+strings.Repeat("a", 43))} {
			if got != 401 && got != 429 {
				t.Errorf("%s of %s: %d", who, name, got)
			}
		}
		if got := ask(rt, "", "Authorization", bob); got != 404 && got != 400 && got != 415 {
			t.Errorf("another tenant's %s: %d", name, got)
		}
		refused := 403
		if rt.link == "" {
			refused = 401 // links are not looked at
		}
		for what, link := range map[string]string{"of another job": elsewhere, "forged": forged, "cut": control[:len(control)-1], "huge": strings.Repeat("A", 10_000), "empty": "%20"} {
			if got := ask(rt, link); got != refused {
				t.Errorf("%s with a link that is %s: %d", name, what, got)
			}
		}
		if rt.link != glovebox.LinkView {
			if got := ask(rt, view); got != refused {
				t.Errorf("%s with a link to view: %d", name, got)
			}
		} else if rt.method != http.MethodGet {
			t.Errorf("%s is no read, and is open to links to view", name)
		}
		if rt.scope == glovebox.ScopeWrite {
			if got := ask(rt, "", "Authorization", reader); got != 403 {
				t.Errorf("%s with a token to read: %d", name, got)
			}
		} else if rt.method != http.MethodGet && rt.path != "/jobs/{id}/links" && rt.path != "/jobs/{id}/places" {
			t.Errorf("%s is no read, and is open to tokens that read", name)
		}
	}
	for _, path := range []string{"links", "places"} { // these say what the body asks for is too much
		if r := e.do("POST", "/jobs/"+id+"/"+path, map[string]string{"links": `{"scope":"control"}`, "places": `{"port":3000}`}[path], "Authorization", reader); r.StatusCode != 403 {
			t.Errorf("%s with a token to read: %d", path, r.StatusCode)
		}
	}
	if n < 15 {
		t.Errorf("only %d routes were asked", n)
	}
	j, err := e.store.Job(t.Context(), "", id)
	pending, err2 := e.store.PendingSignals(t.Context(), id)
	if err != nil || err2 != nil || j.Status != glovebox.StatusRunning || len(pending) != 0 {
		t.Errorf("something was done: %v, %v, %v, %v", j, pending, err, err2)
	}
}

// TestFloodedViewers: displays that paint without end, and people who open the
// screen and do not read, cost a bounded amount of memory and nobody else's
// time.
func TestFloodedViewers(t *testing.T) {
	// Not parallel: it measures the memory of all.
	m, ready := displays(t)
	e, id := liveEnv(t, m)
	frame := append([]byte{0, 0, 0, 1, 0, 0, 0, 0, 5, 0, 3, 32, 0, 0, 0, 0}, make([]byte, 1280*800*4)...)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var sent atomic.Int64
	for range maxScreens {
		e.watch("/jobs/" + id + "/screen/ws") // and never reads again
		display := <-ready
		go func() {
			for {
				n, err := display.Write(frame)
				sent.Add(int64(n))
				if err != nil {
					return
				}
			}
		}()
	}
	for range 50 {
		start := time.Now()
		if r := e.do("GET", "/jobs/"+id, ""); r.StatusCode != 200 {
			t.Fatalf("got %d", r.StatusCode)
		}
		if took := time.Since(start); took > socketWrite-5*time.Second { // who waits for one of them waits for longer
			t.Errorf("an answer took %v", took)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 64<<20 {
		t.Errorf("%d MiB for %d viewers, of %d MiB that the displays sent", grown>>20, maxScreens, sent.Load()>>20)
	}
}

// TestInterimAnswersWithoutEnd: a server that never comes to its answer is
// given up.
func TestInterimAnswersWithoutEnd(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				if _, err := c.Read(make([]byte, 4<<10)); err != nil { // it must not speak first
					return
				}
				for {
					if _, err := io.WriteString(c, "HTTP/1.1 103 Early Hints\r\nLink: <http://169.254.169.254/>; rel=preload\r\n\r\n"); err != nil {
						return
					}
				}
			}()
		}
	}()
	e, id := liveEnv(t, rawMachine(ln.Addr().String()))
	if r := e.do("GET", "/jobs/"+id+"/preview/3000/", ""); r.StatusCode != 502 || !strings.Contains(string(r.body), "without end") {
		t.Errorf("got %d %s", r.StatusCode, r.body)
	}
}

// TestForwardedFromElsewhere: a proxy that gives our own address as Host does
// not open a server without tokens to other machines.
func TestForwardedFromElsewhere(t *testing.T) {
	t.Parallel()
	open, guarded := newEnv(t), newEnv(t, func(o *Options) { o.RequireTokens = true })
	token := guarded.token("alice", "write")
	for _, tt := range []struct {
		name, value string
		want        int
	}{
		{"X-Forwarded-For", "127.0.0.1", 200}, {"X-Forwarded-For", "::1, 127.0.0.2:80", 200}, {"X-Forwarded-For", "", 200}, {"X-Real-Ip", "::ffff:127.0.0.1", 200},
		{"Forwarded", `for="[::1]:1";proto=http;by=203.0.113.1, for=127.0.0.1`, 200}, {"Forwarded", "proto=https", 200},
		{"X-Forwarded-For", "203.0.113.9", 403}, {"X-Forwarded-For", "127.0.0.1, 203.0.113.9", 403}, {"X-Forwarded-For", "203.0.113.9:1, 127.0.0.1", 403},
		{"X-Forwarded-For", "2001:db8::1", 403}, {"X-Forwarded-For", "[2001:db8::1]:5", 403}, {"X-Forwarded-For", "unknown", 403}, {"X-Real-Ip", "10.0.0.1", 403},
		{"Forwarded", "for=192.0.2.1", 403}, {"Forwarded", `By=127.0.0.1; FOR="[2001:db8::1]"`, 403}, {"Forwarded", "for=_hidden", 403},
	} {
		if r := open.do("GET", "/jobs", "", tt.name, tt.value); r.StatusCode != tt.want {
			t.Errorf("%s: %s: %d %s", tt.name, tt.value, r.StatusCode, r.body)
		}
		if r := guarded.do("GET", "/jobs", "", tt.name, tt.value, "Authorization", token); r.StatusCode != 200 {
			t.Errorf("with a token, %s: %s: %d", tt.name, tt.value, r.StatusCode)
		}
	}
	if r := open.do("POST", "/schedule", "evil", "X-Forwarded-For", "203.0.113.9"); r.StatusCode != 403 || r.problem(t).Hint == "" {
		t.Errorf("a job from elsewhere: %d", r.StatusCode)
	}
}
