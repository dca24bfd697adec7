package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/glovebox-dev/glovebox"
)

// handler answers a request on behalf of a caller. What it returns becomes a
// problem, unless it has written its answer already.
type handler func(w *response, r *http.Request, c caller) error

// response is a ResponseWriter that knows what was written and moves the
// write deadline along.
type response struct {
	http.ResponseWriter
	rc       *http.ResponseController
	timeout  time.Duration // of one write
	status   int
	bytes    int64
	deadline time.Time
	err      error // what the handler returned
}

// Unwrap is for http.ResponseController.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader remembers the status.
func (w *response) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write writes within the time for a write or fails.
func (w *response) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	w.extend(time.Now())
	n, err := w.ResponseWriter.Write(b)
	w.bytes += int64(n)
	return n, err
}

func (w *response) extend(now time.Time) {
	if now.Add(w.timeout).Sub(w.deadline) < w.timeout/10 {
		return
	}
	w.deadline = now.Add(w.timeout)
	_ = w.rc.SetWriteDeadline(w.deadline) // recorders in tests have none
}

// ServeHTTP answers a request.
func (a *API) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	start := time.Now()
	w := &response{ResponseWriter: rw, rc: http.NewResponseController(rw), timeout: a.o.WriteTimeout}
	w.extend(start)
	if r.ContentLength != 0 {
		// Also for bodies that no handler reads: the server reads them away.
		setReadDeadline(w.rc, start.Add(a.o.BodyTimeout))
	}
	setDefaults(w.Header())

	ctx := otel.GetTextMapPropagator().Extract(r.Context(), propagation.HeaderCarrier(r.Header))
	ctx, span := otel.Tracer("github.com/glovebox-dev/glovebox/internal/api").Start(ctx, r.Method, trace.WithSpanKind(trace.SpanKindServer))
	if span.IsRecording() {
		r = r.WithContext(ctx)
	}
	defer func() { a.finish(w, r, time.Since(start), span) }() // also when recover breaks the connection off
	defer func() { a.recover(w, r, recover()) }()
	if place, ok := a.placeOf(r.Host); ok {
		a.servePlace(w, r, place)
		return
	}
	a.mux.ServeHTTP(w, a.withoutPrefix(r))
}

// recover turns a panic of a handler into a problem, or, when an answer has
// begun, into a broken connection, so that nobody takes half of it for whole.
func (a *API) recover(w *response, r *http.Request, v any) {
	if v == nil {
		return
	}
	if err, _ := v.(error); !errors.Is(err, http.ErrAbortHandler) {
		w.err = glovebox.Errorf(glovebox.CodeInternal, "panic: %v\n%s", v, debug.Stack())
		if w.status == 0 {
			a.fail(w, r, w.err)
			return
		}
		a.o.Log.ErrorContext(r.Context(), "request failed in mid-answer", "method", r.Method, "path", logPath(r), "err", w.err)
	}
	panic(http.ErrAbortHandler)
}

// finish counts and logs a request. Reads that went well are many: they are
// logged at debug level.
func (a *API) finish(w *response, r *http.Request, took time.Duration, span trace.Span) {
	route := r.Pattern
	if route == "" || route == "/" {
		route = "none"
	}
	if w.status == 0 {
		w.status = 499 // the client went away before there was an answer
	}
	a.metrics.request(route, r.Method, w.status, took)
	if span.IsRecording() {
		span.SetName(route)
		span.SetAttributes(attribute.String("http.route", route), attribute.Int("http.response.status_code", w.status))
		if w.status >= 500 {
			span.SetStatus(codes.Error, http.StatusText(w.status))
		}
	}
	span.End()
	level := slog.LevelInfo
	if w.status < 400 && isRead(r.Method) {
		level = slog.LevelDebug
	}
	if !a.o.Log.Enabled(r.Context(), level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("method", r.Method), slog.String("path", logPath(r)), slog.Int("status", w.status),
		slog.Duration("took", took), slog.Int64("bytes", w.bytes), slog.String("remote", r.RemoteAddr),
	}
	if w.err != nil && w.status < 500 {
		attrs = append(attrs, slog.String("err", clip(w.err.Error(), 300)))
	}
	a.o.Log.LogAttrs(r.Context(), level, "request", attrs...)
}

// setDefaults sets what holds for every answer that does not say otherwise.
func setDefaults(h http.Header) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// logPath returns the path as logs may have it: without what lets people in,
// wherever in a path that is wrong it may be.
func logPath(r *http.Request) string {
	before, rest, ok := strings.Cut(r.URL.Path, "preview/")
	if !ok {
		return clip(r.URL.Path, 300)
	}
	parts := strings.Split(clip(rest, 2*maxSealed), "/")
	for i, p := range parts {
		if len(p) > 50 {
			parts[i] = "..."
		}
	}
	return clip(before+"preview/"+strings.Join(parts, "/"), 300)
}

// withoutPrefix returns r without the path prefix that a proxy left on it.
func (a *API) withoutPrefix(r *http.Request) *http.Request {
	if a.prefix == "" || !strings.HasPrefix(r.URL.Path, a.prefix+"/") {
		return r
	}
	u := *r.URL
	u.Path = strings.TrimPrefix(u.Path, a.prefix)
	u.RawPath = strings.TrimPrefix(u.RawPath, a.prefix)
	r2 := *r
	r2.URL = &u
	return &r2
}

