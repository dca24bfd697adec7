package rfb

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

const secret = "0123456789abcdef"

// viewerConn is a viewer's end as the relay sees it.
type viewerConn struct {
	net.Conn
	mu  sync.Mutex
	end error
}

func (v *viewerConn) End(err error) {
	v.mu.Lock()
	v.end = err
	v.mu.Unlock()
	v.Close()
}

// world is a relay between a display and a viewer that the test plays.
type world struct {
	t       testing.TB
	relay   *Relay
	display net.Conn
	viewer  net.Conn
	vr      *bufio.Reader
	done    chan error
}

// playDisplay shakes hands as a display does, asking for the secret.
func playDisplay(c net.Conn, w, h uint16, name string) error {
	if _, err := io.WriteString(c, version); err != nil {
		return err
	}
	var v [12]byte
	if _, err := io.ReadFull(c, v[:]); err != nil {
		return err
	}
	c.Write([]byte{2, securityNone, securityVNC})
	var b [1]byte
	io.ReadFull(c, b[:])
	if b[0] != securityVNC {
		return errors.New("no authentication")
	}
	challenge := [16]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
	c.Write(challenge[:])
	var answer [16]byte
	io.ReadFull(c, answer[:])
	if want, _ := vncResponse(secret, challenge); want != answer {
		c.Write([]byte{0, 0, 0, 1, 0, 0, 0, 3, 'b', 'a', 'd'})
		return nil
	}
	c.Write([]byte{0, 0, 0, 0})
	if _, err := io.ReadFull(c, b[:]); err != nil || b[0] != 1 {
		return errors.New("not shared")
	}
	init := binary.BigEndian.AppendUint16(nil, w)
	init = binary.BigEndian.AppendUint16(init, h)
	init = append(init, make([]byte, 16)...)
	init = binary.BigEndian.AppendUint32(init, uint32(len(name)))
	c.Write(append(init, name...))
	var format [20]byte
	_, err := io.ReadFull(c, format[:])
	if err == nil && !bytes.Equal(format[4:], pixelFormat[:]) {
		return errors.New("another format")
	}
	return err
}

func dialFake(t testing.TB, w, h uint16, name string) (*Display, net.Conn) {
	t.Helper()
	ours, theirs := tcpPair(t)
	played := make(chan error, 1)
	go func() { played <- playDisplay(theirs, w, h, name) }()
	d, err := Dial(t.Context(), ours, secret)
	if err != nil {
		t.Fatal(err)
	}
	if err := <-played; err != nil {
		t.Fatal(err)
	}
	return d, theirs
}

func newWorld(t testing.TB) *world {
	t.Helper()
	d, display := dialFake(t, 100, 80, "a\x00desk\u202e")
	ours, viewer := tcpPair(t)
	w := &world{t: t, relay: NewRelay(d), display: display, viewer: viewer, vr: bufio.NewReader(viewer), done: make(chan error, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { w.done <- w.relay.Run(ctx, &viewerConn{Conn: ours}) }()
	t.Cleanup(func() {
		cancel()
		select {
		case <-w.done:
		case <-time.After(time.Minute):
			t.Error("the relay does not end")
		}
	})
	w.greet()
	return w
}

// greet is the viewer's half of the handshake.
func (w *world) greet() {
	w.t.Helper()
	w.want([]byte(version))
	io.WriteString(w.viewer, version)
	w.want([]byte{1, securityNone})
	w.viewer.Write([]byte{securityNone})
	w.want([]byte{0, 0, 0, 0})
	w.viewer.Write([]byte{0})
	init := append([]byte{0, 100, 0, 80}, pixelFormat[:]...)
	w.want(append(init, 0, 0, 0, 5, 'a', 'd', 'e', 's', 'k'))
}

// want reads exactly b at the viewer.
func (w *world) want(b []byte) {
	w.t.Helper()
	w.viewer.SetReadDeadline(time.Now().Add(time.Minute))
	got := make([]byte, len(b))
	if _, err := io.ReadFull(w.vr, got); err != nil || !bytes.Equal(got, b) {
		w.t.Fatalf("the viewer got %v, want %v (%v)", got, b, err)
	}
}

// arrives reads exactly b at the display.
func (w *world) arrives(b []byte) {
	w.t.Helper()
	w.display.SetReadDeadline(time.Now().Add(time.Minute))
	got := make([]byte, len(b))
	if _, err := io.ReadFull(w.display, got); err != nil || !bytes.Equal(got, b) {
		w.t.Fatalf("the display got %v, want %v (%v)", got, b, err)
	}
}

// ends waits for the relay's end and returns why.
func (w *world) ends() error {
	w.t.Helper()
	select {
	case err := <-w.done:
		w.done <- err
		return err
	case <-time.After(time.Minute):
		w.t.Fatal("the relay goes on")
		return nil
	}
}

func tcpPair(t testing.TB) (a, b net.Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	accepted := make(chan net.Conn, 1)
	go func() {
		c, _ := ln.Accept()
		accepted <- c
	}()
	a, err = net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b = <-accepted
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}
