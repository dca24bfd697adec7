package replay

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
)

// maxAgain is how often in a row calls of one turn are made again. A call
// that never gets a result would otherwise take all the steps of its job.
const maxAgain = 5

// progress is how far a job has come in a script, as its request tells.
type progress struct {
	repeats int      // answers that made calls of a turn again
	again   []int    // calls of the newest turn, from 0, that have to be made again
	results []result // of the newest turn, whichever answer called them
	message string   // the user's words since the newest answer
}

// follow reads a request from its beginning. What the model called and the
// worker then died over has an unknown outcome. A model of flesh would look
// and then call it again; a script, which can't look, calls it again.
func follow(r *llm.Request) progress {
	var p progress
	row := 0
	calls, open := []int(nil), false // of the newest answer: their numbers in its turn
	for _, m := range r.Messages {
		if m.Role == glovebox.RoleAssistant {
			n := len(m.ToolUses())
			if len(p.again) > 0 && len(p.again) == n {
				p.repeats++
				row++
				calls = p.again
			} else {
				row, calls, p.results = 0, nil, nil
			}
			p.again, p.message, open = nil, "", true
			continue
		}
		p.read(m, calls, open && row < maxAgain)
		open = false
	}
	return p
}

// read takes in what follows an answer: results, in the order of its calls,
// and words. calls are the numbers of the calls if they are made again.
func (p *progress) read(m glovebox.Message, calls []int, mayAgain bool) {
	var said []string
	n := 0
	for _, b := range m.Blocks {
		switch b.Type {
		case glovebox.BlockToolResult:
			got := result{glovebox.Message{Blocks: b.Content}.PlainText(), b.IsError}
			k := len(p.results)
			if n < len(calls) {
				k = calls[n]
				p.results[k] = got
			} else {
				p.results = append(p.results, got)
			}
			unknown := strings.HasPrefix(got.text, glovebox.UnknownOutcome)
			if mayAgain && (unknown || got.isError && len(p.again) > 0) { // it may have failed for want of the one before
				p.again = append(p.again, k)
			}
			n++
		case glovebox.BlockText:
			said = append(said, b.Text)
		}
	}
	p.message = strings.Join(said, "\n")
}

// Index returns the turn that r asks for, from 0; the turn before it, if
// calls of that one have to be made again.
func Index(r *llm.Request) int {
	n := int64(0)
	for _, m := range r.Messages {
		if m.Role == glovebox.RoleAssistant {
			n++
		}
	}
	p := follow(r)
	n = max(n, r.Step) - int64(p.repeats)
	if len(p.again) > 0 {
		n--
	}
	return int(min(max(n, 0), MaxTurns))
}

// again makes calls of a turn again, under other ids.
func (m *Model) again(ctx context.Context, t *Turn, n int, which []int, r *llm.Request, delta func(glovebox.ModelDelta)) (*llm.Response, error) {
	uses := t.message(n).ToolUses()
	part := Turn{Line: t.Line, Delay: t.Delay, Blocks: []glovebox.Block{glovebox.Text("I don't know what came of that, so I do it again.")}}
	for _, k := range which {
		if k >= len(uses) {
			return nil, &llm.Error{Kind: llm.KindInvalid, Msg: fmt.Sprintf("turn %d has no call %d to make again: the request is not of this script", n+1, k+1)}
		}
		use := uses[k]
		use.CallID = fmt.Sprintf("%s_at%d", use.CallID, len(r.Messages))
		part.Blocks = append(part.Blocks, use)
	}
	first, err := m.play(ctx, &part, -1, time.Now(), delta)
	if err != nil {
		return nil, err
	}
	resp := &llm.Response{Message: glovebox.Message{Role: glovebox.RoleAssistant, Blocks: part.Blocks}, StopReason: llm.StopToolUse, First: first}
	resp.Usage = usageOf(t, r, resp.Message)
	resp.Usage.Calls, resp.Usage.CostMicros = 1, m.script.Info().Cost(resp.Usage)
	return resp, nil
}
