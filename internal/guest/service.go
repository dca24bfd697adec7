package guest

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net"
	"time"

	"github.com/glovebox-dev/glovebox/internal/guest/guestpb"
	"github.com/glovebox-dev/glovebox/internal/guest/wire"
)

// Bounds of what a guest says of its services.
const (
	maxServices   = 64
	maxServiceLog = 64 << 10
	startTimeout  = 2 * time.Minute // of services to become healthy, where ctx has no deadline
)

// DeriveSecret returns the secret of a service of the machine that was bound
// with [Settings.Secret] machine: 32 characters of base64url. VNC uses the
// first 8 of them. It is empty if machine is.
func DeriveSecret(machine []byte, service string) string {
	if len(machine) == 0 {
		return ""
	}
	h := hmac.New(sha256.New, machine)
	h.Write([]byte(service))
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:24])
}

// ServiceSecret returns the secret of a service as of the last Bind of this
// client with a Secret; empty if there was none.
func (c *Client) ServiceSecret(name string) string {
	c.secretMu.Lock()
	defer c.secretMu.Unlock()
	return DeriveSecret(c.secret, name)
}

// StartServices starts the machine's services, all but those that start on
// demand, and returns when they are healthy; at once if they are. Otherwise
// the error says which are not (CodeUnavailable), and the guest goes on
// trying. A machine without services is no error. Where ctx has no deadline
// it takes at most two minutes.
func (c *Client) StartServices(ctx context.Context) error { return c.startServices(ctx) }

// StartService starts one service, and what it depends on, as StartServices does.
func (c *Client) StartService(ctx context.Context, name string) error {
	return c.startServices(ctx, name)
}

func (c *Client) startServices(ctx context.Context, names ...string) error {
	ctx, cancel := withTimeout(ctx, startTimeout)
	defer cancel()
	_, err := call(ctx, c, "start the services", c.services.StartServices, &guestpb.StartServicesRequest{Names: names})
	return err
}

// withTimeout gives ctx a deadline if it has none.
func withTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if _, has := ctx.Deadline(); has {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, d)
}

// Services returns the state of every service that the machine has.
func (c *Client) Services(ctx context.Context) ([]ServiceState, error) {
	m, err := call(ctx, c, "list the services", c.services.ListServices, &guestpb.Empty{})
	if err != nil {
		return nil, err
	}
	var list []ServiceState
	for _, s := range m.Services[:min(len(m.Services), maxServices)] {
		list = append(list, ServiceState{
			Name: wire.CleanText(s.Name, 64), Running: s.Running, Healthy: s.Healthy, Restarts: int(s.Restarts),
			Since: time.Unix(0, s.Since), LastExit: wire.CleanText(s.LastExit, 500),
		})
	}
	return list, nil
}

// RestartService ends a service, starts it again and returns when it is
// healthy, as StartServices does.
func (c *Client) RestartService(ctx context.Context, name string) error {
	ctx, cancel := withTimeout(ctx, startTimeout)
	defer cancel()
	return do(ctx, c, "restart the service", c.services.RestartService, &guestpb.ServiceRef{Name: name})
}

// ServiceLog returns the end of what a service wrote to its output: at most
// limit bytes, and at most 64 KiB.
func (c *Client) ServiceLog(ctx context.Context, name string, limit int) (string, error) {
	limit = min(max(limit, 0), maxServiceLog)
	m, err := call(ctx, c, "read the log of a service", c.services.ServiceLog, &guestpb.ServiceLogRequest{Name: name, Limit: int64(limit)})
	if err != nil {
		return "", err
	}
	return wire.CleanText(string(m.Text[max(0, len(m.Text)-limit):]), maxServiceLog), nil
}

// DialService connects to where a service answers. One that is on demand is
// started first. The connection has a CloseWrite method. CodeUnavailable if
// the service does not run, CodeNotFound if there is none of that name.
func (c *Client) DialService(ctx context.Context, name string) (net.Conn, error) {
	return c.join(ctx, "connect to the service "+name, wire.Header{Kind: wire.KindService, Arg: name})
}
