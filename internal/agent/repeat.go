package agent

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"slices"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/memory"
	"github.com/glovebox-dev/glovebox/internal/tool"
)

// A call that comes to the same result is noticed after this many times, and
// after as many more the job is stopped.
const (
	repeatsNoticed = 3
	repeatsStopped = 6
)

// waitTool is the name of the tool that waits for a command in the background.
const waitTool = "shell_output"

// repeats counts calls that come to the same result without progress between
// them. Progress is a call with a result that was never there before: running
// the same tests after each of three different edits is none of a loop, going
// to and fro between two states is.
type repeats struct {
	seen  map[uint64]struct{} // pairs of call and result
	since map[uint64]int      // how often each came since the newest progress
	stuck string              // the name of the tool that was repeated too often
}

// repeatKey identifies a call with its result.
type repeatKey struct {
	name string
	hash uint64
}

// repeatKeyOf returns the key of a call and its result. Input counts as the
// value that it stands for, however it is written; of the result, what differs
// each time, such as how long it took, does not count. While a command in the
// background is waited for, time that passes does.
func repeatKeyOf(call glovebox.Block, f glovebox.ToolFinished) repeatKey {
	content := slices.Clone(f.Content)
	if call.Name != waitTool {
		for i := range content {
			content[i].Text = tool.Stable(content[i].Text)
		}
	}
	h := sha256.New()
	enc := json.NewEncoder(h) // each value ends with a newline
	for _, v := range []any{call.Name, canonical(call.Input), f.IsError, content} {
		_ = enc.Encode(v) // a hash takes everything
	}
	return repeatKey{name: call.Name, hash: binary.BigEndian.Uint64(h.Sum(nil))}
}

// interrupted reports whether f was recorded in place of a result that a Run
// took with it when it died, which is no fault of the model.
func interrupted(f glovebox.ToolFinished) bool {
	return f.Unknown && len(f.Content) == 1 && f.Content[0].Text == memory.UnknownOutcome
}

// canonical returns JSON with the keys of objects in order and without
// spaces; what is not JSON as it is.
func canonical(in json.RawMessage) json.RawMessage {
	dec := json.NewDecoder(bytes.NewReader(in))
	dec.UseNumber() // 1 and 1.0000000000000001 are two inputs
	var v any
	if dec.Decode(&v) != nil {
		b, _ := json.Marshal(string(in))
		return b
	}
	b, _ := json.Marshal(v)
	return b
}

// count returns how often k will have come, with this time, since the newest progress.
func (r *repeats) count(k repeatKey) int {
	if _, ok := r.seen[k.hash]; !ok {
		return 1
	}
	return r.since[k.hash] + 1
}

func (r *repeats) add(k repeatKey) {
	if _, ok := r.seen[k.hash]; !ok {
		if r.seen == nil {
			r.seen = map[uint64]struct{}{}
		}
		r.seen[k.hash] = struct{}{}
		r.since = map[uint64]int{}
	}
	r.since[k.hash]++
	if r.since[k.hash] >= repeatsStopped {
		r.stuck = k.name
	}
}
