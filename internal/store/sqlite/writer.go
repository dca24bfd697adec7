package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/glovebox-dev/glovebox"
)

// maxBatch is how many operations share a transaction at most. Enough that
// the disk's flush is no longer what costs, few enough that a batch takes
// milliseconds.
const maxBatch = 256

// expiryTicks is after how many polls the leases are looked at: one second.
const expiryTicks = int(time.Second / PollInterval)

// op is an operation that waits for the writer.
type op struct {
	run   func(*txn) error // may run more than once: it sets its results anew
	done  chan error
	taken atomic.Bool // by the writer, or by the caller who gives up
}

// writer is the goroutine that owns the one connection that writes.
type writer struct {
	s       *Store
	conn    *sql.Conn
	stmts   map[string]*sql.Stmt
	ops     chan *op
	quit    chan struct{}
	ended   chan struct{}
	once    sync.Once
	version int64 // PRAGMA data_version when last looked at
}

func startWriter(s *Store, conn *sql.Conn) *writer {
	w := &writer{s: s, conn: conn, stmts: map[string]*sql.Stmt{}, ops: make(chan *op, maxBatch),
		quit: make(chan struct{}), ended: make(chan struct{})}
	go w.loop()
	return w
}

func (w *writer) stop() {
	w.once.Do(func() { close(w.quit) })
	<-w.ended
}

// do has the writer run an operation and returns when it is durable or
// refused. If ctx ends before the operation has begun, it never will; if it
// ends later, do waits for the outcome, so that an error means no change.
func (w *writer) do(ctx context.Context, run func(*txn) error) error {
	if err := ctx.Err(); err != nil {
		return w.s.failure("write", err)
	}
	o := &op{run: run, done: make(chan error, 1)}
	select {
	case w.ops <- o:
	case <-ctx.Done():
		return w.s.failure("write", ctx.Err())
	case <-w.quit:
		return errClosed
	}
	select {
	case err := <-o.done:
		return err
	case <-ctx.Done():
		if o.taken.CompareAndSwap(false, true) {
			return w.s.failure("write", ctx.Err())
		}
	case <-w.ended:
		if o.taken.CompareAndSwap(false, true) {
			return errClosed
		}
	}
	return <-o.done
}

func (w *writer) loop() {
	defer close(w.ended)
	defer w.close()
	tick := time.NewTicker(PollInterval)
	defer tick.Stop()
	for n := 1; ; {
		select {
		case o := <-w.ops:
			w.commitAll(w.collect(o))
		case <-tick.C:
			w.poll(n%expiryTicks == 0)
			n++
		case <-w.quit:
			return
		}
	}
}

// close gives the connection back. A statement left open would keep SQLite
// from folding the write-ahead log into the file.
func (w *writer) close() {
	for _, st := range w.stmts {
		st.Close()
	}
	w.conn.Close()
}

// collect returns first and what waits behind it, without those given up.
func (w *writer) collect(first *op) []*op {
	batch := make([]*op, 0, 16)
	for o := first; ; {
		if o.taken.CompareAndSwap(false, true) {
			batch = append(batch, o)
		}
		if len(batch) == maxBatch {
			return batch
		}
		select {
		case o = <-w.ops:
		default:
			return batch
		}
	}
}

// commitAll runs a batch in one transaction, or, if that fails, each
// operation in its own.
func (w *writer) commitAll(batch []*op) {
	if len(batch) == 0 {
		return
	}
	errs := make([]error, len(batch))
	err := w.commit(batch, errs)
	if errors.Is(err, errSpoiled) {
		for i := range batch {
			errs[i] = nil
			if err := w.commit(batch[i:i+1], errs[i:i+1]); err != nil {
				errs[i] = err
			}
		}
		err = nil
	}
	for i, o := range batch {
		if err != nil {
			errs[i] = err
		}
		o.done <- errs[i]
	}
}

// errSpoiled means that an operation failed after it had written.
var errSpoiled = errors.New("transaction spoiled")

// commit runs operations in one transaction. errs gets what each returned. If
// commit itself returns an error, nothing changed.
func (w *writer) commit(batch []*op, errs []error) error {
	ctx := context.Background()
	if _, err := w.conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return w.s.failure("begin", err)
	}
	t := &txn{w: w, now: w.s.now().UTC(), staged: map[string]*row{}}
	for i, o := range batch {
		before := t.writes
		errs[i] = o.run(t)
		if errs[i] == nil {
			continue
		}
		_, ours := errors.AsType[*glovebox.Error](errs[i])
		if !ours {
			errs[i] = w.s.failure("write", errs[i])
		}
		if t.writes != before || !ours {
			w.rollback()
			if len(batch) == 1 {
				return errs[i]
			}
			return errSpoiled
		}
	}
	if _, err := w.conn.ExecContext(ctx, "COMMIT"); err != nil {
		w.rollback()
		if len(batch) > 1 {
			return errSpoiled // a smaller transaction may still fit
		}
		return w.s.failure("commit", err)
	}
	t.publish()
	return nil
}

// rollback ends the transaction. An error means that SQLite has done so.
func (w *writer) rollback() {
	_, _ = w.conn.ExecContext(context.Background(), "ROLLBACK")
}

// stmt returns a prepared statement of the writer's connection.
func (w *writer) stmt(query string) (*sql.Stmt, error) {
	if st, ok := w.stmts[query]; ok {
		return st, nil
	}
	st, err := w.conn.PrepareContext(context.Background(), query)
	if err != nil {
		return nil, err
	}
	w.stmts[query] = st
	return st, nil
}

// poll looks for commits of other processes and, if expiry, for leases that
// ran out, and wakes those who wait for them. It does nothing if nobody does.
// Its errors are not reported: who is woken or polls will meet them.
func (w *writer) poll(expiry bool) {
	if !w.s.hub.active() {
		return
	}
	var version int64
	if w.queryInt(&version, "PRAGMA data_version") != nil {
		return
	}
	if version != w.version { // does not change with this connection's own commits
		w.version = version
		for id, seq := range w.s.hub.watched() {
			var now int64
			if err := w.queryInt(&now, "SELECT seq FROM jobs WHERE id = $1", id); err != nil || now != seq {
				w.s.hub.appended(id, now)
			}
		}
		w.s.hub.wake()
		return
	}
	var expired int64
	if expiry && w.queryInt(&expired, "SELECT 1 FROM jobs WHERE status = 'running' AND lease_until <= $1 LIMIT 1", w.s.now().UnixMilli()) == nil {
		w.s.hub.wake()
	}
}

func (w *writer) queryInt(dst *int64, query string, args ...any) error {
	st, err := w.stmt(query)
	if err != nil {
		return err
	}
	return st.QueryRowContext(context.Background(), args...).Scan(dst)
}
