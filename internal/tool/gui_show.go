package tool

import (
	"bytes"
	"context"
	"fmt"
	"image"
	_ "image/png" // what the guest sends
	"slices"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest"
)

// Times and sizes of what is shown.
const (
	settleFirst  = 700 * time.Millisecond // for an action to show its first effect
	settleQuiet  = 150 * time.Millisecond // without a change: it is done
	settleLatest = 2 * time.Second        // something may always move
	openPatience = 8 * time.Second        // for a program to show its first window
	maxPNG       = 300 << 10              // a larger screenshot is sent as a JPEG
	jpegQuality  = 80
)

// asGUI turns an error of the guest that the model can put right into one that
// it is told.
func asGUI(err error) error {
	switch glovebox.CodeOf(err) {
	case glovebox.CodeInvalid, glovebox.CodeNotFound, glovebox.CodeTooLarge:
		return errGUI(plain(err))
	}
	return err
}

// look takes the picture that an action is compared with.
func (d *desk) look(ctx context.Context) error {
	shot, err := d.env.Guest.Screenshot(ctx, guest.ShotRequest{MaxW: guiMaxW, MaxH: guiMaxH})
	if err != nil {
		return err
	}
	if !inBound(shot) {
		return glovebox.Errorf(glovebox.CodeUnavailable, "the screenshot is larger than was asked for")
	}
	d.before = shot
	d.scale = scaling{shot.Area.W, shot.Area.H, shot.W, shot.H}
	return nil
}

// inBound reports whether a picture may be decoded.
func inBound(s guest.Shot) bool { return s.W <= guiMaxW && s.H <= guiMaxH && len(s.Data) > 0 }

// settle waits until an action has had its effect: something changed, and then
// nothing more for a moment. It returns the last picture.
func (d *desk) settle(ctx context.Context, patience time.Duration) (guest.Shot, bool, error) {
	changed, err := d.env.Guest.WaitChange(ctx, guest.Rect{}, d.before.Digest, patience)
	if err != nil || !changed {
		return d.before, false, err
	}
	digest := ""
	for end := time.Now().Add(settleLatest); changed && time.Now().Before(end); {
		if changed, err = d.env.Guest.WaitChange(ctx, guest.Rect{}, digest, settleQuiet); err != nil {
			return guest.Shot{}, false, err
		}
	}
	shot, err := d.env.Guest.Screenshot(ctx, guest.ShotRequest{MaxW: guiMaxW, MaxH: guiMaxH})
	return shot, err == nil && shot.Digest != d.before.Digest, err
}

// effect says what an action changed, and shows it.
func (d *desk) effect(ctx context.Context, before []guest.Window, patience time.Duration) (Result, error) {
	after, changed, err := d.settle(ctx, patience)
	if err != nil {
		return Result{}, err
	}
	windows, err := d.env.Guest.Windows(ctx)
	if err != nil {
		return Result{}, err
	}
	news := windowNews(before, windows)
	if !changed {
		if news == "" {
			news = "Nothing on the screen changed."
		}
		return TextResult(d.said("Done. " + news)), nil
	}
	text := strings.TrimSpace("Done. " + news)
	if r, ok := d.difference(after); ok {
		text += fmt.Sprintf(" The screen changed within [%d, %d, %d, %d].", r.Min.X, r.Min.Y, r.Max.X, r.Max.Y)
	}
	return d.picture(ctx, after, text, guest.ShotRequest{MaxW: guiMaxW, MaxH: guiMaxH})
}

// windowNews says which windows came, went or came to the front.
func windowNews(before, after []guest.Window) string {
	var news []string
	find := func(list []guest.Window, id uint32) int {
		return slices.IndexFunc(list, func(w guest.Window) bool { return w.ID == id })
	}
	for _, w := range after {
		i := find(before, w.ID)
		switch {
		case i < 0:
			news = append(news, "Opened the window "+windowName(w)+".")
		case before[i].Title != w.Title:
			news = append(news, fmt.Sprintf("The window %d is now called %q.", w.ID, w.Title))
		case w.Active && !before[i].Active:
			news = append(news, "In front is now "+windowName(w)+".")
		}
	}
	for _, w := range before {
		if find(after, w.ID) < 0 {
			news = append(news, "Closed the window "+windowName(w)+".")
		}
	}
	const most = 10
	if len(news) > most {
		news = append(news[:most], "And more.")
	}
	return strings.Join(news, " ")
}

