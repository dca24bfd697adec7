package pool

import (
	"context"
	"errors"
	"maps"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest/guestd"
	"github.com/glovebox-dev/glovebox/internal/sandbox"
)

// stub is a driver whose machines are entries in a map.
type stub struct {
	t   *testing.T
	mu  sync.Mutex
	all map[sandbox.ID]sandbox.Info

	made  int   // machines, and not adopted ones
	adopt error // of every Adopt
	fail  error // of every Create
	tried chan struct{}
}

func newStub(t *testing.T) *stub {
	t.Helper()
	return &stub{t: t, all: make(map[sandbox.ID]sandbox.Info), tried: make(chan struct{}, 100)}
}

func (s *stub) Create(_ context.Context, p sandbox.Spec) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case s.tried <- struct{}{}:
	default:
	}
	if s.fail != nil {
		return s.fail
	}
	s.made++
	s.all[p.ID] = sandbox.Info{ID: p.ID, State: sandbox.Running, Labels: p.Labels, Start: "template"}
	return nil
}

func (s *stub) Dial(context.Context, sandbox.ID) (net.Conn, error) {
	d, err := guestd.New(guestd.Options{Root: s.t.TempDir()})
	if err != nil {
		return nil, err
	}
	s.t.Cleanup(func() { d.Close() })
	ours, theirs := net.Pipe()
	go d.ServeConn(theirs)
	return ours, nil
}

func (s *stub) List(context.Context) ([]sandbox.Info, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []sandbox.Info
	for _, i := range s.all {
		i.Labels = maps.Clone(i.Labels)
		out = append(out, i)
	}
	return out, nil
}

func (s *stub) Destroy(_ context.Context, id sandbox.ID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, id)
	return nil
}

func (s *stub) Adopt(_ context.Context, from sandbox.ID, p sandbox.Spec) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, ok := s.all[from]
	if s.adopt != nil {
		return s.adopt
	}
	if !ok {
		return glovebox.Errorf(glovebox.CodeNotFound, "gone")
	}
	delete(s.all, from)
	i.ID, i.Labels = p.ID, p.Labels
	s.all[p.ID] = i
	return nil
}

func (s *stub) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// running returns a pool that Run fills, with what is done at the end.
func running(t *testing.T, base *stub, o Options) *Driver {
	t.Helper()
	d := stopped(t, base, o)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); d.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return d
}

// filled returns a pool that Run has filled and fills no more, however long
// the test takes.
func filled(t *testing.T, base *stub, o Options) *Driver {
	t.Helper()
	d := stopped(t, base, o)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); d.Run(ctx) }()
	await(t, d, o.Size)
	cancel()
	<-done
	return d
}

func stopped(t *testing.T, base *stub, o Options) *Driver {
	t.Helper()
	o.Base = base
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	d, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil && !errors.Is(err, os.ErrClosed) && !errors.Is(err, os.ErrNotExist) {
			t.Error(err)
		}
	})
	return d
}

// await waits until the pool has n machines.
func await(t *testing.T, d *Driver, n int) {
	t.Helper()
	for d.Size() != n {
		select {
		case <-t.Context().Done():
			t.Fatal("given up")
		case <-time.After(time.Millisecond):
		}
	}
}

