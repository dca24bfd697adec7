package storetest

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/store"
)

// testRandom runs random operations against the store and against a model of
// it that is small enough to be obviously right, and compares.
func testRandom(t *testing.T, h Harness) {
	f := open(t, h)
	rapid.Check(t, func(rt *rapid.T) {
		m := &model{fixture: f, rt: rt}
		rt.Repeat(map[string]func(*rapid.T){
			"":        m.check,
			"create":  m.create,
			"claim":   m.claim,
			"append":  m.append,
			"renew":   m.renew,
			"release": m.release,
			"finish":  m.finish,
			"say":     func(rt *rapid.T) { m.signal(rt, glovebox.Signal{Text: "x"}) },
			"cancel":  func(rt *rapid.T) { m.signal(rt, glovebox.Signal{Cancel: true}) },
			"raise":   m.raise,
			"delete":  m.delete,
			"time":    func(rt *rapid.T) { f.clock.Add(time.Duration(rapid.IntRange(1, 10).Draw(rt, "s")) * time.Second) },
		})
		m.drain()
	})
}

// modelJob is what the model knows of a job.
type modelJob struct {
	id      string
	status  glovebox.Status
	fence   int64
	until   time.Time
	events  int64
	steps   int64 // the limit
	stopped bool  // at a soft limit
	signals []glovebox.Signal
	deleted bool
}

type model struct {
	*fixture
	rt     *rapid.T
	jobs   []*modelJob
	leases []store.Lease // all that were ever given
}

func (m *model) pick(rt *rapid.T) *modelJob {
	if len(m.jobs) == 0 {
		rt.Skip("no job")
	}
	return m.jobs[rapid.IntRange(0, len(m.jobs)-1).Draw(rt, "job")]
}

// lease draws any lease that was ever given, and whether it should hold.
func (m *model) lease(rt *rapid.T) (store.Lease, *modelJob, glovebox.Code) {
	if len(m.leases) == 0 {
		rt.Skip("no lease")
	}
	l := m.leases[rapid.IntRange(0, len(m.leases)-1).Draw(rt, "lease")]
	for _, j := range m.jobs {
		if j.id != l.JobID {
			continue
		}
		switch {
		case j.deleted:
			return l, j, glovebox.CodeNotFound
		case j.status != glovebox.StatusRunning || j.fence != l.Fence:
			return l, j, glovebox.CodeFenced
		}
		return l, j, ""
	}
	panic("unknown job")
}

func want(rt *rapid.T, what string, err error, code glovebox.Code) {
	if got := glovebox.CodeOf(err); got != code {
		rt.Fatalf("%s: code %q, want %q: %v", what, got, code, err)
	}
}

func (m *model) create(rt *rapid.T) {
	c := NewCreated("t", "x")
	_, created, err := m.CreateJob(m.Context(), c, store.IdempotencyKey{})
	want(rt, "create", err, "")
	if !created {
		rt.Fatal("not created")
	}
	m.jobs = append(m.jobs, &modelJob{id: c.ID, status: glovebox.StatusPending, events: 1, steps: c.Limits.Steps})
}

func (m *model) claim(rt *rapid.T) {
	var next *modelJob
	for _, j := range m.jobs {
		if j.deleted {
			continue
		}
		if j.status == glovebox.StatusPending || j.status == glovebox.StatusRunning && !m.clock.Now().Before(j.until) {
			next = j
			break
		}
	}
	l, err := m.Claim(m.Context(), "w", leaseLength)
	want(rt, "claim", err, "")
	if next == nil {
		if l != nil {
			rt.Fatalf("claimed %v of an empty queue", *l)
		}
		return
	}
	if l == nil || l.JobID != next.id || l.Fence != next.fence+1 {
		rt.Fatalf("claimed %v, want job %s with fence %d", l, next.id, next.fence+1)
	}
	next.status, next.fence, next.until = glovebox.StatusRunning, l.Fence, m.clock.Now().Add(leaseLength)
	next.events++
	m.leases = append(m.leases, *l)
}

func (m *model) append(rt *rapid.T) {
	l, j, code := m.lease(rt)
	n := rapid.IntRange(0, 4).Draw(rt, "n")
	var events []glovebox.Event
	for range n {
		events = append(events, m.notice("x"))
	}
	var consume []int64
	for _, s := range j.signals {
		if rapid.Bool().Draw(rt, "consume") {
			consume = append(consume, s.ID)
		}
	}
	_, err := m.Append(m.Context(), l, events, consume...)
	want(rt, "append", err, code)
	if code != "" {
		return
	}
	j.events += int64(n)
	var rest []glovebox.Signal
	for _, s := range j.signals {
		kept := true
		for _, id := range consume {
			kept = kept && id != s.ID
		}
		if kept {
			rest = append(rest, s)
		}
	}
	j.signals = rest
}

