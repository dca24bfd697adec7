//go:build linux || darwin

package api

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox"
)

const frontPrefix = "/some/prefix"

// nginxConf is what docs/SECURITY.md tells operators to write. %[3]s is "/" to
// take the prefix away, or empty to leave it.
const nginxConf = `daemon off; master_process off; pid %[4]s/pid; error_log %[4]s/error.log;
events {}
http {
  access_log off;
  client_body_temp_path %[4]s/b; proxy_temp_path %[4]s/p; fastcgi_temp_path %[4]s/f; uwsgi_temp_path %[4]s/u; scgi_temp_path %[4]s/s;
  map $http_upgrade $connection_upgrade { default upgrade; "" ""; }
  server {
    listen %[1]s reuseport;
    location /some/prefix/ {
      proxy_pass http://%[2]s%[3]s;
      proxy_http_version 1.1;
      proxy_set_header Host $http_host;
      proxy_set_header X-Forwarded-For $remote_addr;
      proxy_set_header Upgrade $http_upgrade;
      proxy_set_header Connection $connection_upgrade;
    }
  }
}
`

const caddyConf = `{
  admin off
  auto_https off
}
http://%[1]s {
  bind 127.0.0.1
  handle_path /some/prefix/* {
    reverse_proxy %[2]s
  }
}
`

// TestBehindProxies: everything works behind the usual proxies under a path
// prefix, which they take away or leave.
func TestBehindProxies(t *testing.T) {
	t.Parallel()
	nginxArgs := func(dir string) []string { return []string{"-p", dir, "-c", dir + "/conf"} }
	caddyArgs := func(dir string) []string {
		return []string{"run", "--config", dir + "/conf", "--adapter", "caddyfile"}
	}
	for name, tt := range map[string]struct {
		program, conf, slash string
		args                 func(dir string) []string
		public               bool
	}{
		"nginx":                        {"nginx", nginxConf, "/", nginxArgs, false},
		"nginx that leaves the prefix": {"nginx", nginxConf, "", nginxArgs, true},
		"Caddy":                        {"caddy", caddyConf, "", caddyArgs, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(tt.program); err != nil {
				t.Skip(tt.program + " is not installed: apt-get install nginx-light caddy")
			}
			m, ready := displays(t)
			m.port = appMachine(t, http.HandlerFunc(frontApp)).port
			addr := freeAddr(t)
			e := newEnv(t, func(o *Options) {
				o.Guest = func(string) (Machine, bool) { return m, true }
				if tt.public {
					o.PublicURL = "http://" + addr + frontPrefix
				}
			})
			id := e.submit("t")
			l := e.claim()
			startFront(t, tt.program, fmt.Sprintf(tt.conf, addr, e.srv.Addr(), tt.slash, "."), addr, tt.args)
			f := &front{env: e, base: "http://" + addr + frontPrefix, id: id}
			f.events(l.JobID, func() { e.append(l, notice("through the proxy")) })
			f.screen(ready)
			f.terminal()
			f.preview()
		})
	}
}

