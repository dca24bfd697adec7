package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/glovebox-dev/glovebox"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a network for tests: names with addresses, and what answers at
// each address and port.
type world struct {
	mu     sync.Mutex
	names  map[string][][]string // answers, one after another; the last one stays
	listen map[string]string     // address and port -> where a test server is
	dialed []string
	events []glovebox.EgressAttempted
	more   chan struct{} // receives after an event was recorded
}

func (w *world) resolve(_ context.Context, name string) ([]netip.Addr, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	answers := w.names[name]
	if len(answers) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: name, Server: "10.9.9.9:53", IsNotFound: true}
	}
	if len(answers) > 1 {
		w.names[name] = answers[1:]
	}
	var out []netip.Addr
	for _, s := range answers[0] {
		out = append(out, netip.MustParseAddr(s))
	}
	return out, nil
}

func (w *world) dial(ctx context.Context, network, address string) (net.Conn, error) {
	w.mu.Lock()
	to := w.listen[address]
	w.dialed = append(w.dialed, address)
	w.mu.Unlock()
	if to == "" {
		return nil, errors.New("connection refused by 10.9.9.9")
	}
	return new(net.Dialer).DialContext(ctx, network, to)
}

func (w *world) record(e glovebox.EgressAttempted) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, e)
	select {
	case w.more <- struct{}{}:
	default:
	}
}

func (w *world) wasDialed() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.dialed)
}

func (w *world) recorded() []glovebox.EgressAttempted {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.events)
}

// start serves a proxy with the given rules and returns its address.
func (w *world) start(t testing.TB, o Options, allow ...string) (addr string) {
	t.Helper()
	p := mustCompile(t, glovebox.Egress{}, Defaults{Allow: allow})
	o.Record, o.Resolve, o.Dial = w.record, w.resolve, w.dial
	if o.Upstream == nil {
		o.Upstream = NoUpstream
	}
	if o.LocalAddrs == nil {
		o.LocalAddrs = func() []netip.Addr { return nil }
	}
	x := NewProxy(p, o)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { x.ServeConn(c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		x.Close()
		wg.Wait()
	})
	return l.Addr().String()
}

func hostport(s *httptest.Server) string { return s.Listener.Addr().String() }

// client returns an HTTP client that goes through the proxy.
func client(t testing.TB, proxy string, roots *x509.CertPool) *http.Client {
	tr := &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: proxy}), TLSClientConfig: &tls.Config{RootCAs: roots}}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// raw sends bytes and returns all that comes back until the end.
func raw(t testing.TB, addr, send string) string {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(10 * time.Second))
	io.WriteString(c, send)
	c.(*net.TCPConn).CloseWrite()
	b, _ := io.ReadAll(c)
	return string(b)
}

func echo(w http.ResponseWriter, r *http.Request) {
	b, _ := io.ReadAll(r.Body)
	w.Header().Set("X-Got", fmt.Sprint(r.Method, " ", r.Host, " ", r.URL, " ", r.Header.Get("X-Forwarded-For"), r.Header.Get("Proxy-Authorization"), r.Header.Get("X-Hop")))
	w.Write(b)
	io.WriteString(w, "hello")
}

func newWorld(t testing.TB) (*world, *httptest.Server, *httptest.Server) {
	plain, secure := httptest.NewServer(http.HandlerFunc(echo)), httptest.NewUnstartedServer(http.HandlerFunc(echo))
	secure.Config.ErrorLog = log.New(io.Discard, "", 0) // handshakes are refused on purpose
	secure.StartTLS()
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)
	return &world{
		more: make(chan struct{}, 1),
		names: map[string][][]string{"example.com": {{"203.0.113.1"}}, "ok.example": {{"203.0.113.1"}}, "inside.example": {{"10.0.0.1"}},
			"mixed.example": {{"203.0.113.1", "127.0.0.1"}}, "meta.example": {{"169.254.169.254"}}, "six.example": {{"fd00::1"}}},
		listen: map[string]string{"203.0.113.1:80": hostport(plain), "203.0.113.1:443": hostport(secure), "203.0.113.1:2222": hostport(plain),
			"203.0.113.1:8443": hostport(secure), "10.0.0.1:80": hostport(plain), "127.0.0.1:80": hostport(plain), "169.254.169.254:80": hostport(plain)},
	}, plain, secure
}

