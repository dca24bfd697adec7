package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"
)

// patience is how long a tab waits for what it waits for, a machine that starts
// cold on a busy host among it. It is spent only by tests that fail.
const patience = 3 * time.Minute

// chromium starts a headless Chromium of its own for a test, which is skipped
// if there is none. Its tabs end with the test.
func chromium(t *testing.T) context.Context {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("chromium is not installed, so no browser drives the page: apt-get install chromium")
	}
	// Its directory is not the test's: processes of it that outlive it by a
	// moment would write there while the test removes its own.
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.WindowSize(1440, 900),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("no-proxy-server", true))
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox) // it refuses root otherwise; the pages are ours
	}
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx, chromedp.WithErrorf(func(string, ...any) {}))
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start %s: %v", path, err)
	}
	return ctx
}

// tab is a page in a browser, and what it did.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	said     []string // console, exceptions, what the browser says of the page
	requests []string // addresses
}

// newTab opens a tab.
func newTab(t *testing.T, browser context.Context, o ...chromedp.ContextOption) *tab {
	t.Helper()
	if len(o) == 0 {
		o = append(o, chromedp.WithNewWindow(true)) // a tab behind another is not drawn
	}
	ctx, cancel := chromedp.NewContext(browser, o...)
	b := &tab{t: t, ctx: ctx}
	t.Cleanup(func() {
		if t.Failed() {
			b.mu.Lock()
			t.Logf("the browser said: %s", strings.Join(b.said, "\n"))
			b.mu.Unlock()
		}
		cancel()
	})
	if err := chromedp.Listen(ctx, b.hear); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *tab) hear(e any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := e.(type) {
	case *runtime.EventConsoleAPICalled:
		var s strings.Builder
		for _, a := range e.Args {
			fmt.Fprintf(&s, " %s%s", a.Value, a.Description)
		}
		b.said = append(b.said, fmt.Sprintf("console.%s:%s", e.Type, s.String()))
	case *runtime.EventExceptionThrown:
		b.said = append(b.said, fmt.Sprintf("exception: %+v", *e.ExceptionDetails))
	case *cdplog.EventEntryAdded:
		b.said = append(b.said, fmt.Sprintf("%s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL))
	case *network.EventRequestWillBeSent:
		b.requests = append(b.requests, e.Request.URL)
	case *network.EventWebSocketCreated:
		b.requests = append(b.requests, e.URL)
	}
}

// screenGone is what noVNC says when a job, and with it the machine's screen,
// ends before the page has heard of it or while it connects, what it says when
// someone leaves in the middle of a frame, and what the browser says when
// someone leaves before the screen is there.
var screenGone = []string{"closed before the connection is established", "response code: 410", "status of 410", "response code: 503", "WebSocket on-error event",
	"Connection closed (code: ", "disconnected RFB", "Unexpected server disconnect", "Disconnection timed out", "Got data while"}

// checkClean fails the test if the page reached for anything but the server, or
// the browser complained of it; excuses are pieces of complaints that are meant
// to come.
func (b *tab) checkClean(server string, excuses ...string) {
	b.t.Helper()
	u, err := url.Parse(server)
	if err != nil {
		b.t.Fatal(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.requests {
		to, err := url.Parse(r)
		if err == nil && (to.Host == u.Host || strings.HasSuffix(to.Host, ".localhost:"+u.Port()) || hasAny(to.Scheme, []string{"data", "blob", "about"}, strings.HasPrefix)) {
			continue
		}
		b.t.Errorf("the page asked for %s", r)
	}
	excuses = append(append(excuses, screenGone...), "willReadFrequently") // the test reads the pixels of the screen
	for _, s := range b.said {
		if !hasAny(s, excuses, strings.Contains) {
			b.t.Errorf("the browser said: %s", s)
		}
	}
}

func hasAny(s string, of []string, has func(s, part string) bool) bool {
	for _, p := range of {
		if has(s, p) {
			return true
		}
	}
	return false
}

// do runs actions.
func (b *tab) do(what string, a ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, a...); err != nil {
		b.t.Fatalf("%s: %v\n%s", what, err, b.text())
	}
}

// open goes to an address.
func (b *tab) open(address string) {
	b.t.Helper()
	b.do("open "+address, chromedp.Navigate(address))
}

// eval returns the value of an expression, which may be a promise, as JSON.
func (b *tab) eval(expression string) (json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[[]byte](expression, chromedp.EvalAwaitPromise, chromedp.EvalAsValue))
	return json.RawMessage(v), err
}

// get is eval of what must not fail, into v.
func (b *tab) get(expression string, v any) {
	b.t.Helper()
	raw, err := b.eval(expression)
	if err == nil {
		err = json.Unmarshal(raw, v)
	}
	if err != nil {
		b.t.Fatalf("%s: %v in %s", expression, err, raw)
	}
}

// str returns an expression's value as a string.
func (b *tab) str(expression string) string {
	b.t.Helper()
	var s string
	b.get("(async () => String("+expression+"))()", &s)
	return s
}

// until waits for an expression to be true. It may throw until then, and the
// page may go elsewhere.
func (b *tab) until(expression string) {
	b.t.Helper()
	watch := `new Promise(done => {
		const look = async () => { try { if (await (` + expression + `)) { clearInterval(timer); done(true) } } catch {} };
		const timer = setInterval(look, 25);
		setTimeout(() => { clearInterval(timer); done(false) }, 5000);
		look();
	})`
	var err error
	for end := time.Now().Add(patience); time.Now().Before(end); {
		var v json.RawMessage
		if v, err = b.eval(watch); err == nil && bytes.Equal(v, []byte("true")) {
			return
		}
		if errors.Is(err, context.Canceled) {
			break
		}
	}
	b.t.Fatalf("not true in %v: %s (%v)\n%s", patience, expression, err, b.text())
}

// text is what a person reads on the page.
func (b *tab) text() string {
	ctx, cancel := context.WithTimeout(b.ctx, 5*time.Second)
	defer cancel()
	s, _ := chromedp.Run(ctx, chromedp.Evaluate[string](`document.body.innerText`))
	return tail(s, 3000)
}

// find is an expression for the element that can be pressed under a name.
func find(name string) string {
	return `[...document.querySelectorAll("a, button, [role=tab], label, summary")].filter(e => e.getClientRects().length && !e.disabled).find(e => ` +
		`[e.getAttribute("aria-label"), e.innerText.trim()].includes(` + quote(name) + `) || e.innerText.trim().startsWith(` + quote(name) + `))`
}

// press clicks, with the mouse, what has a name.
func (b *tab) press(name string) {
	b.t.Helper()
	b.until(find(name))
	b.clickOn(find(name))
}

// clickOn clicks the middle of the element that an expression gives.
func (b *tab) clickOn(element string, o ...chromedp.MouseOption) {
	b.t.Helper()
	b.clickIn(element, .5, .5, o...)
}

// clickIn clicks in the element that an expression gives, so far to the right
// and so far down, once it is there and no longer moves. If it moves
// nevertheless, or another takes its place before the click has arrived, the
// page does not hear of that click, and it is made anew.
func (b *tab) clickIn(element string, right, down float64, o ...chromedp.MouseOption) {
	b.t.Helper()
	var err error
	for end := time.Now().Add(patience); time.Now().Before(end) && !errors.Is(err, context.Canceled); {
		var at struct{ X, Y float64 }
		var raw json.RawMessage
		if raw, err = b.eval(fmt.Sprintf(aim, element, right, down)); err == nil {
			err = json.Unmarshal(raw, &at)
		}
		if err != nil {
			continue // the page goes elsewhere
		}
		b.do("click", chromedp.MouseClickXY(at.X, at.Y, o...))
		if b.str("!window.aimed || aimed.done()") == "true" {
			return
		}
	}
	b.t.Fatalf("no click arrived in %v at %s (%v)\n%s", patience, element, err, b.text())
}

// aim says where an element is, and from then on keeps from the page what the
// mouse does elsewhere, until done is asked whether it did it there. A click
// in a frame is heard in the frame alone; on a canvas that follows the mouse it
// is one when the button goes down.
const aim = `new Promise(there => {
	const find = () => %s;
	let was, last = "";
	const timer = setInterval(() => {
		const e = find();
		if (e && e !== was) e.scrollIntoView({ block: "nearest" });
		const r = e?.getBoundingClientRect(), now = r ? [r.x, r.y, r.width, r.height].join() : "";
		const still = e && e === was && now === last && r.width > 0;
		was = e, last = now;
		if (!still) return;
		clearInterval(timer);
		window.aimed?.done();
		const over = new AbortController();
		let hit = e.tagName === "IFRAME", missed = false;
		const hear = ev => {
			const on = !!find()?.contains(ev.target);
			if (ev.type.endsWith("down") && (missed = !on)) hit = false;
			if (missed || (!on && !ev.type.endsWith("up"))) {
				ev.preventDefault();
				ev.stopImmediatePropagation();
			} else if (ev.type === (e.tagName === "CANVAS" ? "mousedown" : "click")) hit = true;
		};
		for (const type of ["pointerdown", "mousedown", "pointerup", "mouseup", "click", "auxclick", "contextmenu"])
			addEventListener(type, hear, { capture: true, signal: over.signal });
		window.aimed = { done: () => (over.abort(), hit) };
		there({ x: r.x + r.width * %g, y: r.y + r.height * %g });
	}, 30);
})`

// front brings the tab before those that it opened: one behind is not drawn.
func (b *tab) front() {
	b.t.Helper()
	if _, err := chromedp.Call(b.ctx, page.BringToFront, cdp.Empty{}); err != nil {
		b.t.Fatal(err)
	}
	b.until(`document.visibilityState === "visible"`)
}

// keys types on an American keyboard, the way that a person's browser tells
// of it: what the page takes for itself is not typed a second time.
func (b *tab) keys(s string) {
	b.t.Helper()
	for _, r := range s {
		if r == '\r' {
			b.special("Enter", 13, "\r")
			continue
		}
		code := int64(0) // a page that goes by codes takes it by its text
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			code = int64(unicode.ToUpper(r))
		}
		b.special(string(r), code, string(r))
	}
}

// special presses a key by its name and its code in Windows.
func (b *tab) special(key string, code int64, text string) {
	b.t.Helper()
	p := input.DispatchKeyEventParams{Type: input.DispatchKeyEventTypeKeyDown, Key: key, WindowsVirtualKeyCode: code, Text: text}
	if text == "" {
		p.Type = input.DispatchKeyEventTypeRawKeyDown
	}
	for _, p.Type = range []input.DispatchKeyEventType{p.Type, input.DispatchKeyEventTypeKeyUp} {
		if p.Type == input.DispatchKeyEventTypeKeyUp {
			p.Text = ""
		}
		if _, err := chromedp.Call(b.ctx, input.DispatchKeyEvent, p); err != nil {
			b.t.Fatal(err)
		}
	}
}

// layout types letters as a keyboard that has them does. The browser's own
// driver knows an American one alone.
func (b *tab) layout(s string) {
	b.t.Helper()
	for _, r := range s {
		b.key(string(r), "", true)
		b.key(string(r), "", false)
	}
}

// key presses or releases one key.
func (b *tab) key(key, code string, down bool) {
	b.t.Helper()
	p := input.DispatchKeyEventParams{Type: input.DispatchKeyEventTypeRawKeyDown, Key: key, Code: code}
	if !down {
		p.Type = input.DispatchKeyEventTypeKeyUp
	}
	if _, err := chromedp.Call(b.ctx, input.DispatchKeyEvent, p); err != nil {
		b.t.Fatal(err)
	}
}

// shot takes a screenshot into the directory that GLOVEBOX_E2E_SHOTS names,
// for people to look at.
func (b *tab) shot(name string) {
	dir := os.Getenv("GLOVEBOX_E2E_SHOTS")
	if dir == "" {
		return
	}
	ctx, cancel := context.WithTimeout(b.ctx, 10*time.Second)
	defer cancel()
	png, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, strings.ReplaceAll(name, "/", "-")+".png"), png, 0o644)
	}
	if err != nil {
		b.t.Logf("screenshot: %v", err)
	}
}

// newTabOf returns the tab that f makes this one open.
func (b *tab) newTabOf(f func()) *tab {
	b.t.Helper()
	opened := chromedp.WaitNewTarget(b.ctx, func(i *target.Info) bool { return i.Type == "page" })
	f()
	select {
	case id := <-opened:
		return newTab(b.t, b.ctx, chromedp.WithTargetID(id))
	case <-time.After(patience):
		b.t.Fatal("no tab was opened")
		return nil
	}
}

// frame returns the page that is in the tab's frame, which has another origin.
func (b *tab) frame() *tab {
	b.t.Helper()
	list, err := chromedp.Targets(b.ctx)
	if err != nil {
		b.t.Fatal(err)
	}
	i := slices.IndexFunc(list, func(i *target.Info) bool { return i.Type == "iframe" })
	if i < 0 {
		b.t.Fatalf("no frame among %d targets", len(list))
	}
	return newTab(b.t, b.ctx, chromedp.WithTargetID(list[i].TargetID))
}

func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// port returns the port of a server's address.
func port(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u.Port()
}
