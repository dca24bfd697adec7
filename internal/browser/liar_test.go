package browser

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"image"
	"image/png"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/glovebox-dev/glovebox"
)

// liar is a DevTools endpoint that answers as a test says.
type liar struct {
	version string                                                  // empty: an honest one
	answer  func(method string) string                              // a result in JSON; "" for none
	lie     func(ctx context.Context, ws *websocket.Conn, id int64) // said before each answer
}

func (l liar) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/json/version" {
		v := l.version
		if v == "" {
			v = `{"webSocketDebuggerUrl":"ws://169.254.169.254/devtools/browser/x"}`
		}
		io.WriteString(w, v)
		return
	}
	ws, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer ws.CloseNow()
	for {
		var m message
		_, b, err := ws.Read(r.Context())
		if err != nil || json.Unmarshal(b, &m) != nil {
			return
		}
		if l.lie != nil {
			l.lie(r.Context(), ws, m.ID)
		}
		result := "{}"
		if l.answer != nil {
			result = l.answer(m.Method)
		}
		if result != "" && ws.Write(r.Context(), websocket.MessageText, fmt.Appendf(nil, `{"id":%d,"result":%s}`, m.ID, result)) != nil {
			return
		}
	}
}

func (l liar) connect(t *testing.T, ctx context.Context) (*Browser, error) {
	t.Helper()
	srv := httptest.NewServer(l)
	b, err := Connect(ctx, func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", srv.Listener.Addr().String())
	})
	t.Cleanup(func() {
		if b != nil {
			b.Close()
		}
		srv.Close()
	})
	return b, err
}

func TestLyingEndpoints(t *testing.T) {
	for name, l := range map[string]liar{
		"no JSON":      {version: "hello"},
		"endless":      {version: strings.Repeat("[", maxVersion+1)},
		"another path": {version: `{"webSocketDebuggerUrl":"ws://localhost/evil/../../x"}`},
		"a query":      {version: `{"webSocketDebuggerUrl":"http://x:y@h/devtools/browser/a/b"}`},
		"garbage": {lie: func(ctx context.Context, ws *websocket.Conn, _ int64) {
			ws.Write(ctx, websocket.MessageText, []byte("garbage"))
		}},
		"a huge message": {lie: func(ctx context.Context, ws *websocket.Conn, _ int64) {
			ws.Write(ctx, websocket.MessageText, make([]byte, maxMessage+1))
		}},
		"silence": {answer: func(string) string { return "" }},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := l.connect(t, ctx); glovebox.CodeOf(err) != glovebox.CodeUnavailable {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestLyingBrowser: answers that nobody asked for, answers given twice and
// events without end change nothing.
func TestLyingBrowser(t *testing.T) {
	many := make([]string, 10_000)
	for i := range many {
		many[i] = fmt.Sprintf(`{"targetId":"t%d","type":"page"}`, i)
	}
	l := liar{
		lie: func(ctx context.Context, ws *websocket.Conn, id int64) {
			for i := range 200 {
				ws.Write(ctx, websocket.MessageText, fmt.Appendf(nil, `{"id":%d,"result":{"sessionId":"wrong"}}`, id+1+int64(i)))
				ws.Write(ctx, websocket.MessageText, fmt.Appendf(nil, `{"sessionId":"s%d","method":"Runtime.consoleAPICalled","params":{"type":"error","args":[{"value":"x"}]}}`, i))
				ws.Write(ctx, websocket.MessageText, []byte(`{"method":"Target.targetCreated","params":{"targetInfo":{"targetId":"w","openerId":"t"}}}`))
			}
		},
		answer: func(method string) string {
			switch method {
			case "Target.getTargets":
				return `{"targetInfos":[` + strings.Join(many, ",") + `]}`
			case "Target.attachToTarget":
				return `{"sessionId":"s1"}`
			}
			return "{}"
		},
	}
	b, err := l.connect(t, t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if tabs, err := b.tabs(t.Context()); err != nil || len(tabs) != maxTabs {
		t.Errorf("%d tabs, %v", len(tabs), err)
	}
	p, err := b.attach(t.Context(), "t", false)
	if err != nil {
		t.Fatal(err)
	}
	for range 30 {
		if err := p.call(t.Context(), "Page.enable", nil, nil); err != nil && !errors.Is(err, errSilent) {
			t.Fatal(err)
		}
	}
	if r := p.Report(); len(r.Console) > maxProblems {
		t.Errorf("%d problems", len(r.Console))
	}
	b.c.mu.Lock()
	waiting := len(b.c.waiting)
	b.c.mu.Unlock()
	if waiting > 10 {
		t.Errorf("%d calls wait", waiting)
	}
}

func TestLyingPictures(t *testing.T) {
	var plain bytes.Buffer
	if err := png.Encode(&plain, image.NewGray(image.Rect(0, 0, 2, 2))); err != nil {
		t.Fatal(err)
	}
	sized := func(w, h uint32) []byte {
		b := bytes.Clone(plain.Bytes())
		binary.BigEndian.PutUint32(b[16:], w)
		binary.BigEndian.PutUint32(b[20:], h)
		binary.BigEndian.PutUint32(b[29:], crc32.ChecksumIEEE(b[12:29]))
		return b
	}
	for name, tt := range map[string]struct {
		data []byte
		ok   bool
	}{
		"honest": {sized(1280, 800), true}, "a bomb": {sized(30_000, 30_000), false}, "a line": {sized(1<<31-1, 1), false}, "large": {sized(8000, 8000), false},
		"nothing": {nil, false}, "a script": {[]byte("<svg/>"), false}, "many bytes": {append(sized(10, 10), make([]byte, MaxShotBytes)...), false},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := liar{answer: func(method string) string {
				switch method {
				case "Page.captureScreenshot":
					data, _ := json.Marshal(map[string][]byte{"data": tt.data})
					return string(data)
				case "Page.getLayoutMetrics":
					return `{"cssContentSize":{"width":1e300,"height":-5}}`
				}
				return `{"sessionId":"s"}`
			}}.connect(t, t.Context())
			if err != nil {
				t.Fatal(err)
			}
			p, err := b.attach(t.Context(), "t", false)
			if err != nil {
				t.Fatal(err)
			}
			for _, full := range []bool{false, true} {
				if _, err := p.Screenshot(t.Context(), full); (err == nil) != tt.ok {
					t.Errorf("%v", err)
				}
			}
		})
	}
}
