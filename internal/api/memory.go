package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/memory"
)

// maxRequestBuilds is how many requests are built from logs at once: one may
// read a log of hundreds of megabytes.
const maxRequestBuilds = 2

// memoryRoutes are those that show what the model has before it.
func (a *API) memoryRoutes() []route {
	return []route{{
		method: http.MethodGet, path: "/jobs/{id}/requests/{step}", scope: glovebox.ScopeRead, link: glovebox.LinkControl, handle: a.request,
		id: "request", summary: "The exact request to the model of a step",
		doc: "The step is a number from 1 on, or newest. Beside the job it holds the server's own rules and the operator's standing instructions: a link to view does not open it. Built from the log, as it was when the model was asked, and compared with the sum that was recorded then. " +
			"The parts of it: head (rules, tools, task, instructions, plan), folded (summaries of what happened), tail (what is there word for word).",
		query:   []param{{name: "attempt", typ: "integer", doc: "Which try of a call that failed and was repeated, from 1. Left out: the newest."}},
		answers: jsonAnswer(http.StatusOK, "The request.", glovebox.RequestView{}),
		fails:   []int{http.StatusNotFound, http.StatusRequestEntityTooLarge, http.StatusServiceUnavailable},
	}}
}

// request answers with the request to the model of a step.
func (a *API) request(w *response, r *http.Request, c caller) error {
	j, err := a.job(r.Context(), r, c)
	if err != nil {
		return err
	}
	step := int64(0)
	if at := r.PathValue("step"); at != "newest" {
		if step, err = parseInt("step", at, 1, 1<<62); err != nil {
			return glovebox.Invalid("step", "give the number of a step, from 1, or newest", "%q is not acceptable", clip(at, 40)).WithValue(clip(at, 40))
		}
	}
	attempt, err := intParam(r, "attempt", 0, 1, 1<<62)
	if err != nil {
		return err
	}
	if a.o.MemoryOptions == nil {
		return &glovebox.Error{Code: glovebox.CodeUnavailable, Op: "build the request", Msg: "this server runs no jobs", Hint: "ask one that does"}
	}
	asked, err := a.asked(r.Context(), j, step, attempt)
	if err != nil {
		return err
	}
	select {
	case a.builds <- struct{}{}:
		defer func() { <-a.builds }()
	case <-r.Context().Done():
		return context.Cause(r.Context())
	}
	v, err := a.buildRequest(r.Context(), j, asked)
	if err != nil {
		return err
	}
	w.Header().Set("Cache-Control", "private, no-cache")
	return writeJSON(w, http.StatusOK, v)
}

// asked is a call of the model as it was recorded.
type asked struct {
	glovebox.ModelRequested
	event  glovebox.Event
	newest int64 // attempt of the same step
}

// asked returns the call of the model in a step; 0 is the newest, of steps and
// of attempts.
func (a *API) asked(ctx context.Context, j *glovebox.Job, step, attempt int64) (asked, error) {
	var out asked
	st, err := a.stories.of(ctx, a.o.Store, j.ID)
	if err != nil {
		return out, err
	}
	var in glovebox.Step
	last := int64(len(st.steps) - 1)
	if step == 0 {
		step = max(last, 1)
	}
	if step <= last {
		in = st.steps[step]
	}
	st.mu.Unlock()
	if step > last {
		hint := "the model has not been asked yet"
		if last > 0 {
			hint = fmt.Sprintf("give one from 1 to %d", last)
		}
		return out, &glovebox.Error{Code: glovebox.CodeNotFound, Field: "step", Value: strconv.FormatInt(step, 10), Msg: fmt.Sprintf("the job has no step %d", step), Hint: hint}
	}
	found := false
	err = a.eachEvent(ctx, j.ID, in.First-1, in.Last, func(e glovebox.Event) error {
		if e.Type != glovebox.EventModelRequested {
			return nil
		}
		q, err := glovebox.Decode[glovebox.ModelRequested](e)
		if err != nil {
			return err
		}
		out.newest = max(out.newest, q.Attempt)
		if attempt == 0 || q.Attempt == attempt {
			found, out.ModelRequested, out.event = true, q, e
		}
		return nil
	})
	if err == nil && !found {
		err = &glovebox.Error{Code: glovebox.CodeNotFound, Field: "query.attempt", Value: strconv.FormatInt(attempt, 10), Msg: fmt.Sprintf("step %d has no attempt %d", step, attempt),
			Hint: fmt.Sprintf("give one from 1 to %d, or leave it out for the newest", out.newest)}
	}
	return out, err
}

// buildRequest builds the request that q stands for from the events before it.
func (a *API) buildRequest(ctx context.Context, j *glovebox.Job, q asked) (*glovebox.RequestView, error) {
	o, err := a.o.MemoryOptions(ctx, q.Model)
	if err != nil {
		return nil, err
	}
	v := &glovebox.RequestView{JobID: j.ID, Step: q.Step, Attempt: q.Attempt, Attempts: q.newest, Event: q.event.Seq, Time: q.event.Time, Model: q.Model,
		Epoch: 1, Use: q.Use, Recorded: q.RequestSHA}
	b := memory.New(o)
	err = a.eachEvent(ctx, j.ID, 0, q.event.Seq-1, func(e glovebox.Event) error {
		if e.Type == glovebox.EventFolded {
			f, err := glovebox.Decode[glovebox.Folded](e)
			if err != nil {
				return err
			}
			v.Epoch = f.Epoch
		}
		return b.Apply(e)
	})
	if err != nil {
		return nil, err
	}
	req := b.Request(q.MaxOutput)
	v.SHA256 = b.Digest(req)
	v.Same = v.SHA256 == v.Recorded
	v.Opening = b.Parts()
	if v.Request, err = json.Marshal(req); err != nil {
		return nil, glovebox.Errorf(glovebox.CodeInternal, "encode a request: %w", err)
	}
	if v.Bytes = int64(len(v.Request)); v.Bytes > glovebox.MaxRequestView {
		return nil, &glovebox.Error{Code: glovebox.CodeTooLarge, Field: "step", Value: strconv.FormatInt(q.Step, 10),
			Msg:  fmt.Sprintf("the request has %d bytes; at most %d are shown", v.Bytes, glovebox.MaxRequestView),
			Hint: "its parts are in the events before number " + strconv.FormatInt(v.Event, 10)}
	}
	return v, nil
}

// eachEvent calls f with the events after one number up to another, in order.
func (a *API) eachEvent(ctx context.Context, job string, after, through int64, f func(glovebox.Event) error) error {
	for after < through {
		page, err := a.o.Store.Events(ctx, job, after, int(min(stepPage, through-after)))
		if err != nil {
			return err
		}
		if len(page) == 0 {
			return glovebox.Errorf(glovebox.CodeInternal, "job %s has no event %d", job, after+1)
		}
		for _, e := range page {
			if err := f(e); err != nil {
				return err
			}
		}
		after = page[len(page)-1].Seq
	}
	return nil
}
