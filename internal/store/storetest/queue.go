package storetest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/store"
)

func testClaimOrder(t *testing.T, h Harness) {
	f := open(t, h)
	if l, err := f.Claim(f.ctx(), "w", leaseLength); l != nil || err != nil {
		t.Fatalf("an empty queue gives %v, %v", l, err)
	}
	a, b := f.create("t", "a"), f.create("u", "b")
	l := f.claim("w1")
	if l.JobID != a || l.Tenant != "t" || l.Worker != "w1" || l.Fence < 1 {
		t.Errorf("lease is %v", l)
	}
	j := f.wantStatus(a, glovebox.StatusRunning)
	if j.Attempts != 1 || j.Phase != glovebox.PhasePreparing {
		t.Errorf("job is %s", mustJSON(j))
	}
	ev := f.checkLog(a)
	c, err := glovebox.Decode[glovebox.Claimed](ev[1])
	if err != nil || c != (glovebox.Claimed{Worker: "w1", Fence: l.Fence, Attempt: 1}) {
		t.Errorf("claimed is %v, %v", c, err)
	}
	if l := f.claim("w2"); l.JobID != b {
		t.Errorf("lease is %v", l)
	}
	if l, err := f.Claim(f.ctx(), "w", leaseLength); l != nil || err != nil {
		t.Errorf("a job is given twice: %v, %v", l, err)
	}
	for _, length := range []time.Duration{0, -1, 2 * time.Hour} {
		_, err := f.Claim(f.ctx(), "w", length)
		f.wantCode(err, glovebox.CodeInvalid)
		f.wantCode(f.Renew(f.ctx(), l, length), glovebox.CodeInvalid)
	}
}

