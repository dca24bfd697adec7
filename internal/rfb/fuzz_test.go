package rfb

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"testing"
)

func FuzzViewer(f *testing.F) {
	for _, in := range inputs {
		f.Add(in)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		r := bufio.NewReader(bytes.NewReader(in))
		for {
			m, err := readMessage(r)
			if err != nil {
				return
			}
			if len(m.data) > maxCutText+8 {
				t.Fatalf("a message of %d bytes", len(m.data))
			}
			if m.typ == msgSetEncodings {
				filterEncodings(m)
			}
			relay := &Relay{}
			relay.track(m)
		}
	})
}

func FuzzDisplay(f *testing.F) {
	f.Add(update(0, 0, 9, 9, encTight, 0x60, 1, 2, 1, 2, 3, 4, 5, 6, 7, 8, 9, 5))
	f.Add(update(0, 0, 20, 10, encTight, tightJPEG(jpegOf(20, 10))...))
	f.Add(update(0, 0, 50, 50, encExtDesktopSize, 1, 0, 0, 0))
	f.Add(update(0, 0, 2, 2, encCursor, make([]byte, 18)...))
	f.Fuzz(func(t *testing.T, in []byte) {
		var out bytes.Buffer
		w := bufio.NewWriter(&out)
		c := &checker{r: bufio.NewReaderSize(bytes.NewReader(in), bufferSize), w: w, width: 100, height: 80, buf: make([]byte, 1<<10), control: func() bool { return true }}
		for c.next() == nil {
		}
		w.Flush()
		if out.Len() > len(in) || c.width*c.height > maxPixels {
			t.Fatalf("%d bytes of %d, %dx%d", out.Len(), len(in), c.width, c.height)
		}
	})
}

// BenchmarkChange is one change of the screen through the relay: the display
// paints 64x64 pixels, the viewer has it and asks again, the display hears so.
func BenchmarkChange(b *testing.B) {
	d, display := dialFake(b, 1280, 800, "x")
	ours, viewer := tcpPair(b)
	r := NewRelay(d)
	done := make(chan error, 1)
	go func() { done <- r.Run(context.Background(), &viewerConn{Conn: ours}) }()
	io.WriteString(viewer, version)
	viewer.Write([]byte{securityNone, 0})
	io.ReadFull(viewer, make([]byte, 12+2+4+24+1))
	frame := update(0, 0, 64, 64, encRaw, make([]byte, 64*64*4)...)
	got, asked := make([]byte, len(frame)), make([]byte, len(request))
	b.SetBytes(int64(len(frame)))
	for b.Loop() {
		display.Write(frame)
		io.ReadFull(viewer, got)
		viewer.Write(request)
		io.ReadFull(display, asked)
	}
	viewer.Close()
	<-done
}
