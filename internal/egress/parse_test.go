package egress

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// hello returns the first message of TLS as Go's client sends it.
func hello(t testing.TB, sni string) []byte {
	t.Helper()
	a, b := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		tls.Client(a, &tls.Config{ServerName: sni, InsecureSkipVerify: true}).Handshake()
	}()
	buf := make([]byte, maxHello)
	n, err := b.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	b.Close()
	a.Close()
	<-done
	return buf[:n]
}

// refragment cuts the message of one record into records of n bytes.
func refragment(record []byte, n int) []byte {
	var out []byte
	for body := record[5:]; len(body) > 0; {
		k := min(n, len(body))
		out = append(out, 22, 3, 1, byte(k>>8), byte(k))
		out = append(out, body[:k]...)
		body = body[k:]
	}
	return out
}

func peekName(b []byte) (string, error) {
	return peekServerName(bufio.NewReaderSize(iotestOneByte{bytes.NewReader(b)}, maxHead))
}

// iotestOneByte gives one byte at a time.
type iotestOneByte struct{ r io.Reader }

// Read reads at most one byte.
func (o iotestOneByte) Read(p []byte) (int, error) { return o.r.Read(p[:min(1, len(p))]) }

func TestPeekServerName(t *testing.T) {
	t.Parallel()
	h := hello(t, "example.com")
	for _, n := range []int{1 << 14, 100, 7, 1} {
		if name, err := peekName(refragment(h, n)); n > 1 && (err != nil || name != "example.com") {
			t.Errorf("records of %d bytes: %q, %v", n, name, err)
		}
	}
	if name, err := peekName(hello(t, "")); err != nil || name != "" {
		t.Errorf("no name: %q, %v", name, err)
	}
	for name, b := range map[string][]byte{"text": []byte("GET / HTTP/1.1\r\n"), "alert": {21, 3, 1, 0, 2, 1, 0}, "server hello": {22, 3, 1, 0, 4, 2, 0, 0, 0}, "SSL 2": {0x80, 0x2e, 1, 3, 1}} {
		if _, err := peekName(b); !errors.Is(err, errNotTLS) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := peekName(h[:len(h)-1]); !errors.Is(err, io.EOF) {
		t.Errorf("cut: %v", err)
	}
	if _, err := peekName([]byte{22, 3, 1, 0, 4, 1, 0xff, 0xff, 0xff}); err == nil || isIO(err) {
		t.Errorf("a message of 16 MiB: %v", err)
	}
}

func TestServerNameTwice(t *testing.T) {
	t.Parallel()
	ext := func(name string) []byte {
		n := len(name)
		return append([]byte{0, 0, 0, byte(n + 5), 0, byte(n + 3), 0, 0, byte(n)}, name...)
	}
	body := func(exts ...[]byte) []byte {
		all := bytes.Join(exts, nil)
		b := append(make([]byte, 34), 0, 0, 2, 0x13, 1, 1, 0, byte(len(all)>>8), byte(len(all)))
		return append(b, all...)
	}
	if name, err := serverName(body(ext("a.example"))); err != nil || name != "a.example" {
		t.Fatalf("once: %q, %v", name, err)
	}
	for what, b := range map[string][]byte{
		"extension twice": body(ext("a.example"), ext("b.example")),
		"two names":       body([]byte{0, 0, 0, 10, 0, 8, 0, 0, 1, 'a', 0, 0, 1, 'b'}),
		"empty name":      body(ext("")),
		"other kind":      body([]byte{0, 0, 0, 6, 0, 4, 1, 0, 1, 'a'}),
		"left over":       append(body(ext("a.example")), 0),
		"cut":             body(ext("a.example"))[:50],
	} {
		if name, err := serverName(b); err == nil {
			t.Errorf("%s: %q", what, name)
		}
	}
}

func FuzzServerName(f *testing.F) {
	f.Add(hello(f, "example.com"))
	f.Add(refragment(hello(f, "a.example"), 50))
	f.Fuzz(func(t *testing.T, b []byte) {
		br := bufio.NewReaderSize(bytes.NewReader(b), maxHead)
		name, err := peekServerName(br)
		if err != nil && name != "" {
			t.Fatalf("%q and %v", name, err)
		}
		rest, _ := io.ReadAll(br)
		if !bytes.Equal(rest, b) {
			t.Fatal("something was consumed")
		}
	})
}

func FuzzHead(f *testing.F) {
	for _, s := range []string{
		"GET http://example.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n", "CONNECT example.com:443 HTTP/1.1\r\nHost: example.com\r\n\r\n",
		"POST http://[2001:db8::1]:81/?q HTTP/1.0\r\nContent-Length: 3\r\n\r\nabc", "GET http://a@b/ HTTP/1.1\r\nHost: a\r\n\r\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		br := bufio.NewReaderSize(bytes.NewReader(b), maxHead)
		raw, err := peekHead(br)
		if err != nil {
			return
		}
		h, err := parseHead(raw, nil)
		if err != nil {
			return
		}
		req, err := http.ReadRequest(br)
		if err != nil {
			return // refused later
		}
		// What the standard library understands goes where we think it goes.
		if req.Method != h.method || len(req.TransferEncoding) > 0 != h.chunked {
			t.Fatalf("%+v, but %+v", h, req)
		}
		if req.URL.User != nil || req.URL.Fragment != "" {
			t.Fatalf("URL %v", req.URL)
		}
		hostname := req.URL.Hostname()
		if strings.Contains(hostname, ":") {
			hostname = "[" + hostname + "]"
		}
		if other, err := parseHost(hostname); err != nil || other != h.at.host {
			t.Fatalf("we go to %v, the standard library to %q", h.at, req.URL.Host)
		}
	})
}
