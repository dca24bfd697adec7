package api

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/glovebox-dev/glovebox"
)

// modelChange is the body of POST /jobs/{id}/model.
type modelChange struct {
	Model string `json:"model" maxLength:"200" doc:"\"provider:model\"."`
}

// modelRoutes are those that change who does the work.
func (a *API) modelRoutes() []route {
	return []route{{
		method: http.MethodPost, path: "/jobs/{id}/model", scope: glovebox.ScopeWrite, handle: a.changeModel,
		id: "changeModel", summary: "Let another model go on with a job",
		doc: "From the next step on. It begins an epoch: the new model gets the task, the instructions, summaries and the newest messages, without the reasoning of the one before. " +
			"The job's model says which it is; model.changed tells when that took effect. To ask for what is so already changes nothing and is answered with 200.",
		body: []media{{contentType: jsonType, typ: modelChange{}}},
		answers: append(jsonAnswer(http.StatusAccepted, "The job as it is now. A running one takes it up a moment later.", glovebox.JobView{}, "ETag", "Changes when the job does."),
			jsonAnswer(http.StatusOK, "The job has that model already; nothing changed.", glovebox.JobView{}, "ETag", "Changes when the job does.")...),
		fails: []int{http.StatusNotFound, http.StatusRequestTimeout, http.StatusConflict, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType},
	}}
}

// changeModel lets another model go on with a job.
func (a *API) changeModel(w *response, r *http.Request, c caller) error {
	const hint = `send {"model": "provider:model"}, e.g. {"model": "anthropic:NAME"}`
	kind, err := bodyKind(r)
	if err != nil {
		return err
	}
	if kind == kindText || kind == kindMultipart {
		return unsupported(r, hint+", as application/json")
	}
	j, err := a.job(r.Context(), r, c)
	if err != nil {
		return err
	}
	body, err := a.readBody(w, r, 4<<10, "body", hint)
	if err != nil {
		return err
	}
	var want modelChange
	if err := decodeStrict(body, &want); err != nil {
		return err
	}
	if err := a.checkModel(want.Model); err != nil {
		return err
	}
	if j.Status.Terminal() {
		return &glovebox.Error{Code: glovebox.CodeConflict, Field: "id", Value: j.ID, Msg: "the job is " + string(j.Status), Hint: "start a new job with the other model"}
	}
	if now, err := a.modelOf(r.Context(), j); err != nil {
		return err
	} else if now == want.Model {
		return a.writeStatus(w, r, http.StatusOK, j)
	}
	return a.signal(w, r, c, j, glovebox.Signal{Model: want.Model})
}

// checkModel returns an error for what is not the name of a model that jobs
// can have.
func (a *API) checkModel(name string) error {
	const hint = "name a model as provider:model, e.g. anthropic:NAME, openai:NAME, gemini:NAME, chat:NAME or replay:FILE"
	if name == "" || len(name) > glovebox.MaxModelName || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == '\uFFFD' }) {
		return glovebox.Invalid("model", fmt.Sprintf("%s, in at most %d bytes", hint, glovebox.MaxModelName), "%q is not the name of a model", clip(name, 60)).WithValue(clip(name, 200))
	}
	if a.o.CheckModel == nil {
		return nil
	}
	if err := a.o.CheckModel(name); err != nil {
		return asInvalid(err, "model", name, hint)
	}
	return nil
}

// modelOf returns the model of a job, or the one that is about to go on with it.
func (a *API) modelOf(ctx context.Context, j *glovebox.Job) (string, error) {
	pending, err := a.o.Store.PendingSignals(ctx, j.ID)
	if err != nil {
		return "", err
	}
	name := cmp.Or(j.Model, a.o.DefaultModel)
	for _, s := range pending {
		if s.Model != "" {
			name = s.Model
		}
	}
	return name, nil
}
