package template

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest"
	"github.com/glovebox-dev/glovebox/internal/guest/guestd"
	"github.com/glovebox-dev/glovebox/internal/leaktest"
	"github.com/glovebox-dev/glovebox/internal/sandbox"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// stub is a driver whose machines are entries in a map, and whose templates
// are empty directories.
type stub struct {
	t   *testing.T
	mu  sync.Mutex
	key string
	all map[sandbox.ID]sandbox.Info

	restore   error // of a Create from a template
	cold      error // of one without
	snapshots int
}

func newStub(t *testing.T) *stub {
	t.Helper()
	return &stub{t: t, key: "k1", all: make(map[sandbox.ID]sandbox.Info)}
}

func (s *stub) TemplateKey() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.key, nil
}

func (s *stub) Create(_ context.Context, p sandbox.Spec) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := sandbox.Info{ID: p.ID, State: sandbox.Running, Labels: p.Labels, Start: "cold"}
	if p.Template != "" {
		if s.restore != nil {
			return s.restore
		}
		i.Start = "template"
	} else if s.cold != nil {
		return s.cold
	}
	s.all[p.ID] = i
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

func (s *stub) Snapshot(ctx context.Context, id sandbox.ID, dir string) error {
	s.mu.Lock()
	s.snapshots++
	s.mu.Unlock()
	return errors.Join(os.Mkdir(dir, 0o700), s.Destroy(ctx, id))
}

