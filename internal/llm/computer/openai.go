package computer

import (
	"encoding/json"
	"math"
	"strings"

	"github.com/glovebox-dev/glovebox"
)

// notch is how many pixels of OpenAI's scrolling are one notch of a wheel.
const notch = 100

// openAIAction is an action of OpenAI's computer tool.
type openAIAction struct {
	Type    string   `json:"type"`
	Button  string   `json:"button"`
	X       *float64 `json:"x"`
	Y       *float64 `json:"y"`
	ScrollX float64  `json:"scroll_x"`
	ScrollY float64  `json:"scroll_y"`
	Text    string   `json:"text"`
	Keys    []string `json:"keys"`
	Path    []struct {
		X float64 `json:"x"`
		Y float64 `json:"y"`
	} `json:"path"`
}

// OpenAI translates an action of OpenAI's computer tool into calls of the
// tool gui, to be made one after another: at least one, at most 100.
func OpenAI(action json.RawMessage) ([]Input, error) {
	var a openAIAction
	if err := json.Unmarshal(action, &a); err != nil {
		return nil, glovebox.Invalid("action", "", "an action of the computer tool can't be read: %v", err)
	}
	switch a.Type {
	case "screenshot", "wait":
		return []Input{{Action: a.Type}}, nil
	case "type":
		return []Input{{Action: "type", Text: a.Text}}, nil
	case "keypress":
		if len(a.Keys) == 0 {
			return nil, glovebox.Invalid("keys", "", "a keypress names no key")
		}
		return []Input{{Action: "key", Text: chord(a.Keys)}}, nil
	case "drag":
		return a.drag()
	case "click", "double_click", "move", "scroll":
		if a.X == nil || a.Y == nil {
			return nil, glovebox.Invalid("x", "", "a %s names no place", a.Type)
		}
		return a.point(place(*a.X, *a.Y))
	}
	return nil, glovebox.Invalid("type", "", "%.60q is no action of the computer tool", a.Type)
}

// place is a pair of coordinates.
func place(x, y float64) []int {
	at, _ := whole("x", []float64{x, y}, 2) // two numbers are two
	return at
}

// point does what is done at a place.
func (a *openAIAction) point(at []int) ([]Input, error) {
	switch a.Type {
	case "double_click":
		return []Input{{Action: "double_click", Coordinate: at, Text: chord(a.Keys)}}, nil
	case "move":
		return []Input{{Action: "mouse_move", Coordinate: at}}, nil
	case "scroll":
		return a.scroll(at), nil
	}
	switch a.Button {
	case "", "left":
		return []Input{{Action: "left_click", Coordinate: at, Text: chord(a.Keys)}}, nil
	case "right":
		return []Input{{Action: "right_click", Coordinate: at, Text: chord(a.Keys)}}, nil
	case "wheel", "middle":
		return []Input{{Action: "middle_click", Coordinate: at, Text: chord(a.Keys)}}, nil
	case "back":
		return []Input{{Action: "key", Text: "alt+Left"}}, nil
	case "forward":
		return []Input{{Action: "key", Text: "alt+Right"}}, nil
	}
	return nil, glovebox.Invalid("button", "", "%.60q is no button", a.Button)
}

func (a *openAIAction) scroll(at []int) []Input {
	var list []Input
	one := func(pixels float64, forth, back string) {
		if pixels == 0 {
			return
		}
		in := Input{Action: "scroll", Coordinate: at, ScrollDirection: forth, ScrollAmount: max(1, upTo(math.Round(math.Abs(pixels)/notch), maxScroll)), Text: chord(a.Keys)}
		if pixels < 0 {
			in.ScrollDirection = back
		}
		list = append(list, in)
	}
	one(a.ScrollY, "down", "up")
	one(a.ScrollX, "right", "left")
	if list == nil {
		list = []Input{{Action: "mouse_move", Coordinate: at}}
	}
	return list
}

// drag goes through every point of a path.
func (a *openAIAction) drag() ([]Input, error) {
	const most = 100
	if len(a.Path) < 2 || len(a.Path) > most {
		return nil, glovebox.Invalid("path", "", "a drag of %d points is none, or has more than %d", len(a.Path), most)
	}
	point := func(i int) []int { return place(a.Path[i].X, a.Path[i].Y) }
	if len(a.Path) == 2 {
		return []Input{{Action: "left_click_drag", StartCoordinate: point(0), Coordinate: point(1), Text: chord(a.Keys)}}, nil
	}
	list := []Input{{Action: "left_mouse_down", Coordinate: point(0)}}
	for i := 1; i < len(a.Path)-1; i++ {
		list = append(list, Input{Action: "mouse_move", Coordinate: point(i)})
	}
	return append(list, Input{Action: "left_mouse_up", Coordinate: point(len(a.Path) - 1)}), nil
}

// chord joins keys as OpenAI names them.
func chord(keys []string) string {
	names := make([]string, 0, len(keys))
	for _, k := range keys {
		if k == " " {
			k = "space"
		}
		names = append(names, strings.TrimSpace(k))
	}
	return strings.Join(names, "+")
}
