package memory

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
)

// sum is a SHA-256.
type sum = [sha256.Size]byte

// Digest returns the SHA-256 of a request in our own encoding, in hex: of the
// sum of the head, the sum of each message and what is particular to the
// call, each in JSON. MaxOutput is part of it; Step and Attempt are not.
// Sums of messages that don't change are not made anew by [Builder.Digest].
func Digest(r *llm.Request) string {
	sums := make([]sum, len(r.Messages))
	for i, m := range r.Messages {
		sums[i] = messageSum(m)
	}
	return digest(r, headSum(r), sums)
}

// Digest returns the same as the function Digest, for a request that b
// returned since the last event, in time that grows with its newest message alone.
func (b *Builder) Digest(r *llm.Request) string {
	b.catchUp(true)
	if b.head == (sum{}) {
		b.head = headSum(r)
	}
	c := b.settle()
	sums := make([]sum, len(r.Messages))
	for i, m := range r.Messages {
		if i >= len(c.turns) {
			sums[i] = messageSum(m)
			continue
		}
		if c.turns[i].sum == (sum{}) {
			c.turns[i].sum = messageSum(c.turns[i].msg)
		}
		sums[i] = c.turns[i].sum
	}
	return digest(r, b.head, sums)
}

func digest(r *llm.Request, head sum, messages []sum) string {
	h := sha256.New()
	h.Write(head[:])
	for _, m := range messages {
		h.Write(m[:])
	}
	h.Write(encode(struct {
		MaxOutput  int64           `json:"max_output"`
		CacheMarks []llm.CacheMark `json:"cache_marks"`
	}{r.MaxOutput, r.CacheMarks}))
	return hex.EncodeToString(h.Sum(nil))
}

func headSum(r *llm.Request) sum {
	return sha256.Sum256(encode(struct {
		System   string         `json:"system"`
		Tools    []llm.ToolSpec `json:"tools"`
		CacheKey string         `json:"cache_key"`
	}{r.System, r.Tools, r.CacheKey}))
}

func messageSum(m glovebox.Message) sum { return sha256.Sum256(encode(m)) }

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		// All raw JSON in a request was decoded from an event or is a
		// schema made from a Go type.
		panic("memory: encode request: " + err.Error())
	}
	return b
}
