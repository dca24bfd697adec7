package wire

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest/guestpb"
)

// MaxFrame is the most bytes that a frame may carry. A message that is longer
// can't be sent; data is cut into pieces of [ChunkSize].
const MaxFrame = 1 << 20

// ChunkSize is how much data senders put into one frame.
const ChunkSize = 64 << 10

// FrameType says what a frame carries.
type FrameType byte

// The types.
const (
	FrameMessage FrameType = 'M' // a protobuf message; which one follows from the kind of stream
	FrameData    FrameType = 'D' // bytes; of standard output
	FrameStderr  FrameType = 'E' // bytes of standard error
	FrameGap     FrameType = 'G' // 8 bytes, big endian: so many bytes of output were dropped
	FramePack    FrameType = 'P' // a pack begins
	FrameKill    FrameType = 'K' // end the process of this stream
	FrameEnd     FrameType = '.' // all was sent
	FrameFailure FrameType = 'X' // a Failure; nothing follows, but on streams of files the next answer
)

// Frame is one unit of a framed stream: a type, four bytes of length, big
// endian, and so many bytes.
type Frame struct {
	Type FrameType
	Data []byte
}

// AppendFrame appends a frame to b.
func AppendFrame(b []byte, t FrameType, data []byte) []byte {
	b = append(b, byte(t))
	b = binary.BigEndian.AppendUint32(b, uint32(len(data)))
	return append(b, data...)
}

// AppendMessage appends a frame that carries m to b.
func AppendMessage(b []byte, t FrameType, m proto.Message) ([]byte, error) {
	start := len(b)
	b = append(b, byte(t), 0, 0, 0, 0)
	b, err := proto.MarshalOptions{}.MarshalAppend(b, m)
	if err != nil {
		return nil, fmt.Errorf("marshal %s: %w", m.ProtoReflect().Descriptor().Name(), err)
	}
	n := len(b) - start - 5
	if n > MaxFrame {
		return nil, glovebox.Errorf(glovebox.CodeTooLarge, "a message of %d bytes is longer than %d", n, MaxFrame)
	}
	binary.BigEndian.PutUint32(b[start+1:], uint32(n))
	return b, nil
}

// FrameWriter writes frames. Small ones are gathered until Flush, or until
// they make up a large one. It is for one goroutine.
type FrameWriter struct {
	w   io.Writer
	buf []byte
}

// NewFrameWriter returns a writer of frames to w that first writes a header,
// unless h is the zero value.
func NewFrameWriter(w io.Writer, h Header) *FrameWriter {
	fw := &FrameWriter{w: w}
	if h.Kind != "" {
		fw.buf = h.Append(make([]byte, 0, 512))
	}
	return fw
}

// Write writes a frame of at most MaxFrame bytes.
func (w *FrameWriter) Write(t FrameType, data []byte) error {
	if len(data) > MaxFrame {
		return glovebox.Errorf(glovebox.CodeTooLarge, "a frame of %d bytes is longer than %d", len(data), MaxFrame)
	}
	w.buf = AppendFrame(w.buf, t, data)
	return w.flushOver(ChunkSize)
}

// WriteData writes bytes in frames of ChunkSize.
func (w *FrameWriter) WriteData(t FrameType, data []byte) error {
	for len(data) > 0 {
		n := min(len(data), ChunkSize)
		if err := w.Write(t, data[:n]); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

// WriteMessage writes a frame with m.
func (w *FrameWriter) WriteMessage(m proto.Message) error {
	b, err := AppendMessage(w.buf, FrameMessage, m)
	if err != nil {
		return err
	}
	w.buf = b
	return w.flushOver(ChunkSize)
}

// Refuse writes a frame that says why what was asked for was not done.
func (w *FrameWriter) Refuse(err error) error {
	b, merr := AppendMessage(w.buf, FrameFailure, FailureOf(err))
	if merr != nil {
		return merr
	}
	w.buf = b
	return w.flushOver(ChunkSize)
}

// Fail is Refuse, and a flush: the stream ends here.
func (w *FrameWriter) Fail(err error) error {
	if err := w.Refuse(err); err != nil {
		return err
	}
	return w.Flush()
}

// End writes the frame that says that all was sent, and flushes.
func (w *FrameWriter) End() error {
	if err := w.Write(FrameEnd, nil); err != nil {
		return err
	}
	return w.Flush()
}

// Flush writes what was gathered.
func (w *FrameWriter) Flush() error { return w.flushOver(0) }

func (w *FrameWriter) flushOver(n int) error {
	if len(w.buf) <= n {
		return nil
	}
	_, err := w.w.Write(w.buf)
	w.buf = w.buf[:0]
	if cap(w.buf) > 4*ChunkSize {
		w.buf = nil
	}
	return err
}

// FrameReader reads frames. It is for one goroutine.
type FrameReader struct {
	r       *bufio.Reader
	buf     []byte
	refused bool
}

// NewFrameReader returns a reader of frames from r. It reads ahead.
func NewFrameReader(r io.Reader) *FrameReader {
	if br, ok := r.(*bufio.Reader); ok {
		return &FrameReader{r: br}
	}
	return &FrameReader{r: bufio.NewReaderSize(r, readerSize)}
}

// readerSize lets a small file and the frames around it arrive in one read.
const readerSize = 8 << 10

var readers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, readerSize) }}

// GetReader returns a buffered reader of r, perhaps one that was used before.
func GetReader(r io.Reader) *bufio.Reader {
	br := readers.Get().(*bufio.Reader)
	br.Reset(r)
	return br
}

