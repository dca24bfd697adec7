package egress

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/clip"
)

// handshake asks for a tunnel and speaks TLS with the given server name in it.
func handshake(t testing.TB, proxy, authority, sni string) error {
	t.Helper()
	c, err := net.Dial("tcp", proxy)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", authority, authority)
	resp, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: "CONNECT"})
	if err != nil || resp.StatusCode != 200 {
		t.Fatalf("CONNECT %s: %v %v", authority, resp, err)
	}
	return tls.Client(c, &tls.Config{ServerName: sni, InsecureSkipVerify: true}).Handshake()
}

func TestServerName(t *testing.T) {
	t.Parallel()
	w, _, _ := newWorld(t)
	addr := w.start(t, Options{}, "example.com", "example.com:8443", "203.0.113.1")
	for _, c := range []struct {
		to, sni string
		want    bool
	}{
		{"example.com:443", "example.com", true}, {"EXAMPLE.com.:443", "example.COM", true}, {"example.com:443", "evil.example", false},
		{"example.com:443", "", false}, {"example.com:443", "a.example.com", false}, {"example.com:8443", "evil.example", false},
		{"example.com:8443", "example.com", true}, {"203.0.113.1:443", "", true}, {"203.0.113.1:443", "evil.example", false},
	} {
		if err := handshake(t, addr, c.to, c.sni); (err == nil) != c.want {
			t.Errorf("server name %q to %s: %v; want success %v", c.sni, c.to, err, c.want)
		}
	}
	w.await(t, func(got []glovebox.EgressAttempted) bool {
		denied := 0
		for _, e := range got {
			if !e.Allowed && strings.Contains(e.Reason, "server name") {
				denied++
			}
		}
		return denied == 5
	})
}

func TestNotTLS(t *testing.T) {
	t.Parallel()
	w, _, _ := newWorld(t)
	addr := w.start(t, Options{}, "example.com", "example.com:2222")
	const hello = "GET /x HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n"
	if got := raw(t, addr, "CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n"+hello); strings.Contains(got, "hello") {
		t.Errorf("plain text passed to port 443: %q", got)
	}
	if got := raw(t, addr, "CONNECT example.com:2222 HTTP/1.1\r\nHost: example.com:2222\r\n\r\n"+hello); !strings.Contains(got, "hello") {
		t.Errorf("plain text did not pass to a port that a rule names: %q", got)
	}
	// To port 80 requests are read: those to the tunnel's host pass, others don't.
	const connect80 = "CONNECT example.com:80 HTTP/1.1\r\nHost: example.com\r\n\r\n"
	if got := raw(t, addr, connect80+hello); !strings.Contains(got, "hello") || !strings.Contains(got, "X-Got: GET example.com /x") {
		t.Errorf("plain HTTP in a tunnel: %q", got)
	}
	for _, inner := range []string{strings.ReplaceAll(hello, "example.com", "ok.example"), "SSH-2.0-x\r\n\r\n", "\x16\x03\x01\x00\x05hello",
		"GET http://ok.example/ HTTP/1.1\r\nHost: ok.example\r\n\r\n", "CONNECT example.com:443 HTTP/1.1\r\nHost: example.com\r\n\r\n"} {
		if got := raw(t, addr, connect80+inner); !strings.Contains(got, "400 ") {
			t.Errorf("in a tunnel to port 80 %q got %q", inner, got)
		}
	}
}

func TestAddressTricks(t *testing.T) {
	t.Parallel()
	w, _, _ := newWorld(t)
	addr := w.start(t, Options{}, ".example", "example.com")
	c := client(t, addr, nil)
	for host, why := range map[string]string{
		"inside.example": "private", "mixed.example": "loopback", "meta.example": "metadata", "six.example": "unique-local",
	} {
		for _, scheme := range []string{"http", "https"} {
			_, body := get(t, c, scheme+"://"+host+"/")
			if scheme == "http" && !strings.Contains(body, why) || scheme == "https" && !strings.Contains(body, host+" resolves to") {
				t.Errorf("%s://%s: %q; want %q", scheme, host, body, why)
			}
		}
	}
	if d := w.wasDialed(); len(d) > 0 {
		t.Errorf("dialed %v", d)
	}
	if _, body := get(t, c, "http://nowhere.example/"); !strings.Contains(body, "does not resolve") || strings.Contains(body, "10.9.9.9") {
		t.Errorf("unknown name: %q", body)
	}
}

