package egress

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http/httpproxy"

	"github.com/glovebox-dev/glovebox"
)

// Proxy serves the connections of one sandbox. Close it when the sandbox is
// gone.
type Proxy struct {
	policy   *Policy
	o        Options
	timeouts Timeouts
	direct   *http.Transport // for plain HTTP; dials what the policy allows
	via      *http.Transport // for plain HTTP; dials the host's own proxy alone
	slots    chan struct{}

	ctx   context.Context
	close context.CancelFunc
	conns sync.WaitGroup
}

// NewProxy returns a proxy that enforces p. A nil p allows nothing.
func NewProxy(p *Policy, o Options) *Proxy {
	if p == nil {
		p = &Policy{}
	}
	if o.Record == nil {
		o.Record = func(glovebox.EgressAttempted) {}
	}
	if o.Resolve == nil {
		o.Resolve = func(ctx context.Context, name string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", name)
		}
	}
	if o.Dial == nil {
		o.Dial = new(net.Dialer).DialContext
	}
	if o.Upstream == nil {
		o.Upstream = httpproxy.FromEnvironment().ProxyFunc()
	}
	if o.LocalAddrs == nil {
		o.LocalAddrs = localAddrs
	}
	if o.MaxConns <= 0 {
		o.MaxConns = 256
	}
	x := &Proxy{policy: p, o: o, timeouts: o.Timeouts.orDefault(), slots: make(chan struct{}, o.MaxConns)}
	x.ctx, x.close = context.WithCancel(context.Background())
	x.direct = x.newTransport()
	x.direct.DialContext = x.dialPlain
	x.via = x.newTransport()
	x.via.DialContext = o.Dial
	x.via.Proxy = func(r *http.Request) (*url.URL, error) {
		u, err := o.Upstream(r.URL)
		if u == nil && err == nil {
			err = errors.New("no proxy") // or it would be dialled unchecked
		}
		return u, err
	}
	return x
}

func (p *Proxy) newTransport() *http.Transport {
	return &http.Transport{
		DisableCompression:     true,
		TLSHandshakeTimeout:    p.timeouts.Hello,
		MaxIdleConnsPerHost:    16,
		IdleConnTimeout:        30 * time.Second,
		ResponseHeaderTimeout:  p.timeouts.Idle,
		MaxResponseHeaderBytes: maxHead,
	}
}

// NoUpstream is an [Options.Upstream] that ignores the environment.
func NoUpstream(*url.URL) (*url.URL, error) { return nil, nil }

// Close ends all connections and returns when they have ended.
func (p *Proxy) Close() error {
	p.close()
	p.conns.Wait()
	p.direct.CloseIdleConnections()
	p.via.CloseIdleConnections()
	return nil
}

// ServeConn serves one connection that came out of the sandbox, HTTP CONNECT
// or plain HTTP requests, and closes it. It is a guest.EgressHandler.
func (p *Proxy) ServeConn(conn net.Conn) {
	defer conn.Close()
	p.conns.Add(1)
	defer p.conns.Done()
	if p.ctx.Err() != nil {
		return
	}
	s := newSession(p, conn)
	defer s.end()
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	default:
		s.refuse(http.StatusServiceUnavailable, fmt.Sprintf("the sandbox has %d connections open already", cap(p.slots)))
		return
	}
	for s.next() {
	}
}

// session is one connection of the sandbox while it is served.
type session struct {
	p      *Proxy
	conn   net.Conn
	br     *bufio.Reader
	ctx    context.Context
	cancel context.CancelFunc
	idle   *time.Timer
	tunnel *endpoint // set while plain HTTP inside a tunnel is read
}

var readers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, maxHead) }}

