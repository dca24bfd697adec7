package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox"
)

// maxSignals is how many signals may wait for one job.
const maxSignals = 1000

// maxHandle is how many bytes the handle of an output may have.
const maxHandle = 200

// SendSignal implements [store.Signals].
func (s *Store) SendSignal(ctx context.Context, tenant, id string, sig glovebox.Signal) error {
	if err := checkSignal(sig); err != nil {
		return err
	}
	return s.w.do(ctx, func(t *txn) error {
		r, err := t.load(id)
		if err != nil {
			return err
		}
		if tenant != "" && r.job.Tenant != tenant {
			return noJob(id)
		}
		switch r.job.Status {
		case glovebox.StatusPending:
			return t.append(r, signalEvents(r.job, t.now, sig)...)
		case glovebox.StatusRunning:
			return t.leave(r, sig)
		}
		if sig.Limits == nil || !stoppedAtSoftLimit(r.job) {
			return &glovebox.Error{Code: glovebox.CodeConflict, Msg: r.job.String() + " has ended"}
		}
		if err := checkRaised(r.job, *sig.Limits); err != nil {
			return err
		}
		return t.append(r, resumeEvents(t.now, *sig.Limits)...)
	})
}

func checkSignal(sig glovebox.Signal) error {
	set := 0
	for _, is := range []bool{sig.Text != "", sig.Cancel, sig.Limits != nil, sig.Control != nil, sig.Notice != "", sig.Model != ""} {
		if is {
			set++
		}
	}
	switch {
	case set != 1:
		return glovebox.Invalid("signal", "send one text, a cancel, new limits, who holds control, a notice or a model", "exactly one of them must be set, not %d", set)
	case len(sig.Text)+len(sig.Notice) > glovebox.MaxSignalText: // one of them is empty
		return tooLarge("the message", len(sig.Text)+len(sig.Notice), glovebox.MaxSignalText)
	case !utf8.ValidString(sig.Text) || !utf8.ValidString(sig.Notice):
		return glovebox.Invalid("text", "send it as UTF-8", "the message is not valid UTF-8")
	case len(sig.Model) > glovebox.MaxModelName || !utf8.ValidString(sig.Model):
		return glovebox.Invalid("model", fmt.Sprintf("name it as provider:model, in at most %d bytes", glovebox.MaxModelName), "a name of %d bytes", len(sig.Model))
	case (sig.Blob != "") != (sig.Size > 0) || sig.Blob != "" && sig.Text == "" || sig.Size < 0:
		return glovebox.Invalid("signal", "name handle and size of the whole together, beside its beginning", "a blob %.60q of %d bytes with a text of %d", sig.Blob, sig.Size, len(sig.Text))
	case len(sig.Blob) > maxHandle || !utf8.ValidString(sig.Blob):
		return glovebox.Invalid("signal", "name a handle of the job's outputs", "a handle of %d bytes", len(sig.Blob))
	case sig.Control != nil && *sig.Control != glovebox.ControlAgent && *sig.Control != glovebox.ControlUser:
		return glovebox.Invalid("control", `it is "user" or ""`, "%.40q can't hold mouse and keyboard", *sig.Control)
	case sig.Limits != nil:
		return sig.Limits.Validate()
	}
	return nil
}

// leave keeps a signal for the worker that runs the job.
func (t *txn) leave(r *row, sig glovebox.Signal) error {
	var waiting int
	if err := t.queryRow("SELECT count(*) FROM signals WHERE job = $1", []any{r.num}, &waiting); err != nil {
		return err
	}
	if waiting >= maxSignals && !sig.Cancel {
		return glovebox.Errorf(glovebox.CodeConflict, "%d messages to job %s wait to be read already", waiting, r.job.ID)
	}
	sig.ID, sig.Time = 0, t.now
	data, err := json.Marshal(sig)
	if err != nil {
		return err
	}
	t.wake = true
	_, err = t.exec("INSERT INTO signals (job, data) VALUES ($1, $2)", r.num, string(data))
	return err
}

// PendingSignals implements [store.Signals].
func (s *Store) PendingSignals(ctx context.Context, id string) ([]glovebox.Signal, error) {
	if err := ctx.Err(); err != nil {
		return nil, s.failure("read signals", err)
	}
	var num int64
	err := s.queryRow("SELECT num FROM jobs WHERE id = $1", []any{id}, &num)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, noJob(id)
	}
	if err != nil {
		return nil, s.failure("read signals", err)
	}
	st, err := s.stmt(selectSignals)
	if err != nil {
		return nil, s.failure("read signals", err)
	}
	sigs, err := scanSignals(st, num)
	return sigs, s.failure("read signals", err)
}

const selectSignals = "SELECT id, data FROM signals WHERE job = $1 ORDER BY id"

func (t *txn) signals(num int64) ([]glovebox.Signal, error) {
	st, err := t.w.stmt(selectSignals)
	if err != nil {
		return nil, err
	}
	return scanSignals(st, num)
}

