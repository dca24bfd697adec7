package guest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"
	"github.com/hashicorp/yamux"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest/guestpb"
	"github.com/glovebox-dev/glovebox/internal/guest/wire"
)

// Bounds of a client.
const (
	defaultCallTimeout = 30 * time.Second
	maxReply           = 10 << 20 // bytes of the answer to a call
	maxReplyHeader     = 16 << 10
	maxIdleCalls       = 16  // streams kept open for further calls
	maxEgress          = 256 // connections that a guest may have open at once
)

// Options configures a Client.
type Options struct {
	Egress      EgressHandler // nil refuses every connection
	CallTimeout time.Duration // of calls whose context has no deadline; 0 means 30 s
}

// Client talks to the guest of one sandbox. Its methods may be called from
// many goroutines. When the stream breaks, running calls and processes'
// readers fail with CodeUnavailable; the processes go on, and another Client
// over a new stream finds them with Processes and Attach.
type Client struct {
	o        Options
	mux      *yamux.Session
	rpc      guestpb.GuestClient
	services guestpb.ServicesClient
	display  guestpb.DisplayClient
	kernels  guestpb.KernelsClient
	state    guestpb.StateClient
	calls    *transport
	slots    chan struct{} // of egress connections
	wg       sync.WaitGroup

	pipeMu sync.Mutex
	pipes  map[string]*pipeline // for small files, by kind of stream

	secretMu sync.Mutex
	secret   []byte // of the last Bind that had one
}

