package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest"
	"github.com/glovebox-dev/glovebox/internal/guest/guestd"
	"github.com/glovebox-dev/glovebox/internal/sandbox"
	"github.com/glovebox-dev/glovebox/internal/sandbox/gvisor"
	"github.com/glovebox-dev/glovebox/internal/sandbox/sandboxtest"
)

const childEnv = "GLOVEBOX_E2E_CHILD"

func TestMain(m *testing.M) {
	gvisor.Intercept()
	if len(os.Args) > 2 && os.Args[1] == "guest" {
		os.Exit(guestd.Main(os.Args[2:]))
	}
	if v := os.Getenv(childEnv); v != "" {
		if err := child(v); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	_, cleanup, err := sandboxtest.PlainBinary()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	sandboxtest.Run(m, cleanup)
}

// open returns a driver, or skips the test where there is no image.
func open(t testing.TB, dir string) *gvisor.Driver {
	t.Helper()
	image, why := sandboxtest.Image()
	if why != "" {
		t.Skip(why)
	}
	d, err := gvisor.New(options(dir, image))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func options(dir, image string) gvisor.Options {
	plain, _, _ := sandboxtest.PlainBinary()
	return gvisor.Options{StateDir: dir, DefaultImage: image, Runsc: plain, GuestBinary: plain}
}

func create(t testing.TB, d *gvisor.Driver) sandbox.ID {
	t.Helper()
	id := sandbox.ID(glovebox.NewID())
	if err := d.Create(context.Background(), sandbox.Spec{ID: id, Limits: glovebox.DefaultLimits()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Destroy(context.Background(), id); err != nil {
			t.Error(err)
		}
	})
	return id
}

// client dials a sandbox and talks to its guest.
func client(ctx context.Context, d *gvisor.Driver, id sandbox.ID) (*guest.Client, error) {
	conn, err := d.Dial(ctx, id)
	if err != nil {
		return nil, err
	}
	return guest.NewClient(ctx, conn, guest.Options{})
}

func run(ctx context.Context, c *guest.Client, args ...string) (string, error) {
	st, out, err := c.Run(ctx, guest.Command{ID: glovebox.NewID(), Args: args}, 1<<20)
	if err == nil && st.ExitCode != 0 {
		err = fmt.Errorf("exit code %d: %s", st.ExitCode, out)
	}
	return string(out), err
}

// The guest that comes in with our binary runs commands as the tools' user,
// with no network but the loopback, over the first stream and over others.
func TestGuest(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	d := open(t, t.TempDir())
	id := create(t, d)
	for i := range 3 {
		c, err := client(ctx, d, id)
		if err != nil {
			t.Fatalf("stream %d: %v", i, err)
		}
		out, err := run(ctx, c, "sh", "-c", "id -u; pwd; echo data > f; cat f; touch /tmp/x && echo tmp; touch /dev/shm/x && df -k --output=size /dev/shm; ls -d /.glovebox/*; git --version")
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"1000\n", "/workspace\n", "data\n", "tmp\n", " 262144\n", "/.glovebox/glovebox\n", "git version"} {
			if !strings.Contains(out, want) {
				t.Errorf("stream %d: the output has no %q: %s", i, want, out)
			}
		}
		if err := c.WriteFile(ctx, "big", make([]byte, 8<<20), 0); err != nil {
			t.Errorf("stream %d: %v", i, err)
		}
		if b, size, err := c.ReadFile(ctx, "big", 0, 8<<20); err != nil || size != 8<<20 || len(b) != 8<<20 {
			t.Errorf("stream %d: read %d of %d bytes, %v", i, len(b), size, err)
		}
		c.Close()
	}
}

// task is what another process is to do with a sandbox.
type task struct {
	Dir string
	ID  sandbox.ID
}

// child, in another process, dials at once, when the guest may not even
// listen yet.
func child(v string) error {
	var k task
	if err := json.Unmarshal([]byte(v), &k); err != nil {
		return err
	}
	d, err := gvisor.New(options(k.Dir, ""))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := client(ctx, d, k.ID)
	if err != nil {
		return err
	}
	defer c.Close()
	out, err := run(ctx, c, "echo", "hello")
	if err != nil || out != "hello\n" {
		return fmt.Errorf("%q, %w", out, err)
	}
	return nil
}

// Another process talks to the guest of a sandbox that is just starting.
func TestSecondProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	id := create(t, open(t, dir))
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(task{Dir: dir, ID: id})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), childEnv+"="+string(b))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// From nothing to the output of a first command, through the real guest.
func BenchmarkFirstOutput(b *testing.B) {
	d := open(b, b.TempDir())
	ctx := context.Background()
	for b.Loop() {
		id := sandbox.ID(glovebox.NewID())
		if err := d.Create(ctx, sandbox.Spec{ID: id, Limits: glovebox.DefaultLimits()}); err != nil {
			b.Fatal(err)
		}
		c, err := client(ctx, d, id)
		if err != nil {
			b.Fatal(err)
		}
		if out, err := run(ctx, c, "echo", "hello"); err != nil || out != "hello\n" {
			b.Fatal(out, err)
		}
		c.Close()
		b.StopTimer()
		if err := d.Destroy(ctx, id); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
