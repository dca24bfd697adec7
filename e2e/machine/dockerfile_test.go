//go:build linux

// Package machine_test tests the machine used by itself, as a container.
package machine_test

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/glovebox-dev/glovebox/internal/egress/hostconf"
	"github.com/glovebox-dev/glovebox/internal/image"
	"github.com/glovebox-dev/glovebox/internal/rfb"
)

const (
	root  = "../.."
	built = "glovebox-machine-test" // the image; it stays, since the engine builds a changed one from it in seconds

	patience = 5 * time.Minute // with what takes seconds, on a busy host
)

// TestDockerfile builds the machine as any user of Docker would, runs it, and
// looks at what it prints. Unless GLOVEBOX_E2E_DOCKERFILE is set (as "make
// test-dockerfile" does), only the last stage of the Dockerfile is built, on
// what "glovebox image build" made: the stages before install the same.
func TestDockerfile(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes minutes")
	}
	if err := exec.CommandContext(t.Context(), "docker", "version").Run(); err != nil {
		t.Skip("no Docker engine answers: apt-get install docker.io, and start dockerd")
	}
	name := os.Getenv("GLOVEBOX_E2E_MACHINE") // an image that is there, to be tested without a build
	switch {
	case name != "":
	case os.Getenv("GLOVEBOX_E2E_DOCKERFILE") != "":
		name = built
		build(t, name)
	default:
		name = built
		finish(t, name)
	}
	c := run(t, name)
	t.Run("page", c.page)
	t.Run("screen", c.screen)
	t.Run("notebook", c.notebook)
	t.Run("user", c.user)
	t.Run("tools", c.tools)
	if other := run(t, name); other.password == c.password || other.token == c.token {
		t.Error("two containers have the same secrets")
	}
}

// docker runs the command and returns its output.
func docker(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "docker", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("docker %s: %v\n%s", args[0], err, out)
	}
	return strings.TrimSpace(string(out))
}

// binary builds the command.
func binary(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "glovebox")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-s -w", "-o", path, root+"/cmd/glovebox")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the binary: %v\n%s", err, out)
	}
	return path
}

// load gives the engine the machine image that is there, by a name.
func load(t *testing.T, glovebox, base string) {
	t.Helper()
	if old := strings.Fields(docker(t, "image", "ls", "-q", strings.Split(base, ":")[0])); len(old) > 0 {
		_ = exec.CommandContext(t.Context(), "docker", append([]string{"image", "rm", "-f"}, old...)...).Run() // of other versions; they are large
	}
	export := exec.CommandContext(t.Context(), glovebox, "image", "export", "--docker", "--name", base)
	take := exec.CommandContext(t.Context(), "docker", "load", "-q")
	var said bytes.Buffer
	export.Stderr = &said
	pipe, err := export.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	take.Stdin = pipe
	if err := export.Start(); err != nil {
		t.Fatal(err)
	}
	loaded, loadErr := take.CombinedOutput()
	if err := export.Wait(); err != nil && strings.Contains(said.String(), "glovebox image build") {
		t.Skipf("no machine image: %s", said.Bytes())
	} else if err != nil || loadErr != nil {
		t.Fatalf("docker load: %v, %v\n%s%s", err, loadErr, said.Bytes(), loaded)
	}
}

