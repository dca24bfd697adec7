package api

import (
	"context"
	"net/http"
	"slices"
	"strconv"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/history"
)

const (
	defaultStepPage = 200 // steps
	maxStepPage     = 500
)

// newHistory returns the cache of workspaces as they were, read from blobs.
func newHistory(o *Options) *history.Cache {
	return history.NewCache(func(ctx context.Context, key string) (history.Pack, error) {
		b, err := o.Blobs.Open(ctx, key)
		if glovebox.CodeOf(err) == glovebox.CodeNotFound {
			// It is in the log: that it is not in the blob store is our fault.
			return nil, glovebox.Errorf(glovebox.CodeInternal, "pack of a checkpoint: %w", err)
		}
		if err != nil {
			return nil, err
		}
		return b, nil
	})
}

// historyRoutes are those that show a job step by step.
func (a *API) historyRoutes() []route {
	return []route{{
		method: http.MethodGet, path: "/jobs/{id}/steps", scope: glovebox.ScopeRead, link: glovebox.LinkView, handle: a.steps,
		id: "steps", summary: "A job step by step",
		doc: "What happened in each step, and how the job stood at its end: the screen, the workspace, the plan, what was used so far. The newest step of a running job grows still.",
		query: []param{
			{name: "after", typ: "integer", doc: "Only steps after this number. Left out: from step 0."},
			{name: "limit", typ: "integer", doc: "1 to 500; 200 if left out."},
		},
		answers: jsonAnswer(http.StatusOK, "A page.", glovebox.StepList{}), fails: []int{http.StatusNotFound},
	}, {
		method: http.MethodGet, path: "/jobs/{id}/diff", scope: glovebox.ScopeRead, link: glovebox.LinkView, handle: a.diff,
		id: "diff", summary: "How the workspace differs between two steps",
		doc: "What is compared is the workspace as it was kept at the end of a step. Text beyond 1 MiB in all is left out; ask for single files then.",
		query: []param{
			{name: "from", typ: "string", doc: "The number of a step, or start: what the job began with. start if left out."},
			{name: "to", typ: "string", doc: "The number of a step, or now: the newest. now if left out."},
			{name: "path", typ: "string", doc: "Only this file, or what is in this directory."},
		},
		header:  []param{{name: "If-None-Match", typ: "string", doc: "The ETag of an earlier answer."}},
		answers: append(jsonAnswer(http.StatusOK, "The differences.", glovebox.WorkspaceDiff{}, "ETag", "Changes when either side does."), answer{status: http.StatusNotModified, doc: "The client has it."}),
		fails:   []int{http.StatusNotFound, http.StatusConflict},
	}}
}

// stepParam is the parameter of GET /jobs/{id}/files/... that asks for an
// earlier state.
var stepParam = param{name: "step", typ: "string", doc: "The number of a step, start or now: the workspace as it was kept at its end, instead of as it is."}

// steps answers with a page of the steps of a job.
func (a *API) steps(w *response, r *http.Request, c caller) error {
	j, err := a.job(r.Context(), r, c)
	if err != nil {
		return err
	}
	after, err := intParam(r, "after", -1, 0, 1<<62)
	if err != nil {
		return err
	}
	limit, err := intParam(r, "limit", defaultStepPage, 1, maxStepPage)
	if err != nil {
		return err
	}
	st, err := a.stories.of(r.Context(), a.o.Store, j.ID)
	if err != nil {
		return err
	}
	page := glovebox.StepList{Steps: []glovebox.Step{}, Seq: st.seq, Next: max(after, 0)}
	if first := after + 1; first < int64(len(st.steps)) {
		page.Steps = append(page.Steps, st.steps[first:min(first+limit, int64(len(st.steps)))]...)
		page.Next = page.Steps[len(page.Steps)-1].Step
	}
	for i := range page.Steps { // the newest one grows
		page.Steps[i].Tools, page.Steps[i].Changes = slices.Clone(page.Steps[i].Tools), slices.Clone(page.Steps[i].Changes)
	}
	page.More = after+1+int64(len(page.Steps)) < int64(len(st.steps))
	page.End = !page.More && len(st.steps) > 0 && st.steps[len(st.steps)-1].Phase == glovebox.PhaseDone
	st.mu.Unlock()
	return writeJSON(w, http.StatusOK, page)
}

