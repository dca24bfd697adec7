// Package computer translates the calls of providers' own computer tools into
// calls of the tool gui. It is pure: the same call gives the same input.
//
// What it returns is no more than well-formed. Whether a click is on the
// screen, or a key exists, is for the tool to say, to the model.
package computer

import (
	"encoding/json"
	"math"

	"github.com/glovebox-dev/glovebox"
)

// Toolset is the name under which Anthropic's toolset groups its members, and
// that of the one tool which it was before.
const Toolset = "computer"

// Input is the input of the tool gui, as far as computer tools have words for
// it. Its names are those of Anthropic's.
type Input struct {
	Action          string `json:"action"`
	Coordinate      []int  `json:"coordinate,omitempty"`
	StartCoordinate []int  `json:"start_coordinate,omitempty"`
	Text            string `json:"text,omitempty"`
	ScrollDirection string `json:"scroll_direction,omitempty"`
	ScrollAmount    int    `json:"scroll_amount,omitempty"`
	Duration        int    `json:"duration,omitempty"`
	Region          []int  `json:"region,omitempty"`
}

// whole rounds n coordinates of the field name; none are none.
func whole(name string, list []float64, n int) ([]int, error) {
	if len(list) == 0 {
		return nil, nil
	}
	if len(list) != n {
		return nil, glovebox.Invalid(name, "", "%d numbers are not %d", len(list), n)
	}
	out := make([]int, n)
	for i, f := range list {
		out[i] = int(math.Round(math.Max(-1e6, math.Min(1e6, f))))
	}
	return out, nil
}

// upTo is a whole number from 0 to limit.
func upTo(f float64, limit int) int { return int(math.Max(0, math.Min(float64(limit), f))) }

// Unreadable is what stands as the input of a call that could not be
// translated: the action and the input as the model wrote them, which gui
// refuses with the reason that the model needs to put it right. Where action
// is empty the input names it.
func Unreadable(action string, input json.RawMessage) json.RawMessage {
	var named struct {
		Action string `json:"action"`
	}
	if action == "" && json.Unmarshal(input, &named) == nil {
		action = named.Action
	}
	out := struct {
		Action string          `json:"action"`
		Input  json.RawMessage `json:"input,omitempty"`
	}{action, input}
	raw, err := json.Marshal(out)
	if err != nil { // the input was no JSON
		out.Input = nil
		raw, _ = json.Marshal(out)
	}
	return raw
}
