//go:build linux

package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/api"
	"github.com/glovebox-dev/glovebox/internal/blob/disk"
	"github.com/glovebox-dev/glovebox/internal/config"
	"github.com/glovebox-dev/glovebox/internal/egress"
	"github.com/glovebox-dev/glovebox/internal/egress/hostconf"
	"github.com/glovebox-dev/glovebox/internal/egress/pkgcache"
	"github.com/glovebox-dev/glovebox/internal/guest"
	"github.com/glovebox-dev/glovebox/internal/image"
	"github.com/glovebox-dev/glovebox/internal/live"
	"github.com/glovebox-dev/glovebox/internal/llm"
	"github.com/glovebox-dev/glovebox/internal/llm/embed"
	"github.com/glovebox-dev/glovebox/internal/llm/replay"
	"github.com/glovebox-dev/glovebox/internal/llm/resolve"
	"github.com/glovebox-dev/glovebox/internal/memory"
	"github.com/glovebox-dev/glovebox/internal/memory/recall"
	"github.com/glovebox-dev/glovebox/internal/project"
	"github.com/glovebox-dev/glovebox/internal/sandbox"
	"github.com/glovebox-dev/glovebox/internal/sandbox/docker"
	"github.com/glovebox-dev/glovebox/internal/sandbox/gvisor"
	"github.com/glovebox-dev/glovebox/internal/store/sqlite"
	"github.com/glovebox-dev/glovebox/internal/telemetry"
	"github.com/glovebox-dev/glovebox/internal/tool"
	"github.com/glovebox-dev/glovebox/internal/worker"
)

// This file is the only one that knows which backends there are.

// driver is what makes sandboxes, and what has to be told about it.
type driver struct {
	sandbox.Driver
	image bool // it needs the machine image
	close func() error
	check func(context.Context) error // whether what it needs of this machine is there; may be nil
	run   func(context.Context)       // what it does in the background for servers; may be nil
}

// drivers are the kinds of driver, by name. Tests add one.
var drivers = map[string]func(config.Config) (driver, error){
	"gvisor": func(c config.Config) (driver, error) {
		d, err := gvisor.New(gvisor.Options{StateDir: c.Path("gvisor"), DefaultImage: image.Store{Dir: c.Path("images")}.Path(image.Digest())})
		if err != nil {
			return driver{}, err
		}
		return driver{Driver: d, image: true, close: d.Close}, nil
	},
	"docker": func(c config.Config) (driver, error) {
		o := docker.Options{Host: c.Docker.Host, Runtime: c.Docker.Runtime, Owner: c.Path("docker"), Image: c.Docker.Image}
		ours := o.Image == ""
		if ours {
			o.Image = "glovebox-machine:" + image.Digest()
			o.Load = loadImage(image.Store{Dir: c.Path("images")}, o.Image)
		}
		d, err := docker.New(o)
		if err != nil {
			return driver{}, err
		}
		return driver{Driver: d, image: ours, close: d.Close, check: d.Check}, nil
	},
}

func driverNames() []string { return slices.Sorted(maps.Keys(drivers)) }

// release is the release of Debian that the machine image is made of.
const release = "trixie"

// backend is what a server is made of.
type backend struct {
	cfg      config.Config
	log      *slog.Logger
	store    *sqlite.Store
	blobs    *disk.Store
	projects *project.Store
	live     *live.Hub
	registry *prometheus.Registry
	driver   driver
	policy   egress.Defaults
	internal map[string]egress.InternalHandler
	settings guest.Settings
	record   io.Writer // gets the conversations; nil for none

	undo []func() error
}

// close takes the backend down, the newest part first.
func (b *backend) close() error {
	var errs []error
	for _, f := range slices.Backward(b.undo) {
		errs = append(errs, f())
	}
	b.undo = nil
	return errors.Join(errs...)
}

// openStore opens the database alone.
func openStore(cfg config.Config) (*backend, error) {
	b := &backend{cfg: cfg, log: slog.New(slog.DiscardHandler)}
	if err := os.MkdirAll(cfg.Data, 0o700); err != nil {
		return nil, &glovebox.Error{Code: glovebox.CodeUnavailable, Op: "make the data directory", Msg: cfg.Data, Err: err, Hint: "name another one with --data"}
	}
	var err error
	if b.store, err = sqlite.Open(cfg.Path("glovebox.db"), sqlite.Options{}); err != nil {
		return nil, err
	}
	b.undo = append(b.undo, b.store.Close)
	return b, nil
}

// open opens everything.
func open(cfg config.Config, log *slog.Logger) (_ *backend, err error) {
	b, err := openStore(cfg)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			b.close()
		}
	}()
	b.log, b.live, b.registry = log, new(live.Hub), telemetry.NewRegistry(version)
	if b.blobs, err = disk.Open(cfg.Path("blobs")); err != nil {
		return nil, err
	}
	b.undo = append(b.undo, b.blobs.Close)
	b.projects = project.NewStore(b.blobs, nil)
	stop, err := telemetry.StartTracing(context.Background(), "glovebox", version, log)
	if err != nil {
		return nil, err
	}
	b.undo = append(b.undo, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		return stop(ctx)
	})
	if b.driver, err = drivers[cfg.Driver](cfg); err != nil {
		return nil, err
	}
	if b.driver.close != nil {
		b.undo = append(b.undo, b.driver.close)
	}
	if err := b.openNetwork(); err != nil {
		return nil, err
	}
	stopWarm, err := b.warm()
	if err != nil {
		return nil, err
	}
	b.undo = append(b.undo, stopWarm)
	return b, nil
}