func newSession(p *Proxy, conn net.Conn) *session {
	s := &session{p: p, conn: conn}
	s.ctx, s.cancel = context.WithCancel(p.ctx)
	context.AfterFunc(s.ctx, func() { conn.Close() }) // wakes whoever reads or writes
	s.idle = time.AfterFunc(p.timeouts.Idle, s.cancel)
	s.br = readers.Get().(*bufio.Reader)
	s.br.Reset(readerFunc(func(b []byte) (int, error) {
		n, err := conn.Read(b)
		s.touch()
		return n, err
	}))
	return s
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// touch puts off the end of an idle connection.
func (s *session) touch() { s.idle.Reset(s.p.timeouts.Idle) }

func (s *session) end() {
	s.cancel()
	s.idle.Stop()
	s.br.Reset(nil)
	readers.Put(s.br)
}

// next serves one request and reports whether another may follow.
func (s *session) next() bool {
	if _, err := s.br.Peek(1); err != nil {
		return false
	}
	s.conn.SetReadDeadline(time.Now().Add(s.p.timeouts.Head))
	raw, err := peekHead(s.br)
	var h *head
	if err == nil {
		h, err = parseHead(raw, s.tunnel)
	}
	s.conn.SetReadDeadline(time.Time{})
	if err != nil {
		if b, ok := errors.AsType[*badRequest](err); ok {
			s.p.o.Record(glovebox.EgressAttempted{Host: "(malformed request)", Reason: printable(b.reason), Count: 1})
			s.refuse(http.StatusBadRequest, b.reason)
		} else if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
			s.refuse(http.StatusRequestTimeout, "the request's head did not come in time")
		}
		return false
	}
	if h.method == http.MethodConnect {
		_, _ = s.br.Discard(h.size) // it was peeked at
		return s.serveConnect(h.at)
	}
	return s.serveHTTP(h)
}

// attempt counts and records what happens between a verdict and the end of
// what it allowed.
type attempt struct {
	record   func(glovebox.EgressAttempted)
	at       endpoint
	up, down atomic.Int64

	mu       sync.Mutex
	long     *time.Timer
	reported bool
	sent     [2]int64 // bytes up and down that were recorded
}

// begin starts an attempt that was allowed for the given reason.
func (p *Proxy) begin(at endpoint, reason string) *attempt {
	a := &attempt{record: p.o.Record, at: at}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.long = time.AfterFunc(LongAttempt, func() { a.report(true, reason) })
	return a
}

// end records how the attempt ended.
func (a *attempt) end(allowed bool, reason string) {
	a.long.Stop()
	a.report(allowed, reason)
}

func (a *attempt) report(allowed bool, reason string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	up, down := a.up.Load(), a.down.Load()
	e := glovebox.EgressAttempted{Host: a.at.host.String(), Port: int(a.at.port), Allowed: allowed, Reason: reason,
		BytesUp: up - a.sent[0], BytesDown: down - a.sent[1], Count: 1}
	if a.reported {
		e.Count = 0
	}
	a.reported, a.sent = true, [2]int64{up, down}
	a.record(e)
}

// deny records and answers a refusal of the policy.
func (s *session) deny(at endpoint, reason string) {
	s.p.o.Record(glovebox.EgressAttempted{Host: at.host.String(), Port: int(at.port), Reason: reason, Count: 1})
	s.refuse(http.StatusForbidden, reason)
}

// fail records and answers a connection that could not be made.
func (s *session) fail(a *attempt, err error) {
	if d, ok := errors.AsType[*denial](err); ok {
		a.end(false, d.reason)
		s.refuse(http.StatusForbidden, d.reason)
		return
	}
	reason, status := a.at.String()+" can't be reached", http.StatusBadGateway
	if f, ok := errors.AsType[*failure](err); ok {
		reason = f.reason
		if f.timeout {
			status = http.StatusGatewayTimeout
		}
	}
	a.end(true, "failed: "+reason)
	s.refuse(status, reason)
}

// refusalTime bounds the writing of a refusal.
const refusalTime = 30 * time.Second

// refuse answers with a status, the reason in the status line for tools that
// show no more, and a text that says what to do. The connection ends.
func (s *session) refuse(status int, reason string) {
	body := "glovebox: " + reason + "\n"
	if status == http.StatusForbidden {
		body += s.p.advice()
	}
	s.conn.SetWriteDeadline(time.Now().Add(refusalTime))
	fmt.Fprintf(s.conn, "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
		status, printable(reason), len(body), body)
	s.drain()
}

// advice tells whoever was refused what is possible.
func (p *Proxy) advice() string {
	const more = "The person who started the job can allow more: \"egress\": {\"mode\": \"extend\", \"allow\": [\"example.com\"]}.\n"
	rules := p.policy.Rules()
	if len(rules) == 0 {
		return more
	}
	if len(rules) > 40 {
		rules = append(rules[:40:40], "...")
	}
	return "Allowed are: " + strings.Join(rules, " ") + "\n" + more
}

// drain reads what the other side still sends, for a moment: a connection
// that is closed with unread bytes may lose the answer.
func (s *session) drain() {
	if w, ok := s.conn.(interface{ CloseWrite() error }); ok {
		_ = w.CloseWrite()
	}
	s.conn.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
	_, _ = io.CopyN(io.Discard, s.br, 256<<10)
}

// printable makes a reason fit for a status line.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, s)
}
