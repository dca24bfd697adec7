package egress

import (
	"bufio"
	"errors"
	"fmt"
	"strings"

	"github.com/glovebox-dev/glovebox/internal/clip"
)

// Bounds of a request's head. Cookies and signed URLs are long; nothing that
// a package manager or a browser sends comes near.
const (
	maxHead    = 64 << 10
	maxHeaders = 128
	maxMethod  = 32
)

// head is what a request's head says about where it goes, read strictly:
// whatever two parsers could understand differently is refused.
type head struct {
	fields
	size   int // bytes
	method string
	http10 bool
	at     endpoint // port as written, or 80
}

// badRequest is a head that is refused, with the reason to answer.
type badRequest struct{ reason string }

func (e *badRequest) Error() string { return e.reason }

func bad(format string, args ...any) error { return &badRequest{fmt.Sprintf(format, args...)} }

// peekHead waits for a whole head and returns its bytes, which stay unread in
// br and are valid until it is read. A line that does not end in CRLF is
// refused as soon as it is there.
func peekHead(br *bufio.Reader) ([]byte, error) {
	for seen := 0; ; {
		b, err := br.Peek(br.Buffered())
		if err != nil {
			return nil, err
		}
		for ; seen < len(b); seen++ {
			switch c := b[seen]; {
			case seen == 0 && !isToken(c):
				return nil, bad("this is the HTTP proxy of the sandbox; what came is not an HTTP request")
			case c == '\n' && (seen == 0 || b[seen-1] != '\r'):
				return nil, bad("a line of the request's head ends without CR")
			case c == '\n' && seen >= 3 && b[seen-2] == '\n':
				return b[:seen+1], nil
			}
		}
		if len(b) >= maxHead {
			return nil, bad("the request's head is longer than %d bytes", maxHead)
		}
		if _, err := br.Peek(len(b) + 1); err != nil {
			if errors.Is(err, bufio.ErrBufferFull) {
				return nil, bad("the request's head is longer than %d bytes", maxHead)
			}
			return nil, err
		}
	}
}

// parseHead reads a whole head. Inside a tunnel, whose end is at, the target
// is a path; elsewhere it is the authority of a CONNECT or a whole URL.
func parseHead(raw []byte, tunnel *endpoint) (*head, error) {
	lines := strings.Split(strings.TrimSuffix(string(raw), "\r\n\r\n"), "\r\n")
	h := &head{size: len(raw)}
	target, err := h.requestLine(lines[0])
	if err != nil {
		return nil, err
	}
	if h.fields, err = parseFields(lines[1:]); err != nil {
		return nil, err
	}
	if h.http10 && h.chunked {
		return nil, bad("HTTP/1.0 has no Transfer-Encoding")
	}
	if h.hosts > 1 || h.hosts == 0 && !h.http10 {
		return nil, bad("the request has %d Host fields; HTTP/1.1 wants one", h.hosts)
	}
	if err := h.goesTo(target, tunnel); err != nil {
		return nil, err
	}
	if h.hosts == 1 {
		if err := h.agrees(h.hostField); err != nil {
			return nil, err
		}
	}
	return h, nil
}

func (h *head) requestLine(line string) (target string, err error) {
	method, rest, ok1 := strings.Cut(line, " ")
	target, version, ok2 := strings.Cut(rest, " ")
	if !ok1 || !ok2 || method == "" || target == "" || len(method) > maxMethod {
		return "", bad("the request line is malformed")
	}
	for i := range len(method) {
		if !isToken(method[i]) {
			return "", bad("the method is malformed")
		}
	}
	for i := range len(target) {
		if target[i] <= ' ' || target[i] >= 0x7f {
			return "", bad("the request's target has a character that has to be escaped")
		}
	}
	switch version {
	case "HTTP/1.1":
	case "HTTP/1.0":
		h.http10 = true
	default:
		return "", bad("the version of HTTP is not 1.0 or 1.1")
	}
	h.method = method
	return target, nil
}

// last reports whether the connection is to end after this request.
func (h *head) last() bool { return h.close || h.http10 && !h.keep }

