package gvisor

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/sandbox"
	"github.com/glovebox-dev/glovebox/internal/sandbox/local"
)

func TestIsRunsc(t *testing.T) {
	for _, c := range []struct {
		args []string
		want bool
	}{
		{nil, false},
		{[]string{"glovebox"}, false},
		{[]string{"glovebox", "run", "boot"}, false},
		{[]string{"glovebox", "umount"}, false},
		{[]string{"/usr/bin/glovebox", "boot"}, false},
		{[]string{"/proc/self/exe"}, false},
		{[]string{"/proc/self/exe", "serve"}, false},
		{[]string{"/proc/self/exe", "umount", "--sync-fd=3", "/proc"}, true},
		{[]string{"runsc-sandbox", "--root=x", "boot"}, true},
		{[]string{"/usr/local/bin/runsc", "run"}, true},
	} {
		if got := isRunsc(c.args); got != c.want {
			t.Errorf("isRunsc(%q) = %v", c.args, got)
		}
	}
}

func TestWatchPause(t *testing.T) {
	for free, want := range map[uint64]time.Duration{
		0: watchMin, 1 << 20: watchMin, 64 << 20: 15625 * time.Microsecond, 1 << 40: watchMax,
	} {
		if got := watchPause(free); got != want {
			t.Errorf("with %d bytes free it looks again after %v, want %v", free, got, want)
		}
	}
}

