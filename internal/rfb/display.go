package rfb

import (
	"bufio"
	"encoding/binary"
	"io"
	"slices"
)

// checker passes what the display sends on to a viewer, message by message.
type checker struct {
	r             *bufio.Reader
	w             *bufio.Writer
	width, height int
	control       func() bool // whether the clipboard may pass
	buf           []byte      // of copies
}

func (r *Relay) fromDisplay(viewer io.Writer) error {
	out := bufio.NewWriterSize(paced{r: r, w: viewer}, bufferSize)
	r.d.in.out = out
	c := &checker{r: r.d.r, w: out, width: r.d.width, height: r.d.height, buf: make([]byte, 16<<10), control: func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.control
	}}
	for {
		if err := c.next(); err != nil {
			_ = out.Flush() // what is whole of it
			return err
		}
	}
}

// next passes one message on.
func (c *checker) next() error {
	typ, err := c.r.ReadByte()
	if err != nil {
		return err
	}
	switch typ {
	case msgUpdate:
		return c.update()
	case msgColourMap:
		h, err := c.read(5)
		if err != nil {
			return err
		}
		return c.drop(6 * int(binary.BigEndian.Uint16(h[3:])))
	case msgBell:
		return nil
	case msgServerCutText:
		return c.cutText()
	case msgEndOfContinuous:
		return c.w.WriteByte(typ)
	case msgFence:
		h, err := c.read(8)
		if err != nil {
			return err
		}
		if h[7] > maxFence {
			return fault(Screen, "sends a fence of %d bytes", h[7])
		}
		return c.pass(append([]byte{typ}, h...), int(h[7]))
	case msgXVP:
		return c.drop(3)
	}
	return fault(Screen, "sends a message of type %d, which is not known", typ)
}

// read reads n bytes, few enough to be in the reader's buffer.
func (c *checker) read(n int) ([]byte, error) {
	b := make([]byte, n)
	_, err := io.ReadFull(c.r, b)
	return b, err
}

// drop reads n bytes away.
func (c *checker) drop(n int) error {
	_, err := c.r.Discard(n)
	return err
}

// pass writes head and then n bytes of what comes. It copies by itself: the
// reader may flush the writer, which bufio's own copying does not expect.
func (c *checker) pass(head []byte, n int) error {
	if _, err := c.w.Write(head); err != nil {
		return err
	}
	for n > 0 {
		m, err := c.r.Read(c.buf[:min(n, len(c.buf))])
		if _, err := c.w.Write(c.buf[:m]); err != nil {
			return err
		}
		if n -= m; err != nil && n > 0 {
			return err
		}
	}
	return nil
}

func (c *checker) cutText() error {
	h, err := c.read(7)
	if err != nil {
		return err
	}
	n, err := cutLength(Screen, h[3:])
	if err != nil {
		return err
	}
	if !c.control() {
		return c.drop(n)
	}
	return c.pass(append([]byte{msgServerCutText}, h...), n)
}

// rect is the head of a rectangle of an update.
type rect struct {
	x, y, w, h int
	enc        int32
	head       []byte
}

func (c *checker) update() error {
	h, err := c.read(3)
	if err != nil {
		return err
	}
	if _, err := c.w.Write(append([]byte{msgUpdate}, h...)); err != nil {
		return err
	}
	for range binary.BigEndian.Uint16(h[1:]) {
		b, err := c.read(12)
		if err != nil {
			return err
		}
		u := func(i int) int { return int(binary.BigEndian.Uint16(b[i:])) }
		rc := rect{x: u(0), y: u(2), w: u(4), h: u(6), enc: int32(binary.BigEndian.Uint32(b[8:])), head: b}
		if rc.enc == encLastRect {
			_, err := c.w.Write(b)
			return err
		}
		if err := c.rectangle(rc); err != nil {
			return err
		}
	}
	return nil
}

// rectangle passes one on: pictures, and what is told in their form.
func (c *checker) rectangle(rc rect) error {
	switch rc.enc {
	case encRaw, encCopyRect, encTight, encZRLE:
		if rc.x+rc.w > c.width || rc.y+rc.h > c.height {
			return fault(Screen, "paints %dx%d at %d,%d, which is beyond its %dx%d", rc.w, rc.h, rc.x, rc.y, c.width, c.height)
		}
		return c.picture(rc)
	case encCursor, encVMwareCursor:
		return c.cursor(rc)
	case encDesktopSize:
		if err := c.resize(rc); err != nil {
			return err
		}
		return c.pass(rc.head, 0)
	case encExtDesktopSize:
		return c.screens(rc)
	case encDesktopName:
		name, err := readText(c.r, Screen, maxReadName)
		if err != nil {
			return err
		}
		name = cleanName(name)
		return c.pass(append(binary.BigEndian.AppendUint32(rc.head, uint32(len(name))), name...), 0)
	case encQEMUKey:
		return c.pass(rc.head, 0)
	case encQEMULED:
		return c.pass(rc.head, 1)
	case encVMwareLED:
		return c.pass(rc.head, 4)
	}
	return fault(Screen, "uses the encoding %d, which is not passed on", rc.enc)
}

func (c *checker) resize(rc rect) error {
	if err := checkSize(rc.w, rc.h); err != nil {
		return err
	}
	c.width, c.height = rc.w, rc.h
	return nil
}

func (c *checker) screens(rc rect) error {
	h, err := c.read(4)
	if err != nil {
		return err
	}
	if h[0] > maxScreens {
		return fault(Screen, "has %d screens; the bound is %d", h[0], maxScreens)
	}
	if rc.x != 1 || rc.y == 0 { // else it tells this viewer that its wish was refused, and of no new size
		if err := c.resize(rc); err != nil {
			return err
		}
	} else if err := checkSize(rc.w, rc.h); err != nil {
		return err
	}
	return c.pass(append(rc.head, h...), 16*int(h[0]))
}

