package tool

import (
	_ "embed"
	"encoding/json"
	"strings"

	"github.com/glovebox-dev/glovebox/internal/llm"
)

//go:embed gui_beside.md
var guiBesidePrompt string

// guiBeside is what of [GUIInput] is declared to a model that has a computer
// tool of its provider's: what that tool has no words for. Each thing can so
// be done in one way only, which a model that was trained with one of the two
// need not choose between. The tool itself takes all of GUIInput, whoever
// asks: the calls of a provider's tool become calls of it.
type guiBeside struct {
	Action          string `json:"action" jsonschema:"enum=read,enum=windows,enum=focus,enum=open,enum=wait_for_change,enum=screenshot,enum=left_click,enum=right_click,enum=double_click,enum=mouse_move,enum=scroll" jsonschema_description:"What to do; with the last five, give target."`
	Target          string `json:"target,omitempty" jsonschema:"maxLength=300" jsonschema_description:"On a page in the browser, what to click, move to or scroll at, by its name as read and preview list it, e.g. [button] Add."`
	Text            string `json:"text,omitempty" jsonschema:"maxLength=16000" jsonschema_description:"The program or URL of open; keys to hold during a click or scroll, e.g. shift."`
	ScrollDirection string `json:"scroll_direction,omitempty" jsonschema:"enum=up,enum=down,enum=left,enum=right" jsonschema_description:"Where to scroll."`
	ScrollAmount    int    `json:"scroll_amount,omitempty" jsonschema:"minimum=1,maximum=100" jsonschema_description:"Notches of the wheel; 3 if left out."`
	Duration        int    `json:"duration,omitempty" jsonschema:"minimum=1,maximum=120" jsonschema_description:"Seconds of wait_for_change."`
	Region          []int  `json:"region,omitempty" jsonschema:"minItems=4,maxItems=4" jsonschema_description:"[x0, y0, x1, y1] of wait_for_change."`
	Window          string `json:"window,omitempty" jsonschema:"maxLength=200" jsonschema_description:"Number, or part of the title, of the window of focus or screenshot."`
}

// besideComputer returns how gui is declared beside a provider's computer tool.
func besideComputer() *llm.Computer {
	schema, err := json.Marshal(schemaOf[guiBeside]())
	if err != nil {
		panic("tool gui: " + err.Error())
	}
	return &llm.Computer{Width: guiMaxW, Height: guiMaxH, Description: strings.TrimSpace(guiBesidePrompt), Schema: schema}
}
