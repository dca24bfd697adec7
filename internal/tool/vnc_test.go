//go:build linux

package tool

import (
	"crypto/des"
	"fmt"
	"io"
	"math/bits"
)

// vncHandshake is a client's side of RFB 3.8 up to the end of VNC's
// authentication.
func vncHandshake(rw io.ReadWriter, password string) error {
	read := func(n int) ([]byte, error) {
		b := make([]byte, n)
		_, err := io.ReadFull(rw, b)
		return b, err
	}
	if _, err := read(12); err != nil {
		return err
	}
	if _, err := io.WriteString(rw, "RFB 003.008\n"); err != nil {
		return err
	}
	n, err := read(1)
	if err != nil {
		return err
	}
	if types, err := read(int(n[0])); err != nil || len(types) != 1 || types[0] != 2 {
		return fmt.Errorf("security types %v, %w", types, err)
	}
	if _, err := rw.Write([]byte{2}); err != nil {
		return err
	}
	challenge, err := read(16)
	if err != nil {
		return err
	}
	var key [8]byte
	for i, c := range []byte(password) {
		key[i] = bits.Reverse8(c)
	}
	c, err := des.NewCipher(key[:])
	if err != nil {
		return err
	}
	c.Encrypt(challenge, challenge)
	c.Encrypt(challenge[8:], challenge[8:])
	if _, err := rw.Write(challenge); err != nil {
		return err
	}
	result, err := read(4)
	if err != nil {
		return err
	}
	if result[3] != 0 {
		return fmt.Errorf("authentication failed with %d", result[3])
	}
	return nil
}