func (c *checker) cursor(rc rect) error {
	if rc.w > maxCursor || rc.h > maxCursor {
		return fault(Screen, "has a pointer of %dx%d; the bound is %d", rc.w, rc.h, maxCursor)
	}
	if rc.enc == encCursor {
		return c.pass(rc.head, rc.w*rc.h*pixelBytes+(rc.w+7)/8*rc.h)
	}
	h, err := c.read(2)
	if err != nil {
		return err
	}
	n := rc.w * rc.h * pixelBytes
	switch h[0] {
	case 0: // two masks
		n *= 2
	case 1: // with transparency
	default:
		return fault(Screen, "has a pointer of kind %d, which is not known", h[0])
	}
	return c.pass(append(rc.head, h...), n)
}

func (c *checker) picture(rc rect) error {
	switch rc.enc {
	case encRaw:
		return c.pass(rc.head, rc.w*rc.h*pixelBytes)
	case encCopyRect:
		from, err := c.read(4)
		if err != nil {
			return err
		}
		x, y := int(binary.BigEndian.Uint16(from)), int(binary.BigEndian.Uint16(from[2:]))
		if x+rc.w > c.width || y+rc.h > c.height {
			return fault(Screen, "copies from %d,%d, which is beyond its %dx%d", x, y, c.width, c.height)
		}
		return c.pass(append(rc.head, from...), 0)
	case encZRLE:
		n, err := c.read(4)
		if err != nil {
			return err
		}
		// At worst as long as the pixels with a byte a tile, a little more for zlib.
		size := int64(binary.BigEndian.Uint32(n))
		if most := int64(rc.w)*int64(rc.h)*pixelBytes*9/8 + 64<<10; size > min(most, maxZRLE) {
			return fault(Screen, "sends %d bytes for %dx%d", size, rc.w, rc.h)
		}
		return c.pass(append(rc.head, n...), int(size))
	}
	return c.tight(rc)
}

// tight passes a rectangle of the encoding Tight on.
func (c *checker) tight(rc rect) error {
	ctl, err := c.r.ReadByte()
	if err != nil {
		return err
	}
	head := append(slices.Clip(rc.head), ctl)
	switch {
	case ctl>>4 == 8: // one colour
		return c.pass(head, tightPixelBytes)
	case ctl>>4 == 9:
		return c.jpeg(rc, head)
	case ctl>>4 > 9:
		return fault(Screen, "uses the Tight compression %#x, which is not passed on", ctl)
	}
	size := rc.w * rc.h * tightPixelBytes
	if ctl&0x40 != 0 {
		filter, err := c.r.ReadByte()
		if err != nil {
			return err
		}
		head = append(head, filter)
		switch filter {
		case 0, 2: // none; gradient
		case 1:
			if head, size, err = c.palette(rc, head); err != nil {
				return err
			}
		default:
			return fault(Screen, "uses the Tight filter %d, which is not known", filter)
		}
	}
	if size < tightUncompressedMax {
		return c.pass(head, size)
	}
	head, n, err := c.compactLength(head)
	if err != nil {
		return err
	}
	return c.pass(head, n)
}

// palette reads the colours of a rectangle and returns how many bytes its
// indexes take.
func (c *checker) palette(rc rect, head []byte) ([]byte, int, error) {
	last, err := c.r.ReadByte()
	if err != nil {
		return nil, 0, err
	}
	colours, err := c.read((int(last) + 1) * tightPixelBytes)
	if err != nil {
		return nil, 0, err
	}
	size := rc.w * rc.h
	if last == 1 {
		size = (rc.w + 7) / 8 * rc.h
	}
	return append(append(head, last), colours...), size, nil
}

// compactLength reads a length of one to three bytes.
func (c *checker) compactLength(head []byte) ([]byte, int, error) {
	n := 0
	for i := range 3 {
		b, err := c.r.ReadByte()
		if err != nil {
			return nil, 0, err
		}
		head = append(head, b)
		if i == 2 {
			return head, n | int(b)<<14, nil
		}
		n |= int(b&0x7f) << (7 * i)
		if b&0x80 == 0 {
			break
		}
	}
	return head, n, nil
}

// jpegHead is how far into a JPEG its size is looked for. Displays put it
// right after the tables.
const jpegHead = 2 << 10

// jpeg passes a JPEG on, if it is as large as its rectangle: a browser would
// unpack what it says.
func (c *checker) jpeg(rc rect, head []byte) error {
	head, n, err := c.compactLength(head)
	if err != nil {
		return err
	}
	b, err := c.r.Peek(min(n, jpegHead))
	if err != nil {
		return err
	}
	if w, h, ok := jpegSize(b); !ok || w != rc.w || h != rc.h {
		return fault(Screen, "sends a JPEG of %dx%d for %dx%d", w, h, rc.w, rc.h)
	}
	return c.pass(head, n)
}

// jpegSize returns the size that a JPEG which begins with b has.
func jpegSize(b []byte) (w, h int, ok bool) {
	if len(b) < 2 || b[0] != 0xff || b[1] != 0xd8 {
		return 0, 0, false
	}
	for b = b[2:]; len(b) >= 9 && b[0] == 0xff; {
		marker, size := b[1], int(binary.BigEndian.Uint16(b[2:]))
		if marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc {
			return int(binary.BigEndian.Uint16(b[7:])), int(binary.BigEndian.Uint16(b[5:])), true
		}
		if marker == 0xda || size < 2 || 2+size > len(b) {
			break
		}
		b = b[2+size:]
	}
	return 0, 0, false
}
