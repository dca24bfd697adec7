package pkgcache

import (
	"compress/gzip"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox"
)

// meta is what is kept beside a body, in a file of JSON.
type meta struct {
	URL       string    `json:"url"`
	Type      string    `json:"type"`
	ETag      string    `json:"etag,omitempty"`
	Gzip      bool      `json:"gzip,omitempty"` // the body is compressed
	Size      int64     `json:"size"`           // of the body as it is kept
	SHA256    string    `json:"sha256"`         // of the body as it is kept
	FetchedAt time.Time `json:"fetched_at"`
}

// entry is something that is kept.
type entry struct {
	meta
	key string
}

// disk keeps bodies under keys, in files that appear whole. The time of last
// use is the body's modification time.
type disk struct {
	dir string
	max int64

	mu      sync.Mutex
	size    int64
	checked map[string]bool // bodies whose digest was right since this process began
}

func hash(s string) string {
	h := sha256.Sum256([]byte(s))
	return hex.EncodeToString(h[:])
}

func openDisk(dir string, max int64) (*disk, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, glovebox.Errorf(glovebox.CodeUnavailable, "make the package cache: %w", err)
	}
	d := &disk{dir: dir, max: max, checked: map[string]bool{}}
	d.removeLeft()
	files, err := d.files()
	if err != nil {
		return nil, glovebox.Errorf(glovebox.CodeUnavailable, "read the package cache: %w", err)
	}
	for _, f := range files {
		d.size += f.size
	}
	return d, nil
}

// leftAfter is how old a temporary file is that no living process writes any
// more: fetching takes less.
const leftAfter = 6 * time.Hour

// removeLeft removes what fetching left when it was cut off by a crash.
func (d *disk) removeLeft() {
	names, _ := filepath.Glob(filepath.Join(d.dir, "new-*")) // the pattern is valid
	for _, name := range names {
		if info, err := os.Stat(name); err == nil && time.Since(info.ModTime()) > leftAfter {
			os.Remove(name)
		}
	}
}

func (d *disk) path(key string) string { return filepath.Join(d.dir, key[:2], key) }

// get returns what is kept under key, or nil.
func (d *disk) get(key string) *entry {
	b, err := os.ReadFile(d.path(key) + ".json")
	if err != nil {
		return nil
	}
	e := &entry{key: key}
	if json.Unmarshal(b, &e.meta) != nil {
		return nil
	}
	if info, err := os.Stat(d.path(key)); err != nil || info.Size() != e.Size {
		return nil
	}
	if !d.intact(e) {
		d.remove(key)
		return nil
	}
	now := time.Now()
	_ = os.Chtimes(d.path(key), now, now)
	return e
}

