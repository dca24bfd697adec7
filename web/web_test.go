package web

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

func get(t *testing.T, path, encoding string, header ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, path, nil)
	if encoding != "" {
		r.Header.Set("Accept-Encoding", encoding)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	Handler("https://*.preview.example").ServeHTTP(w, r)
	return w.Result()
}

func body(t *testing.T, res *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestPageIsServedAsBrowsersAskForIt(t *testing.T) {
	t.Parallel()
	plain := body(t, get(t, "/", ""))
	if !strings.Contains(plain, `<div id="root">`) {
		t.Fatalf("not the page: %.200s", plain)
	}
	for accept, want := range map[string]string{
		"": "", "gzip": "gzip", "gzip, deflate, br, zstd": "br", "br;q=0, gzip;q=0.5": "gzip", "identity": "", "gzip;q=0": "",
	} {
		res := get(t, "/", accept)
		if got := res.Header.Get("Content-Encoding"); got != want {
			t.Errorf("Accept-Encoding %q: got %q, want %q", accept, got, want)
		}
		if want == "gzip" {
			z, err := gzip.NewReader(res.Body)
			if err != nil {
				t.Fatal(err)
			}
			if b, err := io.ReadAll(z); err != nil || string(b) != plain {
				t.Errorf("the gzip form differs from the plain one (%v)", err)
			}
		}
	}
}

func TestPageIsKeptAsLongAsItIsCurrent(t *testing.T) {
	t.Parallel()
	res := get(t, "/", "br")
	if got := res.Header.Get("Cache-Control"); got != "no-cache" {
		t.Errorf("the page: Cache-Control %q", got)
	}
	tag := res.Header.Get("ETag")
	if again := get(t, "/", "br", "If-None-Match", tag); again.StatusCode != http.StatusNotModified {
		t.Errorf("with its tag %s: %d", tag, again.StatusCode)
	}
	if other := get(t, "/", "gzip", "If-None-Match", tag); other.StatusCode != http.StatusOK {
		t.Errorf("the tag of another form: %d", other.StatusCode)
	}
	n := 0
	for name := range assets() {
		if !strings.HasPrefix(name, "assets/") {
			continue
		}
		n++
		res := get(t, "/"+name, "br")
		if cc := res.Header.Get("Cache-Control"); !strings.Contains(cc, "immutable") || res.StatusCode != http.StatusOK {
			t.Errorf("%s: %d, Cache-Control %q", name, res.StatusCode, cc)
		}
		if ct := res.Header.Get("Content-Type"); ct == "" {
			t.Errorf("%s has no type", name)
		}
	}
	if n < 5 {
		t.Errorf("only %d assets: was the page built?", n)
	}
}

// The page must work under every prefix, and ask nobody else for anything.
func TestPageRefersToNothingButItself(t *testing.T) {
	t.Parallel()
	page := body(t, get(t, "/", ""))
	refs := regexp.MustCompile(`(?:src|href)="([^"]*)"`).FindAllStringSubmatch(page, -1)
	if len(refs) < 2 {
		t.Fatalf("found only %v", refs)
	}
	for _, ref := range refs {
		name, relative := strings.CutPrefix(ref[1], "./")
		if strings.HasPrefix(ref[1], "data:image/svg+xml,") {
			continue
		}
		if !relative || !Has("/"+name) {
			t.Errorf("the page refers to %q, which is not relative or not there", ref[1])
		}
	}
	if strings.Contains(page, "<style") || regexp.MustCompile(`<script(?:[^>]*)>[^<]`).MatchString(page) {
		t.Error("there is something inline, which the policy forbids")
	}
	for name, a := range assets() {
		if !strings.HasSuffix(name, ".css") {
			continue
		}
		b, err := a.plain()
		if err != nil {
			t.Fatal(err)
		}
		if regexp.MustCompile(`(?i)@import|url\(\s*['"]?(?:https?:)?//`).Match(b) {
			t.Errorf("%s loads something from elsewhere", name)
		}
	}
}

func TestPolicy(t *testing.T) {
	t.Parallel()
	csp := get(t, "/", "").Header.Get("Content-Security-Policy")
	for _, want := range []string{
		"default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self' blob: data:", "connect-src 'self'",
		"frame-src 'self' https://*.preview.example", "frame-ancestors 'none'", "require-trusted-types-for 'script'",
	} {
		if !strings.Contains(csp+";", want+";") {
			t.Errorf("%q is not in %q", want, csp)
		}
	}
	if strings.Contains(csp, "unsafe") {
		t.Errorf("something unsafe is allowed: %q", csp)
	}
}

func TestNothingElseIsServed(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/assets/", "/assets", "/index.html.gz", "/../web.go", "/assets/../../web.go", "/assets/none.js"} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.URL.Path = path
		w := httptest.NewRecorder()
		Handler().ServeHTTP(w, r)
		if w.Code != http.StatusNotFound {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
	w := httptest.NewRecorder()
	Handler().ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", nil))
	if w.Code != http.StatusNotFound {
		t.Errorf("POST: %d", w.Code)
	}
}

// What a first visit costs: everything but the screen and the terminal, which
// are loaded when they are opened.
func TestSize(t *testing.T) {
	t.Parallel()
	const bound = 350 << 10
	sum := 0
	for name, a := range assets() {
		if strings.HasSuffix(name, ".js") && !strings.Contains(name, "/rfb-") && !strings.Contains(name, "/xterm-") {
			sum += len(a.gzip)
		}
	}
	t.Logf("JavaScript without screen and terminal: %d bytes gzipped", sum)
	if sum == 0 || sum > bound {
		t.Errorf("%d bytes gzipped; the bound is %d", sum, bound)
	}
}
