package memory

import (
	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
)

// frame is what an empty request counts.
var frame = llm.EstimateTokens(&llm.Request{})

// messageTokens returns what a message adds to a request, at most.
func messageTokens(m glovebox.Message) int64 {
	return llm.EstimateTokens(&llm.Request{Messages: []glovebox.Message{m}}) - frame
}

// estimate returns what llm.EstimateTokens does for the whole request,
// without regard to what the provider counted.
func (c *conversation) estimate() int64 {
	return c.b.rules + c.frozen.tokens + c.open.turn().size.tokens
}

// size returns what the messages weigh.
func (c *conversation) size() turnSize { return c.frozen.plus(c.open.turn().size) }

// tokens returns how many tokens the model will read with the next request.
func (c *conversation) tokens() int64 {
	now := c.estimate()
	switch {
	case c.counted == 0:
		return now
	case now >= c.countedAs:
		return c.counted + (now - c.countedAs)
	}
	return int64(float64(now) * float64(c.counted) / float64(c.countedAs))
}

// leastShare is the least part of an estimate that is taken for a count, one
// in so many: a provider that counts less does not count all.
const leastShare = 5

// scale converts estimated tokens to those that [Builder.Tokens] counts.
func (c *conversation) scale(n int64) int64 {
	return int64(float64(n) * float64(c.tokens()) / float64(max(c.estimate(), 1)))
}

// unscale is the opposite of scale.
func (c *conversation) unscale(n int64) int64 {
	return int64(float64(n) * float64(c.estimate()) / float64(max(c.tokens(), 1)))
}

// Tokens returns how many tokens the model will read with the next request,
// rather too many than too few: what the provider counted for the newest
// answered request of the epoch, where it did, and an upper estimate of what
// came since.
func (b *Builder) Tokens() int64 { return b.settle().tokens() }
