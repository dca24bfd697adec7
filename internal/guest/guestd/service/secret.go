//go:build linux

package service

import (
	"crypto/des" //nolint:gosec // the format of VNC's password files; nothing relies on its strength
	"math/bits"
)

// vncKey is what VNC obscures passwords with in files: the eight bytes that
// every VNC server knows. It hides a password from a glance and no more; what
// protects the file is its mode.
var vncKey = [8]byte{23, 82, 107, 6, 35, 78, 88, 7}

// vncPassword returns the contents of a password file of VNC: the first eight
// bytes of the password, padded with zeros, as one block of DES. VNC takes the
// bits of each byte of a key in the opposite order.
func vncPassword(secret string) ([]byte, error) {
	var key, block [8]byte
	for i, b := range vncKey {
		key[i] = bits.Reverse8(b)
	}
	copy(block[:], secret)
	c, err := des.NewCipher(key[:]) //nolint:gosec // as above
	if err != nil {
		return nil, err
	}
	c.Encrypt(block[:], block[:])
	return block[:], nil
}

// contents returns what a secret's file holds.
func (s *Secret) contents(secret string) ([]byte, error) {
	if s.Format == FormatVNC {
		return vncPassword(secret)
	}
	return []byte(secret), nil
}
