//go:build linux

package guestd_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest"
	"github.com/glovebox-dev/glovebox/internal/guest/guestd"
)

// output returns all that a process writes.
func output(t *testing.T, p *guest.Process, off int64) string {
	t.Helper()
	var b bytes.Buffer
	if err := p.Output(t.Context(), off, func(o guest.Output) error { b.Write(o.Data); return nil }); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// until reads output until it contains s.
func until(t *testing.T, p *guest.Process, s string) string {
	t.Helper()
	var b bytes.Buffer
	enough := errors.New("enough")
	err := p.Output(t.Context(), 0, func(o guest.Output) error {
		if b.Write(o.Data); strings.Contains(b.String(), s) {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) {
		t.Fatalf("output %q ended without %q: %v", b.String(), s, err)
	}
	return b.String()
}

func startProc(t *testing.T, c *guest.Client, cmd guest.Command) *guest.Process {
	t.Helper()
	p, err := c.Start(t.Context(), cmd)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// gone waits until a process has ended.
func gone(t *testing.T, pid int) {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 60_000)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if n != 1 {
			t.Fatalf("process %d is still there, %v", pid, err)
		}
		return
	}
}

func TestTerminal(t *testing.T) {
	t.Parallel()
	c, _ := start(t)
	p := startProc(t, c, guest.Command{ID: "tty", Args: []string{"sh", "-c", "stty size; read x; stty size; echo got $x"}, TTY: true, Rows: 33, Cols: 111})
	until(t, p, "33 111")
	if err := p.Resize(t.Context(), 44, 122); err != nil {
		t.Fatal(err)
	}
	conn, err := p.Terminal(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "hello\r"); err != nil {
		t.Fatal(err)
	}
	got, _ := io.ReadAll(conn)
	if !strings.Contains(string(got), "44 122") || !strings.Contains(string(got), "got hello") {
		t.Errorf("terminal %q", got)
	}
	if st, err := p.Wait(t.Context(), false); err != nil || st.ExitCode != 0 {
		t.Error(st, err)
	}
	q := startProc(t, c, sh("pipe", "true"))
	_, err = q.Terminal(t.Context())
	wantCode(t, err, glovebox.CodeConflict)
	wantCode(t, q.Resize(t.Context(), 1, 1), glovebox.CodeConflict)
}

func TestTerminalEndOfFile(t *testing.T) {
	t.Parallel()
	c, _ := start(t)
	p := startProc(t, c, guest.Command{ID: "tty", Args: []string{"cat"}, TTY: true})
	if err := p.CloseStdin(t.Context()); err != nil {
		t.Fatal(err)
	}
	if st, err := p.Wait(t.Context(), false); err != nil || st.ExitCode != 0 {
		t.Error(st, err)
	}
}

func TestSignalReachesWhatLeft(t *testing.T) {
	t.Parallel()
	c, _ := start(t)
	p := startProc(t, c, sh("leaver", "setsid sh -c 'echo $$; exec sleep 1000' & sh -c 'echo $$; exec sleep 1000' & wait"))
	var pids []int
	for len(pids) < 2 {
		pids = pids[:0]
		for f := range strings.FieldsSeq(until(t, p, "\n")) {
			if pid, err := strconv.Atoi(f); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	if err := p.Signal(t.Context(), "SIGKILL"); err != nil {
		t.Fatal(err)
	}
	st, err := p.Wait(t.Context(), false)
	if err != nil || st.Signal != "SIGKILL" || st.ExitCode != 137 {
		t.Error(st, err)
	}
	for _, pid := range pids {
		gone(t, pid)
	}
	wantCode(t, p.Signal(t.Context(), "SIGWINCH"), glovebox.CodeInvalid)
	if err := p.Signal(t.Context(), "SIGTERM"); err != nil {
		t.Errorf("signal to what has ended: %v", err)
	}
}

// TestSignalAfterEnd stops what a command left in the background.
func TestSignalAfterEnd(t *testing.T) {
	t.Parallel()
	c, _ := start(t)
	st, out, err := c.Run(t.Context(), sh("parent", "setsid sleep 1000 >/dev/null 2>&1 & echo $!"), 0)
	if err != nil || st.ExitCode != 0 {
		t.Fatal(st, err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.Attach(t.Context(), "parent")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Signal(t.Context(), "SIGKILL"); err != nil {
		t.Fatal(err)
	}
	gone(t, pid)
}

// TestOutputEndsThoughHeld checks that something left in the background with
// the pipes open does not keep Run from returning, and is not hurt by that.
func TestOutputEndsThoughHeld(t *testing.T) {
	t.Parallel()
	c, _ := start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	_, out, err := c.Run(ctx, sh("held", "echo first; (read x < fifo; echo late; exec sleep 1000) & exit 0"), 0)
	if err != nil || string(out) != "first\n" && !strings.Contains(string(out), "fifo") {
		t.Fatalf("%q, %v", out, err)
	}
	p, _ := c.Attach(t.Context(), "held")
	if err := p.Signal(t.Context(), "SIGKILL"); err != nil {
		t.Error(err)
	}
}

func TestAttachers(t *testing.T) {
	t.Parallel()
	c, b := start(t)
	p := startProc(t, c, sh("many", "echo one; read x; echo two; echo three >&2"))
	until(t, p, "one\n")
	other := b.dial(t, guest.Options{})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			q, err := other.Attach(t.Context(), "many")
			if err != nil {
				t.Error(err)
				return
			}
			want := "one\ntwo\nthree\n"[min(i, 4):]
			var got strings.Builder
			next := int64(min(i, 4))
			err = q.Output(t.Context(), next, func(o guest.Output) error {
				if o.Offset != next || o.Stderr != strings.Contains(string(o.Data), "three") {
					t.Errorf("piece %+v, want offset %d", o, next)
				}
				next += int64(len(o.Data))
				got.Write(o.Data)
				return nil
			})
			if s := got.String(); err != nil || len(s) != len(want) || !strings.HasSuffix(s, "\n") {
				t.Errorf("attached at %d: %q, %v", i, s, err)
			}
		})
	}
	if err := p.Write(t.Context(), []byte("\n")); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	list, err := other.Processes(t.Context())
	if err != nil || len(list) != 1 || list[0].ID != "many" {
		t.Error(list, err)
	}
}

// TestReconnect cuts the connection under a running process and finds it
// again over another one.
func TestReconnect(t *testing.T) {
	t.Parallel()
	b := newSandbox(t, guestd.Options{})
	host, inside := pair(t)
	go b.s.ServeConn(inside)
	c, err := guest.NewClient(t.Context(), host, guest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	p := startProc(t, c, sh("stays", "echo before; read x; echo after $x"))
	until(t, p, "before\n")
	waited := make(chan error, 2)
	go func() { _, err := p.Wait(t.Context(), false); waited <- err }()
	go func() { waited <- p.Output(t.Context(), 7, func(guest.Output) error { return nil }) }()
	host.Close()
	for range 2 {
		wantCode(t, <-waited, glovebox.CodeUnavailable)
	}
	<-c.Done()
	_, err = c.Stat(t.Context(), "/workspace")
	wantCode(t, err, glovebox.CodeUnavailable)

	again := b.dial(t, guest.Options{})
	q, err := again.Attach(t.Context(), "stays")
	if err != nil {
		t.Fatal(err)
	}
	if err := q.Write(t.Context(), []byte("cut\n")); err != nil {
		t.Fatal(err)
	}
	if got := output(t, q, 0); got != "before\nafter cut\n" {
		t.Errorf("output %q", got)
	}
}

// TestFlood lets a process write much more than is kept, while a reader
// stands still: the process must not wait, the memory must be bounded.
func TestFlood(t *testing.T) {
	t.Parallel()
	c, _ := start(t)
	const size, limit = 64 << 20, 64 << 10
	p := startProc(t, c, guest.Command{ID: "flood", Args: []string{"head", "-c", strconv.Itoa(size), "/dev/zero"}, OutputLimit: limit})
	stuck, release := make(chan struct{}), make(chan struct{})
	done := make(chan error, 1)
	var total, kept int64
	go func() {
		var once sync.Once
		done <- p.Output(t.Context(), 0, func(o guest.Output) error {
			once.Do(func() { close(stuck); <-release })
			if o.Dropped > 0 {
				total += o.Dropped
			} else {
				total += int64(len(o.Data))
				kept += int64(len(o.Data))
			}
			return nil
		})
	}()
	<-stuck
	st, err := p.Wait(t.Context(), false)
	if err != nil || st.ExitCode != 0 {
		t.Fatal(st, err)
	}
	close(release)
	if err := <-done; err != nil || total != size {
		t.Errorf("%d of %d bytes accounted for, %v", total, size, err)
	}
	var again int64
	err = p.Output(t.Context(), 0, func(o guest.Output) error {
		if o.Dropped == 0 {
			again += int64(len(o.Data))
		}
		return nil
	})
	if err != nil || again > limit {
		t.Errorf("%d bytes are kept, not %d, %v", again, limit, err)
	}
}

func TestStdin(t *testing.T) {
	t.Parallel()
	c, _ := start(t)
	p := startProc(t, c, guest.Command{ID: "none", Args: []string{"cat"}, NoStdin: true})
	if got := output(t, p, 0); got != "" {
		t.Errorf("output %q", got)
	}
	wantCode(t, p.Write(t.Context(), []byte("x")), glovebox.CodeConflict)

	// More than a pipe holds, to one that does not read.
	p = startProc(t, c, guest.Command{ID: "deaf", Args: []string{"sleep", "1000"}})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	wantCode(t, p.Write(ctx, make([]byte, 1<<20)), glovebox.CodeUnavailable)

	// Many megabytes, to one that does.
	p = startProc(t, c, guest.Command{ID: "count", Args: []string{"wc", "-c"}})
	if err := p.Write(t.Context(), make([]byte, 5<<20)); err != nil {
		t.Fatal(err)
	}
	if err := p.CloseStdin(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := strings.TrimSpace(output(t, p, 0)); got != strconv.Itoa(5<<20) {
		t.Errorf("counted %s", got)
	}
}

func TestWaitsInput(t *testing.T) {
	t.Parallel()
	if _, err := os.ReadFile("/proc/self/syscall"); err != nil {
		t.Skip("this kernel does not say what processes wait for")
	}
	for _, tc := range []struct {
		name, script string
		tty, waits   bool
	}{
		{"prompt on a pipe", "printf 'go on? '; read x", false, true},
		{"silent on a pipe", "cat >/dev/null", false, true},
		{"prompt on a terminal", "printf 'go on? '; read x", true, true},
		{"silent on a terminal", "cat", true, true},
		{"sleeps", "printf 'wait... '; sleep 2", false, false},
		{"sleeps on a terminal", "printf 'wait... '; sleep 2", true, false},
		{"works", "i=0; while [ $i -lt 60 ]; do i=$((i+1)); sleep 0.02; done", false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c, _ := start(t)
			cmd := sh("p", tc.script)
			cmd.TTY = tc.tty
			p := startProc(t, c, cmd)
			st, err := p.Wait(t.Context(), true)
			if err != nil || st.WaitsInput != tc.waits || st.Running != tc.waits {
				t.Errorf("%+v, %v", st, err)
			}
			if tc.waits {
				if st, err = p.State(t.Context()); err != nil || !st.WaitsInput {
					t.Errorf("State: %+v, %v", st, err)
				}
			}
		})
	}
}

func TestBadCommands(t *testing.T) {
	t.Parallel()
	c, _ := start(t)
	// Not written by this process: others that it starts at this moment would
	// have it open, and a file that is open for writing is not run.
	if st, out, err := c.Run(t.Context(), sh("write", "echo '#!/no/such/interpreter' > script; chmod 755 script"), 0); err != nil || st.ExitCode != 0 {
		t.Fatal(string(out), err)
	}
	for i, tc := range []struct {
		cmd  guest.Command
		code glovebox.Code
	}{
		{guest.Command{ID: "", Args: []string{"true"}}, glovebox.CodeInvalid},
		{guest.Command{ID: "a/b", Args: []string{"true"}}, glovebox.CodeInvalid},
		{guest.Command{ID: strings.Repeat("x", 65), Args: []string{"true"}}, glovebox.CodeInvalid},
		{guest.Command{ID: "a"}, glovebox.CodeInvalid},
		{guest.Command{ID: "a", Args: []string{""}}, glovebox.CodeInvalid},
		{guest.Command{ID: "a", Args: []string{"echo", "a\x00b"}}, glovebox.CodeInvalid},
		{guest.Command{ID: "a", Args: []string{"true"}, OutputLimit: -1}, glovebox.CodeInvalid},
		{guest.Command{ID: "a", Args: []string{"true"}, Dir: "/workspace/none"}, glovebox.CodeNotFound},
		{guest.Command{ID: "a", Args: []string{"true"}, Dir: "/workspace/../../.."}, ""}, // the sandbox's root
		{guest.Command{ID: "a", Args: []string{"./script"}}, glovebox.CodeNotFound},
		{guest.Command{ID: "a", Args: []string{"/"}}, glovebox.CodeForbidden},
		{guest.Command{ID: "a", Args: []string{"true", strings.Repeat("x", 2<<20)}}, glovebox.CodeInvalid},
	} {
		if tc.cmd.ID == "a" {
			tc.cmd.ID = "a" + strconv.Itoa(i)
		}
		_, err := c.Start(t.Context(), tc.cmd)
		if glovebox.CodeOf(err) != tc.code {
			t.Errorf("%d: %v, want %s", i, err, tc.code)
		}
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	c, _ := start(t)
	st, _, err := c.Run(t.Context(), sh("busy", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"), 0)
	if err != nil || st.CPU < 10*time.Millisecond || st.MaxRSS < 100<<10 || st.EndedAt.Before(st.StartedAt) {
		t.Errorf("%+v, %v", st, err)
	}
	s, err := c.Stats(t.Context())
	if err != nil || s.MemoryBytes <= 0 || s.Processes <= 0 || s.DiskBytes <= 0 {
		t.Errorf("%+v, %v", s, err)
	}
}
