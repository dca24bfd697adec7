package guest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/yamux"
	"google.golang.org/protobuf/proto"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest/guestpb"
	"github.com/glovebox-dev/glovebox/internal/guest/wire"
	"github.com/glovebox-dev/glovebox/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// liar is a guest that answers calls with answer, and streams with stream,
// both as bytes, whatever was asked. The greeting it gets right.
type liar struct {
	answer func(path string) string
	stream func(st *yamux.Stream, kind string)
}

// httpOK is an answer of Connect with the given body.
func httpOK(body []byte) string {
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/proto\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

func (l liar) serve(t *testing.T, conn net.Conn) {
	t.Helper()
	s, err := wire.NewGuest(conn)
	if err != nil {
		t.Error(err)
		return
	}
	defer s.Close()
	for {
		st, err := s.AcceptStream()
		if err != nil {
			return
		}
		go func() {
			defer st.Close()
			br := bufio.NewReader(st)
			h, err := wire.ReadHeader(br)
			if err != nil {
				return
			}
			if h.Kind != wire.KindCall {
				if l.stream != nil {
					go io.Copy(io.Discard, br)
					l.stream(st, h.Kind)
				}
				return
			}
			for {
				line, err := br.ReadString('\n')
				if err != nil {
					return
				}
				path := strings.Fields(line)[1]
				length := 0
				for line != "\r\n" && err == nil {
					if line, err = br.ReadString('\n'); err == nil {
						_, _ = fmt.Sscanf(line, "Content-Length: %d", &length)
					}
				}
				if _, err := io.CopyN(io.Discard, br, int64(length)); err != nil {
					return
				}
				reply := ""
				if strings.HasSuffix(path, "/Hello") {
					b, _ := proto.Marshal(&guestpb.HelloReply{Version: wire.Version})
					reply = httpOK(b)
				} else if l.answer != nil {
					reply = l.answer(path)
				}
				if _, err := io.WriteString(st, reply); err != nil {
					return
				}
			}
		}()
	}
}

// dial returns a client of a lying guest.
func (l liar) dial(t *testing.T, o Options) *Client {
	t.Helper()
	a, b := net.Pipe()
	done := make(chan struct{})
	go func() { defer close(done); l.serve(t, b) }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // the greeting may take longer than the calls that are tested
	defer cancel()
	c, err := NewClient(ctx, a, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		<-done
	})
	return c
}

// sendFrames writes what a handler was told to.
func sendFrames(st *yamux.Stream, frames ...[]byte) {
	for _, f := range frames {
		if _, err := st.Write(f); err != nil {
			return
		}
	}
}

func message(m proto.Message) []byte {
	b, err := wire.AppendMessage(nil, wire.FrameMessage, m)
	if err != nil {
		panic(err)
	}
	return b
}

func data(s string) []byte { return wire.AppendFrame(nil, wire.FrameData, []byte(s)) }

var end = wire.AppendFrame(nil, wire.FrameEnd, nil)

// TestLyingAnswers gives answers of HTTP that are wrong in every way; each
// must fail the call, soon, with CodeUnavailable, and leave the client usable.
func TestLyingAnswers(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"not http":     "hello\r\n\r\n",
		"nothing":      "",
		"huge header":  "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 1<<20) + "\r\n\r\n",
		"many headers": "HTTP/1.1 200 OK\r\n" + strings.Repeat("X: y\r\n", 1<<17) + "\r\n",
		"huge body":    httpOK(make([]byte, maxReply+1)),
		"not protobuf": httpOK([]byte("\xff\xff\xff\xff")),
		"short body":   "HTTP/1.1 200 OK\r\nContent-Type: application/proto\r\nContent-Length: 1000000000000\r\n\r\n",
		"redirect":     "HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\nContent-Length: 0\r\n\r\n",
		"other type":   "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nhi",
		"compressed":   "HTTP/1.1 200 OK\r\nContent-Type: application/proto\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nhi",
		"upgrade":      "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
		"informs":      strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 10_000),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := liar{answer: func(string) string { return answer }}.dial(t, Options{CallTimeout: 500 * time.Millisecond})
			for range 2 {
				if _, err := c.Stat(t.Context(), "x"); glovebox.CodeOf(err) != glovebox.CodeUnavailable {
					t.Errorf("%v has the code %s", err, glovebox.CodeOf(err))
				}
			}
			select {
			case <-c.Done():
				t.Error("the session ended")
			default:
			}
		})
	}
}

