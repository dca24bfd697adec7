package api

import (
	"context"
	"net/http"

	"github.com/glovebox-dev/glovebox"
)

// controlChange is the body of POST /jobs/{id}/control.
type controlChange struct {
	Control string `json:"control" enum:"user,agent," doc:"user takes mouse and keyboard, agent or the empty string gives them back."`
}

// takeoverRoutes are those by which a person takes over.
func (a *API) takeoverRoutes() []route {
	return []route{{
		method: http.MethodPost, path: "/jobs/{id}/control", scope: glovebox.ScopeWrite, link: glovebox.LinkControl, handle: a.control,
		id: "control", summary: "Take mouse and keyboard of a job's machine, or give them back",
		doc: "While a person holds them, tools of the agent that use the screen wait, and the job does not finish; its limit of wall time counts on. " +
			"When they are given back, the agent is told which files and windows changed. The job's control says who holds them; control.changed tells when that took effect. " +
			"Of a job without a machine it takes effect when there is one. To ask for what is so already is no error.",
		body:    []media{{contentType: jsonType, typ: controlChange{}}},
		answers: jsonAnswer(http.StatusAccepted, "The job as it is now. A running one takes it up a moment later.", glovebox.JobView{}, "ETag", "Changes when the job does."),
		fails:   []int{http.StatusNotFound, http.StatusRequestTimeout, http.StatusConflict, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType},
	}}
}

// control changes who holds mouse and keyboard.
func (a *API) control(w *response, r *http.Request, c caller) error {
	j, err := a.job(r.Context(), r, c)
	if err != nil {
		return err
	}
	kind, err := bodyKind(r)
	if err != nil {
		return err
	}
	if kind == kindText || kind == kindMultipart {
		return unsupported(r, `send JSON, e.g. {"control": "user"}, as application/json`)
	}
	body, err := a.readBody(w, r, 1<<10, "body", `send {"control": "user"} or {"control": "agent"}`)
	if err != nil {
		return err
	}
	var want struct {
		Control *string `json:"control"`
	}
	if err := decodeStrict(body, &want); err != nil {
		return err
	}
	if want.Control == nil {
		return glovebox.Invalid("control", `send {"control": "user"} or {"control": "agent"}`, "it is missing")
	}
	holder := glovebox.Control(*want.Control)
	if holder == "agent" {
		holder = glovebox.ControlAgent
	}
	if holder != glovebox.ControlAgent && holder != glovebox.ControlUser {
		return glovebox.Invalid("control", `send "user" to take mouse and keyboard, "agent" to give them back`, "%q can't hold them", clip(*want.Control, 40)).WithValue(*want.Control)
	}
	if so, err := a.heldBy(r.Context(), j, holder); err != nil {
		return err
	} else if so {
		return a.writeStatus(w, r, http.StatusAccepted, j)
	}
	return a.signal(w, r, c, j, glovebox.Signal{Control: &holder})
}

// heldBy reports whether a job's mouse and keyboard are with holder, and
// nothing is on its way that changes that.
func (a *API) heldBy(ctx context.Context, j *glovebox.Job, holder glovebox.Control) (bool, error) {
	if j.Status.Terminal() {
		return false, nil // the store says that it has ended
	}
	pending, err := a.o.Store.PendingSignals(ctx, j.ID)
	if err != nil {
		return false, err
	}
	held := j.Control
	for _, s := range pending {
		if s.Control != nil {
			held = *s.Control
		}
	}
	return held == holder, nil
}
