package browser

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/glovebox-dev/glovebox"
)

// Times of opening a page.
const (
	defaultLoad = 30 * time.Second       // until it has loaded
	quietFor    = 500 * time.Millisecond // without a request under way, it has settled
	settleFor   = 5 * time.Second        // at most, after it has loaded: some never fall quiet
	answersIn   = 8 * time.Second        // a page that runs, on a busy machine
)

// Size of the viewport of pages that are opened with one.
const (
	ViewportWidth  = 1280
	ViewportHeight = 800
)

// OpenOptions says how to open a page.
type OpenOptions struct {
	Timeout time.Duration // to load in; 0 means 30 s

	// Viewport gives the page 1280 x 800 pixels while the Page is open,
	// whatever the size of the window: pictures of it can be compared. Places
	// on the screen are then not known.
	Viewport bool
}

// Page is a tab that is looked at.
type Page struct {
	b       *Browser
	target  string
	session string
	url     string // that was asked for
	view    bool   // it has the viewport of OpenOptions
	watch   *watch
}

// Open shows a URL, which [CheckURL] must accept, in a tab: one that shows it
// already, which is loaded anew, or an empty or new one, which comes to the
// front. It returns when the page has loaded and settled, or can't be.
//
// A page that was not found, fails or never ends loading is no error: see
// [Page.Report]. An error means that the browser could not be used, with
// CodeInvalid that the URL is not one to open.
func (b *Browser) Open(ctx context.Context, rawURL string, o OpenOptions) (*Page, error) {
	u, err := CheckURL("url", rawURL)
	if err != nil {
		return nil, err
	}
	if o.Timeout <= 0 {
		o.Timeout = defaultLoad
	}
	id, used, err := b.tab(ctx, u)
	if err != nil {
		return nil, err
	}
	p, err := b.attach(ctx, id, o.Viewport)
	if err != nil && used && ctx.Err() == nil && b.c.ctx.Err() == nil {
		// It hangs, or a dialog holds it. What we were to show in it starts in a tab that works.
		b.closeTab(ctx, id)
		if id, err = b.newTab(ctx); err == nil {
			p, err = b.attach(ctx, id, o.Viewport)
		}
	}
	if err != nil {
		return nil, err
	}
	p.url = u
	if err := p.load(ctx, o.Timeout); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// Front returns the page that is in front, as it is, without loading it. It
// returns CodeNotFound if there is no tab.
func (b *Browser) Front(ctx context.Context) (*Page, error) {
	tabs, err := b.tabs(ctx)
	if err != nil {
		return nil, err
	}
	for _, t := range tabs {
		p, err := b.attach(ctx, t.ID, false)
		if err != nil {
			if b.c.ctx.Err() != nil || ctx.Err() != nil {
				return nil, err
			}
			continue // it hangs
		}
		p.url = t.URL
		var shown bool
		if p.eval(ctx, `document.visibilityState === "visible"`, &shown) == nil && shown {
			return p, p.look(ctx)
		}
		p.Close()
	}
	return nil, &glovebox.Error{Code: glovebox.CodeNotFound, Msg: "the browser shows no page", Hint: "open one first"}
}

// attach begins to look at a tab.
func (b *Browser) attach(ctx context.Context, id string, view bool) (*Page, error) {
	var at struct {
		Session string `json:"sessionId"`
	}
	if err := b.c.call(ctx, "", "Target.attachToTarget", object{"targetId": id, "flatten": true}, &at); err != nil {
		return nil, err
	}
	p := &Page{b: b, target: id, session: at.Session, view: view}
	p.watch = newWatch(func(method string, params object) { b.c.post(at.Session, method, params) })
	b.c.handle(at.Session, p.watch.event)
	brief, cancel := context.WithTimeoutCause(ctx, answersIn, errSilent)
	defer cancel()
	for _, cmd := range []struct {
		method string
		params object
	}{
		{"Inspector.enable", nil}, {"Page.enable", nil}, {"Runtime.enable", nil}, {"Log.enable", nil},
		{"Network.enable", object{"maxTotalBufferSize": 1 << 20, "maxResourceBufferSize": 1 << 20, "maxPostDataSize": 0}},
	} {
		if err := p.call(brief, cmd.method, cmd.params, nil); err != nil {
			p.Close()
			return nil, err
		}
	}
	if view {
		if err := p.call(brief, "Emulation.setDeviceMetricsOverride", object{"width": ViewportWidth, "height": ViewportHeight, "deviceScaleFactor": 1, "mobile": false}, nil); err != nil {
			p.Close()
			return nil, err
		}
	}
	return p, nil
}

// Close stops looking at the page, which stays open in its tab. One that hung
// or crashed is closed.
func (p *Page) Close() {
	if p.watch.broken() {
		p.b.closeTab(context.Background(), p.target)
	}
	p.b.forget(p.target)
	p.b.c.handle(p.session, nil)
	if p.b.c.ctx.Err() == nil {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		_ = p.b.c.call(ctx, "", "Target.detachFromTarget", object{"sessionId": p.session}, nil) // takes what was overridden with it
	}
}

// call sends a command to the page and waits for its answer, at most 10 s. If
// the page crashes meanwhile, the call fails.
func (p *Page) call(ctx context.Context, method string, params object, result any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, callTimeout, errSilent)
	defer cancel()
	return p.callUntimed(ctx, method, params, result)
}