// TestLyingErrors checks what becomes of the text of an error.
func TestLyingErrors(t *testing.T) {
	t.Parallel()
	body := `{"code":"not_found","message":"` + strings.Repeat(`\u001b[31mred\u0000`, 1000) + `"}`
	c := liar{answer: func(string) string {
		return fmt.Sprintf("HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	}}.dial(t, Options{})
	_, err := c.Stat(t.Context(), "x")
	if glovebox.CodeOf(err) != glovebox.CodeNotFound || len(err.Error()) > 4096 || strings.ContainsAny(err.Error(), "\x00\x1b") {
		t.Errorf("%.200q has the code %s", err, glovebox.CodeOf(err))
	}
}

// TestLyingStreams gives answers on streams of frames that are wrong.
func TestLyingStreams(t *testing.T) {
	t.Parallel()
	get := func(ctx context.Context, c *Client) error { _, _, err := c.ReadFile(ctx, "x", 0, 100); return err }
	run := func(ctx context.Context, c *Client) error {
		_, out, err := c.Run(ctx, Command{ID: "x", Args: []string{"true"}}, 1000)
		if len(out) > 3000 {
			return fmt.Errorf("%d bytes of output", len(out))
		}
		return err
	}
	output := func(ctx context.Context, c *Client) error {
		return (&Process{c: c, id: "x"}).Output(ctx, 0, func(Output) error { return nil })
	}
	put := func(ctx context.Context, c *Client) error { return c.WriteFile(ctx, "x", make([]byte, 4<<20), 0) }
	port := func(ctx context.Context, c *Client) error { _, err := c.DialPort(ctx, 80); return err }
	check := func(ctx context.Context, c *Client) error {
		_, err := c.Checkpoint(ctx, "", "m", io.Discard)
		return err
	}
	gap := func(s string) []byte { return wire.AppendFrame(nil, wire.FrameGap, []byte(s)) }
	for name, tc := range map[string]struct {
		call   func(context.Context, *Client) error
		frames [][]byte
	}{
		"get nothing":          {get, nil},
		"get too much":         {get, [][]byte{message(&guestpb.GetReply{Size: 5}), data(strings.Repeat("x", 101)), end}},
		"get without end":      {get, [][]byte{message(&guestpb.GetReply{Size: 5}), data("12345")}},
		"get huge frame":       {get, [][]byte{{'M', 255, 255, 255, 255}}},
		"get other frame":      {get, [][]byte{end}},
		"get not protobuf":     {get, [][]byte{wire.AppendFrame(nil, wire.FrameMessage, []byte("\xff\xff"))}},
		"get unknown frame":    {get, [][]byte{{'?', 0, 0, 0, 0}}},
		"run endless output":   {run, slicesOf(data(strings.Repeat("x", 60_000)), 100)},
		"run endless gaps":     {run, slicesOf(gap("\x00\x00\x00\x00\x00\x00\x00\x01"), 10_000)},
		"run bad gap":          {run, [][]byte{gap("\xff\xff\xff\xff\xff\xff\xff\xff")}},
		"run short gap":        {run, [][]byte{gap("x")}},
		"output bad frame":     {output, [][]byte{message(&guestpb.GetReply{})}},
		"output cut":           {output, [][]byte{data("x"), {'D', 0, 0}}},
		"put early end":        {put, [][]byte{data("what?")}},
		"port data":            {port, [][]byte{data("x")}},
		"checkpoint bad name":  {check, [][]byte{message(&guestpb.CheckpointReply{Commit: "../../x"}), end}},
		"checkpoint no end":    {check, [][]byte{message(&guestpb.CheckpointReply{Commit: strings.Repeat("a", 40)}), data("PACK")}},
		"checkpoint other":     {check, [][]byte{message(&guestpb.CheckpointReply{Commit: strings.Repeat("a", 40)}), message(&guestpb.GetReply{})}},
		"failure of odd bytes": {get, [][]byte{wire.AppendFrame(nil, wire.FrameFailure, []byte("\xff"))}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := liar{stream: func(st *yamux.Stream, _ string) { sendFrames(st, tc.frames...) }}.dial(t, Options{CallTimeout: 2 * time.Second})
			if err := tc.call(t.Context(), c); glovebox.CodeOf(err) != glovebox.CodeUnavailable && glovebox.CodeOf(err) != glovebox.CodeTooLarge {
				t.Errorf("%v has the code %q", err, glovebox.CodeOf(err))
			}
		})
	}
}

func slicesOf(b []byte, n int) [][]byte {
	all := make([][]byte, n)
	for i := range all {
		all[i] = b
	}
	return all
}

// TestStall checks that a guest that says nothing holds no call longer than
// it may take.
func TestStall(t *testing.T) {
	t.Parallel()
	stop := make(chan struct{})
	c := liar{stream: func(*yamux.Stream, string) { <-stop }}.dial(t, Options{CallTimeout: time.Second})
	defer close(stop)
	for name, call := range map[string]func(context.Context) error{
		"stat":  func(ctx context.Context) error { _, err := c.Stat(ctx, "x"); return err },
		"read":  func(ctx context.Context) error { _, _, err := c.ReadFile(ctx, "x", 0, 10); return err },
		"write": func(ctx context.Context) error { return c.WriteFile(ctx, "x", make([]byte, 16<<20), 0) },
		"port":  func(ctx context.Context) error { _, err := c.DialPort(ctx, 80); return err },
		"run": func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
			defer cancel()
			_, _, err := c.Run(ctx, Command{ID: "x", Args: []string{"x"}}, 0)
			return err
		},
		"wait": func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
			defer cancel()
			_, err := (&Process{c: c, id: "x"}).Wait(ctx, false)
			return err
		},
		"export": func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
			defer cancel()
			return c.Export(ctx, "", nil, nil, nil)
		},
	} {
		// Were it not for its own time, a call would go on until the guest ends.
		err := call(t.Context())
		own := errors.Is(err, context.DeadlineExceeded) || err != nil && strings.Contains(err.Error(), "did not answer within 1s")
		if glovebox.CodeOf(err) != glovebox.CodeUnavailable || !own {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestNoGuest checks peers that are no guest at all.
func TestNoGuest(t *testing.T) {
	t.Parallel()
	for name, peer := range map[string]func(net.Conn){
		"closes":    func(c net.Conn) { c.Close() },
		"silent":    func(c net.Conn) { io.Copy(io.Discard, c) },
		"babbles":   func(c net.Conn) { go io.Copy(io.Discard, c); c.Write(bytes.Repeat([]byte("SSH-2.0-x\r\n"), 1000)) },
		"floods":    func(c net.Conn) { go io.Copy(io.Discard, c); io.Copy(c, pings{}) },
		"goes away": func(c net.Conn) { go io.Copy(io.Discard, c); c.Write([]byte{0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := net.Pipe()
			done := make(chan struct{})
			go func() { defer close(done); peer(b) }()
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			if _, err := NewClient(ctx, a, Options{}); glovebox.CodeOf(err) != glovebox.CodeUnavailable {
				t.Error(err)
			}
			b.Close()
			<-done
		})
	}
}

// pings is an endless stream of pings.
type pings struct{}

func (pings) Read(p []byte) (int, error) {
	return copy(p, bytes.Repeat([]byte{0, 2, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1}, 1000)), nil
}

// TestVersion checks that another version is refused.
func TestVersion(t *testing.T) {
	t.Parallel()
	a, b := net.Pipe()
	s, err := wire.NewGuest(b)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	go func() {
		st, err := s.AcceptStream()
		if err != nil {
			return
		}
		answerHello(st, wire.Version+1)
	}()
	if _, err := NewClient(t.Context(), a, Options{}); glovebox.CodeOf(err) != glovebox.CodeUnavailable || !strings.Contains(err.Error(), "version") {
		t.Error(err)
	}
}

// TestUnaskedStreams has the guest open streams that are no egress
// connections, and more of those than it may.
func TestUnaskedStreams(t *testing.T) {
	t.Parallel()
	a, b := net.Pipe()
	s, err := wire.NewGuest(b)
	if err != nil {
		t.Fatal(err)
	}
	go (liar{}).answerOn(s)
	got := make(chan struct{}, 1000)
	release := make(chan struct{})
	c, err := NewClient(t.Context(), a, Options{Egress: func(conn net.Conn) {
		defer conn.Close()
		got <- struct{}{}
		<-release
	}})
	if err != nil {
		t.Fatal(err)
	}
	var open []*yamux.Stream
	for i := range maxEgress + 20 {
		st, err := s.OpenStream()
		if err != nil {
			t.Fatal(err)
		}
		_, _ = st.Write(wire.Header{Kind: wire.KindEgress}.Append(nil))
		if i < maxEgress {
			<-got
			open = append(open, st)
		} else if _, err := st.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("connection %d was not refused: %v", i, err)
		}
	}
	close(release)
	for _, st := range open {
		if _, err := st.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Error(err)
		}
	}
	for _, bad := range []string{"hello\n", strings.Repeat("x", 1000), "glovebox/1 run\n"} {
		st, err := s.OpenStream()
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(st, bad)
		if _, err := st.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("%.20q: %v", bad, err)
		}
		st.Close()
	}
	c.Close()
	s.Close()
}

// answerOn answers greetings on an existing session.
func (l liar) answerOn(s *yamux.Session) {
	for {
		st, err := s.AcceptStream()
		if err != nil {
			return
		}
		answerHello(st, wire.Version)
	}
}

// answerHello answers the greeting.
func answerHello(st *yamux.Stream, version uint32) {
	m, _ := proto.Marshal(&guestpb.HelloReply{Version: version})
	_, _ = io.WriteString(st, httpOK(m))
}
