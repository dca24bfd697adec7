package rfb

import (
	"bufio"
	"context"
	"crypto/des"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"net"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// pixelFormat is the one that both sides use: 32 bits, of which 24 count, red
// in the lowest byte.
var pixelFormat = [16]byte{32, 24, 0, 1, 0, 255, 0, 255, 0, 255, 0, 8, 16}

// Display is the display of a sandbox, ready to be watched.
type Display struct {
	conn          net.Conn
	r             *bufio.Reader
	in            *pump
	width, height int
	name          string
}

// Dial shakes hands with the display at the other end of conn, which it owns
// from then on. The end of ctx interrupts it. password is that of VNC
// authentication; of its bytes the first eight count. Empty: the display must
// ask for none.
func Dial(ctx context.Context, conn net.Conn, password string) (*Display, error) {
	in := &pump{conn: conn}
	d := &Display{conn: conn, in: in, r: bufio.NewReaderSize(in, bufferSize)}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	err := d.handshake(password)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err == nil {
		err = conn.SetDeadline(time.Time{})
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("shake hands with the display: %w", err)
	}
	return d, nil
}

// Close ends the connection to the display.
func (d *Display) Close() error { return d.conn.Close() }

func (d *Display) handshake(password string) error {
	var v [12]byte
	if _, err := io.ReadFull(d.r, v[:]); err != nil {
		return err
	}
	if !strings.HasPrefix(string(v[:]), "RFB 003.008") {
		return fault(Screen, "speaks %q, not RFB 3.8", v[:])
	}
	if _, err := io.WriteString(d.conn, version); err != nil {
		return err
	}
	if err := d.authenticate(password); err != nil {
		return err
	}
	if _, err := d.conn.Write([]byte{1}); err != nil { // shared: others go on watching
		return err
	}
	var init [20]byte
	if _, err := io.ReadFull(d.r, init[:]); err != nil {
		return err
	}
	d.width, d.height = int(binary.BigEndian.Uint16(init[0:])), int(binary.BigEndian.Uint16(init[2:]))
	if err := checkSize(d.width, d.height); err != nil {
		return err
	}
	name, err := readText(d.r, Screen, maxReadName)
	if err != nil {
		return err
	}
	d.name = cleanName(name)
	_, err = d.conn.Write(append([]byte{msgSetPixelFormat, 0, 0, 0}, pixelFormat[:]...))
	return err
}

func (d *Display) authenticate(password string) error {
	n, err := d.r.ReadByte()
	if err != nil {
		return err
	}
	if n == 0 {
		reason, err := readText(d.r, Screen, maxReason)
		if err != nil {
			return err
		}
		return fault(Screen, "refuses: %s", cleanName(reason))
	}
	types := make([]byte, n)
	if _, err := io.ReadFull(d.r, types); err != nil {
		return err
	}
	want := byte(securityVNC)
	if password == "" {
		want = securityNone
	}
	if !slices.Contains(types, want) {
		return fault(Screen, "offers the security types %v, not %d", types, want)
	}
	if _, err := d.conn.Write([]byte{want}); err != nil {
		return err
	}
	if want == securityVNC {
		var challenge [16]byte
		if _, err := io.ReadFull(d.r, challenge[:]); err != nil {
			return err
		}
		response, err := vncResponse(password, challenge)
		if err != nil {
			return err
		}
		if _, err := d.conn.Write(response[:]); err != nil {
			return err
		}
	}
	var result [4]byte
	if _, err := io.ReadFull(d.r, result[:]); err != nil {
		return err
	}
	if binary.BigEndian.Uint32(result[:]) == 0 {
		return nil
	}
	reason, err := readText(d.r, Screen, maxReason)
	if err != nil {
		return errors.Join(fault(Screen, "refuses the secret"), err)
	}
	return fault(Screen, "refuses the secret: %s", cleanName(reason))
}

// vncResponse answers a challenge of VNC authentication: DES under the first
// eight bytes of the password, each with its bits reversed, as VNC has it. It
// guards a socket inside a sandbox, which nobody else can reach.
func vncResponse(password string, challenge [16]byte) (out [16]byte, err error) {
	var key [8]byte
	copy(key[:], password)
	for i := range key {
		key[i] = bits.Reverse8(key[i])
	}
	block, err := des.NewCipher(key[:])
	if err != nil {
		return out, err
	}
	block.Encrypt(out[:8], challenge[:8])
	block.Encrypt(out[8:], challenge[8:])
	return out, nil
}

// greet shakes hands with the viewer, which is authorised already.
func (d *Display) greet(viewer io.Writer, r io.Reader) error {
	if _, err := io.WriteString(viewer, version); err != nil {
		return err
	}
	var v [12]byte
	if _, err := io.ReadFull(r, v[:]); err != nil {
		return err
	}
	if string(v[:]) != version {
		return fault(Viewer, "speaks %q, not RFB 3.8", v[:])
	}
	if _, err := viewer.Write([]byte{1, securityNone}); err != nil {
		return err
	}
	var b [1]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return err
	}
	if b[0] != securityNone {
		return fault(Viewer, "chose security type %d, which was not offered", b[0])
	}
	if _, err := viewer.Write([]byte{0, 0, 0, 0}); err != nil {
		return err
	}
	if _, err := io.ReadFull(r, b[:]); err != nil { // ClientInit: it is shared whatever this says
		return err
	}
	init := binary.BigEndian.AppendUint16(nil, uint16(d.width))
	init = binary.BigEndian.AppendUint16(init, uint16(d.height))
	init = append(init, pixelFormat[:]...)
	init = binary.BigEndian.AppendUint32(init, uint32(len(d.name)))
	_, err := viewer.Write(append(init, d.name...))
	return err
}

func checkSize(w, h int) error {
	if w == 0 || h == 0 || w > maxSide || h > maxSide || w*h > maxPixels {
		return fault(Screen, "has a size of %dx%d; at most %d pixels a side and %d in all are passed on", w, h, maxSide, maxPixels)
	}
	return nil
}

// readText reads a text of at most limit bytes behind its length.
func readText(r io.Reader, p Peer, limit uint32) (string, error) {
	var n [4]byte
	if _, err := io.ReadFull(r, n[:]); err != nil {
		return "", err
	}
	size := binary.BigEndian.Uint32(n[:])
	if size > limit {
		return "", fault(p, "sends a text of %d bytes; the bound is %d", size, limit)
	}
	b := make([]byte, size)
	_, err := io.ReadFull(r, b)
	return string(b), err
}

// cleanName returns at most maxName bytes of s, printable ones.
func cleanName(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) && r != utf8.RuneError {
			return r
		}
		return -1
	}, s)
	for len(s) > maxName {
		_, n := utf8.DecodeLastRuneInString(s)
		s = s[:len(s)-n]
	}
	return s
}
