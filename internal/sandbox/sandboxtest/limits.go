package sandboxtest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/sandbox"
)

// claims makes a sandbox with limits and skips the test unless the driver
// claims that it enforces one of them.
func (e *env) claims(field string, l glovebox.Limits) sandbox.ID {
	e.Helper()
	id := e.create(sandbox.Spec{Limits: l})
	i, _ := e.info(id)
	by, ok := i.Enforced[field]
	if !ok {
		e.Skipf("the driver does not claim to enforce %s here", field)
	}
	e.Logf("%s is enforced by %s", field, by)
	return id
}

// What takes more memory than it may gets none, or ends its sandbox, which
// then says so.
func testLimitMemory(e *env) {
	const limit = 256 << 20
	id := e.claims("memory_bytes", glovebox.Limits{MemoryBytes: limit})
	r, err := ask(e.dial(id), question{Op: "allocate", Bytes: 1 << 30})
	if err != nil {
		i := e.awaitEnded(id)
		if !strings.Contains(i.Cause, "memory") {
			e.Fatalf("it ended, cause %q", i.Cause)
		}
		e.Logf("cause: %s", i.Cause)
		return
	}
	if r.Error == "" || r.N > limit {
		e.Fatalf("%d bytes could be used, error %q", r.N, r.Error)
	}
}

// A full disk is an error inside, not more.
func testLimitDisk(e *env) {
	const limit = 64 << 20
	id := e.claims("disk_bytes", glovebox.Limits{DiskBytes: limit})
	c := e.dial(id)
	for _, path := range []string{"/big", "/tmp/big", "/var/big"} {
		r, err := ask(c, question{Op: "fill", Path: path, Bytes: 4 * limit})
		if err != nil {
			e.Fatal(err)
		}
		if !strings.Contains(r.Error, "no space left") || r.N > limit {
			e.Fatalf("%s: %d bytes could be written, error %q", path, r.N, r.Error)
		}
	}
	e.wantEcho(c)
}

// Processes can't be started without end, and the sandbox lives on.
func testLimitProcesses(e *env) {
	const limit = 64
	id := e.claims("processes", glovebox.Limits{Processes: limit})
	c := e.dial(id)
	r, err := ask(c, question{Op: "processes", N: 4 * limit})
	if err != nil {
		e.Fatal(err)
	}
	if r.Error == "" || r.N >= limit {
		e.Fatalf("%d processes could be started, error %q", r.N, r.Error)
	}
	e.Logf("%d processes could be started, then: %s", r.N, r.Error)
	e.wantEcho(c)
}

// A tenth of a processor does about a tenth of the work that a whole one
// could. How busy the machine is does not matter: that makes it less.
func testLimitCPU(e *env) {
	c := e.dial(e.claims("cpu_millis", glovebox.Limits{CPUMillis: 100}))
	spin := question{Op: "spin", N: 2, For: time.Second}
	e.ask(c, spin) // uses up what is left of the first period
	r := e.ask(c, spin)
	could := int64(spin.For / r.Best)
	e.Logf("%d units of work of the %d that a whole processor does", r.N, could)
	if r.N*3 > could {
		e.Fatal("the limit does not hold")
	}
}

// There is a loopback and nothing else.
func testNetwork(e *env) {
	if e.suite.lacks(Isolation) {
		e.Skip("the driver declares that it does not isolate")
	}
	c := e.dial(e.create(sandbox.Spec{}))
	for _, l := range e.ask(c, question{Op: "interfaces"}).Lines {
		if !strings.Contains(l, "loopback") {
			e.Errorf("there is a network interface: %s", l)
		}
	}
	if r := e.ask(c, question{Op: "loopback"}); r.Text != "x" {
		e.Errorf("the loopback carries %q", r.Text)
	}
	for _, to := range [][]string{{"tcp", "192.0.2.1:80"}, {"tcp", "[2001:db8::1]:80"}, {"udp", "192.0.2.1:53"}} {
		if r, err := ask(c, question{Op: "dial", Args: to}); err != nil || r.Error == "" {
			e.Errorf("%v can be reached: %+v, %v", to, r, err)
		}
	}
	if r, err := ask(c, question{Op: "read", Path: "/proc/net/route"}); err == nil && strings.Count(strings.TrimSpace(r.Text), "\n") > 0 {
		e.Errorf("there are routes: %s", r.Text)
	}
}

// Nothing of the host is visible inside.
func testHostHidden(e *env) {
	if e.suite.lacks(Isolation) {
		e.Skip("the driver declares that it does not isolate")
	}
	secret := filepath.Join(e.dir, "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o644); err != nil {
		e.Fatal(err)
	}
	id := e.create(sandbox.Spec{})
	c := e.dial(id)
	for _, path := range []string{secret, e.dir, "/proc/1/root" + secret, "/proc/self/cwd" + secret} {
		if r, err := ask(c, question{Op: "stat", Path: path}); err != nil || r.Error == "" {
			e.Errorf("%s is there", path)
		}
	}
	allowed := []string{"PATH=", "HOME=", "LANG=", "GOTRACEBACK=", "TERM=", "GLOVEBOX_", "HOSTNAME=glovebox"}
	for _, v := range e.ask(c, question{Op: "env"}).Lines {
		if !slices.ContainsFunc(allowed, func(p string) bool { return strings.HasPrefix(v, p) }) {
			e.Errorf("the environment has %.40q", v)
		}
	}
	self, _ := os.Hostname()
	if r := e.ask(c, question{Op: "read", Path: "/proc/sys/kernel/hostname"}); self != "" && strings.TrimSpace(r.Text) == self {
		e.Errorf("the host's name %q is known", self)
	}
	// The processes inside are the guest's.
	for _, name := range e.ask(c, question{Op: "list", Path: "/proc"}).Lines {
		if name == "1" || strings.Trim(name, "0123456789") != "" {
			continue
		}
		r, _ := ask(c, question{Op: "read", Path: "/proc/" + name + "/cmdline"})
		if r.Text != "" && !strings.Contains(r.Text, "guest") {
			e.Errorf("a process of others is visible: %q", r.Text)
		}
	}
}
