package egress

import (
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
	"sync"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

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

// await waits until what was recorded is as it has to be: a record may follow
// the end of its connection, and one that lasts has several.
func (w *world) await(t testing.TB, done func([]glovebox.EgressAttempted) bool) {
	t.Helper()
	for late := time.After(time.Minute); ; {
		got := w.recorded()
		if done(got) {
			return
		}
		select {
		case <-w.more:
		case <-late:
			t.Fatalf("recorded %+v", got)
		}
	}
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
	t.Helper()
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
	c.SetDeadline(time.Now().Add(time.Minute))
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
	t.Helper()
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