func (s *stub) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// testDriver returns a driver around base. Its machines need no warming.
func testDriver(t *testing.T, base *stub, dir string, more ...func(*Options)) *Driver {
	t.Helper()
	image := filepath.Join(dir, "image.erofs")
	if _, err := os.Stat(image); err != nil {
		if err := os.WriteFile(image, []byte("image"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o := Options{Base: base, Dir: filepath.Join(dir, "templates"), Image: image, Limits: glovebox.Limits{DiskBytes: 1 << 30, Processes: 10},
		Prepare: func(context.Context, *guest.Client, *slog.Logger) error { return nil }}
	for _, f := range more {
		f(&o)
	}
	d, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// made creates a machine and returns what is listed of it.
func made(t *testing.T, d *Driver, s sandbox.Spec) sandbox.Info {
	t.Helper()
	if s.ID == "" {
		s.ID = sandbox.ID(glovebox.NewID())
	}
	if s.Limits == (glovebox.Limits{}) {
		s.Limits = d.o.Limits
	}
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

// wantCold checks that a machine started cold and says why.
func wantCold(t *testing.T, i sandbox.Info, why string) {
	t.Helper()
	if i.Start != "cold" || !strings.Contains(i.StartNote, why) || len(i.Labels) != 0 && i.Labels[noteLabel] != "" {
		t.Errorf("it is listed as %+v, want one that started cold since %q", i, why)
	}
}

// Machines start cold until the template is there, and then from it.
func TestStart(t *testing.T) {
	t.Parallel()
	base := newStub(t)
	d := testDriver(t, base, t.TempDir())
	wantCold(t, made(t, d, sandbox.Spec{Labels: map[string]string{"job": "j"}}), "there is no template")
	if err := d.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	if i := made(t, d, sandbox.Spec{Labels: map[string]string{"job": "j"}}); i.Start != "template" || i.StartNote != "" || i.Labels["job"] != "j" {
		t.Errorf("it is listed as %+v", i)
	}
	other := d.o.Limits
	other.DiskBytes *= 2
	wantCold(t, made(t, d, sandbox.Spec{Limits: other}), "disk")
	other = d.o.Limits
	other.Processes = 11
	wantCold(t, made(t, d, sandbox.Spec{Limits: other}), "processes")
	wantCold(t, made(t, d, sandbox.Spec{Image: "/another.erofs"}), "image")
	other = d.o.Limits
	other.MemoryBytes, other.CPUMillis = 1<<30, 500 // these two can be others
	if i := made(t, d, sandbox.Spec{Limits: other}); i.Start != "template" {
		t.Errorf("it is listed as %+v", i)
	}
	if list, err := List(d.o.Dir); err != nil || len(list) != 1 || list[0].Key != d.State().Key {
		t.Errorf("listed: %v, %v", list, err)
	}
	if !d.State().Ready || !d.Ready() {
		t.Errorf("its state is %+v", d.State())
	}
}

// A template is made anew when what it depends on changes; the one that was
// used lately stays for a while, in case both are wanted.
func TestKey(t *testing.T) {
	t.Parallel()
	base, dir := newStub(t), t.TempDir()
	d := testDriver(t, base, dir)
	if err := d.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	first := d.State().Key
	for _, change := range []func(){
		func() { base.set(func() { base.key = "k2" }) },
		func() { _ = os.WriteFile(d.o.Image, []byte("another image"), 0o600) },
		func() { d.o.Settings.Env = map[string]string{"A": "B"} },
		func() { d.o.Limits.Processes++ },
	} {
		before := d.State().Key
		change()
		wantCold(t, made(t, d, sandbox.Spec{}), "there is no template")
		if err := d.Ensure(t.Context()); err != nil {
			t.Fatal(err)
		}
		if d.State().Key == before {
			t.Error("the key is the same")
		}
	}
	// The oldest was not used for long.
	long := time.Now().Add(-2 * keepUnused)
	if err := os.Chtimes(filepath.Join(d.o.Dir, first), long, long); err != nil {
		t.Fatal(err)
	}
	if err := d.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	if exists(filepath.Join(d.o.Dir, first)) {
		t.Error("a template that nobody uses is kept")
	}
	if base.snapshots != 5 {
		t.Errorf("%d templates were made", base.snapshots)
	}
}

// One that can't be used is set aside and made anew, and the machine that was
// to start from it starts cold.
func TestDamaged(t *testing.T) {
	t.Parallel()
	base := newStub(t)
	d := testDriver(t, base, t.TempDir())
	if err := d.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	base.set(func() {
		base.restore = &glovebox.Error{Code: glovebox.CodeUnavailable, Msg: "pages are damaged", Err: sandbox.ErrTemplate}
	})
	wantCold(t, made(t, d, sandbox.Spec{}), "pages are damaged")
	base.set(func() { base.restore = nil })
	wantCold(t, made(t, d, sandbox.Spec{}), "there is no template")
	if err := d.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	if i := made(t, d, sandbox.Spec{}); i.Start != "template" {
		t.Errorf("it is listed as %+v", i)
	}
	if entries, _ := os.ReadDir(d.o.Dir); len(entries) != 2 { // the lock, too
		t.Errorf("the directory has %v", entries)
	}
}

// A restore that fails for another reason costs the template nothing at once,
// but when it goes on; what is no fault of the template never does.
func TestBlame(t *testing.T) {
	t.Parallel()
	base := newStub(t)
	d := testDriver(t, base, t.TempDir())
	if err := d.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	late := &glovebox.Error{Code: glovebox.CodeUnavailable, Msg: "it was given up"}
	base.set(func() { base.restore, base.cold = late, late })
	for range 2 * maxFailures {
		if err := d.Create(t.Context(), sandbox.Spec{ID: sandbox.ID(glovebox.NewID()), Limits: d.o.Limits}); err == nil {
			t.Fatal("it was made")
		}
	}
	base.set(func() { base.cold = nil })
	for range maxFailures {
		if !d.Ready() {
			t.Fatal("the template is gone too early")
		}
		wantCold(t, made(t, d, sandbox.Spec{}), "it was given up")
	}
	if d.Ready() {
		t.Error("a template that no machine starts from is kept")
	}
}

// What can't be made is tried again, and told.
func TestFailure(t *testing.T) {
	t.Parallel()
	base := newStub(t)
	broken := errors.New("the display does not start")
	d := testDriver(t, base, t.TempDir(), func(o *Options) {
		o.Prepare = func(context.Context, *guest.Client, *slog.Logger) error { return broken }
	})
	if err := d.Ensure(t.Context()); !errors.Is(err, broken) {
		t.Fatalf("it fails with %v", err)
	}
	wantCold(t, made(t, d, sandbox.Spec{}), "the display does not start")
	if infos, _ := base.List(t.Context()); len(infos) != 1 { // the one just made
		t.Errorf("the machine that was to become the template is left: %v", infos)
	}
	if entries, _ := os.ReadDir(d.o.Dir); len(entries) != 1 {
		t.Errorf("the directory has %v", entries)
	}
}

// Without an image there is no template, and the note says so.
func TestNoImage(t *testing.T) {
	t.Parallel()
	d := testDriver(t, newStub(t), t.TempDir(), func(o *Options) { o.Image += ".missing" })
	if err := d.Ensure(t.Context()); glovebox.CodeOf(err) != glovebox.CodeUnavailable {
		t.Errorf("it fails with %v", err)
	}
	wantCold(t, made(t, d, sandbox.Spec{}), "image is missing")
}

// Of many processes one makes it, and the others use it.
func TestOneMaker(t *testing.T) {
	t.Parallel()
	base, dir := newStub(t), t.TempDir()
	var wg sync.WaitGroup
	for range 4 {
		d := testDriver(t, base, dir)
		wg.Go(func() {
			if err := d.Ensure(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if base.snapshots != 1 {
		t.Errorf("%d were made", base.snapshots)
	}
}

// What a maker leaves that died is removed by the next one.
func TestLeft(t *testing.T) {
	t.Parallel()
	base := newStub(t)
	d := testDriver(t, base, t.TempDir())
	left := sandbox.ID(glovebox.NewID())
	base.all[left] = sandbox.Info{ID: left, State: sandbox.Running, Labels: map[string]string{makerLabel: "x"}}
	for _, name := range []string{"old" + aside + "1", "old" + partial} {
		if err := os.MkdirAll(filepath.Join(d.o.Dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if infos, err := d.List(t.Context()); err != nil || len(infos) != 0 {
		t.Errorf("it is shown: %v, %v", infos, err)
	}
	if err := d.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, ok := base.all[left]; ok {
		t.Error("the machine is left")
	}
	if entries, _ := os.ReadDir(d.o.Dir); len(entries) != 2 {
		t.Errorf("the directory has %v", entries)
	}
}

// Run makes the template without being asked, and again when it was set aside.
func TestRun(t *testing.T) {
	t.Parallel()
	base := newStub(t)
	states := make(chan State, 16)
	d := testDriver(t, base, t.TempDir(), func(o *Options) { o.Changed = func(s State) { states <- s } })
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); d.Run(ctx) }()
	defer func() { cancel(); <-done }()
	for s := range states {
		if s.Ready {
			break
		}
	}
	base.set(func() {
		base.restore = &glovebox.Error{Code: glovebox.CodeUnavailable, Msg: "damaged", Err: sandbox.ErrTemplate}
	})
	wantCold(t, made(t, d, sandbox.Spec{}), "damaged")
	base.set(func() { base.restore = nil })
	for s := range states {
		if s.Ready {
			break
		}
	}
	if i := made(t, d, sandbox.Spec{}); i.Start != "template" {
		t.Errorf("it is listed as %+v", i)
	}
}
