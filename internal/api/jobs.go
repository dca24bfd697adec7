package api

import (
	"context"
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/blob"
	"github.com/glovebox-dev/glovebox/internal/store"
)

const (
	defaultJobs = 50
	maxJobs     = 100 // in a page: each may have a task of 1 MiB
	maxQuery    = 500 // bytes of ?q= and ?cursor=
)

// list answers with jobs of the caller's tenant, newest first.
func (a *API) list(w *response, r *http.Request, c caller) error {
	q := r.URL.Query()
	f := store.JobFilter{Tenant: c.tenant, Query: q.Get("q"), Cursor: q.Get("cursor")}
	for name, v := range map[string]string{"q": f.Query, "cursor": f.Cursor} {
		if len(v) > maxQuery || !utf8.ValidString(v) {
			return glovebox.Invalid("query."+name, "give at most 500 bytes of UTF-8", "a value of %d bytes is not acceptable", len(v)).WithValue(clip(v, 90))
		}
	}
	for _, s := range q["status"] {
		switch st := glovebox.Status(s); st {
		case glovebox.StatusPending, glovebox.StatusRunning, glovebox.StatusComplete, glovebox.StatusError, glovebox.StatusCancelled:
			f.Status = append(f.Status, st)
		default:
			return glovebox.Invalid("query.status", "give pending, running, complete, error or cancelled; repeat the parameter for several", "%q is not a status", clip(s, 40)).WithValue(s)
		}
		if len(f.Status) > 10 {
			return glovebox.Invalid("query.status", "name each status once", "%d statuses", len(q["status"]))
		}
	}
	limit, err := intParam(r, "limit", defaultJobs, 1, maxJobs)
	if err != nil {
		return err
	}
	f.Limit = int(limit)
	page, err := a.o.Store.ListJobs(r.Context(), f)
	if err != nil {
		return err
	}
	now := a.o.Now()
	out := glovebox.JobList{Jobs: make([]*glovebox.JobView, 0, len(page.Jobs)), Cursor: page.Cursor}
	for _, j := range page.Jobs {
		v := glovebox.NewJobView(j, 0, now)
		v.Verification = nil // it may be long; the job's own view has it
		out.Jobs = append(out.Jobs, v)
	}
	return writeJSON(w, http.StatusOK, out)
}

// remove deletes a terminal job and its blobs. The store decides first: blobs
// of a job that goes on must not vanish. Blobs that can't be removed after it
// are named in the log, and a worker tries again later.
func (a *API) remove(w *response, r *http.Request, c caller) error {
	j, err := a.job(r.Context(), r, c)
	if err != nil {
		return err
	}
	if !j.Status.Terminal() {
		return &glovebox.Error{Code: glovebox.CodeConflict, Field: "id", Value: j.ID, Msg: "the job is " + string(j.Status), Hint: "cancel it first: POST /jobs/" + j.ID + "/cancel"}
	}
	if err := a.o.Store.DeleteJob(r.Context(), c.tenant, j.ID); err != nil {
		return err
	}
	if err := a.removeBlobs(r.Context(), j.ID); err != nil {
		a.o.Log.ErrorContext(r.Context(), "the job is deleted, its blobs are not", "job", j.ID, "prefix", blob.JobPrefix(j.ID), "err", err)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// removeBlobs removes what is stored under a job, also when the client has
// gone away meanwhile.
func (a *API) removeBlobs(ctx context.Context, jobID string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	err := a.o.Blobs.DeletePrefix(ctx, blob.JobPrefix(jobID))
	if err != nil {
		err = a.o.Blobs.DeletePrefix(ctx, blob.JobPrefix(jobID)) // once more: nobody else will
	}
	return err
}