// NewClient starts talking to a guest over conn, which it owns. It returns
// when the guest has answered, or an error.
func NewClient(ctx context.Context, conn net.Conn, o Options) (*Client, error) {
	if o.CallTimeout <= 0 {
		o.CallTimeout = defaultCallTimeout
	}
	mux, err := wire.NewHost(conn)
	if err != nil {
		conn.Close()
		return nil, unavailable("talk to the guest", err)
	}
	c := &Client{o: o, mux: mux, slots: make(chan struct{}, maxEgress), pipes: map[string]*pipeline{}}
	c.calls = &transport{c: c}
	web, opts := &http.Client{Transport: c.calls, CheckRedirect: noRedirect},
		connect.WithClientOptions(connect.WithCodec(codec{}), connect.WithReadMaxBytes(maxReply), connect.WithAcceptCompression("gzip", nil, nil))
	c.rpc = guestpb.NewGuestClient(web, "http://guest", opts)
	c.services = guestpb.NewServicesClient(web, "http://guest", opts)
	c.display = guestpb.NewDisplayClient(web, "http://guest", opts)
	c.kernels = guestpb.NewKernelsClient(web, "http://guest", opts)
	c.state = guestpb.NewStateClient(web, "http://guest", opts)
	c.wg.Go(c.accept)
	reply, err := call(ctx, c, "greet the guest", c.rpc.Hello, &guestpb.HelloRequest{Version: wire.Version, Egress: o.Egress != nil})
	if err == nil && reply.Version != wire.Version {
		err = glovebox.Errorf(glovebox.CodeUnavailable, "the guest speaks version %d of the protocol, not %d", reply.Version, wire.Version)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// noRedirect refuses what a guest has no reason to answer.
func noRedirect(*http.Request, []*http.Request) error { return errors.New("the guest redirects") }

// Close ends the session and its streams, and waits until the egress handlers
// have returned, whose connections fail. Processes inside go on.
func (c *Client) Close() error {
	err := c.mux.Close()
	c.wg.Wait()
	return err
}

// Done is closed when the session has ended, for whatever reason.
func (c *Client) Done() <-chan struct{} { return c.mux.CloseChan() }

// accept takes the streams that the guest opens: egress connections.
func (c *Client) accept() {
	for {
		st, err := c.mux.AcceptStream()
		if err != nil {
			return
		}
		select {
		case c.slots <- struct{}{}:
			c.wg.Go(func() {
				defer func() { <-c.slots }()
				c.serveEgress(st)
			})
		default:
			st.Close()
		}
	}
}

func (c *Client) serveEgress(st *yamux.Stream) {
	_ = st.SetReadDeadline(time.Now().Add(wire.HeaderTimeout))
	br := wire.GetReader(st)
	conn := wire.NewConn(st, br)
	h, err := wire.ReadHeader(br)
	if err != nil || h.Kind != wire.KindEgress || c.o.Egress == nil {
		conn.Close()
		return
	}
	_ = st.SetReadDeadline(time.Time{})
	c.o.Egress(conn)
}

// open opens a stream. yamux can't be told to give up, so it is left to
// itself if ctx ends first; its own timeout then ends the session.
func (c *Client) open(ctx context.Context) (*yamux.Stream, error) {
	type result struct {
		st  *yamux.Stream
		err error
	}
	ch := make(chan result, 1)
	go func() {
		st, err := c.mux.OpenStream()
		ch <- result{st, err}
	}()
	select {
	case r := <-ch:
		return r.st, r.err
	case <-ctx.Done():
		go func() {
			if r := <-ch; r.st != nil {
				r.st.Close()
			}
		}()
		return nil, context.Cause(ctx)
	}
}

// framed is a stream of frames being used. The end of ctx interrupts reading
// and writing.
type framed struct {
	ctx context.Context
	op  string
	st  *yamux.Stream
	r   *wire.FrameReader
	w   *wire.FrameWriter

	stop   func() bool
	cancel context.CancelFunc
}

// bound makes the end of ctx, or of the time of calls if timed, interrupt
// the stream.
func (c *Client) bound(f *framed, ctx context.Context, timed bool) {
	f.ctx = ctx
	if _, has := ctx.Deadline(); timed && !has {
		f.ctx, f.cancel = context.WithTimeoutCause(ctx, c.o.CallTimeout, c.errTimeout())
	}
	if st := f.st; st != nil {
		f.stop = context.AfterFunc(f.ctx, func() { _ = st.SetDeadline(time.Unix(1, 0)) })
	}
}

// unbound undoes bound. It returns false if the stream was interrupted.
func (f *framed) unbound() bool {
	well := f.stop == nil || f.stop()
	f.stop = nil
	if f.cancel != nil {
		f.cancel()
		f.cancel = nil
	}
	return well
}

// stream opens a stream of frames. If timed, and ctx has no deadline, it gets
// the one of calls.
func (c *Client) stream(ctx context.Context, op string, h wire.Header, timed bool) (*framed, error) {
	f := &framed{op: op}
	c.bound(f, ctx, timed)
	st, err := c.open(f.ctx)
	if err != nil {
		defer f.close()
		return nil, f.fail(err)
	}
	f.st, f.r, f.w = st, wire.NewFrameReader(st), wire.NewFrameWriter(st, h)
	f.stop = context.AfterFunc(f.ctx, func() { _ = st.SetDeadline(time.Unix(1, 0)) })
	return f, nil
}

func (c *Client) errTimeout() error {
	return fmt.Errorf("the guest did not answer within %v", c.o.CallTimeout)
}

// close closes the stream, which tells the guest to stop what it does for it.
func (f *framed) close() {
	f.unbound()
	if f.st != nil {
		_ = wire.NewConn(f.st, nil).Close()
	}
}

// fail says what an error of the stream means: ctx ended, the guest reported
// it, or the stream broke.
func (f *framed) fail(err error) error {
	if err == nil {
		return nil
	}
	if f.ctx.Err() != nil {
		return unavailable(f.op, context.Cause(f.ctx))
	}
	if e, ok := errors.AsType[*glovebox.Error](err); ok {
		if e.Op == "" {
			e.Op = f.op
		}
		return e
	}
	return unavailable(f.op, fmt.Errorf("the stream to the guest broke: %w", err))
}

func unavailable(op string, err error) error {
	return &glovebox.Error{Code: glovebox.CodeUnavailable, Op: op, Err: err}
}

// call makes a call with a deadline.
func call[Req, Res any](ctx context.Context, c *Client, op string, f func(context.Context, *connect.Request[Req]) (*connect.Response[Res], error), m *Req) (*Res, error) {
	if _, has := ctx.Deadline(); !has {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, c.o.CallTimeout, c.errTimeout())
		defer cancel()
	}
	return callUntimed(ctx, op, f, m)
}

// callUntimed makes a call that may last as long as ctx.
func callUntimed[Req, Res any](ctx context.Context, op string, f func(context.Context, *connect.Request[Req]) (*connect.Response[Res], error), m *Req) (*Res, error) {
	res, err := f(ctx, connect.NewRequest(m))
	if err != nil {
		return nil, wire.FromConnect(ctx, op, err)
	}
	return res.Msg, nil
}

// do makes a call that has no answer.
func do[Req any](ctx context.Context, c *Client, op string, f func(context.Context, *connect.Request[Req]) (*connect.Response[guestpb.Empty], error), m *Req) error {
	_, err := call(ctx, c, op, f, m)
	return err
}

// Bind tells the guest whom it works for. Environment, certificates and files
// are in place even if the error says that the host name or the clock, which
// the sandbox may keep to itself, could not be set (CodeUnavailable).
func (c *Client) Bind(ctx context.Context, s Settings) error {
	m := &guestpb.Settings{Hostname: s.Hostname, Env: s.Env, CaCerts: s.CACerts, Files: s.Files, Seed: s.Seed, Secret: s.Secret}
	if !s.Now.IsZero() {
		m.Now = s.Now.UnixNano()
	}
	err := do(ctx, c, "bind the guest", c.rpc.Bind, m)
	if len(s.Secret) > 0 && (err == nil || glovebox.CodeOf(err) == glovebox.CodeUnavailable) {
		c.secretMu.Lock()
		c.secret = bytes.Clone(s.Secret)
		c.secretMu.Unlock()
	}
	return err
}

// Stats returns what the sandbox uses.
func (c *Client) Stats(ctx context.Context) (Stats, error) {
	m, err := call(ctx, c, "ask the guest what it uses", c.rpc.Stats, &guestpb.Empty{})
	if err != nil {
		return Stats{}, err
	}
	return Stats{MemoryBytes: m.MemoryBytes, Processes: int(m.Processes), DiskBytes: m.DiskBytes}, nil
}
