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
		CacheMarks: cacheMarks(msgs),
	}
}

// cacheMarks marks the end of the request, and the end of the request before,
// which is where the provider's cache was written last; and the message
// between the two where they are far apart, else the epoch's first message.
func cacheMarks(msgs []glovebox.Message) []int {
	n := len(msgs)
	switch {
	case n < 3:
		return []int{n - 1}
	case len(msgs[n-1].Blocks)+len(msgs[n-2].Blocks) > lookback:
		return []int{n - 3, n - 2, n - 1}
	case n > 3:
		return []int{0, n - 3, n - 1}
	}
	return []int{n - 3, n - 1}
}
