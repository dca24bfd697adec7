package recall

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox"
)

// adder writes the events of one Add.
type adder struct {
	x        *Index
	step     int64
	passages int64 // that were added

	event_, passage, words, call, uncall, find *sql.Stmt

	seen  map[string]bool
	terms []byte
}

func newAdder(ctx context.Context, tx *sql.Tx, x *Index, step int64) (*adder, error) {
	a := &adder{x: x, step: step, seen: map[string]bool{}}
	for _, s := range []struct {
		to  **sql.Stmt
		sql string
	}{
		{&a.event_, "INSERT INTO event(seq, step, time, type, tool, file) VALUES(?, ?, ?, ?, ?, ?)"},
		{&a.passage, "INSERT INTO passage(id, text) VALUES(?, ?)"},
		{&a.words, "INSERT INTO words(rowid, terms) VALUES(?, ?)"},
		{&a.call, "INSERT OR REPLACE INTO call(id, tool, files) VALUES(?, ?, ?)"},
		{&a.uncall, "DELETE FROM call WHERE id = ?"},
		{&a.find, "SELECT tool, files FROM call WHERE id = ?"},
	} {
		st, err := tx.PrepareContext(ctx, s.sql) //nolint:sqlclosecheck // close does
		if err != nil {
			a.close()
			return nil, err
		}
		*s.to = st
	}
	return a, nil
}

func (a *adder) close() {
	for _, s := range []*sql.Stmt{a.event_, a.passage, a.words, a.call, a.uncall, a.find} {
		if s != nil {
			s.Close()
		}
	}
}

func (a *adder) event(ctx context.Context, e glovebox.Event) error {
	var failed error
	n, err := read(ctx, e, a.x.o.Load, func(id string) pendingCall {
		c := pendingCall{id: id}
		var files string
		err := a.find.QueryRowContext(ctx, id).Scan(&c.tool, &files)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			failed = err
		}
		if files != "" {
			c.files = strings.Split(files, "\n")
		}
		return c
	})
	if failed != nil {
		return failed
	}
	if err != nil {
		return nil //nolint:nilerr // an event that nobody can read says nothing
	}
	for _, c := range n.calls {
		if len(c.files) == 0 {
			continue
		}
		if _, err := a.call.ExecContext(ctx, c.id, c.tool, strings.Join(c.files, "\n")); err != nil {
			return err
		}
	}
	if n.ends != "" {
		if _, err := a.uncall.ExecContext(ctx, n.ends); err != nil {
			return err
		}
	}
	if e.Type == glovebox.EventModelAnswered {
		a.step++ // an answer and the results of its calls are one step
	}
	return a.entry(ctx, e, n)
}

// entry writes what an event says.
func (a *adder) entry(ctx context.Context, e glovebox.Event, n entry) error {
	text := n.text
	if len(text) > MaxWhole {
		text = strings.ToValidUTF8(text[:MaxWhole], "")
	}
	if !utf8.ValidString(text) {
		text = strings.ToValidUTF8(text, "\uFFFD")
	}
	text = strings.ReplaceAll(text, "\x00", "\uFFFD")
	pieces := passages(text)
	if len(pieces) == 0 {
		return nil
	}
	file := ""
	if len(n.files) > 0 {
		file = n.files[0]
	}
	if _, err := a.event_.ExecContext(ctx, e.Seq, a.step, e.Time.UnixMilli(), string(e.Type), n.tool, file); err != nil {
		return err
	}
	a.passages += int64(len(pieces))
	about := aboutTerms(e.Type, n)
	for i, p := range pieces {
		id := e.Seq<<passageBits | int64(i)
		if _, err := a.passage.ExecContext(ctx, id, p); err != nil {
			return err
		}
		if _, err := a.words.ExecContext(ctx, id, a.termsOf(p, about)); err != nil {
			return err
		}
	}
	return nil
}

// termsOf returns the terms of a passage, each once.
func (a *adder) termsOf(text string, about []string) string {
	clear(a.seen)
	a.terms = a.terms[:0]
	add := func(term string) {
		if !a.seen[term] {
			a.seen[term] = true
			a.terms = append(append(a.terms, term...), ' ')
		}
	}
	a.x.words.each(text, func(t token) { add(t.term) })
	for _, t := range about {
		add(t)
	}
	return string(a.terms)
}

// aboutTerms returns what can be asked of an event beside its words.
func aboutTerms(typ glovebox.EventType, n entry) []string {
	terms := []string{metaTerm("type", string(typ))}
	for _, t := range n.tools {
		terms = append(terms, metaTerm("tool", t))
	}
	for _, f := range n.files {
		for f != "" {
			terms = append(terms, metaTerm("file", f))
			i := strings.IndexByte(f, '/')
			if i < 0 {
				break
			}
			f = f[i+1:]
		}
	}
	return terms
}

// metaTerm returns the term for what an event is about: any text may be in it.
func metaTerm(kind, value string) string { return markMeta + kind + hash(strings.ToLower(value)) }
