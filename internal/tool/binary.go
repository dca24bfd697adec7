package tool

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"image"
	_ "image/gif"  // so that their sizes are known
	_ "image/jpeg" // likewise
	_ "image/png"  // likewise
	"net/http"
	"strings"
	"unicode/utf8"
)

// isBinary reports whether b is not text: it has a NUL byte, or more than one
// in ten of its bytes is not UTF-8. The first 64 KiB decide.
func isBinary(b []byte) bool {
	const look = 64 << 10
	cut := len(b) > look
	b = b[:min(len(b), look)]
	if bytes.IndexByte(b, 0) >= 0 {
		return true
	}
	bad := 0
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 && (!cut || i <= len(b)-utf8.UTFMax) {
			bad++
		}
		i += n
	}
	return bad*10 > len(b)
}

// describe says what binary data is: its type by its first bytes, its size
// and its digest. size and sum are of the whole, of which b is the beginning.
func describe(b []byte, size int64) string {
	s := fmt.Sprintf("%s, %d bytes", sniff(b), size)
	if size == int64(len(b)) {
		s += fmt.Sprintf(", sha256 %x", sha256.Sum256(b))
	}
	return s
}

// sniff names the type of data by its first bytes.
func sniff(b []byte) string {
	magics := []struct{ magic, name string }{
		{"\x7fELF", "ELF executable or library"},
		{"SQLite format 3\x00", "SQLite database"},
		{"\x00asm", "WebAssembly module"},
		{"\xca\xfe\xba\xbe", "Java class or Mach-O binary"},
		{"\x28\xb5\x2f\xfd", "zstd archive"},
		{"BZh", "bzip2 archive"},
		{"\xfd7zXZ\x00", "xz archive"},
		{"wOF2", "WOFF2 font"},
	}
	for _, m := range magics {
		if bytes.HasPrefix(b, []byte(m.magic)) {
			return m.name
		}
	}
	t, _, _ := strings.Cut(http.DetectContentType(b), ";")
	if t == "application/octet-stream" || strings.HasPrefix(t, "text/") {
		return "binary data of unknown type"
	}
	return t
}

// Bounds of images that a model is shown: what all providers take.
const (
	maxImageBytes = 3 << 20
	maxImageSide  = 8000 // pixels
)

// imageType returns the media type of an image that a model can be shown,
// with its size in pixels; why not, if it can't.
func imageType(b []byte, size int64) (mediaType string, width, height int, problem string) {
	mediaType = http.DetectContentType(b)
	switch mediaType {
	case "image/png", "image/jpeg", "image/gif":
		c, _, err := image.DecodeConfig(bytes.NewReader(b))
		if err != nil {
			return mediaType, 0, 0, "it is damaged: " + err.Error()
		}
		width, height = c.Width, c.Height
	case "image/webp":
		width, height = webpSize(b)
	default:
		return "", 0, 0, "not an image"
	}
	switch {
	case width <= 0 || height <= 0:
		problem = "its size in pixels can't be read"
	case size > maxImageBytes:
		problem = fmt.Sprintf("at most %d bytes can be shown; make a smaller copy", maxImageBytes)
	case width > maxImageSide || height > maxImageSide:
		problem = fmt.Sprintf("at most %d pixels a side can be shown; make a smaller copy", maxImageSide)
	}
	return mediaType, width, height, problem
}

// webpSize returns the size of a WebP image from its first chunk, zero if it
// is not a valid one.
func webpSize(b []byte) (width, height int) {
	if len(b) < 30 {
		return 0, 0
	}
	switch string(b[12:16]) {
	case "VP8 ": // a frame: tag, start code, 14 bits each
		if b[23] != 0x9d || b[24] != 0x01 || b[25] != 0x2a {
			return 0, 0
		}
		return int(binary.LittleEndian.Uint16(b[26:]) & 0x3fff), int(binary.LittleEndian.Uint16(b[28:]) & 0x3fff)
	case "VP8L": // signature, then 14 bits each, less one
		if b[20] != 0x2f {
			return 0, 0
		}
		bits := binary.LittleEndian.Uint32(b[21:])
		return int(bits&0x3fff) + 1, int(bits>>14&0x3fff) + 1
	case "VP8X": // flags, then 24 bits each, less one
		return int(b[24]) | int(b[25])<<8 | int(b[26])<<16 + 1, int(b[27]) | int(b[28])<<8 | int(b[29])<<16 + 1
	}
	return 0, 0
}
