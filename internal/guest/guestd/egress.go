//go:build linux

package guestd

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox/internal/guest/wire"
)

// Bounds of egress.
const (
	maxEgress   = 256 // connections at once; more are closed at once
	egressPause = 50 * time.Millisecond
	egressWait  = 10 * time.Second // for a host to be there
)

// egress takes connections to the proxy and joins each to a stream to the
// newest host that takes them.
type egress struct {
	s     *Server
	l     net.Listener
	slots chan struct{}

	mu   sync.Mutex
	came chan struct{} // closed and replaced when a session offers to take connections
}

func listenEgress(s *Server, addr string) (*egress, error) {
	l, err := new(net.ListenConfig).Listen(s.ctx, "tcp4", addr)
	if err != nil {
		return nil, err
	}
	e := &egress{s: s, l: l, slots: make(chan struct{}, maxEgress), came: make(chan struct{})}
	s.wg.Go(e.serve)
	return e, nil
}

// pause waits for d, or until the server stops.
func (s *Server) pause(d time.Duration) {
	select {
	case <-s.ctx.Done():
	case <-time.After(d):
	}
}

func (e *egress) serve() {
	for {
		conn, err := e.l.Accept()
		if err != nil {
			if e.s.ctx.Err() != nil {
				return
			}
			e.s.pause(egressPause) // out of descriptors: the accepted ones will end
			continue
		}
		select {
		case e.slots <- struct{}{}:
			e.s.wg.Go(func() {
				defer func() { <-e.slots }()
				e.join(conn)
			})
		default:
			conn.Close()
		}
	}
}

// join joins a connection to the newest host. If that host's session turns
// out to be dead, the next one is tried.
func (e *egress) join(conn net.Conn) {
	defer conn.Close()
	stop := context.AfterFunc(e.s.ctx, func() { conn.Close() })
	defer stop()
	timeout := time.NewTimer(egressWait)
	defer timeout.Stop()
	for {
		came := e.arrival()
		if ses := e.s.egressSession(); ses != nil {
			st, err := ses.mux.OpenStream()
			if err == nil {
				_, err = st.Write(wire.Header{Kind: wire.KindEgress}.Append(nil))
			}
			if err == nil {
				wire.Join(conn, wire.NewConn(st, nil))
				return
			}
			if !ses.mux.IsClosed() {
				return
			}
			e.s.forget(ses)
			continue
		}
		select {
		case <-came:
		case <-timeout.C:
			return
		case <-e.s.ctx.Done():
			return
		}
	}
}

// arrival returns what is closed when the next host offers to take
// connections.
func (e *egress) arrival() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.came
}

// egressSession returns the newest session that takes egress connections.
func (s *Server) egressSession() *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := len(s.sessions) - 1; i >= 0; i-- {
		if ses := s.sessions[i]; ses.egress.Load() && !ses.mux.IsClosed() {
			return ses
		}
	}
	return nil
}

// takesEgress notes that a session's host takes egress connections.
func (ses *session) takesEgress() {
	ses.egress.Store(true)
	if e := ses.s.egress; e != nil {
		e.mu.Lock()
		close(e.came)
		e.came = make(chan struct{})
		e.mu.Unlock()
	}
}
