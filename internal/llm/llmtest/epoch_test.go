package llmtest_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/glovebox-dev/glovebox"
	. "github.com/glovebox-dev/glovebox/internal/llm/llmtest"
)

// TestEpochsUnseen has epochs begin that a provider could take for growth: all
// that it was sent before is in their first request, without the reasoning.
func TestEpochsUnseen(t *testing.T) {
	t.Parallel()
	elsewhere := &glovebox.Message{Role: glovebox.RoleAssistant, Blocks: []glovebox.Block{
		{Type: glovebox.BlockToolUse, CallID: "call_elsewhere", Name: "shell", Input: json.RawMessage(`{"command":"pwd"}`)}}}
	for name, begin := range map[string]func(k *talk){
		"the head is longer, with an answer of another provider": func(k *talk) {
			k.r.Messages[0].Blocks = append(k.r.Messages[0].Blocks, glovebox.Text("What happened before: much."))
			k.add(elsewhere)
		},
		"another provider has answered, too": func(k *talk) {
			k.add(k.ask())
			k.bare()
			k.add(elsewhere)
		},
		"no more is folded than before": func(k *talk) {
			k.add(k.ask())
			k.bare()
			k.server.Fold()
		},
	} {
		for _, api := range []API{Anthropic, OpenAI, Gemini} {
			t.Run(name+" "+string(api), func(t *testing.T) {
				t.Parallel()
				k, p := newTalk(t, api)
				k.ask()
				begin(k)
				k.add(k.ask())
				k.ask()
				if got := k.server.Tally().Epochs; got != 2 || len(p.list) > 0 {
					t.Errorf("%d epochs, want 2: %q", got, p.list)
				}
			})
		}
	}
}

// bare takes what the provider attached to them off the answers.
func (k *talk) bare() {
	k.r.Messages = slices.Clone(k.r.Messages)
	for i, m := range k.r.Messages {
		var blocks []glovebox.Block
		for _, b := range m.Blocks {
			b.Provider, b.Opaque = "", nil
			if b.Type != glovebox.BlockReasoning {
				blocks = append(blocks, b)
			}
		}
		k.r.Messages[i].Blocks = blocks
	}
}
