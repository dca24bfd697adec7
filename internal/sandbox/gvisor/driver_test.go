package gvisor

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/sandbox"
	"github.com/glovebox-dev/glovebox/internal/sandbox/local"
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

// A process that dies between any two steps of Adopt leaves the sandbox under
// one id, and with what belongs to it.
func TestAdoptSteps(t *testing.T) {
	t.Parallel()
	d := testDriver(t)
	ctx := context.Background()
	only := func(want sandbox.ID, label string) {
		t.Helper()
		infos, err := d.List(ctx)
		if err != nil || len(infos) != 1 || infos[0].ID != want || infos[0].State != sandbox.Running || infos[0].Labels["l"] != label {
			t.Fatalf("listed: %+v, %v; want %s with %q", infos, err, want, label)
		}
		conn, err := d.Dial(ctx, want)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := sandboxtest.Exec(conn, "/bin/true"); err != nil {
			t.Error(err)
		}
	}
	from, r := testSandbox(t, d, glovebox.Limits{MemoryBytes: 1 << 30})
	to := sandbox.ID(glovebox.NewID())
	next := *r
	next.ID, next.Sentry, next.Labels = to, r.sentry(), map[string]string{"l": "next"}

	// The new record is written, or half of it.
	if err := os.WriteFile(filepath.Join(d.dir(from), adoptFile+".tmp"), []byte(`{"id":`), 0o600); err != nil {
		t.Fatal(err)
	}
	only(from, "")
	if err := local.WriteJSON(filepath.Join(d.dir(from), adoptFile), &next); err != nil {
		t.Fatal(err)
	}
	only(from, "")
	// Someone else adopts it after that.
	other := sandbox.ID(glovebox.NewID())
	if err := d.Adopt(ctx, from, sandbox.Spec{ID: other, Labels: map[string]string{"l": "other"}, Limits: r.Limits}); err != nil {
		t.Fatal(err)
	}
	only(other, "other")
	// The directory has its new name, and the former record is still there.
	next.Sentry = r.sentry()
	if err := local.WriteJSON(filepath.Join(d.dir(other), adoptFile), &next); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(d.dir(other), d.dir(to)); err != nil {
		t.Fatal(err)
	}
	only(to, "next")
	// It can be adopted again, and be destroyed.
	if err := d.Adopt(ctx, to, sandbox.Spec{ID: other, Labels: map[string]string{"l": "again"}, Limits: r.Limits}); err != nil {
		t.Fatal(err)
	}
	only(other, "again")
	if err := d.Destroy(ctx, other); err != nil {
		t.Fatal(err)
	}
	if r.Process.Alive() {
		t.Error("its process lives on")
	}
	for _, g := range r.Cgroups {
		if _, err := os.Stat(g); !os.IsNotExist(err) {
			t.Errorf("its cgroup %s: %v", g, err)
		}
	}
}

// A sentry that answers nothing while it is restored makes Create give up at
// its deadline, and nothing remains.
func TestRestoreDeadline(t *testing.T) {
	t.Parallel()
	d := testDriver(t)
	ctx := context.Background()
	dir := filepath.Join(t.TempDir(), "template")
	id, _ := testSandbox(t, d, glovebox.Limits{})
	if err := d.Snapshot(ctx, id, dir); err != nil {
		t.Fatal(err)
	}
	// A sentry that hangs: a program that waits, where nobody may execute it.
	hang, err := os.MkdirTemp("", "hang")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(hang)
	d.o.Runsc = filepath.Join(hang, "sentry")
	// Written by another process: as long as one that is being started by a test
	// beside this one had a copy of our descriptor, nobody could execute it.
	script := exec.Command("/bin/sh", "-c", `chmod 755 "$1" && printf '#!/bin/sh\nexec sleep 1000\n' > "$1/sentry" && chmod 755 "$1/sentry"`, "sh", hang)
	if out, err := script.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := d.writeKey(dir); err != nil {
		t.Fatal(err)
	}
	// Reading the template whole takes long where much else runs: it is not
	// what is measured.
	image, _ := sandboxtest.Image()
	if whole, err := d.openTemplate(dir, image, glovebox.Limits{}); err != nil {
		t.Fatal(err)
	} else {
		whole.close()
	}
	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	begun := time.Now()
	err = d.Create(short, sandbox.Spec{ID: sandbox.ID(glovebox.NewID()), Template: dir})
	if glovebox.CodeOf(err) != glovebox.CodeUnavailable || time.Since(begun) < 300*time.Millisecond || time.Since(begun) > restoreTimeout {
		t.Errorf("after %v: %v", time.Since(begun), err)
	}
	if infos, err := d.List(ctx); err != nil || len(infos) != 0 {
		t.Errorf("listed: %+v, %v", infos, err)
	}
}

