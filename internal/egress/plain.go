package egress

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/glovebox-dev/glovebox"
)

// hopByHop are the fields that concern one connection only. With them go
// those in which a proxy vouches for a client: nobody who vouches is here.
var hopByHop = []string{
	"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection", "TE", "Trailer",
	"Transfer-Encoding", "Upgrade", "Http2-Settings",
	"Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Port",
	"X-Forwarded-User", "X-Real-Ip", "X-Client-Ip", "X-Remote-User", "True-Client-Ip", "Cf-Connecting-Ip",
}

// strip removes from h what is not to be passed on.
func strip(h http.Header) {
	for _, line := range h["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			h.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range hopByHop {
		h.Del(name)
	}
}

// serveHTTP serves one plain HTTP request, whose head is checked but unread,
// and reports whether another may follow.
func (s *session) serveHTTP(h *head) bool {
	internal := s.p.o.Internal[h.at.host.name]
	if h.at.port != 80 {
		internal = nil
	}
	v := Verdict{Allowed: true}
	if internal == nil {
		v = s.p.policy.check(h.at.host, h.at.port)
	}
	if !v.Allowed {
		s.deny(h.at, v.Reason)
		return false
	}
	req, err := http.ReadRequest(s.br)
	if err != nil {
		s.refuse(http.StatusBadRequest, "the request is malformed")
		return false
	}
	if h.expect != "" && !s.goOn(h, req) {
		return false
	}
	a := s.p.begin(h.at, v.Reason)
	if internal != nil {
		a.record = func(glovebox.EgressAttempted) {} // it records where it goes itself
	}
	return s.exchange(h, req, v, internal, a)
}

// exchange sends a request on and the response back.
func (s *session) exchange(h *head, req *http.Request, v Verdict, internal InternalHandler, a *attempt) bool {
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	out, body := outgoing(ctx, req, h.at, a)
	var resp *http.Response
	var err error
	if internal != nil {
		resp, err = internal(out, outside{s.p})
	} else {
		resp, err = s.p.roundTrip(out, v, h.at)
	}
	if err != nil {
		s.settle(cancel, body)
		s.fail(a, err)
		return false
	}
	last, err := s.answer(resp, h, h.last() || !body.done.Load(), a)
	resp.Body.Close()
	s.settle(cancel, body)
	a.end(true, v.Reason)
	return err == nil && !last
}

// settle ends what still reads the request's body: from here on the
// connection's reader is ours again.
func (s *session) settle(cancel context.CancelFunc, body *countedBody) {
	if body.done.Load() {
		return
	}
	cancel()
	if s.conn.SetReadDeadline(time.Unix(1, 0)) != nil {
		s.conn.Close()
	}
	<-body.closed
	s.conn.SetReadDeadline(time.Time{})
}

// roundTrip sends a request on, at once or through the host's own proxy.
func (p *Proxy) roundTrip(r *http.Request, v Verdict, at endpoint) (*http.Response, error) {
	via, err := p.upstreamFor(r.URL.Scheme, at)
	if err == nil && via == nil {
		return p.direct.RoundTrip(r)
	}
	if err == nil {
		err = p.checkIfResolvable(r.Context(), v, at)
	}
	if err != nil {
		if r.Body != nil {
			r.Body.Close()
		}
		return nil, err
	}
	return p.via.RoundTrip(r)
}

// goOn answers a request that asks whether to send its body.
func (s *session) goOn(h *head, req *http.Request) bool {
	if !strings.EqualFold(h.expect, "100-continue") {
		s.refuse(http.StatusExpectationFailed, "only the expectation 100-continue can be met")
		return false
	}
	req.Header.Del("Expect")
	_, err := io.WriteString(s.conn, "HTTP/1.1 100 Continue\r\n\r\n")
	return err == nil
}

