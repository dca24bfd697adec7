//go:build linux

package guestd

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/coder/websocket"

	"github.com/glovebox-dev/glovebox/internal/guest"
	"github.com/glovebox-dev/glovebox/internal/guest/guestd/service"
	"github.com/glovebox-dev/glovebox/internal/guest/wire"
)

// desktop is the machine used by itself, without a host that serves it: in a
// container, its screen and its notebook are on two ports.
//
// There is no agent, no policy of what it may reach, and no view without
// control; that is what a server is for.
type desktop struct {
	services *service.Supervisor
	pages    string        // directory of noVNC's files
	slots    chan struct{} // one for each connection that is served
	ctx      context.Context
}

// maxDesktopConns is how many connections of people are served at once.
const maxDesktopConns = 64

// noVNCPages is where Debian's package novnc has its pages.
const noVNCPages = "/usr/share/novnc"

// desktopMain runs "glovebox guest desktop".
func desktopMain(args []string) error {
	flags := flag.NewFlagSet("guest desktop", flag.ContinueOnError)
	screen := flags.String("screen", ":6080", "where the screen's page is served")
	notebook := flags.String("notebook", ":8888", "where JupyterLab is served")
	if err := flags.Parse(args); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	s, err := New(Options{UID: guest.UID, Init: true})
	if err != nil {
		return err
	}
	defer s.Close()
	var listen net.ListenConfig
	page, err := listen.Listen(ctx, "tcp", *screen)
	if err != nil {
		return err
	}
	defer page.Close()
	lab, err := listen.Listen(ctx, "tcp", *notebook)
	if err != nil {
		return err
	}
	defer lab.Close()
	return s.desktop(ctx, page, lab, os.Stdout)
}

// desktop starts the services with secrets of their own, says on out how to
// reach them, and serves until ctx ends.
func (s *Server) desktop(ctx context.Context, page, lab net.Listener, out io.Writer) error {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never fails
	if err := s.bindSecret(secret); err != nil {
		return err
	}
	v, err := s.supervisor()
	if err != nil {
		return err
	}
	if err := v.Start(ctx); err != nil {
		return fmt.Errorf("start the desktop: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	d := &desktop{services: v, pages: s.real(noVNCPages), slots: make(chan struct{}, maxDesktopConns), ctx: ctx}
	web := &http.Server{Handler: d.handler(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10}
	var wg sync.WaitGroup
	var pageErr error
	wg.Go(func() {
		if err := web.Serve(page); !errors.Is(err, http.ErrServerClosed) {
			pageErr = err
			cancel()
		}
	})
	wg.Go(func() { d.forward(lab, guest.ServiceJupyter) })
	stop := context.AfterFunc(ctx, func() {
		web.Close()
		lab.Close()
	})
	defer stop()
	_, err = fmt.Fprintf(out, `
The desktop:  http://localhost:%d/
  password:   %.8s
The notebook: http://localhost:%d/lab?token=%s

`, port(page), guest.DeriveSecret(secret, guest.ServiceDisplay), port(lab), guest.DeriveSecret(secret, guest.ServiceJupyter))
	if err != nil {
		cancel()
	}
	wg.Wait()
	return errors.Join(err, pageErr)
}

func port(l net.Listener) int {
	if a, ok := l.Addr().(*net.TCPAddr); ok {
		return a.Port
	}
	return 0
}

// handler serves the page and, at /websockify, the screen.
func (d *desktop) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "vnc.html?autoconnect=1&resize=remote&reconnect=1", http.StatusFound)
	})
	mux.HandleFunc("GET /websockify", d.screen)
	mux.Handle("GET /", http.FileServer(http.Dir(d.pages)))
	return mux
}

// take gets a slot for a connection, or reports that there is none.
func (d *desktop) take() bool {
	select {
	case d.slots <- struct{}{}:
		return true
	default:
		return false
	}
}

// screen joins a WebSocket to the display, which asks for the password. Pages
// from elsewhere may not connect, and what is no WebSocket does not reach the
// display.
func (d *desktop) screen(w http.ResponseWriter, r *http.Request) {
	if !d.take() {
		http.Error(w, "too many connections are open", http.StatusServiceUnavailable)
		return
	}
	defer func() { <-d.slots }()
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"binary"}, CompressionMode: websocket.CompressionDisabled})
	if err != nil { // it has answered
		return
	}
	ctx, cancel := context.WithTimeout(d.ctx, 30*time.Second)
	defer cancel()
	inside, err := d.services.Dial(ctx, guest.ServiceDisplay)
	if err != nil {
		_ = ws.Close(websocket.StatusTryAgainLater, "the display does not answer")
		return
	}
	ws.SetReadLimit(1 << 20)
	wire.Join(inside, websocket.NetConn(d.ctx, ws, websocket.MessageBinary))
}

// forward joins the connections that l accepts to a service.
func (d *desktop) forward(l net.Listener, name string) {
	for {
		conn, err := l.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			select { // out of descriptors
			case <-d.ctx.Done():
				return
			case <-time.After(100 * time.Millisecond):
			}
			continue
		}
		if !d.take() {
			conn.Close()
			continue
		}
		go func() {
			defer func() { <-d.slots }()
			inside, err := d.services.Dial(d.ctx, name)
			if err != nil {
				conn.Close()
				return
			}
			stop := context.AfterFunc(d.ctx, func() { conn.Close() })
			defer stop()
			wire.Join(inside, conn)
		}()
	}
}