// finish builds the Dockerfile's last stage on the machine image that is there.
func finish(t *testing.T, name string) {
	t.Helper()
	glovebox := binary(t)
	base := "glovebox-machine-test-base:" + image.Digest()
	if exec.CommandContext(t.Context(), "docker", "image", "inspect", base).Run() != nil {
		load(t, glovebox, base)
	}
	file, err := os.ReadFile(root + "/image/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	_, last, found := strings.Cut(string(file), "\nCOPY --from=machine / /\nCOPY --from=binary /glovebox ")
	if !found {
		t.Fatal("the Dockerfile's last stage is another one")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "Dockerfile"), []byte("FROM "+base+"\nUSER root\nENV HOME=/root\nCOPY glovebox "+last), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(glovebox, filepath.Join(dir, "glovebox")); err != nil {
		t.Fatal(err)
	}
	docker(t, "build", "-q", "-t", name, dir)
}

// build builds the image from the files that the Dockerfile wants, with how
// this host's package managers reach their registries.
func build(t *testing.T, name string) {
	t.Helper()
	if exec.CommandContext(t.Context(), "docker", "image", "inspect", "debian:trixie").Run() != nil &&
		exec.CommandContext(t.Context(), "docker", "pull", "-q", "debian:trixie").Run() != nil {
		t.Skip("there is no image debian:trixie: mmdebstrap --variant=minbase trixie - | docker import - debian:trixie")
	}
	glovebox := binary(t)
	host := hostconf.Read(hostconf.System())
	args := []string{"build", "-q", "-f", "image/Dockerfile", "-t", name}
	for k, v := range map[string]string{"PIP_INDEX_URL": host.Pip.URL, "npm_config_registry": host.NPM.URL} {
		if v != "" {
			args = append(args, "--build-arg", k+"="+v)
		}
	}
	r, w := io.Pipe()
	go func() { w.CloseWithError(buildContext(w, glovebox, host.CAs)) }()
	cmd := exec.CommandContext(t.Context(), "docker", append(args, "-")...)
	cmd.Stdin = r
	begin := time.Now()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("docker build: %v\n%s", err, out[max(0, len(out)-4000):])
	}
	t.Logf("built in %s: %s bytes", time.Since(begin).Round(time.Second), docker(t, "image", "inspect", "-f", "{{.Size}}", name))
}

// buildContext writes the files that docker build is given.
func buildContext(w io.Writer, binary string, cas []byte) error {
	t := tar.NewWriter(w)
	add := func(name string, mode int64, b []byte) error {
		// One time for all, or the engine's cache would never match.
		if err := t.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: int64(len(b)), ModTime: time.Unix(0, 0)}); err != nil {
			return err
		}
		_, err := t.Write(b)
		return err
	}
	err := filepath.WalkDir(filepath.Join(root, "image"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil || rel == "image/host.crt" {
			return err
		}
		return add(rel, 0o644, b)
	})
	if err != nil {
		return err
	}
	b, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	if err := add("bin/glovebox", 0o755, b); err != nil {
		return err
	}
	if err := add("image/host.crt", 0o644, cas); err != nil {
		return err
	}
	return t.Close()
}

// container is a machine that runs and has said how to reach it.
type container struct {
	id, screenAddr, notebookAddr string
	password, token              string
}

var (
	saysPassword = regexp.MustCompile(`password:\s+(\S{8})\n`)
	saysToken    = regexp.MustCompile(`/lab\?token=(\S+)\n`)
)

func run(t *testing.T, name string) *container {
	t.Helper()
	c := &container{id: docker(t, "run", "-d", "-p", "127.0.0.1::6080", "-p", "127.0.0.1::8888", name)}
	t.Cleanup(func() { _ = exec.Command("docker", "rm", "-f", c.id).Run() })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	logs := exec.CommandContext(ctx, "docker", "logs", "-f", c.id)
	pipe, err := logs.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := logs.Start(); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	for b := make([]byte, 4096); c.token == ""; {
		n, err := pipe.Read(b)
		said.Write(b[:n])
		if m := saysPassword.FindSubmatch(said.Bytes()); m != nil {
			c.password = string(m[1])
		}
		if m := saysToken.FindSubmatch(said.Bytes()); m != nil {
			c.token = string(m[1])
		}
		if err != nil {
			t.Fatalf("the container does not say how to reach it: %v\n%s\n%s", err, said.Bytes(), docker(t, "logs", c.id))
		}
	}
	cancel()
	_ = logs.Wait() // it was told to end
	c.screenAddr, c.notebookAddr = docker(t, "port", c.id, "6080/tcp"), docker(t, "port", c.id, "8888/tcp")
	return c
}

