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
func (b *Builder) estimate() int64 { return b.fixed + b.frozen + b.open.turn().tokens }

// Tokens returns how many tokens the model will read with the next request,
// rather too many than too few: what the provider counted for the newest
// answered request, where it did, and an upper estimate of what came since.
func (b *Builder) Tokens() int64 {
	now := b.estimate()
	switch {
	case b.counted == 0:
		return now
	case now >= b.countedAs:
		return b.counted + (now - b.countedAs)
	}
	return min(now, b.scale(now)*11/10) // trimmed since: what remains may be denser
}

// scale converts estimated tokens to the provider's, by the newest answered request.
func (b *Builder) scale(n int64) int64 {
	if b.counted == 0 || b.counted >= b.countedAs {
		return n
	}
	return n * b.counted / b.countedAs
}
