package replay

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
)

// Recorder is a model that writes down what another one answers. It is safe
// for use by several goroutines, but a file should hold one job.
type Recorder struct {
	model llm.Model

	mu  sync.Mutex
	w   io.Writer
	err error
}

var _ llm.Model = (*Recorder)(nil)

// Record returns a model that passes calls to m and writes each answer to w
// as a turn, in one Write. Reasoning is written as text; what only its
// provider can read (signatures, encrypted reasoning, ids of calls) is left
// out. A call that fails is written as a comment. Whether the results that
// led to a turn were errors is written as expectations. A call that is
// [llm.Request.Aside] is passed on and not written.
func Record(m llm.Model, w io.Writer) *Recorder { return &Recorder{model: m, w: w} }

// Err returns the first error of writing. Answers are passed on nevertheless.
func (r *Recorder) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Stream calls the model and writes down how that ended.
func (r *Recorder) Stream(ctx context.Context, req *llm.Request, delta func(glovebox.ModelDelta)) (*llm.Response, error) {
	start := time.Now()
	resp, err := r.model.Stream(ctx, req, delta)
	if req.Aside { // a replay is never asked for it
		return resp, err
	}
	var b bytes.Buffer
	if err != nil {
		fmt.Fprintf(&b, "# turn %d failed: %s\n", Index(req)+1, oneLine(err.Error()))
	} else {
		t := turnOf(req, resp, time.Since(start))
		writeTurn(&b, &t)
		b.WriteByte('\n')
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		_, r.err = r.w.Write(b.Bytes())
	}
	return resp, err
}

// turnOf returns what is written of an answer.
func turnOf(req *llm.Request, resp *llm.Response, took time.Duration) Turn {
	t := Turn{Title: fmt.Sprint(Index(req) + 1), Expect: expectations(req), Usage: resp.Usage, Delay: took.Round(time.Millisecond)}
	t.Usage.Calls = 0
	calls := 0
	for _, b := range resp.Message.Blocks {
		switch b.Type {
		case glovebox.BlockText, glovebox.BlockReasoning:
			if b.Text != "" {
				t.Blocks = append(t.Blocks, glovebox.Block{Type: b.Type, Text: clean(b.Text)})
			}
		case glovebox.BlockToolUse:
			calls++
			t.Blocks = append(t.Blocks, glovebox.Block{Type: b.Type, Name: clean(tail(b.Name, MaxName-3)), Input: []byte(clean(string(b.Input)))})
		}
	}
	if len(t.Blocks) > MaxBlocks {
		t.Blocks = slices.Clip(t.Blocks[:MaxBlocks])
	}
	if len(t.Blocks) == 0 { // only things that its provider can read
		t.Blocks = []glovebox.Block{glovebox.Text("")}
	}
	natural := llm.StopEnd
	if calls > 0 {
		natural = llm.StopToolUse
	}
	if resp.StopReason != natural {
		t.Stop = resp.StopReason
	}
	return t
}

// expectations says which of the results in req were errors.
func expectations(req *llm.Request) []Expectation {
	results := follow(req).results
	if len(results) == 0 {
		return nil
	}
	var list []Expectation
	for i, r := range results {
		if r.isError && len(list) < MaxBlocks && i < MaxBlocks {
			list = append(list, Expectation{Of: i + 1, Op: OpError})
		}
	}
	if list == nil {
		list = []Expectation{{Op: OpOK}}
	}
	return list
}

func clean(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// oneLine returns s as the end of a comment.
func oneLine(s string) string {
	return clean(strings.NewReplacer("\r", " ", "\n", " ").Replace(tail(s, 500)))
}
