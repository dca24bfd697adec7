package api

import (
	"net/http"
	"strings"

	"github.com/glovebox-dev/glovebox"
)

// about is what GET / says to programs.
type about struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	OpenAPI string `json:"openapi"`
}

const aboutText = `Glovebox: a task goes in, an agent works on it in a sandbox, a finished project comes out.

    curl -X POST --data 'Build me a todo app in React' http://HOST/schedule
    curl 'http://HOST/status/ID?wait=30s'
    curl -N -H 'Accept: text/event-stream' http://HOST/jobs/ID/events
    curl -OJ http://HOST/jobs/ID/artifact.zip

All endpoints: http://HOST/openapi.json
`

func (a *API) index(w *response, r *http.Request, _ caller) error {
	if strings.Contains(r.Header.Get("Accept"), "application/json") {
		return writeJSON(w, http.StatusOK, about{"glovebox", a.o.Version, "/openapi.json"})
	}
	host := r.Host
	if normalHost(host) == "" {
		host = "localhost"
	}
	writeBody(w, http.StatusOK, "text/plain; charset=utf-8", []byte(strings.ReplaceAll(aboutText, "HOST", host)))
	return nil
}

func (a *API) openapi(w *response, _ *http.Request, _ caller) error {
	writeBody(w, http.StatusOK, "application/openapi+json", a.spec)
	return nil
}

// health is the answer to probes.
type health struct {
	Status  string `json:"status" enum:"ok"`
	Version string `json:"version,omitempty"`
}

// healthz says that the process serves.
func (a *API) healthz(w *response, _ *http.Request, _ caller) error {
	return writeJSON(w, http.StatusOK, health{"ok", a.o.Version})
}

// readyz says whether requests should be sent here: not while draining, and
// not without a store that can be read and written.
func (a *API) readyz(w *response, r *http.Request, _ caller) error {
	select {
	case <-a.drain:
		return &glovebox.Error{Code: glovebox.CodeUnavailable, Msg: "the server is shutting down", Hint: "use another one"}
	default:
	}
	if err := a.ready.check(r.Context(), a.o.Store); err != nil {
		a.o.Log.WarnContext(r.Context(), "not ready", "err", err)
		return reason(err)
	}
	return writeJSON(w, http.StatusOK, health{"ok", a.o.Version})
}
