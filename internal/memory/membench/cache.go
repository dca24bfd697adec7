package membench

import (
	"hash/maphash"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
)

// What the provider's cache keeps to. These are Anthropic's rules, which are
// the strictest of the providers'.
const (
	cacheLookback = 20   // positions that are tried at a breakpoint, itself included
	cacheMinimum  = 1024 // tokens that a prefix must have to be kept
)

// Prices, in tokens of uncached input.
const (
	priceRead   = 0.1
	priceWrite  = 1.25
	priceOutput = 5
)

// block is a block of a request as a cache sees it: what it is, and how long.
// Two blocks are the same if and only if their ids are.
type block struct {
	id     uint64
	tokens int64
}

// seed is one for the whole process, so that ids can be compared.
var seed = maphash.MakeSeed()

// cache simulates the provider's cache of prompts for one job, strictly: what
// is kept are prefixes that end at a breakpoint, whole blocks, and they are
// found only at a breakpoint of a later request or up to cacheLookback
// positions before one. Nothing expires.
type cache struct {
	kept   map[uint64]struct{}            // by the chain of ids
	models map[string]map[uint64]struct{} // kept, of each model that the job has had; nil if it has one
	prices llm.Info                       // of the model that is asked; zero where they are of no interest

	blocks []block  // of the newest request
	chain  []uint64 // at each, of it and all before
	sum    []int64  // at each, tokens of it and all before
	last   int64    // tokens that the newest request of the conversation itself left in the cache

	total tally
}

// tally adds up what calls cost.
type tally struct {
	calls, side int64 // of the conversation itself, and beside it: for summaries
	breaks      int64 // calls that did not find all that the one before had left in the cache
	usage       glovebox.Usage
	micros      int64 // what usage cost where the cache has prices, in millionths of a US dollar
	sideOut     int64 // tokens that calls beside the conversation wrote
	peak        int64 // tokens of the longest request
}

func newCache() *cache { return &cache{kept: map[uint64]struct{}{}} }

// cost returns what was used, in tokens of uncached input.
func cost(u glovebox.Usage) float64 {
	return float64(u.Input) + priceRead*float64(u.CacheRead) + priceWrite*float64(u.CacheWrite) + priceOutput*float64(u.Output)
}

// share returns the part of all input that was read from the cache.
func (t *tally) share() float64 {
	all := t.usage.Input + t.usage.CacheRead + t.usage.CacheWrite
	if all == 0 {
		return 0
	}
	return float64(t.usage.CacheRead) / float64(all)
}

// call sends a request: blocks, of which the first stands for tools and rules,
// with breakpoints after the blocks that marks name, ascending. A call beside
// the conversation (a summary) has side set.
func (c *cache) call(blocks []block, marks []int, output int64, side bool) glovebox.Usage {
	c.follow(blocks)
	var read int64
	for _, m := range marks {
		for p := m; p >= 0 && p > m-cacheLookback; p-- {
			if c.sum[p] < cacheMinimum {
				break
			}
			if _, ok := c.kept[c.chain[p]]; ok {
				read = max(read, c.sum[p])
				break
			}
		}
	}
	through := read
	for _, m := range marks {
		if c.sum[m] >= cacheMinimum {
			c.kept[c.chain[m]] = struct{}{}
			through = max(through, c.sum[m])
		}
	}
	length := c.sum[len(c.sum)-1]
	u := glovebox.Usage{Input: length - through, CacheRead: read, CacheWrite: through - read, Output: output, Calls: 1}
	c.pay(u)
	c.total.peak = max(c.total.peak, length)
	if side {
		c.total.side++
		c.total.sideOut += output
		return u
	}
	c.total.calls++
	if read < c.last {
		c.total.breaks++
	}
	c.last = through
	return u
}

