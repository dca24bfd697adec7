package api

import (
	"context"
	"crypto/rand"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest"
)

// fakeMachine is a machine that the test plays.
type fakeMachine struct {
	Files
	states    []guest.ServiceState
	logs      map[string]string // by service
	listeners []guest.Listener
	service   func(ctx context.Context, name string) (net.Conn, error)
	port      func(ctx context.Context, port uint16) (net.Conn, error)

	mu    sync.Mutex
	terms map[string]*fakeTerminal
}

const fakeSecret = "0123456789abcdef0123456789abcdef"

func (m *fakeMachine) Services(context.Context) ([]guest.ServiceState, error) { return m.states, nil }

func (m *fakeMachine) ServiceLog(_ context.Context, name string, limit int) (string, error) {
	text, ok := m.logs[name]
	if !ok {
		return "", glovebox.Errorf(glovebox.CodeNotFound, "there is no service %q", name)
	}
	return text[max(0, len(text)-limit):], nil
}

func (m *fakeMachine) ServiceSecret(string) string { return fakeSecret }

func (m *fakeMachine) Listeners(context.Context) ([]guest.Listener, error) { return m.listeners, nil }

func (m *fakeMachine) DialService(ctx context.Context, name string) (net.Conn, error) {
	if m.service == nil {
		return nil, glovebox.Errorf(glovebox.CodeUnavailable, "the service %s does not run", name)
	}
	return m.service(ctx, name)
}

func (m *fakeMachine) DialPort(ctx context.Context, port uint16) (net.Conn, error) {
	if m.port == nil {
		return nil, glovebox.Errorf(glovebox.CodeUnavailable, "nothing answers on port %d", port)
	}
	return m.port(ctx, port)
}

func (m *fakeMachine) StartTerminal(_ context.Context, cmd guest.Command) (Terminal, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := &fakeTerminal{cmd: cmd, changed: make(chan struct{}), rows: cmd.Rows, cols: cmd.Cols}
	if m.terms == nil {
		m.terms = map[string]*fakeTerminal{}
	}
	m.terms[cmd.ID] = t
	return t, nil
}

func (m *fakeMachine) FindTerminal(_ context.Context, id string) (Terminal, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t := m.terms[id]; t != nil {
		return t, nil
	}
	return nil, glovebox.Errorf(glovebox.CodeNotFound, "no process %s", id)
}

func (m *fakeMachine) Processes(context.Context) ([]guest.ProcessState, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []guest.ProcessState
	for id := range m.terms {
		out = append(out, guest.ProcessState{ID: id, Running: true})
	}
	return out, nil
}

// fakeTerminal echoes what is typed; "exit" ends it.
type fakeTerminal struct {
	cmd guest.Command

	mu         sync.Mutex
	out        []byte
	ended      bool
	rows, cols uint16
	changed    chan struct{}
}

func (t *fakeTerminal) Output(ctx context.Context, offset int64, f func(guest.Output) error) error {
	for {
		t.mu.Lock()
		data, ended, changed := slices.Clone(t.out[min(offset, int64(len(t.out))):]), t.ended, t.changed
		t.mu.Unlock()
		if len(data) > 0 {
			if err := f(guest.Output{Data: data, Offset: offset}); err != nil {
				return err
			}
			offset += int64(len(data))
			continue
		}
		if ended {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (t *fakeTerminal) tell() {
	close(t.changed)
	t.changed = make(chan struct{})
}

func (t *fakeTerminal) Write(_ context.Context, b []byte) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.out = append(t.out, b...)
	t.ended = t.ended || string(b) == "exit"
	t.tell()
	return nil
}

func (t *fakeTerminal) Resize(_ context.Context, rows, cols uint16) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rows, t.cols = rows, cols
	t.tell()
	return nil
}

func (t *fakeTerminal) size() (rows, cols uint16) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.rows, t.cols
}

func (t *fakeTerminal) Signal(context.Context, string) error { return nil }

func (t *fakeTerminal) State(context.Context) (guest.ProcessState, error) {
	return guest.ProcessState{ExitCode: 3}, nil
}

// liveEnv is a server with a running job that has a machine.
func liveEnv(t testing.TB, m *fakeMachine, change ...func(*Options)) (*env, string) {
	t.Helper()
	e := newEnv(t, append([]func(*Options){func(o *Options) {
		o.Guest = func(string) (Machine, bool) { return m, true }
	}}, change...)...)
	id := e.submit("t")
	e.claim()
	return e, id
}

