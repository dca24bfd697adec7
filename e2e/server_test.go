// Package e2e tests Glovebox from outside: the binary as it is shipped, real
// sandboxes, and HTTP as curl speaks it.
package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/image"
)

// binary is the program under test.
var binary string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		if binary = os.Getenv("GLOVEBOX_E2E_BINARY"); binary != "" {
			return m.Run()
		}
		dir, err := os.MkdirTemp("", "glovebox-e2e-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		if err := os.Chmod(dir, 0o755); err != nil { // other users run it, too
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		binary = filepath.Join(dir, "glovebox")
		build := exec.Command("go", "build", "-o", binary, "../cmd/glovebox")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build the binary: %v\n%s", err, out)
			return 1
		}
		return m.Run()
	}())
}

// dataDir returns a new data directory that shares the machine image of the
// user who runs the tests. The test is skipped if there is none.
func dataDir(t *testing.T) string {
	t.Helper()
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	data := os.Getenv("XDG_DATA_HOME")
	if data == "" {
		data = filepath.Join(home, ".local", "share")
	}
	img, err := image.Store{Dir: filepath.Join(data, "glovebox", "images")}.Current()
	if err != nil {
		t.Skipf("no machine image, so no real sandbox: %v", err)
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "images"), 0o755); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "images", filepath.Base(img.Path))
	if err := os.Link(img.Path, name); err != nil { // a link that other users can follow, where it is possible
		if err := os.Symlink(img.Path, name); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { checkNothingIsLeft(t, dir) })
	return dir
}

// server is a running `glovebox serve`.
type server struct {
	t     *testing.T
	url   string
	token string // sent with requests, if there is one
	cmd   *exec.Cmd
	log   *syncBuffer
	done  chan struct{} // closed when the process has ended
	err   error         // of the process, after done
}

var listening = regexp.MustCompile(`http://127\.0\.0\.1:\d+`)

// serve starts a server on a data directory and waits until it listens.
func serve(t *testing.T, data string, args ...string) *server {
	t.Helper()
	return serveAs(t, nil, data, args...)
}

// serveAs is serve as another user; nil is the one who runs the tests.
func serveAs(t *testing.T, user *syscall.Credential, data string, args ...string) *server {
	t.Helper()
	return serveWith(t, user, nil, data, args...)
}

// serveWith is serveAs with more in the environment.
func serveWith(t *testing.T, user *syscall.Credential, env []string, data string, args ...string) *server {
	t.Helper()
	args = append([]string{"serve", "--data", data, "--listen", "127.0.0.1:0"}, args...)
	s := &server{t: t, cmd: exec.Command(binary, args...), log: &syncBuffer{}, done: make(chan struct{})}
	for _, v := range os.Environ() { // what the person who runs the tests has set for servers is none of theirs
		if name, _, _ := strings.Cut(v, "="); !strings.HasPrefix(name, "GLOVEBOX_") && !strings.HasSuffix(name, "_API_KEY") {
			s.cmd.Env = append(s.cmd.Env, v)
		}
	}
	s.cmd.Env = append(s.cmd.Env, env...)
	if user != nil {
		s.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: user}
		s.cmd.Dir = data
		s.cmd.Env = append(s.cmd.Env, "HOME="+data, "XDG_RUNTIME_DIR=", "XDG_DATA_HOME=", "USER=nobody")
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.cmd.Stderr = s.log
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	urls := make(chan string, 1)
	var reading sync.WaitGroup
	reading.Go(func() {
		sc := bufio.NewScanner(out)
		for sc.Scan() {
			fmt.Fprintln(s.log, sc.Text())
			if u := listening.FindString(sc.Text()); u != "" {
				select {
				case urls <- u:
				default:
				}
			}
		}
	})
	go func() {
		reading.Wait()
		s.err = s.cmd.Wait()
		close(s.done)
	}()
	t.Cleanup(func() {
		s.stop()
		if t.Failed() && s.log.Len() > 200 {
			t.Logf("the server's log:\n%s", tail(s.log.String(), 8000))
		}
	})
	select {
	case s.url = <-urls:
	case <-s.done:
		t.Fatalf("the server ended: %v\n%s", s.err, s.log)
	case <-time.After(patience):
		t.Fatalf("the server does not listen after %v:\n%s", patience, s.log)
	}
	return s
}

// kill ends the server as a power cut would.
func (s *server) kill() {
	s.cmd.Process.Kill()
	<-s.done
}

// stop ends the server as an operator would, if it runs.
func (s *server) stop() {
	s.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.done:
	case <-time.After(patience):
		s.cmd.Process.Signal(syscall.SIGQUIT) // for the stacks in its log
		s.t.Errorf("the server does not end within %v of SIGTERM", patience)
		s.kill()
	}
}

