// Package pkgcache keeps packages on the host, so that what one job has
// installed the next installs without the network.
//
// It answers for names that exist only in a sandbox (hostconf.NPMCache,
// hostconf.PipCache): a registry of npm and an index of Python packages. What
// it does not have it fetches from the registry that the host is configured
// to use, with the host's credentials, which so never enter a sandbox. The
// policy of the job must allow that registry, for what is cached too.
//
// Files of packages never change and are kept until room is needed, the
// longest unused first; where their digest is known, what does not have it is
// not kept or passed on. Descriptions of packages are kept too, are asked
// about again after a while ([Fresh]), or at once if the package manager
// insists, and serve as they are when the registry can't be reached. Only what
// names a package is served: the rest of a registry's interface, which the
// host's credentials may open, is not.
package pkgcache

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/egress"
	"github.com/glovebox-dev/glovebox/internal/egress/hostconf"
)

// Fresh is how long the description of a package is served without asking
// the registry whether it has changed: as long as npm itself would.
//
// FreshUntagged is the same where the registry gives no ETag, so that asking
// means to fetch all of it again (tens of megabytes for one installation). A
// version that was published in that time is found with --prefer-online.
const (
	Fresh         = 5 * time.Minute
	FreshUntagged = 30 * time.Minute
)

// insisted is the same for a package manager that says "no-cache": there is
// no use in asking again for each package of one installation.
const insisted = 10 * time.Second

// Bounds of what is fetched.
const (
	maxFile  = 1 << 30
	maxIndex = 128 << 20
)

// The package managers' own defaults, put together from the suffixes that
// the default policy allows.
var (
	defaultNPM = "https://registry" + ".npmjs.org" + "/"
	defaultPip = "https://" + strings.TrimPrefix(".pypi.org", ".") + "/simple/"
)

// Cache serves package managers from a directory. Several processes may use
// the same one.
type Cache struct {
	disk   *disk
	key    []byte // signs the addresses of files in the Python index
	npm    hostconf.Registry
	scopes map[string]hostconf.Registry
	pip    hostconf.Registry
	flight singleflight.Group
	now    func() time.Time
}

// Open returns the cache in dir, which is made if it is not there. It keeps
// at most maxBytes.
func Open(dir string, maxBytes int64, c *hostconf.Config) (*Cache, error) {
	d, err := openDisk(dir, maxBytes)
	if err != nil {
		return nil, err
	}
	key, err := signingKey(filepath.Join(dir, "key"))
	if err != nil {
		return nil, err
	}
	x := &Cache{disk: d, key: key, npm: c.NPM, scopes: c.NPMScope, pip: c.Pip, now: time.Now}
	if x.npm.IsZero() {
		x.npm = hostconf.Registry{URL: defaultNPM}
	}
	if x.pip.IsZero() {
		x.pip = hostconf.Registry{URL: defaultPip}
	}
	return x, nil
}

// Handlers returns what to serve, for [egress.Options.Internal].
func (c *Cache) Handlers() map[string]egress.InternalHandler {
	return map[string]egress.InternalHandler{hostconf.NPMCache: c.serve(c.routeNPM), hostconf.PipCache: c.serve(c.routePip)}
}

// signingKey reads or makes the key, which outlives the process because pip
// keeps addresses in its own cache.
func signingKey(path string) ([]byte, error) {
	if b, err := os.ReadFile(path); err == nil && len(b) == 32 {
		return b, nil
	}
	b := make([]byte, 32)
	rand.Read(b)
	if err := os.WriteFile(path, b, 0o600); err != nil {
		return nil, glovebox.Errorf(glovebox.CodeUnavailable, "make the package cache's key: %w", err)
	}
	return b, nil
}

// want is what a request comes to: what to fetch, and how to treat it.
type want struct {
	url       string
	auth      string // of the host, for url
	accept    string
	immutable bool
	insist    bool                                           // what is kept must be quite new
	digest    func() digest                                  // of the file, where known
	rewrite   func(final *url.URL, b []byte) ([]byte, error) // of a description, before it is kept
}

// refusal is an answer that is not a package.
type refusal struct {
	status int
	msg    string
}

func (e *refusal) Error() string { return e.msg }

// unreachable is a registry that gives no answer for now.
type unreachable struct{ msg string }

func (e *unreachable) Error() string { return e.msg }

// serve makes a handler from a function that finds out what is wanted.
func (c *Cache) serve(route func(*http.Request) (*want, error)) egress.InternalHandler {
	return func(r *http.Request, out egress.Outside) (*http.Response, error) {
		r.Body.Close()
		resp, err := c.answer(r, out, route)
		if err == nil {
			return resp, nil
		}
		if f, ok := errors.AsType[*refusal](err); ok {
			return text(r, f.status, f.msg), nil
		}
		if f, ok := errors.AsType[*unreachable](err); ok {
			return text(r, http.StatusBadGateway, f.msg), nil
		}
		return nil, err
	}
}

func (c *Cache) answer(r *http.Request, out egress.Outside, route func(*http.Request) (*want, error)) (*http.Response, error) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return nil, &refusal{http.StatusMethodNotAllowed, "the package cache only reads"}
	}
	w, err := route(r)
	if err != nil {
		return nil, err
	}
	w.insist = strings.Contains(r.Header.Get("Cache-Control"), "no-cache")
	u, err := url.Parse(w.url)
	if err != nil {
		return nil, &refusal{http.StatusNotFound, "there is no such package"}
	}
	port := portOf(u)
	v := out.Check(u.Hostname(), port)
	if !v.Allowed {
		out.Record(glovebox.EgressAttempted{Host: u.Hostname(), Port: int(port), Reason: v.Reason, Count: 1})
		return nil, &refusal{http.StatusForbidden, v.Reason}
	}
	e, hit, err := c.find(r.Context(), w, out)
	if err != nil {
		return nil, err
	}
	resp, err := c.respond(r, e)
	if err == nil && hit {
		resp.Body = &recorded{ReadCloser: resp.Body, out: out, e: glovebox.EgressAttempted{
			Host: u.Hostname(), Port: int(port), Allowed: true, Reason: v.Reason + ", from the package cache", Count: 1, Cached: true}}
	}
	return resp, err
}