func create(t *testing.T, d *Driver, s sandbox.Spec) sandbox.Info {
	t.Helper()
	s.ID = sandbox.ID(glovebox.NewID())
	if err := d.Create(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	infos, err := d.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range infos {
		if i.ID == s.ID {
			return i
		}
	}
	t.Fatalf("%s is not listed", s.ID)
	return sandbox.Info{}
}

// Ready machines are not shown, are taken by what fits, and only by that.
func TestPool(t *testing.T) {
	t.Parallel()
	base := newStub(t)
	d := filled(t, base, Options{Size: 2, Image: "/image"})
	if infos, err := d.List(t.Context()); err != nil || len(infos) != 0 {
		t.Errorf("listed: %v, %v", infos, err)
	}
	i := create(t, d, sandbox.Spec{Labels: map[string]string{"job": "j"}})
	if i.Start != "pool" || len(i.Labels) != 1 || i.Labels["job"] != "j" || base.made != 2 {
		t.Errorf("it is listed as %+v, %d were made", i, base.made)
	}
	if c, err := d.Dial(t.Context(), i.ID); err != nil {
		t.Error(err)
	} else {
		c.Close()
	}
	if i := create(t, d, sandbox.Spec{Image: "/other"}); i.Start != "template" {
		t.Errorf("it is listed as %+v", i)
	}
	if d.Size() != 1 {
		t.Errorf("%d are left", d.Size())
	}
	base.set(func() { base.adopt = glovebox.Errorf(glovebox.CodeConflict, "other limits") })
	if i := create(t, d, sandbox.Spec{}); i.Start != "template" || d.Size() != 1 {
		t.Errorf("it is listed as %+v, and %d are left", i, d.Size())
	}
}

// A ready machine that died is not given away.
func TestDead(t *testing.T) {
	t.Parallel()
	base := newStub(t)
	d := filled(t, base, Options{Size: 1})
	base.set(func() { clear(base.all) })
	if i := create(t, d, sandbox.Spec{}); i.Start != "template" {
		t.Errorf("it is listed as %+v", i)
	}
}

// It is not filled while memory is short, templates are missing, or someone
// makes a machine, and not tried without end.
func TestDue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var free int64 = 100
		ready := true
		d := stopped(t, newStub(t), Options{Size: 1, MinFree: 50, Ready: func() bool { return ready }, available: func() int64 { return free }})
		if _, ok := d.due(); !ok {
			t.Error("nothing is due")
		}
		free = 49
		if wait, ok := d.due(); ok || wait <= 0 {
			t.Error("it is filled with too little memory")
		}
		free, ready = 100, false
		if wait, ok := d.due(); ok || wait <= 0 {
			t.Error("it is filled without a template")
		}
		ready = true
		end := d.begin()
		if wait, ok := d.due(); ok || wait <= 0 {
			t.Error("it is filled while a machine is being made")
		}
		end()
		wait, ok := d.due()
		if ok || wait <= 0 || wait > quiet {
			t.Error("it is filled at once afterwards")
		}
		time.Sleep(wait) //nolint:forbidigo // of the bubble
		if _, ok := d.due(); !ok {
			t.Error("it is not filled when it is quiet")
		}
	})
}

// A failure is not repeated at once, and the longer it lasts the later.
func TestFillFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		base := newStub(t)
		base.fail = errors.New("broken")
		d := running(t, base, Options{Size: 1})
		for _, wait := range []time.Duration{firstRetry, 2 * firstRetry} {
			synctest.Wait()
			if n := len(base.tried); n != 1 {
				t.Fatalf("it was tried %d times", n)
			}
			<-base.tried
			for range 10 {
				d.look()
			}
			time.Sleep(wait - time.Nanosecond) //nolint:forbidigo // of the bubble
			synctest.Wait()
			if n := len(base.tried); n != 0 {
				t.Fatalf("it was tried %d times before %v", n, wait)
			}
			time.Sleep(time.Nanosecond) //nolint:forbidigo // of the bubble
		}
	})
}

// At the end nothing is left, and what one left that was killed is removed by
// the next; those of one that lives are left alone.
func TestOwners(t *testing.T) {
	t.Parallel()
	base, dir := newStub(t), t.TempDir()
	alive := running(t, base, Options{Size: 1, Dir: dir})
	await(t, alive, 1)
	dead, theirs := sandbox.ID(glovebox.NewID()), glovebox.NewID()
	base.set(func() {
		base.all[dead] = sandbox.Info{ID: dead, State: sandbox.Running, Labels: map[string]string{ownerLabel: theirs}}
	})
	if err := os.WriteFile(filepath.Join(dir, theirs+".lock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	next := running(t, base, Options{Size: 1, Dir: dir})
	await(t, next, 1)
	infos, _ := base.List(t.Context())
	if len(infos) != 2 || alive.Size() != 1 {
		t.Errorf("there are %v", infos)
	}
	for _, i := range infos {
		if i.ID == dead {
			t.Error("what a dead one left is still there")
		}
	}
	if locks, _ := filepath.Glob(filepath.Join(dir, "*")); len(locks) != 2 {
		t.Errorf("locks: %v", locks)
	}
}

// Close destroys what is ready.
func TestClose(t *testing.T) {
	t.Parallel()
	base, dir := newStub(t), t.TempDir()
	d, err := New(Options{Base: base, Dir: dir, Size: 2})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); d.Run(ctx) }()
	await(t, d, 2)
	cancel()
	<-done
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if infos, _ := base.List(t.Context()); len(infos) != 0 {
		t.Errorf("left: %v", infos)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 0 {
		t.Errorf("left: %v", entries)
	}
}
