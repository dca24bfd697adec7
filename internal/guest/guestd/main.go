//go:build linux

package guestd

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/internal/guest"
	"github.com/glovebox-dev/glovebox/internal/guest/wire"
)

// SocketPath is where, in a sandbox, the daemon takes connections. Only root
// may connect.
const SocketPath = "/run/glovebox/guest.sock"

// Main runs "serve", "connect" or "desktop", the subcommands of "glovebox guest", and
// returns the exit code.
//
// serve is the first process of a sandbox. It takes connections at SocketPath
// and, if its standard input is a socket, over that too. If its standard
// output is one, it is a spare connection: see wire.SpareMark.
//
// connect, started in the sandbox by whatever the driver has (exec), joins its
// standard input and output to the daemon. If standard input is a socket and
// output is the same one (or leads nowhere) it passes that to the daemon and
// ends; otherwise it copies until the daemon closes.
//
// desktop is the first process of a container without a host; see [desktop].
func Main(args []string) int {
	err := errors.New("usage: glovebox guest serve|connect [--socket PATH], or glovebox guest desktop")
	if len(args) > 0 && args[0] == "desktop" {
		err = desktopMain(args[1:])
	} else if len(args) > 0 {
		flags := flag.NewFlagSet("guest "+args[0], flag.ContinueOnError)
		socket := flags.String("socket", SocketPath, "where the daemon takes connections")
		if perr := flags.Parse(args[1:]); perr != nil {
			return 2
		}
		switch args[0] {
		case "serve":
			err = serveMain(*socket)
		case "connect":
			err = Connect(*socket, os.Stdin, os.Stdout)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "glovebox guest:", err)
		return 1
	}
	return 0
}

func serveMain(socket string) error {
	if os.Getpid() != 1 {
		// Orphans come to us all the same.
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("become the reaper of orphans: %w", err)
		}
	}
	loopbackUp()
	s, err := New(Options{UID: guest.UID, Init: true, ProxyAddr: guest.ProxyAddr})
	if err != nil {
		return err
	}
	l, err := listenUnix(socket)
	if err != nil {
		return err
	}
	if conn, err := inherited(os.Stdin); err == nil {
		go s.ServeConn(conn)
	}
	if conn, err := inherited(os.Stdout); err == nil {
		go s.serveSpare(conn)
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	signal.Ignore(syscall.SIGHUP, syscall.SIGPIPE)
	go func() {
		<-stop
		s.cancel()
	}()
	err = s.serveUnix(l)
	return errors.Join(err, s.Close())
}

// inherited is standard input or output as a connection, if it is a socket.
func inherited(f *os.File) (net.Conn, error) {
	fd := int(f.Fd())
	conn, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	if null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0); err == nil { // no process inherits it
		_ = unix.Dup3(int(null.Fd()), fd, 0)
		null.Close()
	}
	return conn, nil
}

// serveSpare says on a connection that it is waited for, and serves it when
// something comes. A machine that was frozen meanwhile goes on with another
// one in its place, and need not start a process to be reached.
func (s *Server) serveSpare(conn net.Conn) {
	stop := context.AfterFunc(s.ctx, func() { conn.Close() })
	first := make([]byte, 1)
	_, err := conn.Write([]byte{wire.SpareMark})
	if err == nil {
		_, err = io.ReadFull(conn, first)
	}
	if !stop() || err != nil {
		conn.Close()
		return
	}
	s.ServeConn(&begunConn{Conn: conn, first: first})
}

// begunConn is a connection of which something was read already.
type begunConn struct {
	net.Conn
	first []byte // read again before the rest; one goroutine reads
}

// Read reads what was read already, then the rest.
func (c *begunConn) Read(b []byte) (int, error) {
	if len(c.first) > 0 {
		n := copy(b, c.first)
		c.first = c.first[n:]
		return n, nil
	}
	return c.Conn.Read(b)
}

func listenUnix(socket string) (*net.UnixListener, error) {
	if err := os.MkdirAll(filepath.Dir(socket), 0o700); err != nil {
		return nil, err
	}
	_ = os.Remove(socket)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return nil, err
	}
	return l, os.Chmod(socket, 0o600)
}

// The first byte on a connection to the socket says what follows.
const (
	sockStream = 'S' // the session, on this connection
	sockPass   = 'P' // a descriptor with the session; answered by sockDone
	sockDone   = 'D'
)

