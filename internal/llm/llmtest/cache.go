package llmtest

import (
	"hash/maphash"

	"github.com/glovebox-dev/glovebox"
)

// What is known of the providers' caches.
const (
	lookback  = 20   // blocks before a breakpoint in which Anthropic looks for what it has
	minCached = 1024 // tokens of the shortest prefix that is kept
)

// cache plays the cache of a provider: it never forgets. Anthropic's keeps
// what is before a breakpoint, the others' the longest prefix.
type cache struct {
	seed maphash.Seed
	kept map[uint64]bool
}

func newCache() *cache { return &cache{seed: maphash.MakeSeed(), kept: map[uint64]bool{}} }

// use returns what reading the request costs, and keeps it.
func (c *cache) use(api API, model string, list []piece) glovebox.Usage {
	var h maphash.Hash
	h.SetSeed(c.seed)
	h.WriteString(model)
	sums := make([]uint64, len(list))   // of the prefixes
	lengths := make([]int64, len(list)) // of the prefixes, in tokens
	total, last := int64(0), -1
	for i, p := range list {
		h.WriteString(p.text)
		h.WriteByte(0)
		total += p.tokens
		sums[i], lengths[i] = h.Sum64(), total
		if p.mark || api != Anthropic {
			last = i
		}
	}
	hit := c.hit(api, list, sums)
	for i, p := range list {
		if (p.mark || api != Anthropic) && lengths[i] >= minCached {
			c.kept[sums[i]] = true
		}
	}
	var u glovebox.Usage
	if hit >= 0 {
		u.CacheRead = lengths[hit]
	}
	u.Input = total - u.CacheRead
	if api == Anthropic && last > hit && lengths[last] >= minCached {
		u.CacheWrite = lengths[last] - u.CacheRead
		u.Input -= u.CacheWrite
	}
	return u
}

// hit returns the last block of the longest prefix that is kept and is looked for.
func (c *cache) hit(api API, list []piece, sums []uint64) int {
	left := 0 // blocks yet to look at behind the breakpoint
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].mark || api != Anthropic {
			left = lookback
		}
		if left > 0 && c.kept[sums[i]] {
			return i
		}
		left--
	}
	return -1
}
