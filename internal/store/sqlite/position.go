package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/glovebox-dev/glovebox"
)

// lineAge is how long the line of pending jobs is used before it is read
// again. Only what other processes claim or cancel is late by that.
const lineAge = 250 * time.Millisecond

// line is the pending jobs in order. To count those ahead of each of ten
// thousand jobs in the table would take time for each of them every time.
type line struct {
	version atomic.Int64 // grows when a job joins or leaves other than at the end

	mu   sync.Mutex
	nums []int64
	of   int64 // the version that nums were read at
	read time.Time
}

// before returns how many jobs of the line are ahead of num, and up to which
// number the line is known.
func (l *line) before(s *Store, num int64) (ahead, known int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if v := l.version.Load(); v != l.of || time.Since(l.read) > lineAge {
		if err := l.load(s); err != nil {
			return 0, 0, err
		}
		l.of = v
	}
	i, _ := slices.BinarySearch(l.nums, num)
	if len(l.nums) > 0 {
		known = l.nums[len(l.nums)-1]
	}
	return int64(i), known, nil
}

func (l *line) load(s *Store) error {
	l.read = time.Now()
	st, err := s.stmt("SELECT num FROM jobs WHERE status = 'pending' ORDER BY num")
	if err != nil {
		return err
	}
	rows, err := st.QueryContext(context.Background())
	if err != nil {
		return err
	}
	defer rows.Close()
	l.nums = l.nums[:0]
	for rows.Next() {
		var n int64
		if err := rows.Scan(&n); err != nil {
			return err
		}
		l.nums = append(l.nums, n)
	}
	return rows.Err()
}

// QueuePosition implements [store.Jobs]. What other processes claimed or
// cancelled in the last quarter of a second may be counted still.
func (s *Store) QueuePosition(ctx context.Context, id string) (int64, error) {
	if err := ctx.Err(); err != nil {
		return 0, s.failure("queue position", err)
	}
	var num int64
	var status string
	err := s.queryRow("SELECT num, status FROM jobs WHERE id = $1", []any{id}, &num, &status)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, noJob(id)
	}
	if err != nil {
		return 0, s.failure("queue position", err)
	}
	if glovebox.Status(status) != glovebox.StatusPending {
		return 0, nil
	}
	ahead, known, err := s.line.before(s, num)
	if err != nil {
		return 0, s.failure("queue position", err)
	}
	var more int64 // that came since, and those whose workers died
	err = s.queryRow(`SELECT (SELECT count(*) FROM jobs WHERE status = 'pending' AND num > $1 AND num < $2)
		+ (SELECT count(*) FROM jobs WHERE status = 'running' AND lease_until <= $3 AND num < $2)`,
		[]any{known, num, s.now().UnixMilli()}, &more)
	return ahead + more + 1, s.failure("queue position", err)
}
