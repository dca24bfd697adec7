package api

import (
	"net/http"
	"strings"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/web"
)

// settings are what the page has to know of the server to say what a job will
// be that leaves things open.
type settings struct {
	Version         string          `json:"version"`
	DefaultModel    string          `json:"default_model,omitempty" doc:"Of a job that names none. Absent: such a job is refused if needs_model is true; else it has that of the worker which runs it."`
	NeedsModel      bool            `json:"needs_model" doc:"A job has to name its model."`
	DefaultLimits   glovebox.Limits `json:"default_limits"`
	MaxArchiveBytes int64           `json:"max_archive_bytes" doc:"The largest archive that a job may start from."`
	MaxTaskBytes    int64           `json:"max_task_bytes" doc:"The longest task."`
	MaxMessageBytes int64           `json:"max_message_bytes" doc:"The longest message to a job."`
}

// pageRoutes are those that the page needs and that are of use to others, too.
func (a *API) pageRoutes() []route {
	return []route{{
		method: http.MethodGet, path: "/settings", scope: glovebox.ScopeRead, handle: a.settings, id: "settings", summary: "What the server does with a job that leaves things open",
		answers: jsonAnswer(http.StatusOK, "The settings.", settings{}),
	}}
}

// registerPage adds the files of the page to the mux. They are no part of the
// API, and ask for no token: there is nothing in them but the page.
func (a *API) registerPage() {
	serve := a.serve(route{handle: a.page})
	for _, pattern := range []string{"GET /assets/{file}", "GET /licenses.md"} {
		a.mux.HandleFunc(pattern, serve)
	}
}

// home answers with the page to browsers, and with what this is to programs.
func (a *API) home(w *response, r *http.Request, c caller) error {
	w.Header().Add("Vary", "Accept")
	if strings.Contains(r.Header.Get("Accept"), "text/html") {
		return a.page(w, r, c)
	}
	return a.index(w, r, c)
}

// page answers with a file of the page.
func (a *API) page(w *response, r *http.Request, _ caller) error {
	if r.URL.Path != "/" && !web.Has(r.URL.Path) {
		return &glovebox.Error{Code: glovebox.CodeNotFound, Field: "path", Value: clip(r.URL.Path, 100), Msg: "the page has no file " + clip(r.URL.Path, 200),
			Hint: "load the page again: the server may have become a newer one"}
	}
	web.Handler(a.frameSources()...).ServeHTTP(w, r)
	return nil
}

// frameSources are the origins that the page shows previews from; see origin.
func (a *API) frameSources() []string {
	if d := a.o.PreviewDomain; d != "" {
		return []string{"*." + d}
	}
	return []string{"http://*.localhost:*"}
}

func (a *API) settings(w *response, _ *http.Request, _ caller) error {
	needs := a.o.DefaultModel == "" && a.o.CheckModel != nil && a.o.CheckModel("") != nil
	return writeJSON(w, http.StatusOK, settings{Version: a.o.Version, DefaultModel: a.o.DefaultModel, NeedsModel: needs, DefaultLimits: a.o.DefaultLimits,
		MaxArchiveBytes: a.o.MaxArchive, MaxTaskBytes: glovebox.MaxTask, MaxMessageBytes: glovebox.MaxUserText})
}
