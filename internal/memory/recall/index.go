package recall

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/glovebox-dev/glovebox"
)

// Index is the search index of one job. Close it.
type Index struct {
	path  string
	o     Options
	write *sql.DB
	read  *sql.DB

	adding sync.Mutex // held by Add
	words  *analyzer  // of Add
	seq    atomic.Int64

	scorers sync.Pool // *analyzer, of searches
}

// Open opens the index of a job in the file at path and begins it anew where
// there is none, or one that is damaged, of another job or of another version,
// or what is no file at all. An error means that the file can't be written.
func Open(path, jobID string, o Options) (*Index, error) {
	x := &Index{path: path, o: o, words: newAnalyzer()}
	x.scorers.New = func() any { return newAnalyzer() }
	if err := prepareFile(path); err != nil {
		return nil, err
	}
	err := x.open(jobID)
	if err != nil && (damaged(err) || !unusable(x.failure("open", err))) {
		if err := removeFiles(path); err != nil {
			return nil, cannotUse(path, err)
		}
		if err := prepareFile(path); err != nil {
			return nil, err
		}
		err = x.open(jobID)
	}
	return x, x.failure("open", err)
}

// unusable reports whether a new file would be no better.
func unusable(err error) bool { return glovebox.CodeOf(err) == glovebox.CodeUnavailable }

func prepareFile(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return cannotUse(path, err)
	}
	if err := removeForeign(path); err != nil {
		e := cannotUse(path, err)
		e.Hint = "something that is no index is in its place: remove " + path + " and what begins with that name"
		return e
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return cannotUse(path, err)
	}
	return f.Close()
}

func cannotUse(path string, err error) *glovebox.Error {
	return &glovebox.Error{Code: glovebox.CodeUnavailable, Op: "recall: open", Msg: "can't use " + path, Err: err,
		Hint: "choose a data directory that this user may write to"}
}

// open opens or creates the file; on an error nothing stays open.
func (x *Index) open(jobID string) (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, x.closeDBs())
		}
	}()
	if x.write, err = openDB(x.path, "_txlock=immediate&_pragma=cache_size(-16000)"); err != nil {
		return err
	}
	x.write.SetMaxOpenConns(1)
	ctx := context.Background()
	var tables int
	if err := x.write.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_master").Scan(&tables); err != nil {
		return err
	}
	if tables == 0 {
		if err := create(ctx, x.write, jobID); err != nil {
			return err
		}
	}
	seq, err := check(ctx, x.write, x.path, jobID)
	if err != nil {
		return err
	}
	x.seq.Store(seq)
	if x.read, err = openDB(x.path, "_pragma=query_only(1)&_pragma=cache_size(-8000)&_pragma=mmap_size(1073741824)"); err != nil {
		return err
	}
	x.read.SetMaxOpenConns(readers)
	x.read.SetMaxIdleConns(readers)
	return nil
}

// Seq returns the number of the newest event that is in the index; 0 if none is.
func (x *Index) Seq() int64 { return x.seq.Load() }

// Close closes the file. What runs fails.
func (x *Index) Close() error { return x.failure("close", x.closeDBs()) }

func (x *Index) closeDBs() error {
	var errs []error
	for _, db := range []*sql.DB{x.read, x.write} { // the last connection folds the WAL into the file
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	return errors.Join(errs...)
}

// Add reads events into the index: those that follow Seq, in order. Events up
// to Seq are passed over. It is done as a whole or, on an error, not at all.
// An event that can't be decoded is passed over as one that says nothing.
func (x *Index) Add(ctx context.Context, events []glovebox.Event) error {
	for i := 1; i < len(events); i++ {
		if events[i].Seq != events[i-1].Seq+1 {
			return glovebox.Errorf(glovebox.CodeInternal, "recall: event %d does not follow event %d", events[i].Seq, events[i-1].Seq)
		}
	}
	if len(events) == 0 || events[len(events)-1].Seq <= x.Seq() {
		return nil
	}
	x.adding.Lock()
	defer x.adding.Unlock()
	seq, err := x.add(ctx, events)
	if err != nil {
		return x.failure("add", err)
	}
	x.seq.Store(seq)
	return nil
}

// add returns the number of the newest event that is then in the index. What
// is there already is read anew: someone else may have added to the file.
func (x *Index) add(ctx context.Context, events []glovebox.Event) (int64, error) {
	tx, err := x.write.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer tx.Rollback()
	var seq, step int64
	err = tx.QueryRowContext(ctx, `SELECT max(CASE key WHEN 'seq' THEN CAST(value AS INTEGER) END), max(CASE key WHEN 'step' THEN CAST(value AS INTEGER) END)
		FROM meta WHERE key IN ('seq', 'step')`).Scan(&seq, &step)
	if err != nil {
		return 0, err
	}
	events = events[min(len(events), int(max(0, seq+1-events[0].Seq))):]
	if len(events) == 0 {
		return seq, nil
	}
	if events[0].Seq != seq+1 {
		return 0, glovebox.Errorf(glovebox.CodeInternal, "recall: event %d does not follow event %d, the newest in the index", events[0].Seq, seq)
	}
	a, err := newAdder(ctx, tx, x, step)
	if err != nil {
		return 0, err
	}
	defer a.close()
	for _, e := range events {
		if err := a.event(ctx, e); err != nil {
			return 0, err
		}
	}
	seq = events[len(events)-1].Seq
	_, err = tx.ExecContext(ctx, `UPDATE meta SET value = CASE key WHEN 'seq' THEN ?1 WHEN 'step' THEN ?2 ELSE value + ?3 END
		WHERE key IN ('seq', 'step', 'passages')`, seq, a.step, a.passages)
	if err != nil {
		return 0, err
	}
	return seq, tx.Commit()
}
