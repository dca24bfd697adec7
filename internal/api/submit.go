package api

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/store"
)

// maxJSONTask bounds a task as JSON: MaxTask with room for the escapes that
// usual encoders write.
const maxJSONTask = 4*glovebox.MaxTask + 256<<10

// request is a submission with what comes beside its fields.
type request struct {
	glovebox.Submission
	archive       string // key of the blob that holds the input archive; empty for none
	archiveSHA256 string
}

// submit takes a task and answers once the job is durable.
func (a *API) submit(w *response, r *http.Request, c caller) error {
	kind, err := bodyKind(r)
	if err != nil {
		return err
	}
	key, err := idempotencyKey(r)
	if err != nil {
		return err
	}
	id := glovebox.NewID()
	req, err := a.readSubmission(w, r, kind, id)
	if err == nil {
		err = setProject(r, &req)
	}
	if err == nil {
		err = a.checkSubmission(&req)
	}
	var job *glovebox.Job
	created := false
	if err == nil {
		job, created, err = a.create(r.Context(), c, id, req, key)
	}
	if req.archive != "" && !created {
		if rmErr := a.removeBlobs(r.Context(), id); rmErr != nil {
			a.o.Log.ErrorContext(r.Context(), "remove the archive of a refused submission", "job", id, "err", rmErr)
		}
	}
	if err != nil {
		return err
	}
	a.metrics.submitted(created)
	acc := glovebox.Accepted{JobID: job.ID, StatusURL: "/status/" + job.ID, EventsURL: "/jobs/" + job.ID + "/events"}
	w.Header().Set("Location", acc.StatusURL)
	if !created {
		w.Header().Set("Idempotency-Replayed", "true")
	}
	return writeJSON(w, http.StatusAccepted, acc)
}

func idempotencyKey(r *http.Request) (string, error) {
	key := r.Header.Get("Idempotency-Key")
	if len(key) > 255 || strings.ContainsFunc(key, func(c rune) bool { return c < ' ' || c > '~' }) {
		return "", glovebox.Invalid("Idempotency-Key", "give 1 to 255 visible characters of ASCII, e.g. a random UUID", "%d bytes that are not acceptable", len(key)).WithValue(clip(key, 90))
	}
	return key, nil
}

// readSubmission reads a body of any kind. An archive is stored on the way,
// as a blob of the job to be.
func (a *API) readSubmission(w *response, r *http.Request, kind kind, id string) (request, error) {
	if kind == kindMultipart {
		return a.readMultipart(w, r, id)
	}
	const hint = "shorten the task, and send long material as files (multipart/form-data, part archive)"
	bound := int64(glovebox.MaxTask)
	if kind == kindJSON {
		bound = maxJSONTask
	}
	var req request
	body, err := a.readBody(w, r, bound, "task", hint)
	if err != nil {
		return req, err
	}
	// curl calls everything a form. What is plainly a submission in JSON is
	// taken for one; any other text is the task as it stands.
	if kind == kindJSON || (kind == kindForm && isObjectWith(body, "task", "prompt")) {
		err = decodeStrict(body, &req.Submission)
	} else {
		req.Task = string(body)
	}
	return req, err
}

// setProject takes the project from the query, where a task sent as text can
// name it.
func setProject(r *http.Request, req *request) error {
	if r.URL.RawQuery == "" {
		return nil
	}
	values := r.URL.Query()["project"]
	switch {
	case len(values) == 0:
		return nil
	case len(values) > 1 || req.Project != "":
		return glovebox.Invalid("query.project", "give it once", "the project is named twice")
	}
	req.Project = values[0]
	return glovebox.ValidateProject(req.Project)
}

func (a *API) checkSubmission(req *request) error {
	if err := req.Normalize(); err != nil {
		return err
	}
	if err := req.Validate(); err != nil {
		return err
	}
	if req.archive != "" && req.Files != nil {
		return glovebox.Invalid("files", "start from an archive or from a git repository, not from both", "an archive and a git URL are given")
	}
	if req.Model == "" {
		req.Model = a.o.DefaultModel
	}
	if a.o.CheckModel != nil {
		if err := a.o.CheckModel(req.Model); err != nil {
			return asInvalid(err, "model", req.Model, "name a model as provider:model, e.g. anthropic:NAME, openai:NAME, gemini:NAME, chat:NAME or replay:FILE")
		}
	}
	if a.o.CheckEgress != nil {
		if err := a.o.CheckEgress(req.Egress); err != nil {
			return asInvalid(err, "egress", "", `rules are "host", "host:port", ".suffix" and ".suffix:port"`)
		}
	}
	return nil
}

// asInvalid makes an error of a check about one field, where it does not say
// so itself.
func asInvalid(err error, field, value, hint string) error {
	if c := glovebox.CodeOf(err); c != glovebox.CodeInternal && c != glovebox.CodeNotFound {
		return err
	}
	return glovebox.Invalid(field, hint, "%v", err).WithValue(value)
}

func (a *API) create(ctx context.Context, c caller, id string, req request, key string) (*glovebox.Job, bool, error) {
	k := store.IdempotencyKey{Key: key}
	if key != "" {
		b, err := json.Marshal(struct {
			glovebox.Submission
			Archive string
		}{req.Submission, req.archiveSHA256})
		if err != nil {
			return nil, false, glovebox.Errorf(glovebox.CodeInternal, "encode submission: %w", err)
		}
		k.Digest = sha256.Sum256(b)
	}
	created := glovebox.Created{
		ID: id, Tenant: c.tenant, Task: req.Task, Model: req.Model, Limits: req.Limits.Or(a.o.DefaultLimits),
		Egress: req.Egress, Metadata: req.Metadata, Project: req.Project,
	}
	switch {
	case req.archive != "":
		created.Files = &glovebox.Files{Blob: req.archive}
	case req.Files != nil:
		created.Files = &glovebox.Files{GitURL: req.Files.GitURL, GitRef: req.Files.GitRef}
	}
	return a.o.Store.CreateJob(ctx, created, k)
}
