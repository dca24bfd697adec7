package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sort"
	"strconv"
	"time"

	"golang.org/x/net/proxy"
)

// endpoint is where a connection goes.
type endpoint struct {
	host host
	port uint16
}

// String returns host and port as in a URL.
func (e endpoint) String() string {
	return net.JoinHostPort(e.host.String(), strconv.Itoa(int(e.port)))
}

// denial is a connection that the policy forbids.
type denial struct{ reason string }

func (e *denial) Error() string { return e.reason }

// failure is a connection that could not be made, said without what the
// sandbox has no business to know (resolvers, routes, proxies of the host).
type failure struct {
	reason  string
	timeout bool
}

func (e *failure) Error() string { return e.reason }

// connect makes a connection for a tunnel to at, which v allowed.
func (p *Proxy) connect(ctx context.Context, v Verdict, at endpoint) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeouts.Dial)
	defer cancel()
	via, err := p.upstreamFor("https", at)
	if err != nil {
		return nil, err
	}
	if via == nil {
		return p.dialDirect(ctx, v, at)
	}
	if err := p.checkIfResolvable(ctx, v, at); err != nil {
		return nil, err
	}
	conn, err := dialVia(ctx, via, at, p.o.Dial)
	if err != nil {
		return nil, &failure{reason: "the host's own proxy did not connect to " + at.String(), timeout: isTimeout(ctx, err)}
	}
	return conn, nil
}

// dialDirect resolves at once and dials an address that was checked.
func (p *Proxy) dialDirect(ctx context.Context, v Verdict, at endpoint) (net.Conn, error) {
	addrs, err := p.resolve(ctx, at.host)
	if err != nil {
		return nil, err
	}
	if err := p.checkAddrs(v, at, addrs); err != nil {
		return nil, err
	}
	var last error
	for i, a := range addrs {
		attempt, cancel := context.WithDeadline(ctx, shareOf(ctx, len(addrs)-i))
		conn, err := p.o.Dial(attempt, "tcp", netip.AddrPortFrom(a, at.port).String())
		cancel()
		if err == nil {
			return conn, nil
		}
		last = err
	}
	if isTimeout(ctx, last) {
		return nil, &failure{reason: at.String() + " did not answer in time", timeout: true}
	}
	return nil, &failure{reason: at.String() + " can't be reached"}
}

// resolve returns the addresses of h, at most eight of them, IPv4 first:
// where IPv6 does not work it usually fails by silence.
func (p *Proxy) resolve(ctx context.Context, h host) ([]netip.Addr, error) {
	if h.addr.IsValid() {
		return []netip.Addr{h.addr}, nil
	}
	addrs, err := p.o.Resolve(ctx, h.name)
	switch {
	case isTimeout(ctx, err):
		return nil, &failure{reason: h.name + " was not resolved in time", timeout: true}
	case err != nil || len(addrs) == 0:
		return nil, &failure{reason: h.name + " does not resolve to an address"}
	}
	out := make([]netip.Addr, len(addrs))
	for i, a := range addrs {
		out[i] = a.Unmap()
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].Is4() && !out[j].Is4() })
	return out, nil
}

// checkAddrs refuses a name if any of its addresses is forbidden: one that
// mixes them is not to be trusted with the choice.
func (p *Proxy) checkAddrs(v Verdict, at endpoint, addrs []netip.Addr) error {
	local := p.o.LocalAddrs()
	for _, a := range addrs {
		why := p.policy.checkAddr(v, a, at.port, local)
		switch {
		case why == "":
		case at.host.addr.IsValid():
			return &denial{fmt.Sprintf("%s is %s", a, why)}
		default:
			return &denial{fmt.Sprintf("%s resolves to %s, which is %s", at.host.name, a, why)}
		}
	}
	return nil
}

// checkIfResolvable checks what the host's own proxy will probably dial. Where
// the host can't resolve names outside, that is left to the proxy.
func (p *Proxy) checkIfResolvable(ctx context.Context, v Verdict, at endpoint) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	addrs, err := p.resolve(ctx, at.host)
	if err != nil {
		return nil //nolint:nilerr // see above
	}
	return p.checkAddrs(v, at, addrs)
}

