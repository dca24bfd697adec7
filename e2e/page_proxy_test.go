package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/glovebox-dev/glovebox"
)

// nginxConf is what docs/SECURITY.md tells operators to write.
const nginxConf = `daemon off; user root; pid %[3]s/pid; error_log %[3]s/error.log;
events {}
http {
  access_log off;
  client_body_temp_path %[3]s/b; proxy_temp_path %[3]s/p; fastcgi_temp_path %[3]s/f; uwsgi_temp_path %[3]s/u; scgi_temp_path %[3]s/s;
  map $http_upgrade $connection_upgrade { default upgrade; "" ""; }
  server {
    listen %[1]s;
    location /some/prefix/ {
      proxy_pass %[2]s/;
      proxy_http_version 1.1;
      proxy_buffering off;
      proxy_set_header Host $http_host;
      proxy_set_header X-Forwarded-For $remote_addr;
      proxy_set_header Upgrade $http_upgrade;
      proxy_set_header Connection $connection_upgrade;
    }
  }
}
`

// nginx starts one in front of a server and returns the address of the prefix.
// The test is skipped if it is not installed.
func nginx(t *testing.T, server string) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	addr := ln.Addr().String()
	dir := t.TempDir()
	conf := filepath.Join(dir, "conf")
	if err := os.WriteFile(conf, fmt.Appendf(nil, nginxConf, addr, server, dir), 0o644); err != nil {
		t.Fatal(err)
	}
	socket, err := ln.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	// It inherits the socket: nobody else can have taken the port meanwhile.
	cmd := exec.Command("nginx", "-p", dir, "-c", conf)
	cmd.ExtraFiles = []*os.File{socket}
	cmd.Env = append(os.Environ(), "NGINX=3;")
	out := &syncBuffer{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { cmd.Wait(); close(ended) }()
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM) // its worker ends with it
		<-ended
		if t.Failed() {
			t.Logf("nginx said: %s", out)
		}
	})
	return "http://" + addr + "/some/prefix/"
}

// token makes a token in a data directory.
func token(t *testing.T, data string) string {
	t.Helper()
	out, err := exec.Command(binary, "token", "create", "--data", data, "--tenant", "people").Output()
	if err != nil {
		t.Fatalf("glovebox token create: %v", err)
	}
	return strings.TrimSpace(string(out))
}

// TestPageBehindNginx: the page works under a path prefix, on a server that
// asks for tokens; and who has a link to watch can do that and no more.
func TestPageBehindNginx(t *testing.T) {
	if _, err := exec.LookPath("nginx"); err != nil {
		t.Skip("nginx is not installed: apt-get install nginx-light")
	}
	browser := chromium(t)
	data := dataDir(t)
	secret := token(t, data)
	s := serve(t, data, append(pageArgs(t, "watch.replay"), "--set", "tokens=always")...)
	s.token = secret
	p := &person{tab: newTab(t, browser), s: s, base: nginx(t, s.url)}
	p.signIn(secret)
	p.post("Open an editor")
	p.until(`document.querySelector(".composer.asked")`)
	p.side("screen")
	p.until(`document.querySelector(".screen-bar .tag").textContent === "Live"`)
	p.until(`new Set(` + pixels + `).size > 8`)

	w := p.watcher()
	w.cantType()
	w.cantControl()
	p.oldLink()

	p.takeOver()
	if note := p.file("note.txt"); strings.Contains(note, "intruder") {
		t.Errorf("who may watch has typed: %q", note)
	}
	w.until(`document.querySelector(".screen-bar").textContent.includes("You watch")`)
	p.useTheTerminal()
	p.answer("Yes.")
	if st := s.finish(p.id); st.Status != glovebox.StatusComplete {
		t.Fatalf("got %+v, %+v", st, st.Error)
	}
	w.until(`document.querySelector(".job-header").textContent.includes("Complete")`)
	p.side("result")
	p.download()
	// What is refused shows in the console: the wrong token, the old link, and
	// what a watcher tried.
	p.checkClean(p.base, "401", "403", "Password forms")
	w.checkClean(p.base, "401", "403")
}

// signIn gives the page the token that it asks for.
func (p *person) signIn(secret string) {
	p.t.Helper()
	p.open(p.base)
	p.until(`document.querySelector("input[type=password]")`)
	p.shot("proxy 1 gate")
	p.clickOn(`document.querySelector("input[type=password]")`)
	p.keys("wrong\r")
	p.until(`document.querySelector(".gate").innerText.includes("did not accept")`)
	p.clickOn(`document.querySelector("input[type=password]")`)
	p.get(`document.querySelector("input[type=password]").select() ?? true`, new(bool))
	p.keys(secret + "\r")
	p.until(`!document.querySelector(".gate")`)
}