func (m *model) renew(rt *rapid.T) {
	l, j, code := m.lease(rt)
	want(rt, "renew", m.Renew(m.Context(), l, leaseLength), code)
	if code == "" {
		j.until = m.clock.Now().Add(leaseLength)
	}
}

func (m *model) release(rt *rapid.T) {
	l, j, code := m.lease(rt)
	want(rt, "release", m.Release(m.Context(), l, "x"), code)
	if code != "" {
		return
	}
	j.status = glovebox.StatusPending
	j.events++
	for _, s := range j.signals {
		j.events++
		if s.Limits != nil {
			j.steps = s.Limits.Steps
		}
		if s.Cancel {
			j.status = glovebox.StatusCancelled
			break
		}
	}
	j.signals = nil
}

func (m *model) finish(rt *rapid.T) {
	l, j, code := m.lease(rt)
	status := rapid.SampledFrom([]glovebox.Status{glovebox.StatusComplete, glovebox.StatusError}).Draw(rt, "status")
	var failure *glovebox.Failure
	if status == glovebox.StatusError {
		failure = limitFailure("steps")
	}
	_, err := m.Append(m.Context(), l, []glovebox.Event{m.finished(status, failure)})
	want(rt, "finish", err, code)
	if code != "" {
		return
	}
	j.events++
	j.status, j.stopped = status, failure != nil
	cancelled := false
	var raise *glovebox.Limits
	for _, s := range j.signals {
		cancelled = cancelled || s.Cancel
		if s.Limits != nil && s.Limits.Steps > j.steps {
			raise = s.Limits
		}
	}
	if j.stopped && raise != nil && !cancelled {
		j.events += 2
		j.status, j.stopped, j.steps = glovebox.StatusPending, false, raise.Steps
	}
	j.signals = nil
}

func (m *model) raise(rt *rapid.T) {
	l := glovebox.DefaultLimits()
	l.Steps += int64(rapid.IntRange(0, 5).Draw(rt, "more"))
	m.signal(rt, glovebox.Signal{Limits: &l})
}

func (m *model) signal(rt *rapid.T, s glovebox.Signal) {
	j := m.pick(rt)
	var code glovebox.Code
	switch {
	case j.deleted:
		code = glovebox.CodeNotFound
	case !j.status.Terminal():
	case j.stopped && s.Limits != nil && s.Limits.Steps <= j.steps:
		code = glovebox.CodeInvalid
	case !j.stopped || s.Limits == nil:
		code = glovebox.CodeConflict
	}
	want(rt, "signal", m.SendSignal(m.Context(), "", j.id, s), code)
	if code != "" {
		return
	}
	switch j.status {
	case glovebox.StatusRunning:
		sigs, err := m.PendingSignals(m.Context(), j.id)
		want(rt, "pending signals", err, "")
		if len(sigs) != len(j.signals)+1 {
			rt.Fatalf("%d signals wait, want %d", len(sigs), len(j.signals)+1)
		}
		j.signals = sigs
		return
	case glovebox.StatusError:
		j.events++
		j.status, j.stopped = glovebox.StatusPending, false
	}
	j.events++
	if s.Cancel {
		j.status = glovebox.StatusCancelled
	}
	if s.Limits != nil {
		j.steps = s.Limits.Steps
	}
}

func (m *model) delete(rt *rapid.T) {
	j := m.pick(rt)
	var code glovebox.Code
	switch {
	case j.deleted:
		code = glovebox.CodeNotFound
	case !j.status.Terminal():
		code = glovebox.CodeConflict
	}
	want(rt, "delete", m.DeleteJob(m.Context(), "t", j.id), code)
	j.deleted = j.deleted || code == ""
}

func (m *model) check(rt *rapid.T) {
	for _, want := range m.jobs {
		if want.deleted {
			continue
		}
		j, err := m.Job(m.Context(), "t", want.id)
		if err != nil {
			rt.Fatal(err)
		}
		if j.Status != want.status || j.Seq != want.events || j.Limits.Steps != want.steps {
			rt.Fatalf("job is %s with %d events and %d steps, want %s, %d, %d",
				j.Status, j.Seq, j.Limits.Steps, want.status, want.events, want.steps)
		}
	}
}

// drain checks the logs and leaves an empty queue to the next run.
func (m *model) drain() {
	for _, j := range m.jobs {
		if j.deleted {
			continue
		}
		if _, err := CheckLog(m.Context(), m.Store, j.id); err != nil {
			m.rt.Fatal(err)
		}
	}
	m.clock.Add(time.Hour)
	for {
		l, err := m.Claim(m.Context(), "w", leaseLength)
		if err != nil {
			m.rt.Fatal(err)
		}
		if l == nil {
			return
		}
		if _, err := m.Append(m.Context(), *l, []glovebox.Event{m.finished(glovebox.StatusComplete, nil)}); err != nil {
			m.rt.Fatal(err)
		}
	}
}
