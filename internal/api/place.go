package api

import (
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox"
)

// A place is where a browser sees something that a machine serves.
//
// What a sandbox serves must not touch the origin of the API: a script in it
// could do there whatever the person can. So it gets an origin of its own, one
// for each job and port: PORT--JOB below the configured domain, or below
// localhost, which browsers resolve to this machine by themselves. One comes in
// by a door, a link that is good once and for a minute and sets a cookie of that
// origin alone.
//
// Where there is no such domain, pages are served below /preview/ of our own
// origin, but under a policy that makes the browser treat them as of none: no
// cookies, no storage, nothing of ours. What lets requests through there is in
// the path, as they bring nothing else.
type place struct {
	job      string
	port     uint16
	notebook bool
}

const (
	localhost  = "localhost"
	doorTTL    = time.Minute
	seatTTL    = 12 * time.Hour
	doorPath   = "/~glovebox/enter"
	seatCookie = "glovebox_seat"
	// frameCookie is for frames in our page, to which browsers send nothing else.
	frameCookie = "glovebox_frame"
)

// label is the first part of the host name.
func (p place) label() string {
	if p.notebook {
		return "notebook--" + p.job
	}
	return strconv.Itoa(int(p.port)) + "--" + p.job
}

func parseLabel(s string) (place, bool) {
	what, job, ok := strings.Cut(s, "--")
	if !ok || !glovebox.ValidID(job) {
		return place{}, false
	}
	if what == "notebook" {
		return place{job: job, notebook: true}, true
	}
	port, ok := parsePort(what)
	if !ok {
		return place{}, false
	}
	return place{job: job, port: port}, true
}

// parsePort parses a port as it is written in addresses: no sign, no zeros
// before it.
func parsePort(s string) (uint16, bool) {
	n, err := strconv.ParseUint(s, 10, 16)
	return uint16(n), err == nil && n > 0 && strconv.FormatUint(n, 10) == s
}

// placeOf returns which place a Host names. ok is true for every host that is
// reserved for places, although it names none: the API is never served there.
func (a *API) placeOf(host string) (p place, ok bool) {
	h := normalHost(host)
	domain := localhost
	if a.o.PreviewDomain != "" {
		domain = normalHost(a.o.PreviewDomain)
	}
	rest, below := strings.CutSuffix(h, "."+domain)
	switch {
	case below && (domain != localhost || strings.Contains(rest, "--")):
		if a.public != nil && h == normalHost(a.public.Host) {
			return place{}, false
		}
		p, _ = parseLabel(rest)
		return p, true
	case strings.HasSuffix(h, "."+localhost) && strings.Contains(h, "--"):
		return place{}, true
	}
	return place{}, false
}

// origin returns the origin of a place, as the browser that made r reaches it.
func (a *API) origin(r *http.Request, p place) (string, bool) {
	if d := a.o.PreviewDomain; d != "" {
		return a.scheme(r) + "://" + p.label() + "." + d, true
	}
	if !isLoopback(normalHost(r.Host)) || a.public != nil && !isLoopback(normalHost(a.public.Host)) {
		return "", false
	}
	for _, h := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip", "Via"} {
		if r.Header.Get(h) != "" { // a proxy is in front: the browser may be anywhere
			return "", false
		}
	}
	o := "http://" + p.label() + "." + localhost
	if _, port, err := net.SplitHostPort(r.Host); err == nil {
		o += ":" + port
	}
	return o, true
}

// scheme is how browsers reach us. What a proxy claims of it only counts for
// addresses that are handed out.
func (a *API) scheme(r *http.Request) string {
	switch {
	case a.public != nil:
		return a.public.Scheme
	case r.TLS != nil, r.Header.Get("X-Forwarded-Proto") == "https":
		return "https"
	}
	return "http"
}

