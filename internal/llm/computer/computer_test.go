package computer

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox"
)

func TestAnthropic(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]Input{
		`{"action":"screenshot"}`:                                                            {Action: "screenshot"},
		`{"action":"left_click","coordinate":[10,20]}`:                                       {Action: "left_click", Coordinate: []int{10, 20}},
		`{"action":"left_click","coordinate":[10.4,20.6],"text":"shift"}`:                    {Action: "left_click", Coordinate: []int{10, 21}, Text: "shift"},
		`{"action":"left_click","coordinate":[1,2],"key":"ctrl"}`:                            {Action: "left_click", Coordinate: []int{1, 2}, Text: "ctrl"},
		`{"action":"right_click","coordinate":[0,0]}`:                                        {Action: "right_click", Coordinate: []int{0, 0}},
		`{"action":"middle_click"}`:                                                          {Action: "middle_click"},
		`{"action":"double_click","coordinate":[1,2]}`:                                       {Action: "double_click", Coordinate: []int{1, 2}},
		`{"action":"triple_click","coordinate":[1,2]}`:                                       {Action: "triple_click", Coordinate: []int{1, 2}},
		`{"action":"left_click_drag","start_coordinate":[1,2],"coordinate":[3,4]}`:           {Action: "left_click_drag", StartCoordinate: []int{1, 2}, Coordinate: []int{3, 4}},
		`{"action":"left_mouse_down"}`:                                                       {Action: "left_mouse_down"},
		`{"action":"left_mouse_up"}`:                                                         {Action: "left_mouse_up"},
		`{"action":"mouse_move","coordinate":[5,6]}`:                                         {Action: "mouse_move", Coordinate: []int{5, 6}},
		`{"action":"cursor_position"}`:                                                       {Action: "cursor_position"},
		`{"action":"type","text":"hé\n"}`:                                                    {Action: "type", Text: "hé\n"},
		`{"action":"key","text":"ctrl+s"}`:                                                   {Action: "key", Text: "ctrl+s"},
		`{"action":"hold_key","text":"shift","duration":1.5}`:                                {Action: "hold_key", Text: "shift", Duration: 2},
		`{"action":"scroll","coordinate":[1,2],"scroll_direction":"down","scroll_amount":5}`: {Action: "scroll", Coordinate: []int{1, 2}, ScrollDirection: "down", ScrollAmount: 5},
		`{"action":"key","text":"ctrl+z","repeat":3}`:                                        {Action: "key", Text: "ctrl+z ctrl+z ctrl+z"},
		`{"action":"wait","duration":0.5}`:                                                   {Action: "wait", Duration: 1},
		`{"action":"zoom","region":[0,0,100,50]}`:                                            {Action: "zoom", Region: []int{0, 0, 100, 50}},
	} {
		got, err := Anthropic("", json.RawMessage(in))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v", in, got, err)
		}
	}
	for _, in := range []string{`{"action":"dance"}`, `[]`, `{"action":"key","text":5}`, `{"action":"read"}`, `{}`, `{"action":"left_click","coordinate":[1]}`, `{"action":"left_click","coordinate":[1,2,3,4,5]}`,
		`{"action":"zoom","region":[1,2]}`, `{"action":"key","text":"a","repeat":101}`, `{"action":"key","text":"` + strings.Repeat("a", 200) + `","repeat":100}`} {
		if _, err := Anthropic("", json.RawMessage(in)); glovebox.CodeOf(err) != glovebox.CodeInvalid {
			t.Errorf("%s: %v", in, err)
		}
	}
}