// PutReader gives back a reader that nobody uses any more.
func PutReader(br *bufio.Reader) {
	br.Reset(nil)
	readers.Put(br)
}

// Refused reports whether the error of the last Read was a FrameFailure, so
// that the stream may go on.
func (r *FrameReader) Refused() bool { return r.refused }

// Peek waits for the next frame without reading it.
func (r *FrameReader) Peek() error {
	_, err := r.r.Peek(1)
	return err
}

// Buffered returns how many bytes can be read without waiting.
func (r *FrameReader) Buffered() int { return r.r.Buffered() }

// Read reads a frame. Its Data is valid until the next Read. At the end of
// the stream between frames the error is io.EOF, within one
// io.ErrUnexpectedEOF. A frame of the type FrameFailure is returned as the
// error that it carries.
func (r *FrameReader) Read() (Frame, error) {
	r.refused = false
	var head [5]byte
	if _, err := io.ReadFull(r.r, head[:1]); err != nil {
		return Frame{}, err
	}
	if _, err := io.ReadFull(r.r, head[1:]); err != nil {
		return Frame{}, noEOF(err)
	}
	n := binary.BigEndian.Uint32(head[1:])
	if n > MaxFrame {
		return Frame{}, glovebox.Errorf(glovebox.CodeTooLarge, "the peer announced a frame of %d bytes, more than %d", n, MaxFrame)
	}
	if err := r.fill(int(n)); err != nil {
		return Frame{}, noEOF(err)
	}
	f := Frame{Type: FrameType(head[0]), Data: r.buf}
	switch f.Type {
	case FrameFailure:
		var m guestpb.Failure
		if err := proto.Unmarshal(f.Data, &m); err != nil {
			return Frame{}, glovebox.Errorf(glovebox.CodeUnavailable, "the peer sent a failure that can't be read: %w", err)
		}
		r.refused = true
		return Frame{}, ErrorOf(&m)
	case FrameMessage, FrameData, FrameStderr, FrameGap, FramePack, FrameKill, FrameEnd:
		return f, nil
	}
	return Frame{}, glovebox.Errorf(glovebox.CodeUnavailable, "the peer sent a frame of the unknown type %#x", head[0])
}

// fill reads n bytes into r.buf, which grows only as they arrive.
func (r *FrameReader) fill(n int) error {
	r.buf = r.buf[:0]
	if cap(r.buf) > ChunkSize && n <= ChunkSize/4 {
		r.buf = nil
	}
	for len(r.buf) < n {
		at, step := len(r.buf), min(n-len(r.buf), ChunkSize)
		if cap(r.buf) < at+step {
			r.buf = append(make([]byte, 0, at+step), r.buf...)
		}
		r.buf = r.buf[:at+step]
		if _, err := io.ReadFull(r.r, r.buf[at:]); err != nil {
			return err
		}
	}
	return nil
}

// ReadMessage reads a frame that must carry a message into m.
func (r *FrameReader) ReadMessage(m proto.Message) error {
	f, err := r.Read()
	if err != nil {
		return noEOF(err)
	}
	if f.Type != FrameMessage {
		return Unexpected(f)
	}
	return Unmarshal(f.Data, m)
}

// ReadEnd reads the frame that says that all was done.
func (r *FrameReader) ReadEnd() error {
	f, err := r.Read()
	if err != nil {
		return noEOF(err)
	}
	if f.Type != FrameEnd {
		return Unexpected(f)
	}
	return nil
}

// Unmarshal reads b into m.
func Unmarshal(b []byte, m proto.Message) error {
	if err := proto.Unmarshal(b, m); err != nil {
		return glovebox.Errorf(glovebox.CodeUnavailable, "the peer sent a %s that can't be read: %w", m.ProtoReflect().Descriptor().Name(), err)
	}
	return nil
}

// Unexpected returns the error for a frame that does not belong where it came.
func Unexpected(f Frame) error {
	return glovebox.Errorf(glovebox.CodeUnavailable, "the peer sent a frame of the type %q out of turn", byte(f.Type))
}

func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// DataReader reads the bytes of consecutive FrameData frames up to a FrameEnd.
type DataReader struct {
	fr   *FrameReader
	rest []byte
	err  error
}

// NewDataReader returns a reader of the data that fr brings next.
func NewDataReader(fr *FrameReader) *DataReader { return &DataReader{fr: fr} }

// Read implements io.Reader. The end of the data is io.EOF; a stream that ends
// without FrameEnd is io.ErrUnexpectedEOF.
func (d *DataReader) Read(p []byte) (int, error) {
	for len(d.rest) == 0 {
		if d.err != nil {
			return 0, d.err
		}
		f, err := d.fr.Read()
		switch {
		case err != nil:
			d.err = noEOF(err)
		case f.Type == FrameEnd:
			d.err = io.EOF
		case f.Type == FrameData:
			d.rest = f.Data
		default:
			d.err = Unexpected(f)
		}
	}
	n := copy(p, d.rest)
	d.rest = d.rest[n:]
	return n, nil
}

// DataWriter is an io.Writer whose bytes become FrameData frames.
type DataWriter struct{ W *FrameWriter }

// Write implements io.Writer.
func (d DataWriter) Write(p []byte) (int, error) {
	if err := d.W.WriteData(FrameData, p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Rest returns a reader of what follows the frames that were read.
func (r *FrameReader) Rest() io.Reader { return r.r }
