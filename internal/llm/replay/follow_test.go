package replay

import (
	"fmt"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
)

// TestCallsWithoutOutcomeAreMadeAgain plays a turn whose calls are
// interrupted, one after the other and all together.
func TestCallsWithoutOutcomeAreMadeAgain(t *testing.T) {
	t.Parallel()
	s, err := Parse("again.replay", []byte("turn\ncall a\ncall b\n  x = 1\ncall c\n\nturn\nexpect ok\nexpect 2 contains fine\ncall d\n"))
	if err != nil {
		t.Fatal(err)
	}
	m := New(s, Options{})
	unknown := toolResult(glovebox.UnknownOutcome+": who knows", true)
	r := &llm.Request{Messages: []glovebox.Message{{Role: glovebox.RoleUser, Blocks: []glovebox.Block{glovebox.Text("task")}}}}
	ids := map[string]bool{}
	for _, turn := range []struct {
		want    string
		results []glovebox.Block
	}{
		{"a b c", []glovebox.Block{toolResult("ok", false), unknown, unknown}},
		{"b c", []glovebox.Block{unknown, toolResult("failed", true)}},
		{"b c", []glovebox.Block{unknown, toolResult("ok", false)}},
		{"b", []glovebox.Block{toolResult("fine", false)}},
		{"d", []glovebox.Block{unknown}},
		{"d", []glovebox.Block{unknown}},
		{"d", []glovebox.Block{toolResult("ok", false)}},
	} {
		resp, err := m.Stream(t.Context(), r, nil)
		if err != nil {
			t.Fatalf("%s: %v", turn.want, err)
		}
		var names []string
		for _, u := range resp.Message.ToolUses() {
			names = append(names, u.Name)
			if ids[u.CallID] {
				t.Errorf("the id %s was used twice", u.CallID)
			}
			ids[u.CallID] = true
			if u.Name == "b" && string(u.Input) != `{"x":"1"}` {
				t.Errorf("input %s", u.Input)
			}
		}
		if got := strings.Join(names, " "); got != turn.want {
			t.Fatalf("called %s, want %s", got, turn.want)
		}
		r.Step++
		r.Messages = append(r.Messages, resp.Message, glovebox.Message{Role: glovebox.RoleUser, Blocks: turn.results})
	}
	if _, err := m.Stream(t.Context(), r, nil); kindOf(err) != llm.KindExhausted {
		t.Errorf("after the last turn: %v", err)
	}
}

func TestNothingIsMadeAgainForEver(t *testing.T) {
	t.Parallel()
	s, err := Parse("again.replay", []byte("turn\ncall a\n\nturn\ntext end\n"))
	if err != nil {
		t.Fatal(err)
	}
	m := New(s, Options{})
	r := &llm.Request{Messages: []glovebox.Message{{Role: glovebox.RoleUser, Blocks: []glovebox.Block{glovebox.Text("task")}}}}
	for n := range maxAgain + 1 {
		resp, err := m.Stream(t.Context(), r, nil)
		if err != nil || len(resp.Message.ToolUses()) != 1 {
			t.Fatalf("time %d: %v %v", n, resp, err)
		}
		r.Step++
		r.Messages = append(r.Messages, resp.Message, glovebox.Message{Role: glovebox.RoleUser, Blocks: []glovebox.Block{toolResult(fmt.Sprint(glovebox.UnknownOutcome, n), true)}})
	}
	if resp, err := m.Stream(t.Context(), r, nil); err != nil || resp.Message.PlainText() != "end" {
		t.Errorf("%v, %v", resp, err)
	}
}
