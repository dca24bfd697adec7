package guest

import (
	"bufio"
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"sync"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/glovebox-dev/glovebox/internal/guest/wire"
)

// transport sends calls, each over a stream of its own at the time, and uses
// streams again. http.Transport would do, but it writes to the process's log
// what a peer sends unasked, and keeps two goroutines a stream.
type transport struct {
	c *Client

	mu   sync.Mutex
	idle []*callStream
}

// callStream is a stream for one call after another.
type callStream struct {
	st    *yamux.Stream
	limit *io.LimitedReader // of what is read: bounds the header of an answer
	r     *bufio.Reader
	w     *bufio.Writer
	stop  func() bool // ends the watch of the call's context
}

// get returns a stream that is idle, or a new one.
func (t *transport) get(ctx context.Context) (*callStream, error) {
	t.mu.Lock()
	if n := len(t.idle); n > 0 {
		s := t.idle[n-1]
		t.idle = t.idle[:n-1]
		t.mu.Unlock()
		if s.r.Buffered() == 0 {
			return s, nil
		}
		s.close() // it brought what nobody asked for
	} else {
		t.mu.Unlock()
	}
	st, err := t.c.open(ctx)
	if err != nil {
		return nil, err
	}
	s := &callStream{st: st, limit: &io.LimitedReader{R: st}, w: bufio.NewWriterSize(st, 8<<10)}
	s.r = bufio.NewReaderSize(s.limit, 8<<10)
	_, err = s.w.Write(wire.Header{Kind: wire.KindCall}.Append(nil))
	return s, err
}

func (s *callStream) close() { _ = wire.NewConn(s.st, nil).Close() }

// put gives a stream back whose answer was read to its end.
func (t *transport) put(s *callStream) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.idle) >= maxIdleCalls {
		s.close()
		return
	}
	t.idle = append(t.idle, s)
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	if req.Body != nil {
		defer req.Body.Close()
	}
	s, err := t.get(ctx)
	if err != nil {
		return nil, err
	}
	s.stop = context.AfterFunc(ctx, func() { _ = s.st.SetDeadline(time.Unix(1, 0)) })
	res, err := s.roundTrip(req)
	if err != nil {
		s.stop()
		s.close()
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, err
	}
	res.Body = &callBody{ReadCloser: res.Body, t: t, s: s, keep: !res.Close}
	return res, nil
}

func (s *callStream) roundTrip(req *http.Request) (*http.Response, error) {
	if err := req.Write(s.w); err != nil {
		return nil, err
	}
	if err := s.w.Flush(); err != nil {
		return nil, err
	}
	s.limit.N = maxReplyHeader
	res, err := http.ReadResponse(s.r, req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode < 200 {
		return nil, errors.New("the guest answers with a status of " + res.Status)
	}
	s.limit.N = math.MaxInt64 // the body is bounded by whoever reads it
	return res, nil
}

// callBody is the body of an answer.
type callBody struct {
	io.ReadCloser
	t     *transport
	s     *callStream
	keep  bool // the stream can be used again once all is read
	whole bool
	once  sync.Once
}

// Read implements io.Reader.
func (b *callBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.whole = b.whole || err == io.EOF
	return n, err
}

// Close implements io.Closer. Unlike that of net/http it reads nothing more.
func (b *callBody) Close() error {
	b.once.Do(func() {
		if b.s.stop() && b.keep && b.whole {
			b.t.put(b.s)
			return
		}
		b.s.close()
	})
	return nil
}