func testClaimConcurrently(t *testing.T, h Harness) {
	f := open(t, h)
	other := f.another(h)
	const jobs = 40
	for i := range jobs {
		f.create("t", fmt.Sprint(i))
	}
	var mu sync.Mutex
	claimed := map[string]int{}
	var wg sync.WaitGroup
	for i := range 8 {
		s := []store.Store{f.Store, other}[i%2]
		wg.Go(func() {
			for {
				l, err := s.Claim(f.ctx(), fmt.Sprint("w", i), leaseLength)
				if err != nil {
					t.Error(err)
				}
				if l == nil {
					return
				}
				mu.Lock()
				claimed[l.JobID]++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(claimed) != jobs {
		t.Errorf("%d of %d were claimed", len(claimed), jobs)
	}
	for id, n := range claimed {
		if n != 1 {
			t.Errorf("%s was claimed %d times", id, n)
		}
		f.checkLog(id)
	}
}

func testFencing(t *testing.T, h Harness) {
	f := open(t, h)
	id := f.create("t", "x")
	old := f.claim("w1")
	f.append(old, f.notice("mine"))
	f.clock.Add(leaseLength)
	l := f.claim("w2")
	if l.JobID != id || l.Fence <= old.Fence {
		t.Fatalf("lease is %v after %v", l, old)
	}
	before := f.job(id).Seq
	_, err := f.Append(f.ctx(), old, []glovebox.Event{f.notice("too late")})
	f.wantCode(err, glovebox.CodeFenced)
	_, err = f.Append(f.ctx(), old, nil)
	f.wantCode(err, glovebox.CodeFenced)
	f.wantCode(f.Renew(f.ctx(), old, leaseLength), glovebox.CodeFenced)
	f.wantCode(f.Release(f.ctx(), old, "late"), glovebox.CodeFenced)
	forged := l
	forged.Fence++
	_, err = f.Append(f.ctx(), forged, []glovebox.Event{f.notice("forged")})
	f.wantCode(err, glovebox.CodeFenced)
	if after := f.job(id).Seq; after != before {
		t.Errorf("%d events were appended under a lost lease", after-before)
	}
	f.append(l, f.notice("mine now"))
	f.checkLog(id)
}

func testLeaseExpiry(t *testing.T, h Harness) {
	f := open(t, h)
	id := f.create("t", "x")
	l := f.claim("w1")
	f.clock.Add(leaseLength - time.Millisecond)
	if got, err := f.Claim(f.ctx(), "w2", leaseLength); got != nil || err != nil {
		t.Fatalf("taken over early: %v, %v", got, err)
	}
	if err := f.Renew(f.ctx(), l, leaseLength); err != nil {
		t.Fatal(err)
	}
	f.clock.Add(leaseLength - time.Millisecond)
	if got, err := f.Claim(f.ctx(), "w2", leaseLength); got != nil || err != nil {
		t.Fatalf("taken over although renewed: %v, %v", got, err)
	}
	f.clock.Add(time.Hour)
	f.append(l, f.notice("expired, but nobody took it over"))
	if got := f.claim("w2"); got.JobID != id || got.Fence != l.Fence+1 {
		t.Errorf("lease is %v", got)
	}
	if j := f.job(id); j.Attempts != 2 {
		t.Errorf("%d attempts", j.Attempts)
	}
}

func testRelease(t *testing.T, h Harness) {
	f := open(t, h)
	id := f.create("t", "x")
	l := f.claim("w1")
	wake := f.Wake(f.ctx())
	if err := f.Release(f.ctx(), l, "shutting down"); err != nil {
		t.Fatal(err)
	}
	<-wake
	f.wantStatus(id, glovebox.StatusPending)
	_, err := f.Append(f.ctx(), l, []glovebox.Event{f.notice("x")})
	f.wantCode(err, glovebox.CodeFenced)
	f.wantCode(f.Release(f.ctx(), l, "again"), glovebox.CodeFenced)
	if got := f.claim("w2"); got.Fence <= l.Fence {
		t.Errorf("lease is %v", got)
	}
	want := []glovebox.EventType{glovebox.EventCreated, glovebox.EventClaimed, glovebox.EventReleased, glovebox.EventClaimed}
	if got := types(f.checkLog(id)); !slices.Equal(got, want) {
		t.Errorf("events are %v", got)
	}
}

func testAppendRefuses(t *testing.T, h Harness) {
	f := open(t, h)
	id := f.create("t", "x")
	l := f.claim("w")
	before := f.job(id).Seq
	event := func(typ glovebox.EventType, data string) glovebox.Event {
		return glovebox.Event{Type: typ, Data: []byte(data)}
	}
	many := make([]glovebox.Event, 1001)
	for i := range many {
		many[i] = f.notice("x")
	}
	for name, c := range map[string]struct {
		events []glovebox.Event
		code   glovebox.Code
	}{
		"created":       {[]glovebox.Event{f.notice("a"), event(glovebox.EventCreated, `{}`)}, glovebox.CodeInvalid},
		"claimed":       {[]glovebox.Event{event(glovebox.EventClaimed, `{}`)}, glovebox.CodeInvalid},
		"resumed":       {[]glovebox.Event{event(glovebox.EventResumed, `{}`)}, glovebox.CodeInvalid},
		"live only":     {[]glovebox.Event{event(glovebox.EventModelDelta, `{}`)}, glovebox.CodeInvalid},
		"no type":       {[]glovebox.Event{event("", `{}`)}, glovebox.CodeInvalid},
		"not JSON":      {[]glovebox.Event{f.notice("a"), event(glovebox.EventNotice, `{`)}, glovebox.CodeInvalid},
		"no data":       {[]glovebox.Event{event(glovebox.EventNotice, ``)}, glovebox.CodeInvalid},
		"wrong data":    {[]glovebox.Event{f.notice("a"), event(glovebox.EventPlan, `[1]`)}, glovebox.CodeInternal},
		"after finish":  {[]glovebox.Event{f.finished(glovebox.StatusComplete, nil), f.notice("x")}, glovebox.CodeInvalid},
		"finish twice":  {[]glovebox.Event{f.finished(glovebox.StatusComplete, nil), f.finished(glovebox.StatusComplete, nil)}, glovebox.CodeInvalid},
		"finish as run": {[]glovebox.Event{f.finished(glovebox.StatusRunning, nil)}, glovebox.CodeInvalid},
		"no failure":    {[]glovebox.Event{f.finished(glovebox.StatusError, nil)}, glovebox.CodeInvalid},
		"large":         {[]glovebox.Event{f.notice(strings.Repeat("x", 8<<20))}, glovebox.CodeTooLarge},
		"many":          {many, glovebox.CodeTooLarge},
	} {
		if _, err := f.Append(f.ctx(), l, c.events); glovebox.CodeOf(err) != c.code {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := f.Append(f.ctx(), l, []glovebox.Event{f.notice("a")}, 12345); glovebox.CodeOf(err) != glovebox.CodeConflict {
		t.Errorf("an unknown signal: %v", err)
	}
	if after := f.job(id).Seq; after != before {
		t.Errorf("refused appends left %d events", after-before)
	}
	_, err := f.Events(f.ctx(), id, 0, 0)
	f.wantCode(err, glovebox.CodeInvalid)
	j := f.append(l, event("future.type", `{"a":1}`), event(glovebox.EventNotice, "{\"text\":\"bad \xff byte\"}"), many[0])
	if j.Seq != before+3 {
		t.Errorf("seq is %d", j.Seq)
	}
	for _, e := range f.checkLog(id) {
		if e.Time.IsZero() {
			t.Errorf("event %d has no time", e.Seq)
		}
	}
}

// Many goroutines under one lease, many jobs at once, refused operations in
// between: numbers without gaps, and nothing of what was refused.
func testAppendConcurrently(t *testing.T, h Harness) {
	f := open(t, h)
	const jobs, goroutines, each = 4, 8, 10
	var wg sync.WaitGroup
	var leases []store.Lease
	for range jobs {
		f.create("t", "x")
	}
	for range jobs {
		leases = append(leases, f.claim("w"))
	}
	for _, l := range leases {
		for g := range goroutines {
			wg.Go(func() {
				for i := range each {
					if _, err := f.Append(f.ctx(), l, []glovebox.Event{f.notice("a"), f.notice("b")}); err != nil {
						t.Error(err)
					}
					stale := l
					stale.Fence--
					if _, err := f.Append(f.ctx(), stale, []glovebox.Event{f.notice("stale")}); glovebox.CodeOf(err) != glovebox.CodeFenced {
						t.Errorf("stale: %v", err)
					}
					if _, err := f.Append(f.ctx(), l, []glovebox.Event{f.notice("x"), {Type: glovebox.EventPlan, Data: []byte("[]")}}); err == nil {
						t.Error("wrong data is accepted")
					}
					if ev, err := f.Events(f.ctx(), l.JobID, int64(i), 5); err != nil || len(ev) == 0 || ev[0].Seq != int64(i)+1 {
						t.Errorf("goroutine %d reads %v, %v", g, types(ev), err)
					}
				}
			})
		}
	}
	wg.Wait()
	for _, l := range leases {
		if n := len(f.checkLog(l.JobID)); n != 2+goroutines*each*2 {
			t.Errorf("%d events", n)
		}
	}
}

func testStateIsReplay(t *testing.T, h Harness) {
	f := open(t, h)
	id := f.create("t", "x")
	l := f.claim("w")
	at := func(typ glovebox.EventType, data any) glovebox.Event {
		f.clock.Add(1234567 * time.Nanosecond)
		return glovebox.NewEvent(f.clock.Now(), typ, data)
	}
	f.append(l, at(glovebox.EventSandboxReady, glovebox.SandboxReady{ID: glovebox.NewID(), Driver: "fake", Enforced: map[string]string{"b": "x", "a": "y"}}))
	f.append(l, at(glovebox.EventPhase, glovebox.PhaseChanged{Phase: glovebox.PhaseWorking}),
		at(glovebox.EventModelAnswered, glovebox.ModelAnswered{Usage: glovebox.Usage{Input: 5, Output: 7, CostMicros: 3, Calls: 1}}),
		at(glovebox.EventPlan, glovebox.PlanUpdated{Steps: []glovebox.PlanStep{{Text: "ä", Status: glovebox.PlanActive}}}))
	f.append(l, at(glovebox.EventCheckpoint, glovebox.CheckpointSaved{Commit: "c1", Pack: "p1", Whole: true}))
	f.append(l, at(glovebox.EventCheckpoint, glovebox.CheckpointSaved{Commit: "c2", Pack: "p2"}))
	f.append(l, at(glovebox.EventSandboxLost, glovebox.SandboxLost{Cause: "x"}))
	f.append(l, at(glovebox.EventVerified, glovebox.Verified{Passed: true, Summary: "s", Proofs: []glovebox.Proof{{Command: "true"}}}))
	f.append(l, at(glovebox.EventArtifact, glovebox.ArtifactSaved{Artifact: glovebox.Artifact{Blob: "b", Size: 1}}))
	j := f.append(l, f.finished(glovebox.StatusComplete, nil))
	if mustJSON(j) != mustJSON(f.job(id)) {
		t.Error("Append returns another state than Job")
	}
	f.checkLog(id)
	again := f.another(h) // whose cache is empty
	if got, err := again.Job(f.ctx(), "", id); err != nil || mustJSON(got) != mustJSON(j) {
		t.Errorf("read afresh:\n%s\n%s\n%v", mustJSON(got), mustJSON(j), err)
	}
}

func testFinish(t *testing.T, h Harness) {
	f := open(t, h)
	id := f.create("t", "x")
	l := f.claim("w")
	f.append(l, f.notice("a"), f.finished(glovebox.StatusComplete, nil))
	j := f.wantStatus(id, glovebox.StatusComplete)
	if j.FinishedAt == nil || j.Phase != glovebox.PhaseDone {
		t.Errorf("job is %s", mustJSON(j))
	}
	_, err := f.Append(f.ctx(), l, []glovebox.Event{f.finished(glovebox.StatusError, limitFailure("steps"))})
	f.wantCode(err, glovebox.CodeFenced)
	f.wantCode(f.Renew(f.ctx(), l, leaseLength), glovebox.CodeFenced)
	f.clock.Add(time.Hour)
	if l, err := f.Claim(f.ctx(), "w", leaseLength); l != nil || err != nil {
		t.Errorf("a finished job is claimed: %v, %v", l, err)
	}
}

func testExpireLeases(t *testing.T, h Harness) {
	f := open(t, h)
	a, b := f.create("t", "a"), f.create("t", "b")
	dead, alive := f.claim("dead"), f.claim("alive")
	if err := f.ExpireLeases(f.ctx(), "dead"); err != nil {
		t.Fatal(err)
	}
	if err := f.ExpireLeases(f.ctx(), "nobody"); err != nil {
		t.Errorf("a worker without leases: %v", err)
	}
	l := f.claim("next")
	if l.JobID != a || l.Fence <= dead.Fence {
		t.Errorf("lease is %v, want a later one of %s", l, a)
	}
	if l, err := f.Claim(f.ctx(), "next", leaseLength); l != nil || err != nil {
		t.Errorf("the living worker's job %s was taken: %v, %v", b, l, err)
	}
	f.append(alive, f.notice("still mine"))
	_, err := f.Append(f.ctx(), dead, []glovebox.Event{f.notice("from the grave")})
	f.wantCode(err, glovebox.CodeFenced)
	f.checkLog(a)
}
