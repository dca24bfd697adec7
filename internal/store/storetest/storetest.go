// Package storetest proves that a store.Store keeps its promises.
//
// A backend's test gives a [Harness] to [Exercise], and has its TestMain call
// [Main], so that the suite can run it in a second process and kill that.
package storetest

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/store"
)

// Harness makes stores of one backend.
type Harness struct {
	// Place returns a new, empty place to keep a store in, such as the path
	// of a file in t.TempDir.
	Place func(t testing.TB) string

	// Open opens the store at a place. Opening it again, while the first is
	// open, is what another process would do. now is the store's clock; nil
	// is the real one.
	Open func(place string, now func() time.Time) (store.Store, error)
}

// Exercise runs the suite.
func Exercise(t *testing.T, h Harness) {
	for _, c := range []struct {
		name string
		test func(*testing.T, Harness)
	}{
		{"CreateAndRead", testCreateAndRead},
		{"CreateRefuses", testCreateRefuses},
		{"Idempotency", testIdempotency},
		{"TenantIsolation", testTenantIsolation},
		{"List", testList},
		{"QueuePosition", testQueuePosition},
		{"Delete", testDelete},
		{"ClaimOrder", testClaimOrder},
		{"ClaimConcurrently", testClaimConcurrently},
		{"Fencing", testFencing},
		{"LeaseExpiry", testLeaseExpiry},
		{"ExpireLeases", testExpireLeases},
		{"Release", testRelease},
		{"AppendRefuses", testAppendRefuses},
		{"AppendConcurrently", testAppendConcurrently},
		{"StateIsReplayOfLog", testStateIsReplay},
		{"Finish", testFinish},
		{"SignalPending", testSignalPending},
		{"SignalRunning", testSignalRunning},
		{"SignalRefused", testSignalRefused},
		{"SignalAtRelease", testSignalAtRelease},
		{"RaiseLimits", testRaiseLimits},
		{"RaiseLimitsRace", testRaiseLimitsRace},
		{"Watch", testWatch},
		{"WatchMany", testWatchMany},
		{"Wake", testWake},
		{"OtherProcess", testOtherProcess},
		{"ContextCancelled", testContextCancelled},
		{"Tokens", testTokens},
		{"Reopen", testReopen},
		{"ClosedStore", testClosedStore},
		{"KillDurability", testKillDurability},
		{"RandomOperations", testRandom},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.test(t, h)
		})
	}
}

// Clock is a clock that a test moves.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a clock that stands at a time in 2026.
func NewClock() *Clock { return &Clock{now: time.Date(2026, 5, 1, 12, 0, 0, 123456789, time.UTC)} }

// Now returns the time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Add moves the clock.
func (c *Clock) Add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// fixture is a store under test.
type fixture struct {
	*testing.T
	store.Store
	place string
	clock *Clock
}

func open(t *testing.T, h Harness) *fixture {
	t.Helper()
	f := &fixture{T: t, place: h.Place(t), clock: NewClock()}
	f.Store = f.another(h)
	return f
}

// another opens the same place again.
func (f *fixture) another(h Harness) store.Store {
	f.Helper()
	s, err := h.Open(f.place, f.clock.Now)
	if err != nil {
		f.Fatalf("open: %v", err)
	}
	f.Cleanup(func() { s.Close() })
	return s
}

// ctx bounds a test that waits for what never comes.
func (f *fixture) ctx() context.Context {
	ctx, cancel := context.WithTimeout(f.Context(), 30*time.Second)
	f.Cleanup(cancel)
	return ctx
}

// NewCreated returns a valid job of a tenant.
func NewCreated(tenant, task string) glovebox.Created {
	return glovebox.Created{ID: glovebox.NewID(), Tenant: tenant, Task: task, Model: "replay:x",
		Limits: glovebox.DefaultLimits(), Metadata: map[string]string{"k": "v"}}
}

func (f *fixture) create(tenant, task string) string {
	f.Helper()
	j, created, err := f.CreateJob(f.ctx(), NewCreated(tenant, task), store.IdempotencyKey{})
	if err != nil || !created {
		f.Fatalf("create: created %v, %v", created, err)
	}
	return j.ID
}

const leaseLength = 15 * time.Second

func (f *fixture) claim(worker string) store.Lease {
	f.Helper()
	l, err := f.Claim(f.ctx(), worker, leaseLength)
	if err != nil || l == nil {
		f.Fatalf("claim: %v, %v", l, err)
	}
	return *l
}

func (f *fixture) append(l store.Lease, events ...glovebox.Event) *glovebox.Job {
	f.Helper()
	j, err := f.Append(f.ctx(), l, events)
	if err != nil {
		f.Fatalf("append: %v", err)
	}
	return j
}

func (f *fixture) job(id string) *glovebox.Job {
	f.Helper()
	j, err := f.Job(f.ctx(), "", id)
	if err != nil {
		f.Fatalf("job: %v", err)
	}
	return j
}

func (f *fixture) wantStatus(id string, want glovebox.Status) *glovebox.Job {
	f.Helper()
	j := f.job(id)
	if j.Status != want {
		f.Fatalf("status is %s, want %s", j.Status, want)
	}
	return j
}

func (f *fixture) wantCode(err error, want glovebox.Code) {
	f.Helper()
	if got := glovebox.CodeOf(err); got != want {
		f.Fatalf("code is %q, want %q (error: %v)", got, want, err)
	}
}

func (f *fixture) notice(text string) glovebox.Event {
	return glovebox.NewEvent(f.clock.Now(), glovebox.EventNotice, glovebox.Notice{Text: text})
}

func (f *fixture) finished(s glovebox.Status, failure *glovebox.Failure) glovebox.Event {
	return glovebox.NewEvent(f.clock.Now(), glovebox.EventFinished, glovebox.Finished{Status: s, Failure: failure})
}

func limitFailure(limit string) *glovebox.Failure {
	return &glovebox.Failure{Code: "limit", Limit: limit, Message: "limit reached"}
}

// CheckLog reads the whole log of a job and returns an error if it has a gap,
// or if replaying it does not give the job's state.
func CheckLog(ctx context.Context, s store.Store, id string) ([]glovebox.Event, error) {
	var all []glovebox.Event
	var replayed glovebox.Job
	for {
		events, err := s.Events(ctx, id, int64(len(all)), 100)
		if err != nil {
			return all, err
		}
		if len(events) == 0 {
			break
		}
		for _, e := range events {
			if err := replayed.Apply(e); err != nil {
				return all, err
			}
		}
		all = append(all, events...)
	}
	job, err := s.Job(ctx, "", id)
	if err != nil {
		return all, err
	}
	got, want := mustJSON(job), mustJSON(&replayed)
	if job.Seq == replayed.Seq && got != want {
		return all, fmt.Errorf("the state is not the replay of the log:\n%s\n%s", got, want)
	}
	if job.Seq < replayed.Seq {
		return all, fmt.Errorf("the state is at %d, the log at %d", job.Seq, replayed.Seq)
	}
	return all, nil
}

func (f *fixture) checkLog(id string) []glovebox.Event {
	f.Helper()
	events, err := CheckLog(f.ctx(), f.Store, id)
	if err != nil {
		f.Fatalf("log of %s: %v", id, err)
	}
	return events
}

func mustJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func types(events []glovebox.Event) []glovebox.EventType {
	var out []glovebox.EventType
	for _, e := range events {
		out = append(out, e.Type)
	}
	return out
}
