// Package browsertest starts a real Chromium of this host for tests.
package browsertest

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"sync"
	"testing"
)

// shared is the one that the tests of a program share: it takes a second to start.
var shared struct {
	mu   sync.Mutex
	addr string
	err  error
	stop func()
}

// Dialer returns what connects to a Chromium without a window, which all
// tests of the program share, so that they must not be parallel. The test is
// skipped if Chromium is not installed. TestMain has to run [Tests].
func Dialer(t testing.TB) func(ctx context.Context) (net.Conn, error) {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("chromium is not installed: apt-get install chromium")
	}
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.stop == nil && shared.err == nil {
		shared.addr, shared.stop, shared.err = start(path)
	}
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	addr := shared.addr
	return func(ctx context.Context) (net.Conn, error) { return (&net.Dialer{}).DialContext(ctx, "tcp", addr) }
}

// Tests are those of a package, after which the browser ends.
type Tests struct{ *testing.M }

// Run runs them, and returns what the process is to end with.
func (t Tests) Run() int {
	defer end()
	return t.M.Run()
}

// end ends the browser, if one was started.
func end() {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.stop != nil {
		shared.stop()
		shared.stop = nil
	}
}

var listening = regexp.MustCompile(`DevTools listening on ws://([0-9.]+:\d+)/`)

func start(path string) (addr string, stop func(), err error) {
	dir, err := os.MkdirTemp("", "glovebox-chromium-")
	if err != nil {
		return "", nil, err
	}
	ctx, kill := context.WithCancel(context.Background()) // until stop
	cmd := exec.CommandContext(ctx, path, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--no-proxy-server", "--disable-background-networking",
		"--disable-component-update", "--remote-debugging-port=0", "--user-data-dir="+dir, "--window-size=1280,800", "about:blank")
	stderr, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		kill()
		os.RemoveAll(dir)
		return "", nil, err
	}
	found := make(chan string, 1)
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(found)
		told := false
		for s := bufio.NewScanner(stderr); s.Scan(); {
			if m := listening.FindStringSubmatch(s.Text()); m != nil && !told {
				found <- m[1]
				told = true
			}
		}
	})
	stop = func() {
		kill()
		wg.Wait()
		_ = cmd.Wait()
		os.RemoveAll(dir)
	}
	if addr = <-found; addr == "" {
		stop()
		return "", nil, fmt.Errorf("%s ended without listening", path)
	}
	return addr, stop, nil
}
