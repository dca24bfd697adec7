//go:build linux

package snap

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"fmt"
	"io"
	"time"

	"github.com/glovebox-dev/glovebox"
)

// Info is what Checkpoint did.
type Info struct {
	Commit  OID
	Whole   bool // the pack does not build on base
	Changes []Change
	Skipped []string // at most 100 "path: reason"
}

// Checkpoint commits the directory. If it differs from base it calls begin
// and then writes a pack of what is new since base, or of everything if base
// is unknown here; the commit then has no parent.
func (r *Repo) Checkpoint(dir, base, message string, as As, begin func(Info) error, w io.Writer) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	tree, skipped, err := r.take(dir, as)
	if err != nil {
		return fmt.Errorf("take a snapshot: %w", err)
	}
	info := Info{Skipped: skipped, Whole: true}
	var parent, old *OID
	if id, err := ParseOID(base); err == nil {
		if t, err := r.commitTree(id); err == nil {
			info.Whole, parent, old = false, &id, &t
		}
	}
	if old != nil && *old == tree {
		info.Commit = *parent
		return begin(info)
	}
	if info.Commit, err = r.put(kindCommit, marshalCommit(tree, parent, message, time.Now())); err != nil {
		return err
	}
	ids, err := r.missing(tree, old)
	if err != nil {
		return err
	}
	if old != nil {
		if info.Changes, err = r.changes(*old, tree); err != nil {
			return err
		}
	}
	if err := begin(info); err != nil {
		return err
	}
	return r.writePack(append([]OID{info.Commit}, ids...), w)
}

// missing returns the objects of a tree that are not at the same path in old.
func (r *Repo) missing(tree OID, old *OID) ([]OID, error) {
	var ids []OID
	seen := map[OID]bool{}
	var visit func(id OID, old *OID) error
	visit = func(id OID, old *OID) error {
		if seen[id] {
			return nil
		}
		seen[id] = true
		ids = append(ids, id)
		entries, err := r.tree(id)
		if err != nil {
			return err
		}
		was := map[string]entry{}
		if old != nil {
			list, err := r.tree(*old)
			if err != nil {
				return err
			}
			for _, e := range list {
				was[e.name] = e
			}
		}
		for _, e := range entries {
			o, had := was[e.name]
			if had && o.id == e.id {
				continue
			}
			if e.mode == modeDir {
				var below *OID
				if had && o.mode == modeDir {
					below = &o.id
				}
				if err := visit(e.id, below); err != nil {
					return err
				}
			} else if !seen[e.id] {
				seen[e.id] = true
				ids = append(ids, e.id)
			}
		}
		return nil
	}
	return ids, visit(tree, old)
}

const packHeader = "PACK\x00\x00\x00\x02"

// writePack writes objects as a pack. Their entries are copied as they lie.
func (r *Repo) writePack(ids []OID, w io.Writer) error {
	h := sha1.New()
	bw := bufio.NewWriterSize(w, 64<<10)
	out := io.MultiWriter(bw, h)
	head := binary.BigEndian.AppendUint32([]byte(packHeader), uint32(len(ids)))
	if _, err := out.Write(head); err != nil {
		return err
	}
	buf := make([]byte, 64<<10)
	for _, id := range ids {
		p, ok := r.objects[id]
		if !ok {
			return fmt.Errorf("object %s is not there", id)
		}
		if _, err := io.CopyBuffer(out, io.NewSectionReader(r.file, p.off, p.len), buf); err != nil {
			return err
		}
	}
	if _, err := bw.Write(h.Sum(nil)); err != nil {
		return err
	}
	return bw.Flush()
}

