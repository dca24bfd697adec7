//go:build linux

package display

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// conn is a connection to an X server, for one goroutine at a time. It speaks
// the little of the protocol that is needed here by itself: the server is no
// more to be trusted than the programs beside it, so every reply is bounded
// and every read and write has a deadline, which the libraries lack. There is
// no goroutine behind it.
type conn struct {
	c      net.Conn
	r      *bufio.Reader
	out    []byte // requests to be written at the next flush
	seq    uint16 // of the newest request
	setup  setup
	opcode map[string]ext
	atoms  map[string]uint32
	events func(ev []byte) // gets events of 32 bytes; may be nil
	remap  bool            // keys may mean something else than when they were asked for
	until  time.Time
}

// setup is what the server said of itself.
type setup struct {
	idBase, idMask uint32
	root           uint32
	w, h           int // of the screen as it was then
	depth          byte
	minKey, maxKey byte
	bpp            byte // bits per pixel at depth
}

// ext is an extension.
type ext struct{ major, event byte }

// Bounds.
const (
	maxSetup = 256 << 10
	maxReply = 64 << 20 // bytes; the picture of 16 million pixels
	ioBuffer = 64 << 10
)

// mappingNotify is the event that every client gets when keys get a new
// meaning, also when it was the client itself that gave it.
const mappingNotify = 34

// xError is an error that the server reports about one request.
type xError struct {
	code, major byte
	minor       uint16
	value       uint32
	seq         uint16
}

// Error implements error.
func (e *xError) Error() string {
	return fmt.Sprintf("the display refuses request %d.%d with error %d (value %#x)", e.major, e.minor, e.code, e.value)
}

// errProtocol is what a server gets that does not speak X.
var errProtocol = errors.New("the display does not speak the protocol")

// dial connects to the X server at a unix socket.
func dial(socket string, until time.Time) (*conn, error) {
	d := net.Dialer{Deadline: until}
	nc, err := d.Dial("unix", socket)
	if err != nil {
		return nil, err
	}
	c := &conn{c: nc, r: bufio.NewReaderSize(nc, ioBuffer), opcode: map[string]ext{}, atoms: map[string]uint32{}}
	c.deadline(until)
	if err := c.handshake(); err != nil {
		nc.Close()
		return nil, err
	}
	return c, nil
}

// deadline sets until when the server must have answered what is asked next.
func (c *conn) deadline(until time.Time) {
	c.until = until
	_ = c.c.SetDeadline(until)
}

func (c *conn) close() { c.c.Close() }

func (c *conn) handshake() error {
	hello := make([]byte, 12)
	hello[0] = 'l'
	binary.LittleEndian.PutUint16(hello[2:], 11)
	if _, err := c.c.Write(hello); err != nil {
		return err
	}
	head := make([]byte, 8)
	if _, err := io.ReadFull(c.r, head); err != nil {
		return err
	}
	body := make([]byte, 4*int(binary.LittleEndian.Uint16(head[6:])))
	if len(body) > maxSetup {
		return errProtocol
	}
	if _, err := io.ReadFull(c.r, body); err != nil {
		return err
	}
	if head[0] != 1 {
		return errors.New("the display refuses connections")
	}
	return c.setup.parse(body)
}

// parse reads the server's description: the first screen and its root's depth.
func (s *setup) parse(b []byte) error {
	le := binary.LittleEndian
	if len(b) < 32 {
		return errProtocol
	}
	s.idBase, s.idMask = le.Uint32(b[4:]), le.Uint32(b[8:])
	vendor, formats := int(le.Uint16(b[16:])), int(b[21])
	s.minKey, s.maxKey = b[26], b[27]
	if b[22] != 0 { // the image byte order
		return errors.New("the display sends pictures in an order of bytes that is not supported")
	}
	at := 32 + (vendor+3)&^3
	screen := at + 8*formats
	if len(b) < screen+40 || s.minKey < 8 || s.maxKey < s.minKey {
		return errProtocol
	}
	sc := b[screen:]
	s.root, s.depth = le.Uint32(sc), sc[38]
	s.w, s.h = int(le.Uint16(sc[20:])), int(le.Uint16(sc[22:]))
	for i := range formats {
		if f := b[at+8*i:]; f[0] == s.depth {
			s.bpp = f[1]
		}
	}
	return nil
}

// request adds a request to what is to be written: the opcode, a byte of data,
// and the rest of its body, whose length is a multiple of four. It returns its
// number.
func (c *conn) request(major, data byte, body ...uint32) uint16 {
	n := 1 + len(body)
	c.out = append(c.out, major, data, byte(n), byte(n>>8))
	for _, v := range body {
		c.out = binary.LittleEndian.AppendUint32(c.out, v)
	}
	c.seq++
	return c.seq
}

// requestBytes is request with a body of bytes, padded to a multiple of four.
func (c *conn) requestBytes(major, data byte, head []uint32, tail []byte) uint16 {
	n := 1 + len(head) + (len(tail)+3)/4
	c.out = append(c.out, major, data, byte(n), byte(n>>8))
	for _, v := range head {
		c.out = binary.LittleEndian.AppendUint32(c.out, v)
	}
	c.out = append(c.out, tail...)
	for len(c.out)%4 != 0 {
		c.out = append(c.out, 0)
	}
	c.seq++
	return c.seq
}