// writeKey makes a template look as if this driver had made it.
func (d *Driver) writeKey(dir string) error {
	var m manifest
	path := filepath.Join(dir, manifestFile)
	if ok, err := local.ReadJSON(path, &m); err != nil || !ok {
		return err
	}
	var err error
	if m.Key, err = d.TemplateKey(); err != nil {
		return err
	}
	return local.WriteJSON(path, &m)
}

// After a crash in the middle of stopping or resuming, a sandbox goes on
// whether it was stopped or not, and is not ended because it is slow.
func TestThawUnknown(t *testing.T) {
	t.Parallel()
	d := testDriver(t)
	ctx := context.Background()
	id, _ := testSandbox(t, d, glovebox.Limits{})
	for _, stop := range []bool{false, true} {
		if stop {
			if err := d.Pause(ctx, id); err != nil {
				t.Fatal(err)
			}
			d.probe = 200 * time.Millisecond // it is stopped: longer is no surer
		}
		r, err := readRecord(d.dir(id))
		if err != nil {
			t.Fatal(err)
		}
		r.Pause = unknown
		if err := writeRecord(d.dir(id), r); err != nil {
			t.Fatal(err)
		}
		given, cancel := context.WithCancel(ctx)
		cancel()
		if conn, err := d.Dial(given, id); err == nil {
			t.Errorf("stopped %v: dialled with a context that has ended: %v", stop, conn)
		}
		conn, err := d.Dial(ctx, id)
		if err != nil {
			t.Fatalf("stopped %v: %v", stop, err)
		}
		if _, err := sandboxtest.Exec(conn, "/bin/true"); err != nil {
			t.Errorf("stopped %v: %v", stop, err)
		}
		conn.Close()
	}
}

// A template of another version, or of another image, is refused as such.
func TestTemplateOutdated(t *testing.T) {
	t.Parallel()
	d := testDriver(t)
	ctx := context.Background()
	dir := filepath.Join(t.TempDir(), "template")
	id, _ := testSandbox(t, d, glovebox.Limits{DiskBytes: 1 << 30})
	if err := d.Snapshot(ctx, id, dir); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, manifestFile)
	var whole manifest
	if ok, err := local.ReadJSON(path, &whole); err != nil || !ok {
		t.Fatal(err)
	}
	limits := glovebox.Limits{DiskBytes: 1 << 30}
	for name, change := range map[string]func(m *manifest, l *glovebox.Limits){
		"key":    func(m *manifest, _ *glovebox.Limits) { m.Key = "0123456789abcdef" },
		"image":  func(m *manifest, _ *glovebox.Limits) { m.Image.ModTime++ },
		"disk":   func(_ *manifest, l *glovebox.Limits) { l.DiskBytes++ },
		"number": func(_ *manifest, l *glovebox.Limits) { l.Processes = 100 },
	} {
		m, l := whole, limits
		change(&m, &l)
		if err := local.WriteJSON(path, &m); err != nil {
			t.Fatal(err)
		}
		err := d.Create(ctx, sandbox.Spec{ID: sandbox.ID(glovebox.NewID()), Template: dir, Limits: l})
		if glovebox.CodeOf(err) != glovebox.CodeUnavailable || !errors.Is(err, sandbox.ErrTemplate) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if infos, err := d.List(ctx); err != nil || len(infos) != 0 {
		t.Errorf("listed: %+v, %v", infos, err)
	}
}
