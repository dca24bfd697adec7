package api

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/glovebox-dev/glovebox"
)

// checkOrigin refuses what a hostile web page could make a browser send to a
// server that asks for no token: requests under a name that was rebound to
// this address (Host), and writes from another site (Sec-Fetch-Site, Origin).
// Programs that are not browsers send neither of the latter two.
//
// foreign requests come from pages that belong to no site of ours, which is
// checked where they are served; only their Host is checked here.
func (a *API) checkOrigin(r *http.Request, foreign bool) error {
	if !a.hostAllowed(r.Host) {
		return withStatus(http.StatusForbidden, (&glovebox.Error{
			Code: glovebox.CodeForbidden, Field: "Host", Msg: "this server does not answer under this name",
			Hint: "use localhost, or allow the name in the server's configuration (allowed hosts)",
		}).WithValue(r.Host))
	}
	if foreign {
		return nil
	}
	err := a.cross.Check(r)
	if err == nil && wantsUpgrade(r) {
		err = a.checkSocket(r)
	}
	if err != nil {
		return withStatus(http.StatusForbidden, (&glovebox.Error{
			Code: glovebox.CodeForbidden, Field: "Origin", Msg: "a web page of another site may not change anything here",
			Hint: "send the request from the server's own page, or not from a browser",
		}).WithValue(r.Header.Get("Origin")))
	}
	return nil
}

// checkForwarded refuses what a proxy in front passes on from another machine
// to a server that asks for no token: being at this one is what lets people in.
// Where a proxy says so under a name that is allowed, tokens are asked for
// anyway; this is for those that give our own address as Host.
func (a *API) checkForwarded(r *http.Request) error {
	if a.o.RequireTokens || r.Header.Get("Authorization") != "" {
		return nil
	}
	for _, name := range []string{"X-Forwarded-For", "X-Real-Ip", "Forwarded"} {
		for _, line := range r.Header.Values(name) {
			for hop := range strings.FieldsFuncSeq(line, func(c rune) bool { return c == ',' || c == ';' }) {
				if from, ok := forwardedBy(name, hop); ok && !isLoopback(from) {
					return withStatus(http.StatusForbidden, (&glovebox.Error{
						Code: glovebox.CodeForbidden, Field: name, Msg: "a proxy passes this on from another machine, and this server asks for no tokens",
						Hint: "set tokens to always in the server's configuration, or public_url to the proxy's address",
					}).WithValue(clip(from, 60)))
				}
			}
		}
	}
	return nil
}

// forwardedBy returns the address in a part of such a header, false if there
// is none.
func forwardedBy(name, hop string) (string, bool) {
	hop = strings.TrimSpace(hop)
	if name == "Forwarded" {
		key, value, _ := strings.Cut(hop, "=")
		if !strings.EqualFold(strings.TrimSpace(key), "for") {
			return "", false
		}
		hop = strings.Trim(strings.TrimSpace(value), `"`)
	}
	if _, err := netip.ParseAddr(hop); err == nil { // of version 6, without brackets
		return hop, true
	}
	return normalHost(hop), hop != ""
}

// checkSocket refuses a WebSocket that a page of another site opens: to
// browsers it is a read, yet that page would see what comes over it.
func (a *API) checkSocket(r *http.Request) error {
	origin := r.Header.Get("Origin")
	if origin == "" || r.Header.Get("Sec-Fetch-Site") == "same-origin" {
		return nil // not a browser; or one that vouches for the page
	}
	u, err := url.Parse(origin)
	if err == nil && u.Host != "" && (strings.EqualFold(u.Host, r.Host) || a.isPublic(u)) {
		return nil
	}
	return errForeignPage
}

var errForeignPage = errors.New("a page of another site")

// isPublic reports whether u has the origin of the public address.
func (a *API) isPublic(u *url.URL) bool {
	return a.public != nil && u.Scheme == a.public.Scheme && strings.EqualFold(u.Host, a.public.Host)
}

// wantsUpgrade reports whether r begins a WebSocket.
func wantsUpgrade(r *http.Request) bool {
	return strings.EqualFold(r.Header.Get("Upgrade"), "websocket")
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