// flush writes what was gathered, in one write.
func (c *conn) flush() error {
	if len(c.out) == 0 {
		return nil
	}
	_, err := c.c.Write(c.out)
	c.out = c.out[:0]
	return err
}

// reply waits for the reply to a request. It appends what follows the first 32
// bytes to into. A request that the server refuses is an *xError. Replies have
// to be waited for in the order of the requests; those to earlier ones, whose
// callers gave up, are skipped.
func (c *conn) reply(seq uint16, into []byte) (head [32]byte, body []byte, err error) {
	if err := c.flush(); err != nil {
		return head, nil, err
	}
	for {
		kind, got, b, err := c.next(&head, seq, into)
		if err != nil {
			return head, nil, err
		}
		switch {
		case kind == 1 && got == seq:
			return head, b, nil
		case kind == 0 && got == seq:
			return head, nil, errorOf(head)
		case int16(got-seq) > 0 && kind <= 1: // the server went past it
			return head, nil, errProtocol
		}
	}
}

func errorOf(head [32]byte) *xError {
	le := binary.LittleEndian
	return &xError{code: head[1], seq: le.Uint16(head[2:]), value: le.Uint32(head[4:]), minor: le.Uint16(head[8:]), major: head[10]}
}

// next reads one error (0), reply (1) or event (more) and gives events away.
// The body of a reply that is not to seq is thrown away.
func (c *conn) next(head *[32]byte, seq uint16, into []byte) (kind byte, got uint16, body []byte, err error) {
	if _, err := io.ReadFull(c.r, head[:]); err != nil {
		return 0, 0, nil, err
	}
	kind, got = head[0]&0x7f, binary.LittleEndian.Uint16(head[2:])
	extra := uint64(binary.LittleEndian.Uint32(head[4:])) * 4
	switch {
	case kind == 1 || kind == 35: // a reply; an event of the generic kind, which has a body too
		if extra > maxReply {
			return 0, 0, nil, errProtocol
		}
		if kind != 1 || got != seq {
			_, err := io.CopyN(io.Discard, c.r, int64(extra))
			return kind, got, nil, err
		}
		body, err := readBody(c.r, into, int(extra))
		return kind, got, body, err
	case kind == mappingNotify:
		c.remap = true
	case kind > 1 && c.events != nil:
		c.events(head[:])
	}
	return kind, got, nil, nil
}

// readBody appends n bytes to into, which grows only as they arrive.
func readBody(r io.Reader, into []byte, n int) ([]byte, error) {
	const step = 8 << 20
	for n > 0 {
		at, k := len(into), min(n, step)
		if cap(into) < at+k {
			into = append(make([]byte, 0, at+k), into...)
		}
		into = into[:at+k]
		if _, err := io.ReadFull(r, into[at:]); err != nil {
			return nil, err
		}
		n -= k
	}
	return into, nil
}

// sync waits until the server has done what was asked before.
func (c *conn) sync() error {
	_, _, err := c.reply(c.request(43, 0), nil) // GetInputFocus
	return err
}

// extension returns an extension, which is asked for once.
func (c *conn) extension(name string) (ext, error) {
	e, ok := c.opcode[name]
	if !ok {
		head, _, err := c.reply(c.requestBytes(98, 0, []uint32{uint32(len(name))}, []byte(name)), nil)
		if err != nil {
			return ext{}, err
		}
		if head[8] != 0 {
			e = ext{major: head[9], event: head[10]}
		}
		c.opcode[name] = e
	}
	if e.major == 0 {
		return e, fmt.Errorf("the display lacks the extension %s", name)
	}
	return e, nil
}

// intern returns atoms by their names.
func (c *conn) intern(names ...string) ([]uint32, error) {
	seqs := make([]uint16, len(names))
	for i, n := range names {
		if _, ok := c.atoms[n]; !ok {
			seqs[i] = c.requestBytes(16, 0, []uint32{uint32(len(n))}, []byte(n))
		}
	}
	list := make([]uint32, len(names))
	for i, n := range names {
		if seqs[i] != 0 {
			head, _, err := c.reply(seqs[i], nil)
			if err != nil {
				return nil, err
			}
			c.atoms[n] = binary.LittleEndian.Uint32(head[8:])
		}
		list[i] = c.atoms[n]
	}
	return list, nil
}

// property asks for a property of a window, at most limit bytes of it.
func (c *conn) property(window, atom uint32, limit int) uint16 {
	return c.request(20, 0, window, atom, 0, 0, uint32(limit+3)/4)
}

// propertyReply returns what property asked for; nothing if there is none.
func (c *conn) propertyReply(seq uint16) ([]byte, error) {
	head, body, err := c.reply(seq, nil)
	if err != nil {
		return nil, err
	}
	n := int(binary.LittleEndian.Uint32(head[16:])) // in units of the format
	switch head[1] {
	case 16:
		n *= 2
	case 32:
		n *= 4
	}
	if n < 0 || n > len(body) {
		n = len(body)
	}
	return body[:n], nil
}
