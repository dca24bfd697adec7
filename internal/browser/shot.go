package browser

import (
	"bytes"
	"context"
	"image"
	_ "image/jpeg" // so that their sizes are known
	_ "image/png"  // likewise
	"math"
	"time"

	"github.com/glovebox-dev/glovebox"
)

// Bounds of a picture of a page.
const (
	MaxShotHeight = 4000    // pixels of a full page; what is below is left out
	maxShotWidth  = 2560    // likewise
	maxShotSide   = 8192    // of what is in view: of the screen, whatever its scale
	maxShotSize   = 1 << 25 // pixels in all: who looks at it needs 4 bytes for each
	MaxShotBytes  = 3 << 20 // as a PNG; a larger one becomes a JPEG, which may have as much

	shotTimeout = 30 * time.Second // for all of it: a busy machine draws in software
)

// Shot is a picture of a page.
type Shot struct {
	Data      []byte
	MediaType string // image/png, or image/jpeg if it would have been too large
	W, H      int
	Cut       bool // the page is longer or wider than it
}

// Screenshot takes a picture of what of the page is in view, or, if full, of
// all of it, up to [MaxShotHeight]. It fails within 30 s if the page does not draw.
func (p *Page) Screenshot(ctx context.Context, full bool) (Shot, error) {
	if p.watch.broken() {
		return Shot{}, glovebox.Errorf(glovebox.CodeUnavailable, "there is no picture of it: %s", p.Report().Failure)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, shotTimeout, errSilent)
	defer cancel()
	_ = p.call(ctx, "Page.bringToFront", nil, nil)
	params := object{"format": "png"}
	cutOff := false
	if full {
		var m struct {
			Size struct{ Width, Height float64 } `json:"cssContentSize"`
		}
		if err := p.call(ctx, "Page.getLayoutMetrics", nil, &m); err != nil {
			return Shot{}, err
		}
		w, h := math.Max(1, math.Min(m.Size.Width, maxShotWidth)), math.Max(1, math.Min(m.Size.Height, MaxShotHeight))
		cutOff = m.Size.Width > w || m.Size.Height > h
		params["captureBeyondViewport"] = true
		params["clip"] = object{"x": 0, "y": 0, "width": w, "height": h, "scale": 1}
	}
	data, err := p.capture(ctx, params)
	if err == nil && len(data) > MaxShotBytes {
		params["format"], params["quality"] = "jpeg", 75
		data, err = p.capture(ctx, params)
	}
	if err != nil {
		return Shot{}, err
	}
	c, format, err := image.DecodeConfig(bytes.NewReader(data))
	if err != nil || len(data) > MaxShotBytes || format != "png" && format != "jpeg" {
		return Shot{}, glovebox.Errorf(glovebox.CodeUnavailable, "the browser's picture of the page can't be used: %d bytes, %q, %v", len(data), format, err)
	}
	if c.Width < 1 || c.Height < 1 || c.Width > maxShotSide || c.Height > maxShotSide || c.Width*c.Height > maxShotSize {
		return Shot{}, glovebox.Errorf(glovebox.CodeUnavailable, "the browser's picture of the page can't be used: it has %d x %d pixels", c.Width, c.Height)
	}
	return Shot{Data: data, MediaType: "image/" + format, W: c.Width, H: c.Height, Cut: cutOff}, nil
}

func (p *Page) capture(ctx context.Context, params object) ([]byte, error) {
	var r struct{ Data []byte }
	err := p.callUntimed(ctx, "Page.captureScreenshot", params, &r)
	return r.Data, err
}
