package guest

import (
	"bytes"
	"context"
	"image"
	_ "image/jpeg" // pictures are checked
	_ "image/png"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest/guestpb"
	"github.com/glovebox-dev/glovebox/internal/guest/wire"
)

// Bounds of what a guest says of its screen.
const (
	maxShotSide  = 1 << 14
	maxShotSize  = 1 << 25 // pixels: what looks at a picture takes 4 bytes for each
	maxWindows   = 200
	maxChangeFor = 10 * time.Minute
	changeGrace  = 10 * time.Second // for the answer after a wait
)

// Screenshot takes a picture of the screen. A display that does not answer is
// CodeUnavailable within 5 s; a window that is not there, CodeNotFound.
func (c *Client) Screenshot(ctx context.Context, q ShotRequest) (Shot, error) {
	m, err := call(ctx, c, "take a picture of the screen", c.display.Screenshot, &guestpb.ShotRequest{
		Area: rectMessage(q.Area), Window: q.Window, MaxW: int32(min(q.MaxW, maxShotSide)), MaxH: int32(min(q.MaxH, maxShotSide)), Jpeg: int32(q.JPEG),
		Pointer: q.Pointer, Unless: q.Unless,
	})
	if err != nil {
		return Shot{}, err
	}
	s := Shot{
		Data: m.Data, Area: rectOf(m.Area), W: int(m.W), H: int(m.H), Digest: wire.CleanText(m.Digest, 64),
		Cursor: [2]int{int(m.CursorX), int(m.CursorY)},
	}
	if len(s.Data) == 0 {
		if q.Unless == "" || s.Digest != q.Unless {
			return Shot{}, badShot("it is empty")
		}
		return s, nil
	}
	return s, checkShot(&s, q)
}

// checkShot looks at a picture's own header: others will decode it, and what
// it claims of itself is the guest's to choose.
func checkShot(s *Shot, q ShotRequest) error {
	conf, format, err := image.DecodeConfig(bytes.NewReader(s.Data))
	switch {
	case err != nil:
		return badShot("it can't be read")
	case format != "jpeg" && format != "png", (q.JPEG > 0) != (format == "jpeg"):
		return badShot("it is a " + format)
	case conf.Width > maxShotSide || conf.Height > maxShotSide || conf.Width < 1 || conf.Height < 1 || conf.Width*conf.Height > maxShotSize:
		return badShot("its size is out of range")
	case q.MaxW > 0 && conf.Width > q.MaxW || q.MaxH > 0 && conf.Height > q.MaxH:
		return badShot("it is larger than was asked for")
	}
	s.W, s.H = conf.Width, conf.Height
	if s.Area.W < 1 || s.Area.H < 1 || s.Area.W > maxShotSide || s.Area.H > maxShotSide {
		return badShot("its place is out of range")
	}
	return nil
}

func badShot(why string) error {
	return glovebox.Errorf(glovebox.CodeUnavailable, "the guest sent a picture of no use: %s", why)
}

// Input does things with mouse and keyboard, in order. All are checked before
// any is done (CodeInvalid). It returns when the display has taken them; what
// programs make of them takes longer. If it fails midway, keys and buttons
// that it pressed are released.
func (c *Client) Input(ctx context.Context, items []Input) error {
	limit := c.o.CallTimeout
	m := &guestpb.InputList{}
	for _, it := range items {
		limit += it.Pause + time.Duration(len(it.Text))*10*time.Millisecond // text of many scripts is typed slowly
		m.Items = append(m.Items, &guestpb.InputItem{
			Kind: string(it.Kind), X: int32(it.X), Y: int32(it.Y), Button: int32(it.Button), Dx: int32(it.DX), Dy: int32(it.DY),
			Text: it.Text, Keys: it.Keys, Pause: int64(it.Pause),
		})
	}
	ctx, cancel := withTimeout(ctx, limit)
	defer cancel()
	return do(ctx, c, "work the mouse and the keyboard", c.display.Input, m)
}

// Windows returns the windows of the desktop, the topmost first, at most 200.
func (c *Client) Windows(ctx context.Context) ([]Window, error) {
	m, err := call(ctx, c, "list the windows", c.display.Windows, &guestpb.Empty{})
	if err != nil {
		return nil, err
	}
	var list []Window
	for _, w := range m.Windows[:min(len(m.Windows), maxWindows)] {
		list = append(list, Window{
			ID: w.Id, Title: wire.CleanText(w.Title, 200), Class: wire.CleanText(w.Class, 100), PID: int(w.Pid), Area: rectOf(w.Area), Active: w.Active,
		})
	}
	return list, nil
}

// FocusWindow brings a window to the front and gives it the keyboard.
// CodeNotFound if there is no such window.
func (c *Client) FocusWindow(ctx context.Context, id uint32) error {
	return do(ctx, c, "focus the window", c.display.FocusWindow, &guestpb.WindowRef{Id: id})
}

// WaitChange waits until an area of the screen, the whole if it is empty, does
// not look any more as in the picture of it with the digest unlessDigest, or,
// if that is empty, as it does now. It returns false after the timeout, of at
// most ten minutes.
func (c *Client) WaitChange(ctx context.Context, area Rect, unlessDigest string, timeout time.Duration) (changed bool, err error) {
	timeout = min(max(timeout, 0), maxChangeFor)
	ctx, cancel := withTimeout(ctx, timeout+changeGrace)
	defer cancel()
	m, err := callUntimed(ctx, "wait for the screen to change", c.display.WaitChange, &guestpb.ChangeRequest{
		Area: rectMessage(area), Unless: unlessDigest, Timeout: int64(timeout),
	})
	if err != nil {
		return false, err
	}
	return m.Changed, nil
}

func rectMessage(r Rect) *guestpb.Rect {
	if r == (Rect{}) {
		return nil
	}
	return &guestpb.Rect{X: int32(r.X), Y: int32(r.Y), W: int32(r.W), H: int32(r.H)}
}

func rectOf(m *guestpb.Rect) Rect {
	return Rect{X: int(m.GetX()), Y: int(m.GetY()), W: int(m.GetW()), H: int(m.GetH())}
}
