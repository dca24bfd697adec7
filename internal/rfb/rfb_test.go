package rfb

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// inputs are all messages that act on the machine.
var inputs = map[string][]byte{
	"key":         {msgKey, 1, 0, 0, 0, 0, 0, 0x61},
	"pointer":     {msgPointer, 1, 0, 10, 0, 20},
	"clipboard":   {msgClientCutText, 0, 0, 0, 0, 0, 0, 3, 'a', 'b', 'c'},
	"ext. clip":   {msgClientCutText, 0, 0, 0, 0xff, 0xff, 0xff, 0xfc, 1, 2, 3, 4},
	"size":        append([]byte{msgSetDesktopSize, 0, 0, 200, 0, 100, 1, 0}, make([]byte, 16)...),
	"QEMU key":    {msgQEMU, 0, 0, 1, 0, 0, 0, 0x61, 0, 0, 0, 30},
	"shut down":   {msgXVP, 0, 1, 2},
	"empty paste": {msgClientCutText, 0, 0, 0, 0, 0, 0, 0},
}

var request = []byte{msgUpdateRequest, 1, 0, 0, 0, 0, 0, 100, 0, 80}

// TestViewOnly: every message that acts is dropped, whatever the page does, and
// what asks for pictures passes.
func TestViewOnly(t *testing.T) {
	t.Parallel()
	for name, in := range inputs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.viewer.Write(bytes.Repeat(in, 50))
			w.viewer.Write(request)
			w.arrives(request)
		})
	}
}

func TestControl(t *testing.T) {
	t.Parallel()
	for name, in := range inputs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			if err := w.relay.SetControl(true); err != nil {
				t.Fatal(err)
			}
			w.viewer.Write(append(bytes.Clone(in), request...))
			if in[0] != msgXVP { // never: it turns machines off
				w.arrives(in)
			}
			w.arrives(request)
		})
	}
}

// TestControlEnds: at once, on a connection that is open, and nothing stays
// pressed.
func TestControlEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.relay.SetControl(true)
	down := append(bytes.Clone(inputs["key"]), inputs["QEMU key"]...)
	down = append(down, inputs["pointer"]...)
	w.viewer.Write(down)
	w.arrives(down)
	if err := w.relay.SetControl(false); err != nil {
		t.Fatal(err)
	}
	up := append([]byte{msgQEMU, 0, 0, 0, 0, 0, 0, 0x61, 0, 0, 0, 30}, msgKey, 0, 0, 0, 0, 0, 0, 0x61)
	w.arrives(append(up, msgPointer, 0, 0, 10, 0, 20))
	w.viewer.Write(append(bytes.Clone(down), request...))
	w.arrives(request)
}

// TestViewerLeaves: what it held down is released.
func TestViewerLeaves(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.relay.SetControl(true)
	w.viewer.Write(inputs["key"])
	w.arrives(inputs["key"])
	w.viewer.Close()
	w.arrives([]byte{msgKey, 0, 0, 0, 0, 0, 0, 0x61})
	w.ends()
}

func TestEncodingsAreFiltered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	list := func(encs ...int32) []byte {
		b := []byte{msgSetEncodings, 0, 0, byte(len(encs))}
		for _, e := range encs {
			b = binary.BigEndian.AppendUint32(b, uint32(e))
		}
		return b
	}
	// What noVNC 1.6 lists, H.264, JPEG, TightPNG, Zlib, Hextile, RRE, xvp, GII and extended buttons among it.
	w.viewer.Write(list(1, 50, 7, -260, 16, 21, 6, 5, 2, 0, -26, -254, -223, -224, -258, -261, -308, -309, -305, -312, -313, -307, encExtClipboard, -316, encVMwareCursor, -239))
	w.arrives(list(1, 7, 16, 0, -26, -254, -223, -224, -258, -261, -308, -312, -313, -307, encExtClipboard, encVMwareCursor, -239))
}

