package api

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/store"
)

// hostilePage is a script that tries, by all the ways that browsers have, to
// do at an API what the person at the browser could. %[1]s is the API's
// origins, %[2]s a job's id. It returns what it could read or open.
const hostilePage = `(async () => {
  const got = [], wait = ms => new Promise(r => setTimeout(r, ms));
  const limit = p => Promise.race([p, wait(5000)]).catch(() => {});
  const writes = [["/schedule", "evil"], ["/schedule", '{"task":"evil"}'], ["/submit", "evil"], ["/jobs/%[2]s/messages", "evil"], ["/jobs/%[2]s/control", '{"control":"user"}'],
    ["/jobs/%[2]s/cancel", ""], ["/jobs/%[2]s/links", '{"scope":"control"}'], ["/jobs/%[2]s/places", '{"port":3000}']];
  const all = [];
  for (const api of %[1]s) {
    for (const [path, body] of writes) {
      for (const type of ["text/plain", "application/x-www-form-urlencoded", "application/json", "multipart/form-data; boundary=b"])
        for (const mode of ["no-cors", "cors"])
          all.push(limit(fetch(api + path, {method: "POST", mode, body, credentials: "include", headers: {"Content-Type": type}}).then(async r => { const t = await r.text(); if (t) got.push("POST " + path + ": " + t); })));
      try { navigator.sendBeacon(api + path, body); } catch {}
      for (const enctype of ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"]) {
        const f = document.createElement("form"), i = document.createElement("input"), frame = document.createElement("iframe");
        frame.name = "f" + Math.random();
        Object.assign(f, {method: "POST", action: api + path, enctype, target: frame.name});
        Object.assign(i, {name: enctype === "text/plain" ? body.slice(0, -1) || "task" : "task", value: "}"});
        f.append(i); document.body.append(frame, f); f.submit();
      }
    }
    for (const path of ["/jobs", "/jobs/%[2]s", "/jobs/%[2]s/events", "/jobs/%[2]s/files/", "/settings", "/metrics", "/openapi.json", "/"]) {
      all.push(limit(fetch(api + path, {credentials: "include"}).then(async r => got.push("GET " + path + ": " + await r.text()))));
      all.push(limit(fetch(api + path, {mode: "no-cors"}).then(async r => { const t = await r.text(); if (t) got.push("GET " + path + ": " + t); })));
    }
    all.push(limit(new Promise(r => { const s = document.createElement("script"); s.src = api + "/jobs"; s.onload = () => { got.push("script"); r(); }; s.onerror = r; document.body.append(s); })));
    for (const path of ["/jobs/%[2]s/screen/ws", "/jobs/%[2]s/terminal/ws", "/jobs/%[2]s/preview/3000/"])
      all.push(limit(new Promise(r => { const w = new WebSocket(api.replace("http", "ws") + path); w.onopen = () => { got.push("socket " + path); r(); }; w.onerror = r; })));
    all.push(limit(new Promise(r => { const e = new EventSource(api + "/jobs/%[2]s/events"); e.onopen = () => { got.push("events"); r(); }; e.onerror = r; })));
    const frame = document.createElement("iframe");
    frame.src = api + "/";
    document.body.append(frame);
    all.push(wait(500).then(() => { try { if (frame.contentDocument && frame.contentDocument.body.childElementCount) got.push("frame"); } catch {} }));
  }
  await Promise.all(all);
  await wait(300);
  try { if (document.cookie.includes("glovebox")) got.push("cookie " + document.cookie); } catch {}
  try { await limit(navigator.serviceWorker.register("/preview/sw.js", {scope: "/"}).then(() => got.push("worker"))); } catch {}
  return JSON.stringify(got);
})()`

// TestHostilePages lets a real browser open pages that try to use the API of
// a server without tokens: where the danger is greatest, as being there is
// all that is asked for.
func TestHostilePages(t *testing.T) {
	t.Parallel()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("chromium is not installed: apt-get install chromium")
	}
	page := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, ".js") {
			w.Header().Set("Content-Type", "text/javascript")
			return
		}
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Access-Control-Allow-Origin", "*")
		w.Header().Set("Service-Worker-Allowed", "/")
		io.WriteString(w, "<!doctype html><title>ready</title><body>hostile</body>")
	})
	e, id := liveEnv(t, appMachine(t, page))
	elsewhere := httptest.NewServer(page)
	t.Cleanup(elsewhere.Close)
	_, port, _ := net.SplitHostPort(e.srv.Addr())
	_, other, _ := net.SplitHostPort(elsewhere.Listener.Addr().String())
	origins, err := json.Marshal([]string{"http://localhost:" + port, "http://127.0.0.1:" + port, "http://x.localhost:" + port})
	if err != nil {
		t.Fatal(err)
	}
	j, err := e.store.Job(t.Context(), "", id)
	if err != nil {
		t.Fatal(err)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.Flag("no-proxy-server", true), chromedp.Flag("disable-component-update", true))
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	browser, cancel := chromedp.NewContext(ctx, chromedp.WithErrorf(func(string, ...any) {}))
	t.Cleanup(cancel)
	if err := chromedp.Do(browser); err != nil {
		t.Fatal(err)
	}
	local := "http://localhost:" + port
	for name, at := range map[string]string{
		"preview on its own origin":       local + "/jobs/" + id + "/preview/3000/",
		"preview without an origin":       local + "/preview/" + e.api.capability(place{job: id, port: 3000}, j) + "/",
		"site on another port":            "http://localhost:" + other + "/",
		"site on another port, by number": "http://127.0.0.1:" + other + "/",
		"site below localhost":            "http://evil.localhost:" + other + "/",
	} {
		t.Run(name, func(t *testing.T) {
			tab, cancel := chromedp.NewContext(browser)
			defer cancel()
			tab, stop := context.WithTimeout(tab, 2*time.Minute)
			defer stop()
			var got, where string
			err := chromedp.Do(tab, chromedp.Navigate(at))
			if err == nil {
				where, err = chromedp.Run(tab, chromedp.Evaluate[string]("location.href + ' ' + document.title"))
			}
			if err == nil {
				got, err = chromedp.Run(tab, chromedp.Evaluate[string](fmt.Sprintf(hostilePage, origins, id), chromedp.EvalAwaitPromise))
			}
			if err != nil || !strings.HasSuffix(where, " ready") {
				t.Fatalf("at %s: %v", where, err)
			}
			if got != "[]" {
				t.Errorf("from %s the page got: %s", where, clip(got, 2000))
			}
		})
	}
	jobs, err := e.store.ListJobs(t.Context(), store.JobFilter{Tenant: glovebox.DefaultTenant, Limit: 100})
	if err != nil || len(jobs.Jobs) != 1 {
		t.Errorf("there are %d jobs now, %v", len(jobs.Jobs), err)
	}
	signals, err := e.store.PendingSignals(t.Context(), id)
	if err != nil || len(signals) != 0 {
		t.Errorf("the job got %v, %v", signals, err)
	}
	if n := strings.Count(e.log.String(), "status=403"); n < 100 {
		t.Errorf("only %d requests were refused: the pages did not try", n)
	}
	if log := e.log.String(); strings.Contains(log, "status=201") || strings.Contains(log, "status=202 ") && strings.Count(log, "status=202 ") != 1 {
		t.Error("a write was taken")
	}
}
