package rfb

import (
	"bufio"
	"bytes"
	"context"
	"crypto/des"
	"encoding/binary"
	"io"
	"math/bits"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/xproto"
)

// xvnc is a real display, and a client of X that paints on it.
type xvnc struct {
	sock string
	x    *xgb.Conn
	root xproto.Window
	gc   xproto.Gcontext
	n    uint32 // times that it was painted on
}

// passwordFile is how VNC keeps a password: under a key that everyone knows.
func passwordFile(t testing.TB, dir, password string) string {
	t.Helper()
	key := []byte{23, 82, 107, 6, 35, 78, 88, 7}
	for i := range key {
		key[i] = bits.Reverse8(key[i])
	}
	block, err := des.NewCipher(key)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]byte, 8)
	block.Encrypt(out, append([]byte(password), make([]byte, 8)...)[:8])
	path := filepath.Join(dir, "passwd")
	if err := os.WriteFile(path, out, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func startXvnc(t testing.TB) *xvnc {
	t.Helper()
	xgb.Logger.SetOutput(io.Discard)
	if _, err := exec.LookPath("Xvnc"); err != nil {
		t.Skip("Xvnc is not installed: apt-get install tigervnc-standalone-server")
	}
	dir := t.TempDir()
	v := &xvnc{sock: filepath.Join(dir, "rfb")}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("Xvnc", "-displayfd", "3", "-geometry", "1280x800", "-depth", "24", "-nolisten", "tcp", "-rfbunixpath", v.sock, "-rfbunixmode", "0600", "-rfbport", "-1",
		"-SecurityTypes", "VncAuth", "-PasswordFile", passwordFile(t, dir, secret), "-AlwaysShared", "-FrameRate", "60", "-Log", "*:stderr:10", "-ac", "-AcceptSetDesktopSize=1")
	cmd.ExtraFiles = []*os.File{w}
	var log bytes.Buffer
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	t.Cleanup(func() {
		cmd.Process.Signal(os.Interrupt)
		cmd.Wait()
	})
	display, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		cmd.Wait()
		t.Fatalf("Xvnc: %v\n%s", err, log.String())
	}
	r.Close()
	if v.x, err = xgb.NewConnDisplay(":" + strings.TrimSpace(display)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.x.Close)
	v.root = xproto.Setup(v.x).DefaultScreen(v.x).Root
	if v.gc, err = xproto.NewGcontextId(v.x); err != nil {
		t.Fatal(err)
	}
	xproto.CreateGC(v.x, v.gc, xproto.Drawable(v.root), 0, nil)
	return v
}

// paint paints a square of a colour that it did not have before.
func (v *xvnc) paint() {
	v.n += 0x10307
	xproto.ChangeGC(v.x, v.gc, xproto.GcForeground, []uint32{v.n & 0xffffff})
	xproto.PolyFillRectangle(v.x, xproto.Drawable(v.root), v.gc, []xproto.Rectangle{{X: 100, Y: 100, Width: 200, Height: 150}})
	v.x.Sync()
}

// pointer returns where the pointer is.
func (v *xvnc) pointer(t testing.TB) (x, y int16) {
	t.Helper()
	p, err := xproto.QueryPointer(v.x, v.root).Reply()
	if err != nil {
		t.Fatal(err)
	}
	return p.RootX, p.RootY
}

// relayed is a viewer of a real display through a relay.
type relayed struct {
	net.Conn
	relay *Relay
	done  chan error
	got   chan int // bytes of each update, read as a checker reads them
}