func TestRebinding(t *testing.T) {
	t.Parallel()
	w, _, _ := newWorld(t)
	w.names["rebind.example"] = [][]string{{"203.0.113.1"}, {"127.0.0.1"}, {"203.0.113.1"}, {"169.254.169.254"}}
	addr := w.start(t, Options{}, "rebind.example")
	codes := []int{}
	for range 4 {
		c := client(t, addr, nil)
		c.Transport.(*http.Transport).DisableKeepAlives = true
		code, _ := get(t, c, "http://rebind.example/")
		codes = append(codes, code)
	}
	// What is answered differently later is refused later; what was checked
	// is what is dialled, and nothing else ever is.
	if codes[0] != 200 {
		t.Errorf("answers %v", codes)
	}
	for _, d := range w.wasDialed() {
		if d != "203.0.113.1:80" {
			t.Errorf("dialed %s", d)
		}
	}
}

func TestRedirectToMetadata(t *testing.T) {
	t.Parallel()
	w, _, _ := newWorld(t)
	evil := httptest.NewServer(http.RedirectHandler("http://169.254.169.254/latest/meta-data/", http.StatusFound))
	defer evil.Close()
	w.listen["203.0.113.66:80"] = hostport(evil)
	w.names["evil.example"] = [][]string{{"203.0.113.66"}}
	addr := w.start(t, Options{}, "evil.example")
	if code, body := get(t, client(t, addr, nil), "http://evil.example/"); code != 403 || !strings.Contains(body, "169.254.169.254") {
		t.Errorf("got %d %q", code, body)
	}
}

