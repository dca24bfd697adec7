package wire

import (
	"io"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/yamux"
)

// Conn is a stream as a connection that can be closed in one direction. A
// yamux stream's own Close only ends its writing side.
type Conn struct {
	*yamux.Stream
	r io.Reader // what was read ahead, then the stream
}

// NewConn returns s as a connection; r, if not nil, is read instead of s.
func NewConn(s *yamux.Stream, r io.Reader) *Conn {
	if r == nil {
		r = s
	}
	return &Conn{Stream: s, r: r}
}

// Read implements io.Reader. yamux ends streams of a session that broke as if
// the peer had; here that is io.ErrUnexpectedEOF, so that what is cut off is
// not taken for whole.
func (c *Conn) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if err == io.EOF && c.Session().IsClosed() {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// CloseWrite tells the peer that nothing more comes.
func (c *Conn) CloseWrite() error { return c.Stream.Close() }

// Close ends both directions.
func (c *Conn) Close() error {
	err := c.Stream.Close()
	_ = c.SetReadDeadline(time.Unix(1, 0))
	return err
}

// Join copies between two connections in both directions until both have
// ended, or one has failed. It closes both.
func Join(a, b net.Conn) {
	var wg sync.WaitGroup
	one := func(dst, src net.Conn) {
		_, err := io.Copy(dst, src)
		if err != nil {
			a.Close()
			b.Close()
			return
		}
		if w, ok := dst.(interface{ CloseWrite() error }); ok {
			_ = w.CloseWrite()
		} else {
			dst.Close()
		}
	}
	wg.Go(func() { one(a, b) })
	wg.Go(func() { one(b, a) })
	wg.Wait()
	a.Close()
	b.Close()
}
