package api

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest"
)

const (
	maxPageHeader  = 64 << 10 // bytes of the header of an answer from a sandbox
	maxPageCookies = 50
	maxInterim     = 20              // interim answers before the one that counts
	pageHeaderTime = 2 * time.Minute // a build tool may compile first
)

// target is what a request is passed on to.
type target struct {
	place
	own           bool // the place has an origin of its own
	path, rawPath string
	query         string
	frames        string // which pages may show it in a frame, as in a policy
}

// host is the host by which the server in the sandbox is addressed. Those of
// development refuse other names.
func (t target) host() string {
	if t.notebook {
		return localhost
	}
	return localhost + ":" + strconv.Itoa(int(t.port))
}

// proxy passes a request on to a server in a sandbox, and its answer back,
// each without what must not get there.
func (a *API) proxy(w *response, r *http.Request, j *glovebox.Job, m Machine, t target) error {
	if up := r.Header.Get("Upgrade"); up != "" && !wantsUpgrade(r) {
		r.Header.Del("Upgrade")
	}
	if r.Method == http.MethodConnect || r.Method == http.MethodTrace {
		return withStatus(http.StatusMethodNotAllowed, glovebox.Invalid("method", "", "%s is not passed on", r.Method))
	}
	leave, err := a.lives.enter("preview", j.ID, maxPreviews)
	if err != nil {
		return err
	}
	defer leave()
	a.pacedUpload(w, r)
	ctx, cancel := a.liveContext(r)
	defer cancel(nil)
	var failed error
	tr := &http.Transport{
		DisableKeepAlives: true, DisableCompression: true, // no connection outlives its request, no body is touched
		MaxResponseHeaderBytes: maxPageHeader, ResponseHeaderTimeout: pageHeaderTime, ExpectContinueTimeout: time.Second,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			if t.notebook {
				ctx, cancel := context.WithTimeout(ctx, dialNotebook)
				defer cancel()
				return m.DialService(ctx, guest.ServiceJupyter)
			}
			ctx, cancel := context.WithTimeout(ctx, dialMachine)
			defer cancel()
			return m.DialPort(ctx, t.port)
		},
	}
	defer tr.CloseIdleConnections()
	rp := &httputil.ReverseProxy{
		Transport: plainTransport{tr}, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
		Rewrite: func(pr *httputil.ProxyRequest) { t.strip(pr.Out, m) },
		ModifyResponse: func(res *http.Response) error {
			if res.StatusCode == http.StatusSwitchingProtocols && wantsUpgrade(r) {
				w.status = res.StatusCode // for the log: it goes past w
			}
			return t.contain(res)
		},
		ErrorHandler: func(_ http.ResponseWriter, _ *http.Request, err error) { failed = err },
	}
	interim := 0
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{Got1xxResponse: func(int, textproto.MIMEHeader) error {
		if interim++; interim > maxInterim {
			return errors.New("it gives interim answers without end")
		}
		return nil
	}})
	pw := &pageWriter{response: w}
	clear(w.Header()) // what is ours is set again with the answer
	rp.ServeHTTP(pw, r.WithContext(ctx))
	if failed == nil {
		return nil
	}
	setDefaults(w.Header())
	framed(w.Header(), t.frames)
	if r.Context().Err() != nil {
		return r.Context().Err()
	}
	return t.failure(failed)
}

// failure says what went wrong in the sandbox.
func (t target) failure(err error) error {
	what := "the notebook"
	if !t.notebook {
		what = "port " + strconv.Itoa(int(t.port)) + " of the sandbox"
	}
	if e, ok := errors.AsType[*glovebox.Error](err); ok && e.Code == glovebox.CodeUnavailable {
		return withStatus(http.StatusBadGateway, &glovebox.Error{Code: glovebox.CodeUnavailable, Field: "port", Msg: "nothing answers at " + what, Err: e, Hint: "is the server in the sandbox started? GET /jobs/{id}/ports lists what listens"})
	}
	return withStatus(http.StatusBadGateway, &glovebox.Error{Code: glovebox.CodeUnavailable, Field: "port", Msg: what + " gave no answer that can be passed on", Err: errors.New(clip(err.Error(), 200))})
}

// strippedRequest are the headers of a request that tell of the person or of
// proxies in front of us. ReverseProxy takes away those of one hop, Forwarded
// and X-Forwarded-* of the usual names.
var strippedRequest = []string{"Referer", "Via", "X-Real-Ip", "True-Client-Ip", "Client-Ip", "Proxy-Authorization", "Proxy-Connection", "Remote-User", "Traceparent", "Tracestate", "Baggage", "Priority"}

