//go:build linux

package guestd

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// TestDesktopService is no test but a service of one: it answers each
// connection with its name.
func TestDesktopService(t *testing.T) {
	at := os.Getenv("DESKTOP_SERVICE")
	if at == "" {
		t.Skip("it runs as a process of TestDesktop")
	}
	l, err := net.Listen("unix", at)
	if err != nil {
		t.Fatal(err)
	}
	for {
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, "this is "+filepath.Base(at)+"\n")
		c.Close()
	}
}

// desktopRoot makes a root with two services and a page.
func desktopRoot(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	type ready struct {
		Unix string `json:"unix"`
	}
	type def struct {
		Name    string            `json:"name"`
		Command []string          `json:"command"`
		Env     map[string]string `json:"env"`
		Ready   ready             `json:"ready"`
		Secret  map[string]string `json:"secret"`
	}
	var defs []def
	for _, name := range []string{"display", "jupyter"} {
		sock := "/run/glovebox/" + name
		defs = append(defs, def{Name: name, Command: []string{os.Args[0], "-test.run=^TestDesktopService$"}, Ready: ready{sock},
			Env: map[string]string{"DESKTOP_SERVICE": root + sock}, Secret: map[string]string{"path": "/run/glovebox/secrets/" + name, "format": "text"}})
	}
	b, err := json.Marshal(defs)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"/etc/glovebox/services.json": string(b), noVNCPages + "/vnc.html": "the page"} {
		if err := os.MkdirAll(filepath.Dir(root+name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(root+name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// listen listens on a free port.
func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestDesktop(t *testing.T) {
	t.Parallel()
	root := desktopRoot(t)
	s, err := New(Options{Root: root})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	page, lab := listen(t), listen(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- s.desktop(ctx, page, lab, w)
		w.Close()
	}()
	var said strings.Builder
	lines := bufio.NewScanner(r)
	for lines.Scan() && !strings.Contains(said.String(), "token=") {
		said.WriteString(lines.Text() + "\n")
	}
	go func() { _, _ = io.Copy(io.Discard, r) }()
	for _, name := range []string{"display", "jupyter"} {
		secret, err := os.ReadFile(root + "/run/glovebox/secrets/" + name)
		if err != nil || len(secret) < 8 || !strings.Contains(said.String(), string(secret[:8])) {
			t.Errorf("the secret %q of %s (%v) is not in\n%s", secret, name, err, said.String())
		}
	}
	if m := regexp.MustCompile(`http://localhost:\d+/`).FindAllString(said.String(), -1); len(m) != 2 {
		t.Errorf("the addresses are %q", m)
	}

	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + page.Addr().String() + "/")
	if err != nil {
		t.Fatal(err)
	}
	b, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if string(b) != "the page" || !strings.Contains(resp.Request.URL.RawQuery, "autoconnect=1") {
		t.Errorf("%s: %q", resp.Request.URL, b)
	}
	ws := func(origin string) (*websocket.Conn, error) {
		conn, _, err := websocket.Dial(ctx, "ws://"+page.Addr().String()+"/websockify", &websocket.DialOptions{ //nolint:bodyclose // it closes it itself
			HTTPClient: client, Subprotocols: []string{"binary"}, HTTPHeader: http.Header{"Origin": {origin}}})
		return conn, err
	}
	if _, err := ws("http://elsewhere.example"); err == nil {
		t.Error("a page from elsewhere may connect")
	}
	if resp, err := client.Get("http://" + page.Addr().String() + "/websockify"); err != nil || resp.StatusCode != http.StatusUpgradeRequired {
		t.Errorf("what is no WebSocket: %v, %v", resp, err)
	} else {
		resp.Body.Close()
	}
	conn, err := ws("http://" + page.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if _, b, err := conn.Read(ctx); err != nil || string(b) != "this is display\n" {
		t.Errorf("the screen says %q, %v", b, err)
	}
	_ = conn.CloseNow()
	tcp, err := net.Dial("tcp", lab.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(tcp); err != nil || string(b) != "this is jupyter\n" {
		t.Errorf("the notebook says %q, %v", b, err)
	}
	tcp.Close()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
