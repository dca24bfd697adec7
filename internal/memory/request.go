package memory

import (
	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
)

// lookback is how many blocks of growth a cache mark may be away from the one
// before. Providers look back twenty.
const lookback = 15

// Request returns the request that the events so far lead to, with the given
// bound on the answer in tokens. Images are references to blobs. The caller
// must not change it; later events don't change it either.
func (b *Builder) Request(maxOutput int64) *llm.Request {
	b.catchUp(true)
	c := b.settle()
	msgs := make([]glovebox.Message, 0, len(c.turns)+1)
	for i := range c.turns {
		msgs = append(msgs, c.turns[i].msg)
	}
	msgs = append(msgs, c.open.turn().msg)
	return &llm.Request{
		System:     b.system,
		Tools:      b.o.Tools,
		Messages:   msgs,
		MaxOutput:  maxOutput,
		CacheKey:   b.created.ID,
		CacheMarks: b.cacheMarks(msgs),
	}
}

// cacheMarks marks the end of the request, and the end of the request before,
// which is where the provider's cache was written last; and the message
// between the two where they are far apart, else what the next fold leaves of
// the first message: it is written once, and found when an epoch begins.
func (b *Builder) cacheMarks(msgs []glovebox.Message) []llm.CacheMark {
	n := len(msgs)
	end := func(i int) llm.CacheMark { return llm.CacheMark{Message: i} }
	if n >= 3 && len(msgs[n-1].Blocks)+len(msgs[n-2].Blocks) > lookback {
		return []llm.CacheMark{end(n - 3), end(n - 2), end(n - 1)}
	}
	var marks []llm.CacheMark
	first := len(msgs[0].Blocks)
	if b.rested && b.opening.task < min(b.opening.lasting, first) { // nothing of the epoch is in the cache
		marks = append(marks, llm.CacheMark{Blocks: b.opening.task})
	}
	if b.opening.lasting < first {
		marks = append(marks, llm.CacheMark{Blocks: b.opening.lasting})
	}
	if n >= 3 && !b.rested {
		marks = append(marks, end(n-3))
	}
	return append(marks, end(n-1))
}
