package api

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/glovebox-dev/glovebox"
)

// KeySize is how many bytes the key has that links are sealed with.
const KeySize = 32

// LoadKey returns the key in a file, which it makes, for its owner alone, if
// it is not there.
func LoadKey(path string) ([]byte, error) {
	key, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err = makeKey(path); err == nil {
			key, err = os.ReadFile(path)
		}
	}
	if err != nil {
		return nil, &glovebox.Error{Code: glovebox.CodeUnavailable, Op: "read the key of links", Msg: path, Err: err}
	}
	if len(key) != KeySize {
		return nil, &glovebox.Error{Code: glovebox.CodeInvalid, Op: "read the key of links", Field: path, Msg: "it is not a key",
			Hint: "remove the file: a new key is made, and links that were given out end"}
	}
	return key, nil
}

// makeKey makes a key file. Of several processes that do, one wins and all
// read its key.
func makeKey(path string) error {
	key := make([]byte, KeySize)
	rand.Read(key)
	f, err := os.CreateTemp(filepath.Dir(path), ".key-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(key)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// use is what something sealed is for. One is no good for another.
type use string

// The uses.
const (
	useLink use = "link" // instead of a token, in the query
	useDoor use = "door" // once, to come in at a preview's origin
	useSeat use = "seat" // a cookie of that origin
	usePath use = "path" // in the path of a preview that has no origin of its own
)

// grant is what is sealed: who may do what.
type grant struct {
	Job     string             `json:"j"`
	Tenant  string             `json:"t"`
	Scope   glovebox.LinkScope `json:"s"`
	Expires int64              `json:"e"` // Unix seconds
	Place   string             `json:"p,omitempty"`
	Nonce   string             `json:"n,omitempty"`
}

func (g grant) expired(now time.Time) bool { return now.Unix() >= g.Expires }

// maxSealed is the most bytes that something sealed has.
const maxSealed = 600

// sealer seals grants so that they can be given to anyone: nobody else can
// make or change one, and nobody can read the tenant out of it. AES-256-GCM,
// under a key for each use derived with HKDF-SHA256.
type sealer map[use]cipher.AEAD

func newSealer(key []byte) sealer {
	if len(key) == 0 {
		key = make([]byte, KeySize)
		rand.Read(key)
	}
	s := sealer{}
	for _, u := range []use{useLink, useDoor, useSeat, usePath} {
		k, err := hkdf.Key(sha256.New, key, nil, "glovebox/"+string(u), 32)
		if err != nil {
			panic("api: derive a key: " + err.Error()) // only for impossible lengths
		}
		block, err := aes.NewCipher(k)
		if err != nil {
			panic("api: make a cipher: " + err.Error())
		}
		if s[u], err = cipher.NewGCMWithRandomNonce(block); err != nil {
			panic("api: make a cipher: " + err.Error())
		}
	}
	return s
}

// seal returns g in characters that may stand in a query, a path and a cookie.
func (s sealer) seal(u use, g grant) string {
	b, err := json.Marshal(g)
	if err != nil {
		panic("api: encode a grant: " + err.Error())
	}
	return base64.RawURLEncoding.EncodeToString(s[u].Seal(nil, nil, b, nil))
}

// open returns what was sealed, expired or not; false if it was not by us for
// this use.
func (s sealer) open(u use, sealed string) (grant, bool) {
	var g grant
	if len(sealed) > maxSealed {
		return g, false
	}
	b, err := base64.RawURLEncoding.DecodeString(sealed)
	if err != nil {
		return g, false
	}
	if b, err = s[u].Open(nil, nil, b, nil); err != nil {
		return g, false
	}
	return g, json.Unmarshal(b, &g) == nil
}
