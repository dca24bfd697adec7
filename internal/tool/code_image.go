package tool

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/png"

	"github.com/glovebox-dev/glovebox/internal/clip"
)

// Bounds of images that a cell shows.
const (
	maxCellSide   = 1568     // pixels a side that a model looks at; larger ones are scaled down
	maxCellPixels = 40 << 20 // that are decoded: 160 MiB
)

// fitImage returns an image that a model can be shown, scaled down if it is
// huge.
func fitImage(data []byte) (out []byte, mediaType string, w, h int, problem string) {
	mediaType, w, h, problem = imageType(data, int64(len(data)))
	if mediaType == "" || w <= 0 || h <= 0 {
		return nil, "", 0, 0, problem
	}
	if problem == "" && max(w, h) <= maxCellSide {
		return data, mediaType, w, h, ""
	}
	if w*h > maxCellPixels || mediaType == "image/webp" {
		if problem == "" {
			return data, mediaType, w, h, ""
		}
		return nil, "", 0, 0, fmt.Sprintf("it has %d x %d pixels", w, h)
	}
	m, _, err := image.Decode(bytes.NewReader(data))
	if err != nil {
		return nil, "", 0, 0, "it is damaged: " + clip.Short(err.Error(), 200)
	}
	small := shrink(m, maxCellSide)
	var b bytes.Buffer
	if err := png.Encode(&b, small); err != nil {
		return nil, "", 0, 0, err.Error()
	}
	if b.Len() > maxImageBytes {
		return nil, "", 0, 0, fmt.Sprintf("it has %d bytes even when it is scaled down", b.Len())
	}
	return b.Bytes(), "image/png", small.Rect.Dx(), small.Rect.Dy(), ""
}

// shrink scales an image so that no side is longer than side. Each pixel is
// the mean of those that it stands for.
func shrink(m image.Image, side int) *image.NRGBA {
	r := m.Bounds()
	w, h := r.Dx(), r.Dy()
	tw, th := w, h
	if long := max(w, h); long > side {
		tw, th = max(1, w*side/long), max(1, h*side/long)
	}
	out := image.NewNRGBA(image.Rect(0, 0, tw, th))
	for y := range th {
		y0, y1 := r.Min.Y+y*h/th, r.Min.Y+max(y*h/th+1, (y+1)*h/th)
		for x := range tw {
			x0, x1 := r.Min.X+x*w/tw, r.Min.X+max(x*w/tw+1, (x+1)*w/tw)
			out.SetNRGBA(x, y, mean(m, x0, y0, x1, y1))
		}
	}
	return out
}

func mean(m image.Image, x0, y0, x1, y1 int) color.NRGBA {
	var r, g, b, a, n uint64
	for y := y0; y < y1; y++ {
		for x := x0; x < x1; x++ {
			cr, cg, cb, ca := m.At(x, y).RGBA()
			r, g, b, a, n = r+uint64(cr), g+uint64(cg), b+uint64(cb), a+uint64(ca), n+1
		}
	}
	c := color.RGBA64{R: uint16(r / n), G: uint16(g / n), B: uint16(b / n), A: uint16(a / n)}
	return color.NRGBAModel.Convert(c).(color.NRGBA)
}
