package hostconf

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
	"github.com/glovebox-dev/glovebox/internal/guest"
)

// tools runs real programs with the settings of a sandbox through a real
// proxy on this machine.
type tools struct {
	env   []string
	dir   string
	close func() // ends the proxy; then all attempts are recorded

	mu       sync.Mutex
	attempts []glovebox.EgressAttempted
}

func newTools(t *testing.T, e glovebox.Egress) *tools {
	t.Helper()
	x := &tools{dir: t.TempDir()}
	c := Read(System())
	p, err := egress.Compile(e, c.Defaults())
	if err != nil {
		t.Fatal(err)
	}
	proxy := egress.NewProxy(p, egress.Options{Record: func(e glovebox.EgressAttempted) {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.attempts = append(x.attempts, e)
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
	x.close = sync.OnceFunc(func() { l.Close(); proxy.Close(); wg.Wait() })
	t.Cleanup(x.close)

	preload := filepath.Join(x.dir, "node_proxy.cjs")
	if err := os.WriteFile(preload, nodeProxy, 0o600); err != nil {
		t.Fatal(err)
	}
	x.env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + x.dir, "npm_config_cache=" + filepath.Join(x.dir, "npm"), "PIP_NO_CACHE_DIR=1"}
	for k, v := range c.Settings(Options{}).Env {
		v = strings.ReplaceAll(v, guest.ProxyAddr, l.Addr().String())
		x.env = append(x.env, k+"="+strings.ReplaceAll(v, nodeProxyPath, preload))
	}
	return x
}

// run runs a program, or skips the test if this machine has none.
func (x *tools) run(t *testing.T, name string, args ...string) (string, error) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Skipf("no %s here", name)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env, cmd.Dir = x.env, x.dir
	b, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(b)), err
}

// reached reports whether an allowed attempt brought bytes from a host below
// the suffix.
func (x *tools) reached(suffix string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, e := range x.attempts {
		if e.Allowed && e.BytesDown > 0 && strings.HasSuffix(e.Host, suffix) {
			return true
		}
	}
	return false
}

func TestRealTools(t *testing.T) {
	if testing.Short() {
		t.Skip("needs the network")
	}
	x := newTools(t, glovebox.Egress{})
	registry, err := x.run(t, "npm", "config", "get", "registry")
	if err != nil {
		t.Fatal(err, registry)
	}
	if out, err := x.run(t, "npm", "view", "left-pad", "version"); err != nil {
		t.Skipf("the registry can't be reached here: %s", out)
	}
	t.Run("curl", func(t *testing.T) {
		if out, err := x.run(t, "curl", "-sS", "--retry", "4", "--retry-all-errors", "-o", "/dev/null", "-w", " %{http_code}", registry+"left-pad"); err != nil || !strings.HasSuffix(out, "200") {
			t.Error(out, err)
		}
		if out, err := x.run(t, "curl", "-sS", "https://example.com/"); err == nil || !strings.Contains(out, "403") {
			t.Error(out, err)
		}
		if out, err := x.run(t, "curl", "-sS", "http://example.com/"); err != nil || !strings.Contains(out, "no rule allows example.com") {
			t.Error(out, err)
		}
	})
	t.Run("node", func(t *testing.T) {
		const js = `const u = process.argv[1];
const patient = (ask, tries = 4) => ask().catch((e) => { if (tries == 1) throw e; return new Promise((r) => setTimeout(r, 1000)).then(() => patient(ask, tries - 1)); });
const good = (status) => { if (status >= 500) throw new Error('status ' + status); };
const viaFetch = patient(() => fetch(u).then(async (r) => { good(r.status); const t = await r.text(); return r.status + ' ' + (t.length > 0); }));
const viaHTTPS = patient(() => new Promise((ok, no) => require('https').get(u, (r) => { r.resume(); r.on('end', () => ok(r.statusCode)); }).on('error', no)).then((s) => { good(s); return s; }));
const denied = fetch('http://example.com/').then((r) => r.status, (e) => 'refused: ' + (e.cause || e).message);
Promise.all([viaFetch, viaHTTPS, denied]).then((a) => console.log(a.join(' / ')));`
		out, err := x.run(t, "node", "-e", js, registry+"left-pad")
		if err != nil || !strings.HasPrefix(out, "200 true / 200 / ") || !strings.Contains(out, "403") {
			t.Error(out, err)
		}
	})
	t.Run("pip", func(t *testing.T) {
		if out, err := x.run(t, "pip", "download", "--no-deps", "-d", x.dir, "six"); err != nil {
			t.Error(out, err)
		}
	})
	t.Run("npm install", func(t *testing.T) {
		if out, err := x.run(t, "npm", "install", "--prefix", x.dir, "is-odd"); err != nil {
			t.Error(out, err)
		}
	})
	x.close()
	for _, name := range []string{"npmjs.org", "pypi.org"} {
		if !x.reached(name) {
			t.Errorf("%s was not reached through the proxy: %+v", name, x.attempts)
		}
	}
}

func TestRealToolsWithoutNetwork(t *testing.T) {
	if testing.Short() {
		t.Skip("starts npm")
	}
	x := newTools(t, glovebox.Egress{Mode: glovebox.EgressNone})
	if out, err := x.run(t, "npm", "view", "--fetch-retries=0", "left-pad", "version"); err == nil {
		t.Errorf("npm got an answer without a network: %s", out)
	}
}
