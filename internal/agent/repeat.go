package agent

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"

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
	return keyOf(call, sumOf(f))
}

// sum is a SHA-256.
type sum = [sha256.Size]byte

func keyOf(call glovebox.Block, result sum) repeatKey {
	input := canonical(call.Input)
	b := make([]byte, 0, len(call.Name)+len(input)+len(result)+16)
	b = appendString(b, call.Name)
	b = appendString(b, string(input))
	all := sha256.Sum256(append(b, result[:]...))
	return repeatKey{name: call.Name, hash: binary.BigEndian.Uint64(all[:])}
}

// sumOf returns what of a result counts for a repetition.
func sumOf(f glovebox.ToolFinished) sum {
	var b []byte
	if f.IsError {
		b = append(b, 1)
	}
	for _, c := range f.Content {
		text := c.Text
		if f.Name != waitTool {
			text = tool.Stable(text)
		}
		for _, s := range []string{string(c.Type), text, c.MediaType, c.Blob, string(c.Data)} {
			b = appendString(b, s)
		}
	}
	return sha256.Sum256(b)
}

// appendString appends s so that what follows can't be taken for a part of it.
func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
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
