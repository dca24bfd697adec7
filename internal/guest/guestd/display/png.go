//go:build linux

package display

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"sync"

	"github.com/klauspost/compress/zlib"
)

// encodePNG writes a PNG of 8 bits a colour. What a screen shows is mostly flat
// and mostly like the line above, so every line is stored as its difference
// from that one, and compressed quickly rather than well.
func encodePNG(p pixels) []byte {
	e := encoders.Get().(*pngEncoder)
	defer encoders.Put(e)
	return e.encode(p)
}

var encoders = sync.Pool{New: func() any { return new(pngEncoder) }}

// pngEncoder keeps what the next picture needs again.
type pngEncoder struct {
	out  bytes.Buffer
	z    *zlib.Writer
	line []byte
}

const pngSignature = "\x89PNG\r\n\x1a\n"

// Filters of lines.
const (
	filterSub = 1
	filterUp  = 2
)

func (e *pngEncoder) encode(p pixels) []byte {
	e.out.Reset()
	e.out.WriteString(pngSignature)
	var head [13]byte
	binary.BigEndian.PutUint32(head[0:], uint32(p.w))
	binary.BigEndian.PutUint32(head[4:], uint32(p.h))
	head[8], head[9] = 8, 2 // bits a colour; red, green, blue
	e.chunk("IHDR", head[:])

	start := e.out.Len()
	e.out.WriteString("\x00\x00\x00\x00IDAT") // the length is known later
	if e.z == nil {
		e.z, _ = zlib.NewWriterLevel(&e.out, zlib.BestSpeed) // the level is valid
	} else {
		e.z.Reset(&e.out)
	}
	if need := 1 + 3*p.w; cap(e.line) < need {
		e.line = make([]byte, need)
	}
	line := e.line[:1+3*p.w]
	for y := range p.h {
		if y == 0 {
			line[0] = filterSub
			subLine(line[1:], p.row(0))
		} else {
			line[0] = filterUp
			upLine(line[1:], p.row(y), p.row(y-1))
		}
		_, _ = e.z.Write(line) // a bytes.Buffer takes everything
	}
	_ = e.z.Close()
	b := e.out.Bytes()
	binary.BigEndian.PutUint32(b[start:], uint32(len(b)-start-8))
	e.writeSum(b[start+4:])
	e.chunk("IEND", nil)
	return bytes.Clone(e.out.Bytes())
}

// chunk writes a whole chunk.
func (e *pngEncoder) chunk(kind string, data []byte) {
	var n [4]byte
	binary.BigEndian.PutUint32(n[:], uint32(len(data)))
	e.out.Write(n[:])
	start := e.out.Len()
	e.out.WriteString(kind)
	e.out.Write(data)
	e.writeSum(e.out.Bytes()[start:])
}

func (e *pngEncoder) writeSum(b []byte) {
	var sum [4]byte
	binary.BigEndian.PutUint32(sum[:], crc32.ChecksumIEEE(b))
	e.out.Write(sum[:])
}

// subLine stores each pixel as its difference from the one before.
func subLine(line, row []byte) {
	var left uint32
	for i, j := 0, 0; i+4 <= len(row); i, j = i+4, j+3 {
		v := binary.LittleEndian.Uint32(row[i:])
		put(line[j:j+3], minus(v, left))
		left = v
	}
}

// upLine stores each pixel as its difference from the one above. Lines that
// are the same, which most of a desktop's are for the most part, cost little.
func upLine(line, row, above []byte) {
	if bytes.Equal(row, above) {
		clear(line)
		return
	}
	const step = 16 // pixels compared at once
	for len(row) >= 4*step {
		if bytes.Equal(row[:4*step], above[:4*step]) {
			clear(line[:3*step])
		} else {
			upPixels(line[:3*step], row[:4*step], above[:4*step])
		}
		line, row, above = line[3*step:], row[4*step:], above[4*step:]
	}
	upPixels(line, row, above)
}

func upPixels(line, row, above []byte) {
	for i, j := 0, 0; i+4 <= len(row); i, j = i+4, j+3 {
		put(line[j:j+3], minus(binary.LittleEndian.Uint32(row[i:]), binary.LittleEndian.Uint32(above[i:])))
	}
}

// minus subtracts each byte of b from that of a, all four at once.
func minus(a, b uint32) uint32 {
	const high = 0x80808080
	return (a | high - b&^high) ^ (a^^b)&high
}

// put stores a pixel, red first.
func put(line []byte, v uint32) {
	_ = line[2]
	line[0], line[1], line[2] = byte(v>>16), byte(v>>8), byte(v)
}
