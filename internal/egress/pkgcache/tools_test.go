package pkgcache

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/egress"
	"github.com/glovebox-dev/glovebox/internal/egress/hostconf"
	"github.com/glovebox-dev/glovebox/internal/guest"
)

// sandbox runs real programs as a sandbox would: with its settings, through a
// proxy with the package cache.
func sandbox(t *testing.T, cacheDir string, now time.Time, e glovebox.Egress) (run func(dir, name string, args ...string) (string, error), fetched func() int64) {
	t.Helper()
	host := hostconf.Read(hostconf.System())
	c, err := Open(cacheDir, 1<<30, host)
	if err != nil {
		t.Fatal(err)
	}
	c.now = func() time.Time { return now } // nothing gets old, however long it takes
	p, err := egress.Compile(e, host.Defaults())
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var bytes int64
	proxy := egress.NewProxy(p, egress.Options{Internal: c.Handlers(), Record: func(e glovebox.EgressAttempted) {
		mu.Lock()
		defer mu.Unlock()
		if !e.Cached {
			bytes += e.BytesDown
		}
	}})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { proxy.ServeConn(c) })
		}
	})
	end := sync.OnceFunc(func() { l.Close(); proxy.Close(); wg.Wait() })
	t.Cleanup(end)
	s := host.Settings(hostconf.Options{NPMCache: true, PipCache: true})
	run = func(dir, name string, args ...string) (string, error) {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("no %s here", name)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, name, args...)
		cmd.Dir = dir
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "PIP_NO_CACHE_DIR=1"}
		for k, v := range s.Env {
			if k != "NODE_OPTIONS" { // the file is in sandboxes only
				cmd.Env = append(cmd.Env, k+"="+strings.ReplaceAll(v, guest.ProxyAddr, l.Addr().String()))
			}
		}
		b, err := cmd.CombinedOutput()
		return strings.TrimSpace(string(b)), err
	}
	fetched = func() int64 {
		end()
		mu.Lock()
		defer mu.Unlock()
		return bytes
	}
	return run, fetched
}

func TestRealTools(t *testing.T) {
	if testing.Short() {
		t.Skip("needs the network")
	}
	cache, now := t.TempDir(), time.Now()
	var spent [2]time.Duration
	for i := range 2 {
		dir := t.TempDir()
		run, fetched := sandbox(t, cache, now, glovebox.Egress{})
		if out, err := run(dir, "npm", "view", "left-pad", "version"); err != nil && i == 0 {
			t.Skipf("the registry can't be reached here: %s", out)
		}
		start := time.Now()
		if out, err := run(dir, "npm", "install", "vite", "@types/node"); err != nil {
			t.Fatal(out, err)
		}
		spent[i] = time.Since(start)
		lock, err := os.ReadFile(filepath.Join(dir, "package-lock.json"))
		if err != nil || strings.Contains(string(lock), "glovebox.internal") || !strings.Contains(string(lock), ".npmjs.org/vite/-/vite-") {
			t.Errorf("the lock file should name the registry, not the cache: %.600s, %v", lock, err)
		}
		if err := os.RemoveAll(filepath.Join(dir, "node_modules")); err != nil {
			t.Fatal(err)
		}
		if out, err := run(dir, "npm", "ci"); err != nil {
			t.Error(out, err)
		}
		if out, err := run(dir, "pip", "download", "-d", dir, "requests"); err != nil {
			t.Error(out, err)
		}
		bytes := fetched()
		t.Logf("run %d: npm install %v, %d bytes from the network", i, spent[i].Round(time.Millisecond), bytes)
		if i == 1 && bytes > 0 {
			t.Errorf("the second run fetched %d bytes", bytes)
		}
	}
}
