package template

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest"
)

const (
	browserTime = time.Minute            // for the browser to come up, once
	settleTime  = 700 * time.Millisecond // for what was started to come to rest
)

// Warm starts what a job is likely to use: the services, the kernels, and the
// browser once, so that what it writes at its first start is there. A machine
// whose image has none of these has nothing to be warmed.
func Warm(ctx context.Context, c *guest.Client, log *slog.Logger) error {
	start := time.Now()
	if err := c.StartServices(ctx); err != nil {
		return fmt.Errorf("start the services: %w", err)
	}
	log.Debug("template: the services run", "after", time.Since(start))
	if err := warmKernels(ctx, c, log); err != nil {
		return fmt.Errorf("start the kernels: %w", err)
	}
	log.Debug("template: the kernels run", "after", time.Since(start))
	if err := openBrowser(ctx, c); err != nil {
		// It starts on demand: a template without it is of use, too.
		log.Warn("the browser could not be opened in the template", "error", err)
	}
	return wait(ctx, settleTime)
}

// warmKernels starts the kernel that goes on in the machines of jobs; those of
// other languages would be ended, since they can't be given new random seeds.
func warmKernels(ctx context.Context, c *guest.Client, log *slog.Logger) error {
	err := c.WarmKernels(ctx, "python")
	if code := glovebox.CodeOf(err); code == glovebox.CodeNotFound || code == glovebox.CodeInvalid {
		log.Debug("template: the image has no such kernel", "error", err)
		return nil
	}
	return err
}

// openBrowser starts the browser and ends it.
func openBrowser(ctx context.Context, c *guest.Client) error {
	services, err := c.Services(ctx)
	if err != nil {
		return err
	}
	for _, s := range services {
		if s.Name != guest.ServiceBrowser {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, browserTime)
		defer cancel()
		if err := c.StartService(ctx, s.Name); err != nil {
			return err
		}
		return stopBrowser(ctx, c)
	}
	return nil
}

// endBrowser is run inside: it asks the browser's first process, which is the
// one without a type, to end as if its window had been closed.
const endBrowser = `for p in /proc/[0-9]*; do
	c=$(tr '\0' ' ' < $p/cmdline 2>/dev/null) || continue
	case "$c" in *--type=*) ;; *--remote-debugging-port*) kill -TERM ${p#/proc/} ;; esac
done`

// stopBrowser ends the browser and waits until it has.
func stopBrowser(ctx context.Context, c *guest.Client) error {
	if _, _, err := c.Run(ctx, guest.Command{ID: "template-browser", Args: []string{"sh", "-c", endBrowser}, NoStdin: true}, 0); err != nil {
		return err
	}
	for {
		services, err := c.Services(ctx)
		if err != nil {
			return err
		}
		running := false
		for _, s := range services {
			running = running || s.Name == guest.ServiceBrowser && s.Running
		}
		if !running {
			return nil
		}
		if err := wait(ctx, 50*time.Millisecond); err != nil {
			return fmt.Errorf("the browser does not end: %w", err)
		}
	}
}

// wait waits for d.
func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
