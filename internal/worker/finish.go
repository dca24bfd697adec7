package worker

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/agent"
)

// finish records how the job ended, and removes its sandbox. It tries until
// the store takes it, or the lease is lost, or the worker is out of patience.
// Then it reports false: the job is not over, and who holds it next comes to
// the same end.
func (r *run) finish(out agent.Outcome) bool {
	grace := time.Duration(0)
	if out.Status == glovebox.StatusComplete {
		grace = cmp.Or(r.o.patience, frameGrace)
		r.saveProject()
	}
	r.rec.finish(grace)
	r.pub.finish()
	r.host.box.settle() // what the sandbox reached comes before the end
	var events []glovebox.Event
	if out.Status == glovebox.StatusComplete && r.artifact != nil {
		events = append(events, r.host.event(glovebox.EventArtifact, glovebox.ArtifactSaved{Artifact: *r.artifact}))
	}
	events = append(events, r.host.event(glovebox.EventFinished, out.Finished()))
	wait := firstWait
	for {
		job, err := r.host.Append(r.ctx, events, out.Consume...)
		if err == nil {
			r.log.Info("job finished", "status", job.Status, "steps", job.Step)
			if job.Status.Terminal() { // else new limits came at the last moment
				r.host.box.remove()
			}
			return true
		}
		if glovebox.CodeOf(err) == glovebox.CodeUnavailable {
			// Perhaps the disk is full, and of what the sandbox wrote. Nothing needs it any more.
			r.host.box.remove()
		}
		if glovebox.CodeOf(err) == glovebox.CodeConflict && len(out.Consume) > 0 {
			out.Consume = nil // taken by an append whose answer was lost
			continue
		}
		r.log.Error("the end of the job can't be recorded yet", "error", err)
		if glovebox.CodeOf(err) == glovebox.CodeFenced || !r.sleep(&wait) {
			return false
		}
	}
}

// release gives the job back. Its sandbox stays for who claims it next.
func (r *run) release() {
	r.rec.finish(0)
	r.pub.finish()
	r.host.box.settle()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), r.o.Lease)
	defer cancel()
	if err := r.o.Store.Release(ctx, r.lease, "the worker is stopping"); err != nil {
		// The lease runs out by itself.
		r.log.Warn("can't hand the job over; it is taken over when its lease ends", "error", err)
		return
	}
	r.log.Info("job handed over")
}

func failed(f glovebox.Failure) agent.Outcome {
	return agent.Outcome{Status: glovebox.StatusError, Failure: &f}
}

// failureOf says to the user why the server could not go on with the job.
func failureOf(err error) glovebox.Failure {
	f := glovebox.Failure{Code: "internal", Message: "The server could not go on with the job: " + plain(err), Hint: hintOf(err)}
	if isStoreError(err) || glovebox.CodeOf(err) == glovebox.CodeUnavailable {
		f.Code = "storage"
		f.Message = "The server could not record what happened in the job: " + plain(err)
	}
	return f
}

// maxCause is how many bytes of an error a user is shown.
const maxCause = 2000

// plain returns the text of an error without its hint, of bounded length.
func plain(err error) string {
	text := err.Error()
	if e, ok := errors.AsType[*glovebox.Error](err); ok && e.Hint != "" {
		text = strings.Replace(text, " ("+e.Hint+")", "", 1)
	}
	if len(text) > maxCause {
		text = strings.ToValidUTF8(text[:maxCause], "") + "..."
	}
	return text
}

// hintOf returns what to do about an error, where it says so.
func hintOf(err error) string {
	if e, ok := errors.AsType[*glovebox.Error](err); ok {
		return e.Hint
	}
	return ""
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
