//go:build linux

package guestd_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"

	"github.com/glovebox-dev/glovebox/internal/guest"
)

// lab is a JupyterLab with the image's configuration.
type lab struct {
	t    *testing.T
	sock string
	run  string
	http *http.Client
}

// startLab starts JupyterLab for a sandbox; it sees the sandbox's kernels.
func startLab(t *testing.T, b *sandbox) *lab {
	t.Helper()
	if exec.Command(pythonWithKernel(), "-c", "import jupyterlab").Run() != nil {
		t.Skip("needs jupyterlab in the Python that has ipykernel; the tests in gVisor use the image's")
	}
	config, err := filepath.Abs("../../../image/jupyter")
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{t: t, run: filepath.Join(b.root, "run/glovebox")}
	l.sock = l.run + "/jupyter.sock"
	if err := os.MkdirAll(l.run+"/secrets", 0o755); err != nil {
		t.Fatal(err)
	}
	l.token("first")
	cmd := exec.Command(pythonWithKernel(), "-m", "jupyterlab", "--allow-root", "--config="+config+"/jupyter_server_config.py")
	cmd.Env = append(os.Environ(), "HOME="+b.root+"/home/agent", "GLOVEBOX_RUN="+l.run, "GLOVEBOX_WORKSPACE="+b.root+"/workspace",
		"JUPYTER_CONFIG_PATH="+config, "JUPYTER_NO_CONFIG=", "GLOVEBOX_JUPYTER_BASE_URL=/under/a/prefix/", "PYTHONDONTWRITEBYTECODE=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
		l.http.CloseIdleConnections()
		if t.Failed() {
			t.Logf("JupyterLab: %s", log.Bytes())
		}
	})
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return awaitSocket(ctx, l.sock) }
	l.http = &http.Client{Transport: &http.Transport{DialContext: dial}, Timeout: 5 * time.Minute}
	return l
}

// awaitSocket dials a socket that may not be there yet.
func awaitSocket(ctx context.Context, path string) (net.Conn, error) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ECONNREFUSED) {
			return conn, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (l *lab) token(s string) {
	l.t.Helper()
	if err := os.WriteFile(l.run+"/secrets/jupyter", []byte(s+"\n"), 0o600); err != nil {
		l.t.Fatal(err)
	}
}

// call makes a request with a token and reads the answer into out.
func (l *lab) call(method, path, token string, in, out any) int {
	l.t.Helper()
	body, err := json.Marshal(in)
	if err != nil {
		l.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(l.t.Context(), method, "http://machine/under/a/prefix"+path, bytes.NewReader(body))
	if err != nil {
		l.t.Fatal(err)
	}
	req.Header.Set("Authorization", "token "+token)
	req.Header.Set("Origin", "https://proxy.example")
	res, err := l.http.Do(req)
	if err != nil {
		l.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		l.t.Fatal(err)
	}
	if out != nil && json.Unmarshal(b, out) != nil {
		l.t.Fatalf("%s: %s: %.300s", path, res.Status, b)
	}
	return res.StatusCode
}

// TestJupyterLab opens the agent's notebook in JupyterLab and finds the
// agent's variables there.
func TestJupyterLab(t *testing.T) {
	c, b := kernels(t)
	l := startLab(t, b)
	run(t, c, guest.Cell{Code: "secret_of_the_cell = 6 * 7"}).want(t, "ok", "")

	if got := l.call("GET", "/api/status", "", nil, nil); got < 400 {
		t.Errorf("without a token: %d", got)
	}
	if got := l.call("GET", "/api/status", "first", nil, nil); got != http.StatusOK {
		t.Errorf("with the token: %d", got)
	}
	l.token("second")
	if got := l.call("GET", "/api/status", "first", nil, nil); got < 400 {
		t.Errorf("with the token of before: %d", got)
	}

	var session struct {
		ID     string
		Kernel struct{ ID, Name string }
	}
	body := map[string]any{"path": "notebooks/session.ipynb", "name": "session.ipynb", "type": "notebook", "kernel": map[string]string{"name": "python3"}}
	if got := l.call("POST", "/api/sessions", "second", body, &session); got != http.StatusCreated {
		t.Fatalf("a session: %d", got)
	}
	if got := l.evaluate(session.Kernel.ID, session.ID, "secret_of_the_cell"); got != "42" {
		t.Errorf("in JupyterLab the variable is %q", got)
	}
	// And the other way round.
	l.evaluate(session.Kernel.ID, session.ID, "from_the_person = 'hello'; 1")
	run(t, c, guest.Cell{Code: "from_the_person"}).want(t, "ok", "'hello'")

	// A kernel with a new key is found again.
	if err := c.RestartKernel(t.Context(), "python"); err != nil {
		t.Fatal(err)
	}
	run(t, c, guest.Cell{Code: "secret_of_the_cell = 7"}).want(t, "ok", "")
	body["path"] = "notebooks/session-2.ipynb"
	if got := l.call("POST", "/api/sessions", "second", body, &session); got != http.StatusCreated {
		t.Fatalf("another session: %d", got)
	}
	if got := l.evaluate(session.Kernel.ID, session.ID, "secret_of_the_cell"); got != "7" {
		t.Errorf("after a restart the variable is %q", got)
	}
}

// evaluate runs code in a kernel as JupyterLab's page does.
func (l *lab) evaluate(kernel, session, code string) string {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), 2*time.Minute)
	defer cancel()
	ws, res, err := websocket.Dial(ctx, "http://machine/under/a/prefix/api/kernels/"+kernel+"/channels?session_id="+session, &websocket.DialOptions{
		HTTPClient: l.http, HTTPHeader: http.Header{"Authorization": {"token second"}, "Origin": {"https://proxy.example"}},
	})
	if err != nil {
		l.t.Fatalf("open the channels of kernel %q: %v, %v", kernel, err, res)
	}
	defer ws.CloseNow()
	err = wsjson.Write(ctx, ws, map[string]any{
		"channel": "shell", "header": map[string]any{"msg_id": "m1", "msg_type": "execute_request", "session": session, "username": "", "version": "5.3", "date": ""},
		"parent_header": map[string]any{}, "metadata": map[string]any{}, "content": map[string]any{"code": code, "silent": false, "store_history": false, "allow_stdin": false},
	})
	if err != nil {
		l.t.Fatal(err)
	}
	for {
		var m struct {
			Header struct {
				Type string `json:"msg_type"`
			} `json:"header"`
			Parent struct {
				ID string `json:"msg_id"`
			} `json:"parent_header"`
			Content struct {
				Data  map[string]any `json:"data"`
				State string         `json:"execution_state"`
				Value string         `json:"evalue"`
			} `json:"content"`
		}
		if err := wsjson.Read(ctx, ws, &m); err != nil {
			l.t.Fatal(err)
		}
		switch {
		case m.Parent.ID != "m1":
		case m.Header.Type == "execute_result":
			s, _ := m.Content.Data["text/plain"].(string)
			return s
		case m.Header.Type == "error":
			return "error: " + m.Content.Value
		}
	}
}
