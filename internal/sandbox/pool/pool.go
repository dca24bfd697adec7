// Package pool keeps machines ready: a [sandbox.Driver] around one whose
// sandboxes can be given away. A Create whose image and limits are those of
// the pool takes a ready machine, which is there at once; all others pass.
//
// A ready machine belongs to one process, which its label names and which
// holds a lock for as long as it lives. What a process leaves that died, the
// next one removes.
package pool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest"
	"github.com/glovebox-dev/glovebox/internal/sandbox"
)

// Labels of the driver's own. They are not shown.
const (
	ownerLabel = "glovebox.pool"  // of a ready machine: its owner
	startLabel = "glovebox.start" // of one that was taken
)

const (
	// quiet is how long nobody must have made a machine before the pool is
	// filled: what it costs must not delay jobs that just start.
	quiet = 2 * time.Second

	firstRetry = 5 * time.Second
	lastRetry  = 5 * time.Minute
	lookEvery  = 30 * time.Second // for ready machines that died, and for memory
	fillTime   = 2 * time.Minute  // for one machine, on a loaded host
	endTime    = 30 * time.Second // for what is ready to be destroyed at the end
)

// Options configures a Driver.
type Options struct {
	Base sandbox.Driver // also an Adopter

	// Dir holds the locks of the processes that own ready machines.
	Dir string

	// Image and Limits are those of ready machines. A Create with another
	// image (or none, which is Image), or with limits that the base driver
	// can't give to a running machine, passes.
	Image  string
	Limits glovebox.Limits

	// Settings is what the guest of every job is told. A ready machine has
	// been told already, with a Hostname, Now, Secret and Seed of its own.
	Settings guest.Settings

	// Size is how many machines are kept ready.
	Size int

	// MinFree is how many bytes of memory must be available on the host for
	// the pool to be filled: what the machine takes, and room for the jobs.
	MinFree int64

	// Ready says whether machines come up fast now; while it returns false
	// the pool is not filled. nil: always.
	Ready func() bool

	Log *slog.Logger // nil: none

	available func() int64 // for tests
}

// Driver is a pool. It is a [sandbox.Driver], and an Adopter and a Pauser as
// far as the driver around which it is.
type Driver struct {
	o     Options
	base  sandbox.Adopter
	owner string
	lock  *os.File
	wake  chan struct{}

	mu       sync.Mutex
	ready    []sandbox.ID
	greeted  map[sandbox.ID]greeted // until they are asked for
	creating int
	last     time.Time // when one was last made for someone
	closed   bool
}

// greeted is what there is of a guest that was bound.
type greeted struct {
	conn   net.Conn // a stream to it; nil once it is dialled
	secret []byte   // that it was told; nil once it is asked for
}

var (
	_ sandbox.Driver  = (*Driver)(nil)
	_ sandbox.Greeter = (*Driver)(nil)
	_ sandbox.Adopter = (*Driver)(nil)
	_ sandbox.Pauser  = (*Driver)(nil)
)

// New returns a pool that is empty until Run fills it.
func New(o Options) (*Driver, error) {
	base, ok := o.Base.(sandbox.Adopter)
	if !ok {
		return nil, glovebox.Invalid("pool", "set pool.size to 0", "the sandboxes of this driver can't be given away")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.available == nil {
		o.available = available
	}
	d := &Driver{o: o, base: base, owner: glovebox.NewID(), wake: make(chan struct{}, 1), greeted: make(map[sandbox.ID]greeted)}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, poolError(o.Dir, err)
	}
	var err error
	if d.lock, err = holdLock(d.lockPath(d.owner)); err != nil {
		return nil, poolError(o.Dir, err)
	}
	return d, nil
}

func poolError(dir string, err error) error {
	return &glovebox.Error{Code: glovebox.CodeUnavailable, Op: "open the pool", Msg: dir,
		Hint: "choose another data directory, or make this one writable", Err: err}
}

// Close gives up the pool, whose Run must have returned. Ready machines are
// destroyed.
func (d *Driver) Close() error {
	d.mu.Lock()
	d.closed = true
	ready := d.ready
	d.ready = nil
	d.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), endTime)
	defer cancel()
	var errs []error
	for _, id := range ready {
		errs = append(errs, d.Destroy(ctx, id))
	}
	d.mu.Lock()
	for id, g := range d.greeted {
		g.close()
		delete(d.greeted, id)
	}
	d.mu.Unlock()
	return errors.Join(append(errs, os.Remove(d.lockPath(d.owner)), d.lock.Close())...)
}

// Size returns how many machines are ready.
func (d *Driver) Size() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.ready)
}

// Create implements [sandbox.Driver]: it takes a ready machine, or makes one.
func (d *Driver) Create(ctx context.Context, s sandbox.Spec) error {
	defer d.begin()()
	for d.fits(s) {
		id, ok := d.take()
		if !ok {
			break
		}
		err := d.give(ctx, id, s)
		switch glovebox.CodeOf(err) {
		case "":
			return nil
		case glovebox.CodeConflict: // it is as good as before
			d.putBack(id)
			return d.base.Create(ctx, s)
		}
		d.o.Log.Debug("a ready machine could not be used", "sandbox", string(id), "error", err)
		if err := d.destroy(id); err != nil {
			d.o.Log.Warn("can't remove a ready machine that could not be used", "sandbox", string(id), "error", err)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return d.base.Create(ctx, s)
}

// begin notes that a machine is wanted until end is called.
func (d *Driver) begin() (end func()) {
	d.mu.Lock()
	d.creating++
	d.mu.Unlock()
	return func() {
		d.mu.Lock()
		d.creating--
		d.last = time.Now()
		d.mu.Unlock()
		d.look()
	}
}

// fits reports whether a machine may come from the pool.
func (d *Driver) fits(s sandbox.Spec) bool {
	return s.Template == "" && (s.Image == "" || s.Image == d.o.Image) && len(s.Labels) < 16
}

func (d *Driver) take() (sandbox.ID, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.ready) == 0 {
		return "", false
	}
	id := d.ready[0]
	d.ready = d.ready[1:]
	return id, true
}

func (d *Driver) putBack(id sandbox.ID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		go func() { _ = d.destroy(id) }()
		return
	}
	d.ready = append(d.ready, id)
}