func TestOpenAI(t *testing.T) {
	t.Parallel()
	for in, want := range map[string][]Input{
		`{"type":"screenshot"}`:                                         {{Action: "screenshot"}},
		`{"type":"wait"}`:                                               {{Action: "wait"}},
		`{"type":"click","button":"left","x":10,"y":20}`:                {{Action: "left_click", Coordinate: []int{10, 20}}},
		`{"type":"click","button":"right","x":0,"y":0}`:                 {{Action: "right_click", Coordinate: []int{0, 0}}},
		`{"type":"click","button":"wheel","x":1,"y":2}`:                 {{Action: "middle_click", Coordinate: []int{1, 2}}},
		`{"type":"click","button":"back","x":1,"y":2}`:                  {{Action: "key", Text: "alt+Left"}},
		`{"type":"click","button":"forward","x":1,"y":2}`:               {{Action: "key", Text: "alt+Right"}},
		`{"type":"click","button":"left","x":1,"y":2,"keys":["SHIFT"]}`: {{Action: "left_click", Coordinate: []int{1, 2}, Text: "SHIFT"}},
		`{"type":"double_click","x":1,"y":2}`:                           {{Action: "double_click", Coordinate: []int{1, 2}}},
		`{"type":"move","x":3,"y":4}`:                                   {{Action: "mouse_move", Coordinate: []int{3, 4}}},
		`{"type":"type","text":"x"}`:                                    {{Action: "type", Text: "x"}},
		`{"type":"keypress","keys":["CTRL","A"]}`:                       {{Action: "key", Text: "CTRL+A"}},
		`{"type":"keypress","keys":[" "]}`:                              {{Action: "key", Text: "space"}},
		`{"type":"scroll","x":1,"y":2,"scroll_x":0,"scroll_y":300}`:     {{Action: "scroll", Coordinate: []int{1, 2}, ScrollDirection: "down", ScrollAmount: 3}},
		`{"type":"scroll","x":1,"y":2,"scroll_x":-40,"scroll_y":-999}`: {
			{Action: "scroll", Coordinate: []int{1, 2}, ScrollDirection: "up", ScrollAmount: 10}, {Action: "scroll", Coordinate: []int{1, 2}, ScrollDirection: "left", ScrollAmount: 1}},
		`{"type":"scroll","x":1,"y":2}`:                        {{Action: "mouse_move", Coordinate: []int{1, 2}}},
		`{"type":"drag","path":[{"x":1,"y":2},{"x":3,"y":4}]}`: {{Action: "left_click_drag", StartCoordinate: []int{1, 2}, Coordinate: []int{3, 4}}},
		`{"type":"drag","path":[{"x":1,"y":2},{"x":3,"y":4},{"x":5,"y":6}]}`: {
			{Action: "left_mouse_down", Coordinate: []int{1, 2}}, {Action: "mouse_move", Coordinate: []int{3, 4}}, {Action: "left_mouse_up", Coordinate: []int{5, 6}}},
	} {
		got, err := OpenAI(json.RawMessage(in))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v", in, got, err)
		}
	}
	for _, in := range []string{`{"type":"dance"}`, `7`, `{"type":"drag","path":[]}`, `{"type":"keypress"}`, `{"type":"click","button":"left"}`, `{"type":"move","x":1}`, `{"type":"scroll","x":"1","y":2}`, `{"type":"click","button":"nose"}`} {
		if _, err := OpenAI(json.RawMessage(in)); glovebox.CodeOf(err) != glovebox.CodeInvalid {
			t.Errorf("%s: %v", in, err)
		}
	}
}

// TestMember checks calls of the toolset, whose names are the actions.
func TestMember(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		member, in string
		want       Input
	}{
		{"screenshot", `{}`, Input{Action: "screenshot"}},
		{"left_click", `{"coordinate":[3,4],"text":"ctrl+shift"}`, Input{Action: "left_click", Coordinate: []int{3, 4}, Text: "ctrl+shift"}},
		{"key", `{"text":" ","repeat":2}`, Input{Action: "key", Text: "space space"}},
		{"type", `{"text":"a","repeat":2,"action":"key"}`, Input{Action: "type", Text: "a"}},
		{"wait", `{"duration":300}`, Input{Action: "wait", Duration: 120}},
	} {
		if got, err := Anthropic(c.member, json.RawMessage(c.in)); err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s %s: %+v, %v", c.member, c.in, got, err)
		}
	}
	for member, in := range map[string]string{"dance": `{}`, "key": `"a`, "zoom": `{"region":"all"}`} {
		if _, err := Anthropic(member, json.RawMessage(in)); glovebox.CodeOf(err) != glovebox.CodeInvalid {
			t.Errorf("%s %s: %v", member, in, err)
		}
		if raw := Unreadable(member, json.RawMessage(in)); !json.Valid(raw) || !strings.Contains(string(raw), `"action":"`+member+`"`) {
			t.Errorf("%s", raw)
		}
	}
}
