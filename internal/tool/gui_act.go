package tool

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox/internal/guest"
)

// scaling maps the coordinates of the model's screenshots to the screen's.
type scaling struct{ w, h, shotW, shotH int }

func (s scaling) up(x, y int) (int, int) {
	return min(x*s.w/s.shotW+s.w/s.shotW/2, s.w-1), min(y*s.h/s.shotH+s.h/s.shotH/2, s.h-1)
}

func (s scaling) down(x, y int) (int, int) { return x * s.shotW / s.w, y * s.shotH / s.h }

func (s scaling) identity() bool { return s.w == s.shotW && s.h == s.shotH }

// point returns a coordinate of the model's on the screen.
func (d *desk) point(name string, at []int) (x, y int, err error) {
	if len(at) != 2 {
		return 0, 0, errGUI(fmt.Sprintf("%q: %s needs [x, y]", name, d.in.Action))
	}
	if at[0] < 0 || at[1] < 0 || at[0] >= d.scale.shotW || at[1] >= d.scale.shotH {
		return 0, 0, errGUI(fmt.Sprintf("%q: %d,%d is not on the screen, which is %dx%d", name, at[0], at[1], d.scale.shotW, d.scale.shotH))
	}
	x, y = d.scale.up(at[0], at[1])
	if d.scale.identity() {
		x, y = at[0], at[1]
	}
	return x, y, nil
}

// area returns a region of the model's on the screen.
func (d *desk) area() (guest.Rect, error) {
	r := d.in.Region
	if len(r) == 0 {
		return guest.Rect{}, nil
	}
	if len(r) != 4 || r[0] >= r[2] || r[1] >= r[3] || r[0] < 0 || r[1] < 0 || r[2] > d.scale.shotW || r[3] > d.scale.shotH {
		return guest.Rect{}, errGUI(fmt.Sprintf(`"region": %v is not [x0, y0, x1, y1] on the screen of %dx%d`, r, d.scale.shotW, d.scale.shotH))
	}
	s := d.scale
	a := guest.Rect{X: r[0] * s.w / s.shotW, Y: r[1] * s.h / s.shotH}
	a.W, a.H = max(1, r[2]*s.w/s.shotW-a.X), max(1, r[3]*s.h/s.shotH-a.Y)
	return a, nil
}

// clicks are the actions that press buttons, and how often.
var clicks = map[string]struct{ button, times int }{
	"left_click": {1, 1}, "double_click": {1, 2}, "triple_click": {1, 3}, "right_click": {3, 1}, "middle_click": {2, 1},
}

// Pauses between what a person could not do at the same instant either.
const (
	clickPause = 30 * time.Millisecond
	dragPause  = 25 * time.Millisecond
	dragHold   = 75 * time.Millisecond // before the first step and after the last
	dragSteps  = 8
)

// inputs returns what mouse and keyboard do for an action.
func (d *desk) inputs() ([]guest.Input, error) {
	if c, ok := clicks[d.in.Action]; ok {
		return d.click(c.button, c.times)
	}
	switch d.in.Action {
	case "left_click_drag":
		return d.drag()
	case "left_mouse_down":
		return d.at(guest.Input{Kind: guest.InputPress, Button: 1})
	case "left_mouse_up":
		return d.at(guest.Input{Kind: guest.InputRelease, Button: 1})
	case "mouse_move":
		if len(d.in.Coordinate) == 0 {
			return nil, errGUI(`"coordinate": mouse_move needs [x, y]`)
		}
		return d.at()
	case "scroll":
		return d.scroll()
	case "type":
		if d.in.Text == "" {
			return nil, errGUI(`"text": give the text to type`)
		}
		return []guest.Input{{Kind: guest.InputType, Text: d.in.Text}}, nil
	case "key", "hold_key":
		return d.keys()
	}
	return nil, errGUI(fmt.Sprintf("%q is no action", d.in.Action))
}

// at moves the pointer to the coordinate, if there is one, before what follows.
func (d *desk) at(then ...guest.Input) ([]guest.Input, error) {
	if len(d.in.Coordinate) == 0 {
		return then, nil
	}
	x, y, err := d.point("coordinate", d.in.Coordinate)
	if err != nil {
		return nil, err
	}
	return append([]guest.Input{{Kind: guest.InputMove, X: x, Y: y}}, then...), nil
}

