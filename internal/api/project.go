package api

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/project"
)

// projectRoutes are about the memories of projects: files that a tenant's
// jobs of the same project leave for the next ones.
func (a *API) projectRoutes() []route {
	view := jsonAnswer(http.StatusOK, "The project's memory as it is now.", glovebox.ProjectView{})
	text := []media{{contentType: "text/plain; charset=utf-8"}}
	return []route{{
		method: http.MethodGet, path: "/projects", scope: glovebox.ScopeRead, handle: a.listProjects,
		id: "listProjects", summary: "Projects that have a memory, by name",
		answers: jsonAnswer(http.StatusOK, "All of them.", glovebox.ProjectList{}), fails: []int{http.StatusServiceUnavailable},
	}, {
		method: http.MethodGet, path: "/projects/{project}", scope: glovebox.ScopeRead, handle: a.getProject,
		id: "getProject", summary: "The memory of a project", answers: view, fails: []int{http.StatusNotFound},
	}, {
		method: http.MethodPut, path: "/projects/{project}", scope: glovebox.ScopeWrite, handle: a.switchProject,
		id: "switchProject", summary: "Turn the memory of a project off or on",
		doc:  "While it is off, jobs of the project neither read nor write it; its files stay.",
		body: []media{{contentType: jsonType, typ: glovebox.ProjectSwitch{}}}, answers: view,
		fails: []int{http.StatusRequestTimeout, http.StatusConflict, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusServiceUnavailable},
	}, {
		method: http.MethodDelete, path: "/projects/{project}", scope: glovebox.ScopeWrite, handle: a.deleteProject,
		id: "deleteProject", summary: "Remove the memory of a project",
		doc:     "Its jobs stay. The next one that is complete begins a new memory, unless it is turned off again.",
		answers: []answer{{status: http.StatusNoContent, doc: "It is gone."}}, fails: []int{http.StatusNotFound},
	}, {
		method: http.MethodGet, path: "/projects/{project}/memory/{file}", scope: glovebox.ScopeRead, handle: a.getProjectFile,
		id: "getProjectFile", summary: "A file of a project's memory",
		answers: []answer{{status: http.StatusOK, doc: "The file.", media: text, headers: map[string]string{"ETag": "Changes when the file does."}}}, fails: []int{http.StatusNotFound},
	}, {
		method: http.MethodPut, path: "/projects/{project}/memory/{file}", scope: glovebox.ScopeWrite, handle: a.putProjectFile,
		id: "putProjectFile", summary: "Write a file of a project's memory",
		doc: "At most 8 files of at most 32 KiB of text each; all are brought into the next job of the project. " +
			"Jobs add to conventions.md, commands.md and mistakes.md, and remove or change no line that a person wrote or changed.",
		header: []param{{name: "If-Match", typ: "string", doc: "The ETag of the file that this one replaces: 409 if it has changed since."}},
		body:   []media{{contentType: textType}}, answers: view,
		fails: []int{http.StatusRequestTimeout, http.StatusConflict, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusServiceUnavailable},
	}, {
		method: http.MethodDelete, path: "/projects/{project}/memory/{file}", scope: glovebox.ScopeWrite, handle: a.deleteProjectFile,
		id: "deleteProjectFile", summary: "Remove a file of a project's memory",
		answers: []answer{{status: http.StatusNoContent, doc: "It is gone."}}, fails: []int{http.StatusNotFound, http.StatusServiceUnavailable},
	}}
}

func (a *API) listProjects(w *response, r *http.Request, c caller) error {
	list, err := a.o.Projects.List(r.Context(), c.tenant)
	if err != nil {
		return err
	}
	l := glovebox.ProjectList{Projects: []glovebox.ProjectView{}}
	for _, m := range list {
		l.Projects = append(l.Projects, m.View())
	}
	return writeJSON(w, http.StatusOK, l)
}

// memory returns the memory of the project that a request names. A name of
// the wrong form is one that has none.
func (a *API) memory(r *http.Request, c caller) (*project.Memory, error) {
	name := r.PathValue("project")
	if glovebox.ValidateProject(name) != nil {
		return nil, noProject(name)
	}
	m, err := a.o.Projects.Get(r.Context(), c.tenant, name)
	if glovebox.CodeOf(err) == glovebox.CodeNotFound {
		return nil, noProject(name)
	}
	return m, err
}