// serveUnix serves connections of Connect.
func (s *Server) serveUnix(l *net.UnixListener) error {
	go func() {
		<-s.ctx.Done()
		l.Close()
	}()
	for {
		c, err := l.AcceptUnix()
		if err != nil {
			if s.ctx.Err() != nil {
				return nil //nolint:nilerr // it was we who closed l
			}
			s.pause(egressPause) // out of descriptors
			continue
		}
		go func() {
			conn, err := takeConn(c)
			if err != nil {
				c.Close()
				return
			}
			s.ServeConn(conn)
		}()
	}
}

// takeConn reads what a connection is.
func takeConn(c *net.UnixConn) (net.Conn, error) {
	_ = c.SetDeadline(time.Now().Add(connectWait))
	first, oob := make([]byte, 1), make([]byte, unix.CmsgSpace(4))
	n, oobn, _, _, err := c.ReadMsgUnix(first, oob)
	if err != nil || n != 1 {
		return nil, fmt.Errorf("read the first byte: %w", errors.Join(err, io.ErrUnexpectedEOF))
	}
	if first[0] == sockStream {
		return c, c.SetDeadline(time.Time{})
	}
	msgs, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil || len(msgs) != 1 || first[0] != sockPass {
		return nil, errors.New("no descriptor came")
	}
	fds, err := unix.ParseUnixRights(&msgs[0])
	if err != nil || len(fds) != 1 {
		return nil, errors.New("no descriptor came")
	}
	f := os.NewFile(uintptr(fds[0]), "session")
	defer f.Close()
	conn, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	_, err = c.Write([]byte{sockDone})
	c.Close()
	if err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// Connect joins in and out to the daemon at socket.
func Connect(socket string, in, out *os.File) error {
	stream := isStream(in, out)
	c, err := dialDaemon(socket)
	if err != nil {
		return fmt.Errorf("the guest daemon does not answer: %w", err)
	}
	defer c.Close()
	if stream {
		_ = c.SetDeadline(time.Now().Add(connectWait))
		if _, _, err := c.WriteMsgUnix([]byte{sockPass}, unix.UnixRights(int(in.Fd())), nil); err != nil {
			return fmt.Errorf("pass the connection to the guest daemon: %w", err)
		}
		if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
			return fmt.Errorf("the guest daemon did not take the connection: %w", err)
		}
		return nil
	}
	if _, err := c.Write([]byte{sockStream}); err != nil {
		return err
	}
	var wg sync.WaitGroup
	go func() {
		_, _ = io.Copy(c, in)
		_ = c.CloseWrite()
	}()
	wg.Go(func() { _, _ = io.Copy(out, c) })
	wg.Wait()
	return nil
}

// connectWait is how long the daemon may take to start, and either end to say
// what it has to say.
const connectWait = 30 * time.Second

// dialDaemon connects to the daemon, which may be starting only now.
func dialDaemon(socket string) (*net.UnixConn, error) {
	pause := time.Millisecond
	for begin := time.Now(); ; time.Sleep(pause) { //nolint:forbidigo // nothing tells when it listens
		c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: socket, Net: "unix"})
		starting := errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ECONNREFUSED)
		if !starting || time.Since(begin) > connectWait {
			return c, err
		}
		pause = min(2*pause, 50*time.Millisecond)
	}
}

// isStream reports whether in alone carries both directions: it is a socket,
// and out is the same one or leads nowhere (a driver may give in alone).
func isStream(in, out *os.File) bool {
	var si, so unix.Stat_t
	if unix.Fstat(int(in.Fd()), &si) != nil || si.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return false
	}
	if unix.Fstat(int(out.Fd()), &so) != nil {
		return true
	}
	return so.Mode&unix.S_IFMT == unix.S_IFCHR || so.Ino == si.Ino && so.Dev == si.Dev
}

// loopbackUp brings the loopback device up where the driver left it down. An
// error is not ours to report: listening says it better.
func loopbackUp() {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	ifr, err := unix.NewIfreq("lo")
	if err != nil || unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, ifr) != nil || ifr.Uint16()&unix.IFF_UP != 0 {
		return
	}
	ifr.SetUint16(ifr.Uint16() | unix.IFF_UP)
	_ = unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr)
}