// upstreamFor returns the host's own proxy for at, or nil.
func (p *Proxy) upstreamFor(scheme string, at endpoint) (*url.URL, error) {
	u, err := p.o.Upstream(&url.URL{Scheme: scheme, Host: at.String()})
	if err != nil {
		return nil, &failure{reason: "the host's proxy settings can't be read"}
	}
	return u, nil
}

// shareOf gives an attempt its part of the time that is left for n attempts.
func shareOf(ctx context.Context, n int) time.Time {
	deadline, ok := ctx.Deadline()
	if !ok || n <= 1 {
		return time.Now().Add(time.Hour)
	}
	return time.Now().Add(time.Until(deadline) / time.Duration(n))
}

func isTimeout(ctx context.Context, err error) bool {
	if ne, ok := errors.AsType[net.Error](err); ok && ne.Timeout() {
		return true
	}
	return err != nil && ctx.Err() != nil
}

type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// DialContext makes dialFunc what package proxy calls.
func (f dialFunc) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return f(ctx, network, address)
}

// Dial is asked for by an interface of package proxy, and not called.
func (f dialFunc) Dial(network, address string) (net.Conn, error) {
	return f(context.Background(), network, address)
}

// dialVia opens a tunnel to at through the proxy via.
func dialVia(ctx context.Context, via *url.URL, at endpoint, dial dialFunc) (net.Conn, error) {
	address := via.Host
	if via.Port() == "" {
		address = net.JoinHostPort(via.Hostname(), map[string]string{"https": "443", "socks5": "1080", "socks5h": "1080"}[via.Scheme])
		if via.Scheme == "http" {
			address = net.JoinHostPort(via.Hostname(), "80")
		}
	}
	switch via.Scheme {
	case "socks5", "socks5h":
		var auth *proxy.Auth
		if u := via.User; u != nil {
			pw, _ := u.Password()
			auth = &proxy.Auth{User: u.Username(), Password: pw}
		}
		d, err := proxy.SOCKS5("tcp", address, auth, dial)
		if err != nil {
			return nil, err
		}
		return d.(proxy.ContextDialer).DialContext(ctx, "tcp", at.String())
	case "http", "https":
	default:
		return nil, fmt.Errorf("proxy scheme %q is not understood", via.Scheme)
	}
	conn, err := dial(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	if via.Scheme == "https" {
		conn = tls.Client(conn, &tls.Config{ServerName: via.Hostname(), NextProtos: []string{"http/1.1"}})
	}
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Now()) })
	tunnel, err := httpConnect(conn, via.User, at)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return tunnel, nil
}

// httpConnect asks the proxy at the other end of conn for a tunnel.
func httpConnect(conn net.Conn, user *url.Userinfo, at endpoint) (net.Conn, error) {
	req := "CONNECT " + at.String() + " HTTP/1.1\r\nHost: " + at.String() + "\r\n"
	if user != nil {
		pw, _ := user.Password()
		req += "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(user.Username()+":"+pw)) + "\r\n"
	}
	if _, err := conn.Write([]byte(req + "\r\n")); err != nil {
		return nil, err
	}
	br := bufio.NewReader(conn)
	resp, err := http.ReadResponse(br, &http.Request{Method: http.MethodConnect}) //nolint:bodyclose // what follows the head is the tunnel
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the proxy answered %s", resp.Status)
	}
	return &bufferedConn{Conn: conn, r: br}, nil
}

// bufferedConn is a connection of which something was read ahead.
type bufferedConn struct {
	net.Conn
	r *bufio.Reader
}

// Read reads what is buffered first.
func (c *bufferedConn) Read(b []byte) (int, error) { return c.r.Read(b) }

// CloseWrite passes on the end of what is written, where that can be done.
func (c *bufferedConn) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return nil
}