func get(t testing.TB, c *http.Client, url string) (int, string) {
	t.Helper()
	resp, err := c.Get(url)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b)
}

func TestPlainHTTP(t *testing.T) {
	t.Parallel()
	w, _, _ := newWorld(t)
	addr := w.start(t, Options{}, "example.com")
	c := client(t, addr, nil)
	for range 3 {
		if code, body := get(t, c, "http://example.com/a?b=c"); code != 200 || body != "hello" {
			t.Fatalf("got %d %q", code, body)
		}
	}
	// Chunked and counted bodies both ways, fields of trust and hops removed.
	for _, body := range []io.Reader{strings.NewReader("twelve bytes"), io.MultiReader(strings.NewReader("twelve "), strings.NewReader("bytes"))} {
		req, _ := http.NewRequest("POST", "http://example.com/x", body)
		req.Header.Set("X-Forwarded-For", "127.0.0.1")
		req.Header.Set("Proxy-Authorization", "Basic eA==")
		req.Header.Set("Connection", "X-Hop")
		req.Header.Set("X-Hop", "1")
		resp, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if got := resp.Header.Get("X-Got"); strings.TrimSpace(got) != "POST example.com /x" || string(b) != "twelve byteshello" {
			t.Errorf("server got %q, answered %q", got, b)
		}
	}
	if n := len(w.wasDialed()); n > 3 {
		t.Errorf("%d connections for 5 requests", n)
	}
	if code, body := get(t, c, "http://other.example/"); code != 403 || !strings.Contains(body, "no rule allows other.example") || !strings.Contains(body, `"extend"`) {
		t.Errorf("got %d %q", code, body)
	}
	c.CloseIdleConnections()
	got := w.recorded()
	if last := got[len(got)-1]; last.Allowed || last.Host != "other.example" || last.Port != 80 || last.Count != 1 {
		t.Errorf("recorded %+v", last)
	}
	if first := got[0]; !first.Allowed || first.BytesDown != 5 || first.Reason != "rule example.com" {
		t.Errorf("recorded %+v", first)
	}
}

func TestConnect(t *testing.T) {
	t.Parallel()
	w, _, secure := newWorld(t)
	addr := w.start(t, Options{}, "example.com", "example.com:8443")
	roots := x509.NewCertPool()
	roots.AddCert(secure.Certificate())
	c := client(t, addr, roots)
	for _, u := range []string{"https://example.com/", "https://example.com:8443/"} {
		if code, body := get(t, c, u); code != 200 || body != "hello" {
			t.Errorf("%s: got %d %q", u, code, body)
		}
	}
	for _, u := range []string{"https://other.example/", "https://example.com:9443/"} {
		if _, err := get(t, c, u); !strings.Contains(err, "no rule allows") {
			t.Errorf("%s: %s", u, err)
		}
	}
}

// handshake asks for a tunnel and speaks TLS with the given server name in it.
func handshake(t testing.TB, proxy, authority, sni string) error {
	t.Helper()
	c, err := net.Dial("tcp", proxy)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(10 * time.Second))
	fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", authority, authority)
	resp, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: "CONNECT"})
	if err != nil || resp.StatusCode != 200 {
		t.Fatalf("CONNECT %s: %v %v", authority, resp, err)
	}
	return tls.Client(c, &tls.Config{ServerName: sni, InsecureSkipVerify: true}).Handshake()
}

