package sqlite

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/store"
)

// Bounds of what comes with a job.
const (
	maxTask        = 1 << 20 // bytes
	maxTenant      = 64      // bytes
	maxKey         = 255     // bytes of an idempotency key
	maxQuery       = 1000    // bytes
	maxQueryWords  = 20
	maxList        = 1000
	maxCursorBytes = 20
)

// CreateJob implements [store.Jobs].
func (s *Store) CreateJob(ctx context.Context, c glovebox.Created, key store.IdempotencyKey) (job *glovebox.Job, created bool, err error) {
	if err := checkCreated(c, key); err != nil {
		return nil, false, err
	}
	event := glovebox.NewEvent(s.now(), glovebox.EventCreated, c)
	if len(event.Data) > maxEventBytes {
		return nil, false, tooLarge("the job", len(event.Data), maxEventBytes)
	}
	folded := strings.ToLower(c.Task)
	err = s.w.do(ctx, func(t *txn) error {
		job, created = nil, false
		if key.Key != "" {
			old, err := t.replayed(c.Tenant, key)
			if err != nil || old != nil {
				job = old
				return err
			}
		}
		r := &row{job: &glovebox.Job{}}
		if err := t.insert(r, c, event, folded); err != nil {
			return err
		}
		if key.Key != "" {
			if _, err := t.exec("INSERT INTO idempotency (tenant, key, digest, job) VALUES ($1, $2, $3, $4)",
				c.Tenant, key.Key, hex.EncodeToString(key.Digest[:]), r.num); err != nil {
				return err
			}
		}
		job, created = copyJob(r.job), true
		return nil
	})
	if err != nil {
		return nil, false, err
	}
	return job, created, nil
}

func checkCreated(c glovebox.Created, key store.IdempotencyKey) error {
	switch {
	case !glovebox.ValidID(c.ID):
		return glovebox.Invalid("id", "use glovebox.NewID", "%.64q is not an id", c.ID)
	case c.Tenant == "" || len(c.Tenant) > maxTenant:
		return glovebox.Invalid("tenant", "use 1 to 64 bytes", "%.80q is not a tenant", c.Tenant)
	case strings.TrimSpace(c.Task) == "":
		return glovebox.Invalid("task", "say what to build", "the task is empty")
	case len(c.Task) > maxTask:
		return tooLarge("the task", len(c.Task), maxTask)
	case !utf8.ValidString(c.Task):
		return glovebox.Invalid("task", "send it as UTF-8", "the task is not valid UTF-8")
	case len(key.Key) > maxKey:
		return tooLarge("the idempotency key", len(key.Key), maxKey)
	}
	return nil
}

func tooLarge(what string, n, limit int) error {
	return glovebox.Errorf(glovebox.CodeTooLarge, "%s has %d bytes; at most %d are possible", what, n, limit)
}

// replayed returns the job that a key was used for before, nil if none.
func (t *txn) replayed(tenant string, key store.IdempotencyKey) (*glovebox.Job, error) {
	var id, digest string
	err := t.queryRow("SELECT j.id, i.digest FROM idempotency i JOIN jobs j ON j.num = i.job WHERE i.tenant = $1 AND i.key = $2",
		[]any{tenant, key.Key}, &id, &digest)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if digest != hex.EncodeToString(key.Digest[:]) {
		return nil, &glovebox.Error{Code: glovebox.CodeConflict, Field: "Idempotency-Key",
			Msg:  "this key was used for another request, which made job " + id,
			Hint: "send a new key with a new request"}
	}
	r, err := t.load(id)
	if err != nil {
		return nil, err
	}
	return r.job, nil
}

