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

// start gives the sandbox its loopback and starts its first process.
func (c *controller) start() error {
	if err := c.conn.Call(boot.ContMgrSetNetworkArgs, &boot.CreateLinksAndRoutesArgs{
		LoopbackLinks: []boot.LoopbackLink{boot.DefaultLoopbackLink},
	}, nil); err != nil {
		return fmt.Errorf("set up the loopback: %w", err)
	}
	id := string(c.id)
	if err := c.conn.Call(boot.ContMgrRootContainerStart, &id, nil); err != nil {
		return fmt.Errorf("start the guest: %w", err)
	}
	return nil
}

// execConnect starts "guest connect" inside with stdin as its standard input
// and no other file.
func (c *controller) execConnect(stdin *os.File) error {
	args := control.ExecArgs{
		Filename:         GuestDir + "/glovebox",
		Argv:             []string{GuestDir + "/glovebox", "guest", "connect"},
		Envv:             guestEnv,
		WorkingDirectory: "/",
		ContainerID:      string(c.id),
		FilePayload:      control.NewFilePayload(map[int]*os.File{0: stdin}, nil),
	}
	var pid int32
	if err := c.conn.Call(boot.ContMgrExecuteAsync, &args, &pid); err != nil {
		return fmt.Errorf("start the connector: %w", err)
	}
	return nil
}
