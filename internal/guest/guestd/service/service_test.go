//go:build linux

package service

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest/guestd/proc"
	"github.com/glovebox-dev/glovebox/internal/leaktest"
)

// TestMain is also the service that the tests run: told where to listen, it
// says so there to everyone who connects.
func TestMain(m *testing.M) {
	if at := os.Getenv("SERVICE_LISTEN"); at != "" {
		serve(at)
		return
	}
	leaktest.Main(m)
}

func serve(at string) {
	os.Stdout.WriteString("listening\n")
	l, err := net.Listen("unix", at)
	if err != nil {
		os.Stdout.WriteString(err.Error())
		os.Exit(3)
	}
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			b := make([]byte, 4)
			if n, _ := c.Read(b); string(b[:n]) == "quit" {
				os.Exit(0)
			}
			io.WriteString(c, "served")
			c.Close()
		}()
	}
}

type fixture struct {
	*Supervisor
	dir   string
	procs *proc.Table
}

func (f *fixture) pid(name string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	v, _ := f.find(name)
	if v.proc == nil {
		return 0
	}
	return v.proc.State(false).PID
}

// listening is the definition of a service of this binary.
func listening(dir, name string) Definition {
	sock := filepath.Join(dir, name+".sock")
	return Definition{
		Name: name, Command: []string{os.Args[0]}, Env: map[string]string{"SERVICE_LISTEN": sock}, Ready: Ready{Unix: sock},
	}
}

func start(t *testing.T, defs func(dir string) []Definition) *fixture {
	t.Helper()
	dir, err := os.MkdirTemp("", "svc") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	table := proc.NewTable(false)
	f := &fixture{dir: dir, procs: table}
	f.Supervisor = New(defs(dir), Host{
		Spawn: func(id string, d *Definition) (*proc.Process, error) {
			env := []string{"PATH=" + os.Getenv("PATH")}
			for k, v := range d.Env {
				env = append(env, k+"="+v)
			}
			return table.Start(proc.Command{ID: id, Args: d.Command, Dir: dir, Env: env, NoStdin: true})
		},
		Forget:      table.Forget,
		Path:        func(p string) string { return p },
		WriteSecret: func(p string, b []byte) error { return os.WriteFile(p, b, 0o600) },
	})
	f.firstPause, f.longestPause, f.killAfter = time.Millisecond, 20*time.Millisecond, 200*time.Millisecond
	t.Cleanup(func() {
		f.Close()
		table.Close()
		os.RemoveAll(dir)
	})
	return f
}

func (f *fixture) state(name string) State {
	for _, s := range f.States() {
		if s.Name == name {
			return s
		}
	}
	return State{}
}

func (f *fixture) until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := f.await(ctx, ok); err != nil {
		t.Fatalf("%s: %v; %+v", what, err, f.States())
	}
}

func talk(t *testing.T, f *fixture, name string) string {
	t.Helper()
	c, err := f.Dial(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, "hi")
	b, _ := io.ReadAll(c)
	return string(b)
}

func TestStartsInOrderAndRestarts(t *testing.T) {
	t.Parallel()
	f := start(t, func(dir string) []Definition {
		b := listening(dir, "b")
		b.After = []string{"a"}
		od := listening(dir, "later")
		od.OnDemand = true
		return []Definition{listening(dir, "a"), b, od}
	})
	if err := f.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := f.Start(t.Context()); err != nil { // again: nothing to do
		t.Fatal(err)
	}
	if f.state("later").Running {
		t.Error("the service on demand was started")
	}
	if got := talk(t, f, "b"); got != "served" {
		t.Errorf("b says %q", got)
	}
	pid := f.pid("a")
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	v, _ := f.find("a")
	f.until(t, "restart of a", func() bool { return v.state.Healthy && v.state.Restarts == 1 })
	if st := f.state("a"); st.LastExit != "ended by SIGKILL" {
		t.Errorf("state %+v", st)
	}
	if got := talk(t, f, "a"); got != "served" {
		t.Errorf("a says %q", got)
	}
	want := []byte("listening\n[glovebox: ended by SIGKILL; it is started again in 1ms]\nlistening")
	for end := time.After(2 * time.Minute); ; { // what it says arrives by itself
		log, err := f.Log("a", 1000)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(log, want) {
			return
		}
		select {
		case <-time.After(time.Millisecond):
		case <-end:
			t.Fatalf("log %q", log)
		}
	}
}

