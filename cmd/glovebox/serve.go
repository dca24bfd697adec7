//go:build linux

package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/api"
	"github.com/glovebox-dev/glovebox/internal/config"
	"github.com/glovebox-dev/glovebox/internal/llm/resolve"
	"github.com/glovebox-dev/glovebox/internal/telemetry"
	"github.com/glovebox-dev/glovebox/internal/worker"
)

// stopTime is how long a server that is told to end waits for requests and
// for what its jobs are doing.
const stopTime = 20 * time.Second

// serveCmd serves the API and runs jobs.
type serveCmd struct {
	settings
	Listen    string   `placeholder:"HOST:PORT" help:"Where to serve (default: 127.0.0.1:8000). Beyond loopback it needs tokens: glovebox token create."`
	AllowHost []string `placeholder:"NAME" help:"Host name by which the API may be addressed; may be repeated." sep:"none"`
}

// Run serves until it is told to end.
func (c *serveCmd) Run(a *app) error {
	more := map[string]any{}
	if c.Listen != "" {
		more["listen"] = c.Listen
	}
	if len(c.AllowHost) > 0 {
		more["allowed_hosts"] = c.AllowHost
	}
	cfg, log, err := c.start(a, more)
	if err != nil {
		return err
	}
	b, err := open(cfg, log)
	if err != nil {
		return err
	}
	defer b.close()
	tokens, err := b.needsTokens()
	if err != nil {
		return err
	}
	ctx, stop := interruptible()
	defer stop()
	s, err := b.serve(ctx, cfg.Listen, tokens)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.stdout, "Glovebox listens on %s\n", s.URL())
	if s.Everywhere() {
		fmt.Fprintln(a.stdout, "and, at the same port, on every other address of this machine")
	}
	if cfg.PublicURL != "" {
		fmt.Fprintf(a.stdout, "People reach it at %s\n", cfg.PublicURL)
	}
	if cfg.Concurrency > 0 {
		go b.checkDriver(ctx)
		go b.prepareImage(ctx)
		defer b.keepWarm()()
	}
	if cfg.Concurrency > 0 && b.defaultModel() == "" {
		log.Warn("no model is configured: only jobs that name one are taken", "hint", resolve.Hint)
	}
	debug.FreeOSMemory() // half of the heap was for starting alone
	select {
	case <-ctx.Done():
		log.Info("stopping: running jobs are handed over")
		return s.stop()
	case <-s.Done():
		return s.stop()
	}
}

// start loads the configuration and makes the log.
func (s settings) start(a *app, more map[string]any) (config.Config, *slog.Logger, error) {
	cfg, err := s.load(a, more)
	if err != nil {
		return cfg, nil, err
	}
	log, err := telemetry.NewLog(a.stderr, telemetry.LogOptions{Format: cfg.Log.Format, Level: cfg.Log.Level})
	return cfg, log, err
}

// needsTokens says whether requests need tokens, and refuses to go on if they
// do and there are none.
func (b *backend) needsTokens() (bool, error) {
	if !b.cfg.NeedsTokens() {
		return false, nil
	}
	tokens, err := b.store.ListTokens(context.Background())
	if err == nil && len(tokens) == 0 {
		err = glovebox.Invalid("listen", "make one first: glovebox token create --tenant NAME --scope write"+b.dataFlag(),
			"requests to %s need a token (it can be reached from elsewhere, or tokens are asked for always), and there is no token", b.cfg.Listen)
	}
	return true, err
}

// dataFlag is what has to be added to a command for this data directory.
func (b *backend) dataFlag() string {
	if b.cfg.Data == config.Default().Data {
		return ""
	}
	return " --data " + b.cfg.Data
}

// checkDriver warns if the driver lacks what it needs: it may come later, and
// until then jobs end with the same words.
func (b *backend) checkDriver(ctx context.Context) {
	if b.driver.check == nil {
		return
	}
	if err := b.driver.check(ctx); err != nil && ctx.Err() == nil {
		b.log.Warn("jobs can't run: the driver "+b.cfg.Driver+" can't make sandboxes", "error", err)
	}
}

