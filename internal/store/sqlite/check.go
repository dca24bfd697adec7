package sqlite

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"os"

	"github.com/glovebox-dev/glovebox"
)

// Check implements [store.Checker]. It notices a file that was removed,
// replaced, cut or overwritten at its beginning, and one that can't be written.
func (s *Store) Check(ctx context.Context) error {
	if err := s.checkFile(); err != nil {
		return err
	}
	err := s.w.do(ctx, func(t *txn) error {
		t.writes++
		_, err := t.w.conn.ExecContext(context.Background(), "PRAGMA user_version = 1") // which nobody reads: it rewrites the first page
		return err
	})
	var n int64
	if err == nil {
		err = s.failure("check", s.queryRow("SELECT count(*) FROM (SELECT num FROM jobs ORDER BY num DESC LIMIT 10)", nil, &n))
	}
	if err == nil {
		return nil
	}
	code, msg := glovebox.CodeUnavailable, "the database can't be written"
	if e, ok := errors.AsType[*glovebox.Error](err); ok && e.Code == glovebox.CodeInternal {
		msg = "the database is damaged"
	}
	return &glovebox.Error{Code: code, Op: "check store", Msg: msg, Hint: "look into the server's log", Err: err}
}

// checkFile looks at the file itself: what SQLite has in memory may hide what
// happened to it. It is not opened anew, since closing it again would cost SQLite
// its locks.
func (s *Store) checkFile() error {
	bad := func(msg string, err error) error {
		return &glovebox.Error{Code: glovebox.CodeUnavailable, Op: "check store", Msg: msg, Hint: "look into the server's log", Err: err}
	}
	named, err := os.Stat(s.path)
	if err != nil {
		return bad("the database can't be read", err)
	}
	info, err := s.file.Stat()
	if err != nil {
		return bad("the database can't be read", err)
	}
	if !os.SameFile(info, named) {
		return bad("the database was replaced under the running server", nil)
	}
	head := make([]byte, 100)
	if _, err := s.file.ReadAt(head, 0); err != nil || !bytes.HasPrefix(head, []byte("SQLite format 3\x00")) {
		return bad("the database is damaged", errors.New("its file does not begin like one"))
	}
	page := int64(binary.BigEndian.Uint16(head[16:]))
	if page == 1 { // which stands for the one size that has no room there
		page = 64 << 10
	}
	// The number of pages is valid if it was written with the newest change.
	if pages := int64(binary.BigEndian.Uint32(head[28:])); bytes.Equal(head[24:28], head[92:96]) && info.Size() < page*pages {
		return bad("the database is damaged", errors.New("its file is shorter than it should be"))
	}
	return nil
}
