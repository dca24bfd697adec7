package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/store"
)

// maxEvents is how many events one call of Events returns at most.
const maxEvents = 10_000

// refused are the types of event that a worker does not append: the store's
// own, and those that are live only.
var refused = map[glovebox.EventType]bool{
	glovebox.EventCreated:    true,
	glovebox.EventClaimed:    true,
	glovebox.EventReleased:   true,
	glovebox.EventResumed:    true,
	glovebox.EventModelDelta: true,
	glovebox.EventToolOutput: true,
}

// Append implements [store.Log].
func (s *Store) Append(ctx context.Context, l store.Lease, events []glovebox.Event, consume ...int64) (*glovebox.Job, error) {
	finished, err := checkEvents(events)
	if err != nil {
		return nil, err
	}
	var job *glovebox.Job
	err = s.w.do(ctx, func(t *txn) error {
		job = nil
		r, err := t.held(l)
		if err != nil {
			return err
		}
		if err := t.consume(r, consume); err != nil {
			return err
		}
		if len(events) > 0 {
			if err := t.append(r, events...); err != nil {
				return err
			}
		}
		if finished {
			if err := t.finish(r); err != nil {
				return err
			}
		}
		job = copyJob(r.job)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return job, nil
}

// checkEvents reports whether the last of events ends the job, or why they
// can't be appended.
func checkEvents(events []glovebox.Event) (finished bool, err error) {
	if len(events) > maxAppend {
		return false, glovebox.Errorf(glovebox.CodeTooLarge, "%d events at once; at most %d are possible", len(events), maxAppend)
	}
	total := 0
	for _, e := range events {
		switch {
		case finished:
			return false, glovebox.Errorf(glovebox.CodeInvalid, "event %s after %s", e.Type, glovebox.EventFinished)
		case e.Type == "" || refused[e.Type]:
			return false, glovebox.Errorf(glovebox.CodeInvalid, "event type %q is not a worker's to append", e.Type)
		case len(e.Data) > maxEventBytes:
			return false, tooLarge("event "+string(e.Type), len(e.Data), maxEventBytes)
		case !json.Valid(e.Data):
			return false, glovebox.Errorf(glovebox.CodeInvalid, "the data of event %s is not JSON", e.Type)
		}
		if total += len(e.Data); total > maxAppendBytes {
			return false, tooLarge("this append", total, maxAppendBytes)
		}
		if e.Type == glovebox.EventFinished {
			f, err := glovebox.Decode[glovebox.Finished](e)
			if err != nil {
				return false, err
			}
			if !f.Status.Terminal() || (f.Status == glovebox.StatusError) != (f.Failure != nil) {
				return false, glovebox.Errorf(glovebox.CodeInvalid, "a job can't finish as %q with failure %v", f.Status, f.Failure)
			}
			finished = true
		}
	}
	return finished, nil
}

// Events implements [store.Log].
func (s *Store) Events(ctx context.Context, jobID string, after int64, limit int) ([]glovebox.Event, error) {
	if limit < 1 || limit > maxEvents {
		return nil, glovebox.Invalid("limit", "give a number from 1 to 10000", "%d is out of range", limit)
	}
	if err := ctx.Err(); err != nil {
		return nil, s.failure("read events", err)
	}
	var num int64
	err := s.queryRow("SELECT num FROM jobs WHERE id = $1", []any{jobID}, &num)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, noJob(jobID)
	}
	if err != nil {
		return nil, s.failure("read events", err)
	}
	st, err := s.stmt("SELECT seq, time, type, data FROM events WHERE job = $1 AND seq > $2 ORDER BY seq LIMIT $3")
	if err != nil {
		return nil, s.failure("read events", err)
	}
	rows, err := st.QueryContext(context.WithoutCancel(ctx), num, after, limit)
	if err != nil {
		return nil, s.failure("read events", err)
	}
	defer rows.Close()
	var events []glovebox.Event
	for rows.Next() {
		var e glovebox.Event
		var nanos int64
		var typ, data string
		if err := rows.Scan(&e.Seq, &nanos, &typ, &data); err != nil {
			return nil, s.failure("read events", err)
		}
		if err := ctx.Err(); err != nil {
			return nil, s.failure("read events", err)
		}
		e.Time, e.Type, e.Data = time.Unix(0, nanos).UTC(), glovebox.EventType(typ), json.RawMessage(data)
		events = append(events, e)
	}
	return events, s.failure("read events", rows.Err())
}
