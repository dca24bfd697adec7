package rfb

import (
	"bufio"
	"encoding/binary"
	"io"
)

// message is a whole message of the viewer's.
type message struct {
	typ  byte
	data []byte // the message, its type included
}

// isInput reports whether a message acts on the machine. Those that don't act
// on what this one viewer is sent.
func (m message) isInput() bool {
	switch m.typ {
	case msgSetPixelFormat, msgSetEncodings, msgUpdateRequest, msgContinuousUpdates, msgFence:
		return false
	}
	return true
}

// readMessage reads one message of the viewer's and checks its form. What the
// relay does not know is an error: its length is not known either.
func readMessage(r *bufio.Reader) (message, error) {
	typ, err := r.ReadByte()
	if err != nil {
		return message{}, err
	}
	m := message{typ: typ, data: []byte{typ}}
	switch typ {
	case msgSetPixelFormat:
		err = m.fill(r, 19)
		if err == nil {
			err = checkFormat(m.data[4:])
		}
	case msgSetEncodings:
		err = m.listed(r, 3, 1, 4, maxEncodings)
	case msgUpdateRequest, msgContinuousUpdates:
		err = m.fill(r, 9)
	case msgKey:
		err = m.fill(r, 7)
	case msgPointer:
		err = m.fill(r, 5)
		if err == nil && m.data[1]&0x80 != 0 {
			err = fault(Viewer, "uses extended mouse buttons, which were not offered")
		}
	case msgClientCutText:
		err = m.cutText(r)
	case msgFence:
		err = m.listed(r, 8, 7, 1, maxFence)
	case msgXVP:
		err = m.fill(r, 3)
	case msgSetDesktopSize:
		if err = m.listed(r, 7, 5, 16, maxScreens); err == nil {
			w, h := int(binary.BigEndian.Uint16(m.data[2:])), int(binary.BigEndian.Uint16(m.data[4:]))
			if checkSize(w, h) != nil {
				err = fault(Viewer, "asks for a screen of %dx%d", w, h)
			}
		}
	case msgQEMU:
		if err = m.fill(r, 11); err == nil && m.data[1] != 0 {
			err = fault(Viewer, "sends the QEMU message %d, which is not known", m.data[1])
		}
	default:
		err = fault(Viewer, "sends a message of type %d, which is not known", typ)
	}
	return m, err
}

// fill reads n further bytes.
func (m *message) fill(r io.Reader, n int) error {
	at := len(m.data)
	m.data = append(m.data, make([]byte, n)...)
	_, err := io.ReadFull(r, m.data[at:])
	return err
}

// listed reads head bytes, and then as many things of size bytes as the number
// at offset at of them says: one byte, or two if things have four bytes.
func (m *message) listed(r io.Reader, head, at, size, most int) error {
	if err := m.fill(r, head); err != nil {
		return err
	}
	n := int(m.data[1+at])
	if size == 4 {
		n = int(binary.BigEndian.Uint16(m.data[1+at:]))
	}
	if n > most {
		return fault(Viewer, "lists %d things in a message of type %d; the bound is %d", n, m.typ, most)
	}
	return m.fill(r, n*size)
}

func (m *message) cutText(r io.Reader) error {
	if err := m.fill(r, 7); err != nil {
		return err
	}
	n, err := cutLength(Viewer, m.data[4:])
	if err != nil {
		return err
	}
	return m.fill(r, n)
}

// cutLength returns how long a clipboard is. That of an extended one is
// negative.
func cutLength(p Peer, b []byte) (int, error) {
	n := int64(int32(binary.BigEndian.Uint32(b)))
	if n < 0 {
		n = -n
	}
	if n > maxCutText {
		return 0, fault(p, "sends a clipboard of %d bytes; the bound is %d", n, maxCutText)
	}
	return int(n), nil
}

// checkFormat refuses every format but those of 32 bits of which 24 count:
// what follows from the display is read by it.
func checkFormat(f []byte) error {
	ok := f[0] == 32 && f[1] == 24 && f[3] != 0
	for i := range 3 {
		ok = ok && f[4+2*i] == 0 && f[5+2*i] == 255 && f[10+i]%8 == 0 && f[10+i] <= 24
	}
	if !ok {
		return fault(Viewer, "asks for a pixel format other than 32 bits with 24 of colour")
	}
	return nil
}

// filterEncodings leaves in a list of encodings those that are vouched for.
func filterEncodings(m message) message {
	out := append([]byte{}, m.data[:4]...)
	for b := m.data[4:]; len(b) >= 4; b = b[4:] {
		if vouched(int32(binary.BigEndian.Uint32(b))) {
			out = append(out, b[:4]...)
		}
	}
	binary.BigEndian.PutUint16(out[2:], uint16((len(out)-4)/4))
	return message{typ: m.typ, data: out}
}
