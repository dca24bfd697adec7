package api

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/rfb"
)

// Codes with which WebSockets are closed, beside those of RFC 6455.
const (
	closeIdle  websocket.StatusCode = 4408 // nothing happened: connect again when something is to
	closeEnded websocket.StatusCode = 4410 // the job has ended: there is its recording
	closeGone  websocket.StatusCode = 4503 // the machine, or the service in it, is gone: connect again in a moment
)

// socket is a WebSocket as a stream of bytes. Origin was checked before, with
// that of every request.
type socket struct {
	c      *websocket.Conn
	ctx    context.Context
	cancel context.CancelFunc
	r      io.Reader // the message being read
	once   sync.Once
}

// upgrade answers a request for a WebSocket. Messages have at most limit bytes.
func upgrade(ctx context.Context, w *response, r *http.Request, limit int64, protocols ...string) (*socket, error) {
	c, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true, Subprotocols: protocols, CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		if w.status == 0 {
			w.status = http.StatusBadRequest
		}
		return nil, err
	}
	w.status = http.StatusSwitchingProtocols
	c.SetReadLimit(limit)
	s := &socket{c: c}
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx)) // its end would cut the socket off before End has said why
	go s.ping()
	return s, nil
}

// needUpgrade refuses what is not a request for a WebSocket.
func needUpgrade(r *http.Request) error {
	if wantsUpgrade(r) {
		return nil
	}
	return withStatus(http.StatusUpgradeRequired, glovebox.Invalid("Upgrade", "connect with a WebSocket", "this is no request for a WebSocket"), "Upgrade", "websocket", "Connection", "Upgrade")
}

// ping keeps proxies from taking the connection for dead.
func (s *socket) ping() {
	t := time.NewTicker(socketPing)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			ctx, cancel := context.WithTimeout(s.ctx, time.Minute)
			_ = s.c.Ping(ctx) // a broken connection shows when it is read
			cancel()
		case <-s.ctx.Done():
			return
		}
	}
}

// Read reads from binary messages as if they were one stream.
func (s *socket) Read(p []byte) (int, error) {
	for {
		if s.r == nil {
			typ, r, err := s.c.Reader(s.ctx)
			if err != nil {
				return 0, err
			}
			if typ != websocket.MessageBinary {
				return 0, &rfb.PeerError{Peer: rfb.Viewer, Msg: "sends text where only binary messages are taken"}
			}
			s.r = r
		}
		n, err := s.r.Read(p)
		if errors.Is(err, io.EOF) {
			s.r, err = nil, nil
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

// Write sends one binary message.
func (s *socket) Write(b []byte) (int, error) {
	if err := s.send(websocket.MessageBinary, b); err != nil {
		return 0, err
	}
	return len(b), nil
}

func (s *socket) send(typ websocket.MessageType, b []byte) error {
	ctx, cancel := context.WithTimeout(s.ctx, socketWrite)
	defer cancel()
	return s.c.Write(ctx, typ, b)
}

// End closes the socket and says why.
func (s *socket) End(err error) {
	s.once.Do(func() {
		code, reason := closing(err)
		if code == 0 {
			_ = s.c.CloseNow()
		} else {
			_ = s.c.Close(code, reason)
		}
		s.cancel()
	})
}

// closing returns how to close for err; 0 if there is nobody to tell.
func closing(err error) (websocket.StatusCode, string) {
	peer, isPeer := errors.AsType[*rfb.PeerError](err)
	switch {
	case err == nil:
		return websocket.StatusNormalClosure, ""
	case errors.Is(err, errEnded):
		return closeEnded, errEnded.Error()
	case errors.Is(err, errIdle):
		return closeIdle, errIdle.Error()
	case errors.Is(err, errDrained):
		return websocket.StatusGoingAway, errDrained.Error()
	case errors.Is(err, errTooLong):
		return websocket.StatusServiceRestart, errTooLong.Error()
	case isPeer && peer.Peer == rfb.Viewer:
		return websocket.StatusPolicyViolation, clip(peer.Error(), 110)
	case isPeer:
		return websocket.StatusInternalError, clip(peer.Error(), 110)
	case glovebox.CodeOf(err) == glovebox.CodeInvalid:
		e, _ := errors.AsType[*glovebox.Error](err)
		return websocket.StatusPolicyViolation, clip(e.Field+": "+e.Msg, 110)
	case websocket.CloseStatus(err) != -1, errors.Is(err, context.Canceled):
		return 0, ""
	}
	return closeGone, "the machine is gone: try again"
}