// outgoing makes the request to the server from the sandbox's.
func outgoing(ctx context.Context, in *http.Request, at endpoint, a *attempt) (*http.Request, *countedBody) {
	u := *in.URL
	u.Scheme, u.Host, u.User = "http", at.String(), nil
	if at.port == 80 {
		u.Host = strings.TrimSuffix(u.Host, ":80")
	}
	out := (&http.Request{Method: in.Method, URL: &u, Host: u.Host, Header: in.Header, ContentLength: in.ContentLength,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}).WithContext(ctx)
	strip(out.Header)
	if _, ok := out.Header["User-Agent"]; !ok {
		out.Header["User-Agent"] = nil // none is not to become Go's
	}
	body := &countedBody{r: in.Body, n: &a.up, closed: make(chan struct{})}
	if in.ContentLength == 0 {
		body.done.Store(true)
		out.Body = http.NoBody
	} else {
		out.Body = body
	}
	return out, body
}

// countedBody counts what is read of a request's body and notes its end.
// Closing it leaves the rest unread: what is not wanted is not waited for.
type countedBody struct {
	r      io.Reader
	n      *atomic.Int64
	done   atomic.Bool
	once   sync.Once
	closed chan struct{}
}

// Read reads and counts.
func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	b.n.Add(int64(n))
	if err == io.EOF {
		b.done.Store(true)
	}
	return n, err
}

// Close says that nobody reads any more.
func (b *countedBody) Close() error {
	b.once.Do(func() { close(b.closed) })
	return nil
}

// answer passes a response on. closing says that the connection has to end
// after it; it returns whether it does.
func (s *session) answer(resp *http.Response, h *head, closing bool, a *attempt) (bool, error) {
	strip(resp.Header)
	chunked := false
	switch {
	case bodyless(h.method, resp.StatusCode):
	case resp.ContentLength >= 0:
		resp.Header.Set("Content-Length", strconv.FormatInt(resp.ContentLength, 10))
	case h.http10:
		closing = true
	default:
		chunked = true
		resp.Header.Set("Transfer-Encoding", "chunked")
	}
	if closing {
		resp.Header.Set("Connection", "close")
	} else if h.http10 {
		resp.Header.Set("Connection", "keep-alive")
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "HTTP/1.1 %03d %s\r\n", resp.StatusCode, printable(http.StatusText(resp.StatusCode)))
	_ = resp.Header.Write(&b) // into memory
	b.WriteString("\r\n")
	if _, err := s.conn.Write(b.Bytes()); err != nil {
		return true, err
	}
	if bodyless(h.method, resp.StatusCode) {
		return closing, nil
	}
	var dst io.Writer = writerFunc(func(p []byte) (int, error) {
		n, err := s.conn.Write(p)
		a.down.Add(int64(n))
		s.touch()
		return n, err
	})
	if !chunked {
		_, err := s.copy(dst, resp.Body)
		return closing, err
	}
	cw := httputil.NewChunkedWriter(dst)
	if _, err := s.copy(cw, resp.Body); err != nil {
		return true, err // without the last chunk: the other side sees that it is cut
	}
	cw.Close()
	_, err := dst.Write([]byte("\r\n"))
	return closing, err
}

func (s *session) copy(dst io.Writer, src io.Reader) (int64, error) {
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	return io.CopyBuffer(dst, struct{ io.Reader }{src}, *buf)
}

// dialPlain makes the connections of the direct transport.
func (p *Proxy) dialPlain(ctx context.Context, _, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeouts.Dial)
	defer cancel()
	at, err := authority(address, 80)
	if err != nil {
		return nil, err
	}
	v := p.policy.check(at.host, at.port)
	if !v.Allowed {
		return nil, &denial{v.Reason}
	}
	return p.dialDirect(ctx, v, at)
}

// bodyless reports whether an answer has no body, whatever its fields say.
func bodyless(method string, status int) bool {
	return method == http.MethodHead || status < 200 || status == http.StatusNoContent || status == http.StatusNotModified
}
