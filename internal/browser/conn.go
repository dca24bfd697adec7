package browser

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/coder/websocket"

	"github.com/glovebox-dev/glovebox"
)

// object is the parameters of a command.
type object = map[string]any

// message is what goes over the connection: a command, its reply, an event.
type message struct {
	ID      int64           `json:"id,omitempty"`
	Session string          `json:"sessionId,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *protocolError  `json:"error,omitempty"`
}

// protocolError is what the browser answers to a command that it can't obey.
type protocolError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (e *protocolError) Error() string { return clean(e.Message, 300) }

// handler takes the events of a session. It must not block.
type handler func(method string, params json.RawMessage)

// conn is a connection that speaks the protocol. One goroutine reads, one
// writes: a handler may send commands, and a browser that does not read can't
// keep us from reading.
type conn struct {
	ws     *websocket.Conn
	out    chan []byte
	cancel context.CancelCauseFunc
	ctx    context.Context // ends with the connection
	wg     sync.WaitGroup

	mu       sync.Mutex
	next     int64
	waiting  map[int64]chan message
	handlers map[string]handler // by session; "" for the browser's own
}

func newConn(ws *websocket.Conn) *conn {
	ctx, cancel := context.WithCancelCause(context.Background())
	c := &conn{ws: ws, ctx: ctx, cancel: cancel, out: make(chan []byte, 64), waiting: map[int64]chan message{}, handlers: map[string]handler{}}
	c.wg.Go(c.read)
	c.wg.Go(c.write)
	return c
}

var errClosed = errors.New("the connection was closed")

func (c *conn) close() error {
	c.cancel(errClosed)
	err := c.ws.CloseNow()
	c.wg.Wait()
	return err
}

func (c *conn) read() {
	for {
		_, data, err := c.ws.Read(c.ctx)
		if err != nil {
			if errors.Is(err, websocket.ErrMessageTooBig) {
				err = fmt.Errorf("it sent a message of more than %d bytes", maxMessage)
			}
			c.cancel(fmt.Errorf("the connection to the browser broke: %w", err))
			_ = c.ws.CloseNow()
			return
		}
		var m message
		if json.Unmarshal(data, &m) != nil {
			c.cancel(errors.New("the browser sent what is not JSON"))
			_ = c.ws.CloseNow()
			return
		}
		c.mu.Lock()
		reply, h := c.waiting[m.ID], c.handlers[m.Session]
		delete(c.waiting, m.ID) // one answer a command: the channel has room for it
		c.mu.Unlock()
		switch {
		case m.ID != 0 && reply != nil:
			reply <- m
		case m.ID == 0 && h != nil:
			h(m.Method, m.Params)
		}
	}
}

func (c *conn) write() {
	for {
		select {
		case <-c.ctx.Done():
			return
		case data := <-c.out:
			if err := c.ws.Write(c.ctx, websocket.MessageText, data); err != nil {
				c.cancel(fmt.Errorf("the connection to the browser broke: %w", err))
				return
			}
		}
	}
}

// handle has h take the events of a session; nil for nobody.
func (c *conn) handle(session string, h handler) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h == nil {
		delete(c.handlers, session)
	} else {
		c.handlers[session] = h
	}
}

// post sends a command whose answer nobody waits for. It never blocks: if the
// browser takes nothing more, the command is lost.
func (c *conn) post(session, method string, params object) {
	data, _, err := c.encode(session, method, params, nil)
	if err != nil {
		return
	}
	select {
	case c.out <- data:
	default:
	}
}

func (c *conn) encode(session, method string, params object, reply chan message) (data []byte, id int64, err error) {
	raw, err := json.Marshal(params)
	if err != nil {
		return nil, 0, err
	}
	c.mu.Lock()
	c.next++
	id = c.next
	if reply != nil {
		c.waiting[id] = reply
	}
	c.mu.Unlock()
	data, err = json.Marshal(message{ID: id, Session: session, Method: method, Params: raw})
	return data, id, err
}

// errSilent is why a call ended that the browser did not answer in time.
var errSilent = errors.New("the browser did not answer in time")

// call sends a command and waits for its answer, at most 10 s.
func (c *conn) call(ctx context.Context, session, method string, params object, result any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, callTimeout, errSilent)
	defer cancel()
	return c.callUntimed(ctx, session, method, params, result)
}

// callUntimed is call for as long as ctx.
func (c *conn) callUntimed(ctx context.Context, session, method string, params object, result any) error {
	reply := make(chan message, 1)
	data, id, err := c.encode(session, method, params, reply)
	if err != nil {
		return err
	}
	defer func() {
		c.mu.Lock()
		delete(c.waiting, id)
		c.mu.Unlock()
	}()
	fail := func(err error) error {
		return &glovebox.Error{Code: glovebox.CodeUnavailable, Op: "tell the browser " + method, Err: err}
	}
	select {
	case c.out <- data:
	case <-ctx.Done():
		return fail(context.Cause(ctx))
	case <-c.ctx.Done():
		return fail(context.Cause(c.ctx))
	}
	select {
	case m := <-reply:
		if m.Error != nil {
			return fail(m.Error)
		}
		if result == nil {
			return nil
		}
		if err := json.Unmarshal(m.Result, result); err != nil {
			return fail(fmt.Errorf("its answer can't be read: %w", err))
		}
		return nil
	case <-ctx.Done():
		return fail(context.Cause(ctx))
	case <-c.ctx.Done():
		return fail(context.Cause(c.ctx))
	}
}
