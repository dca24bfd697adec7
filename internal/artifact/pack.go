package artifact

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"io"
	"io/fs"
	"sync"

	"github.com/klauspost/compress/flate"

	"github.com/glovebox-dev/glovebox/internal/guest"
)

const (
	// level is where more effort stops paying. Of files of 12 KB, one core
	// packs 141 MB a second to 48% of their size; at level 3 it is 121 MB to
	// 47%, at level 6 81 MB to 46%.
	level = 2

	// whole is the size up to which a file is held in memory, so that files
	// are compressed in parallel. Larger ones pass through one at a time.
	whole = 4 << 20

	// ahead is how many files a worker may be behind the reader.
	ahead = 4
)

// item is a file on its way into the zip.
type item struct {
	file   File
	header *zip.FileHeader
	raw    *bytes.Buffer // of a file held in memory; then compressed
	packed *bytes.Buffer
	large  io.Reader // of one that is not
	ready  chan struct{}
	err    error
}

// packer reads files from one goroutine, compresses them in several, and
// writes them in order from one.
type packer struct {
	zip     *zip.Writer
	work    chan *item
	order   chan *item
	workers sync.WaitGroup
	writer  sync.WaitGroup
	failed  chan struct{} // closed when the writer has given up
	err     error         // of the writer
	files   []File
	buffers sync.Pool
}

func newPacker(w io.Writer, workers int) *packer {
	p := &packer{zip: zip.NewWriter(w), work: make(chan *item, workers), order: make(chan *item, workers*ahead),
		failed: make(chan struct{}), buffers: sync.Pool{New: func() any { return new(bytes.Buffer) }}}
	p.zip.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, level) })
	for range workers {
		p.workers.Go(p.compress)
	}
	p.writer.Go(p.write)
	return p
}

func (p *packer) buffer() *bytes.Buffer {
	b := p.buffers.Get().(*bytes.Buffer)
	b.Reset()
	return b
}

// add takes the next file. x.Body is read before add returns.
func (p *packer) add(ctx context.Context, x guest.ExportFile) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	it := &item{
		file:   File{Path: x.Path, Size: x.Size},
		header: &zip.FileHeader{Name: x.Path, Method: zip.Deflate, Modified: x.ModTime},
		ready:  make(chan struct{}),
	}
	mode := fs.FileMode(0o644)
	if x.Mode&0o111 != 0 {
		mode = 0o755
	}
	it.header.SetMode(mode)
	if x.Size > whole { // CreateHeader does the rest
		it.large = x.Body
		return p.send(p.order, it, it.ready) // the writer reads it
	}
	setRaw(it.header)
	it.raw = p.buffer()
	it.raw.Grow(int(x.Size) + bytes.MinRead) // or ReadFrom doubles it
	if _, err := it.raw.ReadFrom(x.Body); err != nil {
		return err
	}
	if err := p.send(p.order, it, nil); err != nil {
		return err
	}
	return p.send(p.work, it, nil)
}

// setRaw sets what [zip.Writer.CreateRaw] leaves to its caller: that the name
// is UTF-8, and the time, in the form of MS-DOS and as Unix seconds.
func setRaw(h *zip.FileHeader) {
	h.Flags |= 0x800
	t := h.Modified.UTC()
	if t.Year() < 1980 || t.Year() > 2107 {
		return // it can't be said in a zip
	}
	//nolint:staticcheck // CreateRaw writes these, and not Modified
	h.ModifiedDate, h.ModifiedTime = uint16(t.Day()+int(t.Month())<<5+(t.Year()-1980)<<9), uint16(t.Second()/2+t.Minute()<<5+t.Hour()<<11)
	h.Extra = binary.LittleEndian.AppendUint32([]byte{'U', 'T', 5, 0, 1}, uint32(t.Unix()))
}

// send passes an item on and, if done is given, waits for it.
func (p *packer) send(ch chan<- *item, it *item, done <-chan struct{}) error {
	select {
	case ch <- it:
	case <-p.failed:
		return p.err
	}
	if done == nil {
		return nil
	}
	select {
	case <-done:
		return it.err
	case <-p.failed:
		return p.err
	}
}

// compress is a worker. One flate.Writer serves all its files: to make one
// costs as much as to compress a small file.
func (p *packer) compress() {
	fw, err := flate.NewWriter(io.Discard, level)
	for it := range p.work {
		if err == nil {
			p.compressOne(fw, it)
		}
		it.err = err
		close(it.ready)
	}
}

func (p *packer) compressOne(fw *flate.Writer, it *item) {
	data := it.raw.Bytes()
	sum := sha256.Sum256(data)
	it.file.SHA256 = hex.EncodeToString(sum[:])
	it.file.Size = int64(len(data))
	it.header.CRC32 = crc32.ChecksumIEEE(data)
	it.header.UncompressedSize64 = uint64(len(data))
	it.packed = p.buffer()
	fw.Reset(it.packed)
	_, _ = fw.Write(data) // into memory
	_ = fw.Close()
	if it.packed.Len() >= len(data) {
		it.header.Method = zip.Store
		it.packed, it.raw = it.raw, it.packed
	}
	it.header.CompressedSize64 = uint64(it.packed.Len())
}

// write is the goroutine that owns the zip until finish.
func (p *packer) write() {
	for it := range p.order {
		if err := p.writeOne(it); err != nil {
			p.err = err
			close(p.failed)
			return
		}
		p.files = append(p.files, it.file)
	}
}

func (p *packer) writeOne(it *item) error {
	if it.large != nil {
		defer close(it.ready)
		w, err := p.zip.CreateHeader(it.header)
		if err != nil {
			return err
		}
		sum := sha256.New()
		it.file.Size, err = io.Copy(io.MultiWriter(w, sum), it.large)
		it.file.SHA256 = hex.EncodeToString(sum.Sum(nil))
		it.err = err
		return err
	}
	<-it.ready
	if it.err != nil {
		return it.err
	}
	w, err := p.zip.CreateRaw(it.header)
	if err != nil {
		return err
	}
	_, err = w.Write(it.packed.Bytes())
	p.buffers.Put(it.raw)
	p.buffers.Put(it.packed)
	return err
}

// finish waits until what was added is written. readErr is why reading ended.
func (p *packer) finish(readErr error) ([]File, error) {
	close(p.work)
	close(p.order)
	p.workers.Wait()
	p.writer.Wait()
	if p.err != nil {
		return nil, p.err
	}
	return p.files, readErr
}