// prepareImage builds the machine image if it is missing. Jobs that come
// before it is there end with the command that builds it.
func (b *backend) prepareImage(ctx context.Context) {
	var building onFirst
	start := time.Now()
	building.do = func() {
		b.log.Info("the machine image is missing: building it, once; this takes five minutes or so, and jobs fail until it is there")
	}
	err := b.ensureImage(ctx, &building)
	switch {
	case err != nil && ctx.Err() == nil:
		b.log.Warn("jobs can't run: the machine image is missing", "error", err, "command", "glovebox image build"+b.dataFlag())
	case err == nil && building.done():
		b.log.Info("the machine image is built", "took", time.Since(start).Round(time.Second))
	}
}

// onFirst is a writer that drops what it gets and does something when the
// first of it comes.
type onFirst struct {
	mu     sync.Mutex
	do     func()
	called bool
}

// Write notes that something came.
func (o *onFirst) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.called {
		o.called = true
		o.do()
	}
	return len(p), nil
}

// done reports whether something came.
func (o *onFirst) done() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.called
}

// server is an API with a worker beside it.
type server struct {
	*api.Server
	worker *worker.Worker // nil if it runs no jobs
}

// serve starts the worker and the API.
func (b *backend) serve(ctx context.Context, listen string, tokens bool) (*server, error) {
	s := &server{}
	if b.cfg.Concurrency > 0 {
		s.worker = b.worker(tokens)
	}
	handler, err := b.api(s.worker, tokens)
	if err != nil {
		return nil, err
	}
	if s.Server, err = api.StartServer(api.ServerOptions{Listen: listen, Handler: handler, Log: b.log}); err != nil {
		return nil, err
	}
	if s.worker == nil {
		return s, nil
	}
	// The worker ends by stop, which waits for it, and not when ctx does.
	if err := s.worker.Start(context.WithoutCancel(ctx)); err != nil {
		s.worker = nil
		_ = s.stop() // err is why
		return nil, err
	}
	return s, nil
}

// stop ends the API and hands running jobs over.
func (s *server) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	failed := s.Err()
	done := make(chan error, 1)
	go func() {
		if s.worker == nil {
			done <- nil
			return
		}
		done <- s.worker.Stop(ctx)
	}()
	_ = s.Stop(ctx) // what it cuts off is answered by the next server
	if err := <-done; err != nil {
		return err
	}
	return failed
}

// startLocal starts a server for one run in this process, on the data
// directory, and returns its URL.
func (c *runCmd) startLocal(a *app) (url string, stop func(), err error) {
	cfg, log, err := c.localConfig(a)
	if err != nil {
		return "", nil, err
	}
	if cfg.Model == "" && resolve.Default(os.Getenv) == "" {
		return "", nil, glovebox.Invalid("model", resolve.Hint, "none is configured")
	}
	b, err := open(cfg, log)
	if err != nil {
		return "", nil, err
	}
	defer func() {
		if err != nil {
			b.close()
		}
	}()
	if c.Record != "" {
		f, err := os.OpenFile(c.Record, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
		if err != nil {
			return "", nil, glovebox.Invalid("record", "name a file that can be written", "%s", err)
		}
		b.record = &lockedWriter{w: f}
		b.undo = append(b.undo, f.Close)
	}
	if err := b.checkModel(b.defaultModel(), false); err != nil { // before minutes go into an image
		return "", nil, err
	}
	ctx, release := interruptible()
	defer release()
	if err := b.buildFirst(ctx, a); err != nil {
		return "", nil, err
	}
	s, err := b.serve(ctx, "127.0.0.1:0", false)
	if err != nil {
		return "", nil, err
	}
	return s.URL(), func() {
		if err := s.stop(); err != nil {
			fmt.Fprintln(a.stderr, "glovebox:", plain(err.Error()))
		}
		b.close()
	}, nil
}

// localConfig is the configuration of a server for one run: quiet unless
// asked, since the terminal belongs to the job.
func (c *runCmd) localConfig(a *app) (config.Config, *slog.Logger, error) {
	more := map[string]any{}
	if c.LogLevel == "" && a.getenv("GLOVEBOX_LOG_LEVEL") == "" {
		more["log.level"] = "error"
	}
	return c.start(a, more)
}

// buildFirst builds the machine image if it is missing, and says that
// something long is going on and how long it took.
func (b *backend) buildFirst(ctx context.Context, a *app) error {
	var building onFirst
	start := time.Now()
	building.do = func() {
		fmt.Fprintln(a.stderr, "Building the machine image, once; this takes five minutes or so ...")
	}
	err := b.ensureImage(ctx, &building)
	if building.done() {
		fmt.Fprintf(a.stderr, "... %s\n", time.Since(start).Round(time.Second))
	}
	return err
}
