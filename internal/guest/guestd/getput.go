//go:build linux

package guestd

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest/guestpb"
	"github.com/glovebox-dev/glovebox/internal/guest/wire"
)

// Hosts send requests for files without waiting for the answers to earlier
// ones. Those that have arrived are served together: to take on the identity
// of the tools' user and to lay it down takes four system calls, and one of
// those takes as long in gVisor as a small file does elsewhere.
const (
	maxTogether      = 64
	maxTogetherBytes = 1 << 20
)

// getting is a request to read, and the file that it opened.
type getting struct {
	q    guestpb.GetRequest
	path string
	fd   int
	size int64
	err  error
}

// get serves parts of regular files, one request after another.
func (f *framed) get() error {
	for {
		var batch []*getting
		for len(batch) == 0 || f.r.Buffered() > 0 && len(batch) < maxTogether {
			g := &getting{fd: -1}
			if err := f.r.ReadMessage(&g.q); err != nil {
				return ignoreEnd(err)
			}
			if g.path, g.err = f.s.resolve(g.q.Path); g.err == nil && (g.q.Offset < 0 || g.q.Limit < 0 || g.q.Limit > maxRead) {
				g.err = glovebox.Invalid("limit", fmt.Sprintf("read at most %d bytes at a time", maxRead), "offset %d and limit %d are out of range", g.q.Offset, g.q.Limit)
			}
			batch = append(batch, g)
		}
		err := f.s.asUser(func() error {
			for _, g := range batch {
				if g.err == nil {
					g.fd, g.size, g.err = openRegular(g.path)
				}
			}
			return nil
		})
		for _, g := range batch {
			if err == nil {
				err = f.answerGet(g)
			}
			if g.fd >= 0 {
				unix.Close(g.fd)
			}
		}
		if err == nil {
			err = f.w.Flush()
		}
		if err != nil {
			return err
		}
	}
}

// answerGet sends what was asked for. A file that fails midway ends the
// stream: its answer has begun.
func (f *framed) answerGet(g *getting) error {
	if g.err != nil {
		return f.w.Refuse(f.s.hide(g.err))
	}
	if err := f.w.WriteMessage(&guestpb.GetReply{Size: g.size}); err != nil {
		return err
	}
	buf := f.buffer(wire.ChunkSize)
	for off, left := g.q.Offset, g.q.Limit; left > 0; {
		n, err := unix.Pread(g.fd, buf[:min(left, int64(len(buf)))], off)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return f.s.hide(pathError("read", g.path, err))
		}
		if n == 0 {
			break
		}
		if err := f.w.Write(wire.FrameData, buf[:n]); err != nil {
			return err
		}
		off, left = off+int64(n), left-int64(n)
		if off == g.size { // files of /proc have no size; what has one seldom grows
			break
		}
	}
	return f.w.Write(wire.FrameEnd, nil)
}

// buffer returns n bytes of memory that are used again and again.
func (f *framed) buffer(n int) []byte {
	f.buf = slices.Grow(f.buf[:0], n)
	return f.buf[:n]
}

// putting is a file to write.
type putting struct {
	q    guestpb.PutRequest
	path string
	data []byte
	err  error
}

// put writes files, one after another.
func (f *framed) put() error {
	f.r = wire.NewFrameReader(bufio.NewReaderSize(f.r.Rest(), 4*wire.ChunkSize))
	for {
		var batch []*putting
		data := f.buf[:0]
		for len(batch) == 0 || f.r.Buffered() > 0 && len(batch) < maxTogether && len(data) < maxTogetherBytes {
			p := &putting{}
			if err := f.r.ReadMessage(&p.q); err != nil {
				return ignoreEnd(err)
			}
			start := len(data)
			var err error
			if data, err = f.readBody(data, &p.q); err != nil {
				return err
			}
			p.data = data[start:len(data):len(data)] // data may move; what was read stays
			p.path, p.err = f.s.resolve(p.q.Path)
			batch = append(batch, p)
		}
		err := f.s.asUser(func() error {
			for _, p := range batch {
				if p.err == nil {
					p.err = writeAtomic(p.path, p.data, fs.FileMode(p.q.Mode))
				}
			}
			return nil
		})
		for _, p := range batch {
			switch {
			case err != nil:
			case p.err != nil:
				err = f.w.Refuse(f.s.hide(p.err))
			default:
				err = f.w.Write(wire.FrameEnd, nil)
			}
		}
		if err == nil {
			err = f.w.Flush()
		}
		if err != nil {
			return err
		}
		if f.buf = data[:0]; cap(data) > maxTogetherBytes {
			f.buf = nil
		}
	}
}

// readBody appends the content of a file, which must be as long as announced.
func (f *framed) readBody(data []byte, q *guestpb.PutRequest) ([]byte, error) {
	if q.Size < 0 || q.Size > maxWrite {
		return nil, glovebox.Errorf(glovebox.CodeTooLarge, "a file of %d bytes is larger than %d", q.Size, maxWrite)
	}
	start := len(data)
	data = slices.Grow(data, int(min(q.Size, maxTogetherBytes))+1)
	for body := wire.NewDataReader(f.r); ; {
		if len(data) == cap(data) {
			data = slices.Grow(data, wire.ChunkSize)
		}
		n, err := body.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		if int64(len(data)-start) > q.Size {
			return nil, glovebox.Errorf(glovebox.CodeInvalid, "more than the announced %d bytes came", q.Size)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	if got := int64(len(data) - start); got != q.Size {
		return nil, glovebox.Errorf(glovebox.CodeInvalid, "%d bytes came, not the announced %d", got, q.Size)
	}
	return data, nil
}

// send writes one message and flushes.
func (f *framed) send(m proto.Message) error {
	if err := f.w.WriteMessage(m); err != nil {
		return err
	}
	return f.w.Flush()
}
