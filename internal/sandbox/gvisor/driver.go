// Package gvisor makes sandboxes with gVisor, which is compiled into our
// binary: no other program, no root, no KVM, no container engine.
//
// A sandbox is one host process (with the stub processes that gVisor starts
// under it): gVisor's sentry, our own binary executed again, in new user,
// mount, PID, network, IPC and UTS namespaces, in an empty root, without
// capabilities, under seccomp. It is started directly from the driver: there
// is no runsc command in between and no gofer. The image is an EROFS file
// whose descriptor the sentry inherits; what the sandbox writes goes to an
// overlay on an unlinked file in the state directory, so file contents are
// the host's page cache and not its memory, and disappear with the process.
// There is no network device but a loopback inside the sentry.
//
// The guest daemon is our own binary too. It comes in through a second, tiny
// EROFS image, mounted read-only at [GuestDir], so an image needs no rebuild
// when the binary changes.
//
// Sandboxes outlive the process that made them. Everything about them is
// under the state directory, one directory each, held with flock(2) while it
// is made or removed; a directory without a finished record is what an
// interrupted Create left, and List says so and Destroy removes it.
//
// A program that uses this package must call [Intercept] first thing in main,
// and so must the TestMain of a package whose tests do.
package gvisor

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/sandbox"
	"github.com/glovebox-dev/glovebox/internal/sandbox/local"
)

// GuestDir is where the guest binary is mounted in every sandbox, as "glovebox".
const GuestDir = "/.glovebox"

// Options configures a Driver.
type Options struct {
	// StateDir holds all state: sandboxes, the packed guest binary. It is
	// made if it is missing, with mode 0700. Required. On a network file
	// system, locks and sockets may not work.
	StateDir string

	// DefaultImage is the EROFS file for a Spec that names none.
	DefaultImage string

	// GuestBinary is the program run inside as "glovebox guest serve" and
	// "glovebox guest connect": static, for Linux on this processor. Empty
	// for our own binary.
	GuestBinary string

	// Runsc is the binary that is executed as gVisor's sentry; its main calls
	// Intercept. Empty for our own binary. Set it where our own can't be one,
	// such as one built with the race detector.
	Runsc string

	// DebugLogDir, if set, gets gVisor's debug logs. They are large and hold
	// what the sandbox does: for developers only.
	DebugLogDir string
}

// Driver is a [sandbox.Driver]. Any number of them, in any number of
// processes of one user, may share a state directory.
type Driver struct {
	o      Options
	guest  func() (string, error) // path of the packed guest binary, packed at first use
	limits limiter

	mu       sync.Mutex
	first    map[sandbox.ID]net.Conn // streams to guests, until they are dialled
	spare    map[sandbox.ID]net.Conn // second ones, on which guests that can wait: for those that are frozen
	children map[sandbox.ID]*child   // sentries that this Driver started

	probe time.Duration // as probeTime

	verified verified
	restores chan struct{} // one token a restore that is under way
}

// child is a sentry that this Driver started.
type child struct {
	id      sandbox.ID    // changes when it is adopted; guarded by Driver.mu
	process local.Process // none until it is known; guarded by Driver.mu
	done    chan struct{} // closed when its end is written down
}

var (
	_ sandbox.Driver      = (*Driver)(nil)
	_ sandbox.Snapshotter = (*Driver)(nil)
	_ sandbox.Adopter     = (*Driver)(nil)
	_ sandbox.Pauser      = (*Driver)(nil)
)

// New returns a Driver. It fails only if the state directory can't be used;
// whether the machine can run gVisor is what [Probe] tells.
func New(o Options) (*Driver, error) {
	if o.StateDir == "" {
		return nil, glovebox.Invalid("state_dir", "name a directory", "is empty")
	}
	dir, err := filepath.Abs(o.StateDir)
	if err != nil {
		return nil, fmt.Errorf("gvisor: state directory: %w", err)
	}
	o.StateDir = dir
	if o.GuestBinary == "" {
		o.GuestBinary = selfExe
	}
	if o.Runsc == "" {
		o.Runsc = selfExe
	}
	d := &Driver{o: o, probe: probeTime, first: make(map[sandbox.ID]net.Conn), spare: make(map[sandbox.ID]net.Conn), children: make(map[sandbox.ID]*child)}
	for _, p := range []string{d.sandboxes(), d.guests()} {
		if err := os.MkdirAll(p, 0o700); err != nil {
			return nil, &glovebox.Error{Code: glovebox.CodeUnavailable, Op: "open the gvisor driver",
				Msg: "the state directory can't be used", Hint: "choose another data directory, or make this one writable", Err: err}
		}
	}
	d.guest = packOnce(d.guests(), o.GuestBinary)
	d.limits = newLimiter(detectCgroups())
	d.restores = make(chan struct{}, max(2, len(d.limits.allowed)))
	return d, nil
}

// Close releases what this Driver holds in memory. Sandboxes go on, and
// another Driver finds them.
func (d *Driver) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, m := range []map[sandbox.ID]net.Conn{d.first, d.spare} {
		for id, c := range m {
			c.Close()
			delete(m, id)
		}
	}
	return nil
}

func (d *Driver) sandboxes() string { return filepath.Join(d.o.StateDir, "sandboxes") }
func (d *Driver) guests() string    { return filepath.Join(d.o.StateDir, "guest") }

func (d *Driver) dir(id sandbox.ID) string { return filepath.Join(d.sandboxes(), string(id)) }

// takeFirst returns the stream that PID 1 of a sandbox was given, once.
func (d *Driver) takeFirst(id sandbox.ID) net.Conn { return d.take(d.first, id) }

func (d *Driver) take(m map[sandbox.ID]net.Conn, id sandbox.ID) net.Conn {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := m[id]
	delete(m, id)
	return c
}

// hangUp closes the streams to the guest of a sandbox that nobody has taken.
func (d *Driver) hangUp(id sandbox.ID) {
	for _, m := range []map[sandbox.ID]net.Conn{d.first, d.spare} {
		if c := d.take(m, id); c != nil {
			c.Close()
		}
	}
}

// reaped waits until the end of a sandbox's process is written down, if it is
// a child of ours. The process must have ended.
func (d *Driver) reaped(id sandbox.ID) {
	d.mu.Lock()
	c := d.children[id]
	d.mu.Unlock()
	if c != nil {
		<-c.done
	}
}

// settled waits like reaped if the process of a sandbox that another driver has
// removed was a child of ours. One that was given away lives on, and is not
// waited for.
func (d *Driver) settled(id sandbox.ID) {
	d.mu.Lock()
	c := d.children[id]
	ended := c != nil && !c.process.Alive()
	d.mu.Unlock()
	if ended {
		<-c.done
	}
}

// checkID refuses what is not an id before it becomes part of a path.
func checkID(id sandbox.ID) error {
	if !glovebox.ValidID(string(id)) {
		return glovebox.Invalid("id", "use glovebox.NewID", "%q is not the id of a sandbox", string(id))
	}
	return nil
}

// notFound is what Dial returns for a sandbox that is not there.
func notFound(id sandbox.ID, why string) error {
	return glovebox.Errorf(glovebox.CodeNotFound, "sandbox %s %s", id, why)
}

// after runs f when ctx ends, unless stop is called first; stop waits for a
// running f.
func after(ctx context.Context, f func()) (stop func()) {
	done := make(chan struct{})
	cancel := context.AfterFunc(ctx, func() { defer close(done); f() })
	return func() {
		if !cancel() {
			<-done
		}
	}
}