// openNetwork finds out what sandboxes may reach and how.
func (b *backend) openNetwork() error {
	host := hostconf.Read(hostconf.System())
	for _, w := range host.Warnings {
		b.log.Warn("configuration of the host's package managers", "warning", w)
	}
	b.policy.Allow = slices.Clone(b.cfg.Egress.Allow)
	if b.cfg.Egress.Public {
		b.policy.Allow = append(b.policy.Allow, hostconf.Public()...)
	}
	certs := host.CAs
	if b.cfg.Egress.Host {
		b.policy.Mirrors = host.Defaults().Mirrors
	} else {
		host = &hostconf.Config{CAs: certs}
	}
	o := hostconf.Options{Release: release}
	if n := b.cfg.Packages.MaxBytes; n > 0 {
		cache, err := pkgcache.Open(b.cfg.Path("packages"), n, host)
		if err != nil {
			return err
		}
		b.internal = cache.Handlers()
		o.NPMCache, o.PipCache = true, true
	}
	b.settings = host.Settings(o)
	_, err := egress.Compile(glovebox.Egress{}, b.policy)
	return err
}

// api returns the HTTP API. w may be nil: no job runs in this process.
func (b *backend) api(w *worker.Worker, tokens bool) (*api.API, error) {
	key, err := api.LoadKey(b.cfg.Path("key"))
	if err != nil {
		return nil, err
	}
	o := api.Options{
		Key: key, PublicURL: b.cfg.PublicURL, PreviewDomain: b.cfg.PreviewDomain,
		Store: b.store, Blobs: b.blobs, Projects: b.projects, Live: b.live, Log: b.log, Registry: b.registry, Version: version,
		DefaultModel: b.defaultModel(), DefaultLimits: b.cfg.Limits, RequireTokens: tokens, AllowedHosts: b.cfg.AllowedHosts,
		CheckModel: func(name string) error { return b.checkModel(name, tokens) },
		MemoryOptions: func(_ context.Context, name string) (memory.Options, error) {
			if name == "" {
				name = b.defaultModel()
			}
			// Of a model that can't be had any more little is known; that the
			// request may be another one then is said beside it.
			_, info, _ := b.resolve(name, tokens)
			return tool.Memory(tool.All(), nil, info), nil
		},
		CheckEgress: func(e glovebox.Egress) error {
			_, err := egress.Compile(e, b.policy)
			return err
		},
	}
	if w != nil {
		o.Guest = func(id string) (api.Machine, bool) {
			c, ok := w.Guest(id)
			return api.NewMachine(c), ok
		}
	}
	return api.New(o), nil
}

// worker returns a worker that is not started.
func (b *backend) worker(tokens bool) *worker.Worker {
	return worker.New(worker.Options{
		Concurrency: b.cfg.Concurrency, Presence: b.cfg.Path("workers"), Store: b.store, Blobs: b.blobs, Projects: b.projects, Live: b.live,
		Driver: b.driver.Driver, DriverName: b.cfg.Driver,
		Models: func(_ context.Context, name string) (llm.Model, llm.Info, error) {
			if name == "" {
				name = b.defaultModel()
			}
			m, info, err := b.resolve(name, tokens)
			if err == nil && b.record != nil {
				m = replay.Record(m, b.record)
			}
			return m, info, err
		},
		Recall: b.recall(), Digests: b.cfg.Memory.Summaries == "digest",
		Desktop:        b.cfg.Desktop,
		EgressDefaults: b.policy, Egress: egress.Options{Internal: b.internal}, GuestSettings: b.settings,
		Metrics: b.registry, Log: b.log,
	})
}

// recall returns where the search indexes of jobs are.
func (b *backend) recall() *recall.Keeper {
	k := &recall.Keeper{Dir: b.cfg.Path("recall")}
	if e := b.cfg.Memory.Embeddings; e.URL != "" {
		k.Embed = &embed.Client{URL: e.URL, Model: e.Model, Key: os.Getenv("GLOVEBOX_EMBEDDINGS_KEY")}
	}
	return k
}

// defaultModel is the model of jobs that name none, empty if there is none.
func (b *backend) defaultModel() string {
	if b.cfg.Model != "" {
		return b.cfg.Model
	}
	return resolve.Default(os.Getenv)
}

// resolve returns a model. Where strangers give names (that is where tokens
// are asked for), a recording other than the operator's own default must be
// in the data directory, so that a name can't make the server open any file.
func (b *backend) resolve(name string, strangers bool) (llm.Model, llm.Info, error) {
	o := resolve.Options{Overrides: overrides(b.cfg)}
	if strangers && name != b.defaultModel() {
		o.ReplayDir = b.cfg.Path("replays")
	}
	return o.Resolve(name, os.Getenv)
}

// checkModel returns an error for a model that jobs can't have. Where they are
// run by workers elsewhere, which may have keys and a default that this
// process has not, it knows of recordings alone and of what is no name.
func (b *backend) checkModel(name string, strangers bool) error {
	if b.cfg.Concurrency == 0 {
		if name == "" {
			return nil
		}
		if kind, _, err := resolve.Split(name); err != nil || kind != "replay" {
			return err
		}
	}
	_, _, err := b.resolve(name, strangers)
	return err
}

// ensureImage builds the machine image if it is missing and can be built.
// Otherwise it returns an error that says what to do.
func (b *backend) ensureImage(ctx context.Context, progress io.Writer) error {
	if !b.driver.image {
		return nil
	}
	s := image.Store{Dir: b.cfg.Path("images")}
	if _, err := s.Current(); err == nil {
		return nil
	}
	_, err := s.Build(ctx, image.BuildOptions{Log: progress, Host: buildHost()})
	return err
}

// lockedWriter is a writer for many goroutines.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

// Write writes in one piece.
func (l *lockedWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}
