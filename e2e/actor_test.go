package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm/llmtest"
)

// actor is a scripted model that knows how far it is: an answer is taken when
// the results of its calls are there, and given again until then.
type actor struct {
	step    int      // answers that were taken, with the newest
	asked   []string // ids of the newest calls
	answer  llmtest.Answer
	called  int // calls of tools
	repeats int // answers that had to be given again
	unknown int // calls with an unknown outcome
}

// turn returns the answer to a request, that of act where it is a new one.
func (a *actor) turn(s llmtest.Sent, act func(results []string) llmtest.Answer) llmtest.Answer {
	results, all := a.results(s.Last())
	if !all {
		a.repeats++
		return a.answer
	}
	a.step++
	a.answer = act(results)
	a.asked = nil
	for i := range a.answer.Blocks {
		if b := &a.answer.Blocks[i]; b.Type == glovebox.BlockToolUse {
			b.CallID = fmt.Sprintf("toolu_%04dx%d", a.step, i)
			a.asked = append(a.asked, b.CallID)
		}
	}
	a.called += len(a.asked)
	return a.answer
}

// results returns the results of the newest calls, in their order, and whether
// they are all there.
func (a *actor) results(m glovebox.Message) (list []string, all bool) {
	var there []glovebox.Block
	nameless := true // Gemini is not told the ids of others
	for _, b := range m.Blocks {
		if b.Type == glovebox.BlockToolResult {
			there = append(there, b)
			nameless = nameless && b.CallID == ""
		}
	}
	for n, id := range a.asked {
		i := slices.IndexFunc(there, func(b glovebox.Block) bool { return b.CallID == id })
		if i < 0 && nameless && len(there) == len(a.asked) {
			i = n
		}
		if i < 0 {
			return nil, false
		}
		text := llmtest.Text(glovebox.Message{Blocks: there[i].Content})
		if strings.Contains(text, glovebox.UnknownOutcome) {
			a.unknown++
		}
		list = append(list, text)
	}
	return list, true
}

// do returns an answer with a thought, a few words and calls.
func (a *actor) do(text string, calls ...glovebox.Block) llmtest.Answer {
	return llmtest.Answer{Blocks: append([]glovebox.Block{
		{Type: glovebox.BlockReasoning, Text: fmt.Sprintf("Step %d: what comes next follows from the plan.", a.step)}, glovebox.Text(text)}, calls...)}
}

// finish returns the last answer of a job.
func (a *actor) finish() llmtest.Answer {
	return a.do("That is all.", call("finish", obj{"summary": "It is done.", "how_to_run": "true", "proofs": []string{"test -d /workspace"}}))
}

type obj = map[string]any

func call(name string, input obj) glovebox.Block {
	raw, err := json.Marshal(input)
	if err != nil {
		panic(err)
	}
	return glovebox.Block{Type: glovebox.BlockToolUse, Name: name, Input: raw}
}
