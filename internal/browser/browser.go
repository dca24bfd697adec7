// Package browser drives the Chromium of a sandbox over its DevTools
// protocol: it opens a page, waits until it has settled, and says what is on
// it, what went wrong in it and what it looks like.
//
// Neither the browser nor a page is trusted. Every message has a bound, every
// step a deadline; what comes back is data, cleaned of control characters and
// cut. A page that loops, floods the console, asks with dialogs, downloads,
// opens windows or crashes costs its own tab and nothing else. Scripts of
// ours run in a world of their own, where a page can't change what they call.
//
// A Browser may be used by many goroutines, a Page by one at a time. Tabs stay
// open when a Page or Browser is closed: people watch them on the screen.
package browser

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/glovebox-dev/glovebox"
)

// Bounds of what is taken from a browser.
const (
	maxMessage     = 24 << 20 // bytes of one message
	maxVersion     = 64 << 10 // bytes of the answer that names the endpoint
	maxTargets     = 16       // tabs; beyond it, one of them is used again
	maxTabs        = 64       // that are looked at
	connectTimeout = 30 * time.Second
	callTimeout    = 10 * time.Second
)

// Dialer connects to the browser's DevTools port, as often as it is called.
type Dialer func(ctx context.Context) (net.Conn, error)

// Browser is a connection to a browser.
type Browser struct {
	c *conn

	// within ends a context, with errSlow as its cause, when a page had so long to load.
	within func(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc)

	mu      sync.Mutex
	open    map[string]*watch        // pages that were opened and are looked at, by their tab
	closing map[string]chan struct{} // tabs that were told to close; the channel is closed when one has
}

// Connect connects to the browser that dial reaches. It returns
// CodeUnavailable if there is none, or if it does not answer within 30 s.
func Connect(ctx context.Context, dial Dialer) (*Browser, error) {
	const op = "connect to the browser"
	ctx, cancel := context.WithTimeoutCause(ctx, connectTimeout, fmt.Errorf("it did not answer within %v", connectTimeout))
	defer cancel()
	hc := &http.Client{
		Transport: &http.Transport{
			DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
			DisableKeepAlives: true, MaxResponseHeaderBytes: 16 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return errors.New("the browser redirects") },
	}
	path, err := endpoint(ctx, hc)
	if err != nil {
		return nil, unavailable(ctx, op, err)
	}
	// Not the host that the answer named: only its path, over our own dialer.
	ws, resp, err := websocket.Dial(ctx, "ws://localhost"+path, &websocket.DialOptions{HTTPClient: hc, CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		if resp != nil && resp.Body != nil {
			resp.Body.Close()
		}
		return nil, unavailable(ctx, op, err)
	}
	ws.SetReadLimit(maxMessage)
	b := &Browser{c: newConn(ws), within: loadWithin, open: map[string]*watch{}, closing: map[string]chan struct{}{}}
	b.c.handle("", b.event)
	if err := b.c.call(ctx, "", "Target.setDiscoverTargets", object{"discover": true, "filter": []object{{"type": "page"}}}, nil); err != nil {
		b.Close()
		return nil, err
	}
	// Nothing is downloaded while we look; the person's own settings come back when we leave.
	_ = b.c.call(ctx, "", "Browser.setDownloadBehavior", object{"behavior": "deny", "eventsEnabled": false}, nil)
	return b, nil
}

// Close ends the connection. Tabs stay as they are.
func (b *Browser) Close() error { return b.c.close() }

var endpointPath = regexp.MustCompile(`^/devtools/browser/[0-9A-Za-z-]{1,64}$`)

// endpoint asks where the browser takes commands.
func endpoint(ctx context.Context, hc *http.Client) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/json/version", nil)
	if err != nil {
		return "", err
	}
	resp, err := hc.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxVersion))
	if err != nil {
		return "", err
	}
	var v struct {
		URL string `json:"webSocketDebuggerUrl"`
	}
	if err := json.Unmarshal(body, &v); err != nil {
		return "", fmt.Errorf("status %d, and the answer is not what a browser says: %w", resp.StatusCode, err)
	}
	u, err := url.Parse(v.URL)
	if err != nil || !endpointPath.MatchString(u.Path) {
		return "", fmt.Errorf("it names no endpoint: %.80q", v.URL)
	}
	return u.Path, nil
}

// unavailable says that the browser could not be used.
func unavailable(ctx context.Context, op string, err error) error {
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	e := &glovebox.Error{Code: glovebox.CodeUnavailable, Op: op, Err: err}
	if inner, ok := errors.AsType[*glovebox.Error](err); ok {
		e.Hint = inner.Hint
	}
	return e
}

