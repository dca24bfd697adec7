package guest

import (
	"bufio"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest/wire"
)

const (
	// pipelined is the size up to which files go over a pipeline, so that a
	// large one does not hold up small ones for long.
	pipelined = wire.ChunkSize

	// maxPending is how many requests may wait for their answers. Each keeps
	// about as much memory as pipelined at either end.
	maxPending = 64
)

// pipeline is a stream for requests that are answered in order. Nobody waits
// for the answers to earlier ones before sending, and what is sent at the same
// time goes out together: the guest then takes less time for each, because it
// is woken, and takes on the identity of its user, once for many.
type pipeline struct {
	st   *yamux.Stream
	wake chan struct{} // there is something in out
	slot chan struct{} // bounds what is pending
	done chan struct{} // closed with err set

	mu      sync.Mutex
	out     []byte
	pending []*pending
	err     error
}

// pending is a request whose answer is still to come.
type pending struct {
	read func(*wire.FrameReader) error
	done chan struct{} // closed with err set
	err  error
}

// errRetired ends a pipeline that did not answer in time.
var errRetired = errors.New("the guest does not answer on this stream")

// pipe returns the pipeline for a kind of stream, which it opens if need be.
func (c *Client) pipe(ctx context.Context, kind string) (*pipeline, error) {
	c.pipeMu.Lock()
	defer c.pipeMu.Unlock()
	if p := c.pipes[kind]; p != nil && p.broken() == nil {
		return p, nil
	}
	st, err := c.open(ctx)
	if err != nil {
		return nil, err
	}
	p := &pipeline{st: st, wake: make(chan struct{}, 1), slot: make(chan struct{}, maxPending), done: make(chan struct{}),
		out: wire.Header{Kind: kind}.Append(nil)}
	c.pipes[kind] = p
	c.wg.Go(p.write)
	c.wg.Go(p.answers)
	return p, nil
}

// pipeDo sends a request and waits for its answer, which read takes from the
// stream. If ctx ends first read may still be running, or run later.
func (c *Client) pipeDo(ctx context.Context, kind string, request []byte, read func(*wire.FrameReader) error) error {
	if ctx.Err() != nil { // an answer could still come first
		return context.Cause(ctx)
	}
	p, err := c.pipe(ctx, kind)
	if err != nil {
		return err
	}
	q := &pending{read: read, done: make(chan struct{})}
	select {
	case p.slot <- struct{}{}:
		p.send(request, q)
	case <-p.done:
		return p.broken()
	case <-ctx.Done():
		p.late(ctx)
		return context.Cause(ctx)
	}
	select {
	case <-q.done:
		return q.err
	case <-ctx.Done():
		p.late(ctx)
		return context.Cause(ctx)
	}
}

func (p *pipeline) broken() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// late gives up a pipeline if ctx ended because time was up. Whoever else
// waits on it gets the same error; they would have had to wait as well.
func (p *pipeline) late(ctx context.Context) {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		p.fail(errRetired)
	}
}

func (p *pipeline) send(request []byte, q *pending) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		q.err = p.err
		close(q.done)
		return
	}
	p.out = append(p.out, request...)
	p.pending = append(p.pending, q)
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// write sends what has gathered.
func (p *pipeline) write() {
	var buf []byte
	for {
		select {
		case <-p.wake:
		case <-p.done:
			return
		}
		p.mu.Lock()
		buf, p.out = p.out, buf[:0]
		p.mu.Unlock()
		if _, err := p.st.Write(buf); err != nil {
			p.fail(err)
			return
		}
	}
}

// answers hands each answer to its request.
func (p *pipeline) answers() {
	r := wire.NewFrameReader(bufio.NewReaderSize(wire.NewConn(p.st, nil), wire.ChunkSize))
	for {
		if err := r.Peek(); err != nil { // also the end of a stream that nobody uses
			p.fail(err)
			return
		}
		p.mu.Lock()
		if len(p.pending) == 0 {
			p.mu.Unlock()
			p.fail(glovebox.Errorf(glovebox.CodeUnavailable, "the guest answers what nobody asked"))
			return
		}
		q := p.pending[0]
		p.pending = p.pending[1:]
		p.mu.Unlock()
		err := q.read(r)
		broke := err != nil && !r.Refused()
		if broke {
			p.fail(err) // before the caller has err, to which it adds
		}
		q.err = err
		close(q.done)
		<-p.slot
		if broke {
			return
		}
	}
}

// fail ends the pipeline and all that is pending.
func (p *pipeline) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return
	}
	p.err = errors.New(err.Error()) // for several: not one that anybody adds to
	close(p.done)
	for _, q := range p.pending {
		q.err = p.err
		close(q.done)
	}
	p.pending, p.out = nil, nil
	_ = wire.NewConn(p.st, nil).Close()
	_ = p.st.SetWriteDeadline(time.Unix(1, 0))
}
