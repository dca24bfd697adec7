package api

import (
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/glovebox-dev/glovebox"
)

// checkOrigin refuses what a hostile web page could make a browser send to a
// server that asks for no token: requests under a name that was rebound to
// this address (Host), and writes from another site (Sec-Fetch-Site, Origin).
// Programs that are not browsers send neither of the latter two.
func (a *API) checkOrigin(r *http.Request) error {
	if !a.hostAllowed(r.Host) {
		return withStatus(http.StatusForbidden, (&glovebox.Error{
			Code: glovebox.CodeForbidden, Field: "Host", Msg: "this server does not answer under this name",
			Hint: "use localhost, or allow the name in the server's configuration (allowed hosts)",
		}).WithValue(r.Host))
	}
	if err := a.cross.Check(r); err != nil {
		return withStatus(http.StatusForbidden, (&glovebox.Error{
			Code: glovebox.CodeForbidden, Field: "Origin", Msg: "a web page of another site may not change anything here",
			Hint: "send the request from the server's own page, or not from a browser",
		}).WithValue(r.Header.Get("Origin")))
	}
	return nil
}

// hostAllowed reports whether host, as in the Host header, is a name under
// which this server may be addressed.
func (a *API) hostAllowed(host string) bool {
	if a.o.RequireTokens && len(a.hosts) == 0 {
		return true // a rebound name brings no token along
	}
	h := normalHost(host)
	return h != "" && (isLoopback(h) || a.hosts[h])
}

// normalHost returns the name in a Host header: no port, lower case, an
// address without brackets. It returns "" for what is not a host.
func normalHost(host string) string {
	if h, port, err := net.SplitHostPort(host); err == nil {
		if strings.Trim(port, "0123456789") != "" {
			return ""
		}
		host = h
	} else if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		host = host[1 : len(host)-1]
	}
	if strings.ContainsAny(host, "[]@/ \t\\%") {
		return ""
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

func isLoopback(host string) bool {
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}
