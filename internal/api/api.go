package api

import (
	"context"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/blob"
	"github.com/glovebox-dev/glovebox/internal/guest"
	"github.com/glovebox-dev/glovebox/internal/history"
	"github.com/glovebox-dev/glovebox/internal/live"
	"github.com/glovebox-dev/glovebox/internal/memory"
	"github.com/glovebox-dev/glovebox/internal/project"
	"github.com/glovebox-dev/glovebox/internal/store"
)

// Store is what the API needs of a store.Store.
type Store interface {
	store.Jobs
	store.Signals
	store.Tokens
	Events(ctx context.Context, jobID string, after int64, limit int) ([]glovebox.Event, error)
	Watch(ctx context.Context, jobID string) <-chan struct{}
}

// Files reads the files of a running job. *guest.Client is one.
type Files interface {
	Stat(ctx context.Context, path string) (guest.Entry, error)
	ReadDir(ctx context.Context, path string) (entries []guest.Entry, more bool, err error)
	ReadFile(ctx context.Context, path string, offset, limit int64) (data []byte, size int64, err error)
}

// Options configures an API.
type Options struct {
	Store Store      // required
	Blobs blob.Store // required
	Live  *live.Hub  // what workers of this process publish; nil for none

	// Projects keeps the memories of projects. Whoever else changes them in
	// this process has to have the same one. nil: one in Blobs.
	Projects *project.Store

	// Guest returns the machine of a job that runs in this process. nil, or
	// false: the files and the live view of running jobs are not available here.
	Guest func(jobID string) (Machine, bool)

	// CheckModel returns an error for a model that jobs can't have. The empty
	// name is that of a job that names none where there is no DefaultModel.
	// nil accepts every name, and none.
	CheckModel func(name string) error
	// DefaultModel is the model of a job that names none. Empty: there is
	// none here; who runs the job may have one.
	DefaultModel string
	// DefaultLimits are the limits of a job that names none. The zero value
	// stands for glovebox.DefaultLimits.
	DefaultLimits glovebox.Limits
	// MemoryOptions returns what the requests of jobs to a model depend on
	// beside their logs. nil: requests are not shown here.
	MemoryOptions func(ctx context.Context, model string) (memory.Options, error)
	// CheckEgress returns an error for rules that don't compile. nil checks
	// their form alone.
	CheckEgress func(glovebox.Egress) error
	// MaxArchive bounds an input archive, in bytes. 0 means 512 MiB.
	MaxArchive int64

	// RequireTokens refuses requests without a token. Without it, requests
	// without a token act for glovebox.DefaultTenant.
	RequireTokens bool
	// AllowedHosts are host names, without port, that requests may be
	// addressed to, beside loopback. With RequireTokens and none listed, every
	// host is allowed.
	AllowedHosts []string

	// Key seals links; see LoadKey. Empty: a random one, and links end with
	// the process.
	Key []byte
	// PublicURL is the address under which people reach the server, with the
	// path prefix that a proxy in front of it may have added; the server takes
	// requests with and without that prefix. Empty: not known.
	PublicURL string
	// PreviewDomain is a domain, with a port if it is not the usual one, whose
	// subdomains all lead here. What sandboxes serve gets an origin below it.
	// Empty: below localhost for who uses the server by that name, else none.
	PreviewDomain string

	Log      *slog.Logger         // nil discards
	Registry *prometheus.Registry // nil makes one
	Version  string               // of the server
	Now      func() time.Time     // nil means time.Now

	// BodyTimeout is how long a request body may take; one that is an archive
	// must go on within this time again and again. 0 means 30 s.
	BodyTimeout time.Duration
	// Heartbeat is how often a comment goes over an idle event stream. 0
	// means 15 s.
	Heartbeat time.Duration
	// WriteTimeout is how long one write to a client may block. One that takes
	// nothing for so long is cut off, and can resume. 0 means 1 min.
	WriteTimeout time.Duration
}

// API serves the HTTP API. It is an http.Handler.
type API struct {
	o         Options
	mux       *http.ServeMux
	spec      []byte
	cross     *http.CrossOriginProtection
	hosts     map[string]bool
	feeds     feeds
	auth      authenticator
	metrics   *metrics
	positions positions
	stories   stories
	ready     readiness
	history   *history.Cache
	seals     sealer
	public    *url.URL // nil if not known
	prefix    string   // of paths, that a proxy may not have taken away; no slash at its end
	lives     lives
	builds    chan struct{} // a place for each request that is built from its log

	drain     chan struct{} // closed by Drain
	drainOnce sync.Once
}

// New returns an API. It panics if Store or Blobs is missing.
func New(o Options) *API {
	if o.Store == nil || o.Blobs == nil {
		panic("api: Store and Blobs are required")
	}
	o.setDefaults()
	a := &API{o: o, mux: http.NewServeMux(), cross: http.NewCrossOriginProtection(), hosts: map[string]bool{}, drain: make(chan struct{}), builds: make(chan struct{}, maxRequestBuilds)}
	for _, h := range o.AllowedHosts {
		a.hosts[normalHost(h)] = true
	}
	a.seals, a.public = newSealer(o.Key), publicURL(o.PublicURL)
	if a.public != nil {
		a.prefix = strings.TrimSuffix(a.public.Path, "/")
		a.hosts[normalHost(a.public.Host)] = true
		if err := a.cross.AddTrustedOrigin(a.public.Scheme + "://" + a.public.Host); err != nil {
			panic("api: PublicURL: " + err.Error()) // the configuration was validated
		}
	}
	a.ready.now, a.ready.wait = o.Now, readyWait
	a.lives.init(a)
	a.history = newHistory(&a.o)
	a.feeds.init(a)
	a.auth.init(o.Store, o.Now)
	a.metrics = newMetrics(o.Registry, o.Store, o.Log)
	a.register()
	return a
}

func (o *Options) setDefaults() {
	if o.DefaultLimits == (glovebox.Limits{}) {
		o.DefaultLimits = glovebox.DefaultLimits()
	}
	if o.MaxArchive == 0 {
		o.MaxArchive = 512 << 20
	}
	if o.Live == nil {
		o.Live = new(live.Hub)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Registry == nil {
		o.Registry = prometheus.NewRegistry()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Projects == nil {
		o.Projects = project.NewStore(o.Blobs, o.Now)
	}
	if o.BodyTimeout == 0 {
		o.BodyTimeout = 30 * time.Second
	}
	if o.Heartbeat == 0 {
		o.Heartbeat = 15 * time.Second
	}
	if o.WriteTimeout == 0 {
		o.WriteTimeout = time.Minute
	}
}

// Drain ends event streams and long polls cleanly; their clients connect
// again elsewhere. New ones end at once. Other requests are not affected.
func (a *API) Drain() { a.drainOnce.Do(func() { close(a.drain) }) }

// Spec returns the OpenAPI document, as it is at /openapi.json.
func (a *API) Spec() []byte { return a.spec }

// maxDirEntries bounds a listing; guests keep the same bound.
const maxDirEntries = 10_000

// dirEntry is the view of a file of a guest.
func dirEntry(e guest.Entry, name string) glovebox.DirEntry {
	d := glovebox.DirEntry{Name: name, Type: "other"}
	switch {
	case e.Mode.IsRegular():
		d.Type, d.Size = "file", e.Size
	case e.Mode.IsDir():
		d.Type = "dir"
	case e.Mode&fs.ModeSymlink != 0:
		d.Type = "symlink"
	}
	if !e.ModTime.IsZero() {
		t := e.ModTime.UTC()
		d.ModTime = &t
	}
	return d
}
