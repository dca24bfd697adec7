// Package web holds the page: what web/src builds to, embedded as gzip and
// brotli, so that the binary serves it without Node and without compressing.
//
// Names below assets/ hold a hash of their content and are kept by browsers
// for good; the page itself is asked for anew each time, which costs a 304.
package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
)

//go:embed all:dist
var dist embed.FS

// asset is one file in all its forms.
type asset struct {
	gzip, brotli []byte
	contentType  string
	etag         string
	plain        func() ([]byte, error)
}

// types are given here, not by the host's table, so that every host serves
// the same.
var types = map[string]string{
	".html": "text/html; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".md":   "text/plain; charset=utf-8",
}

// assets returns the embedded files by the names that they are served under.
var assets = sync.OnceValue(func() map[string]*asset {
	all := map[string]*asset{}
	root, err := fs.Sub(dist, "dist")
	if err != nil {
		panic("web: " + err.Error())
	}
	err = fs.WalkDir(root, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(p, ".gz") {
			return err
		}
		a, err := load(root, strings.TrimSuffix(p, ".gz"))
		all[strings.TrimSuffix(p, ".gz")] = a
		return err
	})
	if err != nil {
		panic("web: " + err.Error()) // the files are part of the binary
	}
	return all
})

func load(root fs.FS, name string) (*asset, error) {
	zipped, err := fs.ReadFile(root, name+".gz")
	if err != nil {
		return nil, err
	}
	brotli, err := fs.ReadFile(root, name+".br")
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(zipped)
	a := &asset{gzip: zipped, brotli: brotli, contentType: types[path.Ext(name)], etag: hex.EncodeToString(sum[:8])}
	if a.contentType == "" {
		a.contentType = mime.TypeByExtension(path.Ext(name))
	}
	a.plain = sync.OnceValues(func() ([]byte, error) {
		r, err := gzip.NewReader(bytes.NewReader(zipped))
		if err != nil {
			return nil, err
		}
		return io.ReadAll(r)
	})
	return a, nil
}

// Policy returns the content security policy of the page: everything comes
// from its own origin, but for frames, which may also show the given sources.
// Scripts can't be made out of strings.
func Policy(frames ...string) string {
	return "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; " +
		"frame-src " + strings.Join(append([]string{"'self'"}, frames...), " ") + "; " +
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
}

// Handler serves the page at / and its files below /assets/, to GET and HEAD.
// frames are sources, as in a content security policy, that the page may show
// in frames beside its own origin. It sets the headers that matter to safety
// itself, whatever was set before.
func Handler(frames ...string) http.Handler {
	policy := Policy(frames...)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(r.URL.Path, "/")
		if name == "" {
			name = "index.html"
		}
		a := assets()[name]
		if a == nil || (r.Method != http.MethodGet && r.Method != http.MethodHead) {
			http.NotFound(w, r)
			return
		}
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Permissions-Policy", "camera=(), microphone=(), geolocation=(), payment=(), usb=()")
		h.Set("Cache-Control", "no-cache")
		if strings.HasPrefix(name, "assets/") {
			h.Set("Cache-Control", "public, max-age=31536000, immutable")
		}
		a.serve(w, r)
	})
}

// Has reports whether there is a file of the page under a path such as
// /assets/index.js.
func Has(urlPath string) bool { return assets()[strings.TrimPrefix(urlPath, "/")] != nil }

func (a *asset) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Add("Vary", "Accept-Encoding")
	h.Set("Content-Type", a.contentType)
	body, encoding := a.choose(r.Header.Get("Accept-Encoding"))
	if body == nil {
		plain, err := a.plain()
		if err != nil {
			http.Error(w, "the page is damaged", http.StatusInternalServerError)
			return
		}
		body = plain
	}
	tag := `"` + a.etag + encoding + `"`
	h.Set("ETag", tag)
	if strings.Contains(r.Header.Get("If-None-Match"), tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	if encoding != "" {
		h.Set("Content-Encoding", strings.TrimPrefix(encoding, "-"))
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(http.StatusOK)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // the client has gone away, as clients do
	}
}

// choose returns the smallest form that an Accept-Encoding header takes, with
// its name after a dash; nil for the plain one.
func (a *asset) choose(accept string) (body []byte, encoding string) {
	switch {
	case accepts(accept, "br"):
		return a.brotli, "-br"
	case accepts(accept, "gzip"):
		return a.gzip, "-gzip"
	}
	return nil, ""
}

// accepts reports whether a header names an encoding, and not with q=0.
func accepts(header, encoding string) bool {
	for part := range strings.SplitSeq(header, ",") {
		name, params, _ := strings.Cut(part, ";")
		if !strings.EqualFold(strings.TrimSpace(name), encoding) {
			continue
		}
		q, ok := strings.CutPrefix(strings.ReplaceAll(params, " ", ""), "q=")
		v, err := strconv.ParseFloat(q, 64)
		return !ok || err != nil || v > 0
	}
	return false
}