func TestViewerFaults(t *testing.T) {
	t.Parallel()
	format := func(change func(f []byte)) []byte {
		f := append([]byte{msgSetPixelFormat, 0, 0, 0}, pixelFormat[:]...)
		change(f[4:])
		return f
	}
	for name, in := range map[string][]byte{
		"unknown":          {77},
		"QEMU audio":       {msgQEMU, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		"too many":         {msgSetEncodings, 0, 0xff, 0xff},
		"long paste":       {msgClientCutText, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff},
		"longest paste":    {msgClientCutText, 0, 0, 0, 0x80, 0, 0, 0},
		"long fence":       {msgFence, 0, 0, 0, 0, 0, 0, 0, 65},
		"screens":          {msgSetDesktopSize, 0, 0, 100, 0, 100, 17, 0},
		"huge screen":      append([]byte{msgSetDesktopSize, 0, 0xff, 0xff, 0xff, 0xff, 1, 0}, make([]byte, 16)...),
		"no screen":        append([]byte{msgSetDesktopSize, 0, 0, 0, 0, 0, 1, 0}, make([]byte, 16)...),
		"8 bits":           format(func(f []byte) { f[0] = 8 }),
		"a palette":        format(func(f []byte) { f[3] = 0 }),
		"odd shift":        format(func(f []byte) { f[10] = 3 }),
		"other maximum":    format(func(f []byte) { f[5] = 31 }),
		"extended buttons": {msgPointer, 0x80, 0, 0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.viewer.Write(in)
			err := w.ends()
			if e, ok := errors.AsType[*PeerError](err); !ok || e.Peer != Viewer {
				t.Errorf("got %v", err)
			}
		})
	}
}

// update is an update of one rectangle.
func update(x, y, w, h uint16, enc int32, payload ...byte) []byte {
	b := []byte{msgUpdate, 0, 0, 1}
	for _, v := range []uint16{x, y, w, h} {
		b = binary.BigEndian.AppendUint16(b, v)
	}
	return append(binary.BigEndian.AppendUint32(b, uint32(enc)), payload...)
}

func jpegOf(w, h uint16) []byte {
	b := []byte{0xff, 0xd8, 0xff, 0xe0, 0, 4, 1, 2, 0xff, 0xc0, 0, 11, 8}
	b = binary.BigEndian.AppendUint16(b, h)
	b = binary.BigEndian.AppendUint16(b, w)
	return append(b, 1, 1, 0x11, 0, 0xff, 0xda, 0, 2, 1, 2, 3, 0xff, 0xd9)
}

func tightJPEG(b []byte) []byte {
	return append([]byte{0x90, byte(len(b)&0x7f) | 0x80, byte(len(b) >> 7)}, b...)
}