// callUntimed is call for as long as ctx.
func (p *Page) callUntimed(ctx context.Context, method string, params object, result any) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(p.watch.dead, func() { cancel(errCrashed) })
	defer stop()
	return p.b.c.callUntimed(ctx, p.session, method, params, result)
}

// load navigates and waits.
func (p *Page) load(ctx context.Context, limit time.Duration) error {
	lctx, cancel := p.b.within(ctx, limit)
	defer cancel()
	_ = p.call(lctx, "Page.bringToFront", nil, nil) // a picture is only made of a tab in front
	p.b.keep(p.target, p.watch)
	var nav struct {
		Loader string `json:"loaderId"`
		Error  string `json:"errorText"`
		Save   bool   `json:"isDownload"`
	}
	err := p.navigate(lctx, &nav)
	switch {
	case ctx.Err() != nil:
		return unavailable(ctx, "open "+clip(p.url), ctx.Err())
	case p.b.c.ctx.Err() != nil:
		return unavailable(ctx, "open "+clip(p.url), context.Cause(p.b.c.ctx))
	case p.watch.dead.Err() != nil:
		p.watch.failed("the page crashed its tab")
		return nil
	case errors.Is(err, errSlow):
		p.stop(ctx)
		p.watch.failed(fmt.Sprintf("it sent nothing within %v", limit))
		return nil
	case err != nil:
		return err
	case nav.Save:
		p.watch.failed("it is a download, not a page")
		return nil
	case nav.Error != "":
		p.watch.failed(explain(nav.Error))
		return nil
	}
	p.watch.await(nav.Loader)
	p.settle(lctx, limit)
	if ctx.Err() != nil {
		return unavailable(ctx, "open "+clip(p.url), ctx.Err())
	}
	if p.watch.dead.Err() != nil {
		p.watch.failed("the page crashed its tab")
		return nil
	}
	if p.watch.broken() {
		return nil
	}
	return p.look(ctx)
}

// loadWithin is [Browser.within] by the clock.
func loadWithin(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, d, errSlow)
}

// navigate sends the tab to the URL, by way of an empty page: a URL that
// differs from the one shown only in its fragment would not be loaded.
func (p *Page) navigate(ctx context.Context, result any) error {
	if err := p.call(ctx, "Page.navigate", object{"url": "about:blank"}, nil); err != nil {
		return err
	}
	p.watch.start()
	return p.callUntimed(ctx, "Page.navigate", object{"url": p.url}, result)
}

// stop ends loading what does not end by itself.
func (p *Page) stop(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = p.call(ctx, "Page.stopLoading", nil, nil)
}

// settle waits until the page has loaded and no request is under way.
func (p *Page) settle(ctx context.Context, limit time.Duration) {
	w := p.watch
	var loadedAt time.Time
	for {
		loaded, quiet := w.settled()
		if loaded && loadedAt.IsZero() {
			loadedAt = time.Now()
		}
		if !loaded {
			loadedAt = time.Time{}
		}
		wait := time.Hour
		if loaded {
			if quiet >= quietFor || time.Since(loadedAt) >= settleFor {
				return
			}
			wait = min(quietFor-quiet, settleFor-time.Since(loadedAt))
			if quiet == 0 { // something is under way
				wait = settleFor - time.Since(loadedAt)
			}
		}
		t := time.NewTimer(wait)
		select {
		case <-w.changed:
		case <-t.C:
		case <-w.dead.Done():
			t.Stop()
			return
		case <-p.b.c.ctx.Done():
			t.Stop()
			return
		case <-ctx.Done():
			t.Stop()
			if !loaded {
				p.stop(ctx)
				w.failed(fmt.Sprintf("it did not finish loading within %v", limit))
			}
			return
		}
		t.Stop()
	}
}

// look asks the page who it is, and so whether it still answers.
func (p *Page) look(ctx context.Context) error {
	var who struct{ Title, URL string }
	err := p.eval(ctx, `({Title: String(document.title).slice(0, 1000), URL: String(location.href).slice(0, 8192)})`, &who)
	switch {
	case err == nil:
		p.watch.identify(clean(who.Title, 200), clean(who.URL, 500))
	case ctx.Err() != nil:
		return unavailable(ctx, "look at "+clip(p.url), ctx.Err())
	case p.b.c.ctx.Err() != nil:
		return unavailable(ctx, "look at "+clip(p.url), context.Cause(p.b.c.ctx))
	case p.watch.dead.Err() != nil:
		p.watch.failed("the page crashed its tab")
	default:
		p.watch.hangs()
	}
	return nil
}

var (
	errCrashed = errors.New("the page crashed its tab")
	errSlow    = errors.New("the page took too long")
)

func clip(u string) string { return clean(u, 120) }
