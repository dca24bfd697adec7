//go:build linux

package kernel

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// protocolVersion is that of Jupyter's messaging protocol that is spoken.
const protocolVersion = "5.3"

var delimiter = []byte("<IDS|MSG>")

// header is that of a message.
type header struct {
	ID       string `json:"msg_id"`
	Session  string `json:"session"`
	Username string `json:"username"`
	Date     string `json:"date"`
	Type     string `json:"msg_type"`
	Version  string `json:"version"`
}

// message is what a kernel sent. Of one that was too large only the headers
// are there, if those, and dropped says how large the rest was.
type message struct {
	header  header
	parent  header
	content json.RawMessage
	dropped int64
}

// identity signs messages, and names who sends them.
type identity struct {
	key     []byte
	session string
	serial  int
}

func newIdentity() *identity {
	return &identity{key: []byte(randomHex(32)), session: randomHex(16)}
}

// randomHex returns n random bytes in hexadecimal.
func randomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // it never fails
	return hex.EncodeToString(b)
}

func sign(key []byte, parts ...[]byte) []byte {
	h := hmac.New(sha256.New, key)
	for _, p := range parts {
		h.Write(p)
	}
	sum := h.Sum(nil)
	return hex.AppendEncode(make([]byte, 0, 2*len(sum)), sum)
}

// request makes a message, and returns its id.
func (id *identity) request(kind string, content any) (frames [][]byte, msgID string, err error) {
	id.serial++
	msgID = fmt.Sprintf("%s_%d", id.session, id.serial)
	head, err := json.Marshal(header{
		ID: msgID, Session: id.session, Username: "glovebox", Type: kind, Version: protocolVersion,
		Date: time.Now().UTC().Format("2006-01-02T15:04:05.000000Z"),
	})
	if err != nil {
		return nil, "", err
	}
	body, err := json.Marshal(content)
	if err != nil {
		return nil, "", err
	}
	empty := []byte("{}")
	return [][]byte{delimiter, sign(id.key, head, empty, empty, body), head, empty, empty, body}, msgID, nil
}

var errForged = errors.New("a message is not signed with the kernel's key")

// parse reads a message that must be signed with one of keys.
func parse(frames [][]byte, dropped int64, keys ...[]byte) (message, error) {
	at := 0
	for at < len(frames) && !bytes.Equal(frames[at], delimiter) {
		at++
	}
	if len(frames) < at+6 {
		return message{}, fmt.Errorf("a message of %d frames is none of Jupyter's", len(frames))
	}
	m := message{dropped: dropped, content: frames[at+5]}
	if dropped == 0 {
		signed := false
		for _, k := range keys {
			signed = signed || hmac.Equal(frames[at+1], sign(k, frames[at+2], frames[at+3], frames[at+4], frames[at+5]))
		}
		if !signed {
			return message{}, errForged
		}
	}
	for i, into := range []*header{&m.header, &m.parent} {
		if f := frames[at+2+i]; len(f) > 0 {
			if err := json.Unmarshal(f, into); err != nil {
				return message{}, fmt.Errorf("read the header of a message: %w", err)
			}
		}
	}
	return m, nil
}
