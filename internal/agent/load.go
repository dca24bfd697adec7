package agent

import (
	"context"
	"runtime"
	"sync"

	"github.com/glovebox-dev/glovebox"
)

// page is a piece of a log that is read ahead.
type page struct {
	events []glovebox.Event
	sums   []*sum // of results
	err    error
	ready  chan struct{} // closed when all is decoded
}

// load reads the log as it is when a Run begins. Of a long job that is tens of
// megabytes: pages are fetched and decoded ahead, on all processors, and
// applied in their order.
func (r *run) load(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel()
	pages := make(chan *page, runtime.GOMAXPROCS(0))
	work.Go(func() {
		defer close(pages)
		for after := r.at.seq; ; {
			p := &page{ready: make(chan struct{})}
			p.events, p.err = r.Events(ctx, after, pageSize)
			n := len(p.events)
			after += int64(n)
			select {
			case pages <- p:
			case <-ctx.Done():
				return
			}
			work.Go(p.decode)
			if p.err != nil || n < pageSize {
				return
			}
		}
	})
	for p := range pages {
		<-p.ready
		if p.err != nil {
			return p.err
		}
		for i, e := range p.events {
			r.at.ahead = p.sums[i]
			if err := r.read(e); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

// decode does what takes time and depends on single events.
func (p *page) decode() {
	defer close(p.ready)
	p.sums = make([]*sum, len(p.events))
	for i, e := range p.events {
		e = e.ReadAhead()
		p.events[i] = e
		if e.Type != glovebox.EventToolFinished {
			continue
		}
		if f, err := glovebox.Decode[glovebox.ToolFinished](e); err == nil {
			s := sumOf(f)
			p.sums[i] = &s
		}
	}
}