func noProject(name string) error {
	return &glovebox.Error{Code: glovebox.CodeNotFound, Field: "project", Value: clip(name, 70), Msg: "there is no project " + clip(name, 70) + " with a memory",
		Hint: "GET /projects and glovebox project list name those that have one; a job of the project begins one when it is complete"}
}

func noProjectFile(name string) error {
	return &glovebox.Error{Code: glovebox.CodeNotFound, Field: "file", Value: clip(name, 70), Msg: "the project's memory has no file " + clip(name, 70),
		Hint: "GET /projects/{project} and glovebox project show name the files"}
}

func (a *API) getProject(w *response, r *http.Request, c caller) error {
	m, err := a.memory(r, c)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, m.View())
}

func (a *API) switchProject(w *response, r *http.Request, c caller) error {
	kind, err := bodyKind(r)
	if err != nil {
		return err
	}
	if kind == kindText || kind == kindMultipart {
		return unsupported(r, `send JSON, {"memory": false} or {"memory": true}, as application/json`)
	}
	body, err := a.readBody(w, r, 4<<10, "body", `send {"memory": false} or {"memory": true}`)
	if err != nil {
		return err
	}
	var want glovebox.ProjectSwitch
	if err := decodeStrict(body, &want); err != nil {
		return err
	}
	if !isObjectWith(body, "memory") {
		return glovebox.Invalid("memory", `send {"memory": false} or {"memory": true}`, "it is left out")
	}
	return a.changeProject(w, r, c, func(m *project.Memory) error {
		m.Off = !want.Memory
		return nil
	})
}

// changeProject changes a memory, which is made if there is none, and answers
// with it.
func (a *API) changeProject(w *response, r *http.Request, c caller, f func(*project.Memory) error) error {
	m, err := a.o.Projects.Change(r.Context(), c.tenant, r.PathValue("project"), f)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, m.View())
}

func (a *API) deleteProject(w *response, r *http.Request, c caller) error {
	if _, err := a.memory(r, c); glovebox.CodeOf(err) == glovebox.CodeNotFound {
		return err
	}
	if err := a.o.Projects.Delete(r.Context(), c.tenant, r.PathValue("project")); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (a *API) getProjectFile(w *response, r *http.Request, c caller) error {
	m, err := a.memory(r, c)
	if err != nil {
		return err
	}
	f := m.File(r.PathValue("file"))
	if f == nil {
		return noProjectFile(r.PathValue("file"))
	}
	w.Header().Set("ETag", textTag(f.Text))
	writeBody(w, http.StatusOK, "text/plain; charset=utf-8", []byte(f.Text))
	return nil
}

func textTag(text string) string {
	sum := sha256.Sum256([]byte(text))
	return `"` + hex.EncodeToString(sum[:16]) + `"`
}

func (a *API) putProjectFile(w *response, r *http.Request, c caller) error {
	kind, err := bodyKind(r)
	if err != nil {
		return err
	}
	if kind != kindText && kind != kindForm {
		return unsupported(r, "send the file as text/plain")
	}
	f := glovebox.ProjectFile{Name: r.PathValue("file")}
	body, err := a.readBody(w, r, glovebox.MaxProjectFile, "text", "every job of the project reads it: keep what matters to all of them")
	if err != nil {
		return err
	}
	f.Text = string(body)
	match := r.Header.Get("If-Match")
	return a.changeProject(w, r, c, func(m *project.Memory) error {
		if old := m.File(f.Name); match != "" && (old == nil || !hasTag(match, textTag(old.Text))) {
			return &glovebox.Error{Code: glovebox.CodeConflict, Field: "If-Match", Value: clip(match, 80), Msg: "the file has changed since", Hint: "read it again, and bring your change into it"}
		}
		return m.Set(f, a.o.Now().UTC())
	})
}

func (a *API) deleteProjectFile(w *response, r *http.Request, c caller) error {
	if _, err := a.memory(r, c); err != nil {
		return err
	}
	name := r.PathValue("file")
	_, err := a.o.Projects.Change(r.Context(), c.tenant, r.PathValue("project"), func(m *project.Memory) error {
		if !m.Remove(name) {
			return noProjectFile(name)
		}
		return nil
	})
	if err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