// get returns the status and the body of a page.
func get(t *testing.T, url, authorization string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func (c *container) page(t *testing.T) {
	if code, body := get(t, "http://"+c.screenAddr+"/", ""); code != http.StatusOK || !strings.Contains(body, "noVNC") {
		t.Errorf("the page: %d\n%.500s", code, body)
	}
	if code, _ := get(t, "http://"+c.screenAddr+"/../../etc/passwd", ""); code == http.StatusOK {
		t.Error("it serves other files")
	}
}

// dial opens a WebSocket to the screen, as a page from origin.
func (c *container) dial(ctx context.Context, origin string) (*websocket.Conn, error) {
	ws, resp, err := websocket.Dial(ctx, "ws://"+c.screenAddr+"/websockify", &websocket.DialOptions{
		Subprotocols: []string{"binary"}, HTTPHeader: http.Header{"Origin": {origin}}})
	if err != nil && resp != nil && resp.Body != nil {
		resp.Body.Close()
	}
	return ws, err
}

func (c *container) screen(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := c.dial(ctx, "http://elsewhere.example"); err == nil {
		t.Error("a page from elsewhere may connect")
	}
	for _, tt := range []struct {
		name, password string
		enters         bool
	}{{"wrong password", "wrong-pw", false}, {"no password", "", false}, {"the password", c.password, true}} {
		ws, err := c.dial(ctx, "http://"+c.screenAddr)
		if err != nil {
			t.Fatal(err)
		}
		ws.SetReadLimit(1 << 24)
		d, err := rfb.Dial(ctx, websocket.NetConn(ctx, ws, websocket.MessageBinary), tt.password)
		if entered := err == nil; entered != tt.enters {
			t.Errorf("%s: %v", tt.name, err)
		}
		if err == nil {
			d.Close()
		}
	}
}

func (c *container) notebook(t *testing.T) {
	api := "http://" + c.notebookAddr + "/api/kernelspecs"
	if code, body := get(t, api, ""); code != http.StatusForbidden {
		t.Errorf("without a token: %d\n%.300s", code, body)
	}
	code, body := get(t, api, "token "+c.token)
	if code != http.StatusOK {
		t.Fatalf("with the token: %d\n%.300s", code, body)
	}
	for _, want := range []string{`"python3"`, `"typescript"`, `"bash"`} {
		if !strings.Contains(body, want) {
			t.Errorf("there is no kernel %s", want)
		}
	}
	if code, body := get(t, "http://"+c.notebookAddr+"/lab?token="+c.token, ""); code != http.StatusOK || !strings.Contains(body, "JupyterLab") {
		t.Errorf("JupyterLab: %d\n%.300s", code, body)
	}
}

func (c *container) user(t *testing.T) {
	got := docker(t, "exec", c.id, "sh", "-c", "ps -C Xvnc,openbox,tint2,jupyter-lab -o user= | sort -u; command -v sudo || true")
	if got != "agent" {
		t.Errorf("the services run as %q", got)
	}
}

// tools looks for what docs/IMAGE.md says is inside, as the agent's tools do:
// in a login shell of the user.
func (c *container) tools(t *testing.T) {
	inside := func(script string) string {
		return docker(t, "exec", "-u", "1000:1000", "-e", "HOME=/home/agent", c.id, "bash", "-lc", script)
	}
	if got := inside(". /etc/os-release; echo $ID $VERSION_ID $(id -un) $(id -u)"); got != "debian 13 agent 1000" {
		t.Errorf("inside is %q", got)
	}
	const programs = "Xvnc openbox tint2 lxterminal pcmanfm mousepad chromium xdotool xdot scrot xclip " +
		"python python3 pip node npm tsc tsx deno go gcc make pkg-config git rg fd jq sqlite3 ffmpeg dot curl wget rsync zip unzip mkfs.erofs"
	if got := inside("for p in " + programs + "; do command -v $p >/dev/null || echo $p; done"); got != "" {
		t.Errorf("missing: %s", got)
	}
	if got := inside("python -c 'import numpy, pandas, matplotlib, requests; print(1)'"); got != "1" {
		t.Errorf("Python's packages: %q", got)
	}
	if got := inside("scrot -o /tmp/tools.png && file -b /tmp/tools.png"); !strings.HasPrefix(got, "PNG image data, 1280 x 800") {
		t.Errorf("a second program's screenshot: %q", got)
	}
}