// door returns an address that lets one visitor in at a place's own origin.
func (a *API) door(origin string, p place, j *glovebox.Job, to string) string {
	g := grant{Job: j.ID, Tenant: j.Tenant, Scope: glovebox.LinkControl, Place: p.label(), Nonce: glovebox.NewID(), Expires: a.o.Now().Add(doorTTL).Unix()}
	return origin + doorPath + "?" + url.Values{"door": {a.seals.seal(useDoor, g)}, "to": {to}}.Encode()
}

// makePlace answers with where a browser can see what a machine serves.
func (a *API) makePlace(w *response, r *http.Request, c caller) error {
	j, _, err := a.jobToControl(r, c)
	if err != nil {
		return err
	}
	body, err := a.readBody(w, r, 8<<10, "body", `send {"port": 5173} or {"notebook": true}`)
	if err != nil {
		return err
	}
	var req glovebox.PlaceRequest
	if err := decodeStrict(body, &req); err != nil {
		return err
	}
	if req.Notebook == (req.Port != 0) || req.Port < 0 || req.Port > 65535 {
		return glovebox.Invalid("port", `send {"port": 5173} or {"notebook": true}`, "%d is not a port", req.Port).WithValue(req.Port)
	}
	to, ok := cleanTarget(req.Path)
	if !ok {
		return glovebox.Invalid("path", "give a path that begins with one slash", "%q can't be opened", clip(req.Path, 80)).WithValue(req.Path)
	}
	if req.Notebook && req.Path == "" {
		to = "/lab"
	}
	p := place{job: j.ID, port: uint16(req.Port), notebook: req.Notebook}
	if origin, ok := a.origin(r, p); ok {
		return writeJSON(w, http.StatusCreated, glovebox.Place{URL: a.door(origin, p, j, to), Own: true})
	}
	if p.notebook {
		return noNotebook()
	}
	return writeJSON(w, http.StatusCreated, glovebox.Place{URL: a.publicBase() + "/preview/" + a.capability(p, j) + to})
}

// capability returns what stands in the path of a place without an origin.
func (a *API) capability(p place, j *glovebox.Job) string {
	return a.seals.seal(usePath, grant{Job: j.ID, Tenant: j.Tenant, Scope: glovebox.LinkControl, Place: p.label(), Expires: a.o.Now().Add(seatTTL).Unix()})
}

// cleanTarget returns a path with its query as it may stand in a redirect
// within an origin.
func cleanTarget(s string) (string, bool) {
	if s == "" {
		return "/", true
	}
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || !strings.HasPrefix(u.Path, "/") || len(s) > maxPath {
		return "", false
	}
	return localPart(u), true
}

// localPart returns path and query of u, such that no browser takes the
// beginning for a host.
func localPart(u *url.URL) string {
	path := "/" + strings.TrimLeft(u.EscapedPath(), "/")
	if u.RawQuery != "" || u.ForceQuery {
		path += "?" + u.RawQuery
	}
	if u.Fragment != "" {
		path += "#" + u.EscapedFragment()
	}
	return path
}

// framed lets pages of ours show an answer of ours in a frame: one that says
// why there is no preview, or leads on to it.
func framed(h http.Header, parents string) {
	h.Del("X-Frame-Options")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors "+parents)
}

// servePlace answers a request for the origin of a place.
func (a *API) servePlace(w *response, r *http.Request, p place) {
	r.Pattern = "place" // for the metrics
	framed(w.Header(), a.parents(r))
	if w.err = a.visit(w, r, p); w.err == nil {
		return
	}
	if w.status != 0 {
		panic(http.ErrAbortHandler)
	}
	a.fail(w, r, w.err)
}

