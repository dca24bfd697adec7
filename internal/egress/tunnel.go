package egress

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox/internal/clip"
)

const established = "HTTP/1.1 200 Connection established\r\n\r\n"

// serveConnect serves a CONNECT. It reports whether requests follow that are
// to be read as plain HTTP.
func (s *session) serveConnect(at endpoint) bool {
	if _, ok := s.p.o.Internal[at.host.name]; ok && at.port == 80 {
		return s.plainTunnel(at)
	}
	v := s.p.policy.check(at.host, at.port)
	if !v.Allowed {
		s.deny(at, v.Reason)
		return false
	}
	if at.port == 80 {
		return s.plainTunnel(at)
	}
	a := s.p.begin(at, v.Reason)
	server, err := s.p.connect(s.ctx, v, at)
	if err != nil {
		s.fail(a, err)
		return false
	}
	defer server.Close()
	if _, err := io.WriteString(s.conn, established); err != nil {
		a.end(true, v.Reason)
		return false
	}
	t := &tunnel{s: s, server: server, a: a}
	if at.port == 443 {
		err = t.hold(at)
		if err == nil {
			err = t.run(nil)
		}
	} else {
		// What speaks first here may be the server.
		err = t.run(func() error { return t.holdIfTLS(at) })
	}
	if d, ok := errors.AsType[*denial](err); ok {
		a.end(false, d.reason)
		return false
	}
	a.end(true, v.Reason)
	return false
}

// plainTunnel goes on as if what follows had been sent without a tunnel: the
// clients that tunnel even plain HTTP are many.
func (s *session) plainTunnel(at endpoint) bool {
	if _, err := io.WriteString(s.conn, established); err != nil {
		return false
	}
	s.tunnel = &at
	return true
}

// tunnel joins the sandbox's connection to a server's.
type tunnel struct {
	s      *session
	server net.Conn
	a      *attempt
}

// hold reads the first message of TLS and refuses another server name than
// that of the CONNECT, and whatever is not TLS.
func (t *tunnel) hold(at endpoint) error {
	t.s.conn.SetReadDeadline(time.Now().Add(t.s.p.timeouts.Hello))
	name, err := peekServerName(t.s.br)
	t.s.conn.SetReadDeadline(time.Time{})
	switch {
	case errors.Is(err, errNotTLS):
		return &denial{"only TLS passes to port 443, and " + err.Error()}
	case err != nil && isIO(err):
		return err
	case err != nil:
		return &denial{err.Error()}
	}
	return checkServerName(name, at.host)
}

// holdIfTLS lets other protocols than TLS pass.
func (t *tunnel) holdIfTLS(at endpoint) error {
	name, err := peekServerName(t.s.br)
	switch {
	case errors.Is(err, errNotTLS) || err != nil && isIO(err):
		return nil // what is there passes on, the end of it included
	case err != nil:
		return &denial{err.Error()}
	}
	return checkServerName(name, at.host)
}

func checkServerName(name string, h host) error {
	if h.addr.IsValid() {
		if name == "" || name == h.addr.String() {
			return nil
		}
		return &denial{fmt.Sprintf("the TLS server name is %q, but the connection is to the address %s", clip.Short(name, maxShown), h)}
	}
	if name == "" {
		return &denial{"TLS without a server name can't be checked against the rules"}
	}
	if strings.EqualFold(name, h.name) {
		return nil
	}
	return &denial{fmt.Sprintf("the TLS server name is %q, but the connection is to %s", clip.Short(name, maxShown), h)}
}

// isIO reports whether an error is of the connection, not of what came.
func isIO(err error) bool {
	_, ok := errors.AsType[net.Error](err)
	return ok || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, io.ErrClosedPipe) || errors.Is(err, bufio.ErrBufferFull)
}

// run copies both ways until both have ended. first, if given, is called
// before anything is sent to the server.
func (t *tunnel) run(first func() error) error {
	var wg sync.WaitGroup
	wg.Go(func() {
		defer halfClose(t.s.conn, t.stop)
		t.pump(t.s.conn, t.server, t.a.down.Add)
	})
	var err error
	if first != nil {
		err = first()
	}
	if err == nil {
		t.pump(t.server, t.s.br, t.a.up.Add)
		halfClose(t.server, t.stop)
	} else {
		t.stop()
	}
	wg.Wait()
	return err
}

// stop ends the tunnel: it wakes both directions.
func (t *tunnel) stop() {
	t.server.Close()
	t.s.cancel()
}

var buffers = sync.Pool{New: func() any { b := make([]byte, 64<<10); return &b }}

// pump copies until either side ends. An error of one side ends the tunnel.
func (t *tunnel) pump(dst io.Writer, src io.Reader, count func(int64) int64) {
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	for {
		n, err := src.Read(*buf)
		if n > 0 {
			t.s.touch()
			m, werr := dst.Write((*buf)[:n])
			count(int64(m))
			if werr != nil {
				t.stop()
				return
			}
		}
		if err != nil {
			if err != io.EOF {
				t.stop()
			}
			return
		}
	}
}

// halfClose passes on the end of one direction; a connection that can't do
// that is ended in both.
func halfClose(c net.Conn, stop func()) {
	if w, ok := c.(interface{ CloseWrite() error }); ok && w.CloseWrite() == nil {
		return
	}
	stop()
}