func TestOnDemand(t *testing.T) {
	t.Parallel()
	f := start(t, func(dir string) []Definition {
		d := listening(dir, "x")
		d.OnDemand = true
		return []Definition{d}
	})
	if got := talk(t, f, "x"); got != "served" {
		t.Errorf("it says %q", got)
	}
	c, err := f.Dial(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(c, "quit")
	c.Close()
	v, _ := f.find("x")
	f.until(t, "the end", func() bool { return !v.running })
	if st := f.state("x"); st.Running || st.LastExit != "ended with 0" {
		t.Errorf("state %+v", st)
	}
	if got := talk(t, f, "x"); got != "served" {
		t.Errorf("the second time it says %q", got)
	}
}

func TestBackOffAndExplanation(t *testing.T) {
	t.Parallel()
	f := start(t, func(string) []Definition {
		return []Definition{
			{Name: "bad", Command: []string{"sh", "-c", "echo why; exit 7"}, Ready: Ready{Path: "/no/such/path"}},
			{Name: "none", Command: []string{"/no/such/program"}},
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	v, _ := f.find("bad")
	none, _ := f.find("none")
	go func() {
		defer cancel()
		_ = f.await(t.Context(), func() bool { return v.state.Restarts >= 5 && none.state.LastExit != "" })
	}()
	err := f.Start(ctx)
	if glovebox.CodeOf(err) != glovebox.CodeUnavailable || !strings.Contains(err.Error(), "bad (ended with 7)") || !strings.Contains(err.Error(), "none (it can't be started") {
		t.Errorf("error %v", err)
	}
	f.mu.Lock()
	if v.failures < 5 {
		t.Errorf("%d failures", v.failures)
	}
	f.mu.Unlock()
	if log, _ := f.Log("bad", 1<<20); !bytes.Contains(log, []byte("why\n[glovebox: ended with 7; it is started again in 16ms]")) {
		t.Errorf("log %s", log)
	}
}

func TestRestartKillsTheStopped(t *testing.T) {
	t.Parallel()
	f := start(t, func(dir string) []Definition {
		d := listening(dir, "x")
		d.Command = []string{"sh", "-c", `trap "" TERM; "$0"`, os.Args[0]}
		return []Definition{d}
	})
	if err := f.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	pid := f.pid("x")
	if err := syscall.Kill(-pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := f.Restart(t.Context(), "x"); err != nil {
		t.Fatal(err)
	}
	if f.pid("x") == pid || talk(t, f, "x") != "served" {
		t.Error("it was not restarted")
	}
}

func TestReadyBound(t *testing.T) {
	t.Parallel()
	f := start(t, func(string) []Definition {
		return []Definition{{Name: "x", Command: []string{"sleep", "100"}, Ready: Ready{Path: "/no/such/path"}}}
	})
	f.readyWithin = 10 * time.Millisecond
	_ = f.Start(t.Context())
	v, _ := f.find("x")
	f.until(t, "a kill", func() bool { return strings.Contains(v.state.LastExit, "it was not healthy after 10ms") })
}

func TestLogIsBounded(t *testing.T) {
	t.Parallel()
	var r ring
	for range 100 {
		r.write(bytes.Repeat([]byte("x"), 10_000))
	}
	r.write([]byte("end"))
	if got := r.tail(1 << 30); len(got) > ringSize || !bytes.HasSuffix(got, []byte("xend")) {
		t.Errorf("%d bytes", len(got))
	}
	if len(r.buf) > 2*ringSize || len(r.tail(-1)) != 0 {
		t.Error("the ring grows")
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	good := `[{"name":"display","command":["Xvnc",":1"],"env":{"DISPLAY":":1"},"ready":{"unix":"/run/x.sock"},"secret":{"path":"/run/p","format":"vncpasswd"}},
		{"name":"desktop","command":["openbox"],"after":["display"],"ready":{}}]`
	defs, err := Parse([]byte(good))
	if err != nil || len(defs) != 2 || defs[1].After[0] != "display" {
		t.Fatal(defs, err)
	}
	for what, bad := range map[string]string{
		"syntax":    `{"services":[]}`,
		"trailing":  `[] []`,
		"unknown":   `[{"name":"x","command":["y"],"color":1}]`,
		"name":      `[{"name":"a b","command":["y"]}]`,
		"twice":     `[{"name":"x","command":["y"]},{"name":"x","command":["y"]}]`,
		"command":   `[{"name":"x"}]`,
		"after":     `[{"name":"x","command":["y"],"after":["z"]}]`,
		"self":      `[{"name":"x","command":["y"],"after":["x"]}]`,
		"relative":  `[{"name":"x","command":["y"],"ready":{"unix":"s"}}]`,
		"dots":      `[{"name":"x","command":["y"],"secret":{"path":"/a/../b","format":"text"}}]`,
		"format":    `[{"name":"x","command":["y"],"secret":{"path":"/a","format":"x"}}]`,
		"anywhere":  `[{"name":"x","command":["y"],"ready":{"tcp":"0.0.0.0:1"}}]`,
		"both":      `[{"name":"x","command":["y"],"ready":{"tcp":"127.0.0.1:1","unix":"/x"}}]`,
		"variable":  `[{"name":"x","command":["y"],"env":{"A=B":"1"}}]`,
		"too large": strings.Repeat(" ", MaxList+1),
	} {
		if _, err := Parse([]byte(bad)); err == nil {
			t.Errorf("%s: taken", what)
		}
	}
}

func TestVNCPassword(t *testing.T) {
	t.Parallel()
	tool, err := exec.LookPath("vncpasswd")
	if err != nil {
		t.Skip("needs vncpasswd: apt-get install tigervnc-tools")
	}
	for _, password := range []string{"secret", "12345678", "Aa-_09zZ and more", "x234567"} {
		cmd := exec.Command(tool, "-f")
		cmd.Stdin = strings.NewReader(password + "\n")
		want, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		got, err := vncPassword(password)
		if err != nil || !bytes.Equal(got, want[:8]) {
			t.Errorf("%q: %x, want %x, %v", password, got, want, err)
		}
	}
}

func TestSecrets(t *testing.T) {
	t.Parallel()
	f := start(t, func(dir string) []Definition {
		d := listening(dir, "x")
		d.Secret = &Secret{Path: filepath.Join(dir, "token"), Format: FormatText}
		return []Definition{d}
	})
	for _, s := range []string{"one", "two"} {
		if err := f.WriteSecrets(func(name string) string { return name + s }); err != nil {
			t.Fatal(err)
		}
		if got, _ := os.ReadFile(f.dir + "/token"); string(got) != "x"+s {
			t.Errorf("the file holds %q", got)
		}
	}
}

// TestNoBlacklist: the display does not lock out everyone for the failures of
// one, unless its image wants that.
func TestNoBlacklist(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]string{`"Xvnc",":1"`: "Xvnc :1 -UseBlacklist=0", `"Xvnc","-UseBlacklist=1"`: "Xvnc -UseBlacklist=1"} {
		defs, err := Parse([]byte(`[{"name":"display","command":[` + command + `],"ready":{},"secret":{"path":"/run/p","format":"vncpasswd"}},{"name":"x","command":["x"],"ready":{},"secret":{"path":"/run/q","format":"text"}}]`))
		if err != nil || strings.Join(defs[0].Command, " ") != want || len(defs[1].Command) != 1 {
			t.Errorf("%+v, %v", defs, err)
		}
	}
}
