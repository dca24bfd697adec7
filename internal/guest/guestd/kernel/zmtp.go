//go:build linux

package kernel

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// A client of the ZeroMQ message transport protocol, version 3.0, with no
// security: what a DEALER and a SUB socket need. It is written here because
// the peer is not trusted and the daemon is the first process of its sandbox:
// the libraries allocate whatever length a frame claims. It also sends a
// message in one write and reads it with as few as the kernel's own allow,
// which is what the time of a small cell goes into.

// Bounds of what a kernel may send.
const (
	maxMessage   = 24 << 20 // bytes of one message; frames beyond it are dropped
	maxFrames    = 64       // of one message
	readAhead    = 16 << 10
	sendTimeout  = 30 * time.Second // for a kernel that does not read
	shakeTimeout = 30 * time.Second
)

// The flags of a frame.
const (
	flagMore    = 1
	flagLong    = 2
	flagCommand = 4
)

// peer is a connection to one socket of a kernel. One goroutine may send
// while another receives.
type peer struct {
	conn net.Conn
	r    *bufio.Reader
	out  []byte
}

// dialPeer connects to a socket; kind is our own type, "DEALER" or "SUB".
func dialPeer(ctx context.Context, network, addr, kind string) (*peer, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	p := &peer{conn: conn, r: bufio.NewReaderSize(conn, readAhead)}
	_ = conn.SetDeadline(time.Now().Add(shakeTimeout))
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	err = p.shake(kind)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err == nil {
		err = conn.SetDeadline(time.Time{})
	}
	if err == nil && kind == "SUB" {
		err = p.send([]byte{1}) // a subscription to everything
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return p, nil
}

const greetingSize = 64

// shake exchanges greetings and the command READY.
func (p *peer) shake(kind string) error {
	hello := make([]byte, greetingSize, greetingSize+64)
	hello[0], hello[9], hello[10] = 0xff, 0x7f, 3
	copy(hello[12:], "NULL")
	ready := append([]byte{5}, "READY"...)
	ready = appendProperty(ready, "Socket-Type", kind)
	ready = appendProperty(ready, "Identity", "")
	hello = append(append(hello, flagCommand, byte(len(ready))), ready...)
	if _, err := p.conn.Write(hello); err != nil {
		return err
	}
	var theirs [greetingSize]byte
	if _, err := io.ReadFull(p.r, theirs[:]); err != nil {
		return fmt.Errorf("read the greeting: %w", err)
	}
	if theirs[0] != 0xff || theirs[9]&1 != 1 || theirs[10] < 3 || string(bytes.TrimRight(theirs[12:32], "\x00")) != "NULL" {
		return errors.New("the kernel's socket does not speak ZMTP 3")
	}
	flags, size, err := p.frame()
	if err != nil {
		return fmt.Errorf("read READY: %w", err)
	}
	if flags&flagCommand == 0 || size > 4096 {
		return errors.New("the kernel's socket is not ready")
	}
	_, err = p.r.Discard(int(size))
	return err
}

func appendProperty(b []byte, name, value string) []byte {
	b = append(append(b, byte(len(name))), name...)
	b = binary.BigEndian.AppendUint32(b, uint32(len(value)))
	return append(b, value...)
}

func (p *peer) close() { p.conn.Close() }

// send sends a message.
func (p *peer) send(frames ...[]byte) error {
	b := p.out[:0]
	for i, f := range frames {
		flags := byte(0)
		if i < len(frames)-1 {
			flags = flagMore
		}
		if len(f) > 255 {
			b = binary.BigEndian.AppendUint64(append(b, flags|flagLong), uint64(len(f)))
		} else {
			b = append(b, flags, byte(len(f)))
		}
		b = append(b, f...)
	}
	_ = p.conn.SetWriteDeadline(time.Now().Add(sendTimeout))
	_, err := p.conn.Write(b)
	if p.out = b[:0]; cap(b) > readAhead {
		p.out = nil
	}
	return err
}

// frame reads the beginning of a frame.
func (p *peer) frame() (flags byte, size uint64, err error) {
	if flags, err = p.r.ReadByte(); err != nil {
		return 0, 0, err
	}
	if flags&flagLong == 0 {
		n, err := p.r.ReadByte()
		return flags, uint64(n), err
	}
	var long [8]byte
	if _, err := io.ReadFull(p.r, long[:]); err != nil {
		return 0, 0, err
	}
	if size = binary.BigEndian.Uint64(long[:]); size > 1<<62 {
		return 0, 0, errors.New("the kernel sent a frame of an impossible length")
	}
	return flags, size, nil
}

// recv receives a message. A frame for which there is no room any more is
// nil, and its size is counted in dropped.
func (p *peer) recv() (frames [][]byte, dropped int64, err error) {
	room := int64(maxMessage)
	for {
		flags, size, err := p.frame()
		if err != nil {
			return nil, 0, err
		}
		n := int64(size)
		switch {
		case flags&flagCommand != 0 && n <= maxMessage: // such as PING; nobody waits for an answer
			if err := p.skip(n); err != nil {
				return nil, 0, err
			}
			continue
		case flags&flagCommand != 0:
			return nil, 0, errors.New("the kernel sent a command that is too long")
		case n > room || len(frames) >= maxFrames:
			if err := p.skip(n); err != nil {
				return nil, 0, err
			}
			dropped += n
			if len(frames) < maxFrames {
				frames = append(frames, nil)
			}
		default:
			b, err := p.body(int(n))
			if err != nil {
				return nil, 0, err
			}
			room -= n
			frames = append(frames, b)
		}
		if flags&flagMore == 0 {
			return frames, dropped, nil
		}
	}
}

func (p *peer) skip(n int64) error {
	_, err := io.CopyN(io.Discard, p.r, n)
	return err
}

// body reads n bytes into memory that grows only as they arrive.
func (p *peer) body(n int) ([]byte, error) {
	const step = 256 << 10
	b := make([]byte, min(n, step))
	if _, err := io.ReadFull(p.r, b); err != nil {
		return nil, err
	}
	for len(b) < n {
		at, more := len(b), min(n-len(b), max(step, len(b)))
		b = append(b, make([]byte, more)...)
		if _, err := io.ReadFull(p.r, b[at:]); err != nil {
			return nil, err
		}
	}
	return b, nil
}
