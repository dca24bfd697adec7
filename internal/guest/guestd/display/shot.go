//go:build linux

package display

import (
	"bytes"
	"context"
	"encoding/binary"
	"image"
	"image/jpeg"
	"strconv"
	"sync"

	"github.com/cespare/xxhash/v2"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest"
)

// Bounds of pictures.
const (
	maxPixels  = 16 << 20
	maxEncoded = 7 << 20 // bytes; an answer to a call may have 8 MiB
)

// pixels is a picture as the server sends it: four bytes a pixel, blue first,
// the fourth of no meaning.
type pixels struct {
	b    []byte
	w, h int
}

func (p pixels) row(y int) []byte { return p.b[4*p.w*y:][:4*p.w] }

// buffers are the memory of pictures, kept from one to the next.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// Screenshot takes a picture.
func (d *Display) Screenshot(ctx context.Context, q guest.ShotRequest) (guest.Shot, error) {
	if q.JPEG < 0 || q.JPEG > 100 {
		return guest.Shot{}, glovebox.Invalid("jpeg", "use 1 to 100, or 0 for a PNG", "%d is no quality", q.JPEG)
	}
	if q.MaxW < 0 || q.MaxH < 0 {
		return guest.Shot{}, glovebox.Invalid("max", "use 0 for no bound", "%dx%d is no size", q.MaxW, q.MaxH)
	}
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	var shot guest.Shot
	var p pixels
	var cur *cursor
	err := d.with(ctx, &d.view, func(c *conn) error {
		area, err := c.area(q)
		if err != nil {
			return err
		}
		pointer := c.request(38, 0, c.setup.root) // QueryPointer
		image := c.getImage(area)
		if shot.Cursor, _, err = c.pointer(pointer); err != nil {
			return err
		}
		if p, err = c.image(image, area, (*buf)[:0]); err != nil {
			return err
		}
		*buf = p.b
		if q.Pointer {
			if cur, err = c.cursor(); err != nil {
				return err
			}
		}
		shot.Area = area
		return nil
	})
	if err != nil {
		return guest.Shot{}, err
	}
	shot.Digest = p.digest(shot.Area)
	shot.W, shot.H = fit(p.w, p.h, q.MaxW, q.MaxH)
	if q.Unless != "" && q.Unless == shot.Digest {
		return shot, nil
	}
	if cur != nil {
		cur.draw(p, shot.Area)
	}
	if shot.W != p.w || shot.H != p.h {
		small := buffers.Get().(*[]byte)
		defer buffers.Put(small)
		p = shrink(p, shot.W, shot.H, (*small)[:0])
		*small = p.b
	}
	if shot.Data, err = encode(p, q.JPEG); err != nil {
		return guest.Shot{}, err
	}
	return shot, nil
}

func encode(p pixels, quality int) ([]byte, error) {
	var data []byte
	if quality == 0 {
		data = encodePNG(p)
	} else {
		var b bytes.Buffer
		if err := jpeg.Encode(&b, toRGBA(p), &jpeg.Options{Quality: quality}); err != nil {
			return nil, err
		}
		data = b.Bytes()
	}
	if len(data) > maxEncoded {
		return nil, glovebox.Errorf(glovebox.CodeTooLarge, "a picture of %dx%d takes %d bytes, more than %d: ask for a smaller one, or a JPEG", p.w, p.h, len(data), maxEncoded)
	}
	return data, nil
}

// toRGBA returns the same memory as a picture that the encoder of JPEG is
// quick with. p is not a picture any more then.
func toRGBA(p pixels) *image.RGBA {
	for i := 0; i+4 <= len(p.b); i += 4 {
		v := binary.LittleEndian.Uint32(p.b[i:])
		binary.LittleEndian.PutUint32(p.b[i:], 0xff000000|v<<16&0xff0000|v&0xff00|v>>16&0xff)
	}
	return &image.RGBA{Pix: p.b, Stride: 4 * p.w, Rect: image.Rect(0, 0, p.w, p.h)}
}

// digest returns a hash of a picture and its place.
func (p pixels) digest(a guest.Rect) string {
	var place [16]byte
	for i, v := range []int{a.X, a.Y, a.W, a.H} {
		binary.LittleEndian.PutUint32(place[4*i:], uint32(v))
	}
	h := xxhash.New()
	_, _ = h.Write(place[:])
	_, _ = h.Write(p.b)
	return strconv.FormatUint(h.Sum64(), 36)
}

// screen asks for the size of the screen, which may have changed.
func (c *conn) screen() (w, h int, err error) {
	g, err := c.geometry(c.request(14, 0, c.setup.root))
	return g.W, g.H, err
}

// geometry reads the reply to GetGeometry.
func (c *conn) geometry(seq uint16) (guest.Rect, error) {
	head, _, err := c.reply(seq, nil)
	if err != nil {
		return guest.Rect{}, err
	}
	le := binary.LittleEndian
	return guest.Rect{
		X: int(int16(le.Uint16(head[12:]))), Y: int(int16(le.Uint16(head[14:]))), W: int(le.Uint16(head[16:])), H: int(le.Uint16(head[18:])),
	}, nil
}