// intact reads a body once a process and compares its digest: what was being
// written when the power went may have the right size and nothing in it.
func (d *disk) intact(e *entry) bool {
	d.mu.Lock()
	ok := d.checked[e.key+e.SHA256]
	d.mu.Unlock()
	if ok {
		return true
	}
	f, err := os.Open(d.path(e.key))
	if err != nil {
		return false
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil || hex.EncodeToString(h.Sum(nil)) != e.SHA256 {
		return false
	}
	d.mu.Lock()
	d.checked[e.key+e.SHA256] = true
	d.mu.Unlock()
	return true
}

// put keeps what r holds. length is how much it says it holds, or -1; want is
// the digest that it has to have, if known.
func (d *disk) put(key string, m meta, r io.Reader, limit, length int64, want digest) (*entry, error) {
	if err := os.MkdirAll(filepath.Dir(d.path(key)), 0o700); err != nil {
		return nil, err
	}
	f, err := os.CreateTemp(d.dir, "new-*")
	if err != nil {
		return nil, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	sum, check := sha256.New(), want.hash()
	n, err := io.Copy(io.MultiWriter(f, sum, check), io.LimitReader(r, limit+1))
	switch {
	case err != nil:
		return nil, err
	case n > limit:
		return nil, &refusal{502, fmt.Sprintf("the registry sent more than %d bytes", limit)}
	case length >= 0 && n != length:
		return nil, io.ErrUnexpectedEOF
	case !want.is(check.Sum(nil)):
		return nil, &refusal{502, "what the registry sent does not have the digest that it should have"}
	}
	m.Size, m.SHA256 = n, hex.EncodeToString(sum.Sum(nil))
	if err := errors.Join(f.Close(), os.Rename(f.Name(), d.path(key))); err != nil {
		return nil, err
	}
	e := &entry{m, key}
	if err := d.writeMeta(e); err != nil {
		return nil, err
	}
	d.mu.Lock()
	d.size += n
	d.checked[key+m.SHA256] = true
	full := d.size > d.max
	d.mu.Unlock()
	if full {
		d.evict()
	}
	return e, nil
}

func (d *disk) writeMeta(e *entry) error {
	b, err := json.Marshal(e.meta)
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(d.dir, "new-*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(b)
	return errors.Join(err, tmp.Close(), os.Rename(tmp.Name(), d.path(e.key)+".json"))
}

// refresh notes that the registry still has what is kept.
func (d *disk) refresh(e *entry, now time.Time) *entry {
	fresh := *e
	fresh.FetchedAt = now
	_ = d.writeMeta(&fresh) // without it the registry is asked again
	return &fresh
}

// open returns a body, as it is kept if gzipOK or not compressed, and its
// size, -1 if unknown.
func (d *disk) open(e *entry, gzipOK bool) (io.ReadCloser, int64, error) {
	f, err := os.Open(d.path(e.key))
	if err != nil {
		return nil, 0, fmt.Errorf("read the package cache: %w", err)
	}
	if !e.Gzip || gzipOK {
		return f, e.Size, nil
	}
	z, err := gzip.NewReader(f)
	if err != nil {
		f.Close()
		return nil, 0, fmt.Errorf("read the package cache: %w", err)
	}
	return struct {
		io.Reader
		io.Closer
	}{z, f}, -1, nil
}

func (d *disk) remove(key string) {
	os.Remove(d.path(key) + ".json")
	os.Remove(d.path(key))
}

type kept struct {
	key  string
	size int64
	used time.Time
}

// files returns the bodies that are kept.
func (d *disk) files() ([]kept, error) {
	var out []kept
	err := filepath.WalkDir(d.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || len(e.Name()) != 64 {
			return err
		}
		if info, err := e.Info(); err == nil {
			out = append(out, kept{e.Name(), info.Size(), info.ModTime()})
		}
		return nil
	})
	return out, err
}

// evict removes what was not used for longest until a tenth is free.
func (d *disk) evict() {
	d.mu.Lock()
	defer d.mu.Unlock()
	files, err := d.files()
	if err != nil {
		return
	}
	sort.Slice(files, func(i, j int) bool { return files[i].used.Before(files[j].used) })
	d.size = 0
	for _, f := range files {
		d.size += f.size
	}
	for _, f := range files {
		if d.size <= d.max-d.max/10 {
			return
		}
		d.remove(f.key)
		d.size -= f.size
	}
}

// digest is a digest that a file has to have; the zero digest is any.
type digest struct {
	kind string // "sha512", "sha256", "sha1"
	sum  []byte
}

// parseIntegrity reads the form that npm uses: "sha512-<base64>", of several
// the strongest.
func parseIntegrity(s string) digest {
	for _, kind := range []string{"sha512", "sha256", "sha1"} {
		for word := range strings.FieldsSeq(s) {
			if b64, ok := strings.CutPrefix(word, kind+"-"); ok {
				b64, _, _ = strings.Cut(b64, "?")
				if sum, err := base64.StdEncoding.DecodeString(b64); err == nil {
					return digest{kind, sum}
				}
			}
		}
	}
	return digest{}
}

// hasher is what is needed of hash.Hash.
type hasher interface {
	io.Writer
	Sum([]byte) []byte
}

func (d digest) hash() hasher {
	switch d.kind {
	case "sha512":
		return sha512.New()
	case "sha1":
		return sha1.New() // the registry knows no better for its oldest packages
	}
	return sha256.New()
}

func (d digest) is(sum []byte) bool { return d.kind == "" || string(d.sum) == string(sum) }