// strippedPrefixes are the beginnings of more of them.
var strippedPrefixes = []string{"X-Forwarded-", "X-Auth-", "X-Authentik-", "X-Remote-", "X-Goog-", "X-Amzn-", "Cf-", "X-Ms-", "X-Client-Cert", "Ssl-Client-"}

// strip makes of a request what the sandbox may see: no token of ours, no
// cookie of our origin, no word of who asks from where.
func (t target) strip(out *http.Request, m Machine) {
	out.URL = &url.URL{Scheme: "http", Host: t.host(), Path: t.path, RawPath: t.rawPath, RawQuery: t.query}
	if u, err := url.PathUnescape(t.rawPath); err != nil || u != t.path {
		out.URL.RawPath = ""
	}
	out.Host = t.host()
	h := out.Header
	for k := range h {
		if slices.Contains(strippedRequest, k) || slices.ContainsFunc(strippedPrefixes, func(p string) bool { return strings.HasPrefix(k, p) }) {
			delete(h, k)
		}
	}
	if h.Get("Origin") != "" {
		h.Set("Origin", "http://"+t.host())
	}
	cookies := out.Cookies()
	h.Del("Cookie")
	auth := h.Get("Authorization")
	if scheme, secret, _ := strings.Cut(auth, " "); !t.own || !strings.EqualFold(scheme, "Bearer") || strings.HasPrefix(secret, glovebox.TokenPrefix) {
		h.Del("Authorization") // of ours, or of a proxy before us
	}
	if t.own {
		for _, ck := range cookies {
			if ck.Name != seatCookie && ck.Name != frameCookie {
				out.AddCookie(ck)
			}
		}
	} else {
		h.Set("Accept-Encoding", "identity") // pages are rewritten
	}
	if t.notebook {
		h.Set("Authorization", "token "+m.ServiceSecret(guest.ServiceJupyter))
	}
}

// strippedAnswer are the headers of an answer that would act beyond the page,
// or that we set ourselves.
var strippedAnswer = []string{
	"Strict-Transport-Security", "Public-Key-Pins", "Public-Key-Pins-Report-Only", "Expect-Ct", "Clear-Site-Data", "Content-Security-Policy", "Content-Security-Policy-Report-Only",
	"X-Frame-Options", "Report-To", "Reporting-Endpoints", "Nel", "Alt-Svc", "Service-Worker-Allowed", "Refresh", "Accept-Ch", "Critical-Ch", "Speculation-Rules", "Set-Login",
	"Permissions-Policy", "Feature-Policy", "Document-Policy", "Origin-Trial", "Supports-Loading-Mode", "No-Vary-Search", "Activate-Storage-Access", "Sec-Session-Registration",
	"Cross-Origin-Resource-Policy", "Referrer-Policy", "Trailer", "X-Accel-Redirect", "X-Accel-Buffering", "X-Accel-Expires", "X-Accel-Limit-Rate", "X-Accel-Charset", "X-Sendfile", "X-Lighttpd-Send-File", "X-Robots-Tag", "Proxy-Authenticate",
	"Use-As-Dictionary", "Observe-Browsing-Topics", "Shared-Storage-Write", "X-Dns-Prefetch-Control",
}

// strippedAnswerPrefixes are the beginnings of more of them.
var strippedAnswerPrefixes = []string{"Access-Control-", "Attribution-Reporting-", "Ad-Auction-", "Sec-"}

// contain makes of an answer what a browser may see.
func (t target) contain(res *http.Response) error {
	if res.StatusCode != http.StatusSwitchingProtocols && (res.StatusCode < 200 || res.StatusCode > 599) {
		return errors.New("the status " + strconv.Itoa(res.StatusCode) + " means nothing")
	}
	h := res.Header
	if res.StatusCode == http.StatusSwitchingProtocols {
		for k := range h {
			if k != "Connection" && k != "Upgrade" && !strings.HasPrefix(k, "Sec-Websocket-") {
				delete(h, k)
			}
		}
		return nil
	}
	for k := range h {
		if slices.Contains(strippedAnswer, k) || slices.ContainsFunc(strippedAnswerPrefixes, func(p string) bool { return strings.HasPrefix(k, p) }) {
			delete(h, k)
		}
	}
	cookies := h["Set-Cookie"]
	delete(h, "Set-Cookie")
	if t.own {
		t.setCookies(h, cookies)
	} else {
		h.Del("Www-Authenticate") // it would ask for a password of our origin
		h.Set("Access-Control-Allow-Origin", "*")
		h.Set("X-Content-Type-Options", "nosniff")
	}
	t.policies(h)
	if err := t.redirect(res); err != nil {
		return err
	}
	if !t.own {
		rebase(res, t.path)
	}
	return nil
}