// give adopts a ready machine as what is wanted.
func (d *Driver) give(ctx context.Context, id sandbox.ID, s sandbox.Spec) error {
	labels := maps.Clone(s.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[startLabel] = "pool"
	as := s
	as.Labels = labels
	if err := d.base.Adopt(ctx, id, as); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if g, ok := d.greeted[id]; ok {
		delete(d.greeted, id)
		d.greeted[s.ID] = g
	}
	return nil
}

// Dial implements [sandbox.Driver].
func (d *Driver) Dial(ctx context.Context, id sandbox.ID) (net.Conn, error) {
	if c := d.takeConn(id); c != nil {
		return c, nil
	}
	return d.base.Dial(ctx, id)
}

func (d *Driver) takeConn(id sandbox.ID) net.Conn {
	d.mu.Lock()
	defer d.mu.Unlock()
	g, ok := d.greeted[id]
	if ok {
		d.greeted[id] = greeted{secret: g.secret}
	}
	return g.conn
}

// Secret implements [sandbox.Greeter].
func (d *Driver) Secret(id sandbox.ID) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	g := d.greeted[id]
	delete(d.greeted, id)
	g.close()
	return g.secret
}

func (g greeted) close() {
	if g.conn != nil {
		g.conn.Close()
	}
}

// List implements [sandbox.Driver]. Ready machines are left out.
func (d *Driver) List(ctx context.Context) ([]sandbox.Info, error) {
	infos, err := d.base.List(ctx)
	if err != nil {
		return nil, err
	}
	infos = slices.DeleteFunc(infos, func(i sandbox.Info) bool { return i.Labels[ownerLabel] != "" })
	for i := range infos {
		if start, ok := infos[i].Labels[startLabel]; ok {
			infos[i].Start = start
			infos[i].Labels = maps.Clone(infos[i].Labels)
			delete(infos[i].Labels, startLabel)
		}
	}
	return infos, nil
}

// Destroy implements [sandbox.Driver].
func (d *Driver) Destroy(ctx context.Context, id sandbox.ID) error {
	d.mu.Lock()
	d.ready = slices.DeleteFunc(d.ready, func(r sandbox.ID) bool { return r == id })
	d.greeted[id].close()
	delete(d.greeted, id)
	d.mu.Unlock()
	return d.base.Destroy(ctx, id)
}

func (d *Driver) destroy(id sandbox.ID) error {
	ctx, cancel := context.WithTimeout(context.Background(), endTime)
	defer cancel()
	return d.Destroy(ctx, id)
}

// Adopt implements [sandbox.Adopter].
func (d *Driver) Adopt(ctx context.Context, from sandbox.ID, s sandbox.Spec) error {
	return d.base.Adopt(ctx, from, s)
}

// Pause implements [sandbox.Pauser], CodeUnavailable if the driver is none.
func (d *Driver) Pause(ctx context.Context, id sandbox.ID) error {
	if p, ok := d.o.Base.(sandbox.Pauser); ok {
		return p.Pause(ctx, id)
	}
	return glovebox.Errorf(glovebox.CodeUnavailable, "the sandboxes of this driver can't be paused")
}

// look makes Run look whether there is something to do.
func (d *Driver) look() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// available returns how many bytes of memory the host has to spare.
func available() int64 {
	b, _ := os.ReadFile("/proc/meminfo")
	for line := range strings.Lines(string(b)) {
		var kib int64
		if n, _ := fmt.Sscanf(line, "MemAvailable: %d kB", &kib); n == 1 {
			return kib << 10
		}
	}
	return 0
}

// greet binds a guest as a job will, with a secret that only this machine ever
// has and that it returns, and waits until what runs in it is ready. In a
// machine that was restored all that this touches is slow at its first time,
// and is not when it is taken.
func greet(ctx context.Context, conn net.Conn, s guest.Settings) ([]byte, error) {
	c, err := guest.NewClient(ctx, conn, guest.Options{})
	if err != nil {
		return nil, err
	}
	s = s.OfMachine(time.Now(), nil)
	// The host name and the clock may be the machine's own to keep.
	if err = c.Bind(ctx, s); err == nil || glovebox.CodeOf(err) == glovebox.CodeUnavailable {
		err = touch(ctx, c)
	}
	return s.Secret, errors.Join(err, c.Close())
}

// touch waits for the services, and for the kernels that run. A machine need not
// have any.
func touch(ctx context.Context, c *guest.Client) error {
	if err := c.StartServices(ctx); err != nil {
		return err
	}
	kernels, err := c.Kernels(ctx)
	if err != nil {
		return err
	}
	for _, k := range kernels {
		if err := c.WarmKernels(ctx, k.Language); err != nil {
			return err
		}
	}
	_, err = c.Stats(ctx)
	return err
}
