package gvisor

import (
	"context"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/sandbox"
	"github.com/glovebox-dev/glovebox/internal/sandbox/sandboxtest"
)

var suite = sandboxtest.Suite{
	Open:     func(dir string) (sandbox.Driver, error) { return New(testOptions(dir)) },
	Skip:     func() string { _, why := sandboxtest.Image(); return why },
	BadImage: "/nonexistent/image.erofs",
}

func testOptions(dir string) Options {
	image, _ := sandboxtest.Image()
	plain, _, _ := sandboxtest.PlainBinary()
	return Options{StateDir: dir, DefaultImage: image, GuestBinary: plain, Runsc: plain}
}

func TestMain(m *testing.M) {
	Intercept()
	suite.Main(m)
}

func TestConformance(t *testing.T) { suite.Exercise(t) }

// testDriver returns a driver of the test's own.
func testDriver(t testing.TB) *Driver {
	t.Helper()
	if why := suite.Skip(); why != "" {
		t.Skip(why)
	}
	d, err := New(testOptions(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// testSandbox makes a sandbox, destroyed in the end.
func testSandbox(t testing.TB, d *Driver, l glovebox.Limits) (sandbox.ID, *record) {
	t.Helper()
	id := sandbox.ID(glovebox.NewID())
	if err := d.Create(context.Background(), sandbox.Spec{ID: id, Limits: l}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Destroy(context.Background(), id); err != nil {
			t.Error(err)
		}
	})
	r, err := readRecord(d.dir(id))
	if err != nil || r == nil {
		t.Fatal(r, err)
	}
	return id, r
}

// A sandbox that answers nothing any more makes Dial give up when it is told
// to, and is destroyed all the same.
func TestWedged(t *testing.T) {
	t.Parallel()
	d := testDriver(t)
	id, r := testSandbox(t, d, glovebox.Limits{})
	first, err := d.Dial(context.Background(), id)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	if err := unix.Kill(r.Process.PID, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if conn, err := d.Dial(ctx, id); glovebox.CodeOf(err) != glovebox.CodeUnavailable {
		t.Errorf("a wedged sandbox was dialled: %v, %v", conn, err)
	}
	if err := d.Destroy(context.Background(), id); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(d.dir(id)); !os.IsNotExist(err) {
		t.Errorf("its directory: %v", err)
	}
}

// A sentry has given up all capabilities, may not gain any, is under seccomp,
// in an empty root, and not the user who made it if that is root.
func TestSentryConfined(t *testing.T) {
	t.Parallel()
	d := testDriver(t)
	_, r := testSandbox(t, d, glovebox.Limits{})
	status := procStatus(t, r.Process.PID)
	for field, want := range map[string]string{
		"CapEff": "0000000000000000", "CapPrm": "0000000000000000", "CapBnd": "0000000000000000", "CapAmb": "0000000000000000",
		"NoNewPrivs": "1", "Seccomp": "2",
	} {
		if status[field] != want {
			t.Errorf("%s is %s, want %s", field, status[field], want)
		}
	}
	if os.Geteuid() == 0 && status["Uid"] != "65534\t65534\t65534\t65534" {
		t.Errorf("it runs as %s", status["Uid"])
	}
	for _, ns := range []string{"user", "mnt", "pid", "net", "ipc", "uts"} {
		theirs, err1 := os.Readlink("/proc/" + itoa(r.Process.PID) + "/ns/" + ns)
		ours, err2 := os.Readlink("/proc/self/ns/" + ns)
		if err1 == nil && err2 == nil && theirs == ours {
			t.Errorf("it shares our %s namespace", ns)
		}
	}
}

// Without cgroups, whole processors are given by affinity.
func TestAffinity(t *testing.T) {
	t.Parallel()
	d := testDriver(t)
	if len(d.limits.allowed) < 2 {
		t.Skip("there is one processor")
	}
	d.limits.cgroups = func() cgroups { return cgroups{} }
	_, r := testSandbox(t, d, glovebox.Limits{CPUMillis: 1000})
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(r.Process.PID, &set); err != nil || set.Count() != 1 {
		t.Errorf("it may run on %d processors, %v", set.Count(), err)
	}
	if r.Enforced["cpu_millis"] == "" {
		t.Error("what is enforced is not claimed")
	}
}
