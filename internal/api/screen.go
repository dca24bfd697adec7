package api

import (
	"context"
	"net/http"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest"
	"github.com/glovebox-dev/glovebox/internal/rfb"
)

// maxScreenMessage bounds a message of a viewer: a clipboard with its head.
const maxScreenMessage = 512 << 10

// screen leads a browser to the page that shows a job's screen, or, once the
// job has ended, its recording.
func (a *API) screen(w *response, r *http.Request, c caller) error {
	j, err := a.job(r.Context(), r, c)
	if err != nil {
		return err
	}
	to := "../../#/jobs/" + j.ID + "?tab=screen" // relative, as a proxy in front may have added a path prefix
	if hasLink(r) {
		to += "&link=" + r.URL.Query().Get("link") // behind the #, so that it gets into no log on the way
	}
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusSeeOther)
	return nil
}

// screenSocket joins a browser to the display of a job, by RFB over binary
// messages. Mouse and keyboard pass while the caller may control and a person
// has taken over.
func (a *API) screenSocket(w *response, r *http.Request, c caller) error {
	j, m, err := a.jobMachine(r, c)
	if err != nil {
		return err
	}
	if err := needUpgrade(r); err != nil {
		return err
	}
	leave, err := a.lives.enter("screen", j.ID, maxScreens)
	if err != nil {
		return err
	}
	defer leave()
	ctx, cancel := a.liveContext(r)
	defer cancel(nil)
	d, err := dialDisplay(ctx, m)
	if err != nil {
		return err
	}
	defer d.Close()
	s, err := upgrade(ctx, w, r, maxScreenMessage, "binary")
	if err != nil {
		return err
	}
	relay := rfb.NewRelay(d)
	stop := a.followControl(ctx, cancel, j, func(control glovebox.Control) {
		// An error is that of a display which is gone; Run finds out itself.
		_ = relay.SetControl(c.mayControl() && control == glovebox.ControlUser)
	})
	defer stop()
	err = relay.Run(ctx, s)
	s.End(err)
	a.o.Log.DebugContext(r.Context(), "screen closed", "job", j.ID, "why", err)
	return nil
}

func dialDisplay(ctx context.Context, m Machine) (*rfb.Display, error) {
	ctx, cancel := context.WithTimeout(ctx, dialMachine)
	defer cancel()
	conn, err := m.DialService(ctx, guest.ServiceDisplay)
	if err == nil {
		var d *rfb.Display
		if d, err = rfb.Dial(ctx, conn, m.ServiceSecret(guest.ServiceDisplay)); err == nil {
			return d, nil
		}
	}
	return nil, &glovebox.Error{Code: glovebox.CodeUnavailable, Field: "id", Msg: "the job's display does not answer", Err: err, Hint: "try again in a moment; GET /jobs/{id}/services says how it is"}
}

// followControl calls f with who holds mouse and keyboard of a job, now and
// whenever it may have changed, and ends the connection when the job does. stop
// returns when f is not called any more.
func (a *API) followControl(ctx context.Context, end context.CancelCauseFunc, j *glovebox.Job, f func(glovebox.Control)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	feed := a.feeds.open(j)
	v := feed.view(-1)
	f(v.control)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			if v.terminal {
				end(errEnded)
				return
			}
			select {
			case <-v.changed:
			case <-ctx.Done():
				return
			}
			v = feed.view(-1)
			f(v.control)
		}
	}()
	return func() {
		cancel()
		<-done
		feed.close()
	}
}
