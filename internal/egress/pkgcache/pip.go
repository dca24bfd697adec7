package pkgcache

import (
	"bytes"
	"compress/gzip"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strings"

	"github.com/glovebox-dev/glovebox/internal/egress/hostconf"
)

// The two forms of a page of the index.
const (
	pipJSON = "application/vnd.pypi.simple.v1+json"
	pipHTML = "application/vnd.pypi.simple.v1+html, text/html; q=0.9"
)

var (
	pipProject = regexp.MustCompile(`^/simple/([A-Za-z0-9._-]+)/?$`)
	pipFile    = regexp.MustCompile(`^/files/([0-9a-f]{32})/([A-Za-z0-9_-]+)/[^/]+?(\.metadata)?$`)
	href       = regexp.MustCompile(`(?i)(\shref\s*=\s*)("[^"]*"|'[^']*')`)
)

// routePip finds out what a request to the Python cache wants: the page of a
// project, or a file that such a page led to.
func (c *Cache) routePip(r *http.Request) (*want, error) {
	none := &refusal{http.StatusNotFound, "the package cache serves projects and their files only"}
	if m := pipProject.FindStringSubmatch(r.URL.Path); m != nil {
		if strings.Trim(m[1], ".") == "" {
			return nil, none
		}
		w := &want{url: c.pip.URL + m[1] + "/", auth: c.pip.Authorization(), accept: pipHTML, rewrite: c.rewriteHTML}
		if strings.Contains(r.Header.Get("Accept"), pipJSON) {
			w.accept = pipJSON + ", " + pipHTML
			w.rewrite = c.rewriteAny
		}
		return w, nil
	}
	m := pipFile.FindStringSubmatch(r.URL.EscapedPath())
	if m == nil || !hmac.Equal([]byte(m[1]), []byte(c.sign(m[2]))) {
		return nil, none
	}
	b, err := base64.RawURLEncoding.DecodeString(m[2])
	if err != nil {
		return nil, none
	}
	sum, file, _ := strings.Cut(string(b), " ")
	w := &want{url: file + m[3], immutable: true}
	if sameHost(file, c.pip) {
		w.auth = c.pip.Authorization()
	}
	if raw, err := hex.DecodeString(sum); err == nil && len(raw) == sha256.Size && m[3] == "" {
		w.digest = func() digest { return digest{"sha256", raw} }
	}
	return w, nil
}

func sameHost(s string, r hostconf.Registry) bool {
	a, err := url.Parse(s)
	b, err2 := url.Parse(r.URL)
	return err == nil && err2 == nil && a.Scheme == b.Scheme && a.Host == b.Host
}

// sign makes an address that only a page of the index can have led to: the
// host's credentials are for no other.
func (c *Cache) sign(token string) string {
	h := hmac.New(sha256.New, c.key)
	h.Write([]byte(token))
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// fileAddress returns the cache's own address of a file of the index, with
// the fragment that it had.
func (c *Cache) fileAddress(base *url.URL, ref, sum string) string {
	u, err := base.Parse(ref)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.User != nil {
		return ref
	}
	fragment := ""
	if u.Fragment != "" {
		fragment = "#" + u.EscapedFragment()
		if s, ok := strings.CutPrefix(u.Fragment, "sha256="); ok && sum == "" {
			sum = s
		}
	}
	u.Fragment, u.RawFragment = "", ""
	token := base64.RawURLEncoding.EncodeToString([]byte(sum + " " + u.String()))
	return fmt.Sprintf("/files/%s/%s/%s%s", c.sign(token), token, url.PathEscape(path.Base(u.Path)), fragment)
}

// rewriteAny rewrites a page in whichever form the index has it.
func (c *Cache) rewriteAny(base *url.URL, b []byte) ([]byte, error) {
	if trimmed := bytes.TrimSpace(b); len(trimmed) > 0 && trimmed[0] == '{' {
		return c.rewriteJSON(base, b)
	}
	return c.rewriteHTML(base, b)
}

func (c *Cache) rewriteJSON(base *url.URL, b []byte) ([]byte, error) {
	var page map[string]json.RawMessage
	var files []map[string]json.RawMessage
	if err := json.Unmarshal(b, &page); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(page["files"], &files); err != nil {
		return nil, err
	}
	for _, f := range files {
		var ref string
		var hashes struct{ SHA256 string }
		if err := json.Unmarshal(f["url"], &ref); err != nil {
			return nil, err
		}
		_ = json.Unmarshal(f["hashes"], &hashes) // optional
		f["url"], _ = json.Marshal(c.fileAddress(base, ref, hashes.SHA256))
	}
	var err error
	if page["files"], err = json.Marshal(files); err != nil {
		return nil, err
	}
	return json.Marshal(page)
}

func (c *Cache) rewriteHTML(base *url.URL, b []byte) ([]byte, error) {
	return href.ReplaceAllFunc(b, func(attr []byte) []byte {
		m := href.FindSubmatch(attr)
		ref := html.UnescapeString(string(m[2][1 : len(m[2])-1]))
		return fmt.Appendf(nil, "%s\"%s\"", m[1], html.EscapeString(c.fileAddress(base, ref, "")))
	}), nil
}

// keepIndex keeps a description, compressed.
func (c *Cache) keepIndex(w *want, resp *http.Response) (*entry, error) {
	m := meta{URL: w.url, Type: resp.Header.Get("Content-Type"), ETag: resp.Header.Get("ETag"), FetchedAt: c.now(), Gzip: true}
	compressed := resp.Header.Get("Content-Encoding") == "gzip"
	if compressed && w.rewrite == nil {
		return c.disk.put(w.key(), m, resp.Body, maxIndex, resp.ContentLength, digest{})
	}
	var body io.Reader = resp.Body
	if compressed {
		z, err := gzip.NewReader(resp.Body)
		if err != nil {
			return nil, err
		}
		body = z
	}
	b, err := io.ReadAll(io.LimitReader(body, maxIndex+1))
	switch {
	case err != nil:
		return nil, err
	case len(b) > maxIndex:
		return nil, &refusal{http.StatusBadGateway, fmt.Sprintf("the registry sent more than %d bytes", maxIndex)}
	}
	if w.rewrite != nil {
		if b, err = w.rewrite(resp.Request.URL, b); err != nil {
			return nil, &refusal{http.StatusBadGateway, "the index sent what is not a page of it"}
		}
	}
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, _ = z.Write(b) // into memory
	z.Close()
	return c.disk.put(w.key(), m, &out, maxIndex, -1, digest{})
}
