package guest

import (
	"context"
	"net"
	"strconv"
	"time"

	"github.com/glovebox-dev/glovebox/internal/guest/guestpb"
	"github.com/glovebox-dev/glovebox/internal/guest/wire"
)

// join opens a stream that begins with a frame of the guest's (an end, or a
// failure) and is bare bytes after it.
func (c *Client) join(ctx context.Context, op string, h wire.Header) (net.Conn, error) {
	f, err := c.stream(ctx, op, h, true)
	if err != nil {
		return nil, err
	}
	err = f.w.Flush()
	if err == nil {
		err = f.r.ReadEnd()
	}
	if err != nil {
		defer f.close()
		return nil, f.fail(err)
	}
	f.unbound()
	_ = f.st.SetDeadline(time.Time{})
	return wire.NewConn(f.st, f.r.Rest()), nil
}

// maxListeners is how many listeners of a machine are looked at.
const maxListeners = 1000

// Listeners returns the TCP ports that are listened on, without the guest's
// own; at most 1000.
func (c *Client) Listeners(ctx context.Context) ([]Listener, error) {
	m, err := call(ctx, c, "list ports", c.rpc.Listeners, &guestpb.Empty{})
	if err != nil {
		return nil, err
	}
	var list []Listener
	for _, l := range m.Listeners[:min(len(m.Listeners), maxListeners)] {
		if l.Port == 0 || l.Port > 65535 {
			continue
		}
		list = append(list, Listener{
			Port: uint16(l.Port), Address: wire.CleanText(l.Address, 64), PID: int(l.Pid), Command: wire.CleanText(l.Command, 64),
		})
	}
	return list, nil
}

// DialPort connects to a TCP port on the sandbox's loopback. The connection
// has a CloseWrite method. CodeUnavailable if nothing listens there.
func (c *Client) DialPort(ctx context.Context, port uint16) (net.Conn, error) {
	arg := strconv.Itoa(int(port))
	return c.join(ctx, "connect to port "+arg, wire.Header{Kind: wire.KindPort, Arg: arg})
}
