package storetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/store"
)

func (f *fixture) send(id string, s glovebox.Signal) {
	f.Helper()
	if err := f.SendSignal(f.ctx(), "", id, s); err != nil {
		f.Fatalf("send: %v", err)
	}
}

func (f *fixture) pending(id string) []glovebox.Signal {
	f.Helper()
	sigs, err := f.PendingSignals(f.ctx(), id)
	if err != nil {
		f.Fatalf("pending signals: %v", err)
	}
	return sigs
}

func testSignalPending(t *testing.T, h Harness) {
	f := open(t, h)
	id := f.create("t", "x")
	limits := glovebox.DefaultLimits()
	limits.Steps = 5
	f.send(id, glovebox.Signal{Text: "use TypeScript"})
	f.send(id, glovebox.Signal{Limits: &limits})
	if j := f.wantStatus(id, glovebox.StatusPending); j.Limits.Steps != 5 {
		t.Errorf("limits are %v", j.Limits)
	}
	user, agent := glovebox.ControlUser, glovebox.ControlAgent
	f.send(id, glovebox.Signal{Control: &agent}) // which holds it
	for range 2 {
		f.send(id, glovebox.Signal{Control: &user})
	}
	if j := f.wantStatus(id, glovebox.StatusPending); j.Control != user {
		t.Errorf("control is with %q", j.Control)
	}
	f.send(id, glovebox.Signal{Notice: "a person opened a terminal"})
	for range 2 {
		f.send(id, glovebox.Signal{Model: "test:other"})
	}
	if j := f.wantStatus(id, glovebox.StatusPending); j.Model != "test:other" {
		t.Errorf("the model is %q", j.Model)
	}
	f.send(id, glovebox.Signal{Text: "the beginning", Blob: "out-x", Size: 5 << 20})
	f.send(id, glovebox.Signal{Cancel: true})
	if j := f.wantStatus(id, glovebox.StatusCancelled); j.Control != agent {
		t.Errorf("of a job that ended, control is with %q", j.Control)
	}
	want := []glovebox.EventType{glovebox.EventCreated, glovebox.EventUserMessage, glovebox.EventLimitsRaised,
		glovebox.EventControl, glovebox.EventNotice, glovebox.EventModelChanged, glovebox.EventUserMessage, glovebox.EventFinished}
	log := f.checkLog(id)
	if got := types(log); !slices.Equal(got, want) {
		t.Errorf("events are %v", got)
	}
	if m, err := glovebox.Decode[glovebox.UserMessage](log[6]); err != nil || m.Blob != "out-x" || m.Size != 5<<20 {
		t.Errorf("a long message is %+v, %v", m, err)
	}
	if l, err := f.Claim(f.ctx(), "w", leaseLength); l != nil || err != nil {
		t.Errorf("a cancelled job is claimed: %v, %v", l, err)
	}
	if s := f.pending(id); len(s) != 0 {
		t.Errorf("signals wait: %v", s)
	}
}

