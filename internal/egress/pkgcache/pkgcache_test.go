package pkgcache

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/egress"
	"github.com/glovebox-dev/glovebox/internal/egress/hostconf"
	"github.com/glovebox-dev/glovebox/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// outsideTo is an Outside that reaches everything, or nothing.
type outsideTo struct {
	denied  bool
	mu      sync.Mutex
	asked   []string
	records []glovebox.EgressAttempted
}

func (o *outsideTo) Check(host string, port uint16) egress.Verdict {
	return egress.Verdict{Allowed: !o.denied, Reason: "rule"}
}

func (o *outsideTo) Record(e glovebox.EgressAttempted) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.records = append(o.records, e)
}

func (o *outsideTo) RoundTrip(r *http.Request) (*http.Response, error) {
	o.mu.Lock()
	o.asked = append(o.asked, r.URL.Path)
	o.mu.Unlock()
	return http.DefaultTransport.RoundTrip(r)
}

func (o *outsideTo) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.asked)
}

// registry is an upstream of both kinds that wants a password.
type registry struct {
	*httptest.Server
	tarball []byte
	served  []byte // what it sends for the tarball
	down    bool
	index   string
}

func newRegistry(t *testing.T) *registry {
	t.Helper()
	r := &registry{tarball: []byte("tarball of left")}
	r.served = r.tarball
	r.Server = httptest.NewServer(http.HandlerFunc(r.serve))
	t.Cleanup(func() {
		r.Close()
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	})
	return r
}