func TestDisplayMessages(t *testing.T) {
	t.Parallel()
	pad := func(n int, head ...byte) []byte { return append(head, bytes.Repeat([]byte{7}, n)...) }
	passed := map[string][]byte{
		"raw":            update(90, 70, 10, 10, encRaw, pad(400)...),
		"empty":          update(0, 0, 0, 0, encRaw),
		"copy":           update(0, 0, 10, 10, encCopyRect, 0, 90, 0, 70),
		"ZRLE":           update(0, 0, 10, 10, encZRLE, pad(9, 0, 0, 0, 9)...),
		"tight colour":   update(0, 0, 100, 80, encTight, 0x80, 1, 2, 3),
		"tight small":    update(0, 0, 1, 3, encTight, pad(9, 0)...),
		"tight":          update(0, 0, 10, 10, encTight, pad(200, 0, 0xc8, 1)...),
		"tight copy":     update(0, 0, 10, 10, encTight, pad(20, 0x40, 0, 20)...),
		"tight two":      update(0, 0, 9, 9, encTight, pad(5, 0x50, 1, 1, 1, 2, 3, 4, 5, 6, 5)...),
		"tight two few":  update(0, 0, 8, 8, encTight, pad(8, 0x50, 1, 1, 1, 2, 3, 4, 5, 6)...),
		"tight palette":  update(0, 0, 9, 9, encTight, pad(5, 0x60, 1, 2, 1, 2, 3, 4, 5, 6, 7, 8, 9, 5)...),
		"tight gradient": update(0, 0, 9, 9, encTight, pad(5, 0x40, 2, 5)...),
		"tight JPEG":     update(0, 0, 20, 10, encTight, tightJPEG(jpegOf(20, 10))...),
		"cursor":         update(3, 3, 9, 2, encCursor, pad(9*2*4+4)...),
		"vmware cursor":  update(3, 3, 2, 2, encVMwareCursor, pad(16, 1, 0)...),
		"vmware masks":   update(3, 3, 2, 2, encVMwareCursor, pad(32, 0, 0)...),
		"resize":         append(update(0, 0, 200, 200, encDesktopSize), update(100, 100, 100, 100, encTight, 0x80, 1, 2, 3)...),
		"screens":        update(0, 0, 50, 50, encExtDesktopSize, pad(16, 1, 0, 0, 0)...),
		"QEMU":           update(0, 0, 0, 0, encQEMUKey),
		"LED":            update(0, 0, 0, 0, encQEMULED, 1),
		"vmware LED":     update(0, 0, 0, 0, encVMwareLED, 0, 0, 0, 1),
		"name":           update(0, 0, 0, 0, encDesktopName, 0, 0, 0, 2, 'h', 'i'),
		"last":           append([]byte{msgUpdate, 0, 0xff, 0xff}, update(0, 0, 0, 0, encLastRect)[4:]...),
		"end of updates": {msgEndOfContinuous},
		"fence":          {msgFence, 0, 0, 0, 0x80, 0, 0, 1, 2, 8, 8},
	}
	for name, in := range passed {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.display.Write(append(bytes.Clone(in), msgEndOfContinuous))
			w.want(append(bytes.Clone(in), msgEndOfContinuous))
		})
	}
	dropped := map[string][]byte{
		"colours":   append([]byte{msgColourMap, 0, 0, 0, 0, 2}, make([]byte, 12)...),
		"bell":      {msgBell},
		"clipboard": {msgServerCutText, 0, 0, 0, 0, 0, 0, 3, 'a', 'b', 'c'},
		"ext. clip": {msgServerCutText, 0, 0, 0, 0xff, 0xff, 0xff, 0xfc, 1, 2, 3, 4},
		"xvp":       {msgXVP, 0, 1, 0},
	}
	for name, in := range dropped {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.display.Write(append(bytes.Clone(in), msgEndOfContinuous))
			w.want([]byte{msgEndOfContinuous})
			if in[0] == msgServerCutText {
				w.relay.SetControl(true)
				w.display.Write(in)
				w.want(in)
			}
		})
	}
}