func (e *env) link(id string, scope glovebox.LinkScope, headers ...string) string {
	e.t.Helper()
	r := e.do("POST", "/jobs/"+id+"/links", `{"scope":"`+string(scope)+`","ttl_seconds":3600}`, headers...)
	if r.StatusCode != 201 {
		e.t.Fatalf("link: %d %s", r.StatusCode, r.body)
	}
	return decode[glovebox.Link](e.t, r.body).Link
}

// dial opens a WebSocket.
func (e *env) dial(path string, headers ...string) (*websocket.Conn, *http.Response, error) {
	h := http.Header{}
	for i := 0; i+1 < len(headers); i += 2 {
		h.Set(headers[i], headers[i+1])
	}
	c, resp, err := websocket.Dial(e.t.Context(), e.srv.URL()+path, &websocket.DialOptions{HTTPHeader: h, Subprotocols: []string{"binary"}})
	if c != nil {
		e.t.Cleanup(func() { c.CloseNow() })
	}
	return c, resp, err
}

func TestLinks(t *testing.T) {
	t.Parallel()
	now := time.Now()
	var mu sync.Mutex
	clock := func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	e := newEnv(t, func(o *Options) {
		o.RequireTokens, o.Now = true, clock
		o.Guest = func(string) (Machine, bool) { return &fakeMachine{}, true }
	})
	alice, reader, bob := e.token("alice", "write"), e.token("alice", "read"), e.token("bob", "write")
	id, other := e.submit("mine", "Authorization", alice), e.submit("other", "Authorization", alice)
	e.claim()
	view, control := e.link(id, "view", "Authorization", reader), e.link(id, "control", "Authorization", alice)

	get := func(path, link string) int { return e.do("GET", path+"?link="+link, "").StatusCode }
	for _, path := range []string{"/status/" + id, "/jobs/" + id, "/jobs/" + id + "/events", "/jobs/" + id + "/ports", "/jobs/" + id + "/services"} {
		if got := get(path, view); got != 200 {
			t.Errorf("%s: %d", path, got)
		}
		foreign := strings.Replace(path, id, other, 1)
		r := e.do("GET", foreign+"?link="+control, "")
		if p := r.problem(t); r.StatusCode != 403 || p.Detail != "the link is for another job" || p.Hint == "" {
			t.Errorf("%s: %d %+v", foreign, r.StatusCode, p)
		}
		for _, bad := range []string{"", "x", view[1:], view + "A", strings.Repeat("x", 5000), e.api.seals.seal(useSeat, grant{Job: id, Tenant: "alice", Scope: "control", Expires: 1 << 40})} {
			if got := get(path, bad); got != 403 {
				t.Errorf("%s with %.20q: %d", path, bad, got)
			}
		}
	}
	for _, path := range []string{"/jobs", "/metrics"} {
		if r := e.do("GET", path+"?link="+control, ""); r.StatusCode != 401 {
			t.Errorf("%s takes a link: %d", path, r.StatusCode)
		}
	}
	for path, want := range map[string]int{"/messages": 401, "/cancel": 401, "/links": 401} {
		if r := e.do("POST", "/jobs/"+id+path+"?link="+control, "x", "Content-Type", "text/plain"); r.StatusCode != want {
			t.Errorf("%s takes a link: %d", path, r.StatusCode)
		}
	}
	if r := e.do("POST", "/jobs/"+id+"/places?link="+view, `{"port":80}`); r.StatusCode != 403 {
		t.Errorf("a link to view opens places: %d", r.StatusCode)
	}
	if r := e.do("POST", "/jobs/"+id+"/links", `{"scope":"control"}`, "Authorization", reader); r.StatusCode != 403 {
		t.Errorf("a token to read makes links to control: %d", r.StatusCode)
	}
	if r := e.do("POST", "/jobs/"+id+"/links", `{"scope":"view"}`, "Authorization", bob); r.StatusCode != 404 {
		t.Errorf("bob makes links to alice's job: %d", r.StatusCode)
	}
	for _, body := range []string{`{}`, `{"scope":"all"}`, `{"scope":"view","ttl_seconds":-1}`, `{"scope":"view","ttl_seconds":604801}`, `{"scope":"view","x":1}`, ``} {
		if r := e.do("POST", "/jobs/"+id+"/links", body, "Authorization", alice); r.StatusCode != 400 {
			t.Errorf("%s: %d", body, r.StatusCode)
		}
	}
	mu.Lock()
	now = now.Add(time.Hour)
	mu.Unlock()
	r := e.do("GET", "/status/"+id+"?link="+view, "")
	if p := r.problem(t); r.StatusCode != 403 || !strings.Contains(p.Detail, "expired") || p.Field != "query.link" {
		t.Errorf("expired: %d %+v", r.StatusCode, p)
	}
	for _, secret := range []string{view, control} {
		if strings.Contains(e.log.String(), secret) {
			t.Error("a link is in the log")
		}
	}
}

