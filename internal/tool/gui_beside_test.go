package tool

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/invopop/jsonschema"

	"github.com/glovebox-dev/glovebox/internal/llm/computer"
)

// TestBesideIsPart checks that what is declared beside a provider's computer
// tool is what gui takes, and with that tool all of it.
func TestBesideIsPart(t *testing.T) {
	t.Parallel()
	all, part := schemaOf[GUIInput](), schemaOf[guiBeside]()
	for p := part.Properties.Oldest(); p != nil; p = p.Next() {
		whole, ok := all.Properties.Get(p.Key)
		if !ok || whole.Type != p.Value.Type {
			t.Errorf("gui has no %s of this type", p.Key)
			continue
		}
		for _, v := range p.Value.Enum {
			if !slices.Contains(whole.Enum, v) {
				t.Errorf("gui has no %s %v", p.Key, v)
			}
		}
	}
	for _, v := range enum(all) {
		if !slices.Contains(computer.Actions, v.(string)) && !slices.Contains(enum(part), v) {
			t.Errorf("the action %v can't be reached beside a computer tool", v)
		}
	}
	c := GUI().Computer
	if c == nil || c.Width != guiMaxW || c.Height != guiMaxH || len(c.Description) > 2500 {
		t.Errorf("%+v", c)
	}
}

func enum(s *jsonschema.Schema) []any {
	p, _ := s.Properties.Get("action")
	return p.Enum
}

// TestComputerCallsFit checks that calls of computer tools are calls of gui,
// and that what could not be translated is refused with a reason.
func TestComputerCallsFit(t *testing.T) {
	t.Parallel()
	refused := func(in any) bool {
		raw, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		_, problems := decode[GUIInput](schemaOf[GUIInput](), raw)
		return len(problems) > 0
	}
	for _, action := range computer.Actions {
		in, err := computer.Anthropic(action, json.RawMessage(`{"coordinate":[10.5,20],"start_coordinate":[1,2],"region":[0,0,10,20],"text":"a","repeat":2,"duration":300,"scroll_direction":"up","scroll_amount":500}`))
		if err != nil || refused(in) {
			t.Errorf("%s: %+v, %v", action, in, err)
		}
	}
	for _, action := range []string{`{"type":"screenshot"}`, `{"type":"wait"}`, `{"type":"click","button":"left","x":1,"y":2,"keys":["CTRL"]}`, `{"type":"double_click","x":1.4,"y":2}`,
		`{"type":"move","x":1,"y":2}`, `{"type":"type","text":"x"}`, `{"type":"keypress","keys":["CTRL"," "]}`, `{"type":"scroll","x":1,"y":2,"scroll_x":9999999,"scroll_y":-3}`,
		`{"type":"drag","path":[{"x":1,"y":2},{"x":3,"y":4},{"x":5,"y":6}]}`} {
		list, err := computer.OpenAI(json.RawMessage(action))
		if err != nil || len(list) == 0 {
			t.Errorf("%s: %v", action, err)
		}
		for _, in := range list {
			if refused(in) {
				t.Errorf("%s: %+v", action, in)
			}
		}
	}
	for _, raw := range []json.RawMessage{computer.Unreadable("dance", json.RawMessage(`{}`)), computer.Unreadable("left_click", json.RawMessage(`{"coordinate":[1]}`)), computer.Unreadable("", nil)} {
		if !refused(raw) {
			t.Errorf("%s is taken", raw)
		}
	}
}
