package wire

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest/guestpb"
	"github.com/glovebox-dev/glovebox/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestHeader(t *testing.T) {
	t.Parallel()
	for _, h := range []Header{{Kind: "run"}, {Kind: "port", Arg: "65535"}, {Kind: "terminal", Arg: strings.Repeat("x", 64)}} {
		r := bufio.NewReader(strings.NewReader(string(h.Append(nil)) + "rest"))
		got, err := ReadHeader(r)
		rest, _ := io.ReadAll(r)
		if err != nil || got != h || string(rest) != "rest" {
			t.Errorf("%+v: %+v, %q, %v", h, got, rest, err)
		}
	}
	for _, bad := range []string{
		"", "\n", "run\n", "glovebox/1 \n", "glovebox/1 run", "glovebox/1 Run\n", "glovebox/1 run \n", "glovebox/1 run a b\n", "glovebox/1 run a\r\n",
		"glovebox/2 run\n", "glovebox/1 run \x00\n", "glovebox/1 " + strings.Repeat("x", 17) + "\n", "glovebox/1 run " + strings.Repeat("x", 65) + "\n",
		strings.Repeat("x", 1<<20), "glovebox/1 run " + strings.Repeat("x", 1<<20) + "\n", "GET / HTTP/1.1\r\n\r\n",
	} {
		if h, err := ReadHeader(bufio.NewReader(strings.NewReader(bad))); err == nil {
			t.Errorf("%.40q was read as %+v", bad, h)
		}
	}
}

func FuzzHeader(f *testing.F) {
	for _, s := range []string{"glovebox/1 run\n", "glovebox/1 port 80\n", "glovebox/1 terminal a-b_c\nrest", "GET / HTTP/1.1\r\n", "\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := ReadHeader(bufio.NewReader(bytes.NewReader(b)))
		if err != nil {
			return
		}
		line := h.Append(nil)
		if !bytes.HasPrefix(b, line) || len(line) > MaxHeader {
			t.Errorf("%q was read as %q", b, line)
		}
	})
}

func TestFrames(t *testing.T) {
	t.Parallel()
	var buf bytes.Buffer
	w := NewFrameWriter(&buf, Header{})
	big := bytes.Repeat([]byte("x"), 3*ChunkSize+1)
	steps := []error{w.WriteMessage(&guestpb.GetReply{Size: 7}), w.WriteData(FrameData, big), w.WriteData(FrameData, nil), w.End(), w.Fail(fs.ErrNotExist)}
	if err := errors.Join(steps...); err != nil {
		t.Fatal(err)
	}
	r := NewFrameReader(&buf)
	var m guestpb.GetReply
	if err := r.ReadMessage(&m); err != nil || m.Size != 7 {
		t.Error(&m, err)
	}
	got, err := io.ReadAll(NewDataReader(r))
	if err != nil || !bytes.Equal(got, big) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if _, err := r.Read(); glovebox.CodeOf(err) != glovebox.CodeNotFound {
		t.Error(err)
	}
	if _, err := r.Read(); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	if err := w.Write(FrameData, make([]byte, MaxFrame+1)); glovebox.CodeOf(err) != glovebox.CodeTooLarge {
		t.Error(err)
	}
	if err := w.WriteMessage(&guestpb.PathRequest{Path: strings.Repeat("x", MaxFrame+1)}); glovebox.CodeOf(err) != glovebox.CodeTooLarge {
		t.Error(err)
	}
}

// TestClaimedLength checks that a length that is only claimed costs nothing.
// No other test allocates meanwhile: it is not one of those in parallel.
func TestClaimedLength(t *testing.T) {
	head := func(n uint32) []byte { return binary.BigEndian.AppendUint32([]byte{byte(FrameData)}, n) }
	if _, err := NewFrameReader(bytes.NewReader(head(MaxFrame + 1))).Read(); glovebox.CodeOf(err) != glovebox.CodeTooLarge {
		t.Error(err)
	}
	const times = 1000
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range times {
		if _, err := NewFrameReader(bufio.NewReader(bytes.NewReader(head(MaxFrame)))).Read(); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	if n := (after.TotalAlloc - before.TotalAlloc) / times; n > 2*ChunkSize {
		t.Errorf("a claimed length allocates %d bytes", n)
	}
}

func FuzzFrames(f *testing.F) {
	msg, err := AppendMessage(nil, FrameMessage, &guestpb.GetReply{Size: 1})
	if err != nil {
		f.Fatal(err)
	}
	fail, err := AppendMessage(nil, FrameFailure, &guestpb.Failure{Code: "not_found", Message: "x\x00\x1b"})
	if err != nil {
		f.Fatal(err)
	}
	for _, b := range [][]byte{nil, msg, fail, AppendFrame(nil, FrameEnd, nil), AppendFrame(AppendFrame(nil, FrameData, []byte("abc")), FrameEnd, nil), {'D', 255, 255, 255, 255}, {'?', 0, 0, 0, 0}} {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r := NewFrameReader(bytes.NewReader(b))
		var again []byte
		for {
			fr, err := r.Read()
			if e, ok := errors.AsType[*glovebox.Error](err); ok {
				if len(e.Msg) > maxMessage+3 || !utf8.ValidString(e.Msg) || strings.ContainsAny(e.Msg, "\x00\x1b") && !strings.Contains(e.Msg, "peer") {
					t.Errorf("error %q", e.Msg)
				}
				break
			}
			if err != nil {
				break
			}
			if len(fr.Data) > MaxFrame {
				t.Fatalf("a frame of %d bytes", len(fr.Data))
			}
			again = AppendFrame(again, fr.Type, fr.Data)
		}
		if !bytes.HasPrefix(b, again) {
			t.Error("frames do not encode to what they were decoded from")
		}
		_, _ = io.Copy(io.Discard, NewDataReader(NewFrameReader(bytes.NewReader(b))))
		_ = NewFrameReader(bytes.NewReader(b)).ReadMessage(&guestpb.CheckpointReply{})
	})
}

