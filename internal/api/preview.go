package api

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest"
)

// serviceCommands are programs of the machine itself: what they listen on is
// reached by other ways.
var serviceCommands = []string{"Xvnc", "Xtigervnc", "chromium", "chrome", "jupyter-server", "jupyter-lab", guest.KernelCommand}

// kernelCommands are programs that run kernels, which listen for their own ends
// on kernelPorts ports each, from randomPorts on. What else they run, such as a
// server on one such port, is the job's.
var kernelCommands = []string{"python", "python3", "deno"}

const (
	randomPorts = 16000 // gVisor's; Linux gives them from 32768 on
	kernelPorts = 5
)

// kernelPort reports whether a listener is one of a kernel's, given how many
// random ports each process listens on.
func kernelPort(l guest.Listener, random map[int]int) bool {
	return l.Port >= randomPorts && random[l.PID] >= kernelPorts && slices.Contains(kernelCommands, l.Command)
}

// ports lists what listens in a machine.
func (a *API) ports(w *response, r *http.Request, c caller) error {
	j, m, err := a.jobMachine(r, c)
	if err != nil {
		return err
	}
	listeners, err := m.Listeners(r.Context())
	if err != nil {
		return err
	}
	list := glovebox.PortList{Ports: []glovebox.Port{}}
	seen, random := map[uint16]bool{}, map[int]int{}
	for _, l := range listeners {
		if l.Port >= randomPorts {
			random[l.PID]++
		}
	}
	for _, l := range listeners {
		if seen[l.Port] || slices.Contains(serviceCommands, l.Command) || kernelPort(l, random) {
			continue
		}
		seen[l.Port] = true
		port := strconv.Itoa(int(l.Port))
		list.Ports = append(list.Ports, glovebox.Port{Port: int64(l.Port), Process: l.Command, URL: a.publicBase() + "/jobs/" + j.ID + "/preview/" + port + "/"})
	}
	return writeJSON(w, http.StatusOK, list)
}

// preview leads a browser to the place of a port. Programs, which bring their
// token along, get the answer of the port itself.
func (a *API) preview(w *response, r *http.Request, c caller) error {
	framed(w.Header(), "'self'")
	j, m, err := a.jobToControl(r, c)
	if err != nil {
		return err
	}
	port, ok := parsePort(r.PathValue("port"))
	if !ok {
		return &glovebox.Error{Code: glovebox.CodeNotFound, Field: "port", Value: clip(r.PathValue("port"), 20), Msg: "it is not a port", Hint: "GET /jobs/{id}/ports lists those that something listens on"}
	}
	p := place{job: j.ID, port: port}
	_, rest, _ := strings.Cut(r.URL.EscapedPath(), "/preview/"+r.PathValue("port"))
	if rest == "" {
		rest = "/"
	}
	query := withoutLink(r.URL.RawQuery)
	if !fromBrowser(r) {
		t := target{place: p, path: "/" + r.PathValue("path"), rawPath: rest, query: query, frames: "'self'"}
		return a.proxy(w, r, j, m, t)
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return withStatus(http.StatusMethodNotAllowed, &glovebox.Error{Code: glovebox.CodeInvalid, Field: "method", Value: clip(r.Method, 20), Msg: "a browser begins with GET here", Hint: "open the preview first"}, "Allow", "GET, HEAD")
	}
	to := rest
	if query != "" {
		to += "?" + query
	}
	h := w.Header()
	if origin, ok := a.origin(r, p); ok {
		h.Set("Location", a.door(origin, p, j, to))
	} else {
		// Up to the jobs' own level, wherever a proxy has put that.
		up := strings.Repeat("../", strings.Count(rest, "/")+3)
		h.Set("Location", up+"preview/"+a.capability(p, j)+to)
	}
	w.WriteHeader(http.StatusSeeOther)
	return nil
}

