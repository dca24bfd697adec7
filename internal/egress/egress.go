// Package egress decides what a sandbox may reach, and takes it there.
//
// A sandbox has no network device. What something in it sends to the proxy
// address arrives here, on the host, as one byte stream a connection; a
// [Proxy] reads from it an HTTP CONNECT or plain HTTP requests and holds them
// against the [Policy] of the job:
//
//   - The name must be allowed by a rule. Without a rule nothing is reached.
//   - The name is resolved here, every address that it resolves to is checked,
//     and a checked address is the one that is dialled: a name that resolves
//     differently the second time gains nothing. Addresses that are not the
//     public internet's (loopback, private, link-local, the host's own, cloud
//     metadata, ...) are refused unless the operator named that address. A
//     package mirror that the host itself is configured to use may be private.
//   - In a tunnel to port 443 only TLS passes, and the server name in its
//     first message must be the host of the CONNECT. A tunnel to port 80 is
//     read as plain HTTP requests to that host. Any other port is reachable
//     only if a rule names it: there TLS is held to the same server name, and
//     other protocols (ssh, say) pass.
//
// What can't be seen from here is who answers behind an allowed name: a
// server that serves many names behind one address may take another name
// from inside the encrypted stream. A rule trusts whoever runs the host.
//
// Where the host itself reaches the internet through a proxy (HTTPS_PROXY,
// HTTP_PROXY, NO_PROXY), so does this one. Names are then resolved by that
// proxy; what resolves locally is checked here as well.
//
// Package hostconf reads what the host's package managers use and makes the
// settings with which those in the sandbox find their way.
package egress

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"github.com/glovebox-dev/glovebox"
)

// Defaults is what the operator of the server lets jobs reach.
type Defaults struct {
	// Allow holds rules as in [glovebox.Egress.Allow]: what jobs may reach
	// unless they say otherwise. A rule that is an address also opens that
	// address where it would be refused for not being public.
	Allow []string

	// Mirrors holds rules for the hosts, each with its port, that the host's
	// own package managers use. They are part of the default policy, and may
	// resolve to private addresses, as a company's mirror does.
	Mirrors []string
}

// Options configures a [Proxy]. The zero value works.
type Options struct {
	// Record is called when an attempt ends, and once before, with what it
	// is until then, when it lasts longer than [LongAttempt]. Bytes are
	// those since the call before, and Count is 1 in the first call for an
	// attempt and 0 in the second: sums over all calls are right. It is
	// called from many goroutines and must be quick; see [Recorder].
	Record func(glovebox.EgressAttempted)

	// Resolve returns the addresses of a name; nil is the host's resolver.
	Resolve func(ctx context.Context, name string) ([]netip.Addr, error)

	// Dial connects to an address and port; nil is a [net.Dialer]'s.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// Upstream returns the host's own proxy for a URL, or nil for none;
	// nil reads the environment as [httpproxy.FromEnvironment] does. The
	// schemes http, https and socks5 are understood.
	//
	// [httpproxy.FromEnvironment]: https://pkg.go.dev/golang.org/x/net/http/httpproxy
	Upstream func(*url.URL) (*url.URL, error)

	// LocalAddrs returns the host's own addresses, which are refused; nil
	// asks the system.
	LocalAddrs func() []netip.Addr

	// Internal serves names that exist only in the sandbox, over plain HTTP
	// at port 80: the package cache. The policy is not asked about such a
	// name, but about what its handler wants of the network.
	Internal map[string]InternalHandler

	// MaxConns is how many connections are served at once; 0 means 256.
	// More are answered with 503.
	MaxConns int

	// Timeouts bounds waiting; zero fields mean those of DefaultTimeouts.
	Timeouts Timeouts
}

// InternalHandler answers a request to an internal name. It must close the
// request's body, and reach the network through out alone.
type InternalHandler func(r *http.Request, out Outside) (*http.Response, error)

// Outside is the network as the policy of one job lets it be reached. Its
// RoundTrip serves http and https; a host that is not allowed is an error, of
// which [IsDenied] tells.
type Outside interface {
	http.RoundTripper
	Check(host string, port uint16) Verdict
	Record(glovebox.EgressAttempted) // for what is answered without the network
}

// Timeouts bounds how long a connection may wait for something.
type Timeouts struct {
	Head  time.Duration // for a request's head, from its first byte
	Idle  time.Duration // without a byte in either direction, also between requests
	Hello time.Duration // for the first message of TLS in a tunnel
	Dial  time.Duration // to resolve and connect
}

// DefaultTimeouts are generous to slow networks: what is to be bounded is a
// sandbox that holds connections open for nothing.
var DefaultTimeouts = Timeouts{Head: 30 * time.Second, Idle: 5 * time.Minute, Hello: 30 * time.Second, Dial: 30 * time.Second}

// LongAttempt is how long an attempt lasts before it is recorded while it
// goes on.
const LongAttempt = 10 * time.Second

func (t Timeouts) orDefault() Timeouts {
	pick := func(d *time.Duration, def time.Duration) {
		if *d <= 0 {
			*d = def
		}
	}
	pick(&t.Head, DefaultTimeouts.Head)
	pick(&t.Idle, DefaultTimeouts.Idle)
	pick(&t.Hello, DefaultTimeouts.Hello)
	pick(&t.Dial, DefaultTimeouts.Dial)
	return t
}
