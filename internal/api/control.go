package api

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/glovebox-dev/glovebox"
)

// cancel ends a job: a pending one at once, a running one as soon as its
// worker has heard of it. Cancelling a cancelled job is no error.
func (a *API) cancel(w *response, r *http.Request, c caller) error {
	j, err := a.job(r.Context(), r, c)
	if err != nil {
		return err
	}
	if j.Status == glovebox.StatusCancelled {
		return a.writeStatus(w, r, http.StatusAccepted, j)
	}
	return a.signal(w, r, c, j, glovebox.Signal{Cancel: true})
}

// message says something to a job.
func (a *API) message(w *response, r *http.Request, c caller) error {
	kind, err := bodyKind(r)
	if err != nil {
		return err
	}
	j, err := a.job(r.Context(), r, c)
	if err != nil {
		return err
	}
	bound := int64(glovebox.MaxUserText)
	if kind == kindJSON {
		bound = 4*bound + 1024 // escapes take up to six bytes for one, but hardly all of them
	}
	r.Body = &pacedBody{ReadCloser: r.Body, rc: w.rc, until: time.Now().Add(a.o.BodyTimeout)}
	body, err := a.readBody(w, r, bound, "text", glovebox.UserTextHint)
	if err != nil {
		return err
	}
	text := string(body)
	if kind == kindJSON || (kind == kindForm && isObjectWith(body, "text")) {
		var m struct {
			Text string `json:"text"`
		}
		if err := decodeStrict(body, &m); err != nil {
			return err
		}
		text = m.Text
	}
	if err := glovebox.ValidateUserText(text); err != nil {
		return err
	}
	s, err := a.said(r.Context(), j, text)
	if err != nil {
		return err
	}
	return a.signal(w, r, c, j, s)
}

// limits raises soft limits of a job. What is left out stays as it is.
func (a *API) limits(w *response, r *http.Request, c caller) error {
	kind, err := bodyKind(r)
	if err != nil {
		return err
	}
	if kind == kindText || kind == kindMultipart {
		return unsupported(r, `send JSON, e.g. {"steps": 500}, as application/json`)
	}
	j, err := a.job(r.Context(), r, c)
	if err != nil {
		return err
	}
	body, err := a.readBody(w, r, 64<<10, "body", "send only the limits to raise")
	if err != nil {
		return err
	}
	var want map[string]int64
	var shape glovebox.Limits
	if err := decodeStrict(body, &shape); err != nil {
		return err
	}
	if err := decodeStrict(body, &want); err != nil {
		return err
	}
	current := j.Limits
	if !j.Status.Terminal() {
		// One that was raised a moment ago may not have reached the log yet.
		pending, err := a.o.Store.PendingSignals(r.Context(), j.ID)
		if err != nil {
			return err
		}
		for _, s := range pending {
			if s.Limits != nil {
				current = *s.Limits
			}
		}
	}
	raised, err := raise(current, want)
	if err != nil {
		return err
	}
	return a.signal(w, r, c, j, glovebox.Signal{Limits: &raised})
}

// softLimits are those that can be raised while a job lives. The others are
// built into its sandbox.
var softLimits = []struct {
	name string
	get  func(*glovebox.Limits) *int64
}{
	{"steps", func(l *glovebox.Limits) *int64 { return &l.Steps }},
	{"tokens", func(l *glovebox.Limits) *int64 { return &l.Tokens }},
	{"cost_micros", func(l *glovebox.Limits) *int64 { return &l.CostMicros }},
	{"wall_time_seconds", func(l *glovebox.Limits) *int64 { return &l.WallTimeSeconds }},
}

// raise returns l with the wanted limits, each at least what it is in l.
func raise(l glovebox.Limits, want map[string]int64) (glovebox.Limits, error) {
	if len(want) == 0 {
		return l, glovebox.Invalid("body", `name a limit to raise, e.g. {"steps": 500}`, "no limit is named")
	}
	names := make([]string, 0, len(want))
	for name := range want {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		i := slices.IndexFunc(softLimits, func(s struct {
			name string
			get  func(*glovebox.Limits) *int64
		}) bool {
			return s.name == name
		})
		if i < 0 {
			return l, glovebox.Invalid("limits."+name, "only steps, tokens, cost_micros and wall_time_seconds can be raised; start a new job for another sandbox",
				"this limit is built into the job's sandbox").WithValue(want[name])
		}
		cur := softLimits[i].get(&l)
		switch {
		case *cur == 0:
			return l, glovebox.Invalid("limits."+name, "leave it out", "the job has no such limit: %d would lower it", want[name]).WithValue(want[name])
		case want[name] < *cur:
			return l, glovebox.Invalid("limits."+name, fmt.Sprintf("give at least %d; to end the job, cancel it", *cur), "%d is less than what it is", want[name]).WithValue(want[name])
		}
		*cur = want[name]
	}
	return l, l.Validate()
}

// signal sends a signal and answers with the job as it is then: a running
// one takes it up a moment later.
func (a *API) signal(w *response, r *http.Request, c caller, j *glovebox.Job, s glovebox.Signal) error {
	s.Time = a.o.Now().UTC()
	if err := a.o.Store.SendSignal(r.Context(), c.tenant, j.ID, s); err != nil {
		return err
	}
	j, err := a.job(r.Context(), r, c)
	if err != nil {
		return err
	}
	return a.writeStatus(w, r, http.StatusAccepted, j)
}