func TestServerName(t *testing.T) {
	t.Parallel()
	w, _, _ := newWorld(t)
	addr := w.start(t, Options{}, "example.com", "example.com:8443", "203.0.113.1")
	for _, c := range []struct {
		to, sni string
		want    bool
	}{
		{"example.com:443", "example.com", true}, {"EXAMPLE.com.:443", "example.COM", true}, {"example.com:443", "evil.example", false},
		{"example.com:443", "", false}, {"example.com:443", "a.example.com", false}, {"example.com:8443", "evil.example", false},
		{"example.com:8443", "example.com", true}, {"203.0.113.1:443", "", true}, {"203.0.113.1:443", "evil.example", false},
	} {
		if err := handshake(t, addr, c.to, c.sni); (err == nil) != c.want {
			t.Errorf("server name %q to %s: %v; want success %v", c.sni, c.to, err, c.want)
		}
	}
	denied := 0
	for _, e := range w.recorded() {
		if !e.Allowed && strings.Contains(e.Reason, "server name") {
			denied++
		}
	}
	if denied != 5 {
		t.Errorf("%d refusals recorded; want 5: %+v", denied, w.recorded())
	}
}

func TestNotTLS(t *testing.T) {
	t.Parallel()
	w, _, _ := newWorld(t)
	addr := w.start(t, Options{}, "example.com", "example.com:2222")
	const hello = "GET /x HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n"
	if got := raw(t, addr, "CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n"+hello); strings.Contains(got, "hello") {
		t.Errorf("plain text passed to port 443: %q", got)
	}
	if got := raw(t, addr, "CONNECT example.com:2222 HTTP/1.1\r\nHost: example.com:2222\r\n\r\n"+hello); !strings.Contains(got, "hello") {
		t.Errorf("plain text did not pass to a port that a rule names: %q", got)
	}
	// To port 80 requests are read: those to the tunnel's host pass, others don't.
	const connect80 = "CONNECT example.com:80 HTTP/1.1\r\nHost: example.com\r\n\r\n"
	if got := raw(t, addr, connect80+hello); !strings.Contains(got, "hello") || !strings.Contains(got, "X-Got: GET example.com /x") {
		t.Errorf("plain HTTP in a tunnel: %q", got)
	}
	for _, inner := range []string{strings.ReplaceAll(hello, "example.com", "ok.example"), "SSH-2.0-x\r\n\r\n", "\x16\x03\x01\x00\x05hello",
		"GET http://ok.example/ HTTP/1.1\r\nHost: ok.example\r\n\r\n", "CONNECT example.com:443 HTTP/1.1\r\nHost: example.com\r\n\r\n"} {
		if got := raw(t, addr, connect80+inner); !strings.Contains(got, "400 ") {
			t.Errorf("in a tunnel to port 80 %q got %q", inner, got)
		}
	}
}

func TestAddressTricks(t *testing.T) {
	t.Parallel()
	w, _, _ := newWorld(t)
	addr := w.start(t, Options{}, ".example", "example.com")
	c := client(t, addr, nil)
	for host, why := range map[string]string{
		"inside.example": "private", "mixed.example": "loopback", "meta.example": "metadata", "six.example": "unique-local",
	} {
		for _, scheme := range []string{"http", "https"} {
			_, body := get(t, c, scheme+"://"+host+"/")
			if scheme == "http" && !strings.Contains(body, why) || scheme == "https" && !strings.Contains(body, host+" resolves to") {
				t.Errorf("%s://%s: %q; want %q", scheme, host, body, why)
			}
		}
	}
	if d := w.wasDialed(); len(d) > 0 {
		t.Errorf("dialed %v", d)
	}
	if _, body := get(t, c, "http://nowhere.example/"); !strings.Contains(body, "does not resolve") || strings.Contains(body, "10.9.9.9") {
		t.Errorf("unknown name: %q", body)
	}
}

func TestRebinding(t *testing.T) {
	t.Parallel()
	w, _, _ := newWorld(t)
	w.names["rebind.example"] = [][]string{{"203.0.113.1"}, {"127.0.0.1"}, {"203.0.113.1"}, {"169.254.169.254"}}
	addr := w.start(t, Options{}, "rebind.example")
	codes := []int{}
	for range 4 {
		c := client(t, addr, nil)
		c.Transport.(*http.Transport).DisableKeepAlives = true
		code, _ := get(t, c, "http://rebind.example/")
		codes = append(codes, code)
	}
	// What is answered differently later is refused later; what was checked
	// is what is dialled, and nothing else ever is.
	if codes[0] != 200 {
		t.Errorf("answers %v", codes)
	}
	for _, d := range w.wasDialed() {
		if d != "203.0.113.1:80" {
			t.Errorf("dialed %s", d)
		}
	}
}