// diff answers with how the workspace differs between two steps.
func (a *API) diff(w *response, r *http.Request, c caller) error {
	j, err := a.job(r.Context(), r, c)
	if err != nil {
		return err
	}
	from, err := a.moment(r, j, "from", "start")
	if err != nil {
		return err
	}
	to, err := a.moment(r, j, "to", "now")
	if err != nil {
		return err
	}
	only := r.URL.Query().Get("path")
	if only != "" {
		if only, err = cleanPath(only); err != nil {
			return err
		}
	}
	tag := `W/"` + from.commit + "-" + to.commit + "-" + strconv.FormatInt(from.step, 10) + "-" + strconv.FormatInt(to.step, 10) + `"`
	w.Header().Set("ETag", tag)
	w.Header().Set("Cache-Control", "private, no-cache")
	if hasTag(r.Header.Get("If-None-Match"), tag) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	repo, err := a.history.Repo(r.Context(), j.ID, append(slices.Clone(from.packs), to.packs...))
	if err != nil {
		return err
	}
	d, err := repo.Diff(r.Context(), from.commit, to.commit, only)
	if err != nil {
		return err
	}
	out := glovebox.WorkspaceDiff{From: glovebox.DiffEnd{Step: from.step, Commit: from.commit}, To: glovebox.DiffEnd{Step: to.step, Commit: to.commit},
		Files: make([]glovebox.FileDiff, 0, len(d.Files)), More: d.More}
	for _, f := range d.Files {
		out.Files = append(out.Files, glovebox.FileDiff(f))
	}
	return writeJSON(w, http.StatusOK, out)
}

// moment returns the workspace at the step that a parameter names.
func (a *API) moment(r *http.Request, j *glovebox.Job, name, def string) (moment, error) {
	value := r.URL.Query().Get(name)
	if value == "" {
		value = def
	}
	step := int64(-1)
	if value != "now" {
		if value == "start" {
			value = "0"
		}
		var err error
		if step, err = parseInt("query."+name, value, 0, 1<<62); err != nil {
			return moment{}, glovebox.Invalid("query."+name, "give the number of a step, start or now", "%q is not acceptable", clip(value, 40)).WithValue(value)
		}
	}
	st, err := a.stories.of(r.Context(), a.o.Store, j.ID)
	if err != nil {
		return moment{}, err
	}
	defer st.mu.Unlock()
	m, ok := st.moment(step)
	if !ok {
		return m, &glovebox.Error{Code: glovebox.CodeNotFound, Field: "query." + name, Value: value, Msg: "the job has no step " + value,
			Hint: "its steps: GET /jobs/" + j.ID + "/steps"}
	}
	return m, nil
}

// historyFile answers with a file or directory as it was at the end of a step.
func (a *API) historyFile(w *response, r *http.Request, j *glovebox.Job, name string) error {
	at, err := a.moment(r, j, "step", "now")
	if err != nil {
		return err
	}
	if at.commit == "" {
		if name == "." {
			return writeDir(w, glovebox.DirList{Path: name, Entries: []glovebox.DirEntry{}})
		}
		return noFile(name)
	}
	repo, err := a.history.Repo(r.Context(), j.ID, at.packs)
	if err != nil {
		return err
	}
	st, err := repo.Stat(r.Context(), at.commit, name)
	if glovebox.CodeOf(err) == glovebox.CodeNotFound {
		return noFile(name)
	}
	if err != nil {
		return err
	}
	switch st.Type {
	case "dir":
		entries, more, err := repo.List(r.Context(), at.commit, name)
		if err != nil {
			return err
		}
		list := glovebox.DirList{Path: name, Entries: make([]glovebox.DirEntry, 0, len(entries)), More: more}
		for _, e := range entries {
			d := glovebox.DirEntry{Name: e.Name, Type: e.Type}
			if e.Type == "file" {
				d.Size = e.Size
			}
			list.Entries = append(list.Entries, d)
		}
		return writeDir(w, list)
	case "file":
		body, size, err := repo.Open(r.Context(), at.commit, name)
		if err != nil {
			return err
		}
		defer body.Close()
		return sendFile(w, r, name, size, body)
	}
	return &glovebox.Error{Code: glovebox.CodeConflict, Field: "path", Value: name, Msg: "it is neither a regular file nor a directory", Hint: "symbolic links are listed, not followed"}
}