// Add takes in a pack that Checkpoint wrote, perhaps in another sandbox. It
// must not contain deltas, which Checkpoint does not write.
func (r *Repo) Add(src io.Reader) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.open(); err != nil {
		return err
	}
	in := &packReader{r: bufio.NewReaderSize(src, 64<<10), sum: sha1.New()}
	head := make([]byte, len(packHeader)+4)
	if err := in.full(head); err != nil || !bytes.HasPrefix(head, []byte(packHeader)) {
		return badPack("it does not begin like one")
	}
	for n := binary.BigEndian.Uint32(head[len(packHeader):]); n > 0; n-- {
		if err := r.addEntry(in); err != nil {
			return err
		}
	}
	want := in.sum.Sum(nil)
	in.sum = nil
	got := make([]byte, sha1.Size)
	if err := in.full(got); err != nil || !bytes.Equal(got, want) {
		return badPack("its checksum is wrong")
	}
	if _, err := in.r.ReadByte(); err != io.EOF {
		return badPack("something follows it")
	}
	return nil
}

func badPack(why string) error {
	return glovebox.Errorf(glovebox.CodeInvalid, "a pack of the checkpoint is damaged: %s", why)
}

// addEntry reads an entry by inflating it, which is the only way to know
// where it ends, and stores its bytes as they came.
func (r *Repo) addEntry(in *packReader) error {
	in.copy.Reset()
	k, size, err := in.entryHead()
	if err != nil {
		return err
	}
	if kindNames[k] == "" || size > MaxFile || k == kindTree && size > maxTree || k == kindCommit && size > maxCommit {
		return badPack(fmt.Sprintf("it contains an object of type %d and %d bytes", k, size))
	}
	head := int64(in.copy.Len())
	start := r.end
	in.out = io.NewOffsetWriter(r.file, start)
	zr, err := zlib.NewReader(in)
	if err != nil {
		return badPack(err.Error())
	}
	h := newHash(k, size)
	n, err := io.Copy(h, io.LimitReader(zr, size+1))
	if err != nil || n != size {
		return badPack("an object has not the size that it announces")
	}
	if err := in.flush(); err != nil {
		return err
	}
	id := OID(h.Sum(nil))
	if _, ok := r.objects[id]; !ok {
		r.objects[id] = place{off: start, len: in.written, head: head, size: size, kind: k}
		r.end = start + in.written
	}
	in.written = 0
	return nil
}

// packReader reads a pack byte by byte where it must (zlib reads not a byte
// too many from an io.ByteReader), keeps the sum of it, and copies the entry
// that is being read to out.
type packReader struct {
	r   *bufio.Reader
	sum interface {
		io.Writer
		Sum([]byte) []byte
	}
	copy    bytes.Buffer
	out     io.Writer
	written int64
}

// ReadByte implements io.ByteReader.
func (p *packReader) ReadByte() (byte, error) {
	b, err := p.r.ReadByte()
	if err != nil {
		return 0, err
	}
	p.copy.WriteByte(b)
	return b, p.spill()
}

// Read implements io.Reader.
func (p *packReader) Read(b []byte) (int, error) {
	n, err := p.r.Read(b)
	p.copy.Write(b[:n])
	if serr := p.spill(); err == nil {
		err = serr
	}
	return n, err
}

func (p *packReader) spill() error {
	if p.copy.Len() < 64<<10 || p.out == nil {
		return nil
	}
	return p.flush()
}

func (p *packReader) flush() error {
	b := p.copy.Bytes()
	_, _ = p.sum.Write(b)
	n, err := p.out.Write(b)
	p.written += int64(n)
	p.copy.Reset()
	return err
}

// full reads bytes that belong to no entry.
func (p *packReader) full(b []byte) error {
	_, err := io.ReadFull(p.r, b)
	if err == nil && p.sum != nil {
		_, _ = p.sum.Write(b)
	}
	return err
}

// entryHead reads the type and size of an entry.
func (p *packReader) entryHead() (kind, int64, error) {
	p.out = nil
	c, err := p.ReadByte()
	if err != nil {
		return 0, 0, badPack("it ends too early")
	}
	k, size := kind(c>>4&7), int64(c&15)
	for shift := 4; c&0x80 != 0; shift += 7 {
		if shift > 40 {
			return 0, 0, badPack("an object is too large")
		}
		if c, err = p.ReadByte(); err != nil {
			return 0, 0, badPack("it ends too early")
		}
		size |= int64(c&0x7f) << shift
	}
	return k, size, nil
}
