package pool_test

import (
	"context"
	"crypto/rand"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest"
	"github.com/glovebox-dev/glovebox/internal/guest/guestd"
	"github.com/glovebox-dev/glovebox/internal/sandbox"
	"github.com/glovebox-dev/glovebox/internal/sandbox/gvisor"
	"github.com/glovebox-dev/glovebox/internal/sandbox/sandboxtest"
	"github.com/glovebox-dev/glovebox/internal/sandbox/template"
)

// The test binary is the guest of its sandboxes, with the real daemon.
func TestMain(m *testing.M) {
	gvisor.Intercept()
	if len(os.Args) > 2 && os.Args[1] == "guest" {
		os.Exit(guestd.Main(os.Args[2:]))
	}
	_, cleanup, err := sandboxtest.PlainBinary()
	if err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		cleanup()
		os.Exit(code)
	}))
}

// tb is what tests and benchmarks have.
type tb = testing.TB

// logOf writes to a test's log when GLOVEBOX_TEST_LOG is set.
func logOf() *slog.Logger {
	var w io.Writer = io.Discard
	if os.Getenv("GLOVEBOX_TEST_LOG") != "" {
		w = os.Stderr
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// newBase returns gVisor with the machine image.
func newBase(t tb) (d *gvisor.Driver, dir, image string) {
	t.Helper()
	image, why := sandboxtest.Image()
	if why != "" {
		t.Skip(why)
	}
	dir, err := os.MkdirTemp("", "pool")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	plain, _, _ := sandboxtest.PlainBinary()
	d, err = gvisor.New(gvisor.Options{StateDir: filepath.Join(dir, "gvisor"), DefaultImage: image, GuestBinary: plain, Runsc: plain})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		infos, err := d.List(context.Background())
		if err != nil {
			t.Error(err)
		}
		for _, i := range infos {
			_ = d.Destroy(context.Background(), i.ID)
		}
		d.Close()
	})
	return d, dir, image
}

// newTemplate returns templates around base, with one made.
func newTemplate(t tb, base *gvisor.Driver, dir, image string) *template.Driver {
	t.Helper()
	d, err := template.New(template.Options{Base: base, Dir: filepath.Join(dir, "templates"), Image: image, Limits: glovebox.DefaultLimits(), Log: logOf()})
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	if err := d.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("the template was made in %v", time.Since(start))
	return d
}

// machine is a sandbox with its guest bound.
type machine struct {
	id sandbox.ID
	*guest.Client
}

// start makes a machine as a worker does, until it is bound.
func start(t tb, d sandbox.Driver) machine {
	t.Helper()
	ctx := t.Context()
	id := sandbox.ID(glovebox.NewID())
	if err := d.Create(ctx, sandbox.Spec{ID: id, Limits: glovebox.DefaultLimits(), Labels: map[string]string{"job": "j"}}); err != nil {
		t.Fatal(err)
	}
	conn, err := d.Dial(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	c, err := guest.NewClient(ctx, conn, guest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := guest.Settings{Hostname: "glovebox", Now: time.Now(), Secret: make([]byte, 32), Seed: make([]byte, 32)}
	rand.Read(s.Secret)
	rand.Read(s.Seed)
	if err := c.Bind(ctx, s); err != nil && glovebox.CodeOf(err) != glovebox.CodeUnavailable {
		t.Fatal(err)
	}
	return machine{id, c}
}

// end ends a machine.
func (m machine) end(t tb, d sandbox.Driver) {
	t.Helper()
	m.Close()
	if err := d.Destroy(context.Background(), m.id); err != nil {
		t.Error(err)
	}
}

// info returns what a driver lists of a machine.
func info(t tb, d sandbox.Driver, id sandbox.ID) sandbox.Info {
	t.Helper()
	infos, err := d.List(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range infos {
		if i.ID == id {
			return i
		}
	}
	return sandbox.Info{}
}

// From the template a machine is there with what was started in it, and the
// pool gives it away.
func TestReal(t *testing.T) {
	base, dir, image := newBase(t)
	tmpl := newTemplate(t, base, dir, image)
	for range 3 {
		begun := time.Now()
		m := start(t, tmpl)
		bound := time.Since(begun)
		if err := m.StartServices(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Logf("bound after %v, services after %v", bound, time.Since(begun))
		states, err := m.Services(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range states {
			t.Logf("%+v", s)
		}
		if i := info(t, tmpl, m.id); i.Start != "template" || i.StartNote != "" {
			t.Errorf("it is listed as %+v", i)
		}
		m.end(t, tmpl)
	}
}

// What the parts of a start from the template take.
func TestWhere(t *testing.T) {
	base, dir, image := newBase(t)
	tmpl := newTemplate(t, base, dir, image)
	ctx := t.Context()
	for range 6 {
		var took []time.Duration
		begun := time.Now()
		lap := func() { took = append(took, time.Since(begun).Round(100*time.Microsecond)) }
		id := sandbox.ID(glovebox.NewID())
		if err := tmpl.Create(ctx, sandbox.Spec{ID: id, Limits: glovebox.DefaultLimits()}); err != nil {
			t.Fatal(err)
		}
		lap()
		conn, err := tmpl.Dial(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		lap()
		c, err := guest.NewClient(ctx, conn, guest.Options{})
		if err != nil {
			t.Fatal(err)
		}
		lap()
		s := guest.Settings{Hostname: "glovebox", Now: time.Now(), Secret: make([]byte, 32), Seed: make([]byte, 32)}
		_ = c.Bind(ctx, s)
		lap()
		_ = c.Bind(ctx, s)
		lap()
		_ = c.StartServices(ctx)
		lap()
		t.Log(took)
		c.Close()
		_ = tmpl.Destroy(ctx, id)
	}
}
