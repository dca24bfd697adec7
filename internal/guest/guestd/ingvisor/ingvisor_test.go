//go:build linux

package ingvisor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest"
	"github.com/glovebox-dev/glovebox/internal/guest/guestd"
	"github.com/glovebox-dev/glovebox/internal/sandbox"
	"github.com/glovebox-dev/glovebox/internal/sandbox/gvisor"
	"github.com/glovebox-dev/glovebox/internal/sandbox/sandboxtest"
)

func TestMain(m *testing.M) {
	gvisor.Intercept()
	if len(os.Args) > 2 && os.Args[1] == "guest" {
		os.Exit(guestd.Main(os.Args[2:]))
	}
	os.Exit(m.Run())
}

// open makes a sandbox and returns a client of its guest.
func open(t testing.TB) *guest.Client {
	t.Helper()
	image, why := sandboxtest.Image()
	if why != "" {
		t.Skip(why)
	}
	d, err := gvisor.New(gvisor.Options{StateDir: t.TempDir(), DefaultImage: image})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	id := sandbox.ID(glovebox.NewID())
	if err := d.Create(context.Background(), sandbox.Spec{ID: id, Limits: glovebox.DefaultLimits()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Destroy(context.Background(), id); err != nil {
			t.Error(err)
		}
	})
	conn, err := d.Dial(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	c, err := guest.NewClient(t.Context(), conn, guest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func sh(script string) guest.Command {
	return guest.Command{ID: glovebox.NewID(), Args: []string{"sh", "-c", script}}
}

func run(t testing.TB, c *guest.Client, cmd guest.Command) string {
	t.Helper()
	st, out, err := c.Run(t.Context(), cmd, 0)
	if err != nil || st.ExitCode != 0 {
		t.Fatalf("%q: %+v, %v, %s", cmd.Args, st, err, out)
	}
	return string(out)
}

// eventually runs a script until it says what is wanted.
func eventually(t *testing.T, c *guest.Client, script, want string) {
	t.Helper()
	got := run(t, c, sh(script))
	for end := time.Now().Add(time.Minute); got != want && time.Now().Before(end); {
		got = run(t, c, sh(script))
	}
	if got != want {
		t.Errorf("%s: %q, want %q", script, got, want)
	}
}

func TestSandbox(t *testing.T) {
	c := open(t)
	t.Run("identity", func(t *testing.T) { testIdentity(t, c) })
	t.Run("bind", func(t *testing.T) { testBind(t, c) })
	t.Run("terminal", func(t *testing.T) { testTerminal(t, c) })
	t.Run("signal", func(t *testing.T) { testSignal(t, c) })
	t.Run("waits for input", func(t *testing.T) { testWaitsInput(t, c) })
	t.Run("orphans", func(t *testing.T) { testOrphans(t, c) })
	t.Run("ports", func(t *testing.T) { testPorts(t, c) })
	t.Run("watch", func(t *testing.T) { testWatch(t, c) })
	t.Run("find", func(t *testing.T) { testFind(t, c) })
	t.Run("checkpoint", func(t *testing.T) { testCheckpoint(t, c) })
	t.Run("stats", func(t *testing.T) {
		s, err := c.Stats(t.Context())
		t.Logf("%+v", s)
		if err != nil || s.MemoryBytes <= 0 || s.Processes <= 0 {
			t.Error(s, err)
		}
	})
}

// testIdentity checks that file work for tools is not done as root, and that
// tools can't hurt the daemon.
func testIdentity(t *testing.T, c *guest.Client) {
	ctx := t.Context()
	if got := run(t, c, sh("id -u; id -g; id -G")); got != "1000\n1000\n1000\n" {
		t.Errorf("tools are %q", got)
	}
	root := sh("id -u; echo secret > /root/s; chmod 600 /root/s; mkdir /own; chmod 755 /own")
	root.Root = true
	if got := run(t, c, root); got != "0\n" {
		t.Errorf("root is %q", got)
	}
	for name, err := range map[string]error{
		"read":   func() error { _, _, err := c.ReadFile(ctx, "/root/s", 0, 10); return err }(),
		"write":  c.WriteFile(ctx, "/own/x", nil, 0),
		"remove": c.Remove(ctx, "/own"),
		"move":   c.Move(ctx, "/own", "/workspace/own"),
		"mkdir":  c.MakeDir(ctx, "/own/d"),
		"list":   func() error { _, _, err := c.ReadDir(ctx, "/root"); return err }(),
	} {
		if glovebox.CodeOf(err) != glovebox.CodeForbidden {
			t.Errorf("%s as root: %v", name, err)
		}
	}
	if err := c.WriteFile(ctx, "mine", []byte("x"), 0); err != nil {
		t.Fatal(err)
	}
	if got := run(t, c, sh("stat -c %u:%g:%a mine")); got != "1000:1000:644\n" {
		t.Errorf("written as %q", got)
	}
	st, out, err := c.Run(ctx, sh("kill -9 1; for t in /proc/1/task/*; do kill -9 ${t##*/}; done; cat /proc/1/environ"), 0)
	if err != nil || st.ExitCode == 0 {
		t.Errorf("attack on the daemon: %+v, %v, %s", st, err, out)
	}
	run(t, c, sh("true"))
}

func testBind(t *testing.T, c *guest.Client) {
	begin := time.Now()
	err := c.Bind(t.Context(), guest.Settings{Hostname: "workshop", Env: map[string]string{"A": "b"}, Now: time.Now(), Seed: []byte("seed"),
		Files: map[string][]byte{"/home/agent/.npmrc": []byte("x=y\n"), "/etc/pip.conf": []byte("[global]\n")}})
	if err != nil && (time.Since(begin) < time.Second || !strings.Contains(err.Error(), "the clock is off")) { // it may be told late
		t.Error(err)
	}
	if got := run(t, c, sh("hostname; echo $A; stat -c %u ~/.npmrc; cat /etc/pip.conf; getent hosts workshop")); !strings.HasPrefix(got, "workshop\nb\n1000\n[global]\n127.0.1.1") {
		t.Errorf("%q", got)
	}
	if err := c.Bind(t.Context(), guest.Settings{Now: time.Now().Add(-time.Hour)}); glovebox.CodeOf(err) != glovebox.CodeUnavailable {
		t.Errorf("a clock an hour off: %v", err)
	}
}

func testTerminal(t *testing.T, c *guest.Client) {
	cmd := guest.Command{ID: "tty", Args: []string{"bash", "--norc"}, TTY: true, Rows: 30, Cols: 100}
	p, err := c.Start(t.Context(), cmd)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := p.Terminal(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, "stty size; tty; exit\r")
	got, _ := io.ReadAll(conn)
	if !strings.Contains(string(got), "30 100") || !strings.Contains(string(got), "/dev/pts/") {
		t.Errorf("%q", got)
	}
}

func testSignal(t *testing.T, c *guest.Client) {
	p, err := c.Start(t.Context(), sh("setsid sh -c 'exec sleep 1111' & setsid setsid sleep 2222 & sleep 3333 & echo up; wait"))
	if err != nil {
		t.Fatal(err)
	}
	up := fmt.Errorf("up")
	if err := p.Output(t.Context(), 0, func(guest.Output) error { return up }); !errors.Is(err, up) {
		t.Fatal(err)
	}
	if err := p.Signal(t.Context(), "SIGKILL"); err != nil {
		t.Fatal(err)
	}
	st, err := p.Wait(t.Context(), false)
	if err != nil || st.Signal != "SIGKILL" || st.ExitCode != 137 {
		t.Errorf("%+v, %v", st, err)
	}
	eventually(t, c, "ps ax -o args | grep -E 'sleep [123]{4}' | grep -v grep || true", "")
}

func testWaitsInput(t *testing.T, c *guest.Client) {
	for _, tc := range []struct {
		script     string
		tty, waits bool
	}{
		{"printf 'go on? '; read x", false, true},
		{"printf 'go on? '; read x", true, true},
		{"echo working; sleep 2", false, false},
		{"echo working; sleep 2", true, false},
		{"python3 -c 'input(\"name: \")'", true, true},
		{"python3 -c 'import getpass; getpass.getpass(\"\")'", true, true},
	} {
		cmd := sh(tc.script)
		cmd.TTY = tc.tty
		p, err := c.Start(t.Context(), cmd)
		if err != nil {
			t.Fatal(err)
		}
		st, err := p.Wait(t.Context(), true)
		if err != nil || st.WaitsInput != tc.waits || st.Running != tc.waits {
			t.Errorf("%s: %+v, %v", tc.script, st, err)
		}
		if err := p.Signal(t.Context(), "SIGKILL"); err != nil {
			t.Error(err)
		}
	}
}

// testOrphans checks that what loses its parent is waited for, and that no
// exit status is lost to that.
func testOrphans(t *testing.T, c *guest.Client) {
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 5 {
				st, _, err := c.Run(t.Context(), sh(fmt.Sprintf("(true & exec true) & (sleep 0.01; true) >/dev/null 2>&1 & exit %d", 10*i+j)), 0)
				if err != nil || st.ExitCode != 10*i+j {
					t.Errorf("%+v, %v", st, err)
				}
			}
		})
	}
	wg.Wait()
	eventually(t, c, "ps ax -o stat | grep -c '^Z' || true", "0\n")
}