func TestFindCgroups(t *testing.T) {
	dir := t.TempDir()
	for _, sub := range []string{"memory/a/b", "cpu,cpuacct/a", "unified/user.slice"} {
		p := filepath.Join(dir, sub)
		if err := os.MkdirAll(p, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(p, "cgroup.procs"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	v1 := "30 20 0:25 / " + dir + "/memory rw,nosuid shared:1 - cgroup cgroup rw,memory\n" +
		"31 20 0:26 / " + dir + "/cpu,cpuacct rw shared:2 - cgroup cgroup rw,cpu,cpuacct\n"
	v2 := "32 20 0:27 / " + dir + "/unified rw - cgroup2 cgroup2 rw,nsdelegate\n"
	for _, c := range []struct {
		name, mounts, self string
		version            int
		parents            map[string]string
	}{
		{"v1", v1 + v2, "3:memory:/a/b\n2:cpu,cpuacct:/a\n0::/\n", 1, map[string]string{"memory": "memory/a/b", "cpu": "cpu,cpuacct/a"}},
		{"v1, our cgroup not visible", v1, "3:memory:/other\n2:cpu,cpuacct:/a\n", 1, map[string]string{"cpu": "cpu,cpuacct/a"}},
		{"v2", v2, "0::/user.slice\n", 2, map[string]string{"": "unified/user.slice", "top": "unified"}},
		{"v2 from a part", strings.Replace(v2, "0:27 / ", "0:27 /x ", 1), "0::/x/user.slice\n", 2, map[string]string{"": "unified/user.slice", "top": "unified"}},
		{"none", "1 1 0:1 / / rw - ext4 /dev/vda rw\n", "0::/\n", 0, nil},
		{"malformed", "x\n - \n\n", "x\n::\n", 0, nil},
	} {
		got := findCgroups(c.mounts, c.self)
		if got.version != c.version || len(got.parents) != len(c.parents) {
			t.Errorf("%s: %+v", c.name, got)
			continue
		}
		for k, v := range c.parents {
			if got.parents[k] != filepath.Join(dir, v) {
				t.Errorf("%s: %s is %s, want %s", c.name, k, got.parents[k], v)
			}
		}
	}
}

func TestPlan(t *testing.T) {
	id := sandbox.ID(glovebox.NewID())
	none := limiter{cgroups: func() cgroups { return cgroups{} }, allowed: []int{0, 1, 2, 3}}
	v2 := limiter{cgroups: func() cgroups {
		return cgroups{version: 2, parents: map[string]string{"memory": "/cg", "cpu": "/cg"}}
	}, allowed: []int{0, 1, 2, 3}}

	p := none.plan(id, glovebox.Limits{CPUMillis: 2000})
	if len(p.cpus) != 2 || p.numCPU != 2 || p.enforced["cpu_millis"] == "" || len(p.groups) != 0 {
		t.Errorf("two of four processors without cgroups: %+v", p)
	}
	if p := none.plan(id, glovebox.Limits{CPUMillis: 1500}); len(p.cpus) != 2 || p.enforced["cpu_millis"] != "" {
		t.Errorf("a part of a processor is claimed: %+v", p)
	}
	if p := none.plan(id, glovebox.Limits{CPUMillis: 9000}); p.cpus != nil || p.enforced["cpu_millis"] == "" || p.numCPU != 4 {
		t.Errorf("more than there are: %+v", p)
	}
	if p := none.plan(id, glovebox.Limits{}); len(p.enforced) != 0 || p.watch != 0 || p.memory != 0 {
		t.Errorf("no limits: %+v", p)
	}
	if p := none.plan(id, glovebox.Limits{MemoryBytes: 1 << 30}); p.watch != 1<<30 || !strings.Contains(p.enforced["memory_bytes"], "sentry") {
		t.Errorf("memory without cgroups: %+v", p)
	}
	p = v2.plan(id, glovebox.DefaultLimits())
	if len(p.groups) != 1 || len(p.groups[0].files) != 4 || p.cpus != nil || len(p.enforced) != 4 {
		t.Errorf("with cgroup v2: %+v", p)
	}
}

func TestNamespaceHint(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root is not restricted")
	}
	for name, value := range map[string]string{
		"kernel.apparmor_restrict_unprivileged_userns": "1", "kernel.unprivileged_userns_clone": "0", "user.max_user_namespaces": "0",
	} {
		hint := namespaceHint(func(n string) string {
			if n == name {
				return value
			}
			return ""
		})
		if !strings.Contains(hint, "sysctl -w "+name) {
			t.Errorf("%s=%s: the hint is %q", name, value, hint)
		}
	}
}

func TestProbe(t *testing.T) {
	t.Parallel()
	for _, f := range Probe(context.Background(), testOptions("")) {
		t.Logf("%-16s %-8s %s %s", f.Name, f.Verdict, f.Detail, f.Hint)
		if f.Verdict == Missing && f.Name != "image" {
			t.Errorf("%s is missing: %s", f.Name, f.Detail)
		}
		if f.Verdict != Good && f.Hint == "" {
			t.Errorf("%s has no hint", f.Name)
		}
	}
}

// TestNeedsLoader tells a program that the system's libraries are loaded for
// from one that has all it needs.
func TestNeedsLoader(t *testing.T) {
	t.Parallel()
	if needsLoader("/proc/self/exe") { // tests are built without cgo, but for those of the race detector
		t.Skip("the test itself was built with cgo")
	}
	shell, err := filepath.EvalSymlinks("/bin/sh")
	if err != nil {
		t.Skipf("there is no /bin/sh: %v", err)
	}
	if !needsLoader(shell) {
		t.Errorf("%s is taken for a static program", shell)
	}
	if needsLoader("unit_test.go") || needsLoader("none") {
		t.Error("what is no program needs no loader")
	}
}

// procStatus reads /proc/PID/status.
func procStatus(t *testing.T, pid int) map[string]string {
	t.Helper()
	b, err := os.ReadFile("/proc/" + itoa(pid) + "/status")
	if err != nil {
		t.Fatal(err)
	}
	m := make(map[string]string)
	for line := range strings.Lines(string(b)) {
		k, v, _ := strings.Cut(line, ":")
		m[k] = strings.TrimSpace(v)
	}
	return m
}

func itoa(n int) string { return strconv.Itoa(n) }

// Set-user-ID programs and file capabilities give nothing, whatever the image
// or a package brings.
func TestNoNewPrivileges(t *testing.T) {
	t.Parallel()
	if !specOf("id", 0).Process.NoNewPrivileges {
		t.Error("a program may gain privileges")
	}
}

// TestBriefErrors: what gVisor says with its stack, and what is not an error at
// all, are in no message.
func TestBriefErrors(t *testing.T) {
	t.Parallel()
	for long, want := range map[string]string{
		"error serializing object &wire.Array{" + strings.Repeat("x", 20_000) + "\nwrite pages: no space left on device\ngoroutine 1": "no space left on device",
		"no such thing\ngoroutine 34 [running]:\n": "no such thing",
		strings.Repeat("é", 500):                   strings.Repeat("é", 100) + "...",
	} {
		if got := brief(errors.New(long)); got != want {
			t.Errorf("%q", got)
		}
	}
	if s := because(nil) + because(errors.New("x")); s != ": x" {
		t.Errorf("%q", s)
	}
}

// TestDialOfOneThatIsEnding: a sandbox that hangs up because it is ending has
// ended, also if its process has not quite yet.
func TestDialOfOneThatIsEnding(t *testing.T) {
	t.Parallel()
	d, err := New(Options{StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	process := exec.CommandContext(t.Context(), "sleep", "1000")
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = process.Wait() }()
	defer func() { _ = process.Process.Kill() }()
	id := sandbox.ID(glovebox.NewID())
	if err := os.Mkdir(d.dir(id), 0o700); err != nil {
		t.Fatal(err)
	}
	r := &record{ID: id, Started: true}
	if r.Process, err = local.ProcessOf(process.Process.Pid); err != nil {
		t.Fatal(err)
	}
	if err := writeRecord(d.dir(id), r); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(d.dir(id), socketFile))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		if c, err := l.Accept(); err == nil {
			c.Close()
		}
		_ = process.Process.Kill()
	}()
	if _, err := d.Dial(t.Context(), id); glovebox.CodeOf(err) != glovebox.CodeNotFound {
		t.Errorf("got %v, want that it has ended", err)
	}
}