// holding holds the keys of Text down around what is done.
func (d *desk) holding(list []guest.Input) []guest.Input {
	if d.in.Text == "" {
		return list
	}
	list = append([]guest.Input{{Kind: guest.InputKeyDown, Keys: d.in.Text}}, list...)
	return append(list, guest.Input{Kind: guest.InputKeyUp, Keys: d.in.Text})
}

func (d *desk) click(button, times int) ([]guest.Input, error) {
	var list []guest.Input
	for i := range times {
		if i > 0 {
			list = append(list, guest.Input{Kind: guest.InputPause, Pause: clickPause})
		}
		list = append(list, guest.Input{Kind: guest.InputPress, Button: button}, guest.Input{Kind: guest.InputRelease, Button: button})
	}
	list, err := d.at(list...)
	return d.holding(list), err
}

// drag moves in steps: programs ignore a pointer that jumps.
func (d *desk) drag() ([]guest.Input, error) {
	x1, y1, err := d.point("coordinate", d.in.Coordinate)
	if err != nil {
		return nil, err
	}
	x0, y0 := d.before.Cursor[0], d.before.Cursor[1]
	var list []guest.Input
	if len(d.in.StartCoordinate) > 0 {
		if x0, y0, err = d.point("start_coordinate", d.in.StartCoordinate); err != nil {
			return nil, err
		}
		list = append(list, guest.Input{Kind: guest.InputMove, X: x0, Y: y0})
	}
	list = append(list, guest.Input{Kind: guest.InputPress, Button: 1}, guest.Input{Kind: guest.InputPause, Pause: dragHold})
	for i := 1; i <= dragSteps; i++ {
		list = append(list, guest.Input{Kind: guest.InputPause, Pause: dragPause},
			guest.Input{Kind: guest.InputMove, X: x0 + (x1-x0)*i/dragSteps, Y: y0 + (y1-y0)*i/dragSteps})
	}
	list = append(list, guest.Input{Kind: guest.InputPause, Pause: dragHold}, guest.Input{Kind: guest.InputRelease, Button: 1})
	return d.holding(list), nil
}

func (d *desk) scroll() ([]guest.Input, error) {
	n := d.in.ScrollAmount
	if n == 0 {
		n = 3
	}
	in := guest.Input{Kind: guest.InputScroll}
	switch d.in.ScrollDirection {
	case "up":
		in.DY = -n
	case "down":
		in.DY = n
	case "left":
		in.DX = -n
	case "right":
		in.DX = n
	default:
		return nil, errGUI(`"scroll_direction": scroll needs up, down, left or right`)
	}
	list, err := d.at(in)
	return d.holding(list), err
}

// maxKeys is how many chords one call may press.
const maxKeys = 100

func (d *desk) keys() ([]guest.Input, error) {
	chords := strings.Fields(d.in.Text)
	if d.in.Text == " " {
		chords = []string{"space"}
	}
	if len(chords) == 0 {
		return nil, errGUI(`"text": name the keys, e.g. ctrl+s or Return`)
	}
	if d.in.Action == "hold_key" {
		hold := time.Duration(max(d.in.Duration, 1)) * time.Second
		if hold > 10*time.Second {
			return nil, errGUI(`"duration": a key can be held for at most 10 seconds`)
		}
		keys := strings.Join(chords, "+")
		return []guest.Input{{Kind: guest.InputKeyDown, Keys: keys}, {Kind: guest.InputPause, Pause: hold}, {Kind: guest.InputKeyUp, Keys: keys}}, nil
	}
	if len(chords) > maxKeys {
		return nil, errGUI(fmt.Sprintf(`"text": %d chords are more than %d; use type for text`, len(chords), maxKeys))
	}
	var list []guest.Input
	for _, c := range chords {
		list = append(list, guest.Input{Kind: guest.InputKey, Keys: c})
	}
	return list, nil
}

// act does an action and shows what came of it.
func (d *desk) act(ctx context.Context) (Result, error) {
	if err := d.look(ctx); err != nil {
		return Result{}, err
	}
	windows, err := d.env.Guest.Windows(ctx)
	if err != nil {
		return Result{}, err
	}
	patience := settleFirst
	switch d.in.Action {
	case "focus":
		err = d.focus(ctx, windows)
	case "open":
		patience = openPatience
		err = d.open(ctx)
	default:
		var list []guest.Input
		if err = d.aim(ctx); err == nil {
			list, err = d.inputs()
		}
		if err == nil {
			err = d.env.Guest.Input(ctx, list)
		}
	}
	if err != nil {
		return Result{}, asGUI(err)
	}
	return d.effect(ctx, windows, patience)
}
