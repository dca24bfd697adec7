package egress

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
)

// maxHello bounds the first message of TLS. With post-quantum key shares it
// is about 2 KiB; resumption tickets add some.
const maxHello = 32 << 10

var errNotTLS = errors.New("what came first is not TLS")

// peekServerName reads the first message of TLS from br without consuming it
// and returns the server name in it, empty if there is none.
func peekServerName(br *bufio.Reader) (string, error) {
	var msg []byte
	for at, want := 0, 4; ; {
		h, err := br.Peek(at + 1)
		if err == nil && h[at] == 22 {
			h, err = br.Peek(at + 5)
		}
		if err != nil {
			return "", err
		}
		if h[at] != 22 || h[at+1] != 3 {
			return "", errNotTLS
		}
		n := int(binary.BigEndian.Uint16(h[at+3:]))
		if n == 0 || n > 16<<10 || at+5+n > maxHello {
			return "", fmt.Errorf("the first message of TLS has a record of %d bytes", n)
		}
		b, err := br.Peek(at + 5 + n)
		if err != nil {
			return "", err
		}
		msg = append(msg, b[at+5:]...)
		at += 5 + n
		if len(msg) >= 4 {
			if msg[0] != 1 {
				return "", errNotTLS
			}
			want = 4 + (int(msg[1])<<16 | int(msg[2])<<8 | int(msg[3]))
		}
		if want > maxHello {
			return "", fmt.Errorf("the first message of TLS is %d bytes long", want)
		}
		if len(msg) >= want {
			return serverName(msg[4:want])
		}
	}
}

// cursor reads a message of TLS. After a read past the end ok is false.
type cursor struct {
	b  []byte
	ok bool
}

func (c *cursor) take(n int) []byte {
	if !c.ok || n > len(c.b) {
		c.ok = false
		return nil
	}
	v := c.b[:n]
	c.b = c.b[n:]
	return v
}

// vector reads bytes that are preceded by their length in size bytes.
func (c *cursor) vector(size int) *cursor {
	n := 0
	for _, b := range c.take(size) {
		n = n<<8 | int(b)
	}
	return &cursor{b: c.take(n), ok: c.ok}
}

// serverName finds the server name in the body of a ClientHello. Anything
// that servers might read in two ways is an error: an extension or a name
// that is there twice, bytes left over.
func serverName(body []byte) (string, error) {
	malformed := errors.New("the first message of TLS is malformed")
	c := &cursor{b: body, ok: true}
	c.take(2 + 32) // version, random
	c.vector(1)    // session id
	c.vector(2)    // cipher suites
	c.vector(1)    // compression methods
	if !c.ok {
		return "", malformed
	}
	if len(c.b) == 0 {
		return "", nil
	}
	exts := c.vector(2)
	if !c.ok || len(c.b) != 0 {
		return "", malformed
	}
	name, seen := "", map[uint16]bool{}
	for len(exts.b) > 0 {
		typ := exts.take(2)
		data := exts.vector(2)
		if !exts.ok || !data.ok {
			return "", malformed
		}
		id := binary.BigEndian.Uint16(typ)
		if seen[id] {
			return "", fmt.Errorf("the first message of TLS has the extension %d twice", id)
		}
		seen[id] = true
		if id != 0 {
			continue
		}
		list := data.vector(2)
		if kind := list.take(1); !list.ok || len(data.b) != 0 || kind[0] != 0 {
			return "", malformed
		}
		v := list.vector(2)
		if !list.ok || len(list.b) != 0 || len(v.b) == 0 {
			return "", malformed
		}
		name = string(v.b)
	}
	return name, nil
}
