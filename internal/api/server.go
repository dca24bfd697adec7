package api

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/glovebox-dev/glovebox"
)

// ServerOptions configures a Server.
type ServerOptions struct {
	Listen  string // "host:port"; port 0 takes a free one
	Handler *API   // required
	Log     *slog.Logger

	// HeaderTimeout is how long a request's header may take. 0 means 10 s.
	HeaderTimeout time.Duration
	// IdleTimeout is how long a connection may be kept without a request. 0
	// means 2 min.
	IdleTimeout time.Duration
}

// maxHeaderBytes bounds the header of a request.
const maxHeaderBytes = 32 << 10

// Server serves an API on a TCP address.
type Server struct {
	http *http.Server
	ln   net.Listener
	host string // of Listen
	done chan struct{}
	err  error
}

// StartServer listens and serves. Beyond loopback it refuses to start for an
// API that asks for no tokens.
func StartServer(o ServerOptions) (*Server, error) {
	ln, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", o.Listen)
	if err != nil {
		return nil, &glovebox.Error{Code: glovebox.CodeUnavailable, Op: "listen", Field: "listen", Value: o.Listen, Msg: "can't listen on " + o.Listen, Err: err,
			Hint: "is another server running there? choose another address with --listen"}
	}
	if tcp, ok := ln.Addr().(*net.TCPAddr); !o.Handler.o.RequireTokens && (!ok || !tcp.IP.IsLoopback()) {
		ln.Close()
		return nil, glovebox.Invalid("listen", "listen on 127.0.0.1, or make a token first: glovebox token create --tenant NAME --scope write",
			"without tokens, %s would be open to everyone who can reach it", ln.Addr()).WithValue(o.Listen)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.HeaderTimeout == 0 {
		o.HeaderTimeout = 10 * time.Second
	}
	if o.IdleTimeout == 0 {
		o.IdleTimeout = 2 * time.Minute
	}
	// No ReadTimeout and no WriteTimeout: they would cut streams and
	// downloads. The API bounds bodies and each single write instead.
	host, _, _ := net.SplitHostPort(o.Listen) // it was listened on
	s := &Server{ln: ln, host: host, done: make(chan struct{}), http: &http.Server{
		Handler: o.Handler, ReadHeaderTimeout: o.HeaderTimeout, IdleTimeout: o.IdleTimeout, MaxHeaderBytes: maxHeaderBytes,
		ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
	}}
	s.http.RegisterOnShutdown(o.Handler.Drain)
	go func() {
		defer close(s.done)
		if err := s.http.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			s.err = err
		}
	}()
	return s, nil
}

// Addr returns the address that the server listens on.
func (s *Server) Addr() string { return s.ln.Addr().String() }

// URL returns an address at which this machine reaches the server, as a URL
// that a browser opens: under the name that Listen gave, and through loopback
// where the server listens on every address.
func (s *Server) URL() string {
	host, port, err := net.SplitHostPort(s.Addr())
	if err != nil {
		return "http://" + s.Addr()
	}
	if s.Everywhere() {
		host = "127.0.0.1" // Go's listener of [::] takes version 4 as well
	} else if net.ParseIP(s.host) == nil {
		host = s.host // a name
	}
	return "http://" + net.JoinHostPort(host, port)
}

// Everywhere reports whether the server listens on every address of its machine.
func (s *Server) Everywhere() bool {
	tcp, ok := s.ln.Addr().(*net.TCPAddr)
	return ok && tcp.IP.IsUnspecified()
}

// Done is closed when the server has stopped, by Stop or by a failure.
func (s *Server) Done() <-chan struct{} { return s.done }

// Err returns why the server stopped, once Done is closed; nil after Stop.
func (s *Server) Err() error {
	select {
	case <-s.done:
		return s.err
	default:
		return nil
	}
}

// Stop takes no new connections, ends event streams and long polls cleanly,
// and returns when the running requests are answered. If ctx ends before, it
// breaks off what is left.
func (s *Server) Stop(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if err != nil {
		s.http.Close()
	}
	<-s.done
	return err
}
