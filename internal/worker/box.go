package worker

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/egress"
	"github.com/glovebox-dev/glovebox/internal/guest"
	"github.com/glovebox-dev/glovebox/internal/sandbox"
)

// jobLabel is the label of a sandbox that names its job.
const jobLabel = "job"

// maxLost is how many sandboxes of a job may die and be rebuilt.
const maxLost = 3

// dialTries is how often a sandbox that is there is dialled before it is given up.
const dialTries = 3

// Bounds in time.
const (
	helloTimeout   = 30 * time.Second // for a guest's first answer
	destroyTimeout = 2 * time.Minute

	// transferTimeout is how long a guest may take to send or take all files
	// of a workspace. It is for guests that stall; honest ones need seconds.
	transferTimeout = 20 * time.Minute
)

// box is the sandbox of a job, and the connection to it.
type box struct {
	h *host

	busy chan struct{} // held by who finds, makes or rebuilds it

	mu     sync.Mutex
	conn   *guest.Client
	id     sandbox.ID // that this run works with; empty before the first
	proxy  *egress.Proxy
	record *egress.Recorder
	rest   *egressLog
	closed bool
	idle   bool // the sandbox was paused, and is thawed by who needs it

	starting sync.WaitGroup // of what starts services
}

func newBox(h *host) *box { return &box{h: h, busy: make(chan struct{}, 1)} }

// client returns the connection, nil if there is none that lives.
func (b *box) client() *guest.Client {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.conn == nil {
		return nil
	}
	select {
	case <-b.conn.Done():
		return nil
	default:
		return b.conn
	}
}

// current returns the connection that lives, and the machine at its end; nil
// if there is none.
func (b *box) current() (*guest.Client, sandbox.ID) {
	c := b.client()
	b.mu.Lock()
	defer b.mu.Unlock()
	if c == nil || c != b.conn {
		return nil, ""
	}
	return c, b.id
}

