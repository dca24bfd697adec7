package api

import (
	"bytes"
	"errors"
	"html"
	"io"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	nethtml "golang.org/x/net/html"
)

// Bounds of what is rewritten. A path grows by three bytes for each level that
// its page is deep, and both are the sandbox's to choose: an answer of a few
// bytes a path must not become a thousand times as large in our memory.
const (
	maxTag     = 1 << 20  // bytes of one tag or text of a page
	maxDepth   = 32       // levels; what is deeper stays as it is
	maxMatch   = 4 << 10  // bytes of an import in a script, with its path
	rebasePart = 32 << 10 // bytes of a script that are looked at together
)

// relative returns the absolute path to, seen from the absolute path from. It
// is right under every prefix that proxies put before both.
func relative(from, to string) string {
	up := strings.Count(from, "/") - 1
	if up <= 0 {
		return "." + to
	}
	return strings.Repeat("../", up) + strings.TrimPrefix(to, "/")
}

// rebase makes absolute paths in an answer relative, for a page that is not at
// the root of its origin: attributes of HTML, and the imports of scripts. Paths
// that scripts put together, and those in style sheets, stay as they are.
func rebase(res *http.Response, path string) {
	typ, _, err := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if err != nil || strings.Count(path, "/") > maxDepth || res.Header.Get("Content-Encoding") != "" || res.StatusCode == http.StatusNotModified || res.StatusCode == http.StatusPartialContent {
		return
	}
	switch typ {
	case "text/html", "application/xhtml+xml":
		res.Body = rebaseHTML(res.Body, path)
	case "text/javascript", "application/javascript":
		res.Body = readCloser{&rebaser{r: res.Body, match: importPath, path: path}, res.Body}
	case "text/css":
		res.Body = readCloser{&rebaser{r: res.Body, match: cssPath, path: path}, res.Body}
	default:
		return
	}
	res.ContentLength = -1
	res.Header.Del("Content-Length")
	res.Header.Del("ETag")
	res.Header.Del("Accept-Ranges")
}

type readCloser struct {
	io.Reader
	io.Closer
}

// importPath matches the absolute path that an import of a script names.
var importPath = regexp.MustCompile(`(\b(?:from|import)\s*\(?\s*["'])(/[^/"'\\][^"'\\\n]*|/)["']`)

// cssPath matches the absolute path that a style sheet names.
var cssPath = regexp.MustCompile(`(url\(\s*["']?)(/[^/"'()\\\s][^"'()\\\n]*)`)

// rebaser makes the paths in a script or a style sheet relative as it is read,
// a part at a time.
type rebaser struct {
	r     io.Reader
	match *regexp.Regexp // its first group is what stands before a path, its second the path
	path  string

	in  []byte // read, and not looked at yet
	out []byte
	err error // of r
}

// Read returns the next of the script.
func (s *rebaser) Read(p []byte) (int, error) {
	for len(s.out) == 0 {
		if len(s.in) == 0 && s.err != nil {
			return 0, s.err
		}
		s.fill()
		s.out = s.next()
	}
	n := copy(p, s.out)
	s.out = s.out[n:]
	return n, nil
}

// fill reads a whole part, or all there is, where too little is left to see the
// end of an import.
func (s *rebaser) fill() {
	if len(s.in) >= 2*maxMatch || s.err != nil {
		return
	}
	s.in = append(make([]byte, 0, rebasePart), s.in...)
	for len(s.in) < rebasePart && s.err == nil {
		var n int
		n, s.err = s.r.Read(s.in[len(s.in):rebasePart])
		s.in = s.in[:len(s.in)+n]
	}
}

// next takes what goes out next: up to the first path and its new beginning,
// or as much as has no path in it, whatever follows.
func (s *rebaser) next() []byte {
	m := s.match.FindSubmatchIndex(s.in)
	if m == nil {
		n := len(s.in)
		if s.err == nil {
			n = max(n-maxMatch, 1)
		}
		return s.take(n)
	}
	to := s.in[m[4]:m[5]]
	if len(to) > maxMatch {
		return s.take(m[5])
	}
	rebased := relative(s.path, string(to))
	return append(s.take(m[5])[:m[4]:m[4]], rebased...)
}

