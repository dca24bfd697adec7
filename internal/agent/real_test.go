//go:build linux

package agent

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/browser/browsertest"
	"github.com/glovebox-dev/glovebox/internal/guest"
	"github.com/glovebox-dev/glovebox/internal/guest/guestd"
	"github.com/glovebox-dev/glovebox/internal/llm/replay"
	"github.com/glovebox-dev/glovebox/internal/tool"
)

// newGuest returns a guest whose machine is a directory, and its workspace.
func newGuest(t *testing.T) (*guest.Client, string) {
	t.Helper()
	root := t.TempDir()
	server, err := guestd.New(guestd.Options{Root: root})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var conns [2]net.Conn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "guest")
		if conns[i], err = net.FileConn(f); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	go server.ServeConn(conns[0])
	client, err := guest.NewClient(t.Context(), conns[1], guest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client, filepath.Join(root, guest.Workspace)
}

// realHost is a world whose sandbox is real.
type realHost struct {
	*world
	g *guest.Client
}

func (h realHost) Guest(context.Context) (*guest.Client, error) { return h.g, nil }

// TestRealTools runs a recorded job with the real tools in a real guest.
func TestRealTools(t *testing.T) {
	t.Parallel()
	script, err := replay.Parse("real.replay", []byte(`
turn
call plan
  steps := [{"text": "Write it", "status": "active"}]
call write_file
  path = hello.txt
  content = hello world
call shell
  command = seq 1 20000

turn
expect ok
call edit_file
  path = hello.txt
  old = world
  new = there
call finish
  summary = Nothing works yet.
  how_to_run = cat hello.txt
  proofs := ["grep -q nobody hello.txt || { echo nobody is there; exit 3; }"]

turn
expect contains nobody is there
call finish
  summary = It greets.
  how_to_run = cat hello.txt
  proofs := ["grep -q there hello.txt", "test $(pwd | xargs basename) = workspace"]
`))
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(glovebox.Limits{}, replay.New(script, replay.Options{}).Stream)
	g, dir := newGuest(t)
	o := w.options()
	o.Host, o.Tools, o.Prove = realHost{w, g}, tool.All(), nil
	out, err := Run(t.Context(), o)
	if err != nil || out.Status != glovebox.StatusComplete || out.Summary != "It greets." {
		t.Fatalf("%+v %+v, %v", out, out.Failure, err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "hello.txt")); err != nil || !strings.HasPrefix(string(b), "hello there") {
		t.Errorf("%q, %v", b, err)
	}
	if v := w.job.Verification; len(v) != 2 || v[0].ExitCode != 0 {
		t.Errorf("%+v", v)
	}
	for _, f := range all[glovebox.ToolFinished](w, glovebox.EventToolFinished) {
		if n := len(f.Content[0].Text); n > tool.OutputBound {
			t.Errorf("%s: %d bytes in the log", f.Name, n)
		}
	}
}

func TestProve(t *testing.T) {
	t.Parallel()
	g, _ := newGuest(t)
	p, err := prove(t.Context(), &tool.Env{Guest: g}, tool.Proof{Command: "echo out; echo err >&2; exit 7"})
	if err != nil || p.ExitCode != 7 || !strings.Contains(p.Output, "out") || !strings.Contains(p.Output, "err") {
		t.Errorf("%+v, %v", p, err)
	}
	p, err = prove(t.Context(), &tool.Env{Guest: g}, tool.Proof{Command: "seq 1 100000"})
	if err != nil || len(p.Output) > proofOutput || !strings.HasSuffix(p.Output, "99999\n100000\n") {
		t.Errorf("%d bytes, %v", len(p.Output), err)
	}
	p, err = proveWithin(t.Context(), g, "echo begun; sleep 600", 300*time.Millisecond)
	if err != nil || p.ExitCode != exitTimedOut || !strings.Contains(p.Output, "stopped after") {
		t.Errorf("%+v, %v", p, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := prove(ctx, &tool.Env{Guest: g}, tool.Proof{Command: "true"}); err == nil {
		t.Error("no error although it was cancelled")
	}
}

// reservePort returns a port of the loopback that nobody else is given until the
// test ends, and on which a server that reuses addresses, as Python's does, can
// listen all the same: the socket that holds it does not.
func reservePort(t *testing.T) string {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		t.Fatal(err)
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	addr, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return strconv.Itoa(addr.(*unix.SockaddrInet4).Port)
}

// TestPageProofs finishes with pages in a real browser: one that throws, then
// one that works.
func TestPageProofs(t *testing.T) {
	dial := browsertest.Dialer(t)
	port := reservePort(t)
	script, err := replay.Parse("pages.replay", []byte(strings.ReplaceAll(`
turn
call write_file
  path = index.html
  content = <title>Todo</title><p>Buy milk<script>nothing()</script>
call finish
  summary = Not yet.
  how_to_run = open index.html
  proofs := [{"page": "http://localhost:PORT/", "start": "python3 -m http.server --bind 127.0.0.1 PORT", "expect": "Buy milk"}]

turn
expect contains FAILED after
expect contains 1 exception was left uncaught
expect contains nothing is not defined
call write_file
  path = index.html
  content = <title>Todo</title><p>Buy milk
call finish
  summary = It shows.
  how_to_run = open index.html
  proofs := ["test -s index.html", {"page": "http://localhost:PORT/", "start": "python3 -m http.server --bind 127.0.0.1 PORT", "expect": "Buy milk"}]
`, "PORT", port)))
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(glovebox.Limits{}, replay.New(script, replay.Options{}).Stream)
	g, _ := newGuest(t)
	o := w.options()
	o.Host, o.Tools = realHost{w, g}, tool.All()
	o.Prove = func(ctx context.Context, env *tool.Env, p tool.Proof) (glovebox.Proof, error) {
		env.Browser = dial
		return prove(ctx, env, p)
	}
	out, err := Run(t.Context(), o)
	if err != nil || out.Status != glovebox.StatusComplete {
		t.Fatalf("%+v %+v, %v", out, out.Failure, err)
	}
	v := w.job.Verification
	if len(v) != 2 || v[0].Page != "" || v[1].ExitCode != 0 || v[1].Title != "Todo" || v[1].Page != "http://localhost:"+port+"/" {
		t.Fatalf("%+v", v)
	}
	if shot := w.blobs[v[1].Screenshot]; !strings.HasPrefix(string(shot), "\x89PNG") {
		t.Errorf("the screenshot has %d bytes", len(shot))
	}
}
