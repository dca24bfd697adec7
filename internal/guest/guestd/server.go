//go:build linux

// Package guestd is the daemon inside a sandbox: processes, files, ports,
// checkpoints. It is told what to do by package guest over one byte stream,
// and serves any number of those, one after another or at once.
//
// In a sandbox it is the first process, root, and does everything for the
// tools as uid 1000: processes are started with that identity, and file work
// is done on a thread that has taken it on. In a test, or in a sandbox that is
// only a directory, it is a part of another program: then it is whoever that
// program is, and every path is under Options.Root.
//
// What it is asked is trusted (it comes from the host); what lies in the file
// system and runs beside it is not, and can hurt only its own sandbox.
package guestd

import (
	"context"
	"crypto/sha256"
	"errors"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox/internal/guest"
	"github.com/glovebox-dev/glovebox/internal/guest/guestd/kernel"
	"github.com/glovebox-dev/glovebox/internal/guest/guestd/proc"
	"github.com/glovebox-dev/glovebox/internal/guest/guestd/service"
	"github.com/glovebox-dev/glovebox/internal/guest/guestd/snap"
	"github.com/glovebox-dev/glovebox/internal/guest/guestd/state"
)

// Options configures a Server.
type Options struct {
	// Root is the directory that stands for the sandbox's root: /workspace is
	// Root/workspace, and so on. Empty for the real root.
	Root string

	// UID is whom processes and file work are done as; 0 changes nothing.
	UID int

	// Init is set in the first process of a sandbox: it waits for every
	// orphan, and sets host name and clock when told.
	Init bool

	// ProxyAddr is where connections for the host's egress proxy are taken,
	// e.g. guest.ProxyAddr, or "127.0.0.1:0" for some free port. Empty: none.
	ProxyAddr string

	// KernelSpecs are directories of Jupyter kernel specifications; nil means
	// those of the system.
	KernelSpecs []string

	// KernelGrace is how long a cell whose time is up may take to heed the
	// interrupt before its kernel is killed; 0 means 10 s.
	KernelGrace time.Duration
}

// Server is a guest daemon.
type Server struct {
	o      Options
	procs  *proc.Table
	repo   *snap.Repo
	cells  *kernel.Manager
	egress *egress
	http   *http.Server
	calls  *callListener
	ctx    context.Context
	cancel context.CancelFunc

	mu       sync.Mutex
	env      map[string]string // from Settings
	sessions []*session        // the oldest first
	closed   bool
	wg       sync.WaitGroup

	placeMu sync.Mutex
	placed  [sha256.Size]byte // of the certificates and files that are in place

	snapMu sync.Mutex // one checkpoint, restore or import at a time

	stateMu sync.Mutex // one change of the published state at a time
	state   *state.Dir // nil until it is first wanted

	servicesMu sync.Mutex
	services   *service.Supervisor // nil until it is first wanted
	secret     []byte              // of this machine; the services' are derived from it
}

// maxSessions is how many connections are served at once. The oldest makes
// way for a newer one: it is the likeliest to be dead without having ended.
const maxSessions = 16

// New returns a server that listens for egress connections already.
func New(o Options) (*Server, error) {
	s := &Server{o: o, procs: proc.NewTable(o.Init)}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.repo = snap.NewRepo(s.real(stateDir) + "/git")
	for _, dir := range []string{guest.Workspace, guest.Home, "/tmp"} {
		if err := s.makeHome(s.real(dir)); err != nil {
			s.cancel()
			return nil, err
		}
	}
	if err := os.MkdirAll(s.real(stateDir), 0o700); err != nil {
		s.cancel()
		return nil, err
	}
	if o.ProxyAddr != "" {
		e, err := listenEgress(s, o.ProxyAddr)
		if err != nil {
			s.cancel()
			return nil, err
		}
		s.egress = e
	}
	s.cells = s.newKernels()
	s.calls = newCallListener()
	s.http = newHTTPServer(s)
	s.wg.Go(func() { _ = s.http.Serve(s.calls) })
	return s, nil
}

// makeHome makes a directory of the tools' user, if it is not there.
func (s *Server) makeHome(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if s.o.UID == 0 {
		return nil
	}
	return os.Chown(dir, s.o.UID, s.o.UID)
}

// Serve serves every connection that l accepts until l is closed or the
// server is.
func (s *Server) Serve(l net.Listener) error {
	stop := context.AfterFunc(s.ctx, func() { l.Close() })
	defer stop()
	for {
		conn, err := l.Accept()
		if err != nil {
			if s.ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return nil
			}
			return err
		}
		go s.ServeConn(conn)
	}
}

// ServeConn serves one connection, which it owns, until it ends.
func (s *Server) ServeConn(conn net.Conn) {
	ses, err := s.newSession(conn)
	if err != nil {
		conn.Close()
		return
	}
	ses.serve()
}

// ProxyAddr returns where egress connections are taken; empty if nowhere.
func (s *Server) ProxyAddr() string {
	if s.egress == nil {
		return ""
	}
	return s.egress.l.Addr().String()
}

// Close ends all sessions and processes and waits for them.
func (s *Server) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	open := append([]*session(nil), s.sessions...)
	s.mu.Unlock()
	s.cancel()
	if s.egress != nil {
		s.egress.l.Close()
	}
	for _, ses := range open {
		ses.mux.Close()
	}
	s.closeServices()
	s.cells.Close()
	s.procs.Close()
	s.calls.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if s.http.Shutdown(ctx) != nil {
		s.http.Close()
	}
	s.wg.Wait()
	return s.repo.Close()
}
