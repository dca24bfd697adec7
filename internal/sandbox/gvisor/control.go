package gvisor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
	controlclient "gvisor.dev/gvisor/pkg/control/client"
	"gvisor.dev/gvisor/pkg/sentry/control"
	"gvisor.dev/gvisor/pkg/urpc"
	"gvisor.dev/gvisor/runsc/boot"

	"github.com/glovebox-dev/glovebox/internal/sandbox"
)

// controller gives commands to a running sentry.
type controller struct {
	id   sandbox.ID
	conn *urpc.Client
	stop func()
}

// connect connects to the sentry of the sandbox in dir. All its calls fail
// when ctx ends.
// gVisor knows the sandbox as id.
func connect(ctx context.Context, id sandbox.ID, dir string) (*controller, error) {
	// The path may be longer than a socket address can be; through an open
	// descriptor it is not.
	fd, err := unix.Open(filepath.Join(dir, socketFile), unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open the control socket: %w", err)
	}
	defer unix.Close(fd)
	conn, err := controlclient.ConnectTo("/proc/self/fd/" + strconv.Itoa(fd))
	if err != nil {
		return nil, fmt.Errorf("connect to the sentry: %w", err)
	}
	// Not Close, which waits for the call that is under way.
	return &controller{id: id, conn: conn, stop: after(ctx, func() { _ = conn.Socket.Shutdown() })}, nil
}

func (c *controller) close() {
	c.stop()
	c.conn.Close()
}

// loopback is all of a network that a sandbox has.
func (c *controller) loopback() error {
	if err := c.conn.Call(boot.ContMgrSetNetworkArgs, &boot.CreateLinksAndRoutesArgs{
		LoopbackLinks: []boot.LoopbackLink{boot.DefaultLoopbackLink},
	}, nil); err != nil {
		return fmt.Errorf("set up the loopback: %w", err)
	}
	return nil
}

// start gives the sandbox its loopback and starts its first process.
func (c *controller) start() error {
	if err := c.loopback(); err != nil {
		return err
	}
	id := string(c.id)
	if err := c.conn.Call(boot.ContMgrRootContainerStart, &id, nil); err != nil {
		return fmt.Errorf("start the guest: %w", err)
	}
	return nil
}

// restore makes the sandbox go on as it was when t was frozen. Pages that are
// touched before they are loaded are loaded then.
func (c *controller) restore(t *template) error {
	if err := c.loopback(); err != nil {
		return err
	}
	if err := c.conn.Call(boot.ContMgrRestore, &boot.RestoreOpts{
		FilePayload: urpc.FilePayload{Files: t.files}, HavePagesFile: true, Background: true,
	}, nil); err != nil {
		return fmt.Errorf("restore the machine: %s", brief(err))
	}
	return nil
}

// execConnect starts "guest connect" inside with stdin as its standard input
// and no other file, and returns its process.
func (c *controller) execConnect(stdin *os.File) (pid int32, err error) {
	args := control.ExecArgs{
		Filename:         GuestDir + "/glovebox",
		Argv:             []string{GuestDir + "/glovebox", "guest", "connect"},
		Envv:             guestEnv,
		WorkingDirectory: "/",
		ContainerID:      string(c.id),
		FilePayload:      control.NewFilePayload(map[int]*os.File{0: stdin}, nil),
	}
	if err := c.conn.Call(boot.ContMgrExecuteAsync, &args, &pid); err != nil {
		return 0, fmt.Errorf("start the connector: %w", err)
	}
	return pid, nil
}

// wait waits until a process that was started has ended.
func (c *controller) wait(pid int32) (unix.WaitStatus, error) {
	var status uint32
	err := c.conn.Call(boot.ContMgrWaitPID, &boot.WaitPIDArgs{PID: pid, CID: string(c.id)}, &status)
	return unix.WaitStatus(status), err
}
