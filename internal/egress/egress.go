// Package egress decides what a sandbox may reach, and takes it there.
package egress

import (
	"net"

	"github.com/glovebox-dev/glovebox"
)

// Defaults is what jobs may reach unless they say otherwise.
type Defaults struct {
	Allow []string // rules as in glovebox.Egress.Allow
}

// Policy is a compiled, immutable set of rules.
type Policy struct{}

// Compile makes the policy of one job. A bad rule is CodeInvalid with Field "egress.allow[i]".
func Compile(e glovebox.Egress, d Defaults) (*Policy, error) { return nil, nil }

// Options configures a Proxy.
type Options struct {
	// Record is called when an attempt ends, and when a long one begins.
	Record func(glovebox.EgressAttempted)
}

// Proxy serves the connections of one sandbox.
type Proxy struct{}

// NewProxy returns a proxy that enforces p.
func NewProxy(p *Policy, o Options) *Proxy { return nil }

// ServeConn serves one connection that came out of the sandbox, HTTP CONNECT
// or plain HTTP requests, and closes it. It is a guest.EgressHandler.
func (p *Proxy) ServeConn(conn net.Conn) {}