// watcher opens the job in a browser of someone who has but a link.
func (p *person) watcher() *person {
	p.t.Helper()
	w := &person{tab: newTab(p.t, p.ctx, chromedp.WithNewBrowserContext()), s: p.s, base: p.base, id: p.id}
	w.open(p.base + "#/jobs/" + p.id + "?link=" + p.s.link(p.id, glovebox.LinkView, 0))
	w.until(`document.querySelector("h1").innerText.includes("Open an editor")`)
	w.until(`!location.href.includes("link=")`)
	w.side("screen")
	w.until(`document.querySelector(".screen-bar .tag").textContent === "Live"`)
	w.until(`new Set(` + pixels + `).size > 8`)
	w.shot("proxy 2 watcher")
	return w
}

// cantType types, with the page's own precautions out of the way.
func (p *person) cantType() {
	p.t.Helper()
	p.get(`(async () => {
		const link = `+quote(p.s.link(p.id, glovebox.LinkView, 0))+`;
		const ws = new WebSocket(new URL("jobs/`+p.id+`/screen/ws?link=" + link, document.baseURI.replace(/^http/, "ws")));
		ws.binaryType = "arraybuffer";
		let got = 0, stage = 0;
		await new Promise((done, fail) => {
			ws.onerror = () => fail("the socket failed");
			ws.onclose = e => stage < 4 ? fail("closed at " + stage + ": " + e.code + e.reason) : done();
			ws.onmessage = e => {
				got += e.data.byteLength;
				if (stage === 0 && got >= 12) { ws.send(new TextEncoder().encode("RFB 003.008\n")); got = 0; stage = 1 }
				else if (stage === 1 && got >= 2) { ws.send(Uint8Array.of(1)); got = 0; stage = 2 }
				else if (stage === 2 && got >= 4) { ws.send(Uint8Array.of(1)); got = 0; stage = 3 }
				else if (stage === 3 && got >= 24) {
					stage = 4;
					for (const key of "intruder") for (const down of [1, 0]) ws.send(Uint8Array.of(4, down, 0, 0, 0, 0, 0, key.charCodeAt(0)));
					for (const [key, down] of [[0xffe3, 1], [0x73, 1], [0x73, 0], [0xffe3, 0]]) ws.send(Uint8Array.of(4, down, 0, 0, 0, 0, key >> 8, key & 255));
					ws.send(Uint8Array.of(3, 0, 0, 0, 0, 0, 0, 16, 0, 16)); // asks for a picture: the answer comes after all that
				} else if (stage === 4) done();
			};
		});
		ws.close();
		return true;
	})()`, new(bool))
	p.clickOn(`document.querySelector(".vnc canvas")`)
	p.keys("intruder")
}

// cantControl asks for more than a link to watch allows.
func (p *person) cantControl() {
	p.t.Helper()
	if got := p.str(`["Take over", "Give back", "Cancel", "Limits", "Share"].filter(n => [...document.querySelectorAll("button")].some(b => b.getClientRects().length && b.innerText.trim() === n))`); got != "" {
		p.t.Errorf("who may watch is offered %s", got)
	}
	link := p.s.link(p.id, glovebox.LinkView, 0)
	for _, r := range []struct{ method, path, body string }{
		{http.MethodPost, "control", `{"control":"user"}`}, {http.MethodPost, "messages", `{"text":"hello"}`}, {http.MethodPost, "cancel", ""},
		{http.MethodPost, "links", `{"scope":"control"}`}, {http.MethodPost, "places", `{"port":5173}`}, {http.MethodGet, "terminal/ws", ""},
	} {
		got := p.str(`(await fetch("jobs/` + p.id + `/` + r.path + `?link=` + link + `", {method: "` + r.method + `", body: "` + r.method + `" === "GET" ? undefined : ` + quote(r.body) + `, headers: {"Content-Type": "application/json"}})).status`)
		if got != "403" && got != "401" {
			p.t.Errorf("%s %s with a link to watch: %s", r.method, r.path, got)
		}
	}
}

// oldLink waits until a link has expired.
func (p *person) oldLink() {
	p.t.Helper()
	link := p.s.link(p.id, glovebox.LinkView, 1)
	status := func(path string) string {
		return `(await fetch("jobs/` + p.id + `/` + path + `?link=` + link + `", {headers: {Accept: "application/json"}})).status`
	}
	p.until(`(async () => ` + status("events") + ` === 403)()`)
	if got := p.str(status("screen/ws")); got != "403" {
		p.t.Errorf("the screen with an expired link: %s", got)
	}
}

// link makes a link to a job that is good for so many seconds; 0 is the default.
func (s *server) link(id string, scope glovebox.LinkScope, ttl int) string {
	s.t.Helper()
	code, _, body := s.call(http.MethodPost, "/jobs/"+id+"/links", "application/json", fmt.Sprintf(`{"scope":%q,"ttl_seconds":%d}`, scope, ttl))
	var l glovebox.Link
	if err := json.Unmarshal(body, &l); err != nil || code != http.StatusCreated {
		s.t.Fatalf("make a link: %d %s", code, body)
	}
	return l.Link
}