func TestRequestTricks(t *testing.T) {
	t.Parallel()
	w, _, _ := newWorld(t)
	addr := w.start(t, Options{}, "example.com", "127.0.0.1:1")
	const h = "Host: example.com\r\n"
	for name, send := range map[string]string{
		"bare LF":              "GET http://example.com/ HTTP/1.1\nHost: example.com\n\n",
		"LF in field":          "GET http://example.com/ HTTP/1.1\r\n" + h + "A: b\nTransfer-Encoding: chunked\r\n\r\n",
		"CR in field":          "GET http://example.com/ HTTP/1.1\r\n" + h + "A: b\rX\r\n\r\n",
		"NUL in host":          "GET http://example.com\x00.evil.example/ HTTP/1.1\r\n" + h + "\r\n",
		"NUL in field":         "GET http://example.com/ HTTP/1.1\r\n" + h + "A: b\x00\r\n\r\n",
		"two hosts":            "GET http://example.com/ HTTP/1.1\r\n" + h + "Host: evil.example\r\n\r\n",
		"the same host twice":  "GET http://example.com/ HTTP/1.1\r\n" + h + h + "\r\n",
		"no host":              "GET http://example.com/ HTTP/1.1\r\n\r\n",
		"another host":         "GET http://example.com/ HTTP/1.1\r\nHost: evil.example\r\n\r\n",
		"another port":         "GET http://example.com/ HTTP/1.1\r\nHost: example.com:81\r\n\r\n",
		"user":                 "GET http://example.com@evil.example/ HTTP/1.1\r\n" + h + "\r\n",
		"user of ours":         "GET http://evil.example@example.com/ HTTP/1.1\r\n" + h + "\r\n",
		"backslash":            "GET http://example.com\\@evil.example/ HTTP/1.1\r\n" + h + "\r\n",
		"fragment":             "GET http://example.com#@evil.example/ HTTP/1.1\r\n" + h + "\r\n",
		"escaped host":         "GET http://example%2ecom/ HTTP/1.1\r\n" + h + "\r\n",
		"space in target":      "GET http://example.com/ x HTTP/1.1\r\n" + h + "\r\n",
		"tab":                  "GET\thttp://example.com/ HTTP/1.1\r\n" + h + "\r\n",
		"length and chunked":   "POST http://example.com/ HTTP/1.1\r\n" + h + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"two lengths":          "POST http://example.com/ HTTP/1.1\r\n" + h + "Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcde",
		"length list":          "POST http://example.com/ HTTP/1.1\r\n" + h + "Content-Length: 4, 4\r\n\r\nabcd",
		"signed length":        "POST http://example.com/ HTTP/1.1\r\n" + h + "Content-Length: +4\r\n\r\nabcd",
		"odd coding":           "POST http://example.com/ HTTP/1.1\r\n" + h + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
		"two codings":          "POST http://example.com/ HTTP/1.1\r\n" + h + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
		"coding in 1.0":        "POST http://example.com/ HTTP/1.0\r\n" + h + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"space before colon":   "POST http://example.com/ HTTP/1.1\r\n" + h + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
		"folded field":         "GET http://example.com/ HTTP/1.1\r\n" + h + "A: b\r\n Host: evil.example\r\n\r\n",
		"version 2":            "GET http://example.com/ HTTP/2.0\r\n" + h + "\r\n",
		"version 0.9":          "GET http://example.com/\r\n\r\n",
		"https":                "GET https://example.com/ HTTP/1.1\r\n" + h + "\r\n",
		"path only":            "GET / HTTP/1.1\r\n" + h + "\r\n",
		"gopher":               "GET gopher://example.com/ HTTP/1.1\r\n" + h + "\r\n",
		"connect without port": "CONNECT example.com HTTP/1.1\r\n" + h + "\r\n",
		"connect to a URL":     "CONNECT http://example.com:443/ HTTP/1.1\r\n" + h + "\r\n",
		"connect port":         "CONNECT example.com:0443 HTTP/1.1\r\n" + h + "\r\n",
		"connect port name":    "CONNECT example.com:https HTTP/1.1\r\n" + h + "\r\n",
		"decimal address":      "CONNECT 2130706433:1 HTTP/1.1\r\nHost: 2130706433:1\r\n\r\n",
		"octal address":        "CONNECT 0177.0.0.1:1 HTTP/1.1\r\nHost: 0177.0.0.1:1\r\n\r\n",
		"hex address":          "CONNECT 0x7f.1:1 HTTP/1.1\r\nHost: 0x7f.1:1\r\n\r\n",
		"short address":        "CONNECT 127.1:1 HTTP/1.1\r\nHost: 127.1:1\r\n\r\n",
		"mapped address":       "CONNECT [::ffff:127.0.0.1]:1 HTTP/1.1\r\nHost: x\r\n\r\n",
		"zone":                 "CONNECT [fe80::1%25eth0]:1 HTTP/1.1\r\nHost: x\r\n\r\n",
		"non-ASCII host":       "CONNECT ex\u00e4mple.com:443 HTTP/1.1\r\nHost: x\r\n\r\n",
		"TLS":                  "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
		"long head":            "GET http://example.com/ HTTP/1.1\r\n" + h + "A: " + strings.Repeat("a", maxHead) + "\r\n\r\n",
		"many fields":          "GET http://example.com/ HTTP/1.1\r\n" + h + strings.Repeat("A: b\r\n", maxHeaders) + "\r\n",
		"empty name":           "GET http://example.com/ HTTP/1.1\r\n" + h + ": x\r\n\r\n",
	} {
		got := raw(t, addr, send)
		if !strings.HasPrefix(got, "HTTP/1.1 400 ") {
			t.Errorf("%s: got %q", name, clip.Short(got, maxShown))
		}
	}
	if d := w.wasDialed(); len(d) > 0 {
		t.Errorf("dialed %v", d)
	}
}
