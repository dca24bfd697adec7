package replay

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
)

// Options say how a script is played.
type Options struct {
	// Pace stretches the delays of the script: 1 plays them as written, 0.5 in
	// half the time, 0 (the default) leaves them out.
	Pace float64
}

// Model plays a script. It holds no state: the same request gets the same
// answer, from any number of jobs at once.
type Model struct {
	script *Script
	opt    Options
}

var _ llm.Model = (*Model)(nil)

// New returns a model that plays s. s must not change any more.
func New(s *Script, opt Options) *Model { return &Model{script: s, opt: opt} }

// Stream gives the turn that r asks for.
func (m *Model) Stream(ctx context.Context, r *llm.Request, delta func(glovebox.ModelDelta)) (*llm.Response, error) {
	start := time.Now()
	if err := ctx.Err(); err != nil {
		return nil, cancelled(err)
	}
	n := Index(r)
	if n >= len(m.script.Turns) {
		return nil, &llm.Error{Kind: llm.KindExhausted, Msg: fmt.Sprintf("%s has %d turns and the job asks for turn %d: it went on longer than the recording",
			filepath.Base(m.script.Name), len(m.script.Turns), n+1)}
	}
	t := &m.script.Turns[n]
	if again := follow(r).again; len(again) > 0 {
		return m.again(ctx, t, n, again, r, delta)
	}
	if err := m.check(t, r); err != nil {
		return nil, err
	}
	if f := failureOf(t, r.Attempt); f != nil {
		return nil, m.fail(ctx, t, f, delta)
	}
	resp := &llm.Response{Message: t.message(n), StopReason: t.Stop}
	resp.Usage = usageOf(t, r, resp.Message)
	var err error
	if resp.First, err = m.play(ctx, t, -1, start, delta); err != nil {
		return nil, err
	}
	resp.Usage.Calls = 1
	if resp.Usage.CostMicros == 0 {
		resp.Usage.CostMicros = m.script.Info().Cost(resp.Usage)
	}
	if resp.StopReason == "" {
		resp.StopReason = llm.StopEnd
		if len(resp.Message.ToolUses()) > 0 {
			resp.StopReason = llm.StopToolUse
		}
	}
	return resp, nil
}

// message returns t, which is turn n of its script, as an answer.
func (t *Turn) message(n int) glovebox.Message {
	msg := glovebox.Message{Role: glovebox.RoleAssistant, Blocks: slices.Clone(t.Blocks)}
	calls := 0
	for i := range msg.Blocks {
		b := &msg.Blocks[i]
		if b.Type != glovebox.BlockToolUse {
			continue
		}
		calls++
		if b.CallID == "" {
			b.CallID = fmt.Sprintf("call_%d_%d", n+1, calls)
		}
		b.Input = slices.Clone(b.Input)
	}
	return msg
}

// failureOf returns the failure that an attempt of t meets, or nil.
func failureOf(t *Turn, attempt int64) *Failure {
	left := max(attempt, 1)
	for i := range t.Fail {
		left -= int64(t.Fail[i].Times)
		if left <= 0 {
			return &t.Fail[i]
		}
	}
	if len(t.Blocks) == 0 {
		return &t.Fail[len(t.Fail)-1]
	}
	return nil
}

func (m *Model) fail(ctx context.Context, t *Turn, f *Failure, delta func(glovebox.ModelDelta)) error {
	if f.Pieces > 0 {
		if _, err := m.play(ctx, t, f.Pieces, time.Now(), delta); err != nil {
			return err
		}
	}
	e := &llm.Error{Kind: f.Kind, Status: f.Status, Msg: f.Message, RetryAfter: f.RetryAfter}
	if e.Msg == "" {
		e.Msg = fmt.Sprintf("%s:%d: as written", filepath.Base(m.script.Name), t.Line)
	}
	if f.Pieces > 0 {
		e.Usage = t.Usage
	}
	return e
}

func cancelled(err error) error {
	return &llm.Error{Kind: llm.KindCancelled, Msg: err.Error(), Err: err}
}

// play gives the first pieces of t (all if most is negative) to delta and
// returns when the first one came.
func (m *Model) play(ctx context.Context, t *Turn, most int, start time.Time, delta func(glovebox.ModelDelta)) (time.Duration, error) {
	pieces := piecesOf(t)
	if most >= 0 && most < len(pieces) {
		pieces = pieces[:most]
	}
	wait := time.Duration(float64(t.Delay) * max(0, m.opt.Pace) / float64(len(pieces)+1))
	var first time.Duration
	for i, p := range pieces {
		if err := sleep(ctx, wait); err != nil {
			return 0, cancelled(err)
		}
		if i == 0 {
			first = time.Since(start)
		}
		if delta != nil {
			delta(p)
		}
	}
	if err := sleep(ctx, wait); err != nil {
		return 0, cancelled(err)
	}
	return first, nil
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// maxPieces bounds the pieces of one block, so that a large file is not
// thousands of them.
const maxPieces = 200

// piecesOf cuts the blocks of t into what a live model would send.
func piecesOf(t *Turn) []glovebox.ModelDelta {
	var list []glovebox.ModelDelta
	for _, b := range t.Blocks {
		text := b.Text
		if b.Type == glovebox.BlockToolUse {
			text = string(b.Input)
		}
		name := b.Name
		for _, s := range cut(text) {
			list = append(list, glovebox.ModelDelta{Type: b.Type, Text: s, Name: name})
			name = ""
		}
	}
	return list
}

// cut cuts s between characters into pieces of about 24 bytes, of more if
// they would be too many. There is always one.
func cut(s string) []string {
	size := max(24, len(s)/maxPieces)
	list := make([]string, 0, len(s)/size+1)
	start := 0
	for i := range s {
		if i-start >= size {
			list = append(list, s[start:i])
			start = i
		}
	}
	return append(list, s[start:])
}