func TestRedirectToMetadata(t *testing.T) {
	t.Parallel()
	w, _, _ := newWorld(t)
	evil := httptest.NewServer(http.RedirectHandler("http://169.254.169.254/latest/meta-data/", http.StatusFound))
	defer evil.Close()
	w.listen["203.0.113.66:80"] = hostport(evil)
	w.names["evil.example"] = [][]string{{"203.0.113.66"}}
	addr := w.start(t, Options{}, "evil.example")
	if code, body := get(t, client(t, addr, nil), "http://evil.example/"); code != 403 || !strings.Contains(body, "169.254.169.254") {
		t.Errorf("got %d %q", code, body)
	}
}

func TestRequestTricks(t *testing.T) {
	t.Parallel()
	w, _, _ := newWorld(t)
	addr := w.start(t, Options{}, "example.com", "127.0.0.1:1")
	const h = "Host: example.com\r\n"
	for name, send := range map[string]string{
		"bare LF":              "GET http://example.com/ HTTP/1.1\nHost: example.com\n\n",
		"LF in field":          "GET http://example.com/ HTTP/1.1\r\n" + h + "A: b\nTransfer-Encoding: chunked\r\n\r\n",
		"CR in field":          "GET http://example.com/ HTTP/1.1\r\n" + h + "A: b\rX\r\n\r\n",
		"NUL in host":          "GET http://example.com\x00.evil.example/ HTTP/1.1\r\n" + h + "\r\n",
		"NUL in field":         "GET http://example.com/ HTTP/1.1\r\n" + h + "A: b\x00\r\n\r\n",
		"two hosts":            "GET http://example.com/ HTTP/1.1\r\n" + h + "Host: evil.example\r\n\r\n",
		"the same host twice":  "GET http://example.com/ HTTP/1.1\r\n" + h + h + "\r\n",
		"no host":              "GET http://example.com/ HTTP/1.1\r\n\r\n",
		"another host":         "GET http://example.com/ HTTP/1.1\r\nHost: evil.example\r\n\r\n",
		"another port":         "GET http://example.com/ HTTP/1.1\r\nHost: example.com:81\r\n\r\n",
		"user":                 "GET http://example.com@evil.example/ HTTP/1.1\r\n" + h + "\r\n",
		"user of ours":         "GET http://evil.example@example.com/ HTTP/1.1\r\n" + h + "\r\n",
		"backslash":            "GET http://example.com\\@evil.example/ HTTP/1.1\r\n" + h + "\r\n",
		"fragment":             "GET http://example.com#@evil.example/ HTTP/1.1\r\n" + h + "\r\n",
		"escaped host":         "GET http://example%2ecom/ HTTP/1.1\r\n" + h + "\r\n",
		"space in target":      "GET http://example.com/ x HTTP/1.1\r\n" + h + "\r\n",
		"tab":                  "GET\thttp://example.com/ HTTP/1.1\r\n" + h + "\r\n",
		"length and chunked":   "POST http://example.com/ HTTP/1.1\r\n" + h + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"two lengths":          "POST http://example.com/ HTTP/1.1\r\n" + h + "Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcde",
		"length list":          "POST http://example.com/ HTTP/1.1\r\n" + h + "Content-Length: 4, 4\r\n\r\nabcd",
		"signed length":        "POST http://example.com/ HTTP/1.1\r\n" + h + "Content-Length: +4\r\n\r\nabcd",
		"odd coding":           "POST http://example.com/ HTTP/1.1\r\n" + h + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
		"two codings":          "POST http://example.com/ HTTP/1.1\r\n" + h + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
		"coding in 1.0":        "POST http://example.com/ HTTP/1.0\r\n" + h + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"space before colon":   "POST http://example.com/ HTTP/1.1\r\n" + h + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
		"folded field":         "GET http://example.com/ HTTP/1.1\r\n" + h + "A: b\r\n Host: evil.example\r\n\r\n",
		"version 2":            "GET http://example.com/ HTTP/2.0\r\n" + h + "\r\n",
		"version 0.9":          "GET http://example.com/\r\n\r\n",
		"https":                "GET https://example.com/ HTTP/1.1\r\n" + h + "\r\n",
		"path only":            "GET / HTTP/1.1\r\n" + h + "\r\n",
		"gopher":               "GET gopher://example.com/ HTTP/1.1\r\n" + h + "\r\n",
		"connect without port": "CONNECT example.com HTTP/1.1\r\n" + h + "\r\n",
		"connect to a URL":     "CONNECT http://example.com:443/ HTTP/1.1\r\n" + h + "\r\n",
		"connect port":         "CONNECT example.com:0443 HTTP/1.1\r\n" + h + "\r\n",
		"connect port name":    "CONNECT example.com:https HTTP/1.1\r\n" + h + "\r\n",
		"decimal address":      "CONNECT 2130706433:1 HTTP/1.1\r\nHost: 2130706433:1\r\n\r\n",
		"octal address":        "CONNECT 0177.0.0.1:1 HTTP/1.1\r\nHost: 0177.0.0.1:1\r\n\r\n",
		"hex address":          "CONNECT 0x7f.1:1 HTTP/1.1\r\nHost: 0x7f.1:1\r\n\r\n",
		"short address":        "CONNECT 127.1:1 HTTP/1.1\r\nHost: 127.1:1\r\n\r\n",
		"mapped address":       "CONNECT [::ffff:127.0.0.1]:1 HTTP/1.1\r\nHost: x\r\n\r\n",
		"zone":                 "CONNECT [fe80::1%25eth0]:1 HTTP/1.1\r\nHost: x\r\n\r\n",
		"non-ASCII host":       "CONNECT ex\u00e4mple.com:443 HTTP/1.1\r\nHost: x\r\n\r\n",
		"TLS":                  "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
		"long head":            "GET http://example.com/ HTTP/1.1\r\n" + h + "A: " + strings.Repeat("a", maxHead) + "\r\n\r\n",
		"many fields":          "GET http://example.com/ HTTP/1.1\r\n" + h + strings.Repeat("A: b\r\n", maxHeaders) + "\r\n",
		"empty name":           "GET http://example.com/ HTTP/1.1\r\n" + h + ": x\r\n\r\n",
	} {
		got := raw(t, addr, send)
		if !strings.HasPrefix(got, "HTTP/1.1 400 ") {
			t.Errorf("%s: got %q", name, clip(got))
		}
	}
	if d := w.wasDialed(); len(d) > 0 {
		t.Errorf("dialed %v", d)
	}
}