func (s *rebaser) take(n int) []byte {
	b := s.in[:n:n]
	s.in = s.in[n:]
	return b
}

// rebaseScript rewrites a script that is a text of a page.
func rebaseScript(b []byte, path string) []byte {
	out, err := io.ReadAll(&rebaser{r: bytes.NewReader(b), match: importPath, path: path})
	if err != nil {
		return b // never: nothing fails
	}
	return out
}

// pathAttributes are the attributes of HTML that hold one address.
var pathAttributes = map[string]bool{"src": true, "href": true, "action": true, "poster": true, "formaction": true, "data": true}

// rebaseHTML rewrites a page as it is read.
func rebaseHTML(body io.ReadCloser, path string) io.ReadCloser {
	z := nethtml.NewTokenizer(body)
	z.SetMaxBuf(maxTag)
	return readCloser{&htmlReader{z: z, path: path}, body}
}

type htmlReader struct {
	z      *nethtml.Tokenizer
	path   string
	buf    []byte
	script bool // in a script
	err    error
}

// Read returns the next of the page.
func (h *htmlReader) Read(p []byte) (int, error) {
	for len(h.buf) == 0 && h.err == nil {
		h.next()
	}
	if len(h.buf) == 0 {
		return 0, h.err
	}
	n := copy(p, h.buf)
	h.buf = h.buf[n:]
	return n, nil
}

func (h *htmlReader) next() {
	typ := h.z.Next()
	raw := h.z.Raw()
	switch typ {
	case nethtml.ErrorToken:
		h.buf, h.err = bytes.Clone(raw), h.z.Err()
		if errors.Is(h.err, nethtml.ErrBufferExceeded) {
			h.err = errors.New("a tag of the page is too long")
		}
	case nethtml.StartTagToken, nethtml.SelfClosingTagToken:
		raw = bytes.Clone(raw)
		tok := h.z.Token()
		h.script = typ == nethtml.StartTagToken && tok.Data == "script"
		h.buf = h.tag(tok, raw)
	case nethtml.TextToken:
		h.buf = bytes.Clone(raw)
		if h.script {
			h.buf = rebaseScript(h.buf, h.path)
		}
	default:
		h.script = false
		h.buf = bytes.Clone(raw)
	}
}

// tag returns a tag with its addresses rewritten; as it was if it has none.
func (h *htmlReader) tag(tok nethtml.Token, raw []byte) []byte {
	changed := false
	for i, at := range tok.Attr {
		if !pathAttributes[at.Key] || !strings.HasPrefix(at.Val, "/") || strings.HasPrefix(at.Val, "//") {
			continue
		}
		if u, err := url.Parse(at.Val); err == nil {
			tok.Attr[i].Val = relative(h.path, localPart(u))
			changed = true
		}
	}
	if !changed {
		return raw
	}
	return []byte(tok.String())
}

// leads turns an answer that redirects elsewhere into a page that says where
// to: a preview does not take people away unseen.
func leads(res *http.Response, u *url.URL) {
	where := "an address of another kind: " + u.Scheme
	if u.Scheme == "http" || u.Scheme == "https" || u.Scheme == "" {
		where = clip(u.String(), 500)
	}
	page := "<!doctype html><meta charset=utf-8><title>Leads elsewhere</title><p>This page wants to lead to another site, which was not followed:</p><p><code>" + html.EscapeString(where) + "</code></p>\n"
	res.Body.Close()
	res.Body = io.NopCloser(strings.NewReader(page))
	res.StatusCode, res.Status = http.StatusForbidden, ""
	res.ContentLength, res.TransferEncoding = int64(len(page)), nil
	res.Header.Set("Content-Type", "text/html; charset=utf-8")
	res.Header.Set("Content-Length", strconv.Itoa(len(page)))
	res.Header.Del("Content-Encoding")
}
