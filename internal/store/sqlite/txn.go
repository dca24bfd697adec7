package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox"
)

// Bounds of what is appended. A model's answer and a tool's result are far
// below them; they keep one job from filling memory and disk by mistake.
const (
	maxEventBytes  = 8 << 20
	maxAppend      = 1000
	maxAppendBytes = 32 << 20
)

// txn is a transaction of the writer, in which many operations run.
type txn struct {
	w       *writer
	now     time.Time
	writes  int             // statements that changed something
	staged  map[string]*row // states that become visible with the commit, by job id
	deleted []string
	moved   bool // a pending job is not any more, or one is again
	wake    bool // something became claimable or a signal was sent
}

// row is a job with what the store knows of it beside its state.
type row struct {
	num        int64
	job        *glovebox.Job
	fence      int64
	worker     string
	leaseUntil int64 // Unix milliseconds; 0 if nobody holds it
	size       int64 // of the state as JSON, with the task
	pending    bool  // when it was loaded
}

func (t *txn) exec(query string, args ...any) (sql.Result, error) {
	st, err := t.w.stmt(query)
	if err != nil {
		return nil, err
	}
	t.writes++
	return st.ExecContext(context.Background(), args...)
}

func (t *txn) queryRow(query string, args []any, dst ...any) error {
	st, err := t.w.stmt(query)
	if err != nil {
		return err
	}
	return st.QueryRowContext(context.Background(), args...).Scan(dst...)
}

// load returns a job for changing: the row is the caller's own.
func (t *txn) load(id string) (*row, error) {
	r := &row{}
	var status string
	var seq int64
	err := t.queryRow("SELECT num, status, seq, fence, worker, lease_until FROM jobs WHERE id = $1", []any{id},
		&r.num, &status, &seq, &r.fence, &r.worker, &r.leaseUntil)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, noJob(id)
	}
	if err != nil {
		return nil, err
	}
	r.pending = glovebox.Status(status) == glovebox.StatusPending
	if st, ok := t.staged[id]; ok && st.num == r.num && st.job.Seq == seq {
		r.job, r.size = copyJob(st.job), st.size
		return r, nil
	}
	if j, ok := t.w.s.cache.get(id, r.num, seq); ok {
		r.job = copyJob(j)
		return r, nil
	}
	var state, task string
	if err := t.queryRow(selectState, []any{id}, new(int64), new(int64), &state, &task); err != nil {
		return nil, err
	}
	r.job, err = decodeState(state, task)
	return r, err
}

// append numbers events, applies them to r and stores both.
func (t *txn) append(r *row, events ...glovebox.Event) error {
	for _, e := range events {
		e.Seq = r.job.Seq + 1
		if e.Time.IsZero() {
			e.Time = t.now
		}
		nanos := e.Time.UnixNano()
		e.Time = time.Unix(0, nanos).UTC() // as it will be read back
		if !utf8.Valid(e.Data) {
			e.Data = bytes.ToValidUTF8(e.Data, []byte("\uFFFD"))
		}
		if err := r.job.Apply(e); err != nil {
			return err
		}
		if _, err := t.exec("INSERT INTO events (job, seq, time, type, data) VALUES ($1, $2, $3, $4, $5)",
			r.num, e.Seq, nanos, string(e.Type), string(e.Data)); err != nil {
			return err
		}
	}
	return t.save(r)
}

// save stores the state of r and stages it for the cache and the watchers.
func (t *txn) save(r *row) error {
	state, err := encodeState(r.job)
	if err != nil {
		return err
	}
	if r.job.Status != glovebox.StatusRunning {
		r.worker, r.leaseUntil = "", 0
	}
	pending := r.job.Status == glovebox.StatusPending
	t.wake = t.wake || pending
	t.moved = t.moved || pending != r.pending
	_, err = t.exec("UPDATE jobs SET status = $2, seq = $3, fence = $4, worker = $5, lease_until = $6, state = $7 WHERE num = $1",
		r.num, string(r.job.Status), r.job.Seq, r.fence, r.worker, r.leaseUntil, string(state))
	t.stage(r, len(state))
	return err
}

func (t *txn) stage(r *row, stateLen int) {
	r.size = int64(stateLen + len(r.job.Task))
	t.staged[r.job.ID] = &row{num: r.num, job: copyJob(r.job), size: r.size}
}

// publish makes what was committed visible to this process's readers.
func (t *txn) publish() {
	s := t.w.s
	for id, r := range t.staged {
		s.cache.put(id, r.num, r.job, r.size)
		s.hub.appended(id, r.job.Seq)
	}
	for _, id := range t.deleted {
		s.cache.drop(id)
		s.hub.appended(id, 0)
	}
	if t.moved {
		s.line.version.Add(1)
	}
	if t.wake {
		s.hub.wake()
	}
}

// selectState gives num, seq, state and task of a job, by id.
const selectState = "SELECT j.num, j.seq, j.state, t.task FROM jobs j JOIN tasks t ON t.job = j.num WHERE j.id = $1"

func encodeState(j *glovebox.Job) ([]byte, error) {
	c := *j
	c.Task = ""
	b, err := json.Marshal(&c)
	if err != nil {
		return nil, glovebox.Errorf(glovebox.CodeInternal, "encode the state of job %s: %w", j.ID, err)
	}
	return b, nil
}

func decodeState(state, task string) (*glovebox.Job, error) {
	j := &glovebox.Job{}
	if err := json.Unmarshal([]byte(state), j); err != nil {
		return nil, glovebox.Errorf(glovebox.CodeInternal, "decode the state of a job: %w", err)
	}
	j.Task = task
	return j, nil
}

// copyJob copies the top level. That is enough: Apply replaces what a job
// points to and never changes it.
func copyJob(j *glovebox.Job) *glovebox.Job {
	c := *j
	return &c
}

func noJob(id string) error {
	if len(id) > 64 {
		id = id[:64] + "..."
	}
	return &glovebox.Error{Code: glovebox.CodeNotFound, Msg: "there is no job " + id}
}
