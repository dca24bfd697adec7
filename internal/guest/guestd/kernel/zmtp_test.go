//go:build linux

package kernel

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// fakeSocket is a kernel's socket that shakes hands and then sends bytes.
func fakeSocket(t *testing.T, hello, then []byte) (addr string) {
	t.Helper()
	addr = filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", addr)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { l.Close(); <-done })
	go func() {
		defer close(done)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		if _, err := conn.Write(append(hello, then...)); err != nil {
			return
		}
		_ = conn.(*net.UnixConn).CloseWrite()
		_, _ = io.Copy(io.Discard, conn)
	}()
	return addr
}

func goodHello() []byte {
	h := make([]byte, greetingSize)
	h[0], h[9], h[10] = 0xff, 0x7f, 3
	copy(h[12:], "NULL")
	ready := appendProperty(append([]byte{5}, "READY"...), "Socket-Type", "ROUTER")
	return append(append(h, flagCommand, byte(len(ready))), ready...)
}

func zframe(flags byte, b []byte) []byte {
	if len(b) > 255 {
		return append(binary.BigEndian.AppendUint64([]byte{flags | flagLong}, uint64(len(b))), b...)
	}
	return append([]byte{flags, byte(len(b))}, b...)
}

func TestHandshakes(t *testing.T) {
	t.Parallel()
	old := goodHello()
	old[10] = 2
	secure := goodHello()
	copy(secure[12:], "CURVE")
	for name, hello := range map[string][]byte{
		"nothing": {}, "http": []byte("HTTP/1.1 400 Bad Request\r\n\r\n" + strings.Repeat("x", 100)),
		"short": goodHello()[:70], "old": old, "secure": secure,
		"no ready":   append(goodHello()[:greetingSize], zframe(0, []byte("x"))...),
		"long ready": append(goodHello()[:greetingSize], zframe(flagCommand, make([]byte, 5000))...),
	} {
		if p, err := dialPeer(t.Context(), "unix", fakeSocket(t, hello, nil), "SUB"); err == nil {
			p.close()
			t.Errorf("%s was taken for a kernel", name)
		}
	}
}

func TestReceive(t *testing.T) {
	t.Parallel()
	large := bytes.Repeat([]byte("x"), 300<<10)
	var sent []byte
	sent = append(sent, zframe(flagCommand, []byte("\x04PING\x00\x00"))...)
	sent = append(append(sent, zframe(flagMore, []byte("a"))...), zframe(0, large)...)
	// A message with a frame that is too large: the small ones are kept.
	sent = append(sent, zframe(flagMore, []byte("head"))...)
	sent = append(sent, zframe(flagMore, make([]byte, maxMessage))...)
	sent = append(sent, zframe(0, []byte("foot"))...)
	// And one of too many frames.
	for range maxFrames + 5 {
		sent = append(sent, zframe(flagMore, nil)...)
	}
	sent = append(append(sent, zframe(0, []byte("end"))...), zframe(0, []byte("last"))...)
	p, err := dialPeer(t.Context(), "unix", fakeSocket(t, goodHello(), sent), "SUB")
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	if f, dropped, err := p.recv(); err != nil || dropped != 0 || len(f) != 2 || !bytes.Equal(f[1], large) {
		t.Errorf("%d frames, %d dropped, %v", len(f), dropped, err)
	}
	if f, dropped, err := p.recv(); err != nil || dropped != maxMessage || len(f) != 3 || string(f[0]) != "head" || f[1] != nil || string(f[2]) != "foot" {
		t.Errorf("%d frames, %d dropped, %v", len(f), dropped, err)
	}
	if f, dropped, err := p.recv(); err != nil || dropped != 3 || len(f) != maxFrames {
		t.Errorf("%d frames, %d dropped, %v", len(f), dropped, err)
	}
	if f, _, err := p.recv(); err != nil || string(f[0]) != "last" {
		t.Errorf("%q, %v", f, err)
	}
	if _, _, err := p.recv(); err != io.EOF { //nolint:errorlint // exactly that
		t.Errorf("at the end: %v", err)
	}
}

// TestClaims sends lengths that nothing follows: no memory is taken for them.
func TestClaims(t *testing.T) {
	t.Parallel()
	for _, size := range []uint64{1 << 63, 1<<64 - 1, maxMessage, 1 << 40} {
		p, err := dialPeer(t.Context(), "unix", fakeSocket(t, goodHello(), binary.BigEndian.AppendUint64([]byte{flagLong}, size)), "SUB")
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := p.recv(); err == nil {
			t.Errorf("a frame of %d bytes was read", size)
		}
		p.close()
	}
}

func TestMessages(t *testing.T) {
	t.Parallel()
	id := newIdentity()
	frames, msgID, err := id.request("execute_request", map[string]int{"x": 1})
	if err != nil {
		t.Fatal(err)
	}
	m, err := parse(append([][]byte{[]byte("topic")}, frames...), 0, []byte("other"), id.key)
	if err != nil || m.header.ID != msgID || m.header.Session != id.session || string(m.content) != `{"x":1}` {
		t.Errorf("%+v, %v", m, err)
	}
	frames[5] = []byte(`{"x":2}`)
	if _, err := parse(frames, 0, id.key); err == nil {
		t.Error("a forged message was taken")
	}
	for n := range frames {
		if _, err := parse(frames[:n], 0, id.key); err == nil {
			t.Errorf("a message of %d frames was taken", n)
		}
	}
	if _, err := parse([][]byte{delimiter, nil, []byte("["), nil, nil, nil}, 1); err == nil {
		t.Error("a header that is none was taken")
	}
}

// FuzzReceive gives bytes to all that reads what a kernel sends.
func FuzzReceive(f *testing.F) {
	id := newIdentity()
	frames, _, _ := id.request("status", map[string]string{"execution_state": "idle"})
	var seed []byte
	for _, b := range frames[:5] {
		seed = append(seed, zframe(flagMore, b)...)
	}
	f.Add(append(seed, zframe(0, frames[5])...))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, c := net.Pipe()
		go func() { _, _ = a.Write(b); a.Close() }()
		p := &peer{conn: c, r: bufio.NewReader(c)}
		for {
			frames, dropped, err := p.recv()
			if err != nil {
				break
			}
			m, err := parse(frames, max(dropped, 1))
			if err != nil {
				continue
			}
			r := newRun(false)
			r.id = m.parent.ID
			r.take(m)
			r.finish(statusDied)
		}
		c.Close()
	})
}

// TestRunBounds fills a run with more of everything than it keeps.
func TestRunBounds(t *testing.T) {
	t.Parallel()
	r := newRun(false)
	for range 100 {
		r.text("stdout", strings.Repeat("é", 50_000))
		r.display("display", map[string][]byte{"image/png": make([]byte, 1<<20)})
		r.event(Output{Kind: "error", Traceback: strings.Repeat("x", 1<<20), Value: strings.Repeat("y", 1<<20)})
	}
	for range 2 * maxEvents {
		r.event(Output{Kind: "clear"})
	}
	r.finish(statusOK)
	size, pieces := 0, 0
	res, err := r.Follow(t.Context(), func(o Output) error {
		pieces++
		size += len(o.Text) + len(o.Traceback) + len(o.Value)
		for _, b := range o.Data {
			size += len(b)
		}
		return nil
	})
	if err != nil || res.Status != statusOK || pieces > maxEvents+3 || size > maxHead+maxTail+maxData+100*(maxTraceback+17<<10) {
		t.Errorf("%+v, %v: %d pieces, %d bytes", res, err, pieces, size)
	}
}