// TestLinksSurvive: a server with the same key takes them; with another, not.
func TestLinksSurvive(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "key")
	keys := make(chan []byte, 8)
	for range cap(keys) { // at once, as several processes would
		go func() {
			key, err := LoadKey(path)
			if err != nil {
				t.Error(err)
			}
			keys <- key
		}()
	}
	first := <-keys
	for range cap(keys) - 1 {
		if k := <-keys; string(k) != string(first) {
			t.Fatal("two keys")
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	sealed := newSealer(first).seal(useLink, grant{Job: "j", Tenant: "alice", Expires: 5})
	if g, ok := newSealer(first).open(useLink, sealed); !ok || g.Tenant != "alice" || !g.expired(time.Unix(5, 0)) || g.expired(time.Unix(4, 0)) {
		t.Errorf("got %+v %v", g, ok)
	}
	if _, ok := newSealer(first).open(useDoor, sealed); ok {
		t.Error("a link opens a door")
	}
	rand.Read(first)
	if _, ok := newSealer(first).open(useLink, sealed); ok {
		t.Error("a link of another server is taken")
	}
	if err := os.WriteFile(path, []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadKey(path); glovebox.CodeOf(err) != glovebox.CodeInvalid {
		t.Errorf("a broken key: %v", err)
	}
}

// TestSocketOrigin: pages of other sites open no WebSocket, on any route.
func TestSocketOrigin(t *testing.T) {
	t.Parallel()
	e, id := liveEnv(t, &fakeMachine{})
	host := strings.TrimPrefix(e.srv.URL(), "http://")
	for _, path := range []string{"/screen/ws", "/terminal/ws", "/preview/80/"} {
		for origin, want := range map[string]int{
			"https://evil.example": 403, "null": 403, "http://localhost:1": 403, "http://80--" + id + ".localhost:" + strings.Split(host, ":")[1]: 403,
			"http://" + host: 0, "": 0,
		} {
			c, resp, err := e.dial("/jobs/"+id+path, "Origin", origin)
			if err == nil {
				c.CloseNow()
			} else if resp == nil {
				t.Fatal(err)
			}
			if (resp.StatusCode == 403) != (want == 403) {
				t.Errorf("%s from %q: %d", path, origin, resp.StatusCode)
			}
		}
	}
	if _, resp, _ := e.dial("/jobs/"+id+"/terminal/ws", "Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"); resp.StatusCode != 403 {
		t.Errorf("cross-site: %d", resp.StatusCode)
	}
}

// TestNoMachine: what is asked of a job without a machine is refused with a
// reason.
func TestNoMachine(t *testing.T) {
	t.Parallel()
	there := true
	e := newEnv(t, func(o *Options) { o.Guest = func(string) (Machine, bool) { return &fakeMachine{}, there } })
	id := e.submit("t")
	paths := []string{"/screen/ws", "/terminal/ws", "/ports", "/services", "/notebook", "/preview/80/"}
	there = false
	for _, p := range paths {
		if r := e.do("GET", "/jobs/"+id+p, ""); r.StatusCode != 409 || !strings.Contains(r.problem(t).Detail, "not there yet") {
			t.Errorf("pending %s: %d %s", p, r.StatusCode, r.body)
		}
	}
	l := e.claim()
	e.complete(l, map[string]string{"a": "x"})
	for _, p := range paths {
		if r := e.do("GET", "/jobs/"+id+p, ""); r.StatusCode != 410 || !strings.Contains(r.problem(t).Hint, "recording") {
			t.Errorf("ended %s: %d %s", p, r.StatusCode, r.body)
		}
	}
	r := e.send2(e.request("GET", "/jobs/"+id+"/screen?link="+e.link(id, "view"), nil))
	if loc := r.Header.Get("Location"); r.StatusCode != 303 || !strings.HasPrefix(loc, "../../#/jobs/"+id+"?tab=screen&link=") {
		t.Errorf("the page: %d %s", r.StatusCode, loc)
	}
}

// send2 sends a request and follows no redirect.
func (e *env) send2(req *http.Request) reply {
	e.t.Helper()
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		e.t.Fatal(err)
	}
	defer resp.Body.Close()
	b := make([]byte, 0)
	buf := make([]byte, 4096)
	for len(b) < 1<<20 {
		n, err := resp.Body.Read(buf)
		b = append(b, buf[:n]...)
		if err != nil {
			break
		}
	}
	return reply{resp, b}
}

// TestServiceLog: what a service wrote can be read from outside, as text that
// nobody runs, and no more of it than the bound.
func TestServiceLog(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", maxServiceLog)
	e, id := liveEnv(t, &fakeMachine{logs: map[string]string{"jupyter": "<script>alert(1)</script>\nstarted\n", "display": "first" + long, "panel": ""}})
	for name, want := range map[string]string{"jupyter": "<script>alert(1)</script>\nstarted\n", "display": long, "panel": ""} {
		r := e.do("GET", "/jobs/"+id+"/services/"+name+"/log", "")
		if h := r.Header; r.StatusCode != 200 || string(r.body) != want || h.Get("Content-Type") != "text/plain; charset=utf-8" ||
			!strings.HasPrefix(h.Get("Content-Disposition"), "attachment") || !strings.Contains(h.Get("Content-Security-Policy"), "sandbox") {
			t.Errorf("%s: %d, %v, %d bytes", name, r.StatusCode, h, len(r.body))
		}
	}
	for _, name := range []string{"nothing", strings.Repeat("a", 2000), "..%2f..", "%00"} {
		if r := e.do("GET", "/jobs/"+id+"/services/"+name+"/log", ""); r.StatusCode != 404 {
			t.Errorf("%.20s: %d %s", name, r.StatusCode, r.body)
		}
	}
}

func TestServicesAndPorts(t *testing.T) {
	t.Parallel()
	since := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	e, id := liveEnv(t, &fakeMachine{
		states:    []guest.ServiceState{{Name: "display", Running: true, Healthy: true, Since: since}, {Name: "browser", LastExit: "signal: killed", Restarts: 2}},
		listeners: []guest.Listener{{Port: 3000, Command: "node"}, {Port: 3000, Command: "node", Address: "::"}, {Port: 9222, Command: "chromium"}, {Port: 8080}},
	})
	if got := string(e.do("GET", "/jobs/"+id+"/services", "").body); got != `{"services":[{"name":"display","running":true,"healthy":true,"restarts":0,"since":"2026-01-02T03:04:05Z"},{"name":"browser","running":false,"healthy":false,"restarts":2,"last_exit":"signal: killed"}]}`+"\n" {
		t.Errorf("got %s", got)
	}
	want := `{"ports":[{"port":3000,"process":"node","url":"/jobs/` + id + `/preview/3000/"},{"port":8080,"url":"/jobs/` + id + `/preview/8080/"}]}` + "\n"
	if got := string(e.do("GET", "/jobs/"+id+"/ports", "").body); got != want {
		t.Errorf("got %s", got)
	}
	kernel := []guest.Listener{{Port: 40000, PID: 7, Command: "python3"}} // a server
	for port := range uint16(kernelPorts) {
		kernel = append(kernel, guest.Listener{Port: 16000 + 10_000*(port%4) + port, PID: 8, Command: "python3"})
	}
	kernel = append(kernel, guest.Listener{Port: 57230, PID: 9, Command: guest.KernelCommand}) // the only one of a kernel on files
	e, id = liveEnv(t, &fakeMachine{listeners: kernel})
	want = `{"ports":[{"port":40000,"process":"python3","url":"/jobs/` + id + `/preview/40000/"}]}` + "\n"
	if got := string(e.do("GET", "/jobs/"+id+"/ports", "").body); got != want {
		t.Errorf("beside a kernel: %s", got)
	}
}
