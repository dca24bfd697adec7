// Package fake is a [sandbox.Driver] for tests of what is built on drivers.
// It isolates NOTHING: a "sandbox" is a directory and a child process of the
// test binary that runs the guest daemon in it, as the same user, with the
// host's files, network and processes, and no limits. It refuses to work
// outside of tests, so that nobody selects it by accident.
//
// All else is as with a real driver, and sandboxtest proves it: sandboxes
// outlive the process that made them, kill -9 included, another process finds
// and dials them, and what a crash left is listed and can be destroyed.
//
// The TestMain of a package that uses it calls [Intercept] first.
package fake

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/sandbox"
	"github.com/glovebox-dev/glovebox/internal/sandbox/local"
)

// What is in a sandbox's directory.
const (
	recordFile = "record.json"
	heldFile   = "held" // locked by the guest's process while it lives
	socketFile = "sock"
	rootDir    = "root" // what the guest takes for the root of its file system
)

// record is what is known of a sandbox across processes.
type record struct {
	ID        sandbox.ID
	CreatedAt time.Time
	Labels    map[string]string
	Process   local.Process
	Started   bool
}

// Driver is the fake.
type Driver struct {
	dir string

	mu       sync.Mutex
	children map[sandbox.ID]chan struct{} // closed when a child of ours was waited for
}

var _ sandbox.Driver = (*Driver)(nil)