func isRead(method string) bool { return method == http.MethodGet || method == http.MethodHead }

// serve is the way of a request of one route: host and origin, token, scope,
// parameters, handler.
func (a *API) serve(rt route) func(http.ResponseWriter, *http.Request) {
	query := map[string]bool{}
	if rt.link != "" {
		query["link"] = true
	}
	for _, p := range rt.query {
		query[p.name] = true
	}
	return func(rw http.ResponseWriter, r *http.Request) {
		w := rw.(*response)
		if w.err = a.serveRoute(rt, query, w, r); w.err == nil {
			return
		}
		if w.status != 0 { // the answer had begun: what is wrong can only be shown by breaking it off
			level := slog.LevelWarn
			if _, ok := errors.AsType[*net.OpError](w.err); ok || r.Context().Err() != nil {
				level = slog.LevelDebug // the client has gone away, as clients do
			}
			a.o.Log.Log(r.Context(), level, "answer broken off", "path", logPath(r), "err", w.err)
			panic(http.ErrAbortHandler)
		}
		a.fail(w, r, w.err)
	}
}

func (a *API) serveRoute(rt route, query map[string]bool, w *response, r *http.Request) error {
	if !rt.anyHost {
		if err := a.checkOrigin(r, rt.foreign); err != nil {
			return err
		}
	}
	c, err := a.identify(rt, r)
	if err != nil {
		return err
	}
	if c.link != "" {
		w.Header().Set("Glovebox-Link", string(c.link)) // so that a page offers what it allows
	}
	if r.URL.RawQuery != "" && !rt.anyQuery {
		if err := checkQuery(r.URL.RawQuery, query); err != nil {
			return err
		}
	}
	return rt.handle(w, r, c)
}

// identify returns on whose behalf a request acts, and refuses what that one
// may not do.
func (a *API) identify(rt route, r *http.Request) (caller, error) {
	if rt.scope == "" {
		return caller{}, nil
	}
	if rt.link != "" && hasLink(r) {
		return a.byLink(rt, r)
	}
	if err := a.checkForwarded(r); err != nil {
		return caller{}, err
	}
	c, err := a.auth.caller(r, a.o.RequireTokens)
	if err != nil {
		return caller{}, err
	}
	if rt.scope == glovebox.ScopeWrite && c.scope != glovebox.ScopeWrite {
		return caller{}, &glovebox.Error{Code: glovebox.CodeForbidden, Field: "Authorization", Value: string(c.scope), Msg: "the token may read only",
			Hint: "use a token with scope write"}
	}
	return c, nil
}

func checkQuery(raw string, known map[string]bool) error {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return glovebox.Invalid("query", "escape it as in application/x-www-form-urlencoded", "%v", err)
	}
	for name := range values {
		if !known[name] {
			names := make([]string, 0, len(known))
			for n := range known {
				names = append(names, n)
			}
			slices.Sort(names)
			hint := "this endpoint takes no parameters"
			if len(names) > 0 {
				hint = "the parameters are: " + strings.Join(names, ", ")
			}
			return glovebox.Invalid("query."+clip(name, 60), hint, "unknown parameter %q", clip(name, 60)).WithValue(name)
		}
	}
	return nil
}

// unmatched answers what no route takes: 405 where another method would do,
// 404 otherwise.
func (a *API) unmatched(w *response, r *http.Request, _ caller) error {
	var allow []string
	for _, m := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		probe := &http.Request{Method: m, URL: r.URL, Host: r.Host}
		if _, pattern := a.mux.Handler(probe); pattern != "/" && pattern != "" {
			allow = append(allow, m)
		}
	}
	if len(allow) == 0 {
		return &glovebox.Error{Code: glovebox.CodeNotFound, Field: "path", Value: clip(logPath(r), 100), Msg: "there is nothing at " + clip(logPath(r), 200), Hint: "see /openapi.json for what there is"}
	}
	return withStatus(http.StatusMethodNotAllowed, &glovebox.Error{
		Code: glovebox.CodeInvalid, Field: "method", Value: clip(r.Method, 20), Msg: clip(r.Method, 20) + " is not a method of " + clip(logPath(r), 200),
		Hint: "use " + strings.Join(allow, " or "),
	}, "Allow", strings.Join(allow, ", "))
}

// clip returns at most n bytes of s that are safe to show.
func clip(s string, n int) string {
	if len(s) > n {
		s = s[:n] + "..."
	}
	return strings.ToValidUTF8(s, "?")
}

// job returns the job that a request names. An id of the wrong form is one
// that does not exist.
func (a *API) job(ctx context.Context, r *http.Request, c caller) (*glovebox.Job, error) {
	id := r.PathValue("id")
	if !glovebox.ValidID(id) {
		return nil, noJob(id)
	}
	j, err := a.o.Store.Job(ctx, c.tenant, id)
	if glovebox.CodeOf(err) == glovebox.CodeNotFound {
		return nil, noJob(id)
	}
	return j, err
}

func noJob(id string) error {
	return &glovebox.Error{Code: glovebox.CodeNotFound, Field: "id", Value: clip(id, 60), Msg: fmt.Sprintf("there is no job %q", clip(id, 60)),
		Hint: "GET /jobs lists the jobs there are"}
}