// call makes a request and returns status and body.
func (s *server) call(method, path, contentType, body string) (int, http.Header, []byte) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(context.WithoutCancel(s.t.Context()), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	if s.token != "" {
		req.Header.Set("Authorization", "Bearer "+s.token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatalf("%s %s: %v", method, path, err)
	}
	return resp.StatusCode, resp.Header, b
}

// getJSON reads what a path answers with 200 into v.
func (s *server) getJSON(path string, v any) {
	s.t.Helper()
	code, _, body := s.call(http.MethodGet, path, "", "")
	if code != http.StatusOK {
		s.t.Fatalf("GET %s: %d %s", path, code, body)
	}
	if err := json.Unmarshal(body, v); err != nil {
		s.t.Fatalf("GET %s: %v in %s", path, err, body)
	}
}

// schedule posts a task the way `curl --data` does.
func (s *server) schedule(task string) string {
	s.t.Helper()
	code, _, body := s.call(http.MethodPost, "/schedule", "application/x-www-form-urlencoded", task)
	var accepted struct {
		JobID string `json:"job_id"`
	}
	if err := json.Unmarshal(body, &accepted); code != http.StatusAccepted || err != nil || !glovebox.ValidID(accepted.JobID) {
		s.t.Fatalf("POST /schedule: %d %s", code, body)
	}
	return accepted.JobID
}

// status is what the tests look at of GET /status.
type status struct {
	Status       glovebox.Status   `json:"status"`
	Seq          int64             `json:"seq"`
	DownloadURL  string            `json:"download_url"`
	Summary      string            `json:"summary"`
	Verification []glovebox.Proof  `json:"verification"`
	Error        *glovebox.Failure `json:"error"`
}

func (s *server) status(id string) (st status) {
	s.t.Helper()
	s.getJSON("/status/"+id, &st)
	return st
}

// jobPatience is how long a job may take: none takes a tenth of it, unless the
// machine is slow and has much else to do.
const jobPatience = 10 * time.Minute

// finish waits until a job is terminal.
func (s *server) finish(id string) status {
	s.t.Helper()
	for deadline := time.Now().Add(jobPatience); ; {
		var st status
		s.getJSON("/status/"+id+"?wait=20s", &st)
		if st.Status.Terminal() {
			return st
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("job %s is still %s after %v", id, st.Status, jobPatience)
		}
	}
}

// events returns the whole log of a job.
func (s *server) events(id string) []glovebox.Event {
	s.t.Helper()
	var all []glovebox.Event
	for after := int64(0); ; {
		var page glovebox.EventList
		s.getJSON(fmt.Sprintf("/jobs/%s/events?after=%d&limit=500", id, after), &page)
		all = append(all, page.Events...)
		if after = page.Next; !page.More {
			return all
		}
	}
}

// follow calls f with each event of a job as it comes until f returns false
// or the stream ends. A server that dies ends it.
func (s *server) follow(id string, f func(glovebox.Event) bool) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/jobs/"+id+"/events", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Accept", "text/event-stream")
	if s.token != "" {
		req.Header.Set("Authorization", "Bearer "+s.token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return
	}
	defer resp.Body.Close()
	in := bufio.NewReader(resp.Body)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil { // what a server began to say when it died is no event
			return
		}
		data, ok := bytes.CutPrefix(line, []byte("data: "))
		if !ok {
			continue
		}
		var e glovebox.Event
		if err := json.Unmarshal(data, &e); err != nil {
			s.t.Fatalf("an event that is not JSON: %v in %s", err, data)
		}
		if e.Seq > 0 && !f(e) {
			return
		}
	}
}

// awaitReady waits until the server says that it is ready: it says otherwise
// while its store is slow, or its disk is full of what is being removed.
func (s *server) awaitReady() {
	s.t.Helper()
	for end := time.Now().Add(patience); ; pause(s.t, 50*time.Millisecond) {
		code, _, body := s.call(http.MethodGet, "/readyz", "", "")
		if code == http.StatusOK {
			return
		}
		if time.Now().After(end) {
			s.t.Fatalf("the server is not ready any more: %d %s", code, body)
		}
	}
}

// checkNothingIsLeft checks law L7: once the server has ended and its jobs
// have, nothing on the host names the data directory.
func checkNothingIsLeft(t *testing.T, data string) {
	t.Helper()
	procs, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range procs {
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(p)))
		b, err := os.ReadFile(p)
		if err == nil && pid != os.Getpid() && bytes.Contains(b, []byte(data)) {
			t.Errorf("process %d is left: %q", pid, bytes.ReplaceAll(b, []byte{0}, []byte{' '}))
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, data) {
			t.Errorf("a mount is left: %s", line)
		}
	}
	left, err := filepath.Glob(filepath.Join(data, "gvisor", "sandboxes", "*"))
	if err != nil {
		t.Fatal(err)
	}
	workers, err := filepath.Glob(filepath.Join(data, "workers", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range append(left, workers...) {
		t.Errorf("a file is left: %s", p)
	}
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }

// syncBuffer is a bytes.Buffer for many goroutines.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

// Len returns how many bytes were written.
func (b *syncBuffer) Len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Len()
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
