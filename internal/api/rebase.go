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

const (
	maxTag    = 1 << 20 // bytes of one tag or text of a page that is rewritten
	maxScript = 8 << 20 // bytes of a script that is rewritten
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
	if err != nil || res.Header.Get("Content-Encoding") != "" || res.StatusCode == http.StatusNotModified || res.StatusCode == http.StatusPartialContent {
		return
	}
	switch typ {
	case "text/html", "application/xhtml+xml":
		res.Body = rebaseHTML(res.Body, path)
	case "text/javascript", "application/javascript", "text/css":
		if res.ContentLength > maxScript {
			return
		}
		b, err := io.ReadAll(io.LimitReader(res.Body, maxScript+1))
		rest := io.Reader(res.Body)
		if err != nil {
			rest = failing{err}
		}
		if len(b) <= maxScript {
			if typ == "text/css" {
				b = rebaseCSS(b, path)
			} else {
				b = rebaseScript(b, path)
			}
		}
		res.Body = readCloser{io.MultiReader(bytes.NewReader(b), rest), res.Body}
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

type failing struct{ err error }

// Read fails.
func (f failing) Read([]byte) (int, error) { return 0, f.err }

// importPath matches the absolute path that an import of a script names.
var importPath = regexp.MustCompile(`(\b(?:from|import)\s*\(?\s*)(["'])(/[^/"'\\][^"'\\\n]*|/)(["'])`)

func rebaseScript(b []byte, path string) []byte {
	return importPath.ReplaceAllFunc(b, func(m []byte) []byte {
		p := importPath.FindSubmatch(m)
		to := relative(path, string(p[3]))
		if !strings.HasPrefix(to, ".") {
			to = "./" + to
		}
		return []byte(string(p[1]) + string(p[2]) + to + string(p[4]))
	})
}

// cssPath matches the absolute path that a style sheet names.
var cssPath = regexp.MustCompile(`(url\(\s*["']?)(/[^/"'()\\\s][^"'()\\\n]*)`)

func rebaseCSS(b []byte, path string) []byte {
	return cssPath.ReplaceAllFunc(b, func(m []byte) []byte {
		p := cssPath.FindSubmatch(m)
		return []byte(string(p[1]) + relative(path, string(p[2])))
	})
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