func windowName(w guest.Window) string { return fmt.Sprintf("%d %q (%s)", w.ID, w.Title, w.Class) }

// difference returns the box around what differs between two screenshots.
func (d *desk) difference(after guest.Shot) (image.Rectangle, bool) {
	if d.before.W != after.W || d.before.H != after.H || !inBound(d.before) || !inBound(after) {
		return image.Rectangle{}, false
	}
	a, _, errA := image.Decode(bytes.NewReader(d.before.Data))
	b, _, errB := image.Decode(bytes.NewReader(after.Data))
	pa, okA := a.(*image.RGBA)
	pb, okB := b.(*image.RGBA)
	if errA != nil || errB != nil || !okA || !okB || pa.Rect != pb.Rect {
		return image.Rectangle{}, false
	}
	box := image.Rectangle{}
	for y := range pa.Rect.Dy() {
		ra, rb := pa.Pix[y*pa.Stride:][:4*pa.Rect.Dx()], pb.Pix[y*pb.Stride:][:4*pb.Rect.Dx()]
		if bytes.Equal(ra, rb) {
			continue
		}
		first, last := 0, len(ra)-1
		for ra[first] == rb[first] {
			first++
		}
		for ra[last] == rb[last] {
			last--
		}
		box = box.Union(image.Rect(first/4, y, last/4+1, y+1))
	}
	return box, !box.Empty()
}

// picture returns a screenshot, as a JPEG if it is large as a PNG.
func (d *desk) picture(ctx context.Context, shot guest.Shot, text string, q guest.ShotRequest) (Result, error) {
	kind := "image/png"
	if len(shot.Data) > maxPNG {
		q.JPEG = jpegQuality
		small, err := d.env.Guest.Screenshot(ctx, q)
		if err != nil {
			return Result{}, err
		}
		shot, kind = small, "image/jpeg"
	}
	r := TextResult(strings.TrimSpace(d.said(text)))
	r.Content = append(r.Content, glovebox.Block{Type: glovebox.BlockImage, MediaType: kind, Data: shot.Data})
	return r, nil
}

// screenshot shows the screen, a region or a window of it.
func (d *desk) screenshot(ctx context.Context) (Result, error) {
	if err := d.look(ctx); err != nil {
		return Result{}, err
	}
	if d.in.Action != "zoom" && d.in.Window == "" {
		return d.picture(ctx, d.before, fmt.Sprintf("The screen, %dx%d.", d.before.W, d.before.H), guest.ShotRequest{MaxW: guiMaxW, MaxH: guiMaxH})
	}
	q := guest.ShotRequest{MaxW: guiMaxW, MaxH: guiMaxH}
	var what string
	if d.in.Window != "" {
		windows, err := d.env.Guest.Windows(ctx)
		if err != nil {
			return Result{}, err
		}
		w, err := pick(windows, d.in.Window)
		if err != nil {
			return Result{}, err
		}
		q.Window, what = w.ID, "The window "+windowName(w)
	} else {
		area, err := d.area()
		if err != nil {
			return Result{}, err
		}
		if area == (guest.Rect{}) {
			return Result{}, errGUI(`"region": zoom needs [x0, y0, x1, y1], or a window`)
		}
		q.Area, what = area, fmt.Sprintf("The region %v", d.in.Region)
	}
	shot, err := d.env.Guest.Screenshot(ctx, q)
	if err != nil {
		return Result{}, asGUI(err)
	}
	x, y := d.scale.down(shot.Area.X, shot.Area.Y)
	x1, y1 := d.scale.down(shot.Area.X+shot.Area.W, shot.Area.Y+shot.Area.H)
	return d.picture(ctx, shot, fmt.Sprintf("%s, which is at [%d, %d, %d, %d] of the screen. Coordinates go on to mean the whole screen.", what, x, y, x1, y1), q)
}