func frontApp(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Upgrade") != "" {
		if c, err := websocket.Accept(w, r, nil); err == nil {
			defer c.CloseNow()
			typ, b, err := c.Read(r.Context())
			if err == nil {
				c.Write(r.Context(), typ, b)
				c.Read(r.Context())
			}
		}
		return
	}
	switch r.URL.Path {
	case "/old":
		http.Redirect(w, r, "/page/", http.StatusFound)
	case "/stream":
		fmt.Fprint(w, "first\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	default:
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<a href="/x">%s %s</a>`, r.URL.Path, r.Header.Get("X-Forwarded-For"))
	}
}

// freeAddr returns an address that nobody listens on. Until the test ends
// nobody gets its port but a program that shares it: that of the test.
func freeAddr(t testing.TB) string {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	unix.CloseOnExec(fd)
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
		t.Fatal(err)
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	at, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint("127.0.0.1:", at.(*unix.SockaddrInet4).Port)
}

// startFront starts a proxy and waits until it listens.
func startFront(t testing.TB, program, conf, addr string, args func(dir string) []string) {
	t.Helper()
	dir := t.TempDir()
	conf = strings.ReplaceAll(conf, "./", dir+"/")
	if err := os.WriteFile(filepath.Join(dir, "conf"), []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, args(dir)...)
	cmd.Env = append(os.Environ(), "XDG_DATA_HOME="+dir, "XDG_CONFIG_HOME="+dir, "HOME="+dir)
	var out syncBuffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-ended
	})
	for {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
			return
		}
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("%s: %v\n%s", program, err, out.String())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// front is a browser before a proxy.
type front struct {
	*env
	base, id string
}

func (f *front) ask(method, addr, body string, headers ...string) *http.Response {
	f.t.Helper()
	req, err := http.NewRequestWithContext(f.t.Context(), method, addr, strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	u, _ := url.Parse(f.base)
	req.Header.Set("Origin", u.Scheme+"://"+u.Host)
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// events sees what happens as it does.
func (f *front) events(id string, happen func()) {
	f.t.Helper()
	resp := f.ask("GET", f.base+"/jobs/"+id+"/events?link="+f.link(id, "view"), "", "Accept", eventsType)
	lines := bufio.NewScanner(resp.Body)
	for told := false; lines.Scan(); {
		if !told {
			told = true
			happen()
		}
		if strings.Contains(lines.Text(), "through the proxy") {
			return
		}
	}
	f.t.Errorf("the stream ended: %d %v", resp.StatusCode, lines.Err())
}

func (f *front) socket(path string) *websocket.Conn {
	f.t.Helper()
	u, _ := url.Parse(f.base)
	c, resp, err := websocket.Dial(f.t.Context(), f.base+path, &websocket.DialOptions{HTTPHeader: http.Header{"Origin": {u.Scheme + "://" + u.Host}}})
	if err != nil {
		f.t.Fatalf("%s: %v %v", path, err, resp)
	}
	f.t.Cleanup(func() { c.CloseNow() })
	return c
}

func (f *front) screen(ready <-chan net.Conn) {
	f.t.Helper()
	resp := f.ask("GET", f.base+"/jobs/"+f.id+"/screen", "")
	if to, err := resp.Location(); err != nil || !strings.HasPrefix(to.String(), f.base+"/#/jobs/"+f.id) {
		f.t.Errorf("the page of the screen is at %v, %v", to, err)
	}
	conn := websocket.NetConn(f.t.Context(), f.socket("/jobs/"+f.id+"/screen/ws?link="+f.link(f.id, "view")), websocket.MessageBinary)
	(<-ready).Close()
	b := make([]byte, 12)
	if _, err := io.ReadFull(conn, b); err != nil || string(b) != "RFB 003.008\n" {
		f.t.Errorf("the screen says %q, %v", b, err)
	}
}

func (f *front) terminal() {
	f.t.Helper()
	c := f.socket("/jobs/" + f.id + "/terminal/ws?link=" + f.link(f.id, "control"))
	readText(f.t, c)
	c.Write(f.t.Context(), websocket.MessageBinary, []byte("ls"))
	readBinary(f.t, c, "ls")
}

func (f *front) preview() {
	f.t.Helper()
	resp := f.ask("GET", f.base+"/jobs/"+f.id+"/preview/3000/page/?link="+f.link(f.id, "control"), "", "Accept", "text/html")
	at, err := resp.Location()
	if err != nil || resp.StatusCode != 303 {
		f.t.Fatalf("the preview: %d %v", resp.StatusCode, err)
	}
	if strings.Contains(at.Host, "--") { // a loopback address without a word of the proxy: an origin of its own
		f.t.Fatalf("the preview is at %s", at)
	}
	if !strings.HasPrefix(at.String(), f.base+"/preview/") {
		f.t.Fatalf("the preview is at %s", at)
	}
	resp = f.ask("GET", at.String(), "")
	if b, _ := io.ReadAll(resp.Body); string(b) != `<a href="../x">/page/ </a>` {
		f.t.Errorf("the preview is %d %s", resp.StatusCode, b)
	}
	old, _ := at.Parse("../old")
	if to, err := f.ask("GET", old.String(), "").Location(); err != nil || to.String() != at.String() {
		f.t.Errorf("it redirects to %v, not %v: %v", to, at, err)
	}
	stream, _ := at.Parse("../stream")
	resp = f.ask("GET", stream.String(), "")
	if line, err := bufio.NewReader(resp.Body).ReadString('\n'); line != "first\n" {
		f.t.Errorf("the stream begins with %q, %v", line, err)
	}
	resp.Body.Close()
	c := f.socket("/jobs/" + f.id + "/preview/3000/ws?link=" + f.link(f.id, "control"))
	c.Write(f.t.Context(), websocket.MessageText, []byte("hi"))
	if _, b, err := c.Read(f.t.Context()); string(b) != "hi" {
		f.t.Errorf("the WebSocket says %q, %v", b, err)
	}
	var pl glovebox.Place
	resp = f.ask("POST", f.base+"/jobs/"+f.id+"/places", `{"port":3000}`, "Content-Type", "application/json")
	b, _ := io.ReadAll(resp.Body)
	if pl = decode[glovebox.Place](f.t, b); pl.Own || !strings.Contains(pl.URL, "/preview/") {
		f.t.Errorf("the place is %s", b)
	}
}
