package api

import (
	"net/http"
	"net/url"
	"time"

	"github.com/glovebox-dev/glovebox"
)

// makeLink makes a link to a job. Who may only read gets one to view.
func (a *API) makeLink(w *response, r *http.Request, c caller) error {
	j, err := a.job(r.Context(), r, c)
	if err != nil {
		return err
	}
	body, err := a.readBody(w, r, 4<<10, "body", `send {"scope": "view"} or {"scope": "control"}`)
	if err != nil {
		return err
	}
	var req glovebox.LinkRequest
	if err := decodeStrict(body, &req); err != nil {
		return err
	}
	if err := req.Validate(); err != nil {
		return err
	}
	if req.Scope == glovebox.LinkControl && c.scope != glovebox.ScopeWrite {
		return &glovebox.Error{Code: glovebox.CodeForbidden, Field: "scope", Value: string(req.Scope), Msg: "the token may read only", Hint: "ask for view, or use a token with scope write"}
	}
	ttl := req.TTLSeconds
	if ttl == 0 {
		ttl = glovebox.DefaultLinkTTL
	}
	expires := a.o.Now().Add(time.Duration(ttl) * time.Second).UTC().Truncate(time.Second)
	link := a.seals.seal(useLink, grant{Job: j.ID, Tenant: j.Tenant, Scope: req.Scope, Expires: expires.Unix()})
	return writeJSON(w, http.StatusCreated, glovebox.Link{Link: link, Scope: req.Scope, ExpiresAt: expires,
		URL: a.publicBase() + "/jobs/" + j.ID + "/screen?link=" + link})
}

// byLink returns on whose behalf a request with a link acts.
func (a *API) byLink(rt route, r *http.Request) (caller, error) {
	forbidden := func(msg, hint string) error {
		return &glovebox.Error{Code: glovebox.CodeForbidden, Field: "query.link", Msg: msg, Hint: hint}
	}
	const again = "ask whoever gave it to you for a new one: POST /jobs/{id}/links"
	g, ok := a.seals.open(useLink, r.URL.Query().Get("link"))
	switch {
	case !ok:
		return caller{}, forbidden("the link is not one of this server's", again)
	case g.expired(a.o.Now()):
		return caller{}, forbidden("the link has expired, at "+time.Unix(g.Expires, 0).UTC().Format(time.RFC3339), again)
	case g.Job != r.PathValue("id"):
		return caller{}, forbidden("the link is for another job", "a link opens one job alone")
	case rt.link == glovebox.LinkControl && g.Scope != glovebox.LinkControl:
		return caller{}, forbidden("the link is for watching only", "ask for one with scope control")
	}
	return caller{tenant: g.Tenant, scope: glovebox.ScopeRead, link: g.Scope}, nil
}

// hasLink reports whether a request brings a link.
func hasLink(r *http.Request) bool { return r.URL.RawQuery != "" && r.URL.Query().Has("link") }

// mayControl reports whether c may do more than watch.
func (c caller) mayControl() bool {
	if c.link != "" {
		return c.link == glovebox.LinkControl
	}
	return c.scope == glovebox.ScopeWrite
}

// publicURL returns the server's public address, nil if it is not known.
func publicURL(s string) *url.URL {
	if s == "" {
		return nil
	}
	u, err := url.Parse(s)
	if err != nil || u.Host == "" {
		panic("api: PublicURL must be a URL") // the configuration was validated
	}
	return u
}

// publicBase is what goes before the paths of answers: the public address, or
// nothing, which makes them relative to the server.
func (a *API) publicBase() string {
	if a.public == nil {
		return ""
	}
	return a.public.Scheme + "://" + a.public.Host + a.prefix
}