func TestCodes(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]glovebox.Code{
		syscall.ENOENT: glovebox.CodeNotFound, syscall.EACCES: glovebox.CodeForbidden, syscall.EPERM: glovebox.CodeForbidden, syscall.EEXIST: glovebox.CodeConflict,
		syscall.ENOSPC: glovebox.CodeLimit, syscall.EDQUOT: glovebox.CodeLimit, syscall.EAGAIN: glovebox.CodeLimit, syscall.EISDIR: glovebox.CodeInvalid,
		io.ErrUnexpectedEOF: glovebox.CodeUnavailable, errors.New("x"): glovebox.CodeInternal, glovebox.Errorf(glovebox.CodeLimit, "x"): glovebox.CodeLimit,
	} {
		if got := CodeOf(&fs.PathError{Op: "x", Path: "y", Err: err}); got != want {
			t.Errorf("%v: %s, want %s", err, got, want)
		}
		if got := glovebox.CodeOf(ErrorOf(FailureOf(err))); got != want {
			t.Errorf("%v across the stream: %s, want %s", err, got, want)
		}
	}
	e := ErrorOf(&guestpb.Failure{Code: "fenced", Message: strings.Repeat("\x1b[31mred\x00", 1000)})
	if glovebox.CodeOf(e) != glovebox.CodeInternal || len(e.Error()) > 2*maxMessage || strings.ContainsAny(e.Error(), "\x00\x1b") {
		t.Errorf("%s: %.100q", glovebox.CodeOf(e), e.Error())
	}
}

// frame is a frame of yamux.
func frame(kind byte, flags uint16, length uint32, body []byte) []byte {
	b := []byte{0, kind}
	b = binary.BigEndian.AppendUint16(b, flags)
	b = binary.BigEndian.AppendUint32(b, 2)
	b = binary.BigEndian.AppendUint32(b, length)
	return append(b, body...)
}

func FuzzFrameParser(f *testing.F) {
	f.Add(frame(2, 1, 5, nil), int64(1))
	f.Add(append(frame(0, 1, 3, []byte("abc")), frame(1, 1, 0, nil)...), int64(2))
	f.Fuzz(func(t *testing.T, b []byte, seed int64) {
		var whole, pieces frameParser
		p1, s1 := whole.feed(b)
		p2, s2 := 0, 0
		rnd := rand.New(rand.NewPCG(uint64(seed), 1))
		for len(b) > 0 {
			n := 1 + rnd.IntN(len(b))
			p, s := pieces.feed(b[:n])
			p2, s2, b = p2+p, s2+s, b[n:]
		}
		if p1 != p2 || s1 != s2 || whole != pieces {
			t.Errorf("at once: %d pings, %d streams; in pieces: %d, %d", p1, s1, p2, s2)
		}
	})
}

// TestGuardEndsFloods sends what an honest guest never sends so much of.
func TestGuardEndsFloods(t *testing.T) {
	t.Parallel()
	for name, b := range map[string][]byte{"pings": frame(2, 1, 1, nil), "streams": frame(1, 1, 0, nil)} {
		a, peer := net.Pipe()
		s, err := NewHost(a)
		if err != nil {
			t.Fatal(err)
		}
		go io.Copy(io.Discard, peer)
		flood := bytes.Repeat(b, 4096)
		if name == "streams" { // each with its own number
			for i := 0; i < len(flood); i += len(b) {
				binary.BigEndian.PutUint32(flood[i+4:], uint32(i/len(b))*2+2)
			}
		}
		for {
			_ = peer.SetWriteDeadline(time.Now().Add(time.Minute))
			if _, err := peer.Write(flood); err != nil {
				break
			}
		}
		<-s.CloseChan()
		peer.Close()
	}
}

// TestGuardJoinsWrites checks that a frame leaves in one write, and that what
// arrives is what was sent.
func TestGuardJoinsWrites(t *testing.T) {
	t.Parallel()
	a, b := net.Pipe()
	host, err := NewHost(a)
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	inside, err := NewGuest(b)
	if err != nil {
		t.Fatal(err)
	}
	defer inside.Close()
	data := bytes.Repeat([]byte("0123456789"), 300_000)
	go func() {
		st, err := inside.AcceptStream()
		if err != nil {
			return
		}
		_, _ = io.Copy(st, st)
		st.Close()
	}()
	st, err := host.OpenStream()
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		_, _ = st.Write(data)
		st.Close()
	}()
	got, err := io.ReadAll(st)
	if err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d of %d bytes, %v", len(got), len(data), err)
	}
}

// TestBrokenSessionIsNoEnd checks that what is cut off is not taken for whole.
func TestBrokenSessionIsNoEnd(t *testing.T) {
	t.Parallel()
	a, b := net.Pipe()
	host, err := NewHost(a)
	if err != nil {
		t.Fatal(err)
	}
	inside, err := NewGuest(b)
	if err != nil {
		t.Fatal(err)
	}
	defer inside.Close()
	for _, broken := range []bool{false, true} {
		st, err := host.OpenStream()
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := inside.AcceptStream()
		if err != nil {
			t.Fatal(err)
		}
		want := io.EOF
		if broken {
			a.Close()
			<-host.CloseChan()
			want = io.ErrUnexpectedEOF
		} else {
			theirs.Close()
		}
		if _, err := NewConn(st, nil).Read(make([]byte, 1)); err != want { //nolint:errorlint // readers compare it like this
			t.Errorf("broken: %v, error %v", broken, err)
		}
	}
}
