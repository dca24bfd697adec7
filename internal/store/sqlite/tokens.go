package sqlite

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"time"

	"github.com/glovebox-dev/glovebox"
)

// CreateToken implements [store.Tokens].
func (s *Store) CreateToken(ctx context.Context, t glovebox.Token) error {
	switch {
	case !glovebox.ValidID(t.ID):
		return glovebox.Invalid("id", "use glovebox.NewID", "%.64q is not an id", t.ID)
	case t.Tenant == "" || len(t.Tenant) > maxTenant:
		return glovebox.Invalid("tenant", "use 1 to 64 bytes", "%.80q is not a tenant", t.Tenant)
	case t.Scope != glovebox.ScopeRead && t.Scope != glovebox.ScopeWrite:
		return glovebox.Invalid("scope", "use read or write", "%.80q is not a scope", t.Scope)
	}
	return s.w.do(ctx, func(x *txn) error {
		if t.CreatedAt.IsZero() {
			t.CreatedAt = x.now
		}
		res, err := x.exec("INSERT INTO tokens (id, tenant, scope, hash, created_at) VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING",
			t.ID, t.Tenant, string(t.Scope), hex.EncodeToString(t.Hash[:]), t.CreatedAt.UnixNano())
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n == 0 {
			return errors.Join(err, glovebox.Errorf(glovebox.CodeConflict, "there is a token %s or with that hash already", t.ID))
		}
		return nil
	})
}

const selectTokens = "SELECT id, tenant, scope, hash, created_at FROM tokens"

// TokenByHash implements [store.Tokens].
func (s *Store) TokenByHash(ctx context.Context, hash [32]byte) (*glovebox.Token, error) {
	if err := ctx.Err(); err != nil {
		return nil, s.failure("read token", err)
	}
	st, err := s.stmt(selectTokens + " WHERE hash = $1")
	if err != nil {
		return nil, s.failure("read token", err)
	}
	t, err := scanToken(st.QueryRowContext(context.WithoutCancel(ctx), hex.EncodeToString(hash[:])).Scan)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, glovebox.Errorf(glovebox.CodeNotFound, "there is no such token")
	}
	if err != nil {
		return nil, s.failure("read token", err)
	}
	return &t, nil
}

// ListTokens implements [store.Tokens]. The oldest come first.
func (s *Store) ListTokens(ctx context.Context) ([]glovebox.Token, error) {
	rows, err := s.read.QueryContext(ctx, selectTokens+" ORDER BY id")
	if err != nil {
		return nil, s.failure("list tokens", err)
	}
	defer rows.Close()
	var tokens []glovebox.Token
	for rows.Next() {
		t, err := scanToken(rows.Scan)
		if err != nil {
			return nil, s.failure("list tokens", err)
		}
		tokens = append(tokens, t)
	}
	return tokens, s.failure("list tokens", rows.Err())
}

func scanToken(scan func(...any) error) (glovebox.Token, error) {
	var t glovebox.Token
	var scope, hash string
	var created int64
	if err := scan(&t.ID, &t.Tenant, &scope, &hash, &created); err != nil {
		return t, err
	}
	t.Scope, t.CreatedAt = glovebox.Scope(scope), time.Unix(0, created).UTC()
	_, err := hex.Decode(t.Hash[:], []byte(hash))
	return t, err
}

// DeleteToken implements [store.Tokens].
func (s *Store) DeleteToken(ctx context.Context, id string) error {
	return s.w.do(ctx, func(x *txn) error {
		res, err := x.exec("DELETE FROM tokens WHERE id = $1", id)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil {
			return err
		} else if n == 0 {
			return glovebox.Errorf(glovebox.CodeNotFound, "there is no token %.64s", id)
		}
		return nil
	})
}
