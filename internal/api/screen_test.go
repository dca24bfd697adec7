package api

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/glovebox-dev/glovebox"
)

// displays is a machine whose display is played by the test: what has shaken
// hands comes over the channel.
func displays(t testing.TB) (*fakeMachine, <-chan net.Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	ready := make(chan net.Conn, 16)
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { c.Close() })
			go func() {
				if greetRelay(c) == nil {
					ready <- c
				}
			}()
		}
	}()
	return rawMachine(ln.Addr().String()), ready
}

// greetRelay shakes hands as a display does.
func greetRelay(c net.Conn) error {
	read := func(n int) error { _, err := io.ReadFull(c, make([]byte, n)); return err }
	io.WriteString(c, "RFB 003.008\n")
	err := read(12)
	c.Write([]byte{1, 2})
	err = errors.Join(err, read(1))
	c.Write(make([]byte, 16))
	err = errors.Join(err, read(16))
	c.Write(make([]byte, 4))
	err = errors.Join(err, read(1))
	init := append([]byte{5, 0, 3, 32}, make([]byte, 16)...) // 1280x800
	c.Write(append(init, 0, 0, 0, 0))
	return errors.Join(err, read(20))
}

// watch opens a screen and shakes hands as a viewer.
func (e *env) watch(path string) io.ReadWriter {
	e.t.Helper()
	c, resp, err := e.dial(path)
	if err != nil {
		e.t.Fatalf("%v %v", err, resp)
	}
	c.SetReadLimit(1 << 20)
	conn := websocket.NetConn(context.Background(), c, websocket.MessageBinary)
	e.t.Cleanup(func() { conn.Close() })
	b := make([]byte, 24)
	for _, step := range []struct {
		read int
		say  string
	}{{12, "RFB 003.008\n"}, {2, "\x01"}, {4, "\x01"}, {24, ""}} {
		if _, err := io.ReadFull(conn, b[:step.read]); err != nil {
			e.t.Fatal(err)
		}
		io.WriteString(conn, step.say)
	}
	if w, h := binary.BigEndian.Uint16(b), binary.BigEndian.Uint16(b[2:]); w != 1280 || h != 800 {
		e.t.Fatalf("a screen of %dx%d", w, h)
	}
	return conn
}

var (
	press  = []byte{4, 1, 0, 0, 0, 0, 0, 'a'}
	unpres = []byte{4, 0, 0, 0, 0, 0, 0, 'a'}
	ask    = []byte{3, 1, 0, 0, 0, 0, 5, 0, 3, 32}
)

// hears presses a key and asks for an update, and reports whether the display
// heard of the key.
func hears(t testing.TB, viewer io.Writer, display net.Conn) bool {
	t.Helper()
	viewer.Write(press)
	viewer.Write(ask)
	display.SetReadDeadline(time.Now().Add(time.Minute))
	b := make([]byte, len(press)+len(ask))
	if _, err := io.ReadFull(display, b[:8]); err != nil {
		t.Fatal(err)
	}
	heard := bytes.Equal(b[:8], press)
	rest := 2
	if heard {
		rest = len(ask)
	}
	if _, err := io.ReadFull(display, b[8:8+rest]); err != nil {
		t.Fatal(err)
	}
	if !bytes.HasSuffix(b[:8+rest], ask) {
		t.Fatalf("the display got %v", b[:8+rest])
	}
	return heard
}

