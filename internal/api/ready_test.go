package api

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
)

// checkedStore is checked as a test says.
type checkedStore struct {
	Store
	n     atomic.Int64
	check func() error
}

func (s *checkedStore) Check(context.Context) error {
	s.n.Add(1)
	return s.check()
}

func TestReadiness(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		check  func() error
		status int
		detail string
	}{
		"fine": {func() error { return nil }, 200, ""},
		"damaged": {func() error {
			return &glovebox.Error{Code: glovebox.CodeUnavailable, Msg: "the database is damaged", Err: glovebox.Errorf("", "/secret/path")}
		}, 503, "the database is damaged"},
		"panic": {func() error { panic("oh") }, 503, "the store does not answer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checked := &checkedStore{check: c.check}
			now := time.Now() // stands still: an answer gets old with time
			e := newEnv(t, func(o *Options) {
				checked.Store, o.Now = o.Store, func() time.Time { return now }
				o.Store = checked
			})
			var wg sync.WaitGroup
			for range 10 {
				wg.Go(func() {
					r := e.do("GET", "/readyz", "")
					if r.StatusCode != c.status || !strings.Contains(string(r.body), c.detail) || strings.Contains(string(r.body), "secret") {
						t.Errorf("%d %s", r.StatusCode, r.body)
					}
				})
			}
			wg.Wait()
			if n := checked.n.Load(); n != 1 {
				t.Errorf("checked %d times for ten probes", n)
			}
		})
	}
}
