package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/store"
)

// nextJob finds the oldest job that is pending or whose lease ran out. The
// two halves use an index each.
const nextJob = `SELECT id FROM (
		SELECT * FROM (SELECT num, id FROM jobs WHERE status = 'pending' ORDER BY num LIMIT 1) AS pending
		UNION ALL
		SELECT * FROM (SELECT num, id FROM jobs WHERE status = 'running' AND lease_until <= $1 ORDER BY num LIMIT 1) AS expired
	) AS claimable ORDER BY num LIMIT 1`

const maxLease = time.Hour

func checkLease(length time.Duration) error {
	if length < time.Millisecond || length > maxLease {
		return glovebox.Invalid("length", "use 1 ms to 1 h", "a lease of %v is not possible", length)
	}
	return nil
}

// Claim implements [store.Queue].
func (s *Store) Claim(ctx context.Context, worker string, length time.Duration) (*store.Lease, error) {
	if err := checkLease(length); err != nil {
		return nil, err
	}
	// Looking first costs little; asking the writer takes the write lock
	// from other processes for nothing when the queue is empty.
	err := s.queryRow(nextJob, []any{s.now().UnixMilli()}, new(string))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, s.failure("claim", ctx.Err())
	}
	if err != nil {
		return nil, s.failure("claim", err)
	}
	var lease *store.Lease
	err = s.w.do(ctx, func(t *txn) error {
		lease = nil
		var id string
		err := t.queryRow(nextJob, []any{t.now.UnixMilli()}, &id)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		r, err := t.load(id)
		if err != nil {
			return err
		}
		r.fence++
		r.worker, r.leaseUntil = worker, t.now.Add(length).UnixMilli()
		lease = &store.Lease{JobID: id, Tenant: r.job.Tenant, Worker: worker, Fence: r.fence}
		return t.append(r, glovebox.NewEvent(t.now, glovebox.EventClaimed,
			glovebox.Claimed{Worker: worker, Fence: r.fence, Attempt: r.job.Attempts + 1}))
	})
	if err != nil {
		return nil, err
	}
	return lease, nil
}

// held loads a job for the holder of l.
func (t *txn) held(l store.Lease) (*row, error) {
	r, err := t.load(l.JobID)
	if err != nil {
		return nil, err
	}
	if r.fence != l.Fence || r.job.Status != glovebox.StatusRunning {
		return nil, glovebox.Errorf(glovebox.CodeFenced, "lease %d of job %s is over (the job is %s, its lease %d)",
			l.Fence, l.JobID, r.job.Status, r.fence)
	}
	return r, nil
}

// Renew implements [store.Queue].
func (s *Store) Renew(ctx context.Context, l store.Lease, length time.Duration) error {
	if err := checkLease(length); err != nil {
		return err
	}
	return s.w.do(ctx, func(t *txn) error {
		r, err := t.held(l)
		if err != nil {
			return err
		}
		_, err = t.exec("UPDATE jobs SET lease_until = $2 WHERE num = $1", r.num, t.now.Add(length).UnixMilli())
		return err
	})
}

// Release implements [store.Queue]. Signals that the worker did not come to
// consume take effect with it, since nobody holds the job then.
func (s *Store) Release(ctx context.Context, l store.Lease, reason string) error {
	return s.w.do(ctx, func(t *txn) error {
		r, err := t.held(l)
		if err != nil {
			return err
		}
		if err := t.append(r, glovebox.NewEvent(t.now, glovebox.EventReleased, glovebox.Released{Reason: reason})); err != nil {
			return err
		}
		waiting, err := t.signals(r.num)
		if err != nil {
			return err
		}
		for _, sig := range waiting {
			if r.job.Status.Terminal() {
				break
			}
			if err := t.append(r, signalEvents(r.job, t.now, sig)...); err != nil {
				return err
			}
		}
		if len(waiting) > 0 {
			_, err = t.exec("DELETE FROM signals WHERE job = $1", r.num)
		}
		return err
	})
}

// ExpireLeases implements [store.Queue].
func (s *Store) ExpireLeases(ctx context.Context, worker string) error {
	return s.w.do(ctx, func(t *txn) error {
		t.wake = true
		_, err := t.exec("UPDATE jobs SET lease_until = 0 WHERE status = 'running' AND worker = $1", worker)
		return err
	})
}
