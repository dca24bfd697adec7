package memory

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/glovebox-dev/glovebox"
)

var decodeSeeds = []any{
	glovebox.ToolFinished{CallID: "c1", Name: "shell", Content: []glovebox.Block{glovebox.Text("a\n\t\"b\" \\ <c> \u2028 é 🙂 \x00\x1f"), {Type: glovebox.BlockImage, Blob: "b", MediaType: "image/png", Size: 12}}, DurationMS: 5},
	glovebox.ToolFinished{CallID: "c2", IsError: true, Unknown: true, Blob: "h", Content: []glovebox.Block{}, DurationMS: -1},
	glovebox.ToolFinished{Content: []glovebox.Block{{Type: glovebox.BlockImage, Data: []byte{1, 2, 3}}}},
	glovebox.ModelAnswered{StopReason: "end", Usage: glovebox.Usage{Input: 1, CostMicros: 1 << 60}, DurationMS: 1 << 62, FirstMS: 3, Message: glovebox.Message{Role: glovebox.RoleAssistant, Blocks: []glovebox.Block{
		{Type: glovebox.BlockReasoning, Provider: "p", Opaque: json.RawMessage(`{"s":"}\"]","n":[1,{"a":null}]}`)},
		{Type: glovebox.BlockToolUse, CallID: "x", Name: "n", Input: json.RawMessage(`"raw \" text"`)},
		{Type: glovebox.BlockToolResult, CallID: "x", Content: []glovebox.Block{glovebox.Text("in")}}}}},
	glovebox.ModelAnswered{},
}

// sameAsJSON returns whether decode agrees with encoding/json about data.
func sameAsJSON[T any](t *testing.T, decode func(glovebox.Event) (T, error), data []byte) {
	t.Helper()
	got, err := decode(glovebox.Event{Data: data})
	var want T
	if wrong := json.Unmarshal(data, &want); (wrong == nil) != (err == nil) {
		t.Fatalf("%q: %v, by encoding/json %v", data, err, wrong)
	} else if wrong == nil && !reflect.DeepEqual(got, want) {
		t.Fatalf("%q:\n%+v\nby encoding/json\n%+v", data, got, want)
	}
}

func FuzzDecode(f *testing.F) {
	for _, v := range decodeSeeds {
		f.Add(encode(v))
	}
	f.Add([]byte(`{"call_id":"\ud83d\ude42","name":"\u00e9\/","content":null}`))
	f.Add([]byte(`{"content":[{"text":"x","input":01}],"duration_ms":1.5}`))
	f.Add([]byte(`{"content":[{"text":"x","size":1}],"content":[{}]}`))
	f.Add([]byte(` {"call_id" : "a"} `))
	f.Add([]byte(`{"call_id":"a","CALL_ID":"b"}x`))
	f.Fuzz(func(t *testing.T, data []byte) {
		sameAsJSON(t, decodeFinished, data)
		sameAsJSON(t, decodeAnswered, data)
	})
}

// TestDecodeIsFast: what we write is read without encoding/json.
func TestDecodeIsFast(t *testing.T) {
	t.Parallel()
	for i, v := range decodeSeeds {
		s := scanner{b: encode(v)}
		switch v.(type) {
		case glovebox.ToolFinished:
			s.finished()
		default:
			s.answered()
		}
		if want := i != 2 && i != 4; s.done() != want { // bytes of an image, no list of blocks
			t.Errorf("%d: %s is read: %v", i, s.b, s.done())
		}
	}
}