func (a *API) visit(w *response, r *http.Request, p place) error {
	if p.job == "" {
		return &glovebox.Error{Code: glovebox.CodeNotFound, Field: "Host", Value: clip(r.Host, 90), Msg: "nothing is served under this name", Hint: "open the preview from the job's page"}
	}
	if r.URL.Path == doorPath {
		return a.enter(w, r, p)
	}
	if !a.seated(r, p) {
		return &glovebox.Error{Code: glovebox.CodeForbidden, Field: "Cookie", Msg: "this browser was not let in here, or too long ago", Hint: "open the preview from the job's page"}
	}
	if err := checkSameOrigin(r); err != nil {
		return err
	}
	j, err := a.o.Store.Job(r.Context(), "", p.job)
	if err != nil {
		return err
	}
	m, err := a.machine(j)
	if err != nil {
		return err
	}
	return a.proxy(w, r, j, m, target{place: p, own: true, path: r.URL.Path, rawPath: r.URL.RawPath, query: r.URL.RawQuery, frames: a.parents(r)})
}

// enter lets a visitor with a door in.
func (a *API) enter(w *response, r *http.Request, p place) error {
	to, ok := cleanTarget(r.URL.Query().Get("to"))
	if !ok || r.Method != http.MethodGet {
		return glovebox.Invalid("query.to", "open the preview from the job's page", "it is not a path")
	}
	g, ok := a.seals.open(useDoor, r.URL.Query().Get("door"))
	fresh := ok && g.Place == p.label() && !g.expired(a.o.Now()) && a.lives.useDoor(g.Job, g.Nonce, g.Expires)
	if !fresh && !a.seated(r, p) { // who is in already may come again: browsers repeat requests
		return &glovebox.Error{Code: glovebox.CodeForbidden, Field: "query.door", Msg: "the door was used or has expired", Hint: "open the preview from the job's page again"}
	}
	if fresh {
		expires := a.o.Now().Add(seatTTL)
		seat := a.seals.seal(useSeat, grant{Job: g.Job, Tenant: g.Tenant, Scope: g.Scope, Place: g.Place, Expires: expires.Unix()})
		ck := http.Cookie{Name: seatCookie, Value: seat, Path: "/", MaxAge: int(seatTTL.Seconds()), HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: a.scheme(r) == "https"}
		http.SetCookie(w, &ck)
		ck.Name, ck.SameSite, ck.Secure, ck.Partitioned = frameCookie, http.SameSiteNoneMode, true, true
		http.SetCookie(w, &ck)
	}
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusSeeOther)
	return nil
}

// seated reports whether a request comes from a browser that was let in.
func (a *API) seated(r *http.Request, p place) bool {
	for _, ck := range r.Cookies() {
		if ck.Name != seatCookie && ck.Name != frameCookie {
			continue
		}
		if g, ok := a.seals.open(useSeat, ck.Value); ok && g.Place == p.label() && !g.expired(a.o.Now()) {
			return true
		}
	}
	return false
}

// checkSameOrigin refuses what pages of elsewhere send to a place: writes, and
// WebSockets.
func checkSameOrigin(r *http.Request) error {
	origin := r.Header.Get("Origin")
	if origin == "" || isRead(r.Method) && !wantsUpgrade(r) {
		return nil
	}
	u, err := url.Parse(origin)
	if err == nil && u.Host != "" && strings.EqualFold(u.Host, r.Host) {
		return nil
	}
	return (&glovebox.Error{Code: glovebox.CodeForbidden, Field: "Origin", Msg: "a page of another site may not do this here"}).WithValue(clip(origin, 90))
}

// parents returns the origins whose pages may show a place in a frame: ours.
func (a *API) parents(r *http.Request) string {
	if a.public != nil {
		return a.public.Scheme + "://" + a.public.Host
	}
	_, port, err := net.SplitHostPort(r.Host)
	if err == nil {
		port = ":" + port
	}
	if a.o.PreviewDomain != "" {
		return "'self' " + strings.Join(a.o.AllowedHosts, " ") + " http://127.0.0.1" + port + " http://localhost" + port
	}
	return "http://127.0.0.1" + port + " http://localhost" + port + " http://[::1]" + port
}