func testPorts(t *testing.T, c *guest.Client) {
	p, err := c.Start(t.Context(), guest.Command{ID: "web", Args: []string{"python3", "-u", "-m", "http.server", "8123", "--bind", "127.0.0.1"}, NoStdin: true})
	if err != nil {
		t.Fatal(err)
	}
	up := fmt.Errorf("up")
	if err := p.Output(t.Context(), 0, func(guest.Output) error { return up }); !errors.Is(err, up) {
		t.Fatal(err)
	}
	list, err := c.Listeners(t.Context())
	t.Logf("%+v", list)
	if err != nil || len(list) != 1 || list[0].Port != 8123 {
		t.Errorf("%+v, %v", list, err)
	}
	conn, err := c.DialPort(t.Context(), 8123)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, "GET / HTTP/1.0\r\n\r\n")
	if got, err := io.ReadAll(conn); err != nil || !bytes.HasPrefix(got, []byte("HTTP/1.0 200")) {
		t.Errorf("%q, %v", got, err)
	}
	if err := p.Signal(t.Context(), "SIGTERM"); err != nil {
		t.Error(err)
	}
}

func testWatch(t *testing.T, c *guest.Client) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	seen := make(chan []string, 100)
	go func() { _ = c.Watch(ctx, "", func(p []string) { seen <- p }) }()
	<-seen
	run(t, c, sh("mkdir -p w/x; echo hello > w/x/f"))
	for {
		select {
		case p := <-seen:
			if slices.Contains(p, "w/x/f") || slices.Contains(p, "w/x") {
				return
			}
		case <-ctx.Done():
			t.Fatal("no change was seen")
		}
	}
}

