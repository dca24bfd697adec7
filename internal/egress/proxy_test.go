package egress

import (
	"bufio"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/clip"
)

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
	const short = 50 * time.Millisecond
	// One bound runs out at a time: of two, the other could come first.
	read := func(bounds Timeouts, send string) string {
		addr := w.start(t, Options{Timeouts: bounds}, "example.com")
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		io.WriteString(c, send)
		c.SetReadDeadline(time.Now().Add(time.Minute))
		b, err := io.ReadAll(c)
		if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
			t.Errorf("after %q the connection stays open", clip.Short(send, maxShown))
		}
		return string(b)
	}
	read(Timeouts{Idle: short}, "")
	if got := read(Timeouts{Head: short}, "GET http://exam"); !strings.Contains(got, "408 ") {
		t.Errorf("slow head: %q", got)
	}
	read(Timeouts{Hello: short}, "CONNECT example.com:443 HTTP/1.1\r\nHost: example.com\r\n\r\n")
	read(Timeouts{Hello: short}, "CONNECT example.com:443 HTTP/1.1\r\nHost: example.com\r\n\r\n\x16\x03\x01\x02")
	read(Timeouts{Idle: short}, "POST http://example.com/ HTTP/1.1\r\nHost: example.com\r\nContent-Length: 10\r\n\r\nabc")
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
	w.await(t, func(got []glovebox.EgressAttempted) bool {
		var up, down, count int64
		for _, e := range got {
			up, down, count = up+e.BytesUp, down+e.BytesDown, count+e.Count
		}
		return up == 1<<20 && down == int64(len("got 1048576")) && count == 1
	})
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