func (r *registry) serve(w http.ResponseWriter, q *http.Request) {
	if r.down {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	if user, pw, _ := q.BasicAuth(); user != "u" || pw != "p" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	sum512, sum256 := sha512.Sum512(r.tarball), sha256.Sum256(r.tarball)
	switch q.URL.Path {
	case "/repo/left":
		w.Header().Set("ETag", `"v1"`)
		w.Header().Set("Content-Type", abbreviated)
		if q.Header.Get("If-None-Match") == `"v1"` {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		fmt.Fprintf(z, `{"name":"left","versions":{"1.0.0":{"dist":{"tarball":"%s/repo/left/-/left-1.0.0.tgz","integrity":"sha512-%s"}}}}`,
			r.URL, base64.StdEncoding.EncodeToString(sum512[:]))
		z.Close()
	case "/repo/left/-/left-1.0.0.tgz", "/packages/six-1.0.tar.gz":
		w.Write(r.served)
	case "/packages/six-1.0.tar.gz.metadata":
		io.WriteString(w, "metadata")
	case "/simple/six/":
		if strings.Contains(q.Header.Get("Accept"), pipJSON) && r.index != "html" {
			w.Header().Set("Content-Type", pipJSON)
			fmt.Fprintf(w, `{"meta":{"api-version":"1.1"},"name":"six","files":[{"filename":"six-1.0.tar.gz","url":"../../packages/six-1.0.tar.gz","hashes":{"sha256":"%x"},"size":1}]}`, sum256)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<a class=x href="../../packages/six-1.0.tar.gz#sha256=%x" data-requires-python="&gt;=3">six</a> <A HREF='%s/packages/six-1.0.tar.gz?a=1&amp;b=2'>x</A>`, sum256, r.URL)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// config is a host that uses the registry.
func (r *registry) config(t *testing.T) *hostconf.Config {
	t.Helper()
	u, _ := url.Parse(r.URL)
	u.User = url.UserPassword("u", "p")
	root := t.TempDir()
	basic := base64.StdEncoding.EncodeToString([]byte("u:p"))
	npmrc := "registry=" + r.URL + "/repo/\n//" + u.Host + "/repo/:_auth=" + basic + "\n"
	if err := os.MkdirAll(filepath.Join(root, "home"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "home", ".npmrc"), []byte(npmrc), 0o600); err != nil {
		t.Fatal(err)
	}
	return hostconf.Read(hostconf.Source{Root: root, Home: "/home", Env: []string{"PIP_INDEX_URL=" + u.String() + "/simple"}})
}

func open(t *testing.T, r *registry, max int64) *Cache {
	t.Helper()
	c, err := Open(t.TempDir(), max, r.config(t))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// get asks the cache and returns status and body.
func get(t *testing.T, c *Cache, out egress.Outside, host, path string, fields ...string) (int, string) {
	t.Helper()
	code, body, _ := getFull(t, c, out, host, path, fields...)
	return code, body
}

func getFull(t *testing.T, c *Cache, out egress.Outside, host, path string, fields ...string) (int, string, http.Header) {
	t.Helper()
	r, err := http.NewRequest("GET", "http://"+host+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
	}
	resp, err := c.Handlers()[host](r, out)
	if err != nil {
		return 0, err.Error(), nil
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b), resp.Header
}

func TestNPM(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	c, out := open(t, r, 1<<20), &outsideTo{}
	now := time.Now()
	c.now = func() time.Time { return now }
	const npm = hostconf.NPMCache
	for range 2 {
		if code, body := get(t, c, out, npm, "/left", "Accept", abbreviated); code != 200 || !strings.Contains(body, `"sha512-`) {
			t.Fatalf("description: %d %s", code, body)
		}
		for _, path := range []string{"/left/-/left-1.0.0.tgz", "/repo/left/-/left-1.0.0.tgz"} { // as npm asks behind a mirror with a prefix
			if code, body := get(t, c, out, npm, path); code != 200 || body != string(r.tarball) {
				t.Fatalf("%s: %d %s", path, code, body)
			}
		}
	}
	if n := out.count(); n != 2 {
		t.Errorf("the registry was asked %d times: %v", n, out.asked)
	}
	if len(out.records) != 4 || !strings.Contains(out.records[0].Reason, "package cache") {
		t.Errorf("records %+v", out.records)
	}
	for i, e := range out.records {
		if !e.Cached || e.Count != 1 || e.BytesDown == 0 || i > 1 && e.BytesDown != int64(len(r.tarball)) {
			t.Errorf("record %d: %+v", i, e)
		}
	}
	// Revalidated after a while, served stale when the registry is down.
	now = now.Add(Fresh + time.Second)
	if code, _ := get(t, c, out, npm, "/left", "Accept", abbreviated); code != 200 || out.count() != 3 {
		t.Errorf("revalidation: %d, asked %d times", code, out.count())
	}
	now = now.Add(insisted + time.Second)
	if code, _ := get(t, c, out, npm, "/left", "Accept", abbreviated); code != 200 || out.count() != 3 {
		t.Errorf("fresh: %d, asked %d times", code, out.count())
	}
	if code, _ := get(t, c, out, npm, "/left", "Accept", abbreviated, "Cache-Control", "no-cache"); code != 200 || out.count() != 4 {
		t.Errorf("no-cache: %d, asked %d times", code, out.count())
	}
	now = now.Add(Fresh + time.Second)
	r.down = true
	code, body, h := getFull(t, c, out, npm, "/left", "Accept", abbreviated, "Accept-Encoding", "gzip")
	if code != 200 || h.Get("Content-Encoding") != "gzip" {
		t.Errorf("stale: %d %v", code, h)
	}
	if z, err := gzip.NewReader(strings.NewReader(body)); err != nil {
		t.Error(err)
	} else if b, _ := io.ReadAll(z); !bytes.Contains(b, []byte(`"left"`)) {
		t.Errorf("stale: %s", b)
	}
	if code, _ := get(t, c, out, npm, "/left", "Accept", abbreviated, "If-None-Match", `"v1"`); code != http.StatusNotModified {
		t.Errorf("not modified: %d", code)
	}
	if code, body := get(t, c, out, npm, "/right"); code != http.StatusBadGateway || !strings.Contains(body, "answered 503") {
		t.Errorf("unknown package of a registry that is down: %d %s", code, body)
	}
	// The policy holds for what is cached.
	for _, path := range []string{"/left", "/left/-/left-1.0.0.tgz"} {
		if code, _ := get(t, c, &outsideTo{denied: true}, npm, path); code != http.StatusForbidden {
			t.Errorf("denied: %d", code)
		}
	}
}

func TestNPMWrongDigest(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	c, out := open(t, r, 1<<20), &outsideTo{}
	get(t, c, out, hostconf.NPMCache, "/left", "Accept", abbreviated)
	r.served = []byte("something else")
	for range 2 {
		if code, body := get(t, c, out, hostconf.NPMCache, "/left/-/left-1.0.0.tgz"); code != http.StatusBadGateway || strings.Contains(body, "something") {
			t.Errorf("got %d %s", code, body)
		}
	}
}

func TestOnlyPackages(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	c, out := open(t, r, 1<<20), &outsideTo{}
	for _, path := range []string{"/", "/-/whoami", "/-/npm/v1/tokens", "/-/v1/search?text=x", "/left/-/../../-/whoami.tgz", "/repo/-/whoami", "/..%2f..%2fadmin",
		"/left/%2e%2e/admin", "/a/b/c/d", "/@scope/../x", "//evil.example/x", "/left\x7f"} {
		u := &url.URL{Scheme: "http", Host: hostconf.NPMCache, Opaque: ""}
		u.Path, _ = url.PathUnescape(path)
		u.RawPath = path
		resp, err := c.Handlers()[hostconf.NPMCache]((&http.Request{Method: "GET", URL: u, Header: http.Header{}, Body: http.NoBody}).WithContext(context.Background()), out)
		if err != nil || resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %v, %v", path, resp, err)
		}
	}
	for _, path := range []string{"/", "/simple/", "/simple/../admin/", "/files/0/x", "/files/00000000000000000000000000000000/aHR0cDovL2V2aWwuZXhhbXBsZS8/x"} {
		if code, _ := get(t, c, out, hostconf.PipCache, path); code != http.StatusNotFound {
			t.Errorf("%s: %d", path, code)
		}
	}
	if out.count() > 0 {
		t.Errorf("the registry was asked for %v", out.asked)
	}
	post, _ := http.NewRequest("POST", "http://"+hostconf.NPMCache+"/left", strings.NewReader("x"))
	if resp, err := c.Handlers()[hostconf.NPMCache](post, out); err != nil || resp.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST: %v %v", resp, err)
	}
}