func (v *xvnc) watch(t testing.TB, encodings ...int32) *relayed {
	t.Helper()
	conn, err := net.Dial("unix", v.sock)
	if err != nil {
		t.Fatal(err)
	}
	d, err := Dial(t.Context(), conn, secret)
	if err != nil {
		t.Fatal(err)
	}
	ours, viewer := tcpPair(t)
	r := &relayed{Conn: viewer, relay: NewRelay(d), done: make(chan error, 1), got: make(chan int, 1000)}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { r.done <- r.relay.Run(ctx, &viewerConn{Conn: ours}) }()
	t.Cleanup(func() { cancel(); <-r.done })
	io.WriteString(viewer, version)
	viewer.Write([]byte{securityNone, 1})
	b := make([]byte, 12+2+4+24)
	if _, err := io.ReadFull(viewer, b); err != nil {
		t.Fatal(err)
	}
	io.CopyN(io.Discard, viewer, int64(binary.BigEndian.Uint32(b[38:])))
	list := []byte{msgSetEncodings, 0, 0, byte(len(encodings))}
	for _, e := range encodings {
		list = binary.BigEndian.AppendUint32(list, uint32(e))
	}
	viewer.Write(list)
	go r.read()
	return r
}

// read reads what arrives with the reader under test: it fails if the stream
// was cut at a wrong place.
func (r *relayed) read() {
	defer close(r.got)
	in := &counting{r: r.Conn}
	c := &checker{r: bufio.NewReaderSize(in, bufferSize), w: bufio.NewWriter(io.Discard), width: 1280, height: 800, buf: make([]byte, 4096), control: func() bool { return true }}
	for {
		head, err := c.r.Peek(1)
		if err != nil {
			return
		}
		typ := head[0]
		if c.next() != nil {
			return
		}
		if typ == msgUpdate {
			r.got <- in.n
		}
	}
}

type counting struct {
	r io.Reader
	n int
}

func (c *counting) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n += n
	return n, err
}

func (r *relayed) ask(incremental byte) {
	r.Write([]byte{msgUpdateRequest, incremental, 0, 0, 0, 0, 5, 0, 3, 32})
}

// update waits for one.
func (r *relayed) update(t testing.TB) {
	t.Helper()
	select {
	case _, ok := <-r.got:
		if !ok {
			t.Fatal("the screen ended")
		}
	case <-time.After(time.Minute):
		t.Fatal("no update")
	}
}

// encodingsOfNoVNC is what noVNC 1.6 lists.
var encodingsOfNoVNC = []int32{1, 50, 7, -260, 16, 21, 6, 5, 2, 0, -26, -254, -223, -224, -258, -261, -308, -309, -305, -312, -313, -307, encExtClipboard, -316, encVMwareCursor, -239}

// TestXvnc: a real display, by every encoding that is passed on.
func TestXvnc(t *testing.T) {
	t.Parallel()
	v := startXvnc(t)
	for name, encs := range map[string][]int32{
		"noVNC": encodingsOfNoVNC, "raw": {0}, "tight": {7, -247}, "tight JPEG": {7, -32, -247}, "ZRLE": {16}, "cursor": {0, -239, -308, -307, -224},
	} {
		t.Run(name, func(t *testing.T) {
			r := v.watch(t, encs...)
			r.ask(0)
			r.update(t)
			for range 20 {
				r.ask(1)
				v.paint()
				r.update(t)
			}
			// Not before someone has control does the pointer move.
			x, y := v.pointer(t)
			r.Write([]byte{msgPointer, 0, 0, 77, 0, 88})
			r.ask(0)
			r.update(t)
			if nx, ny := v.pointer(t); nx != x || ny != y {
				t.Errorf("the pointer moved to %d,%d", nx, ny)
			}
			r.relay.SetControl(true)
			to := byte(10 + len(name))
			r.Write([]byte{msgPointer, 0, 0, to, 0, 99})
			for {
				r.ask(0)
				r.update(t)
				if nx, ny := v.pointer(t); nx == int16(to) && ny == 99 {
					break
				}
			}
		})
	}
}

// BenchmarkXvnc is the time from a change on a real display to its arrival at a
// viewer of the relay.
func BenchmarkXvnc(b *testing.B) {
	v := startXvnc(b)
	r := v.watch(b, encodingsOfNoVNC...)
	r.ask(0)
	r.update(b)
	var took []time.Duration
	for b.Loop() {
		r.ask(1)
		start := time.Now()
		v.paint()
		r.update(b)
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
}