// insert stores a new job with its first event.
func (t *txn) insert(r *row, c glovebox.Created, event glovebox.Event, folded string) error {
	event.Seq = 1
	if err := r.job.Apply(event); err != nil {
		return err
	}
	state, err := encodeState(r.job)
	if err != nil {
		return err
	}
	err = t.queryRow("INSERT INTO jobs (id, tenant, status, seq, state) VALUES ($1, $2, $3, $4, $5) ON CONFLICT (id) DO NOTHING RETURNING num",
		[]any{c.ID, c.Tenant, string(r.job.Status), r.job.Seq, string(state)}, &r.num)
	if errors.Is(err, sql.ErrNoRows) {
		return glovebox.Errorf(glovebox.CodeConflict, "there is a job %s already", c.ID)
	}
	if err != nil {
		return err
	}
	t.writes++
	if _, err := t.exec("INSERT INTO tasks (job, task, folded) VALUES ($1, $2, $3)", r.num, c.Task, folded); err != nil {
		return err
	}
	if _, err := t.exec("INSERT INTO events (job, seq, time, type, data) VALUES ($1, 1, $2, $3, $4)",
		r.num, event.Time.UnixNano(), string(event.Type), string(event.Data)); err != nil {
		return err
	}
	t.stage(r, len(state))
	t.wake = true
	return nil
}

// Job implements [store.Jobs].
func (s *Store) Job(ctx context.Context, tenant, id string) (*glovebox.Job, error) {
	if err := ctx.Err(); err != nil {
		return nil, s.failure("read job", err)
	}
	var num, seq int64
	var owner string
	err := s.queryRow("SELECT num, seq, tenant FROM jobs WHERE id = $1", []any{id}, &num, &seq, &owner)
	if errors.Is(err, sql.ErrNoRows) || err == nil && tenant != "" && owner != tenant {
		return nil, noJob(id)
	}
	if err != nil {
		return nil, s.failure("read job", err)
	}
	if j, ok := s.cache.get(id, num, seq); ok {
		return copyJob(j), nil
	}
	var state, task string
	err = s.queryRow(selectState, []any{id}, &num, &seq, &state, &task)
	if errors.Is(err, sql.ErrNoRows) { // deleted meanwhile
		return nil, noJob(id)
	}
	if err != nil {
		return nil, s.failure("read job", err)
	}
	j, err := decodeState(state, task)
	if err != nil {
		return nil, err
	}
	s.cache.put(id, num, j, int64(len(state)+len(task)))
	return copyJob(j), nil
}

// queryRow runs a short query on the readers. It can't be cancelled: making
// it so would cost more than the query.
func (s *Store) queryRow(query string, args []any, dst ...any) error {
	st, err := s.stmt(query)
	if err != nil {
		return err
	}
	return st.QueryRowContext(context.Background(), args...).Scan(dst...)
}

// stmt returns a prepared statement of the readers. query must be one of a
// bounded number of texts.
func (s *Store) stmt(query string) (*sql.Stmt, error) {
	if st, ok := s.stmts.Load(query); ok {
		return st.(*sql.Stmt), nil
	}
	st, err := s.read.PrepareContext(context.Background(), query)
	if err != nil {
		return nil, err
	}
	if old, loaded := s.stmts.LoadOrStore(query, st); loaded {
		st.Close()
		return old.(*sql.Stmt), nil
	}
	return st, nil
}

// ListJobs implements [store.Jobs]. The cursor is the number of the last job
// of the page before, so jobs that are added or removed meanwhile do not
// shift a page.
func (s *Store) ListJobs(ctx context.Context, f store.JobFilter) (store.JobPage, error) {
	query, args, err := listQuery(f)
	if err != nil {
		return store.JobPage{}, err
	}
	rows, err := s.read.QueryContext(ctx, query, args...)
	if err != nil {
		return store.JobPage{}, s.failure("list jobs", err)
	}
	defer rows.Close()
	var page store.JobPage
	var last int64
	for rows.Next() {
		if len(page.Jobs) == f.Limit { // the one row more that was asked for
			page.Cursor = strconv.FormatInt(last, 36)
			break
		}
		var state, task string
		if err := rows.Scan(&last, &state, &task); err != nil {
			return store.JobPage{}, s.failure("list jobs", err)
		}
		j, err := decodeState(state, task)
		if err != nil {
			return store.JobPage{}, err
		}
		page.Jobs = append(page.Jobs, j)
	}
	return page, s.failure("list jobs", rows.Err())
}

