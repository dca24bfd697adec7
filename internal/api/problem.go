package api

import (
	"context"
	"encoding/json"
	"errors"
	"html"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/glovebox-dev/glovebox"
)

// httpError is an error whose status says more than its code does.
type httpError struct {
	status int
	err    *glovebox.Error
	header map[string]string
}

func (e *httpError) Error() string { return e.err.Error() }
func (e *httpError) Unwrap() error { return e.err }

// withStatus gives an error a status other than its code's.
func withStatus(status int, err *glovebox.Error, header ...string) error {
	h := &httpError{status: status, err: err}
	for i := 0; i+1 < len(header); i += 2 {
		if h.header == nil {
			h.header = map[string]string{}
		}
		h.header[header[i]] = header[i+1]
	}
	return h
}

// statusOf is where codes become statuses of HTTP.
func statusOf(c glovebox.Code) int {
	switch c {
	case glovebox.CodeInvalid:
		return http.StatusBadRequest
	case glovebox.CodeTooLarge:
		return http.StatusRequestEntityTooLarge
	case glovebox.CodeUnauthorized:
		return http.StatusUnauthorized
	case glovebox.CodeForbidden:
		return http.StatusForbidden
	case glovebox.CodeNotFound:
		return http.StatusNotFound
	case glovebox.CodeConflict, glovebox.CodeFenced, glovebox.CodeLimit:
		return http.StatusConflict
	case glovebox.CodeUnavailable:
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// fail answers a request with a problem. Faults of ours go to the log whole,
// and to the client only as a name under which to find them there.
func (a *API) fail(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil && errors.Is(err, context.Canceled) {
		return // nobody is there to read it
	}
	p := glovebox.Problem{Type: "about:blank", Code: glovebox.CodeOf(err)}
	p.Status = statusOf(p.Code)
	if h, ok := errors.AsType[*httpError](err); ok {
		p.Status = h.status
		for k, v := range h.header {
			w.Header().Set(k, v)
		}
	}
	var maxBytes *http.MaxBytesError
	switch {
	case errors.As(err, &maxBytes):
		p.Status, p.Code, p.Field = http.StatusRequestEntityTooLarge, glovebox.CodeTooLarge, "body"
		p.Detail, p.Hint = "the body is larger than "+strconv.FormatInt(maxBytes.Limit, 10)+" bytes", "send less"
	case errors.Is(err, os.ErrDeadlineExceeded):
		p.Status, p.Code, p.Field = http.StatusRequestTimeout, glovebox.CodeUnavailable, "body"
		p.Detail, p.Hint = "the body did not arrive within "+a.o.BodyTimeout.String(), "send it faster, or less of it"
		w.Header().Set("Connection", "close")
	case p.Code == glovebox.CodeInternal:
		id := glovebox.NewID()
		a.o.Log.ErrorContext(r.Context(), "request failed", "id", id, "method", r.Method, "path", logPath(r), "err", err)
		p.Status, p.Detail, p.Instance = http.StatusInternalServerError, "a fault of the server", "urn:glovebox:fault:"+id
		p.Hint = "look for " + id + " in the server's log"
	default:
		describe(&p, err)
	}
	p.Title = http.StatusText(p.Status)
	if p.Status == http.StatusServiceUnavailable && w.Header().Get("Retry-After") == "" {
		w.Header().Set("Retry-After", "1")
	}
	if r.Header.Get("Sec-Fetch-Mode") == "navigate" && isRead(r.Method) {
		writeProblemPage(w, p)
		return
	}
	writeProblem(w, p)
}

// writeProblemPage tells a problem to a person whose browser opened the address.
func writeProblemPage(w http.ResponseWriter, p glovebox.Problem) {
	text := func(tag, s string) string {
		if s == "" {
			return ""
		}
		return "<" + tag + ">" + html.EscapeString(s) + "</" + tag + ">"
	}
	page := "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'><title>" + html.EscapeString(p.Title) + "</title>" +
		text("h1", p.Title) + text("p", p.Detail) + text("p", p.Hint) + text("code", p.Instance) + "\n"
	for _, k := range problemStripped {
		w.Header().Del(k)
	}
	w.Header().Set("Cache-Control", "no-store")
	writeBody(w, p.Status, "text/html; charset=utf-8", []byte(page))
}

// problemStripped are headers of an answer that was given up.
var problemStripped = []string{"ETag", "Content-Disposition", "Content-Encoding", "Last-Modified", "Accept-Ranges"}

func describe(p *glovebox.Problem, err error) {
	e, ok := errors.AsType[*glovebox.Error](err)
	if !ok {
		p.Detail = err.Error()
		return
	}
	p.Field, p.Value, p.Hint, p.Detail = e.Field, e.Value, e.Hint, e.Msg
	if e.Err != nil {
		p.Detail = strings.TrimPrefix(p.Detail+": "+e.Err.Error(), ": ")
	}
}

func writeProblem(w http.ResponseWriter, p glovebox.Problem) {
	h := w.Header()
	for _, k := range problemStripped {
		h.Del(k)
	}
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	body, err := json.Marshal(p)
	if err != nil {
		body = []byte(`{"type":"about:blank","status":500}`)
	}
	h.Set("Content-Length", strconv.Itoa(len(body)+1))
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(body, '\n')) // a client that is gone needs no answer
}

// writeJSON answers with v.
func writeJSON(w http.ResponseWriter, status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return glovebox.Errorf(glovebox.CodeInternal, "encode the answer: %w", err)
	}
	writeBody(w, status, "application/json", append(body, '\n'))
	return nil
}

func writeBody(w http.ResponseWriter, status int, contentType string, body []byte) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that is gone needs no answer
}