// recorded is the body of an answer that needed no network. When it is closed,
// it is recorded with what was read of it.
type recorded struct {
	io.ReadCloser
	out  egress.Outside
	e    glovebox.EgressAttempted
	once sync.Once
}

// Read reads and counts.
func (r *recorded) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	r.e.BytesDown += int64(n)
	return n, err
}

// Close records.
func (r *recorded) Close() error {
	err := r.ReadCloser.Close()
	r.once.Do(func() { r.out.Record(r.e) })
	return err
}

func portOf(u *url.URL) uint16 {
	if n, err := strconv.ParseUint(u.Port(), 10, 16); err == nil {
		return uint16(n)
	}
	if u.Scheme == "http" {
		return 80
	}
	return 443
}

// find returns what is kept for w, fetching it if need be. hit says that no
// network was needed.
func (c *Cache) find(ctx context.Context, w *want, out egress.Outside) (e *entry, hit bool, err error) {
	old := c.disk.get(w.key())
	if old != nil && (w.immutable || c.now().Sub(old.FetchedAt) < w.fresh(old)) {
		return old, true, nil
	}
	for {
		v, err, shared := c.flight.Do(w.key(), func() (any, error) { return c.fetch(ctx, w, old, out) })
		switch {
		case err == nil:
			return v.(*entry), false, nil
		case shared && ctx.Err() == nil && errors.Is(err, context.Canceled):
			continue // it was another job's request that ended
		}
		_, refused := errors.AsType[*refusal](err)
		if old != nil && !refused && !egress.IsDenied(err) && ctx.Err() == nil {
			return old, true, nil
		}
		return nil, false, err
	}
}

// fresh is how old what is kept may be.
func (w *want) fresh(e *entry) time.Duration {
	switch {
	case w.insist:
		return insisted
	case e.ETag == "":
		return FreshUntagged
	}
	return Fresh
}

// fetch gets w from its registry and keeps it.
func (c *Cache) fetch(ctx context.Context, w *want, old *entry, out egress.Outside) (*entry, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url, nil)
	if err != nil {
		return nil, &refusal{http.StatusNotFound, "there is no such package"}
	}
	if w.auth != "" {
		req.Header.Set("Authorization", w.auth)
	}
	if w.accept != "" {
		req.Header.Set("Accept", w.accept)
	}
	if !w.immutable {
		req.Header.Set("Accept-Encoding", "gzip")
	}
	req.Header.Set("User-Agent", "glovebox")
	if old != nil && old.ETag != "" {
		req.Header.Set("If-None-Match", old.ETag)
	}
	client := http.Client{Transport: out} // redirects too are held to the policy
	resp, err := client.Do(req)
	if err != nil {
		if ue, ok := errors.AsType[*url.Error](err); ok {
			err = ue.Err
		}
		if egress.IsDenied(err) || ctx.Err() != nil {
			return nil, err
		}
		// The cause may name what of the host's network the sandbox has no
		// business to know.
		return nil, &unreachable{"the registry " + req.URL.Host + " can't be reached"}
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusNotModified && old != nil:
		return c.disk.refresh(old, c.now()), nil
	case resp.StatusCode >= 500:
		return nil, &unreachable{fmt.Sprintf("the registry answered %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))}
	case resp.StatusCode != http.StatusOK:
		return nil, &refusal{resp.StatusCode, fmt.Sprintf("the registry answered %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))}
	}
	if w.immutable {
		return c.keepFile(w, resp)
	}
	return c.keepIndex(w, resp)
}

func (c *Cache) keepFile(w *want, resp *http.Response) (*entry, error) {
	var want digest
	if w.digest != nil {
		want = w.digest()
	}
	return c.disk.put(w.key(), meta{URL: w.url, Type: resp.Header.Get("Content-Type"), FetchedAt: c.now()}, resp.Body, maxFile, resp.ContentLength, want)
}

// key names w on disk. What is accepted decides what comes back.
func (w *want) key() string { return hash(w.url + "\n" + w.accept) }

// respond answers a request with what is kept.
func (c *Cache) respond(r *http.Request, e *entry) (*http.Response, error) {
	resp := text(r, http.StatusOK, "")
	resp.Header.Set("Content-Type", e.Type)
	resp.Header.Set("Cache-Control", "max-age=300")
	if e.ETag != "" {
		resp.Header.Set("ETag", e.ETag)
		if r.Header.Get("If-None-Match") == e.ETag {
			resp.StatusCode = http.StatusNotModified
			return resp, nil
		}
	}
	body, size, err := c.disk.open(e, strings.Contains(r.Header.Get("Accept-Encoding"), "gzip"))
	if err != nil {
		return nil, err
	}
	if e.Gzip && size == e.Size {
		resp.Header.Set("Content-Encoding", "gzip")
	}
	resp.ContentLength = size
	if r.Method == http.MethodHead {
		body.Close()
		body = http.NoBody
	}
	resp.Body = body
	return resp, nil
}

func text(r *http.Request, status int, msg string) *http.Response {
	if msg != "" {
		msg = "glovebox: " + msg + "\n"
	}
	return &http.Response{StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header:        http.Header{"Content-Type": {"text/plain; charset=utf-8"}},
		ContentLength: int64(len(msg)), Body: io.NopCloser(strings.NewReader(msg))}
}