func testFind(t *testing.T, c *guest.Client) {
	if err := c.WriteFile(t.Context(), "find/a.txt", []byte("needle\n"), 0); err != nil {
		t.Fatal(err)
	}
	m, _, err := c.Search(t.Context(), guest.SearchQuery{Pattern: "needle"})
	if err != nil || len(m) != 1 || m[0].Path != "find/a.txt" {
		t.Errorf("%+v, %v", m, err)
	}
	e, err := c.Glob(t.Context(), "", "find/*.txt", 0, false)
	if err != nil || len(e) != 1 {
		t.Errorf("%+v, %v", e, err)
	}
}

func testCheckpoint(t *testing.T, c *guest.Client) {
	ctx := t.Context()
	run(t, c, sh("mkdir -p proj/empty && cd proj && git init -q . && echo a > a && ln -s a l && chmod +x a && git add . && git -c user.name=x -c user.email=x@y commit -qm one"))
	var pack, next bytes.Buffer
	first, err := c.Checkpoint(ctx, "", "one", &pack)
	if err != nil || !first.Whole {
		t.Fatal(first, err)
	}
	run(t, c, sh("echo b >> proj/a"))
	second, err := c.Checkpoint(ctx, first.Commit, "two", &next)
	if err != nil || len(second.Changes) != 1 || second.Changes[0] != (guest.Change{Path: "proj/a", Added: 1}) {
		t.Fatal(second, err)
	}
	run(t, c, sh("rm -rf proj; echo junk > junk"))
	if err := c.Restore(ctx, first.Commit, nil); err != nil {
		t.Fatal(err)
	}
	if got := run(t, c, sh("cd proj && git status --short && git log --oneline | wc -l; cat l; stat -c '%u %a' a; ls -d empty; ls ../junk 2>/dev/null || true")); got != "1\na\n1000 755\nempty\n" {
		t.Errorf("restored: %q", got)
	}
}
