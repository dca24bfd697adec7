//go:build linux

// Package snap versions a directory as git would, without git: objects,
// trees, commits and packs in git's format, so that git can read what is sent
// out, but written by this process alone.
//
// That has three reasons. Starting a process in gVisor costs 5 to 10 ms and a
// commit with git takes five; the directory belongs to whatever runs in the
// sandbox, and git gives files in it (.gitattributes, .gitignore, a nested
// .git) power over what is stored; and nothing that lies there, nested
// repositories included, may be missing after a restore.
//
// What is kept: regular files (their content and whether they are
// executable), symbolic links, directories, also empty ones. What is not:
// what tools rebuild (see Excluded), sockets, pipes and devices, files larger
// than MaxFile, owners and other mode bits, times. A name ".git" is stored as
// ".git%" (and ".git%" as ".git%%", and so on), since git refuses it.
package snap

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/glovebox-dev/glovebox"
)

// Bounds.
const (
	MaxFile   = 256 << 20 // larger files are left out
	MaxFiles  = 300_000   // in one snapshot
	maxTree   = 64 << 20  // bytes of one tree object
	maxCommit = 64 << 10
	maxDepth  = 256
)

// OID names an object.
type OID [sha1.Size]byte

// String returns it in hexadecimal.
func (o OID) String() string { return hex.EncodeToString(o[:]) }

// ParseOID parses 40 hexadecimal digits.
func ParseOID(s string) (OID, error) {
	var o OID
	if len(s) != 2*len(o) {
		return o, glovebox.Errorf(glovebox.CodeInvalid, "%.80q is not the name of a commit", s)
	}
	if _, err := hex.Decode(o[:], []byte(s)); err != nil {
		return o, glovebox.Errorf(glovebox.CodeInvalid, "%.80q is not the name of a commit", s)
	}
	return o, nil
}

// kind is a type of object, numbered as in packs.
type kind byte

const (
	kindCommit kind = 1
	kindTree   kind = 2
	kindBlob   kind = 3
)

var kindNames = map[kind]string{kindCommit: "commit", kindTree: "tree", kindBlob: "blob"}

// place is where an object lies in the object file: an entry of a pack, its
// head (type and size) and its compressed content.
type place struct {
	off, len int64 // of the whole entry
	head     int64 // length of the head
	size     int64 // of the content
	kind     kind
}

// Repo is the hidden repository: one file of pack entries, and their places
// in memory. It lives as long as the process; what is to outlive it is sent
// out. Its methods must not be called at the same time.
type Repo struct {
	dir string

	mu      sync.Mutex
	file    *os.File
	end     int64
	objects map[OID]place
	cache   map[string]cached // by path in the directory
	zw      *zlib.Writer
}

// NewRepo returns a repository whose files lie in dir, which is made when the
// first object is written. What lies there from before is of no use.
func NewRepo(dir string) *Repo {
	return &Repo{dir: dir, objects: map[OID]place{}, cache: map[string]cached{}}
}

// Close closes its file.
func (r *Repo) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == nil {
		return nil
	}
	return r.file.Close()
}

// open opens the object file. The caller is root still; the file work for the
// user that follows writes to it through the descriptor.
func (r *Repo) open() error {
	if r.file != nil {
		return nil
	}
	if err := os.MkdirAll(r.dir, 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(r.dir, "objects"), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	r.file = f
	return err
}

func newHash(k kind, size int64) hash.Hash {
	h := sha1.New()
	fmt.Fprintf(h, "%s %d\x00", kindNames[k], size)
	return h
}

func hashOf(k kind, b []byte) OID {
	h := newHash(k, int64(len(b)))
	h.Write(b)
	return OID(h.Sum(nil))
}

// appendEntryHead appends the head of a pack entry.
func appendEntryHead(b []byte, k kind, size int64) []byte {
	c := byte(k)<<4 | byte(size&15)
	for size >>= 4; size > 0; size >>= 7 {
		b = append(b, c|0x80)
		c = byte(size & 0x7f)
	}
	return append(b, c)
}

// put stores an object, unless it is there.
func (r *Repo) put(k kind, b []byte) (OID, error) {
	id := hashOf(k, b)
	if _, ok := r.objects[id]; ok {
		return id, nil
	}
	_, err := r.stream(k, int64(len(b)), bytes.NewReader(b))
	return id, err
}

// stream stores an object of exactly size bytes from src. If it is there
// already, or src is short, nothing is stored.
func (r *Repo) stream(k kind, size int64, src io.Reader) (OID, error) {
	head := appendEntryHead(nil, k, size)
	start := r.end
	w := io.NewOffsetWriter(r.file, start)
	if _, err := w.Write(head); err != nil {
		return OID{}, err
	}
	cw := &countWriter{w: w}
	if r.zw == nil {
		zw, err := zlib.NewWriterLevel(cw, zlib.BestSpeed)
		if err != nil {
			return OID{}, err
		}
		r.zw = zw
	} else {
		r.zw.Reset(cw)
	}
	h := newHash(k, size)
	if _, err := io.CopyN(io.MultiWriter(r.zw, h), src, size); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return OID{}, err
	}
	if err := r.zw.Close(); err != nil {
		return OID{}, err
	}
	id := OID(h.Sum(nil))
	if _, ok := r.objects[id]; !ok {
		n := int64(len(head)) + cw.n
		r.objects[id] = place{off: start, len: n, head: int64(len(head)), size: size, kind: k}
		r.end = start + n
	}
	return id, nil
}

type countWriter struct {
	w io.Writer
	n int64
}

func (c *countWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// reader returns the content of an object.
func (r *Repo) reader(id OID, k kind) (io.ReadCloser, int64, error) {
	p, ok := r.objects[id]
	if !ok || p.kind != k {
		return nil, 0, glovebox.Errorf(glovebox.CodeNotFound, "the checkpoint lacks the %s %s", kindNames[k], id)
	}
	zr, err := zlib.NewReader(io.NewSectionReader(r.file, p.off+p.head, p.len-p.head))
	if err != nil {
		return nil, 0, fmt.Errorf("read object %s: %w", id, err)
	}
	return zr, p.size, nil
}

// get returns the content of an object of at most limit bytes.
func (r *Repo) get(id OID, k kind, limit int64) ([]byte, error) {
	zr, size, err := r.reader(id, k)
	if err != nil {
		return nil, err
	}
	defer zr.Close()
	if size > limit {
		return nil, glovebox.Errorf(glovebox.CodeTooLarge, "the %s %s has %d bytes, more than %d", kindNames[k], id, size, limit)
	}
	b := make([]byte, size)
	if _, err := io.ReadFull(zr, b); err != nil {
		return nil, fmt.Errorf("read object %s: %w", id, err)
	}
	return b, nil
}