// target is a tab.
type target struct {
	ID   string `json:"targetId"`
	Type string `json:"type"`
	URL  string `json:"url"`
	// Opener is the tab that opened this one, if a page did.
	Opener string `json:"openerId"`
}

// tabs returns the open tabs, the newest first.
func (b *Browser) tabs(ctx context.Context) ([]target, error) {
	var all struct {
		Infos []target `json:"targetInfos"`
	}
	if err := b.c.call(ctx, "", "Target.getTargets", object{"filter": []object{{"type": "page"}}}, &all); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	list := all.Infos[:0]
	for _, t := range all.Infos {
		if t.Type == "page" && !strings.HasPrefix(t.URL, "devtools:") && b.closing[t.ID] == nil && len(list) < maxTabs {
			list = append(list, t)
		}
	}
	return list, nil
}

// blank reports whether a tab shows nothing that anyone would miss.
func blank(u string) bool {
	return u == "about:blank" || u == "" || strings.HasPrefix(u, "file:///usr/share/glovebox/") || strings.HasPrefix(u, "chrome://newtab") || strings.HasPrefix(u, "chrome://new-tab-page")
}

// tab returns the id of a tab to show u in: one that shows it, one of the
// same site, an empty one, a new one.
func (b *Browser) tab(ctx context.Context, u string) (id string, used bool, err error) {
	tabs, err := b.tabs(ctx)
	if err != nil {
		return "", false, err
	}
	for _, fits := range []func(string) bool{func(s string) bool { return samePage(s, u) }, func(s string) bool { return sameSite(s, u) }, blank} {
		for _, t := range tabs {
			if fits(t.URL) {
				return t.ID, true, nil
			}
		}
	}
	if len(tabs) >= maxTargets {
		return tabs[0].ID, true, nil
	}
	id, err = b.newTab(ctx)
	return id, false, err
}

func (b *Browser) newTab(ctx context.Context) (string, error) {
	var made struct {
		ID string `json:"targetId"`
	}
	err := b.c.call(ctx, "", "Target.createTarget", object{"url": "about:blank"}, &made)
	return made.ID, err
}

// closeTab closes a tab, whatever its page thinks of it. The browser answers
// before the tab is gone: until then nothing is to be opened in it.
func (b *Browser) closeTab(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
	defer cancel()
	gone := b.leave(id)
	err := b.c.call(ctx, "", "Target.closeTarget", object{"targetId": id}, nil)
	if _, refused := errors.AsType[*protocolError](err); refused {
		b.left(id) // it was gone before
	}
	if gone == nil {
		return
	}
	select {
	case <-gone:
	case <-ctx.Done():
	case <-b.c.ctx.Done():
	}
}

// leave notes that a tab is told to close, and returns what is closed when it
// has; nil if too many are.
func (b *Browser) leave(id string) <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closing[id] == nil && len(b.closing) < maxTabs {
		b.closing[id] = make(chan struct{})
	}
	return b.closing[id]
}

// left notes that a tab is gone.
func (b *Browser) left(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if gone := b.closing[id]; gone != nil {
		close(gone)
		delete(b.closing, id)
	}
}

// samePage reports whether two URLs are of one page, whatever place in it.
func samePage(a, b string) bool {
	a, _, _ = strings.Cut(a, "#")
	b, _, _ = strings.Cut(b, "#")
	return strings.TrimSuffix(a, "/") == strings.TrimSuffix(b, "/")
}

// sameSite reports whether two URLs have the same origin.
func sameSite(a, b string) bool {
	x, err1 := url.Parse(a)
	y, err2 := url.Parse(b)
	return err1 == nil && err2 == nil && x.Host != "" && x.Scheme == y.Scheme && x.Host == y.Host
}

// keep and forget say which tabs a page of ours is in.
func (b *Browser) keep(id string, w *watch) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open[id] = w
}

func (b *Browser) forget(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.open, id)
}

// event closes windows that a page opens by itself while we look at it, and
// hears which tabs are gone.
func (b *Browser) event(method string, params json.RawMessage) {
	var e struct {
		TargetInfo target
		TargetID   string
	}
	if json.Unmarshal(params, &e) != nil {
		return
	}
	if method == "Target.targetDestroyed" {
		b.left(e.TargetID)
	}
	if method != "Target.targetCreated" || e.TargetInfo.Opener == "" {
		return
	}
	b.mu.Lock()
	w := b.open[e.TargetInfo.Opener]
	b.mu.Unlock()
	if w == nil {
		return
	}
	b.leave(e.TargetInfo.ID)
	b.c.post("", "Target.closeTarget", object{"targetId": e.TargetInfo.ID})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.problem("the page opened a window, which was closed: %s", clip(e.TargetInfo.URL))
}
