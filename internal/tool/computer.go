package tool

import (
	"encoding/json"
	"math"
	"slices"
	"strings"

	"github.com/glovebox-dev/glovebox"
)

// notch is how many pixels of OpenAI's scrolling are one notch of a wheel.
const notch = 100

// AnthropicComputer translates a call of Anthropic's computer tool (versions
// computer_20250124 and computer_20251124) into one of the tool gui. The
// names are the same; numbers may have fractions there.
func AnthropicComputer(input json.RawMessage) (GUIInput, error) {
	var c struct {
		Action          string    `json:"action"`
		Coordinate      []float64 `json:"coordinate"`
		StartCoordinate []float64 `json:"start_coordinate"`
		Text            string    `json:"text"`
		Key             string    `json:"key"`
		ScrollDirection string    `json:"scroll_direction"`
		ScrollAmount    float64   `json:"scroll_amount"`
		Duration        float64   `json:"duration"`
		Region          []float64 `json:"region"`
	}
	if err := json.Unmarshal(input, &c); err != nil {
		return GUIInput{}, glovebox.Invalid("input", "", "a call of the computer tool can't be read: %v", err)
	}
	if !slices.Contains(anthropicActions, c.Action) {
		return GUIInput{}, glovebox.Invalid("action", "", "%.60q is no action of the computer tool", c.Action)
	}
	g := GUIInput{
		Action: c.Action, Coordinate: whole(c.Coordinate), StartCoordinate: whole(c.StartCoordinate), Text: c.Text, Region: whole(c.Region),
		ScrollDirection: c.ScrollDirection, ScrollAmount: upTo(c.ScrollAmount, 100), Duration: upTo(math.Ceil(c.Duration), 120),
	}
	if g.Text == "" {
		g.Text = c.Key
	}
	return g, nil
}

// anthropicActions are those of Anthropic's computer tool.
var anthropicActions = []string{
	"screenshot", "left_click", "right_click", "middle_click", "double_click", "triple_click", "left_click_drag", "left_mouse_down", "left_mouse_up",
	"mouse_move", "cursor_position", "type", "key", "hold_key", "scroll", "wait", "zoom",
}

// whole rounds coordinates.
func whole(list []float64) []int {
	if len(list) == 0 || len(list) > 4 {
		return nil
	}
	out := make([]int, len(list))
	for i, f := range list {
		out[i] = int(math.Round(math.Max(-1e6, math.Min(1e6, f))))
	}
	return out
}

// upTo is a number from 0 to limit.
func upTo(f float64, limit int) int { return int(math.Max(0, math.Min(float64(limit), f))) }

// openAIAction is an action of OpenAI's computer tool.
type openAIAction struct {
	Type    string   `json:"type"`
	Button  string   `json:"button"`
	X       float64  `json:"x"`
	Y       float64  `json:"y"`
	ScrollX float64  `json:"scroll_x"`
	ScrollY float64  `json:"scroll_y"`
	Text    string   `json:"text"`
	Keys    []string `json:"keys"`
	Path    []struct{ X, Y float64 }
}

// OpenAIComputer translates an action of OpenAI's computer tool into calls of
// the tool gui, to be made one after another.
func OpenAIComputer(action json.RawMessage) ([]GUIInput, error) {
	var a openAIAction
	if err := json.Unmarshal(action, &a); err != nil {
		return nil, glovebox.Invalid("action", "", "an action of the computer tool can't be read: %v", err)
	}
	at := whole([]float64{a.X, a.Y})
	switch a.Type {
	case "screenshot", "wait":
		return []GUIInput{{Action: a.Type}}, nil
	case "click":
		return a.click(at)
	case "double_click":
		return []GUIInput{{Action: "double_click", Coordinate: at, Text: chord(a.Keys)}}, nil
	case "move":
		return []GUIInput{{Action: "mouse_move", Coordinate: at}}, nil
	case "type":
		return []GUIInput{{Action: "type", Text: a.Text}}, nil
	case "keypress":
		if len(a.Keys) == 0 {
			return nil, glovebox.Invalid("keys", "", "a keypress names no key")
		}
		return []GUIInput{{Action: "key", Text: chord(a.Keys)}}, nil
	case "scroll":
		return a.scroll(at), nil
	case "drag":
		return a.drag()
	}
	return nil, glovebox.Invalid("type", "", "%.60q is no action of the computer tool", a.Type)
}

func (a *openAIAction) click(at []int) ([]GUIInput, error) {
	switch a.Button {
	case "", "left":
		return []GUIInput{{Action: "left_click", Coordinate: at, Text: chord(a.Keys)}}, nil
	case "right":
		return []GUIInput{{Action: "right_click", Coordinate: at, Text: chord(a.Keys)}}, nil
	case "wheel", "middle":
		return []GUIInput{{Action: "middle_click", Coordinate: at, Text: chord(a.Keys)}}, nil
	case "back":
		return []GUIInput{{Action: "key", Text: "alt+Left"}}, nil
	case "forward":
		return []GUIInput{{Action: "key", Text: "alt+Right"}}, nil
	}
	return nil, glovebox.Invalid("button", "", "%.60q is no button", a.Button)
}

func (a *openAIAction) scroll(at []int) []GUIInput {
	var list []GUIInput
	one := func(pixels float64, forth, back string) {
		if pixels == 0 {
			return
		}
		g := GUIInput{Action: "scroll", Coordinate: at, ScrollDirection: forth, ScrollAmount: max(1, upTo(math.Round(math.Abs(pixels)/notch), 100)), Text: chord(a.Keys)}
		if pixels < 0 {
			g.ScrollDirection = back
		}
		list = append(list, g)
	}
	one(a.ScrollY, "down", "up")
	one(a.ScrollX, "right", "left")
	if list == nil {
		list = []GUIInput{{Action: "mouse_move", Coordinate: at}}
	}
	return list
}

// drag goes through every point of a path.
func (a *openAIAction) drag() ([]GUIInput, error) {
	const most = 100
	if len(a.Path) < 2 || len(a.Path) > most {
		return nil, glovebox.Invalid("path", "", "a drag of %d points is none, or has more than %d", len(a.Path), most)
	}
	point := func(i int) []int { return whole([]float64{a.Path[i].X, a.Path[i].Y}) }
	if len(a.Path) == 2 {
		return []GUIInput{{Action: "left_click_drag", StartCoordinate: point(0), Coordinate: point(1), Text: chord(a.Keys)}}, nil
	}
	list := []GUIInput{{Action: "left_mouse_down", Coordinate: point(0)}}
	for i := 1; i < len(a.Path)-1; i++ {
		list = append(list, GUIInput{Action: "mouse_move", Coordinate: point(i)})
	}
	return append(list, GUIInput{Action: "left_mouse_up", Coordinate: point(len(a.Path) - 1)}), nil
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
