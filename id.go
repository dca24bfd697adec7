package glovebox

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"strings"
	"time"
)

// idEncoding is Crockford's base 32 in lower case: no letter that looks like
// a digit, safe in paths, host names and sandbox ids, and in order of time.
var idEncoding = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// idLen is the length of what [NewID] returns: 16 bytes in base 32.
const idLen = 26

// NewID returns a new identifier of 26 characters [0-9a-z]: 48 bits of Unix
// milliseconds, then 80 random bits, like a ULID. Ids made in different
// milliseconds sort by time, and no id is the prefix of another.
func NewID() string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], uint64(time.Now().UnixMilli())<<16)
	rand.Read(b[6:])
	return idEncoding.EncodeToString(b[:])
}

// HashID returns an identifier that follows from a hash: from its first 128 bits.
func HashID(sum [32]byte) string { return idEncoding.EncodeToString(sum[:16]) }

// ValidID reports whether s has the form of an id from [NewID].
func ValidID(s string) bool {
	if len(s) != idLen {
		return false
	}
	return strings.Trim(s, "0123456789abcdefghjkmnpqrstvwxyz") == ""
}
