package worker

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/blob"
	"github.com/glovebox-dev/glovebox/internal/llm"
	"github.com/glovebox-dev/glovebox/internal/sandbox"
	"github.com/glovebox-dev/glovebox/internal/store"
)

// What crashes left is removed; what may still be needed is not.
func TestSweep(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.model = script{finish("test -d .")}
	running := w.submit()
	if _, err := w.store.Claim(w.ctx(), "other", time.Hour); err != nil {
		t.Fatal(err)
	}
	ended := w.submit()
	if err := w.store.SendSignal(w.ctx(), "", ended, glovebox.Signal{Cancel: true}); err != nil {
		t.Fatal(err)
	}
	var keep sandbox.ID
	for _, job := range []string{running, ended, glovebox.NewID()} {
		id := sandbox.ID(glovebox.NewID())
		if err := w.driver.Create(w.ctx(), sandbox.Spec{ID: id, Labels: map[string]string{jobLabel: job}}); err != nil {
			t.Fatal(err)
		}
		if job == running {
			keep = id
		}
	}
	worker := New(w.options())
	worker.sweep(w.ctx())
	infos, err := w.driver.List(w.ctx())
	if err != nil || len(infos) != 1 || infos[0].ID != keep {
		t.Errorf("left: %v, %v", infos, err)
	}
}

// What a crash left is removed also by a worker that is stopped before it could
// begin to look for it.
func TestSweepOfAWorkerThatStops(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if err := w.driver.Create(w.ctx(), sandbox.Spec{ID: sandbox.ID(glovebox.NewID()), Labels: map[string]string{jobLabel: glovebox.NewID()}}); err != nil {
		t.Fatal(err)
	}
	o := w.options()
	o.Presence, o.Drain = filepath.Join(t.TempDir(), "workers"), time.Minute
	died, err := announce(o.Presence, "died")
	if err != nil {
		t.Fatal(err)
	}
	unlockFile(died.file)
	ctx, stop := context.WithCancel(t.Context())
	o.Driver = &stopper{Driver: o.Driver, stop: stop}
	worker := New(o)
	if err := worker.Start(ctx); err != nil {
		t.Fatal(err)
	}
	w.awaitNoSandbox(worker)
	if left, err := filepath.Glob(filepath.Join(o.Presence, "*")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// stopper is a driver that has the worker stopped when it is first looked at.
type stopper struct {
	sandbox.Driver
	stop func()
}

func (s *stopper) List(ctx context.Context) ([]sandbox.Info, error) {
	s.stop()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return s.Driver.List(ctx)
}

// A worker that looks for dead ones again and again never takes itself for one.
func TestSweepsLeaveTheLivingAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.model = script{shell("for i in 1 2 3 4 5 6; do sleep 0.1; done"), finish("test -d .")}
	o := w.options()
	o.Presence, o.Sweep = filepath.Join(t.TempDir(), "workers"), 20*time.Millisecond
	w.start(o)
	if job := w.awaitEnd(w.submit()); job.Status != glovebox.StatusComplete || job.Attempts != 1 {
		t.Errorf("the job is %s after %d claims, want complete after one", job.Status, job.Attempts)
	}
}

// The sandbox of a job that another process made and died over is not taken
// for the job's, since nobody knows how far it got.
func TestStrayIsRemoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.model = script{shell("ls"), finish("test -d .")}
	id := w.submit()
	if err := w.driver.Create(w.ctx(), sandbox.Spec{ID: sandbox.ID(glovebox.NewID()), Labels: map[string]string{jobLabel: id}}); err != nil {
		t.Fatal(err)
	}
	worker := w.start(w.options())
	w.awaitEnd(id)
	w.awaitNoSandbox(worker)
}