func TestPipelinedAndOldRequests(t *testing.T) {
	t.Parallel()
	w, _, _ := newWorld(t)
	addr := w.start(t, Options{}, "example.com")
	const one = "POST http://example.com/a HTTP/1.1\r\nHost: example.com\r\nContent-Length: 3\r\n\r\nabc"
	if got := raw(t, addr, one+one+"GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n"); strings.Count(got, "abchello") != 2 || !strings.Contains(got, "403 ") {
		t.Errorf("pipelined: %q", got)
	}
	got := raw(t, addr, "GET http://example.com/ HTTP/1.0\r\n\r\nGET http://example.com/ HTTP/1.0\r\n\r\n")
	if strings.Count(got, "hello") != 1 || !strings.Contains(got, "Connection: close") || strings.Contains(got, "chunked") {
		t.Errorf("HTTP/1.0: %q", got)
	}
	got = raw(t, addr, "POST http://example.com/ HTTP/1.1\r\nHost: example.com\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc")
	if !strings.HasPrefix(got, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200") || !strings.Contains(got, "abchello") {
		t.Errorf("expectation: %q", got)
	}
}

func TestEarlyAnswerLeavesNoReader(t *testing.T) {
	t.Parallel()
	w, _, _ := newWorld(t)
	early := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		w.WriteHeader(http.StatusRequestEntityTooLarge)
	}))
	defer early.Close()
	w.listen["203.0.113.1:80"] = hostport(early)
	addr := w.start(t, Options{}, "example.com")
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, "POST http://example.com/ HTTP/1.1\r\nHost: example.com\r\nContent-Length: 1000000\r\n\r\nabc")
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil || resp.StatusCode != http.StatusRequestEntityTooLarge || !resp.Close {
		t.Errorf("got %v, %v", resp, err)
	}
}