// follow brings chain and sum to a new request, from where it differs from the
// one before.
func (c *cache) follow(blocks []block) {
	same := 0
	for same < len(blocks) && same < len(c.blocks) && blocks[same] == c.blocks[same] {
		same++
	}
	c.blocks = append(c.blocks[:same], blocks[same:]...)
	c.chain, c.sum = c.chain[:same], c.sum[:same]
	var chain uint64
	var sum int64
	if same > 0 {
		chain, sum = c.chain[same-1], c.sum[same-1]
	}
	for _, b := range blocks[same:] {
		chain = mix(chain, b.id)
		sum += b.tokens
		c.chain, c.sum = append(c.chain, chain), append(c.sum, sum)
	}
}

// mix joins a chain and the next id, so that order matters.
func mix(chain, id uint64) uint64 {
	x := chain*0x9e3779b97f4a7c15 + id
	x ^= x >> 31
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 29
	return x*0x94d049bb133111eb + 1
}

// sizer makes blocks of what requests are made of, and remembers how long
// each is.
type sizer struct{ tokens map[uint64]int64 }

func newSizer() *sizer { return &sizer{tokens: map[uint64]int64{}} }

// frameTokens is what is counted for the frame of a block.
const frameTokens = 4

// imageTokens is what is counted for an image.
const imageTokens = 1500

// of returns a block of a message as the cache sees it.
func (s *sizer) of(role glovebox.Role, b *glovebox.Block) block {
	var h maphash.Hash
	h.SetSeed(seed)
	writeBlock(&h, role, b)
	id := h.Sum64()
	n, ok := s.tokens[id]
	if !ok {
		n = tokensOf(b)
		s.tokens[id] = n
	}
	return block{id: id, tokens: n}
}

func writeBlock(h *maphash.Hash, role glovebox.Role, b *glovebox.Block) {
	for _, s := range []string{string(role), string(b.Type), b.Text, b.MediaType, b.Blob, b.CallID, b.Name} {
		h.WriteString(s)
		h.WriteByte(0)
	}
	for _, raw := range [][]byte{b.Input, b.Opaque, b.Data} {
		h.Write(raw)
		h.WriteByte(0)
	}
	if b.IsError {
		h.WriteByte(1)
	}
	for i := range b.Content {
		writeBlock(h, role, &b.Content[i])
	}
}

// tokensOf returns about how many tokens a block has.
func tokensOf(b *glovebox.Block) int64 {
	n := int64(frameTokens) + llm.TokensOf(b.Text) + llm.TokensOf(b.Name) + llm.TokensOf(string(b.Input))
	if b.Type == glovebox.BlockImage {
		n += imageTokens
	}
	for i := range b.Content {
		n += tokensOf(&b.Content[i])
	}
	return n
}

// head returns the block that stands for tools and rules.
func (s *sizer) head(system string, tools []llm.ToolSpec) block {
	n := llm.TokensOf(system)
	var h maphash.Hash
	h.SetSeed(seed)
	h.WriteString(system)
	for _, t := range tools {
		h.WriteString(t.Name + "\x00" + t.Description + "\x00")
		h.Write(t.Schema)
		n += frameTokens + llm.TokensOf(t.Name) + llm.TokensOf(t.Description) + llm.TokensOf(string(t.Schema))
	}
	return block{id: h.Sum64(), tokens: n}
}

// request returns a request as the cache sees it, with its breakpoints: one
// after the head, and those that the request asks for.
func (s *sizer) request(head block, r *llm.Request) (blocks []block, marks []int) {
	blocks, marks = append(blocks, head), append(marks, 0)
	next := 0
	for i, m := range r.Messages {
		for j := range m.Blocks {
			blocks = append(blocks, s.of(m.Role, &m.Blocks[j]))
			for next < len(r.CacheMarks) && r.CacheMarks[next].Message == i && (j+1 == r.CacheMarks[next].Blocks || j+1 == len(m.Blocks)) {
				marks = append(marks, len(blocks)-1)
				next++
			}
		}
	}
	return blocks, marks
}