// guest returns a connection: the one that lives, a new one to the same
// sandbox, or one to a sandbox that was found, made or rebuilt.
func (b *box) guest(ctx context.Context) (*guest.Client, error) {
	select {
	case b.busy <- struct{}{}:
		defer func() { <-b.busy }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if c := b.client(); c != nil {
		return c, nil
	}
	b.hangUp()
	if err := b.openProxy(); err != nil {
		return nil, err
	}
	start := time.Now()
	job := b.h.state()
	if job.Sandbox != nil && job.Sandbox.ID != "" {
		c, err := b.reach(ctx, sandbox.ID(job.Sandbox.ID))
		if err == nil {
			return c, b.found(ctx, c, start)
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err := b.bury(ctx, job, err); err != nil {
			return nil, err
		}
	}
	return b.build(ctx, start)
}

// found records that a sandbox of a former run goes on.
func (b *box) found(ctx context.Context, c *guest.Client, start time.Time) error {
	job := b.h.state()
	again := b.id == sandbox.ID(job.Sandbox.ID) // only the stream was cut
	b.hold(c, sandbox.ID(job.Sandbox.ID))
	b.startDesktop(c)
	if again {
		return nil
	}
	return b.h.append(ctx, glovebox.EventSandboxReady, glovebox.SandboxReady{ID: job.Sandbox.ID, Driver: b.h.r.o.DriverName,
		How: "found", Enforced: job.Sandbox.Enforced, DurationMS: time.Since(start).Milliseconds()})
}

// bury records that the job's sandbox is dead and removes what is left of it.
func (b *box) bury(ctx context.Context, job *glovebox.Job, why error) error {
	id := job.Sandbox.ID
	cause := plain(why)
	if infos, err := b.h.r.o.Driver.List(ctx); err == nil {
		for _, i := range infos {
			if string(i.ID) == id && i.Cause != "" {
				cause = i.Cause
			}
		}
	}
	b.h.r.log.Warn("a sandbox was lost", "sandbox", id, "cause", cause)
	if err := b.h.append(ctx, glovebox.EventSandboxLost, glovebox.SandboxLost{ID: id, Cause: cause}); err != nil {
		return err
	}
	b.h.r.w.destroy(sandbox.ID(id))
	if job := b.h.state(); job.Sandbox.Lost > maxLost {
		return &glovebox.Error{Code: glovebox.CodeLimit, Hint: "raise limits.memory_bytes or limits.disk_bytes in a new job, if that is what it died of",
			Msg: "the sandbox died " + itoa(job.Sandbox.Lost) + " times, the last time: " + cause}
	}
	return nil
}

// build makes a sandbox, from the checkpoint if there is one.
func (b *box) build(ctx context.Context, start time.Time) (_ *guest.Client, err error) {
	ctx, end := span(ctx, "make sandbox")
	defer func() { end(err) }()
	o, job := b.h.r.o, b.h.state()
	b.removeStrays(ctx, job)
	if err := b.prepare(ctx); err != nil {
		return nil, err
	}
	id := sandbox.ID(glovebox.NewID())
	if err := o.Driver.Create(ctx, sandbox.Spec{ID: id, Image: o.Image, Limits: job.Limits, Labels: map[string]string{jobLabel: job.ID}}); err != nil {
		return nil, err
	}
	var c *guest.Client
	defer func() {
		if err != nil {
			if c != nil {
				b.hangUp()
				c.Close()
			}
			b.h.r.w.destroy(id)
		}
	}()
	if c, err = b.reach(ctx, id); err != nil {
		return nil, err
	}
	info := b.info(ctx, id)
	ready := glovebox.SandboxReady{ID: string(id), Driver: o.DriverName, How: "created", Start: info.Start, StartNote: info.StartNote, Enforced: info.Enforced}
	if job.Sandbox != nil {
		ready.How = "rebuilt"
	}
	b.startDesktop(c) // from a template it runs
	if cp := job.Checkpoint; cp != nil {
		ready.How, ready.Commit = "rebuilt", cp.Commit
	}
	if err := b.fill(ctx, c, job); err != nil {
		return nil, err
	}
	ready.DurationMS = time.Since(start).Milliseconds()
	if err := b.h.append(ctx, glovebox.EventSandboxReady, ready); err != nil {
		return nil, err
	}
	b.hold(c, id)
	if ready.How == "rebuilt" { // what is below guest.StateDir is gone, and the next call may look there
		b.h.r.pub.poke()
	}
	b.h.r.w.metrics.ready.WithLabelValues(ready.How).Observe(time.Since(start).Seconds())
	return c, nil
}

// prepare has the driver bring the image to where it makes sandboxes, and
// records what takes long about that.
func (b *box) prepare(ctx context.Context) error {
	p, ok := b.h.r.o.Driver.(sandbox.Preparer)
	if !ok {
		return nil
	}
	var recorded error
	err := p.Prepare(ctx, b.h.r.o.Image, func(what string) {
		recorded = errors.Join(recorded, b.h.append(ctx, glovebox.EventSandboxAwaited, glovebox.SandboxAwaited{Reason: what}))
	})
	return errors.Join(recorded, err)
}

// removeStrays destroys sandboxes of the job that its log does not know: they
// were being made when a worker died.
func (b *box) removeStrays(ctx context.Context, job *glovebox.Job) {
	infos, err := b.h.r.o.Driver.List(ctx)
	if err != nil {
		return // they are removed when the job has ended
	}
	for _, i := range infos {
		if i.Labels[jobLabel] == job.ID {
			b.h.r.w.destroy(i.ID)
		}
	}
}

// remove hangs up and destroys the job's sandbox.
func (b *box) remove() {
	b.hangUp()
	if job := b.h.state(); job.Sandbox != nil {
		b.h.r.w.destroy(sandbox.ID(job.Sandbox.ID))
	}
}

// info is what the driver knows of a sandbox, empty if nothing.
func (b *box) info(ctx context.Context, id sandbox.ID) sandbox.Info {
	infos, err := b.h.r.o.Driver.List(ctx)
	if err != nil {
		return sandbox.Info{}
	}
	for _, i := range infos {
		if i.ID == id {
			return i
		}
	}
	return sandbox.Info{}
}

// reach connects to a sandbox and tells its guest whom it works for.
func (b *box) reach(ctx context.Context, id sandbox.ID) (*guest.Client, error) {
	var errs error
	wait := firstWait
	for range dialTries {
		c, err := b.dial(ctx, id)
		if err == nil {
			return c, nil
		}
		errs = err
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if glovebox.CodeOf(err) == glovebox.CodeNotFound || !b.h.r.sleep(&wait) {
			break
		}
	}
	return nil, errs
}

func (b *box) dial(ctx context.Context, id sandbox.ID) (*guest.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	conn, err := b.h.r.o.Driver.Dial(ctx, id)
	if err != nil {
		return nil, err
	}
	c, err := guest.NewClient(ctx, conn, guest.Options{Egress: b.proxy.ServeConn})
	if err != nil {
		return nil, err
	}
	var secret []byte
	if g, ok := b.h.r.o.Driver.(sandbox.Greeter); ok {
		secret = g.Secret(id) // what was made new for it already
	}
	s := b.h.r.o.GuestSettings.OfMachine(b.h.r.o.Now(), secret)
	if err := c.Bind(ctx, s); err != nil {
		// The host name and the clock may be the sandbox's own to keep; then
		// the guest answers, and all else is in place.
		if _, statErr := c.Stats(ctx); statErr != nil || glovebox.CodeOf(err) != glovebox.CodeUnavailable {
			c.Close()
			return nil, err
		}
		b.h.r.log.Debug("the guest keeps its host name or clock", "error", err)
	}
	return c, nil
}

// fill brings into a new workspace what belongs there.
func (b *box) fill(ctx context.Context, c *guest.Client, job *glovebox.Job) error {
	ctx, cancel := context.WithTimeout(ctx, transferTimeout)
	defer cancel()
	if job.Checkpoint != nil {
		return b.restore(ctx, c, job.Checkpoint)
	}
	return b.importFiles(ctx, c, job)
}

// restore brings the workspace to a checkpoint.
func (b *box) restore(ctx context.Context, c *guest.Client, cp *glovebox.Checkpoint) error {
	var packs []func() (io.ReadCloser, error)
	for _, key := range cp.Packs {
		packs = append(packs, func() (io.ReadCloser, error) { return b.h.r.o.Blobs.Open(ctx, key) })
	}
	return c.Restore(ctx, cp.Commit, packs)
}

// hold keeps the connection for all who need the guest.
func (b *box) hold(c *guest.Client, id sandbox.ID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.conn, b.id, b.idle = c, id, false
	if b.closed {
		go c.Close()
	}
}

// hangUp closes the connection, if there is one.
func (b *box) hangUp() {
	b.mu.Lock()
	c := b.conn
	b.conn = nil
	b.mu.Unlock()
	if c != nil {
		c.Close()
	}
}

// settle ends the connection and the proxy, and records what the sandbox
// reached. The sandbox stays. There is no guest after it.
func (b *box) settle() {
	b.mu.Lock()
	done := b.closed
	b.closed = true
	proxy, record, rest := b.proxy, b.record, b.rest
	b.mu.Unlock()
	b.hangUp()
	b.starting.Wait()
	if proxy == nil || done {
		return
	}
	proxy.Close()
	record.Close()
	rest.close()
}

// destroy ends a sandbox and removes all of it. What can't be removed now is
// found by the next sweep.
func (w *Worker) destroy(id sandbox.ID) {
	if id == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), destroyTimeout)
	defer cancel()
	if err := w.o.Driver.Destroy(ctx, id); err != nil {
		w.o.Log.Warn("can't destroy a sandbox; it is tried again later", "sandbox", string(id), "error", err)
	}
}

// noMachine is how a job ends that has no sandbox.
func noMachine(err error) glovebox.Failure {
	if f, ok := errors.AsType[*filesError](err); ok {
		return f.Failure
	}
	return glovebox.Failure{Code: "sandbox", Message: "The job got no machine to work in: " + plain(err), Hint: hintOf(err)}
}
