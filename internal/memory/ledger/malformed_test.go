package ledger_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/memory/ledger"
)

// TestAnyBytesArePassedOver feeds what no tool would write.
func TestAnyBytesArePassedOver(t *testing.T) {
	t.Parallel()
	piece := rapid.SampledFrom([]string{`{`, `}`, `"command"`, `"path"`, `:`, `,`, `"`, `\`, `\"`, `[`, `]`, ` `, "\n", "a.go", "\xff", "'", "|", "<<", ">", "&&", "cd ..", "\\u12", "http://", "@", "sh-abcde", "[exit ", "1", "$("})
	any := rapid.Custom(func(t *rapid.T) string { return strings.Join(rapid.SliceOfN(piece, 0, 30).Draw(t, "pieces"), "") })
	rapid.Check(t, func(r *rapid.T) {
		l := ledger.New()
		for seq := int64(1); seq < 20; seq += 2 {
			name := rapid.SampledFrom(tools).Draw(r, "tool")
			in := json.RawMessage(any.Draw(r, "input"))
			if rapid.Bool().Draw(r, "an object") {
				in = json.RawMessage(`{"command":"` + string(in) + `","path":"` + string(in) + `"}`)
			}
			l.Started(seq, glovebox.ToolStarted{CallID: "c", Name: name, Input: in})
			l.Finished(seq+1, glovebox.ToolFinished{CallID: "c", Name: name, IsError: rapid.Bool().Draw(r, "failed"), Content: []glovebox.Block{glovebox.Text(any.Draw(r, "result"))}})
		}
		for _, text := range []string{l.Whole(), l.Compact(500)} {
			if !utf8.ValidString(text) {
				r.Fatalf("%q is not text", text)
			}
		}
	})
}

func TestAnEventThatCantBeReadChangesNothing(t *testing.T) {
	t.Parallel()
	var g log
	g.shell("make", 0, "ok")
	l := g.read(t)
	before := l.Whole()
	for _, typ := range []glovebox.EventType{glovebox.EventToolStarted, glovebox.EventToolFinished, glovebox.EventCheckpoint, glovebox.EventEgress, glovebox.EventVerified, glovebox.EventSandboxReady, glovebox.EventControl} {
		if err := l.Apply(glovebox.Event{Seq: 9, Type: typ, Data: []byte(`{"call_id":7,"commit":7,"host":7,"passed":7,"id":7,"control":7}`)}); err == nil {
			t.Errorf("%s: no error", typ)
		}
	}
	if err := l.Apply(glovebox.Event{Seq: 9, Type: "unheard.of", Data: []byte(`{`)}); err != nil || l.Whole() != before {
		t.Error("it changed")
	}
}
