package history

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"io"

	"github.com/klauspost/compress/zlib"

	"github.com/glovebox-dev/glovebox"
)

// oid names an object: the SHA-1 of its kind, size and content.
type oid [sha1.Size]byte

func (o oid) String() string { return hex.EncodeToString(o[:]) }

func parseOID(s string) (oid, error) {
	var o oid
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

// kinds are the kinds that a pack may hold, with their names in git and the
// bounds of their size.
var kinds = map[kind]struct {
	name string
	max  int64
}{
	kindCommit: {"commit", maxCommit},
	kindTree:   {"tree", maxTree},
	kindBlob:   {"blob", maxBlob},
}

const (
	packMagic = "PACK\x00\x00\x00\x02"
	packHead  = int64(len(packMagic) + 4)
)

// damaged returns the error of a pack that is not one.
func damaged(format string, args ...any) error {
	return &glovebox.Error{Code: glovebox.CodeConflict, Msg: "the copy of the workspace can't be read: " + fmt.Sprintf(format, args...), Hint: "look at another step"}
}

func lacks(id oid) error { return damaged("it lacks the object %s", id) }

// load reads one pack in: all of it or nothing.
func (r *Repo) load(ctx context.Context, key string) error {
	p, err := r.open(ctx, key)
	if err != nil {
		return err
	}
	defer p.Close()
	r.mu.RLock()
	number, have, room := int32(len(r.keys)), len(r.objects), maxInflated-r.inflated
	r.mu.RUnlock()
	s := &scanner{ctx: ctx, number: number, room: room, max: maxObjects - have, objects: map[oid]place{}}
	err = s.scan(p, p.Size())
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if glovebox.CodeOf(err) == glovebox.CodeConflict { // it will not get better
			r.bad[key] = err
		}
		return err
	}
	r.packs[key] = number
	r.keys = append(r.keys, key)
	r.inflated += s.inflated
	for id, p := range s.objects {
		if _, ok := r.objects[id]; !ok {
			r.objects[id] = p
		}
	}
	return nil
}

// scanner reads a pack from its beginning to its end.
type scanner struct {
	ctx      context.Context
	number   int32
	room     int64 // bytes that the objects may inflate to
	max      int   // objects
	inflated int64
	objects  map[oid]place

	in  *bufio.Reader
	got *counter
	zr  io.ReadCloser
	buf []byte
}

// counter counts what is read from a pack.
type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// off is how far the pack has been read.
func (s *scanner) off() int64 { return s.got.n - int64(s.in.Buffered()) }

func (s *scanner) scan(p io.Reader, size int64) error {
	if size < packHead+sha1.Size {
		return damaged("it has %d bytes", size)
	}
	if size > maxPack {
		return damaged("it has %d bytes; at most %d are looked at", size, int64(maxPack))
	}
	sum := sha1.New()
	s.got = &counter{r: io.TeeReader(io.LimitReader(p, size-sha1.Size), sum)}
	s.in = bufio.NewReaderSize(s.got, 64<<10)
	s.buf = make([]byte, 64<<10)
	head := make([]byte, packHead)
	if _, err := io.ReadFull(s.in, head); err != nil || !bytes.HasPrefix(head, []byte(packMagic)) {
		return damaged("it does not begin like a pack")
	}
	n := int64(binary.BigEndian.Uint32(head[len(packMagic):]))
	if n > int64(s.max) {
		return damaged("it announces %d objects, more than are looked at", n)
	}
	for ; n > 0; n-- {
		if err := s.entry(); err != nil {
			return err
		}
	}
	if _, err := s.in.ReadByte(); err != io.EOF {
		return damaged("something follows its objects")
	}
	trailer := make([]byte, sha1.Size)
	if _, err := io.ReadFull(p, trailer); err != nil || !bytes.Equal(trailer, sum.Sum(nil)) {
		return damaged("its checksum is wrong")
	}
	return nil
}

