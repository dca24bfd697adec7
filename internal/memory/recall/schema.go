package recall

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/glovebox-dev/glovebox"
)

// version is that of the tables and of how terms are made; an index of another
// is begun anew.
const version = "1"

// passageBits are the low bits of a passage's number; the rest is its event's.
// 2^12 passages of half a kilobyte hold twice MaxWhole.
const passageBits = 12

// schema is the whole file. words has no text of its own, no positions and no
// lengths: what is found is compared by its text, so that the index stays
// small and quick to write.
const schema = `
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE event (
	seq   INTEGER PRIMARY KEY,
	step  INTEGER NOT NULL,
	time  INTEGER NOT NULL, -- milliseconds since 1970
	type  TEXT NOT NULL,
	tool  TEXT NOT NULL,
	file  TEXT NOT NULL
);
CREATE TABLE passage (id INTEGER PRIMARY KEY, text TEXT NOT NULL);
CREATE TABLE call (id TEXT PRIMARY KEY, tool TEXT NOT NULL, files TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE vector (id INTEGER PRIMARY KEY, v BLOB NOT NULL);
CREATE VIRTUAL TABLE words USING fts5(terms, content='', columnsize=0, detail=none,
	tokenize="ascii tokenchars '-_./:@#+=?'");
INSERT INTO words(words, rank) VALUES('automerge', 8);
INSERT INTO words(words, rank) VALUES('hashsize', 8388608);
`

// readers bounds how many searches read at once.
const readers = 4

func openDB(path, extra string) (*sql.DB, error) {
	u := url.URL{Scheme: "file", Path: path, RawQuery: "_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)" +
		"&_pragma=journal_size_limit(16777216)&_pragma=temp_store(MEMORY)&_pragma=trusted_schema(0)&" + extra}
	if !filepath.IsAbs(path) { // "file:a/b" is relative, "file://a/b" would name a host
		u.Path, u.Opaque = "", path
	}
	return sql.Open("sqlite", u.String())
}

// quickCheck is up to how many bytes a file is checked whole when it is opened.
// A larger one is noticed to be damaged when what is damaged is read.
const quickCheck = 16 << 20

// errForeign is a file that is not this job's index of this version.
var errForeign = errors.New("another job's, or of another version")

// check returns the number of the newest event in an index that is sound.
func check(ctx context.Context, db *sql.DB, path, jobID string) (int64, error) {
	get := func(key string) (v string, err error) {
		err = db.QueryRowContext(ctx, "SELECT value FROM meta WHERE key = ?", key).Scan(&v)
		return v, err
	}
	for key, want := range map[string]string{"version": version, "job": jobID} {
		if got, err := get(key); err != nil {
			return 0, err
		} else if got != want {
			return 0, errForeign
		}
	}
	s, err := get("seq")
	if err != nil {
		return 0, err
	}
	seq, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, err
	}
	var newest int64
	if err := db.QueryRowContext(ctx, "SELECT coalesce(max(seq), 0) FROM event").Scan(&newest); err != nil {
		return 0, err
	}
	if newest > seq {
		return 0, errForeign
	}
	if _, err := db.ExecContext(ctx, "SELECT rowid FROM words('nothing') LIMIT 1"); err != nil {
		return 0, err
	}
	if info, err := os.Stat(path); err != nil || info.Size() > quickCheck {
		return seq, err
	}
	var ok string
	if err := db.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&ok); err != nil {
		return 0, err
	} else if ok != "ok" {
		return 0, errors.New(ok)
	}
	return seq, nil
}

func create(ctx context.Context, db *sql.DB, jobID string) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, schema); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO meta(key, value) VALUES('version', ?), ('job', ?), ('seq', '0'), ('step', '0'), ('passages', '0')", version, jobID); err != nil {
		return err
	}
	return tx.Commit()
}

// removeFiles removes an index and what SQLite keeps beside it.
func removeFiles(path string) error {
	return makeWay(path, func(fs.FileInfo) bool { return true })
}

// removeForeign makes way for an index: what is in its place and is no file is
// none, so that nothing is lost with it.
func removeForeign(path string) error {
	return makeWay(path, func(i fs.FileInfo) bool { return !i.Mode().IsRegular() })
}

// makeWay removes what is at path and where SQLite keeps files beside it, of
// what is to go. No link is followed. A directory that is not empty was put
// there by somebody: it is moved aside, and stays.
func makeWay(path string, gone func(fs.FileInfo) bool) error {
	root, err := os.OpenRoot(filepath.Dir(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close()
	var errs []error
	for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
		name := filepath.Base(path) + suffix
		info, err := root.Lstat(name)
		if err == nil && gone(info) {
			err = root.Remove(name)
			if err != nil && info.IsDir() {
				err = root.Rename(name, name+"-aside-"+glovebox.NewID())
			}
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// failure translates an error of the database into one that says what to do.
func (x *Index) failure(op string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*glovebox.Error](err); ok {
		return err
	}
	e := &glovebox.Error{Code: glovebox.CodeInternal, Op: "recall: " + op, Err: err}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, sql.ErrConnDone) {
		e.Code = glovebox.CodeUnavailable
		return e
	}
	if damaged(err) {
		e.Msg, e.Hint = "the index is damaged", "it is derived: remove "+x.path+" and it is made anew from the log"
		return e
	}
	se, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return e
	}
	switch se.Code() & 0xff {
	case sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR:
		e.Code, e.Msg = glovebox.CodeUnavailable, "the disk is full or failing"
		e.Hint = "free some space under " + filepath.Dir(x.path) + "; the index goes on where it stopped"
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		e.Code, e.Msg = glovebox.CodeUnavailable, "another process writes the index"
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM:
		e.Code, e.Msg, e.Hint = glovebox.CodeUnavailable, "can't write "+x.path, "check who owns the directory"
	}
	return e
}

// damaged reports whether an error says that the file is not sound.
func damaged(err error) bool {
	se, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return false
	}
	code := se.Code() & 0xff
	return code == sqlite3.SQLITE_CORRUPT || code == sqlite3.SQLITE_NOTADB
}