// bySandboxedPage answers a request that a page without an origin of its own
// made. What lets it through is in the path.
func (a *API) bySandboxedPage(w *response, r *http.Request, _ caller) error {
	framed(w.Header(), "'self'")
	sealed := r.PathValue("capability")
	g, ok := a.seals.open(usePath, sealed)
	if !ok || g.expired(a.o.Now()) {
		return &glovebox.Error{Code: glovebox.CodeForbidden, Field: "path", Msg: "the preview was opened too long ago, or by another server", Hint: "open it from the job's page again"}
	}
	p, ok := parseLabel(g.Place)
	if !ok || p.notebook {
		return glovebox.Errorf(glovebox.CodeInternal, "a sealed place is none")
	}
	if r.Header.Get("Service-Worker") != "" {
		return &glovebox.Error{Code: glovebox.CodeForbidden, Field: "Service-Worker", Msg: "a page in a sandbox may not install a service worker"}
	}
	if o := r.Header.Get("Origin"); o != "" && o != "null" && !isRead(r.Method) {
		return (&glovebox.Error{Code: glovebox.CodeForbidden, Field: "Origin", Msg: "a page of another site may not do this here"}).WithValue(clip(o, 90))
	}
	if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
		h := w.Header()
		h.Set("Access-Control-Allow-Origin", "*")
		h.Set("Access-Control-Allow-Methods", "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS")
		h.Set("Access-Control-Allow-Headers", "*")
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	j, err := a.o.Store.Job(r.Context(), g.Tenant, g.Job)
	if err != nil {
		return err
	}
	m, err := a.machine(j)
	if err != nil {
		return err
	}
	_, rest, _ := strings.Cut(r.URL.EscapedPath(), "/"+sealed)
	return a.proxy(w, r, j, m, target{place: p, path: "/" + r.PathValue("path"), rawPath: rest, query: r.URL.RawQuery, frames: "'self'"})
}

// notebook leads a browser to JupyterLab.
func (a *API) notebook(w *response, r *http.Request, c caller) error {
	framed(w.Header(), "'self'")
	j, m, err := a.jobToControl(r, c)
	if err != nil {
		return err
	}
	p := place{job: j.ID, notebook: true}
	origin, ok := a.origin(r, p)
	if !ok {
		return noNotebook()
	}
	if m.ServiceSecret(guest.ServiceJupyter) == "" {
		return &glovebox.Error{Code: glovebox.CodeUnavailable, Field: "id", Value: j.ID, Msg: "the job's machine has no notebook"}
	}
	w.Header().Set("Location", a.door(origin, p, j, "/lab"))
	w.WriteHeader(http.StatusSeeOther)
	return nil
}

// noNotebook says what the notebook needs. JupyterLab does not work without
// cookies, and must not run in our origin.
func noNotebook() error {
	return &glovebox.Error{Code: glovebox.CodeConflict, Field: "preview_domain", Msg: "the notebook needs an origin of its own, and this server has no domain for that",
		Hint: "set preview_domain in the server's configuration to a domain whose subdomains lead here; on the server's own machine, open it by the name localhost"}
}

// fromBrowser reports whether r comes from a browser by itself, and so without
// a token in a header.
func fromBrowser(r *http.Request) bool {
	return r.Header.Get("Authorization") == "" && (r.Header.Get("Sec-Fetch-Mode") != "" || strings.Contains(r.Header.Get("Accept"), "text/html"))
}

// withoutLink returns a query without our link.
func withoutLink(raw string) string {
	parts := slices.DeleteFunc(strings.Split(raw, "&"), func(p string) bool { return p == "link" || strings.HasPrefix(p, "link=") })
	return strings.Join(parts, "&")
}

// pacedUpload lets a body take its time as long as it goes on.
func (a *API) pacedUpload(w *response, r *http.Request) {
	if r.ContentLength != 0 {
		r.Body = &upload{pacedBody{ReadCloser: r.Body, rc: w.rc, until: time.Now().Add(a.o.BodyTimeout)}}
	}
}

// upload is a body that is passed on. Its deadline ends with it: the answer may
// take longer.
type upload struct{ pacedBody }

// Read reads from the body.
func (u *upload) Read(p []byte) (int, error) {
	n, err := u.pacedBody.Read(p)
	if errors.Is(err, io.EOF) {
		setReadDeadline(u.rc, time.Time{})
	}
	return n, err
}