// TestScreenControl: input passes exactly while a person has taken over, and
// from who may control; changes reach connections that are open.
func TestScreenControl(t *testing.T) {
	t.Parallel()
	m, ready := displays(t)
	e := newEnv(t, func(o *Options) { o.Guest = func(string) (Machine, bool) { return m, true } })
	id := e.submit("t")
	l := e.claim()
	controller := e.watch("/jobs/" + id + "/screen/ws?link=" + e.link(id, "control"))
	display := <-ready
	watcher := e.watch("/jobs/" + id + "/screen/ws?link=" + e.link(id, "view"))
	watched := <-ready
	owner := e.watch("/jobs/" + id + "/screen/ws")
	owned := <-ready
	if hears(t, controller, display) || hears(t, watcher, watched) || hears(t, owner, owned) {
		t.Fatal("input passes although nobody took over")
	}
	e.append(l, ev(glovebox.EventControl, glovebox.ControlChanged{Control: glovebox.ControlUser}))
	for !hears(t, controller, display) || !hears(t, owner, owned) { // the test ends in failure if it never does
	}
	if hears(t, watcher, watched) {
		t.Fatal("input passes by a link to view")
	}
	e.append(l, ev(glovebox.EventControl, glovebox.ControlChanged{Control: glovebox.ControlAgent}))
	display.SetReadDeadline(time.Now().Add(time.Minute))
	got := make([]byte, len(unpres))
	if _, err := io.ReadFull(display, got); err != nil || !bytes.Equal(got, unpres) {
		t.Fatalf("the key stays down: %v %v", got, err)
	}
	if hears(t, controller, display) {
		t.Error("input passes after control was given back")
	}
	e.append(l, finished(glovebox.StatusError))
	if _, err := io.ReadAll(owner); websocket.CloseStatus(err) != closeEnded {
		t.Errorf("closed with %v", err)
	}
}

func TestScreenRefusals(t *testing.T) {
	t.Parallel()
	m, ready := displays(t)
	e, id := liveEnv(t, m)
	for range maxScreens {
		e.watch("/jobs/" + id + "/screen/ws")
		<-ready
	}
	if _, resp, err := e.dial("/jobs/" + id + "/screen/ws"); err == nil || resp.StatusCode != 503 {
		t.Errorf("one too many: %v", resp.Status)
	}
	m.service = nil
	other := e.submit("other")
	e.claim()
	r := e.do("GET", "/jobs/"+other+"/screen/ws", "", "Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA==")
	if r.StatusCode != 503 || r.problem(t).Hint == "" {
		t.Errorf("no display: %d %s", r.StatusCode, r.body)
	}
}

func TestScreenFaults(t *testing.T) {
	t.Parallel()
	m, ready := displays(t)
	e, id := liveEnv(t, m)
	viewer := e.watch("/jobs/" + id + "/screen/ws")
	(<-ready).Write([]byte{99})
	if _, err := io.ReadAll(viewer); websocket.CloseStatus(err) != websocket.StatusInternalError {
		t.Errorf("a display that breaks the protocol: %v", err)
	}
	viewer = e.watch("/jobs/" + id + "/screen/ws")
	<-ready
	viewer.Write([]byte{99})
	if _, err := io.ReadAll(viewer); websocket.CloseStatus(err) != websocket.StatusPolicyViolation {
		t.Errorf("a viewer that breaks the protocol: %v", err)
	}
	viewer = e.watch("/jobs/" + id + "/screen/ws")
	(<-ready).Close()
	if _, err := io.ReadAll(viewer); websocket.CloseStatus(err) != closeGone {
		t.Errorf("a display that goes away: %v", err)
	}
}

// BenchmarkScreen is one change of the screen as a browser's socket sees it:
// 64x64 pixels painted, sent and asked for again.
func BenchmarkScreen(b *testing.B) {
	m, ready := displays(b)
	e, id := liveEnv(b, m)
	viewer := e.watch("/jobs/" + id + "/screen/ws")
	display := <-ready
	frame := append([]byte{0, 0, 0, 1, 0, 0, 0, 0, 0, 64, 0, 64, 0, 0, 0, 0}, make([]byte, 64*64*4)...)
	got, asked := make([]byte, len(frame)), make([]byte, len(ask))
	var took []time.Duration
	for b.Loop() {
		start := time.Now()
		display.Write(frame)
		if _, err := io.ReadFull(viewer, got); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(start))
		viewer.Write(ask)
		io.ReadFull(display, asked)
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
}