func testSignalRunning(t *testing.T, h Harness) {
	f := open(t, h)
	id := f.create("t", "x")
	l := f.claim("w")
	wake := f.Wake(f.ctx())
	f.send(id, glovebox.Signal{Text: "one", ID: 99})
	<-wake
	f.send(id, glovebox.Signal{Text: "two"})
	sigs := f.pending(id)
	if len(sigs) != 2 || sigs[0].Text != "one" || sigs[1].Text != "two" || sigs[0].ID >= sigs[1].ID || !sigs[0].Time.Equal(f.clock.Now()) {
		t.Fatalf("signals are %v", sigs)
	}
	if n := len(f.checkLog(id)); n != 2 {
		t.Errorf("%d events before the worker has read anything", n)
	}
	// Exactly one of many consumers gets each signal.
	var won atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			_, err := f.Append(f.ctx(), l, []glovebox.Event{glovebox.NewEvent(f.clock.Now(), glovebox.EventUserMessage, glovebox.UserMessage{Text: "one"})}, sigs[0].ID)
			if err == nil {
				won.Add(1)
			} else if glovebox.CodeOf(err) != glovebox.CodeConflict {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if won.Load() != 1 || len(f.checkLog(id)) != 3 {
		t.Errorf("consumed %d times", won.Load())
	}
	if s := f.pending(id); len(s) != 1 || s[0].Text != "two" {
		t.Errorf("signals are %v", s)
	}
	// An append that is refused consumes nothing.
	if _, err := f.Append(f.ctx(), l, []glovebox.Event{{Type: glovebox.EventPlan, Data: []byte("[]")}}, sigs[1].ID); err == nil {
		t.Error("wrong data is accepted")
	}
	if s := f.pending(id); len(s) != 1 {
		t.Errorf("signals are %v", s)
	}
	f.append(l, f.finished(glovebox.StatusComplete, nil))
	if s := f.pending(id); len(s) != 0 {
		t.Errorf("signals outlive the job: %v", s)
	}
}

func testSignalRefused(t *testing.T, h Harness) {
	f := open(t, h)
	id := f.create("t", "x")
	f.claim("w")
	limits := glovebox.Limits{Steps: -1}
	for name, c := range map[string]struct {
		s    glovebox.Signal
		code glovebox.Code
	}{
		"empty":      {glovebox.Signal{}, glovebox.CodeInvalid},
		"two":        {glovebox.Signal{Text: "x", Cancel: true}, glovebox.CodeInvalid},
		"long":       {glovebox.Signal{Text: strings.Repeat("x", glovebox.MaxSignalText+1)}, glovebox.CodeTooLarge},
		"not UTF-8":  {glovebox.Signal{Text: "\xff"}, glovebox.CodeInvalid},
		"bad limits": {glovebox.Signal{Limits: &limits}, glovebox.CodeInvalid},
		"nobody":     {glovebox.Signal{Control: new(glovebox.Control("root"))}, glovebox.CodeInvalid},
		"two words":  {glovebox.Signal{Notice: "x", Text: "y"}, glovebox.CodeInvalid},
		"long told":  {glovebox.Signal{Notice: strings.Repeat("x", glovebox.MaxSignalText+1)}, glovebox.CodeTooLarge},
		"odd told":   {glovebox.Signal{Notice: "\xff"}, glovebox.CodeInvalid},
		"long model": {glovebox.Signal{Model: strings.Repeat("x", glovebox.MaxModelName+1)}, glovebox.CodeInvalid},
		"odd model":  {glovebox.Signal{Model: "\xff"}, glovebox.CodeInvalid},
		"also model": {glovebox.Signal{Model: "a:b", Text: "x"}, glovebox.CodeInvalid},
		"no size":    {glovebox.Signal{Text: "x", Blob: "out-x"}, glovebox.CodeInvalid},
		"no text":    {glovebox.Signal{Cancel: true, Blob: "out-x", Size: 1}, glovebox.CodeInvalid},
		"no handle":  {glovebox.Signal{Text: "x", Size: 1}, glovebox.CodeInvalid},
	} {
		if err := f.SendSignal(f.ctx(), "", id, c.s); glovebox.CodeOf(err) != c.code {
			t.Errorf("%s: %v", name, err)
		}
	}
	f.wantCode(f.SendSignal(f.ctx(), "", glovebox.NewID(), glovebox.Signal{Cancel: true}), glovebox.CodeNotFound)
	f.send(id, glovebox.Signal{Text: strings.Repeat("x", glovebox.MaxSignalText)})
	if n := len(f.pending(id)); n != 1 {
		t.Errorf("%d signals", n)
	}
}

func testSignalAtRelease(t *testing.T, h Harness) {
	f := open(t, h)
	id := f.create("t", "x")
	l := f.claim("w")
	f.send(id, glovebox.Signal{Text: "hello"})
	for range 2 {
		f.send(id, glovebox.Signal{Control: new(glovebox.ControlUser)})
	}
	f.send(id, glovebox.Signal{Cancel: true})
	if err := f.Release(f.ctx(), l, "bye"); err != nil {
		t.Fatal(err)
	}
	f.wantStatus(id, glovebox.StatusCancelled)
	want := []glovebox.EventType{glovebox.EventCreated, glovebox.EventClaimed, glovebox.EventReleased, glovebox.EventUserMessage, glovebox.EventControl, glovebox.EventFinished}
	if got := types(f.checkLog(id)); !slices.Equal(got, want) {
		t.Errorf("events are %v", got)
	}
	if s := f.pending(id); len(s) != 0 {
		t.Errorf("signals wait: %v", s)
	}
}

func testRaiseLimits(t *testing.T, h Harness) {
	f := open(t, h)
	raised := glovebox.DefaultLimits()
	raised.Steps *= 2
	same := glovebox.DefaultLimits()
	for name, c := range map[string]struct {
		status  glovebox.Status
		failure *glovebox.Failure
		signal  glovebox.Signal
		code    glovebox.Code
	}{
		"raised":        {glovebox.StatusError, limitFailure("steps"), glovebox.Signal{Limits: &raised}, ""},
		"not raised":    {glovebox.StatusError, limitFailure("steps"), glovebox.Signal{Limits: &same}, glovebox.CodeInvalid},
		"other failure": {glovebox.StatusError, &glovebox.Failure{Code: "model", Message: "x"}, glovebox.Signal{Limits: &raised}, glovebox.CodeConflict},
		"hard limit":    {glovebox.StatusError, limitFailure("memory_bytes"), glovebox.Signal{Limits: &raised}, glovebox.CodeConflict},
		"complete":      {glovebox.StatusComplete, nil, glovebox.Signal{Limits: &raised}, glovebox.CodeConflict},
		"text":          {glovebox.StatusError, limitFailure("steps"), glovebox.Signal{Text: "go on"}, glovebox.CodeConflict},
		"cancel":        {glovebox.StatusError, limitFailure("steps"), glovebox.Signal{Cancel: true}, glovebox.CodeConflict},
	} {
		id := f.create("t", name)
		l := f.claim("w")
		f.append(l, f.finished(c.status, c.failure))
		if err := f.SendSignal(f.ctx(), "t", id, c.signal); glovebox.CodeOf(err) != c.code {
			t.Errorf("%s: %v", name, err)
		}
		if c.code != "" {
			f.wantStatus(id, c.status)
			continue
		}
		j := f.wantStatus(id, glovebox.StatusPending)
		if j.Limits.Steps != raised.Steps || j.Failure != nil {
			t.Errorf("job is %s", mustJSON(j))
		}
		again := f.claim("w2")
		if again.JobID != id || again.Fence <= l.Fence {
			t.Errorf("lease is %v", again)
		}
		f.append(again, f.finished(glovebox.StatusComplete, nil))
		f.checkLog(id)
	}
}

// New limits that reach a job while it is stopping at the old ones count.
func testRaiseLimitsRace(t *testing.T, h Harness) {
	f := open(t, h)
	id := f.create("t", "x")
	l := f.claim("w")
	raised := glovebox.DefaultLimits()
	raised.Steps *= 2
	f.send(id, glovebox.Signal{Limits: &raised})
	j := f.append(l, f.finished(glovebox.StatusError, limitFailure("steps")))
	if j.Status != glovebox.StatusPending || j.Limits.Steps != raised.Steps {
		t.Errorf("job is %s", mustJSON(j))
	}
	f.checkLog(id)
}

func testWatch(t *testing.T, h Harness) {
	f := open(t, h)
	id := f.create("t", "x")
	ctx, cancel := context.WithCancel(f.ctx())
	ch := f.Watch(ctx, id)
	// Whoever reads until nothing is new and then waits sees every event.
	done := make(chan int)
	go func() {
		seen := int64(0)
		for range ch {
			events, err := f.Events(context.Background(), id, seen, 100)
			if err != nil {
				t.Error(err)
			}
			seen += int64(len(events))
			if seen == 102 {
				break
			}
		}
		done <- int(seen)
	}()
	l := f.claim("w")
	for range 100 {
		f.append(l, f.notice("x"))
	}
	select {
	case <-done:
	case <-f.ctx().Done():
		t.Fatal("the watcher missed events")
	}
	cancel()
	for range ch { // closed, perhaps after one more
	}
}

func testWatchMany(t *testing.T, h Harness) {
	f := open(t, h)
	f.create("t", "x")
	l := f.claim("w")
	const watchers = 1000
	ctx, cancel := context.WithCancel(f.ctx())
	defer cancel()
	var chans []<-chan struct{}
	for range watchers {
		chans = append(chans, f.Watch(ctx, l.JobID))
	}
	start := time.Now()
	f.append(l, f.notice("x"))
	for _, ch := range chans {
		<-ch
	}
	t.Logf("one append reached %d watchers in %v", watchers, time.Since(start))
	cancel()
	for _, ch := range chans {
		for range ch {
		}
	}
}

func testWake(t *testing.T, h Harness) {
	f := open(t, h)
	ctx, cancel := context.WithCancel(f.ctx())
	ch := f.Wake(ctx)
	id := f.create("t", "x")
	<-ch
	l := f.claim("w")
	f.send(id, glovebox.Signal{Text: "x"})
	<-ch
	if err := f.Release(f.ctx(), l, "x"); err != nil {
		t.Fatal(err)
	}
	<-ch
	f.claim("w")
	f.clock.Add(leaseLength) // an expired lease is claimable too
	<-ch
	cancel()
	for range ch {
	}
}

// A second store on the same place sees what the first does, and wakes.
func testOtherProcess(t *testing.T, h Harness) {
	f := open(t, h)
	other := f.another(h)
	wake := other.Wake(f.ctx())
	id := f.create("t", "x")
	<-wake
	watch := other.Watch(f.ctx(), id)
	l := f.claim("w")
	for i := range 5 {
		f.append(l, f.notice(fmt.Sprint(i)))
		j, err := other.Job(f.ctx(), "t", id)
		if err != nil || j.Seq != int64(3+i) {
			t.Fatalf("the other store is at %v, %v", j, err)
		}
		<-watch
	}
	if err := other.SendSignal(f.ctx(), "", id, glovebox.Signal{Text: "from there"}); err != nil {
		t.Fatal(err)
	}
	if s := f.pending(id); len(s) != 1 {
		t.Errorf("signals are %v", s)
	}
	var wg sync.WaitGroup
	for i, s := range []store.Store{f.Store, other} {
		for range 4 {
			wg.Go(func() {
				for range 10 {
					if _, err := s.Append(f.ctx(), l, []glovebox.Event{f.notice(fmt.Sprint("store ", i))}); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	wg.Wait()
	if n := len(f.checkLog(id)); n != 7+80 {
		t.Errorf("%d events", n)
	}
	if _, err := CheckLog(f.ctx(), other, id); err != nil {
		t.Error(err)
	}
	f.clock.Add(leaseLength)
	if got, err := other.Claim(f.ctx(), "w2", leaseLength); err != nil || got == nil || got.JobID != id {
		t.Fatalf("takeover: %v, %v", got, err)
	}
	_, err := f.Append(f.ctx(), l, []glovebox.Event{f.notice("late")})
	f.wantCode(err, glovebox.CodeFenced)
}
