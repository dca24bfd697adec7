package sqlite

import (
	"context"
	"errors"
	"path/filepath"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/glovebox-dev/glovebox"
)

// failure translates an error of the database into one that says what to do.
// Errors that are ours already pass as they are.
func (s *Store) failure(op string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*glovebox.Error](err); ok {
		return err
	}
	e := &glovebox.Error{Code: glovebox.CodeInternal, Op: "store: " + op, Err: err}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		e.Code = glovebox.CodeUnavailable
		return e
	}
	se, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return e
	}
	switch se.Code() & 0xff {
	case sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR:
		e.Code, e.Msg = glovebox.CodeUnavailable, "the disk is full or failing"
		e.Hint = "free some space under " + filepath.Dir(s.path) + "; nothing that was acknowledged is lost"
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return s.damaged(op, err)
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		e.Code, e.Msg = glovebox.CodeUnavailable, "another process is writing for too long"
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM:
		e.Code, e.Msg = glovebox.CodeUnavailable, "can't write "+s.path
		e.Hint = "check who owns the data directory"
	}
	return e
}

func (s *Store) damaged(op string, err error) error {
	return &glovebox.Error{Code: glovebox.CodeInternal, Op: "store: " + op, Msg: s.path + " is damaged or not a database", Err: err,
		Hint: "restore it from a backup, or move it away to start afresh; `sqlite3 FILE .recover` saves what is readable"}
}

var errClosed = glovebox.Errorf(glovebox.CodeUnavailable, "the store is closed")
