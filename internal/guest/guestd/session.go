//go:build linux

package guestd

import (
	"bufio"
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest/wire"
)

// maxStreams is how many streams of one session may be open at once.
const maxStreams = 1024

// session is one connection of a host.
type session struct {
	s      *Server
	mux    *yamux.Session
	egress atomic.Bool // the host takes egress connections over it
	slots  chan struct{}
}

func (s *Server) newSession(conn net.Conn) (*session, error) {
	mux, err := wire.NewGuest(conn)
	if err != nil {
		return nil, err
	}
	ses := &session{s: s, mux: mux, slots: make(chan struct{}, maxStreams)}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		mux.Close()
		return nil, net.ErrClosed
	}
	var old *session
	if len(s.sessions) >= maxSessions {
		old = s.sessions[0]
		s.sessions = s.sessions[1:]
	}
	s.sessions = append(s.sessions, ses)
	s.wg.Add(1)
	s.mu.Unlock()
	if old != nil {
		old.mux.Close()
	}
	return ses, nil
}

// serve takes streams until the connection ends, then waits for them.
func (ses *session) serve() {
	defer ses.s.wg.Done()
	defer ses.s.forget(ses)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer ses.mux.Close()
	for {
		st, err := ses.mux.AcceptStream()
		if err != nil {
			return
		}
		select {
		case ses.slots <- struct{}{}:
		default:
			st.Close()
			continue
		}
		wg.Go(func() {
			defer func() { <-ses.slots }()
			ses.stream(st)
		})
	}
}

func (s *Server) forget(ses *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, o := range s.sessions {
		if o == ses {
			s.sessions = append(s.sessions[:i], s.sessions[i+1:]...)
			return
		}
	}
}

// streamHandlers serve the kinds of stream that consist of frames. The
// handler's context ends when the host closes the stream, if the handler
// reads no more from it (see watchClose).
var streamHandlers = map[string]func(*framed) error{
	wire.KindRun:        (*framed).run,
	wire.KindOutput:     (*framed).output,
	wire.KindGet:        (*framed).get,
	wire.KindPut:        (*framed).put,
	wire.KindWatch:      (*framed).watch,
	wire.KindExport:     (*framed).export,
	wire.KindImport:     (*framed).importArchive,
	wire.KindCheckpoint: (*framed).checkpoint,
	wire.KindRestore:    (*framed).restore,
	wire.KindExecute:    (*framed).execute,
}

// stream reads what a stream is and serves it.
func (ses *session) stream(st *yamux.Stream) {
	br := wire.GetReader(st)
	_ = st.SetReadDeadline(time.Now().Add(wire.HeaderTimeout))
	h, err := wire.ReadHeader(br)
	if err != nil {
		st.Close()
		return
	}
	_ = st.SetReadDeadline(time.Time{})
	switch h.Kind {
	case wire.KindCall:
		ses.s.calls.serve(&callConn{Conn: wire.NewConn(st, br), ses: ses, closed: make(chan struct{})})
		return
	case wire.KindTerminal:
		ses.terminal(wire.NewConn(st, br), h.Arg)
		return
	case wire.KindPort:
		ses.port(wire.NewConn(st, br), h.Arg)
		return
	case wire.KindService:
		ses.service(wire.NewConn(st, br), h.Arg)
		return
	}
	defer wire.PutReader(br)
	f := newFramed(ses, st, br)
	defer f.close()
	handle := streamHandlers[h.Kind]
	if handle == nil {
		_ = f.w.Fail(glovebox.Errorf(glovebox.CodeInvalid, "the guest knows no stream of the kind %q", h.Kind))
		return
	}
	if err := handle(f); err != nil {
		_ = f.w.Fail(err)
	}
}

// framed is a stream of frames being served.
type framed struct {
	s      *Server
	st     *yamux.Stream
	r      *wire.FrameReader
	w      *wire.FrameWriter
	ctx    context.Context
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup
	buf    []byte // of get and put, kept from one file to the next
}

func newFramed(ses *session, st *yamux.Stream, br *bufio.Reader) *framed {
	f := &framed{s: ses.s, st: st, r: wire.NewFrameReader(br), w: wire.NewFrameWriter(st, wire.Header{})}
	f.ctx, f.cancel = context.WithCancelCause(ses.s.ctx)
	return f
}

func (f *framed) close() {
	f.cancel(nil)
	f.st.Close()
	_ = f.st.SetReadDeadline(time.Unix(1, 0))
	f.wg.Wait()
}

// watchClose reads what the host still sends, and ends the context when the
// host closes the stream; writing stops then too. onKill is called if the
// host asks for the process to be killed.
func (f *framed) watchClose(onKill func()) {
	f.wg.Go(func() {
		for {
			fr, err := f.r.Read()
			if err != nil {
				f.cancel(err)
				_ = f.st.SetWriteDeadline(time.Unix(1, 0))
				return
			}
			if fr.Type == wire.FrameKill && onKill != nil {
				onKill()
			}
		}
	})
}
