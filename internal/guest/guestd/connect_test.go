//go:build linux

package guestd

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest"
)

// daemon serves connectors at a socket.
func daemon(t *testing.T) (s *Server, socket string) {
	t.Helper()
	s, err := New(Options{Root: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	socket = filepath.Join(t.TempDir(), "run", "guest.sock")
	l, err := listenUnix(socket)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.serveUnix(l) }()
	t.Cleanup(func() {
		s.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s, socket
}

// hello talks to the guest over conn.
func hello(t *testing.T, conn net.Conn) {
	t.Helper()
	c, err := guest.NewClient(t.Context(), conn, guest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, out, err := c.Run(t.Context(), guest.Command{ID: glovebox.NewID(), Args: []string{"echo", "hello"}}, 0); err != nil || string(out) != "hello\n" {
		t.Errorf("%q, %v", out, err)
	}
}

func socketFiles(t *testing.T) (ours net.Conn, theirs *os.File) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fds[0]), "ours")
	defer f.Close()
	if ours, err = net.FileConn(f); err != nil {
		t.Fatal(err)
	}
	return ours, os.NewFile(uintptr(fds[1]), "theirs")
}

// TestConnectPasses checks that a socket is handed over: the connector ends
// and the session goes on.
func TestConnectPasses(t *testing.T) {
	t.Parallel()
	_, socket := daemon(t)
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for _, alone := range []bool{false, true} {
		ours, theirs := socketFiles(t)
		out := theirs
		if alone {
			out = null
		}
		if err := Connect(socket, theirs, out); err != nil {
			t.Fatal(err)
		}
		theirs.Close()
		hello(t, ours)
	}
}

// TestConnectCopies checks pipes.
func TestConnectCopies(t *testing.T) {
	t.Parallel()
	_, socket := daemon(t)
	inR, inW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- Connect(socket, inR, outW); inR.Close(); outW.Close() }()
	hello(t, pipeConn{outR, inW})
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// pipeConn is a connection of two pipes, as docker exec gives.
type pipeConn struct {
	r, w *os.File
}

func (p pipeConn) Read(b []byte) (int, error)         { return p.r.Read(b) }
func (p pipeConn) Write(b []byte) (int, error)        { return p.w.Write(b) }
func (p pipeConn) Close() error                       { return errors.Join(p.w.Close(), p.r.Close()) }
func (p pipeConn) LocalAddr() net.Addr                { return &net.UnixAddr{} }
func (p pipeConn) RemoteAddr() net.Addr               { return &net.UnixAddr{} }
func (p pipeConn) SetDeadline(time.Time) error        { return os.ErrNoDeadline }
func (p pipeConn) SetReadDeadline(time.Time) error    { return os.ErrNoDeadline }
func (p pipeConn) SetWriteDeadline(t time.Time) error { return os.ErrNoDeadline }

// TestConnectEarly starts a connector before its daemon.
func TestConnectEarly(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "guest.sock")
	ours, theirs := socketFiles(t)
	done := make(chan error, 1)
	go func() { done <- Connect(socket, theirs, theirs); theirs.Close() }()
	s, err := New(Options{Root: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	l, err := listenUnix(socket)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.serveUnix(l) }()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	hello(t, ours)
	s.Close()
	<-served
}

// TestOddConnectors sends what no connector sends.
func TestOddConnectors(t *testing.T) {
	t.Parallel()
	_, socket := daemon(t)
	for _, first := range []string{"", "x", "P", "PPPP"} {
		c, err := net.Dial("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, first)
		_ = c.(*net.UnixConn).CloseWrite()
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Errorf("%q got an answer", first)
		}
		c.Close()
	}
	ours, theirs := socketFiles(t)
	if err := Connect(socket, theirs, theirs); err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	hello(t, ours)
}

func TestMainUsage(t *testing.T) {
	for _, args := range [][]string{nil, {"x"}, {"serve", "--no-such-flag"}} {
		if Main(args) == 0 { // what it prints is for people
			t.Errorf("%q succeeded", args)
		}
	}
}

// TestAsUser checks, where the test is root, that file work is done with the
// rights of the tools' user and with no others, on every thread.
func TestAsUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can act as another user")
	}
	root, err := os.MkdirTemp("/tmp", "guest") // not below a directory that is root's alone
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(root)
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	s, err := New(Options{Root: root, UID: guest.UID})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	secret := filepath.Join(root, "secret")
	if err := os.WriteFile(secret, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 50 {
				err := s.asUser(func() error {
					if _, err := os.ReadFile(secret); !errors.Is(err, os.ErrPermission) {
						t.Errorf("as the user: %v", err)
					}
					return writeAtomic(filepath.Join(root, "workspace", glovebox.NewID()), nil, 0)
				})
				if err != nil {
					t.Error(err)
				}
				if _, err := os.ReadFile(secret); err != nil {
					t.Errorf("as root again: %v", err)
				}
			}
		})
	}
	wg.Wait()
	entries, err := os.ReadDir(filepath.Join(root, "workspace"))
	if err != nil || len(entries) != 800 {
		t.Error(len(entries), err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		if st := info.Sys().(*syscall.Stat_t); st.Uid != guest.UID || st.Gid != guest.UID {
			t.Fatalf("%s belongs to %d:%d", e.Name(), st.Uid, st.Gid)
		}
	}
	var out strings.Builder
	_, err = s.runInternal(context.Background(), filepath.Join(root, "workspace"), []string{"sh", "-c", "id -u; id -g; id -G; touch x"}, func(b []byte) bool {
		out.Write(append(b, ' '))
		return true
	})
	if err != nil || out.String() != "1000 1000 1000 " {
		t.Errorf("%q, %v", out.String(), err)
	}
}

func FuzzParseMatch(f *testing.F) {
	f.Add([]byte(`{"type":"match","data":{"path":{"text":"./a"},"lines":{"text":"x\n"},"line_number":3}}`))
	f.Add([]byte(`{"type":"context","data":{"path":{"bytes":"/w=="},"lines":{"bytes":"/w=="}}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if m, ok := parseMatch(b); ok && len(m.Text) > maxMatchText {
			t.Errorf("%d bytes", len(m.Text))
		}
	})
}

func FuzzParseListener(f *testing.F) {
	f.Add("   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 12345 1 0 100 0 0 10 0")
	f.Add("   1: 00000000000000000000000001000000:0050 0:0 0A 0 0 0 0 0 99")
	f.Fuzz(func(t *testing.T, line string) {
		if l, _, ok := parseListener(line); ok && l.Port > 65535 {
			t.Errorf("port %d", l.Port)
		}
	})
}