// policies sets what the browser may do with the answer. A page reaches its
// own origin alone: it would otherwise get out of the sandbox, past the egress
// policy, by the browser of whoever looks at it.
func (t target) policies(h http.Header) {
	csp := "default-src 'self' 'unsafe-inline' 'unsafe-eval' data: blob:; form-action 'self'; base-uri 'self'; object-src 'none'; frame-ancestors " + t.frames
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	if !t.own {
		csp = "sandbox allow-scripts allow-forms allow-modals allow-pointer-lock; " + csp
		h.Set("Cross-Origin-Resource-Policy", "cross-origin") // a page without an origin is never the same
		if h.Get("Cache-Control") == "" {
			h.Set("Cache-Control", "no-store")
		}
	}
	h.Set("Content-Security-Policy", csp)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Accel-Buffering", "no") // a proxy before us passes streams on as they come
	h.Set("Permissions-Policy", "camera=(), microphone=(), geolocation=(), display-capture=(), usb=(), serial=(), hid=(), bluetooth=(), midi=(), payment=(), publickey-credentials-get=()")
}

// setCookies keeps the cookies that a page sets to its own origin.
func (t target) setCookies(h http.Header, lines []string) {
	for _, line := range lines[:min(len(lines), maxPageCookies)] {
		ck, err := http.ParseSetCookie(line)
		if err != nil || ck.Name == seatCookie || ck.Name == frameCookie {
			continue
		}
		ck.Domain = ""
		if v := ck.String(); v != "" {
			h.Add("Set-Cookie", v)
		}
	}
}

// redirect makes the target of a redirect one within the place. One that leads
// elsewhere becomes a page that says so.
func (t target) redirect(res *http.Response) error {
	loc := res.Header.Get("Location")
	if loc == "" {
		return nil
	}
	res.Header.Del("Location")
	u, err := url.Parse(loc)
	if err != nil || u.Opaque != "" {
		return errors.New("it redirects to what is no address")
	}
	if u.Host == "" && u.Scheme == "" {
		if !strings.HasPrefix(u.Path, "/") {
			res.Header.Set("Location", u.String())
		} else {
			res.Header.Set("Location", t.within(u))
		}
		return nil
	}
	if (u.Scheme == "" || u.Scheme == "http" || u.Scheme == "https") && t.isLocal(u) {
		res.Header.Set("Location", t.within(u))
		return nil
	}
	if res.StatusCode >= 300 && res.StatusCode <= 399 {
		leads(res, u)
	}
	return nil
}

// within returns an address of the server as one of the place.
func (t target) within(u *url.URL) string {
	to := localPart(u)
	if t.own {
		return to
	}
	return relative(t.path, to)
}

// isLocal reports whether u is what the server in the sandbox takes for itself.
func (t target) isLocal(u *url.URL) bool {
	h := u.Hostname()
	ip := net.ParseIP(h)
	local := h == localhost || ip != nil && (ip.IsLoopback() || ip.IsUnspecified())
	if t.notebook {
		return local
	}
	port := u.Port()
	return local && (port == strconv.Itoa(int(t.port)) || port == "" && t.port == 80)
}

// pageWriter is where an answer goes. Interim answers do not: their headers
// have not been looked at.
type pageWriter struct{ *response }

// WriteHeader writes the header of the final answer.
func (w *pageWriter) WriteHeader(status int) {
	if status >= 200 || status == http.StatusSwitchingProtocols {
		w.response.WriteHeader(status)
	}
}

// Unwrap is for http.ResponseController.
func (w *pageWriter) Unwrap() http.ResponseWriter { return w.response }

// plainTransport leaves trailers out: nobody has looked at them.
type plainTransport struct{ http.RoundTripper }

// RoundTrip sends a request.
func (t plainTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := t.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	plain := *res
	plain.Trailer = nil
	return &plain, nil
}
