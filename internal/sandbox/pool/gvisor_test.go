package pool_test

import (
	"context"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest"
	"github.com/glovebox-dev/glovebox/internal/guest/guestd"
	"github.com/glovebox-dev/glovebox/internal/sandbox"
	"github.com/glovebox-dev/glovebox/internal/sandbox/gvisor"
	"github.com/glovebox-dev/glovebox/internal/sandbox/pool"
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
	sandboxtest.Run(m, cleanup)
}

// tb is what tests and benchmarks have.
type tb = testing.TB

// logOf writes to a test's log when GLOVEBOX_TEST_LOG is set.
func logOf() *slog.Logger {
	w := io.Discard
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
	var secret []byte
	if g, ok := d.(sandbox.Greeter); ok {
		secret = g.Secret(id)
	}
	s := guest.Settings{}.OfMachine(time.Now(), secret)
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

// mustDiffer are those of collect without which a comparison of machines would
// prove little.
var mustDiffer = []string{
	"secret of display", "secret of jupyter", "display's password", "jupyter's token", "kernels' keys",
	"machine-id", "uuid", "urandom", "new process, python", "kernel, python",
}

// collect has a machine say what must differ between machines.
func collect(t tb, m machine) map[string]string {
	t.Helper()
	ctx := t.Context()
	shown := map[string]string{
		"secret of display": m.ServiceSecret(guest.ServiceDisplay),
		"secret of jupyter": m.ServiceSecret(guest.ServiceJupyter),
	}
	for what, script := range map[string]string{
		"machine-id":          "cat /etc/machine-id",
		"uuid":                "cat /proc/sys/kernel/random/uuid",
		"urandom":             "head -c 16 /dev/urandom | od -An -tx1",
		"new process, python": "python3 -c 'import random, uuid, os, secrets; print(random.random(), uuid.uuid4(), os.urandom(8), secrets.token_hex(8))'",
		"openssl":             "openssl rand -hex 16",
		"display's password":  "od -An -tx1 /run/glovebox/secrets/display",
		"jupyter's token":     "cat /run/glovebox/secrets/jupyter",
		"kernels' keys":       "cat /home/agent/.local/share/jupyter/runtime/kernel-*.json /run/glovebox/kernels/*.json 2>/dev/null | grep -o '\"key\": *\"[^\"]*\"' | sort",
	} {
		st, out, err := m.Run(ctx, guest.Command{ID: glovebox.NewID(), Args: []string{"bash", "-c", script}, Root: true, Dir: "/", NoStdin: true}, 0)
		if err != nil {
			t.Fatal(err)
		}
		if st.ExitCode == 0 && len(out) > 0 {
			shown[what] = string(out)
		}
	}
	cell := guest.Cell{Language: "python", Code: "import random, uuid, os, secrets\nprint(random.random(), uuid.uuid4(), os.urandom(8), secrets.token_hex(8))\n" +
		"try:\n import numpy\n print(numpy.random.random())\nexcept ImportError: pass\n"}
	var text strings.Builder
	if _, err := m.Execute(ctx, cell, func(o guest.CellOutput) { text.WriteString(o.Text) }); err == nil && text.Len() > 0 {
		shown["kernel, python"] = text.String()
	}
	return shown
}

// Machines from one template have what was started in it, and share no
// secret, no key and no random number.
func TestRestored(t *testing.T) {
	base, dir, image := newBase(t)
	tmpl := newTemplate(t, base, dir, image)
	seen := make(map[string]int)
	for n := range 3 {
		begun := time.Now()
		m := start(t, tmpl)
		bound := time.Since(begun)
		if err := m.StartServices(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Logf("bound after %v, services after %v", bound, time.Since(begun))
		if i := info(t, tmpl, m.id); i.Start != "template" || i.StartNote != "" {
			t.Errorf("it is listed as %+v", i)
		}
		compare(t, seen, n, collect(t, m))
		m.end(t, tmpl)
	}
}

// compare compares what machine n showed with what others did.
func compare(t *testing.T, seen map[string]int, n int, shown map[string]string) {
	t.Helper()
	for _, what := range mustDiffer {
		if shown[what] == "" {
			t.Errorf("machine %d did not say its %s, so that is not compared", n, what)
		}
	}
	for what, text := range shown {
		if other, ok := seen[what+text]; ok {
			t.Errorf("machines %d and %d have the same %s: %s", other, n, what, text)
		}
		seen[what+text] = n
	}
	if n == 0 {
		t.Logf("compared: %v", slices.Sorted(maps.Keys(shown)))
	}
}

// The pool gives ready machines away, fills itself again, leaves nothing, and
// removes what one that was killed left.
func TestPoolOnGVisor(t *testing.T) {
	base, dir, image := newBase(t)
	tmpl := newTemplate(t, base, dir, image)
	p := newPool(t, tmpl, dir, image, 2)
	for p.Size() < 2 {
		awaitChange(t)
	}
	if got := p.Secret("nobody"); got != nil {
		t.Errorf("a machine that the pool does not know has the secret %x", got)
	}
	if infos, err := p.List(t.Context()); err != nil || len(infos) != 0 {
		t.Errorf("ready machines are listed: %v, %v", infos, err)
	}
	m := start(t, p)
	if i := info(t, p, m.id); i.Start != "pool" || i.Labels["job"] != "j" || len(i.Labels) != 1 {
		t.Errorf("it is listed as %+v", i)
	}
	states, err := m.Services(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range states {
		if s.Name == guest.ServiceDisplay && !s.Healthy {
			t.Errorf("%+v", s)
		}
	}
	if got := p.Secret(m.id); got != nil {
		t.Error("the secret of a machine is told twice")
	}
	// Each was bound before it was wanted, and is its job's own all the same.
	seen := make(map[string]int)
	compare(t, seen, 0, collect(t, m))
	other := start(t, p)
	if i := info(t, p, other.id); i.Start != "pool" {
		t.Errorf("the second is listed as %+v", i)
	}
	compare(t, seen, 1, collect(t, other))
	other.end(t, p)
	m.end(t, p)
}

// awaitChange waits a moment for what happens in the background.
func awaitChange(t tb) {
	t.Helper()
	select {
	case <-t.Context().Done():
		t.Fatal("given up")
	case <-time.After(5 * time.Millisecond):
	}
}

// newPool returns a pool that is being filled, and checks in the end that it
// leaves nothing.
func newPool(t tb, base *template.Driver, dir, image string, size int) *pool.Driver {
	t.Helper()
	p, err := pool.New(pool.Options{Base: base, Dir: filepath.Join(dir, "pool"), Image: image, Limits: glovebox.DefaultLimits(), Size: size,
		Ready: base.Ready, Log: logOf()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if infos, err := base.List(context.Background()); err != nil || len(infos) != 0 {
			t.Errorf("the pool leaves %v, %v", infos, err)
		}
	})
	return p
}