func TestTimeouts(t *testing.T) {
	t.Parallel()
	w, _, _ := newWorld(t)
	short := 50 * time.Millisecond
	addr := w.start(t, Options{Timeouts: Timeouts{Head: short, Idle: 4 * short, Hello: short, Dial: time.Second}}, "example.com")
	read := func(send string) string {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		io.WriteString(c, send)
		c.SetReadDeadline(time.Now().Add(10 * time.Second))
		b, err := io.ReadAll(c)
		if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
			t.Errorf("after %q the connection stays open", clip(send))
		}
		return string(b)
	}
	read("")
	if got := read("GET http://exam"); !strings.Contains(got, "408 ") {
		t.Errorf("slow head: %q", got)
	}
	read("CONNECT example.com:443 HTTP/1.1\r\nHost: example.com\r\n\r\n")
	read("CONNECT example.com:443 HTTP/1.1\r\nHost: example.com\r\n\r\n\x16\x03\x01\x02")
	read("POST http://example.com/ HTTP/1.1\r\nHost: example.com\r\nContent-Length: 10\r\n\r\nabc")
}

func TestTooManyConnections(t *testing.T) {
	t.Parallel()
	w, _, _ := newWorld(t)
	addr := w.start(t, Options{MaxConns: 1}, "example.com")
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, "GET http://example.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n")
	if _, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil {
		t.Fatal(err)
	}
	if got := raw(t, addr, "GET http://example.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n"); !strings.Contains(got, "503 ") {
		t.Errorf("got %q", got)
	}
}

func TestTunnelHalfCloseAndCount(t *testing.T) {
	t.Parallel()
	w, _, _ := newWorld(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() { // answers only after the end of what it is sent
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		b, _ := io.ReadAll(c)
		fmt.Fprintf(c, "got %d", len(b))
	}()
	w.listen["203.0.113.1:2222"] = l.Addr().String()
	addr := w.start(t, Options{}, "example.com:2222")
	big := strings.Repeat("x", 1<<20)
	got := raw(t, addr, "CONNECT example.com:2222 HTTP/1.1\r\nHost: example.com:2222\r\n\r\n"+big)
	if !strings.HasSuffix(got, "got 1048576") {
		t.Errorf("got %q", got)
	}
	<-w.more // the record follows the end of the connection
	if e := w.recorded()[0]; e.BytesUp != 1<<20 || e.BytesDown != int64(len("got 1048576")) || e.Count != 1 {
		t.Errorf("recorded %+v", e)
	}
}

func TestUpstreamProxy(t *testing.T) {
	t.Parallel()
	w, _, secure := newWorld(t)
	// The host's own proxy is itself on loopback, wants a password, and is
	// one of ours.
	back := &world{names: w.names, listen: w.listen}
	inner := back.start(t, Options{}, ".example", "example.com")
	var auth sync.Map
	front, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	t.Cleanup(func() { front.Close(); wg.Wait() })
	wg.Go(func() {
		for {
			c, err := front.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { spyOn(c, inner, &auth) })
		}
	})
	w.listen[front.Addr().String()] = front.Addr().String()
	up := &url.URL{Scheme: "http", User: url.UserPassword("u", "p"), Host: front.Addr().String()}
	addr := w.start(t, Options{Upstream: func(u *url.URL) (*url.URL, error) { return up, nil }}, ".example", "example.com", "elsewhere.test")
	roots := x509.NewCertPool()
	roots.AddCert(secure.Certificate())
	c := client(t, addr, roots)
	for _, u := range []string{"http://example.com/", "https://example.com/"} {
		if code, body := get(t, c, u); code != 200 || body != "hello" {
			t.Errorf("%s: got %d %q", u, code, body)
		}
	}
	if code, body := get(t, c, "http://inside.example/"); code != 403 || !strings.Contains(body, "private") {
		t.Errorf("a name that resolves to a private address: %d %q", code, body)
	}
	if _, body := get(t, c, "http://elsewhere.test/"); !strings.Contains(body, "no rule") { // the other proxy's refusal
		t.Errorf("a name that only the proxy can resolve: %q", body)
	}
	for _, d := range w.wasDialed() {
		if d != front.Addr().String() {
			t.Errorf("dialed %s, not the host's proxy", d)
		}
	}
	if _, ok := auth.Load("Basic dTpw"); !ok {
		t.Error("the host's proxy got no password")
	}
	c.CloseIdleConnections()
}