var likeEscaper = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)

func listQuery(f store.JobFilter) (string, []any, error) {
	if f.Limit < 1 || f.Limit > maxList {
		return "", nil, glovebox.Invalid("limit", "give a number from 1 to 1000", "%d is out of range", f.Limit)
	}
	if len(f.Query) > maxQuery {
		return "", nil, tooLarge("the query", len(f.Query), maxQuery)
	}
	words := strings.Fields(strings.ToLower(f.Query))
	if len(words) > maxQueryWords {
		return "", nil, glovebox.Invalid("query", "use at most 20", "%d words are too many", len(words))
	}
	var where []string
	var args []any
	arg := func(v any) string {
		args = append(args, v)
		return "$" + strconv.Itoa(len(args))
	}
	if f.Tenant != "" {
		where = append(where, "j.tenant = "+arg(f.Tenant))
	}
	if len(f.Status) > 0 {
		if len(f.Status) > maxQueryWords {
			return "", nil, glovebox.Invalid("status", "name each status once", "%d are too many", len(f.Status))
		}
		var in []string
		for _, st := range f.Status {
			in = append(in, arg(string(st)))
		}
		where = append(where, "j.status IN ("+strings.Join(in, ", ")+")")
	}
	if f.Cursor != "" {
		num, err := strconv.ParseInt(f.Cursor, 36, 64)
		if err != nil || len(f.Cursor) > maxCursorBytes {
			return "", nil, glovebox.Invalid("cursor", "use the cursor of the page before", "%.40q is not a cursor", f.Cursor)
		}
		where = append(where, "j.num < "+arg(num))
	}
	for _, w := range words {
		where = append(where, "t.folded LIKE "+arg("%"+likeEscaper.Replace(w)+"%")+` ESCAPE '\'`)
	}
	query := "SELECT j.num, j.state, t.task FROM jobs j JOIN tasks t ON t.job = j.num"
	if len(where) > 0 {
		query += " WHERE " + strings.Join(where, " AND ")
	}
	return query + " ORDER BY j.num DESC LIMIT " + arg(f.Limit+1), args, nil
}

// CountJobs implements [store.Counter].
func (s *Store) CountJobs(ctx context.Context) (map[glovebox.Status]int64, error) {
	rows, err := s.read.QueryContext(ctx, "SELECT status, count(*) FROM jobs GROUP BY status")
	if err != nil {
		return nil, s.failure("count jobs", err)
	}
	defer rows.Close()
	counts := map[glovebox.Status]int64{}
	for rows.Next() {
		var status string
		var n int64
		if err := rows.Scan(&status, &n); err != nil {
			return nil, s.failure("count jobs", err)
		}
		counts[glovebox.Status(status)] = n
	}
	return counts, s.failure("count jobs", rows.Err())
}

// DeleteJob implements [store.Jobs].
func (s *Store) DeleteJob(ctx context.Context, tenant, id string) error {
	return s.w.do(ctx, func(t *txn) error {
		r, err := t.load(id)
		if err != nil {
			return err
		}
		if tenant != "" && r.job.Tenant != tenant {
			return noJob(id)
		}
		if !r.job.Status.Terminal() {
			return &glovebox.Error{Code: glovebox.CodeConflict, Msg: r.job.String() + " has not ended", Hint: "cancel it first"}
		}
		for _, q := range []string{
			"DELETE FROM events WHERE job = $1",
			"DELETE FROM signals WHERE job = $1",
			"DELETE FROM idempotency WHERE job = $1",
			"DELETE FROM tasks WHERE job = $1",
			"DELETE FROM jobs WHERE num = $1",
		} {
			if _, err := t.exec(q, r.num); err != nil {
				return err
			}
		}
		delete(t.staged, id)
		t.deleted = append(t.deleted, id)
		return nil
	})
}