// New returns a fake whose state is in dir. It fails outside of a test binary.
func New(dir string) (*Driver, error) {
	if !testing.Testing() {
		return nil, glovebox.Errorf(glovebox.CodeInvalid, "the fake sandbox driver isolates nothing and is for tests only")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return &Driver{dir: dir, children: make(map[sandbox.ID]chan struct{})}, nil
}

func (d *Driver) path(id sandbox.ID, name ...string) string {
	return filepath.Join(append([]string{d.dir, string(id)}, name...)...)
}

// Root returns the directory that a sandbox takes for its root, for tests
// that look behind the guest's back.
func (d *Driver) Root(id sandbox.ID) string { return d.path(id, rootDir) }

// Create implements [sandbox.Driver]. The image is not looked at.
func (d *Driver) Create(ctx context.Context, s sandbox.Spec) (err error) {
	if err := s.Validate(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return unavailable("create sandbox", err)
	}
	dir := d.path(s.ID)
	unlock, err := local.MakeDir(ctx, dir)
	if errors.Is(err, fs.ErrExist) {
		return glovebox.Errorf(glovebox.CodeConflict, "sandbox %s exists", s.ID)
	}
	if err != nil {
		return unavailable("create sandbox", err)
	}
	defer unlock()
	if err := d.build(ctx, s); err != nil {
		return unavailable("create sandbox", errors.Join(err, d.remove(s.ID)))
	}
	return nil
}

func unavailable(op string, err error) error {
	return &glovebox.Error{Code: glovebox.CodeUnavailable, Op: op, Err: err}
}

// build starts the guest. It waits at a gate until it is written down, so
// that none is left unknown if we die.
func (d *Driver) build(ctx context.Context, s sandbox.Spec) error {
	r := &record{ID: s.ID, CreatedAt: time.Now().UTC(), Labels: s.Labels}
	if err := errors.Join(local.WriteJSON(d.path(s.ID, recordFile), r), os.Mkdir(d.Root(s.ID), 0o755)); err != nil {
		return err
	}
	held, err := local.HeldFile(d.path(s.ID, heldFile))
	if err != nil {
		return err
	}
	defer held.Close()
	gateR, gateW, err := os.Pipe()
	if err != nil {
		return err
	}
	defer gateW.Close()
	defer gateR.Close()
	readyR, readyW, err := os.Pipe()
	if err != nil {
		return err
	}
	defer readyR.Close()
	defer readyW.Close()
	log, err := os.OpenFile(d.path(s.ID, "log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()

	cmd := exec.Command("/proc/self/exe", d.path(s.ID))
	cmd.Args[0] = argv0
	cmd.Env = append(os.Environ(), "GLOVEBOX_FAKE_SANDBOX="+string(s.ID))
	cmd.Dir = d.Root(s.ID)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{gateR, readyW, held} // 3, 4, 5: see guest.go
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	readyW.Close()
	d.adopt(s.ID, cmd)
	if r.Process, err = local.ProcessOf(cmd.Process.Pid); err != nil {
		return err
	}
	if err := local.WriteJSON(d.path(s.ID, recordFile), r); err != nil {
		return err
	}
	if _, err := gateW.Write([]byte{1}); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { readyR.Close() })
	defer stop()
	if n, _ := readyR.Read(make([]byte, 1)); n != 1 {
		if err := ctx.Err(); err != nil {
			return err
		}
		return fmt.Errorf("the guest did not start: %s", local.ReadNote(d.path(s.ID, "log")))
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	r.Started = true
	return local.WriteJSON(d.path(s.ID, recordFile), r)
}

// adopt waits for a child in the background.
func (d *Driver) adopt(id sandbox.ID, cmd *exec.Cmd) {
	done := make(chan struct{})
	d.mu.Lock()
	d.children[id] = done
	d.mu.Unlock()
	go func() {
		_ = cmd.Wait()
		d.mu.Lock()
		delete(d.children, id)
		d.mu.Unlock()
		close(done)
	}()
}

// reaped waits until a child that has ended was waited for.
func (d *Driver) reaped(id sandbox.ID) {
	d.mu.Lock()
	done := d.children[id]
	d.mu.Unlock()
	if done != nil {
		<-done
	}
}

// Dial implements [sandbox.Driver].
func (d *Driver) Dial(ctx context.Context, id sandbox.ID) (net.Conn, error) {
	notFound := glovebox.Errorf(glovebox.CodeNotFound, "sandbox %.40q does not exist or has ended", string(id))
	if !glovebox.ValidID(string(id)) {
		return nil, notFound
	}
	var r record
	if ok, err := local.ReadJSON(d.path(id, recordFile), &r); err != nil || !ok || !r.Started || !r.Process.Alive() {
		return nil, notFound
	}
	f, err := os.Open(d.path(id)) // the path may be too long for an address
	if err != nil {
		return nil, notFound
	}
	defer f.Close()
	conn, err := new(net.Dialer).DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d/%s", f.Fd(), socketFile))
	if err != nil && !r.Process.Alive() {
		return nil, notFound
	}
	if err != nil {
		return nil, unavailable("dial sandbox "+string(id), err)
	}
	return conn, nil
}

// List implements [sandbox.Driver].
func (d *Driver) List(context.Context) ([]sandbox.Info, error) {
	entries, err := os.ReadDir(d.dir)
	if err != nil {
		return nil, err
	}
	var out []sandbox.Info
	for _, e := range entries {
		id := sandbox.ID(e.Name())
		if !glovebox.ValidID(e.Name()) {
			continue
		}
		var r record
		ok, err := local.ReadJSON(d.path(id, recordFile), &r)
		if err != nil {
			return nil, err
		}
		if !ok || !r.Started {
			unlock, err := local.TryLockDir(d.path(id))
			if err != nil || unlock == nil { // being made or removed, or gone
				continue
			}
			ok, _ = local.ReadJSON(d.path(id, recordFile), &r)
			left := ok || local.Left(d.path(id))
			unlock()
			if !left {
				continue
			}
		}
		i := sandbox.Info{ID: id, State: sandbox.Running, Labels: r.Labels, CreatedAt: r.CreatedAt}
		switch {
		case !ok || !r.Started:
			i.State, i.Cause = sandbox.Ended, "interrupted while it was made or removed"
		case !r.Process.Alive():
			i.State, i.Cause = sandbox.Ended, "the guest ended"
		}
		out = append(out, i)
	}
	slices.SortFunc(out, func(a, b sandbox.Info) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return out, nil
}

// Destroy implements [sandbox.Driver].
func (d *Driver) Destroy(ctx context.Context, id sandbox.ID) error {
	if !glovebox.ValidID(string(id)) {
		return nil
	}
	unlock, err := local.LockDir(ctx, d.path(id))
	if err != nil {
		return unavailable("destroy sandbox", err)
	}
	if unlock == nil {
		return nil
	}
	defer unlock()
	if err := d.remove(id); err != nil {
		return unavailable("destroy sandbox", err)
	}
	return nil
}

// remove ends a sandbox and removes it. The caller holds its directory.
func (d *Driver) remove(id sandbox.ID) error {
	var r record
	if _, err := local.ReadJSON(d.path(id, recordFile), &r); err != nil {
		return err
	}
	deadline := time.Now().Add(20 * time.Second)
	if r.Process.Alive() {
		_ = unix.Kill(r.Process.PID, unix.SIGSTOP) // it starts no more
	}
	killInside(d.path(id), r.Process.PID)
	if err := r.Process.Kill(deadline); err != nil {
		return err
	}
	if err := local.AwaitGone(d.path(id, heldFile), deadline); err != nil {
		return err
	}
	d.reaped(id)
	killInside(d.path(id), 0)
	return os.RemoveAll(d.path(id))
}

// killInside ends all processes that work below a directory, but for one.
func killInside(dir string, but int) {
	for range 100 {
		var found bool
		links, _ := filepath.Glob("/proc/[0-9]*/cwd")
		for _, l := range links {
			pid, _ := strconv.Atoi(strings.Split(l, "/")[2])
			if to, err := os.Readlink(l); err == nil && strings.HasPrefix(to, dir+"/") && pid != but && pid != os.Getpid() {
				found = unix.Kill(pid, unix.SIGKILL) == nil || found
			}
		}
		if !found {
			return
		}
		time.Sleep(time.Millisecond) //nolint:forbidigo // they are dying, and nothing tells when they are dead
	}
}
