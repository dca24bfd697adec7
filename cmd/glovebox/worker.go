//go:build linux

package main

import (
	"context"
	"fmt"

	"github.com/glovebox-dev/glovebox"
)

// workerCmd runs jobs without the API.
type workerCmd struct {
	settings
}

// Run runs jobs until it is told to end.
func (c *workerCmd) Run(a *app) error {
	cfg, log, err := c.start(a, nil)
	if err != nil {
		return err
	}
	if cfg.Concurrency == 0 {
		return glovebox.Invalid("concurrency", "give a number from 1 on", "a worker that runs no jobs does nothing")
	}
	b, err := open(cfg, log)
	if err != nil {
		return err
	}
	defer b.close()
	ctx, stop := interruptible()
	defer stop()
	if err := b.ensureImage(ctx, nil); err != nil {
		return err
	}
	w := b.worker(cfg.NeedsTokens())
	if err := w.Start(context.Background()); err != nil {
		return err
	}
	defer b.keepWarm()()
	fmt.Fprintf(a.stdout, "A worker runs jobs of %s, %d at once\n", cfg.Data, cfg.Concurrency)
	<-ctx.Done()
	log.Info("stopping: running jobs are handed over")
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	return w.Stop(ctx)
}
