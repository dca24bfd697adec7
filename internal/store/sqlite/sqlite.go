// Package sqlite keeps jobs, events, leases, signals and tokens in one SQLite
// file: the store of a single machine, with no server to run.
//
// # How it is fast and durable at once
//
// One goroutine writes. It takes all operations that wait, runs them in one
// transaction and commits with synchronous=FULL; only then do the callers
// return. So the price of the disk's flush is shared by all who write at the
// same moment. An operation that is refused (a conflict, a lost lease) has
// written nothing and does not disturb the others; if one fails in the middle,
// the transaction is rolled back and each operation runs again alone.
//
// Reads go through a pool of connections and never wait for writes. Decoded
// states of jobs are cached; a cached state is returned only after the row's
// sequence number was compared, so another process's writes are seen at once.
//
// The values that Job and ListJobs return are the caller's, but what they point to
// (maps, slices) may be shared and must not be changed.
//
// # Several processes
//
// Any number of processes may open the same file. Leases keep their workers
// apart. Another process's commits reach Watch and Wake within [PollInterval].
package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/pressly/goose/v3"
	_ "modernc.org/sqlite" // the database/sql driver

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/store"
)

var (
	_ store.Store   = (*Store)(nil)
	_ store.Counter = (*Store)(nil)
	_ store.Checker = (*Store)(nil)
)

//go:embed migrations/*.sql
var migrations embed.FS

// PollInterval is how often a store with watchers looks for commits of other
// processes. A look costs about 10 microseconds.
const PollInterval = 100 * time.Millisecond

// readers is how many queries may run at once. More than the processors of a
// small machine, since a few of them may be waiting for the disk.
const readers = 8

// Options configures a Store.
type Options struct {
	// Now is the clock: for leases and the times of events that the store
	// makes. nil means time.Now.
	Now func() time.Time

	// CacheBytes is how much memory the cached states of jobs may take, as
	// measured by their JSON. 0 means 32 MiB.
	CacheBytes int64
}

// Store is a [store.Store] in a SQLite file.
type Store struct {
	path  string
	file  *os.File // path, as it was when it was opened; see Close
	now   func() time.Time
	write *sql.DB // one connection, the writer's
	read  *sql.DB
	stmts sync.Map // query -> *sql.Stmt of read
	cache *cache
	hub   *hub
	line  line
	w     *writer
}

// Open opens the database file at path, making it, its directory and its
// tables if they are not there. The directory is made with mode 0700, the
// file with 0600. A file that is not a database, is damaged, or was made by a
// newer version is an error that says so.
func Open(path string, o Options) (_ *Store, err error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.CacheBytes == 0 {
		o.CacheBytes = 32 << 20
	}
	file, err := prepareFile(path)
	if err != nil {
		return nil, err
	}
	s := &Store{path: path, file: file, now: o.Now, cache: newCache(o.CacheBytes), hub: newHub()}
	defer func() {
		if err != nil {
			_ = s.closeDBs()
		}
	}()
	if s.write, err = openDB(path, "_txlock=immediate&_pragma=synchronous(FULL)&_pragma=cache_size(-8000)"); err != nil {
		return nil, s.failure("open", err)
	}
	s.write.SetMaxOpenConns(1)
	if err := s.migrate(); err != nil {
		return nil, err
	}
	if s.read, err = openDB(path, "_pragma=query_only(1)&_pragma=cache_size(-2000)"); err != nil {
		return nil, s.failure("open", err)
	}
	s.read.SetMaxOpenConns(readers)
	s.read.SetMaxIdleConns(readers)
	conn, err := s.write.Conn(context.Background())
	if err != nil {
		return nil, s.failure("open", err)
	}
	s.w = startWriter(s, conn)
	return s, nil
}

// Close waits for the writes that have begun and closes the file. Calls that
// come later fail with CodeUnavailable.
func (s *Store) Close() error {
	s.w.stop()
	return s.closeDBs()
}

func (s *Store) closeDBs() error {
	var errs []error
	s.stmts.Range(func(_, v any) bool {
		errs = append(errs, v.(*sql.Stmt).Close())
		return true
	})
	if s.read != nil {
		errs = append(errs, s.read.Close())
	}
	if s.write != nil { // last: the last connection folds the WAL into the file
		errs = append(errs, s.write.Close())
	}
	// Not before: whichever descriptor of a file a process closes, it loses all
	// its locks on it, and with SQLite's another process could take itself for
	// the last and remove the write-ahead log that is in use here.
	if err := s.file.Close(); !errors.Is(err, os.ErrClosed) {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// openDB opens a pool. busy_timeout bounds how long a write waits for other
// processes' writes.
func openDB(path, extra string) (*sql.DB, error) {
	u := url.URL{Scheme: "file", Path: path, RawQuery: "_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)" +
		"&_pragma=journal_size_limit(67108864)&_pragma=temp_store(MEMORY)&" + extra}
	if !filepath.IsAbs(path) { // "file:a/b" is relative, "file://a/b" would name a host
		u.Path, u.Opaque = "", path
	}
	return sql.Open("sqlite", u.String())
}

// prepareFile makes the directory and an empty file with narrow modes, before
// SQLite would make it with wide ones, and opens it. The -wal and -shm files
// get the mode of the file.
func prepareFile(path string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, dirError(path, err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, dirError(path, err)
	}
	// The names, too, have to survive a loss of power.
	for _, dir := range []string{filepath.Dir(path), filepath.Dir(filepath.Dir(path))} {
		d, err := os.Open(dir)
		if err != nil {
			continue // it was there before us, and is not ours to read
		}
		err = d.Sync()
		d.Close()
		if err != nil {
			f.Close()
			return nil, dirError(path, err)
		}
	}
	return f, nil
}

func dirError(path string, err error) error {
	return &glovebox.Error{Code: glovebox.CodeUnavailable, Op: "open store", Msg: "can't use " + path, Err: err,
		Hint: "choose a data directory that this user may write to"}
}

// migrate brings the tables up to date, one process at a time.
func (s *Store) migrate() error {
	lock, err := os.OpenFile(s.path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return dirError(s.path, err)
	}
	defer lock.Close() // and unlock
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return dirError(s.path, err)
	}
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, s.write, files)
	if err != nil {
		return s.failure("migrate", err)
	}
	ctx := context.Background()
	have, want, err := p.GetVersions(ctx)
	if err != nil {
		return s.diagnose("migrate", err)
	}
	if have > want {
		return &glovebox.Error{Code: glovebox.CodeUnavailable, Op: "open store",
			Msg:  s.path + " was written by a newer version of glovebox",
			Hint: "use that version, or another data directory"}
	}
	if have == want {
		return nil
	}
	if _, err := p.Up(ctx); err != nil {
		return s.diagnose("migrate", err)
	}
	return nil
}

// diagnose is failure for errors that may have a damaged file behind them
// without saying so.
func (s *Store) diagnose(op string, err error) error {
	var verdict string
	if e := s.write.QueryRowContext(context.Background(), "PRAGMA quick_check(1)").Scan(&verdict); e == nil && verdict != "ok" {
		return s.damaged(op, errors.Join(err, errors.New(verdict)))
	}
	return s.failure(op, err)
}
