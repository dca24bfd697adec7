package api

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox"
)

// maxWait bounds a long poll.
const maxWait = 60 * time.Second

// status answers with the state of a job. With ?wait= it answers when the job
// has moved on from what the client knows (?seq= or If-None-Match, else what
// it is now), when it is terminal, or when the time is over.
func (a *API) status(w *response, r *http.Request, c caller) error {
	wait, since, err := waitParams(r)
	if err != nil {
		return err
	}
	j, err := a.job(r.Context(), r, c)
	if err != nil {
		return err
	}
	if wait > 0 && !j.Status.Terminal() {
		if since < 0 {
			since = j.Seq
		}
		if j.Seq <= since {
			a.await(r.Context(), j, since, wait)
			if j, err = a.job(r.Context(), r, c); err != nil {
				return err
			}
		}
	}
	return a.writeStatus(w, r, http.StatusOK, j)
}

// waitParams returns how long to wait and for a change since which event; -1
// if the client did not say.
func waitParams(r *http.Request) (wait time.Duration, since int64, err error) {
	since = -1
	if r.URL.RawQuery == "" {
		return 0, since, nil
	}
	q := r.URL.Query()
	if s := q.Get("wait"); s != "" {
		wait, err = time.ParseDuration(s)
		if n, nerr := strconv.ParseUint(s, 10, 16); nerr == nil { // plain seconds
			wait, err = time.Duration(n)*time.Second, nil
		}
		if err != nil || wait < 0 || wait > maxWait {
			return 0, 0, glovebox.Invalid("query.wait", "give a time of at most 60s, e.g. wait=30s", "%q is not acceptable", clip(s, 40)).WithValue(s)
		}
	}
	if s := q.Get("seq"); s != "" {
		since, err = parseInt("query.seq", s, 0, 1<<62)
		return wait, since, err
	}
	if tag, ok := strings.CutPrefix(r.Header.Get("If-None-Match"), `W/"`); ok {
		seq, _, _ := strings.Cut(strings.TrimSuffix(tag, `"`), ".")
		if n, err := strconv.ParseInt(seq, 10, 64); err == nil && n >= 0 {
			since = n
		}
	}
	return wait, since, nil
}

// await returns when a job has events after number since, when it is
// terminal, when the time is over, or when the server drains.
func (a *API) await(ctx context.Context, j *glovebox.Job, since int64, d time.Duration) {
	f := a.feeds.open(j)
	defer f.close()
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		v := f.view(-1)
		if v.last > since || v.terminal {
			return
		}
		select {
		case <-v.changed:
		case <-timer.C:
			return
		case <-a.drain:
			return
		case <-ctx.Done():
			return
		}
	}
}

// writeStatus answers with the view of a job, or with 304 if the client has it.
func (a *API) writeStatus(w *response, r *http.Request, status int, j *glovebox.Job) error {
	var pos int64
	if j.Status == glovebox.StatusPending {
		var err error
		if pos, err = a.positions.of(r.Context(), a.o.Store, j.ID); err != nil {
			return err
		}
	}
	// Weak: the time spent in the current phase moves on under the same tag.
	tag := `W/"` + strconv.FormatInt(j.Seq, 10)
	if pos > 0 {
		tag += "." + strconv.FormatInt(pos, 10)
	}
	tag += `"`
	w.Header().Set("ETag", tag)
	w.Header().Set("Cache-Control", "private, no-cache")
	if isRead(r.Method) && hasTag(r.Header.Get("If-None-Match"), tag) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	return writeJSON(w, status, glovebox.NewJobView(j, pos, a.o.Now()))
}

// hasTag reports whether an If-None-Match header names a tag, by weak
// comparison.
func hasTag(header, tag string) bool {
	if header == "" {
		return false
	}
	tag = strings.TrimPrefix(tag, "W/")
	for t := range strings.SplitSeq(header, ",") {
		t = strings.TrimSpace(t)
		if t == "*" || strings.TrimPrefix(t, "W/") == tag {
			return true
		}
	}
	return false
}
