//go:build linux

package guestd

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/glovebox-dev/glovebox/internal/guest/guestpb"
	"github.com/glovebox-dev/glovebox/internal/guest/wire"
)

// callListener hands streams of calls to an http.Server.
type callListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newCallListener() *callListener {
	return &callListener{conns: make(chan net.Conn), done: make(chan struct{})}
}

// serve hands over c and returns when the http.Server is done with it.
func (l *callListener) serve(c *callConn) {
	select {
	case l.conns <- c:
		<-c.closed
	case <-l.done:
		c.Close()
	}
}

// Accept implements net.Listener.
func (l *callListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *callListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

// Addr implements net.Listener.
func (l *callListener) Addr() net.Addr { return &net.UnixAddr{Name: "guest", Net: "yamux"} }

// callConn is a stream of calls.
type callConn struct {
	*wire.Conn
	ses    *session
	once   sync.Once
	closed chan struct{}
}

// Close implements net.Conn.
func (c *callConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { close(c.closed) })
	return err
}

type sessionKey struct{}

// maxCall is the largest call or answer.
const maxCall = 8 << 20

func newHTTPServer(s *Server) *http.Server {
	mux := http.NewServeMux()
	o := connect.WithHandlerOptions(connect.WithReadMaxBytes(maxCall), connect.WithCompression("gzip", nil, nil), connect.WithInterceptors(errorInterceptor()))
	mux.Handle(guestpb.NewGuestHandler(&handler{s: s}, o))
	mux.Handle(guestpb.NewServicesHandler(&servicesHandler{s: s}, o))
	mux.Handle(guestpb.NewDisplayHandler(newDisplayHandler(s), o))
	mux.Handle(guestpb.NewKernelsHandler(&kernelsHandler{s: s}, o))
	mux.Handle(guestpb.NewStateHandler(&stateHandler{s: s}, o))
	return &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: time.Hour, // a stream stays open between calls; the host is trusted
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          log.New(io.Discard, "", 0),
		BaseContext:       func(net.Listener) context.Context { return s.ctx },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, sessionKey{}, c.(*callConn).ses)
		},
	}
}

// errorInterceptor gives errors the code that they stand for.
func errorInterceptor() connect.UnaryInterceptorFunc {
	return func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, r connect.AnyRequest) (connect.AnyResponse, error) {
			res, err := next(ctx, r)
			if err != nil {
				return nil, wire.ToConnect(err)
			}
			return res, nil
		}
	}
}
