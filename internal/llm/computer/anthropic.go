package computer

import (
	"encoding/json"
	"math"
	"slices"
	"strings"

	"github.com/glovebox-dev/glovebox"
)

// Actions are those of Anthropic's computer tool, the members of its toolset.
var Actions = []string{
	"screenshot", "left_click", "right_click", "middle_click", "double_click", "triple_click", "left_click_drag", "left_mouse_down", "left_mouse_up",
	"mouse_move", "cursor_position", "type", "key", "hold_key", "scroll", "wait", "zoom",
}

// Bounds of what is taken over from a call.
const (
	maxRepeat   = 100 // of a key
	maxScroll   = 100 // notches
	maxDuration = 120 // seconds
	maxText     = 16000
)

// Anthropic translates a call of Anthropic's computer tool. The member of
// the toolset that was called is named by member; where it is empty (the
// versions before the toolset), the input names the action.
func Anthropic(member string, input json.RawMessage) (Input, error) {
	var c struct {
		Action          string    `json:"action"`
		Coordinate      []float64 `json:"coordinate"`
		StartCoordinate []float64 `json:"start_coordinate"`
		Text            string    `json:"text"`
		Key             string    `json:"key"`
		Repeat          float64   `json:"repeat"`
		ScrollDirection string    `json:"scroll_direction"`
		ScrollAmount    float64   `json:"scroll_amount"`
		Duration        float64   `json:"duration"`
		Region          []float64 `json:"region"`
	}
	if err := json.Unmarshal(input, &c); err != nil {
		return Input{}, glovebox.Invalid("input", "", "a call of the computer tool can't be read: %v", err)
	}
	if member != "" {
		c.Action = member
	}
	if !slices.Contains(Actions, c.Action) {
		return Input{}, glovebox.Invalid("action", "", "%.60q is no action of the computer tool", c.Action)
	}
	in := Input{
		Action: c.Action, Text: c.Text, ScrollDirection: c.ScrollDirection,
		ScrollAmount: upTo(c.ScrollAmount, maxScroll), Duration: upTo(math.Ceil(c.Duration), maxDuration),
	}
	if in.Text == "" {
		in.Text = c.Key
	}
	if c.Action == "key" && c.Repeat > 1 {
		var err error
		if in.Text, err = repeated(in.Text, c.Repeat); err != nil {
			return Input{}, err
		}
	}
	for _, f := range []struct {
		name string
		dst  *[]int
		list []float64
		n    int
	}{
		{"coordinate", &in.Coordinate, c.Coordinate, 2}, {"start_coordinate", &in.StartCoordinate, c.StartCoordinate, 2}, {"region", &in.Region, c.Region, 4},
	} {
		var err error
		if *f.dst, err = whole(f.name, f.list, f.n); err != nil {
			return Input{}, err
		}
	}
	return in, nil
}

// repeated returns a chord that is pressed n times.
func repeated(chord string, n float64) (string, error) {
	if n > maxRepeat {
		return "", glovebox.Invalid("repeat", "", "%v times are more than %d", n, maxRepeat)
	}
	if chord == " " {
		chord = "space"
	}
	text := strings.TrimSpace(strings.Repeat(chord+" ", int(n)))
	if len(text) > maxText {
		return "", glovebox.Invalid("text", "", "the keys are too many")
	}
	return text, nil
}
