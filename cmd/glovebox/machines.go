//go:build linux

package main

import (
	"context"
	"sync"

	"github.com/glovebox-dev/glovebox/internal/image"
	"github.com/glovebox-dev/glovebox/internal/sandbox"
	"github.com/glovebox-dev/glovebox/internal/sandbox/pool"
	"github.com/glovebox-dev/glovebox/internal/sandbox/template"
)

// warm puts templates and a pool around a driver that can freeze machines, as
// far as the configuration wants them. closed gives up the pool.
func (b *backend) warm() (closed func() error, err error) {
	closed = func() error { return nil }
	base, ok := b.driver.Driver.(sandbox.Snapshotter)
	if !ok || !b.cfg.Templates {
		return closed, nil
	}
	img := image.Store{Dir: b.cfg.Path("images")}.Path(image.Digest())
	t, err := template.New(template.Options{Base: base, Dir: b.cfg.Path("templates"), Image: img, Limits: b.cfg.Limits,
		Settings: b.settings, Log: b.log})
	if err != nil {
		return nil, err
	}
	b.driver.Driver, b.driver.run = t, t.Run
	if b.cfg.Pool.Size == 0 {
		return closed, nil
	}
	p, err := pool.New(pool.Options{Base: t, Dir: b.cfg.Path("pool"), Image: img, Limits: b.cfg.Limits, Settings: b.settings, Size: b.cfg.Pool.Size,
		MinFree: b.cfg.Pool.MinFree, Ready: t.Ready, Log: b.log})
	if err != nil {
		return nil, err
	}
	b.driver.Driver = p
	b.driver.run = func(ctx context.Context) {
		var wg sync.WaitGroup
		wg.Go(func() { t.Run(ctx) })
		wg.Go(func() { p.Run(ctx) })
		wg.Wait()
	}
	return p.Close, nil
}

// keepWarm makes the template and fills the pool in the background until
// stop, which waits.
func (b *backend) keepWarm() (stop func()) {
	if b.driver.run == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.driver.run(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}