// entry reads one object. To inflate it is the only way to know its name, and
// where it ends.
func (s *scanner) entry() error {
	if err := s.ctx.Err(); err != nil {
		return err
	}
	k, size, err := s.head()
	if err != nil {
		return err
	}
	what, ok := kinds[k]
	if !ok || size > what.max {
		return damaged("it has an object of type %d and %d bytes", k, size)
	}
	if s.inflated += size; s.inflated > s.room {
		return damaged("it inflates to more than is looked at")
	}
	off := s.off()
	if s.zr == nil {
		s.zr, err = zlib.NewReader(s.in)
	} else {
		err = s.zr.(zlib.Resetter).Reset(s.in, nil)
	}
	if err != nil {
		return damaged("an object is not compressed")
	}
	h := newHash(what.name, size)
	if err := s.inflate(h, size); err != nil {
		return err
	}
	id := oid(h.Sum(nil))
	if _, ok := s.objects[id]; !ok {
		s.objects[id] = place{pack: s.number, kind: k, off: off, size: size}
	}
	return nil
}

// inflate writes exactly size bytes to h.
func (s *scanner) inflate(h io.Writer, size int64) error {
	for left := size; ; {
		if err := s.ctx.Err(); err != nil {
			return err
		}
		n, err := s.zr.Read(s.buf[:min(left+1, int64(len(s.buf)))])
		left -= int64(n)
		if left < 0 {
			return damaged("an object is larger than it announces")
		}
		_, _ = h.Write(s.buf[:n])
		if err == io.EOF {
			if left > 0 {
				return damaged("an object is smaller than it announces")
			}
			return nil
		}
		if err != nil {
			return damaged("an object can't be inflated")
		}
	}
}

// head reads the kind and size of an object.
func (s *scanner) head() (kind, int64, error) {
	c, err := s.in.ReadByte()
	if err != nil {
		return 0, 0, damaged("it ends too early")
	}
	k, size := kind(c>>4&7), int64(c&15)
	for shift := 4; c&0x80 != 0; shift += 7 {
		if shift > 40 {
			return 0, 0, damaged("an object is too large")
		}
		if c, err = s.in.ReadByte(); err != nil {
			return 0, 0, damaged("it ends too early")
		}
		size |= int64(c&0x7f) << shift
	}
	return k, size, nil
}

func newHash(name string, size int64) hash.Hash {
	h := sha1.New()
	fmt.Fprintf(h, "%s %d\x00", name, size)
	return h
}

// content returns the content of an object of at most limit bytes. It is
// valid until the next.
func (q *query) content(id oid, k kind, limit int64) (io.Reader, int64, error) {
	if err := q.ctx.Err(); err != nil {
		return nil, 0, context.Cause(q.ctx)
	}
	p, ok := q.r.place(id)
	if !ok || p.kind != k {
		return nil, 0, lacks(id)
	}
	if p.size > limit {
		return nil, 0, damaged("the %s %s has %d bytes, more than %d", kinds[k].name, id, p.size, limit)
	}
	f := q.open[p.pack]
	if f == nil {
		q.r.mu.RLock()
		key := q.r.keys[p.pack]
		q.r.mu.RUnlock()
		var err error
		if f, err = q.r.open(q.ctx, key); err != nil {
			return nil, 0, err
		}
		q.open[p.pack] = f
	}
	if _, err := f.Seek(p.off, io.SeekStart); err != nil {
		return nil, 0, err
	}
	var err error
	if q.zr == nil {
		q.in = bufio.NewReaderSize(f, 16<<10)
		q.zr, err = zlib.NewReader(q.in)
	} else {
		q.in.Reset(f)
		err = q.zr.(zlib.Resetter).Reset(q.in, nil)
	}
	if err != nil {
		q.zr = nil
		return nil, 0, damaged("an object is not compressed")
	}
	return q.zr, p.size, nil
}

// get returns the whole content of an object of at most limit bytes.
func (q *query) get(id oid, k kind, limit int64) ([]byte, error) {
	body, size, err := q.content(id, k, limit)
	if err != nil {
		return nil, err
	}
	b := make([]byte, size)
	if _, err := io.ReadFull(body, b); err != nil {
		return nil, damaged("it ends in the middle of an object")
	}
	return b, nil
}
