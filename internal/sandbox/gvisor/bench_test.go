package gvisor

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/sandbox"
	"github.com/glovebox-dev/glovebox/internal/sandbox/sandboxtest"
)

// percentiles reports what one round takes, instead of a mean.
func percentiles(b *testing.B, round func() time.Duration) {
	var all []time.Duration
	for b.Loop() {
		all = append(all, round())
	}
	slices.Sort(all)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	b.ReportMetric(ms(all[len(all)/2]), "p50-ms")
	b.ReportMetric(ms(all[len(all)*95/100]), "p95-ms")
	b.ReportMetric(ms(all[0]), "min-ms")
	b.ReportMetric(0, "ns/op")
}

// From nothing to the output of a first command, "echo", in a new sandbox,
// with the default limits, beside what else makes one.
func BenchmarkFirstOutput(b *testing.B) {
	if why := suite.Skip(); why != "" {
		b.Skip(why)
	}
	b.Run("glovebox", func(b *testing.B) { benchDriver(b, glovebox.DefaultLimits()) })
	b.Run("glovebox-unlimited", func(b *testing.B) { benchDriver(b, glovebox.Limits{}) })
	root := os.Getenv("GLOVEBOX_TEST_ROOTFS") // the image, unpacked, for others
	b.Run("runsc-run", benchRunsc)
	b.Run("runc", func(b *testing.B) { benchRunc(b, root) })
	b.Run("bwrap", func(b *testing.B) {
		benchCommand(b, root, nil, "bwrap", "--unshare-all", "--bind", root, "/", "--proc", "/proc", "--dev", "/dev", "/bin/echo", "hello")
	})
	b.Run("host", func(b *testing.B) { benchCommand(b, "/", nil, "/bin/echo", "hello") })
}

func benchDriver(b *testing.B, l glovebox.Limits) {
	d := testDriver(b)
	if _, err := d.guest(); err != nil { // once for a binary, not for a sandbox
		b.Fatal(err)
	}
	ctx := context.Background()
	var create, destroy []time.Duration
	percentiles(b, func() time.Duration {
		id := sandbox.ID(glovebox.NewID())
		start := time.Now()
		if err := d.Create(ctx, sandbox.Spec{ID: id, Limits: l}); err != nil {
			b.Fatal(err)
		}
		create = append(create, time.Since(start))
		conn, err := d.Dial(ctx, id)
		if err != nil {
			b.Fatal(err)
		}
		out, err := sandboxtest.Exec(conn, "/bin/echo", "hello")
		if err != nil || out != "hello\n" {
			b.Fatal(out, err)
		}
		took := time.Since(start)
		conn.Close()
		start = time.Now()
		if err := d.Destroy(ctx, id); err != nil {
			b.Fatal(err)
		}
		destroy = append(destroy, time.Since(start))
		return took
	})
	slices.Sort(create)
	slices.Sort(destroy)
	b.ReportMetric(float64(create[len(create)/2].Microseconds())/1000, "create-p50-ms")
	b.ReportMetric(float64(destroy[len(destroy)/2].Microseconds())/1000, "destroy-p50-ms")
}

// benchCommand times a command that prints hello.
func benchCommand(b *testing.B, root string, clean func(), args ...string) {
	if root == "" {
		b.Skip("GLOVEBOX_TEST_ROOTFS names no unpacked image")
	}
	path, err := exec.LookPath(args[0])
	if err != nil {
		b.Skip(err)
	}
	percentiles(b, func() time.Duration {
		start := time.Now()
		cmd := exec.Command(path, args[1:]...)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		took := time.Since(start)
		if err != nil || string(out) != "hello\n" {
			b.Fatalf("%q, %v, %s", out, err, &stderr)
		}
		if clean != nil {
			clean()
		}
		return took
	})
}

// benchBundle writes an OCI bundle.
func benchBundle(b *testing.B, s *specs.Spec) string {
	dir := b.TempDir()
	s.Process.Args = []string{"/bin/echo", "hello"}
	s.Process.Env = guestEnv
	data, err := json.Marshal(s)
	if err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), data, 0o600); err != nil {
		b.Fatal(err)
	}
	return dir
}

// benchRunsc is gVisor's own command, from the same binary and image.
func benchRunsc(b *testing.B) {
	s := specOf("bench", 0)
	s.Root.Path = b.TempDir()
	s.Annotations["dev.gvisor.spec.rootfs.source"], _ = sandboxtest.Image()
	s.Mounts = s.Mounts[:2]
	dir := benchBundle(b, s)
	exe, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	link := filepath.Join(b.TempDir(), "runsc") // the name is what makes it gVisor's command
	if err := os.Symlink(exe, link); err != nil {
		b.Fatal(err)
	}
	benchCommand(b, "/", nil, "/bin/sh", "-c", fmt.Sprintf(`exec %s --root=%s --network=none --ignore-cgroups run --bundle=%s bench-$$`, link, b.TempDir(), dir))
}

func benchRunc(b *testing.B, root string) {
	s := &specs.Spec{
		Version: specs.Version, Process: &specs.Process{Cwd: "/"}, Root: &specs.Root{Path: root},
		Mounts: []specs.Mount{{Destination: "/proc", Type: "proc", Source: "proc"}},
		Linux: &specs.Linux{Namespaces: []specs.LinuxNamespace{
			{Type: specs.PIDNamespace}, {Type: specs.NetworkNamespace}, {Type: specs.IPCNamespace}, {Type: specs.UTSNamespace}, {Type: specs.MountNamespace},
		}},
	}
	dir := benchBundle(b, s)
	benchCommand(b, root, nil, "/bin/sh", "-c", fmt.Sprintf(`exec runc --root %s run --bundle %s bench-$$`, b.TempDir(), dir))
}