// goesTo finds host and port in the request's target.
func (h *head) goesTo(target string, tunnel *endpoint) (err error) {
	switch {
	case strings.Contains(target, "#"):
		return bad("the request's target has a fragment")
	case tunnel != nil && h.method == "CONNECT":
		return bad("a tunnel can't be opened inside a tunnel")
	case tunnel != nil && strings.HasPrefix(target, "/"):
		h.at = *tunnel
		return nil
	case h.method == "CONNECT":
		h.at, err = authority(target, 0)
		return err
	}
	rest, ok := cutPrefixFold(target, "http://")
	if !ok {
		if strings.HasPrefix(target, "/") {
			return bad("this is the HTTP proxy of the sandbox, not a server; send it the whole URL")
		}
		return bad("only http URLs are fetched for you; use CONNECT for others")
	}
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		rest = rest[:i]
	}
	if h.at, err = authority(rest, 80); err != nil {
		return err
	}
	if tunnel != nil && h.at != *tunnel {
		return bad("the request goes to another host than its tunnel")
	}
	return nil
}

// authority reads "host:port"; def is the port when none is written, and 0
// means that one must be.
func authority(s string, def uint16) (endpoint, error) {
	if strings.Contains(s, "@") {
		return endpoint{}, bad("the request's target has a user name in it")
	}
	name, port, err := splitPort(s)
	if err != nil {
		return endpoint{}, bad("%s", err)
	}
	if port == 0 {
		port = def
	}
	if port == 0 {
		return endpoint{}, bad("CONNECT wants a host and a port")
	}
	h, err := parseHost(name)
	if err != nil {
		return endpoint{}, bad("%s", err)
	}
	return endpoint{h, port}, nil
}

// agrees refuses a Host field that names something else than the target.
func (h *head) agrees(field string) error {
	def := uint16(80)
	if h.method == "CONNECT" {
		def = h.at.port // many leave it out
	}
	at, err := authority(field, def)
	if err != nil {
		return bad("the Host field is malformed: %s", err)
	}
	if at != h.at {
		return bad("the Host field names another host than the request's target")
	}
	return nil
}

// fields is what matters of the fields of a head.
type fields struct {
	hosts     int
	hostField string
	chunked   bool
	expect    string
	close     bool // Connection: close
	keep      bool // Connection: keep-alive
}

func parseFields(lines []string) (fields, error) {
	var f fields
	if len(lines) > maxHeaders {
		return f, bad("the request has %d fields; at most %d are read", len(lines), maxHeaders)
	}
	length := false
	for _, line := range lines {
		name, value, err := parseField(line)
		if err != nil {
			return f, err
		}
		switch strings.ToLower(name) {
		case "host":
			f.hosts++
			f.hostField = value
		case "expect":
			f.expect += value
		case "connection", "proxy-connection":
			for token := range strings.SplitSeq(strings.ToLower(value), ",") {
				token = strings.TrimSpace(token)
				f.close = f.close || token == "close"
				f.keep = f.keep || token == "keep-alive"
			}
		case "content-length":
			if length || value == "" || len(value) > 18 || strings.Trim(value, "0123456789") != "" {
				return f, bad("Content-Length is malformed or there twice")
			}
			length = true
		case "transfer-encoding":
			if f.chunked || !strings.EqualFold(value, "chunked") {
				return f, bad("Transfer-Encoding must be chunked, once")
			}
			f.chunked = true
		}
	}
	if length && f.chunked {
		return f, bad("the request has both Content-Length and Transfer-Encoding")
	}
	return f, nil
}

func parseField(line string) (name, value string, err error) {
	name, value, ok := strings.Cut(line, ":")
	if !ok || name == "" {
		return "", "", bad("a field of the request is malformed")
	}
	for i := range len(name) {
		if !isToken(name[i]) {
			return "", "", bad("the name of a field is malformed")
		}
	}
	for i := range len(value) {
		if c := value[i]; c < ' ' && c != '\t' || c == 0x7f {
			return "", "", bad("the field %s has a control character in it", clip.Short(name, maxShown))
		}
	}
	return name, strings.Trim(value, " \t"), nil
}

var tokens = func() (t [256]bool) {
	for _, c := range []byte("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") {
		t[c] = true
	}
	return t
}()

func isToken(c byte) bool { return tokens[c] }

func cutPrefixFold(s, prefix string) (string, bool) {
	if len(s) < len(prefix) || !strings.EqualFold(s[:len(prefix)], prefix) {
		return s, false
	}
	return s[len(prefix):], true
}
