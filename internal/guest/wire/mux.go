package wire

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/yamux"
)

// Bounds of a session.
const (
	// Window is how many bytes of one stream the receiving end keeps for a
	// slow reader: 512 KiB carry 500 MB/s at a round trip of 1 ms.
	Window = 512 << 10

	// WriteTimeout is how long a peer may refuse to read the connection
	// before the session ends. Only a peer that does not run at all does
	// that, since its reading end never waits for those who use the streams.
	WriteTimeout = 30 * time.Second

	// HeaderTimeout is how long a new stream may take to say what it is.
	HeaderTimeout = 10 * time.Second

	// OpenTimeout is how long a peer may take to acknowledge a stream.
	OpenTimeout = 30 * time.Second
)

// errFlood ends the session of a peer that sends more pings or opens more
// streams than any honest use needs.
var errFlood = errors.New("the peer floods the session")

// NewHost returns the host's end of a session over conn.
func NewHost(conn net.Conn) (*yamux.Session, error) {
	c := config()
	c.EnableKeepAlive = true
	c.KeepAliveInterval = 20 * time.Second
	c.StreamCloseTimeout = time.Minute // what a flood of streams is kept for
	return yamux.Client(&guard{Conn: conn, limit: true}, c)
}

// NewGuest returns the guest's end. It sends no pings of its own: a sandbox
// may be frozen for days, and the end of its connection is seen anyway.
func NewGuest(conn net.Conn) (*yamux.Session, error) {
	c := config()
	c.EnableKeepAlive = false
	return yamux.Server(&guard{Conn: conn}, c)
}

func config() *yamux.Config {
	c := yamux.DefaultConfig()
	c.MaxStreamWindowSize = Window
	c.ConnectionWriteTimeout = WriteTimeout
	c.StreamOpenTimeout = OpenTimeout
	c.LogOutput = io.Discard // what it says is the peer's doing, and is returned as errors too
	return c
}

// guard is the connection as yamux sees it. It joins the header and the body
// of a frame, which yamux writes one after the other, into one write; it
// bounds how long a write may take; and, where limit is set, it follows the
// frames that arrive and ends the session of a peer that floods it: yamux
// starts a goroutine for each ping and keeps each stream for a while.
type guard struct {
	net.Conn
	limit bool

	held [headerSize]byte // a header whose body follows; yamux has one writer
	hold bool
	out  []byte

	parse frameParser
	pings bucket
	syns  bucket
	once  sync.Once
}

const headerSize = 12

// Write implements io.Writer.
func (g *guard) Write(p []byte) (int, error) {
	if !g.hold && len(p) == headerSize && p[1] == 0 && binary.BigEndian.Uint32(p[8:]) > 0 {
		copy(g.held[:], p)
		g.hold = true
		return len(p), nil
	}
	_ = g.SetWriteDeadline(time.Now().Add(WriteTimeout)) // not every connection has deadlines
	if !g.hold {
		return g.Conn.Write(p)
	}
	g.hold = false
	g.out = append(append(g.out[:0], g.held[:]...), p...)
	n, err := g.Conn.Write(g.out)
	return max(0, n-headerSize), err
}

// Read implements io.Reader.
func (g *guard) Read(p []byte) (int, error) {
	n, err := g.Conn.Read(p)
	if !g.limit || n == 0 {
		return n, err
	}
	pings, syns := g.parse.feed(p[:n])
	now := time.Now()
	if !g.pings.take(now, pings, 64, 16) || !g.syns.take(now, syns, 2048, 512) {
		g.once.Do(func() { g.Close() })
		return 0, errFlood
	}
	return n, err
}

// frameParser counts the frames of yamux in a stream of bytes.
type frameParser struct {
	head [headerSize]byte
	have int
	skip uint64 // bytes of the current frame's body that are still to come
}

// feed returns how many pings and opened streams b completes.
func (f *frameParser) feed(b []byte) (pings, syns int) {
	for len(b) > 0 {
		if f.skip > 0 {
			n := min(f.skip, uint64(len(b)))
			f.skip -= n
			b = b[n:]
			continue
		}
		n := copy(f.head[f.have:], b)
		f.have += n
		b = b[n:]
		if f.have < headerSize {
			return pings, syns
		}
		f.have = 0
		kind, flags := f.head[1], binary.BigEndian.Uint16(f.head[2:])
		switch {
		case kind == 2:
			pings++
		case kind <= 1 && flags&1 != 0:
			syns++
		}
		if kind == 0 {
			f.skip = uint64(binary.BigEndian.Uint32(f.head[8:]))
		}
	}
	return pings, syns
}

// bucket allows burst events at once and rate a second in the long run.
type bucket struct {
	used float64
	last time.Time
}

func (b *bucket) take(now time.Time, n int, burst, rate float64) bool {
	if n == 0 {
		return true
	}
	b.used = max(0, b.used-now.Sub(b.last).Seconds()*rate)
	b.last = now
	b.used += float64(n)
	return b.used <= burst
}