func TestDisplayFaults(t *testing.T) {
	t.Parallel()
	for name, in := range map[string][]byte{
		"unknown":          {99},
		"beyond":           update(91, 0, 10, 10, encRaw),
		"copy from beyond": update(0, 0, 10, 10, encCopyRect, 0, 91, 0, 0),
		"encoding":         update(0, 0, 10, 10, 5),
		"JPEG with none":   update(0, 0, 10, 10, 21),
		"H.264":            update(0, 0, 10, 10, 50),
		"ZRLE too long":    update(0, 0, 10, 10, encZRLE, 0x7f, 0, 0, 0),
		"tight PNG":        update(0, 0, 10, 10, encTight, 0xa0),
		"tight filter":     update(0, 0, 10, 10, encTight, 0x40, 9),
		"other JPEG":       update(0, 0, 20, 10, encTight, tightJPEG(jpegOf(65535, 65535))...),
		"no JPEG":          update(0, 0, 20, 10, encTight, 0x90, 3, 1, 2, 3),
		"huge":             update(0, 0, 65535, 65535, encDesktopSize),
		"nothing":          update(0, 0, 0, 10, encDesktopSize),
		"huge screens":     update(0, 0, 65535, 65535, encExtDesktopSize, 1, 0, 0, 0),
		"many screens":     update(0, 0, 50, 50, encExtDesktopSize, 200, 0, 0, 0),
		"huge cursor":      update(0, 0, 5000, 5000, encCursor),
		"odd cursor":       update(0, 0, 5, 5, encVMwareCursor, 9, 0),
		"long name":        update(0, 0, 0, 0, encDesktopName, 0x7f, 0, 0, 0),
		"long clipboard":   {msgServerCutText, 0, 0, 0, 0x7f, 0, 0, 0},
		"long fence":       {msgFence, 0, 0, 0, 0, 0, 0, 0, 65},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.display.Write(in)
			err := w.ends()
			if e, ok := errors.AsType[*PeerError](err); !ok || e.Peer != Screen {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestDialFaults(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		play func(c net.Conn)
		want string
	}{
		"another protocol": {func(c net.Conn) { io.WriteString(c, "HTTP/1.1 400") }, "not RFB 3.8"},
		"refusal":          {func(c net.Conn) { io.WriteString(c, version+"\x00\x00\x00\x00\x04no!\n") }, "refuses: no!"},
		"long refusal":     {func(c net.Conn) { io.WriteString(c, version+"\x00\x7f\x00\x00\x00") }, "bound"},
		"no security":      {func(c net.Conn) { io.WriteString(c, version+"\x01\x01") }, "offers the security types [1]"},
		"silence":          {func(c net.Conn) { c.Close() }, "EOF"},
		"huge":             {func(c net.Conn) { playDisplay(c, 65535, 65535, "") }, "65535x65535"},
		"empty":            {func(c net.Conn) { playDisplay(c, 0, 10, "") }, "0x10"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ours, theirs := tcpPair(t)
			done := make(chan struct{})
			go func() { defer close(done); tt.play(theirs) }()
			if _, err := Dial(t.Context(), ours, secret); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			<-done
		})
	}
	ours, theirs := tcpPair(t)
	go playDisplay(theirs, 10, 10, "")
	if _, err := Dial(t.Context(), ours, "wrong"); err == nil || !strings.Contains(err.Error(), "refuses the secret: bad") {
		t.Errorf("a wrong secret: %v", err)
	}
	ours, _ = tcpPair(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := Dial(ctx, ours, secret); err == nil {
		t.Error("a display that says nothing")
	}
}

// TestSlowViewer: while it takes nothing, little is read of the display, and
// its requests become one.
func TestSlowViewer(t *testing.T) {
	t.Parallel()
	d, display := dialFake(t, 1000, 1000, "x")
	ours, viewer := net.Pipe() // has no buffer at all
	r := NewRelay(d)
	done := make(chan error, 1)
	go func() { done <- r.Run(context.Background(), &viewerConn{Conn: ours}) }()
	w := &world{t: t, viewer: viewer, vr: bufio.NewReaderSize(viewer, 16), display: display}
	w.want([]byte(version))
	io.WriteString(viewer, version)
	w.want([]byte{1, securityNone})
	viewer.Write([]byte{securityNone})
	w.want([]byte{0, 0, 0, 0})
	viewer.Write([]byte{0})
	w.want(append(append([]byte{3, 232, 3, 232}, pixelFormat[:]...), 0, 0, 0, 1, 'x'))

	// Until the sockets are full, the display gets rid of what it paints; then no more.
	viewer.SetReadDeadline(time.Now().Add(time.Minute))
	frame := update(0, 0, 1000, 1000, encRaw, make([]byte, 4_000_000)...)
	taken := 0
	for range 20 {
		display.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
		n, err := display.Write(frame)
		if taken += n; err != nil {
			break
		}
	}
	if taken > 20_000_000 {
		t.Errorf("%d bytes were read for a viewer that takes none", taken)
	}
	// One byte that has come shows that the rest is waited with.
	if _, err := io.ReadFull(viewer, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		m := bytes.Clone(request)
		m[1], m[3], m[7] = 1, byte(i), 1
		viewer.Write(m)
	}
	fence := []byte{msgFence, 0, 0, 0, 0, 0, 0, 0, 0} // is not held back
	viewer.Write(fence)
	w.arrives(fence)
	r.mu.Lock()
	busy, held := r.busy, bytes.Clone(r.held)
	r.mu.Unlock()
	if want := []byte{msgUpdateRequest, 1, 0, 0, 0, 0, 0, 100, 0, 80}; !busy || !bytes.Equal(held, want) {
		t.Errorf("held: %v, busy %v", held, busy)
	}
	go io.Copy(io.Discard, viewer)
	w.arrives(held)
	viewer.Close()
	<-done
}
