package tool

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

type sampleInput struct {
	Name  string   `json:"name" jsonschema:"minLength=1,maxLength=10"`
	Count int      `json:"count,omitempty" jsonschema:"minimum=1,maximum=9"`
	Mode  string   `json:"mode,omitempty" jsonschema:"enum=fast,enum=slow"`
	Yes   bool     `json:"yes,omitempty"`
	List  []string `json:"list,omitempty" jsonschema:"maxItems=2,maxLength=5"`
	Parts []struct {
		Size int `json:"size"`
	} `json:"parts,omitempty" jsonschema:"minItems=1,maxItems=3"`
}

func TestDecode(t *testing.T) {
	t.Parallel()
	var got sampleInput
	x := New("sample", "A sample.", func(_ context.Context, _ *Env, in sampleInput) (Result, error) {
		got = in
		return TextResult("ran"), nil
	})
	tests := []struct{ name, input, want string }{
		{"good", `{"name":"a","count":3,"mode":"fast","yes":true,"list":["x"],"parts":[{"size":1}]}`, "ran"},
		{"only required", `{"name":"a"}`, "ran"},
		{"null is absent", `{"name":"a","count":null,"list":null}`, "ran"},
		{"whole float", `{"name":"a","count":3.0}`, "ran"},
		{"encoded twice", `"{\"name\":\"a\"}"`, "ran"},
		{"missing", `{}`, `"name": missing; want a string of at most 10 bytes, not empty`},
		{"empty input", ``, `"name": missing`},
		{"null input", `null`, `"name": missing`},
		{"required null", `{"name":null}`, `"name": got null, want a string`},
		{"empty string", `{"name":""}`, `"name": it is empty`},
		{"too long", `{"name":"0123456789x"}`, `"name": it has 11 bytes, want a string of at most 10 bytes`},
		{"wrong type", `{"name":7}`, `"name": got the number 7, want a string`},
		{"string for number", `{"name":"a","count":"3"}`, `"count": got the string "3", want an integer from 1 to 9`},
		{"fraction", `{"name":"a","count":2.5}`, `"count": got the number 2.5, want an integer from 1 to 9`},
		{"too large", `{"name":"a","count":10}`, `"count": got 10, want an integer from 1 to 9`},
		{"enum", `{"name":"a","mode":"fats"}`, `"mode": got the string "fats", want one of "fast", "slow"`},
		{"bool", `{"name":"a","yes":"yes"}`, `"yes": got the string "yes", want true or false`},
		{"unknown, alike", `{"name":"a","cuont":1}`, `"cuont": unknown field; did you mean "count"?`},
		{"unknown", `{"name":"a","zzzzzz":1}`, `"zzzzzz": unknown field; there are the fields name (required), count, mode, yes, list, parts`},
		{"list item", `{"name":"a","list":["x",7]}`, `"list[1]": got the number 7, want a string`},
		{"list item long", `{"name":"a","list":["123456"]}`, `"list[0]": it has 6 bytes`},
		{"list length", `{"name":"a","list":["1","2","3"]}`, `"list": got 3 items, want a list of at most 2 items`},
		{"no list", `{"name":"a","list":"x"}`, `"list": got the string "x", want a list`},
		{"nested", `{"name":"a","parts":[{"size":1},{}]}`, `"parts[1].size": missing; want an integer`},
		{"several", `{"count":0,"x":1}`, "- \"name\": missing; want a string of at most 10 bytes, not empty\n- \"count\": got 0"},
		{"not an object", `[1]`, `got a list of 1, want an object with the fields name (required)`},
		{"cut off", `"{\"name\": \"a"`, `it is not valid JSON: it ends in the middle, after "{\"name\": \"a"`},
		{"broken", `"{name: 1}"`, `it is not valid JSON: invalid character 'n'`},
		{"more", `"{\"name\":\"a\"} x"`, `it is not valid JSON: `},
	}
	for _, tt := range tests {
		r, err := x.Run(t.Context(), &Env{}, json.RawMessage(tt.input))
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		text := r.Content[0].Text
		if !strings.Contains(text, tt.want) {
			t.Errorf("%s: got\n%s\nwant\n%s", tt.name, text, tt.want)
		}
		if r.IsError != (tt.want != "ran") {
			t.Errorf("%s: IsError is %v", tt.name, r.IsError)
		}
	}
	if got.Name != "a" {
		t.Errorf("decoded %+v", got)
	}
}

func TestDecodeTooLarge(t *testing.T) {
	t.Parallel()
	input := json.RawMessage(`{"name":"` + strings.Repeat("x", InputBound) + `"}`)
	_, problems := decode[sampleInput](schemaOf[sampleInput](), input)
	if len(problems) != 1 || !strings.Contains(problems[0], "at most 2097152 are taken") {
		t.Errorf("got %q", problems)
	}
}

func FuzzDecode(f *testing.F) {
	for _, s := range []string{`{"name":"a"}`, `"{"`, `[[[`, `{"name":"\ud800"}`, `{"parts":[{"size":1e400}]}`, `{"name":"a","name":2}`} {
		f.Add([]byte(s))
	}
	schema := schemaOf[sampleInput]()
	f.Fuzz(func(t *testing.T, b []byte) {
		in, problems := decode[sampleInput](schema, b)
		if len(problems) > 0 {
			if m := inputMessage("sample", problems); len(m) > 20<<10 {
				t.Errorf("a message of %d bytes", len(m))
			}
			return
		}
		if in.Name == "" || len(in.Name) > 10 || in.Count < 0 || in.Count > 9 || len(in.List) > 2 || len(in.Parts) > 3 {
			t.Errorf("accepted %+v", in)
		}
	})
}

func TestFailed(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(ErrYield)
	if _, err := failed(ctx, errors.New("x")); !errors.Is(err, ErrYield) {
		t.Errorf("got %v, want the cause", err)
	}
}