func TestEgressIsRecorded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	worker := New(w.options())
	id := w.submit()
	lease, err := w.store.Claim(w.ctx(), "w1", time.Hour)
	if err != nil || lease == nil {
		t.Fatal(err)
	}
	l := &life{}
	l.work, l.kill = context.WithCancelCause(t.Context())
	r := newRun(worker, l, *lease)
	log := &egressLog{h: r.host}
	var many []glovebox.EgressAttempted
	for i := range maxEgressEvents + 500 {
		many = append(many, glovebox.EgressAttempted{Host: "h", Port: 443, Allowed: i%2 == 0, Cached: i%4 == 0, Count: 2, BytesDown: 10})
	}
	log.flush(many)
	log.close()
	got := data[glovebox.EgressAttempted](w, id, glovebox.EventEgress)
	var count, bytes int64
	for _, a := range got {
		count, bytes = count+a.Count, bytes+a.BytesDown
	}
	if len(got) != maxEgressEvents+3 || count != int64(2*len(many)) || bytes != int64(10*len(many)) {
		t.Errorf("%d events stand for %d attempts and %d bytes", len(got), count, bytes)
	}
}

// faultyStore fails where it is told to.
type faultyStore struct {
	store.Store
	append func(events []glovebox.Event) error
	renew  func() error
}

func (s *faultyStore) Append(ctx context.Context, l store.Lease, events []glovebox.Event, consume ...int64) (*glovebox.Job, error) {
	if s.append != nil {
		if err := s.append(events); err != nil {
			return nil, err
		}
	}
	return s.Store.Append(ctx, l, events, consume...)
}

func (s *faultyStore) Renew(ctx context.Context, l store.Lease, d time.Duration) error {
	err := s.Store.Renew(ctx, l, d)
	if s.renew != nil && err == nil {
		return s.renew()
	}
	return err
}

// A disk that is full for a while: the job ends, with a cause that its user
// understands, as soon as that can be written; the worker goes on.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.model = script{shell("echo hello > hello.txt"), finish("test -d .")}
	full := glovebox.Errorf(glovebox.CodeUnavailable, "the disk is full")
	var mu sync.Mutex
	failures := 0
	s := &faultyStore{Store: w.store}
	s.append = func(events []glovebox.Event) error {
		mu.Lock()
		defer mu.Unlock()
		started := slices.ContainsFunc(events, func(e glovebox.Event) bool { return e.Type == glovebox.EventToolStarted })
		if started && failures < storeTries {
			failures++
			return full
		}
		if events[len(events)-1].Type == glovebox.EventFinished && failures < storeTries+2 {
			failures++
			return full
		}
		return nil
	}
	o := w.options()
	o.Store = s
	worker := w.start(o)
	j := w.awaitEnd(w.submit())
	if j.Status != glovebox.StatusError || j.Failure.Code != "storage" || !strings.Contains(j.Failure.Message, "the disk is full") {
		t.Errorf("job is %s", mustJSON(j))
	}
	if j := w.awaitEnd(w.submit()); j.Status != glovebox.StatusComplete {
		t.Errorf("the next job is %s", mustJSON(j))
	}
	w.awaitNoSandbox(worker)
}

// brokenBlobs has no room.
type brokenBlobs struct{ blob.Store }

func (brokenBlobs) Put(_ context.Context, _ string, r io.Reader, _ int64) (blob.Info, error) {
	r.Read(make([]byte, 10))
	return blob.Info{}, &glovebox.Error{Code: glovebox.CodeInternal, Msg: "the disk is full", Hint: "free some space"}
}

func TestNoRoomForArtifact(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.model = script{finish("test -d .")}
	o := w.options()
	o.Blobs = brokenBlobs{w.blobs}
	worker := w.start(o)
	j := w.awaitEnd(w.submit())
	if j.Failure == nil || !strings.Contains(j.Failure.Message, "the disk is full") || j.Failure.Hint != "free some space" {
		t.Errorf("job is %s", mustJSON(j))
	}
	w.awaitNoSandbox(worker)
}

func TestPanicEndsTheJobAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.model = script{finish("test -d .")}
	o := w.options()
	models := o.Models
	panics := true
	o.Models = func(ctx context.Context, name string) (llm.Model, llm.Info, error) {
		if panics {
			panics = false
			panic("oh")
		}
		return models(ctx, name)
	}
	w.start(o)
	if j := w.awaitEnd(w.submit()); j.Failure == nil || j.Failure.Code != "internal" {
		t.Errorf("job is %s", mustJSON(j))
	}
	if j := w.awaitEnd(w.submit()); j.Status != glovebox.StatusComplete {
		t.Errorf("the next job is %s", mustJSON(j))
	}
}

func TestSaveAndLoad(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	worker := New(w.options())
	h := newHost(&run{w: worker, o: &worker.o, lease: store.Lease{JobID: glovebox.NewID()}})
	handle, err := h.Save(t.Context(), []byte("0123456789"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		offset, limit int64
		want          string
	}{{0, 100, "0123456789"}, {2, 3, "234"}, {9, 5, "9"}, {10, 5, ""}, {99, 5, ""}, {0, 0, ""}, {-1, 5, ""}} {
		b, size, err := h.load(t.Context(), handle, c.offset, c.limit)
		if err != nil || size != 10 || string(b) != c.want {
			t.Errorf("%v: %q, %d, %v", c, b, size, err)
		}
	}
	for _, bad := range []string{"", "out-", "out-x", "../../x", "out-" + glovebox.NewID(), handle + "/x"} {
		if _, _, err := h.load(t.Context(), bad, 0, 1); glovebox.CodeOf(err) != glovebox.CodeNotFound {
			t.Errorf("%q: %v", bad, err)
		}
	}
	other := newHost(&run{w: worker, o: &worker.o, lease: store.Lease{JobID: glovebox.NewID()}})
	if _, _, err := other.load(t.Context(), handle, 0, 1); glovebox.CodeOf(err) != glovebox.CodeNotFound {
		t.Errorf("another job's output: %v", err)
	}
}

// Start and Stop, in any order and from many goroutines.
func TestStartStop(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.model = script{finish("test -d .")}
	worker := New(w.options())
	if err := worker.Stop(t.Context()); err != nil {
		t.Errorf("stopping before the start: %v", err)
	}
	for range 20 {
		if err := worker.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := worker.Start(t.Context()); err == nil {
			t.Error("started twice")
		}
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() { worker.Stop(context.Background()) })
		}
		wg.Wait()
	}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 20 {
				if i%2 == 0 {
					worker.Start(context.Background())
				} else {
					worker.Stop(context.Background())
				}
			}
		})
	}
	wg.Wait()
	worker.Stop(context.Background())
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := worker.Start(cancelled); !errors.Is(err, context.Canceled) {
		t.Errorf("started with a context that has ended: %v", err)
	}
	ctx, end := context.WithCancel(t.Context())
	if err := worker.Start(ctx); err != nil {
		t.Fatal(err)
	}
	id := w.submit()
	w.awaitEnd(id)
	end()
	if err := worker.Stop(t.Context()); err != nil || worker.Running() != 0 {
		t.Errorf("%v, %d run", err, worker.Running())
	}
}

func TestConcurrency(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.model = script{shell("echo hello > hello.txt"), finish("test -e hello.txt")}
	o := w.options()
	o.Concurrency = 3
	worker := w.start(o)
	var ids []string
	for range 8 {
		ids = append(ids, w.submit())
	}
	for _, id := range ids {
		if j := w.awaitEnd(id); j.Status != glovebox.StatusComplete {
			t.Errorf("job is %s", mustJSON(j))
		}
	}
	w.awaitNoSandbox(worker)
	left, err := filepath.Glob(filepath.Join(filepath.Dir(w.driver.Root("x")), "..", "*"))
	if err != nil || len(left) != 0 {
		t.Errorf("L7: left: %v, %v", left, err)
	}
}