// spyOn joins c to a proxy and notes what it is told to authenticate with.
func spyOn(c net.Conn, to string, auth *sync.Map) {
	defer c.Close()
	s, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer s.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		io.Copy(c, s)
		c.Close()
	}()
	br := bufio.NewReader(io.TeeReader(c, s))
	for {
		line, err := br.ReadString('\n')
		if v, ok := strings.CutPrefix(line, "Proxy-Authorization: "); ok {
			auth.Store(strings.TrimSpace(v), true)
		}
		if err != nil {
			break
		}
	}
	s.Close()
	<-done
}

func TestInternalNames(t *testing.T) {
	t.Parallel()
	w, _, _ := newWorld(t)
	addr := w.start(t, Options{Internal: map[string]InternalHandler{"npm.glovebox.internal": func(r *http.Request, out Outside) (*http.Response, error) {
		req, err := http.NewRequest("GET", "http://other.example/", nil)
		if err != nil {
			return nil, err
		}
		if _, err := out.RoundTrip(req); !IsDenied(err) {
			t.Errorf("a handler reached another host: %v", err)
		}
		return &http.Response{StatusCode: 200, ContentLength: -1, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("cached " + r.URL.Path))}, nil
	}}})
	c := client(t, addr, nil)
	if code, body := get(t, c, "http://npm.glovebox.internal/react"); code != 200 || body != "cached /react" {
		t.Errorf("got %d %q", code, body)
	}
	if got := raw(t, addr, "CONNECT npm.glovebox.internal:80 HTTP/1.1\r\nHost: x.glovebox.internal:80\r\n\r\n"); !strings.Contains(got, "400") {
		t.Errorf("got %q", got)
	}
	if code, body := get(t, c, "http://pip.glovebox.internal/"); code != 403 || !strings.Contains(body, "no network access") {
		t.Errorf("got %d %q", code, body)
	}
	if n := len(w.recorded()); n != 3 { // the handler's, the malformed one, the denied one
		t.Errorf("%d records: %+v", n, w.recorded())
	}
}

func TestRecorder(t *testing.T) {
	t.Parallel()
	var got []glovebox.EgressAttempted
	r := NewRecorder(time.Hour, func(e []glovebox.EgressAttempted) { got = append(got, e...) })
	for i := range 3 * maxRecorded {
		r.Record(glovebox.EgressAttempted{Host: fmt.Sprintf("h%d.example", i), Port: 443, Count: 1})
		r.Record(glovebox.EgressAttempted{Host: "same.example", Port: 443, Allowed: true, BytesUp: 1, BytesDown: 2, Count: 1})
	}
	r.Close()
	r.Record(glovebox.EgressAttempted{Host: "late.example"})
	r.Flush()
	sum := map[string]glovebox.EgressAttempted{}
	var count int64
	for _, e := range got {
		sum[e.Host] = e
		count += e.Count
	}
	if len(got) > maxRecorded+1 || count != 6*maxRecorded {
		t.Errorf("%d events, %d attempts", len(got), count)
	}
	if e := sum["same.example"]; e.Count != 3*maxRecorded || e.BytesUp != 3*maxRecorded || e.BytesDown != 6*maxRecorded {
		t.Errorf("%+v", e)
	}
	if _, ok := sum["(others)"]; !ok {
		t.Error("what is too much is not counted")
	}
}