func scanSignals(st *sql.Stmt, num int64) ([]glovebox.Signal, error) {
	rows, err := st.QueryContext(context.Background(), num)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var sigs []glovebox.Signal
	for rows.Next() {
		var id int64
		var data string
		if err := rows.Scan(&id, &data); err != nil {
			return nil, err
		}
		var sig glovebox.Signal
		if err := json.Unmarshal([]byte(data), &sig); err != nil {
			return nil, err
		}
		sig.ID = id
		sigs = append(sigs, sig)
	}
	return sigs, rows.Err()
}

// consume removes signals that a worker acts upon. One that is not there was
// consumed before: acting on it again is refused.
func (t *txn) consume(r *row, ids []int64) error {
	for _, id := range ids {
		res, err := t.exec("DELETE FROM signals WHERE id = $1 AND job = $2", id, r.num)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil {
			return err
		} else if n == 0 {
			return glovebox.Errorf(glovebox.CodeConflict, "signal %d of job %s was consumed before", id, r.job.ID)
		}
	}
	return nil
}

// finish settles the signals that wait for a job that has just ended. New
// limits for a job that stopped at a soft limit were acknowledged to a
// person, so they resume it; the rest have nothing left to act on.
func (t *txn) finish(r *row) error {
	waiting, err := t.signals(r.num)
	if err != nil || len(waiting) == 0 {
		return err
	}
	if _, err := t.exec("DELETE FROM signals WHERE job = $1", r.num); err != nil {
		return err
	}
	cancelled := slices.ContainsFunc(waiting, func(s glovebox.Signal) bool { return s.Cancel })
	for _, sig := range slices.Backward(waiting) { // the newest limits hold
		if sig.Limits != nil && !cancelled && stoppedAtSoftLimit(r.job) && checkRaised(r.job, *sig.Limits) == nil {
			return t.append(r, resumeEvents(t.now, *sig.Limits)...)
		}
	}
	return nil
}

// signalEvents returns what a signal leads to where no worker holds the job.
func signalEvents(j *glovebox.Job, now time.Time, sig glovebox.Signal) []glovebox.Event {
	switch {
	case sig.Cancel:
		return []glovebox.Event{glovebox.NewEvent(now, glovebox.EventFinished, glovebox.Finished{Status: glovebox.StatusCancelled})}
	case sig.Limits != nil:
		return []glovebox.Event{glovebox.NewEvent(now, glovebox.EventLimitsRaised, glovebox.LimitsRaised{Limits: *sig.Limits})}
	case sig.Control != nil && *sig.Control == j.Control:
		return nil // it is so already
	case sig.Control != nil:
		return []glovebox.Event{glovebox.NewEvent(now, glovebox.EventControl, glovebox.ControlChanged{Control: *sig.Control})}
	case sig.Notice != "":
		return []glovebox.Event{glovebox.NewEvent(now, glovebox.EventNotice, glovebox.Notice{Text: sig.Notice})}
	case sig.Model != "" && sig.Model == j.Model:
		return nil // it is so already
	case sig.Model != "":
		return []glovebox.Event{glovebox.NewEvent(now, glovebox.EventModelChanged, glovebox.ModelChanged{Model: sig.Model})}
	}
	return []glovebox.Event{glovebox.NewEvent(now, glovebox.EventUserMessage, glovebox.UserMessage{Text: sig.Text, Blob: sig.Blob, Size: sig.Size})}
}

func resumeEvents(now time.Time, l glovebox.Limits) []glovebox.Event {
	return []glovebox.Event{
		glovebox.NewEvent(now, glovebox.EventLimitsRaised, glovebox.LimitsRaised{Limits: l}),
		glovebox.NewEvent(now, glovebox.EventResumed, glovebox.Resumed{Reason: "limits raised"}),
	}
}

// softLimits are the limits that can be raised after a job stopped at them.
var softLimits = map[string]func(glovebox.Limits) int64{
	"steps":             func(l glovebox.Limits) int64 { return l.Steps },
	"tokens":            func(l glovebox.Limits) int64 { return l.Tokens },
	"cost_micros":       func(l glovebox.Limits) int64 { return l.CostMicros },
	"wall_time_seconds": func(l glovebox.Limits) int64 { return l.WallTimeSeconds },
}

func stoppedAtSoftLimit(j *glovebox.Job) bool {
	return j.Status == glovebox.StatusError && j.Failure != nil && j.Failure.Code == string(glovebox.CodeLimit) &&
		softLimits[j.Failure.Limit] != nil
}

// checkRaised refuses limits that would stop the job at the same place again.
func checkRaised(j *glovebox.Job, l glovebox.Limits) error {
	get := softLimits[j.Failure.Limit]
	if was, is := get(j.Limits), get(l); is != 0 && is <= was {
		return glovebox.Invalid("limits."+j.Failure.Limit, "give more than that", "%d is not more than the %d that stopped the job", is, was)
	}
	return nil
}