func TestPip(t *testing.T) {
	t.Parallel()
	for _, form := range []string{"json", "html"} {
		r := newRegistry(t)
		r.index = form
		c, out := open(t, r, 1<<20), &outsideTo{}
		const pip = hostconf.PipCache
		code, page := get(t, c, out, pip, "/simple/six/", "Accept", pipJSON)
		i := strings.Index(page, "/files/")
		if code != 200 || i < 0 || strings.Contains(page, r.URL) {
			t.Fatalf("%s: %d %s", form, code, page)
		}
		file := page[i : i+strings.IndexAny(page[i:], `"#`)]
		for range 2 {
			if code, body := get(t, c, out, pip, file); code != 200 || body != string(r.tarball) {
				t.Errorf("%s: %s: %d %s", form, file, code, body)
			}
		}
		if code, body := get(t, c, out, pip, file+".metadata"); code != 200 || body != "metadata" {
			t.Errorf("%s: metadata: %d %s", form, code, body)
		}
		if out.count() != 3 {
			t.Errorf("%s: asked for %v", form, out.asked)
		}
		forged := strings.Replace(file, "/files/", "/files/0", 1)
		if code, _ := get(t, c, out, pip, forged); code != http.StatusNotFound {
			t.Errorf("%s: forged address: %d", form, code)
		}
		if form == "html" {
			sum := sha256.Sum256(r.tarball)
			if !strings.Contains(page, "#sha256="+hex.EncodeToString(sum[:])) || !strings.Contains(page, `data-requires-python="&gt;=3"`) {
				t.Errorf("page %s", page)
			}
		}
	}
}

func TestEvictionAndDamage(t *testing.T) {
	t.Parallel()
	d, err := openDisk(t.TempDir(), 100)
	if err != nil {
		t.Fatal(err)
	}
	put := func(name string) string {
		k := hash(name)
		if _, err := d.put(k, meta{}, strings.NewReader(strings.Repeat("x", 30)), 100, 30, digest{}); err != nil {
			t.Fatal(err)
		}
		return k
	}
	a, b := put("a"), put("b")
	old := time.Now().Add(-time.Hour)
	os.Chtimes(d.path(a), old.Add(time.Minute), old.Add(time.Minute))
	os.Chtimes(d.path(b), old, old)
	c, e := put("c"), put("d")
	for name, k := range map[string]string{"a": a, "c": c, "d": e} {
		if d.get(k) == nil {
			t.Errorf("%s is gone", name)
		}
	}
	if d.get(b) != nil {
		t.Error("what was unused for longest is still there")
	}
	// Another process finds a body that was damaged.
	if err := os.WriteFile(d.path(a), bytes.Repeat([]byte{0}, 30), 0o600); err != nil {
		t.Fatal(err)
	}
	left, young := filepath.Join(d.dir, "new-1"), filepath.Join(d.dir, "new-2")
	for _, name := range []string{left, young} {
		if err := os.WriteFile(name, []byte("cut off"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	os.Chtimes(left, old, old.Add(-leftAfter))
	d2, err := openDisk(d.dir, 100)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(left); err == nil {
		t.Error("what a crash left is still there")
	}
	if _, err := os.Stat(young); err != nil {
		t.Error("what another process writes is gone")
	}
	if d2.get(a) != nil || d2.get(c) == nil {
		t.Error("damage is not noticed")
	}
	if _, err := d.put(hash("cut"), meta{}, strings.NewReader("abc"), 100, 5, digest{}); err == nil {
		t.Error("a body that was cut is kept")
	}
	if _, err := d.put(hash("long"), meta{}, strings.NewReader("abcdef"), 5, -1, digest{}); err == nil {
		t.Error("a body beyond its bound is kept")
	}
}

func TestConcurrent(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	c, out := open(t, r, 1<<20), &outsideTo{}
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if code, body := get(t, c, out, hostconf.NPMCache, "/left/-/left-1.0.0.tgz"); code != 200 || body != string(r.tarball) {
				t.Errorf("%d %s", code, body)
			}
		})
	}
	wg.Wait()
}

func BenchmarkCachedFile(b *testing.B) {
	d, err := openDisk(b.TempDir(), 1<<30)
	if err != nil {
		b.Fatal(err)
	}
	c := &Cache{disk: d, now: time.Now, npm: hostconf.Registry{URL: "http://registry.example/"}}
	w := c.npmWant("left/-/left-1.0.0.tgz", "")
	body := bytes.Repeat([]byte("x"), 100<<10)
	if _, err := d.put(w.key(), meta{}, bytes.NewReader(body), 1<<20, -1, digest{}); err != nil {
		b.Fatal(err)
	}
	h, out := c.Handlers()[hostconf.NPMCache], &outsideTo{}
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		r, _ := http.NewRequest("GET", "http://"+hostconf.NPMCache+"/left/-/left-1.0.0.tgz", http.NoBody)
		resp, err := h(r, out)
		if err != nil {
			b.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
}