// area is what of the screen a request is about, cut to the screen.
func (c *conn) area(q guest.ShotRequest) (guest.Rect, error) {
	w, h, err := c.screen()
	if err != nil {
		return guest.Rect{}, err
	}
	a := q.Area
	if q.Window != 0 {
		size, place := c.request(14, 0, q.Window), c.request(40, 0, q.Window, c.setup.root, 0)
		g, err := c.geometry(size)
		if err != nil {
			return guest.Rect{}, noWindow(q.Window, err)
		}
		x, y, err := c.translated(place)
		if err != nil {
			return guest.Rect{}, noWindow(q.Window, err)
		}
		a = guest.Rect{X: x, Y: y, W: g.W, H: g.H}
	} else if a == (guest.Rect{}) {
		a = guest.Rect{W: w, H: h}
	}
	cut := clip(a, w, h)
	if cut.W <= 0 || cut.H <= 0 {
		return cut, glovebox.Invalid("area", "", "nothing of %dx%d at %d,%d is on the screen of %dx%d", a.W, a.H, a.X, a.Y, w, h)
	}
	if cut.W*cut.H > maxPixels {
		return cut, glovebox.Invalid("area", "ask for a part of it", "%dx%d are more than %d pixels", cut.W, cut.H, maxPixels)
	}
	return cut, nil
}

// clip cuts a to a screen.
func clip(a guest.Rect, w, h int) guest.Rect {
	x, y := min(max(a.X, 0), w), min(max(a.Y, 0), h)
	// A width of 2^62 must not overflow.
	right, bottom := min(max(a.X, -w)+min(a.W, 4*w), w), min(max(a.Y, -h)+min(a.H, 4*h), h)
	return guest.Rect{X: x, Y: y, W: right - x, H: bottom - y}
}

// translated reads the reply to TranslateCoordinates.
func (c *conn) translated(seq uint16) (x, y int, err error) {
	head, _, err := c.reply(seq, nil)
	return int(int16(binary.LittleEndian.Uint16(head[12:]))), int(int16(binary.LittleEndian.Uint16(head[14:]))), err
}

// getImage asks for the pixels of an area of the screen.
func (c *conn) getImage(a guest.Rect) uint16 {
	return c.request(73, 2, c.setup.root, uint32(uint16(a.X))|uint32(a.Y)<<16, uint32(a.W)|uint32(a.H)<<16, 0xffffffff)
}

// image reads the pixels that getImage asked for, appended to buf.
func (c *conn) image(seq uint16, a guest.Rect, buf []byte) (pixels, error) {
	_, b, err := c.reply(seq, buf)
	if err != nil {
		return pixels{}, err
	}
	if c.setup.bpp != 32 || c.setup.depth < 24 {
		return pixels{}, glovebox.Errorf(glovebox.CodeUnavailable, "the display has %d bits a pixel, not 32", c.setup.bpp)
	}
	if len(b) != 4*a.W*a.H {
		return pixels{}, errProtocol
	}
	return pixels{b: b, w: a.W, h: a.H}, nil
}

// pointer reads the reply to QueryPointer: where the pointer is, and which
// modifiers and buttons are down.
func (c *conn) pointer(seq uint16) (at [2]int, mask uint16, err error) {
	head, _, err := c.reply(seq, nil)
	le := binary.LittleEndian
	return [2]int{int(int16(le.Uint16(head[16:]))), int(int16(le.Uint16(head[18:])))}, le.Uint16(head[24:]), err
}

// cursor is the pointer's picture: alpha, red, green, blue from the highest
// byte, colours multiplied by alpha.
type cursor struct {
	x, y, w, h int
	argb       []uint32
}

// cursor returns the pointer's picture at its place; nil if there is none.
func (c *conn) cursor() (*cursor, error) {
	e, err := c.extension("XFIXES")
	if err != nil {
		return nil, nil //nolint:nilerr,nilnil // a picture without it is better than none
	}
	version := c.request(e.major, 0, 4, 0)
	image := c.request(e.major, 4) // GetCursorImage
	if _, _, err := c.reply(version, nil); err != nil {
		return nil, err
	}
	head, body, err := c.reply(image, nil)
	if err != nil {
		if isBroken(err) {
			return nil, err
		}
		return nil, nil //nolint:nilnil // there is none
	}
	le := binary.LittleEndian
	k := &cursor{w: int(le.Uint16(head[12:])), h: int(le.Uint16(head[14:]))}
	k.x = int(int16(le.Uint16(head[8:]))) - int(le.Uint16(head[16:]))
	k.y = int(int16(le.Uint16(head[10:]))) - int(le.Uint16(head[18:]))
	if len(body) < 4*k.w*k.h {
		return nil, errProtocol
	}
	for i := range k.w * k.h {
		k.argb = append(k.argb, le.Uint32(body[4*i:]))
	}
	return k, nil
}

// draw puts the pointer onto a picture of an area.
func (k *cursor) draw(p pixels, a guest.Rect) {
	for j := range k.h {
		for i := range k.w {
			x, y := k.x+i-a.X, k.y+j-a.Y
			v := k.argb[j*k.w+i]
			alpha := v >> 24
			if x < 0 || y < 0 || x >= p.w || y >= p.h || alpha == 0 {
				continue
			}
			at := p.row(y)[4*x:][:3]
			for n := range at {
				at[n] = byte(min(v>>(8*n)&0xff+uint32(at[n])*(255-alpha)/255, 255))
			}
		}
	}
}
