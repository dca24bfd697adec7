package replay

import (
	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
)

// usageOf returns the tokens that t took as the script says or, where it does
// not, an estimate. The same request gets the same one.
func usageOf(t *Turn, r *llm.Request, answer glovebox.Message) glovebox.Usage {
	if t.Usage != (glovebox.Usage{}) {
		return t.Usage
	}
	head := llm.TokensOf(r.System)
	for _, s := range r.Tools {
		head += llm.TokensOf(s.Name) + llm.TokensOf(s.Description) + llm.TokensOf(string(s.Schema))
	}
	u := glovebox.Usage{Input: head}
	for _, m := range r.Messages {
		n := tokensOf(m)
		if m.Role == glovebox.RoleAssistant { // what it answered to was read before
			u.CacheRead, u.Input = u.CacheRead+u.Input+n, 0
		} else {
			u.Input += n
		}
	}
	u.Output = tokensOf(answer)
	if r.MaxOutput > 0 {
		u.Output = min(u.Output, r.MaxOutput)
	}
	return u
}

// tokensOf returns about how many tokens m has.
func tokensOf(m glovebox.Message) int64 {
	var n int64
	for _, b := range m.Blocks {
		switch b.Type {
		case glovebox.BlockImage:
			n += llm.BoundBlock(b)
		case glovebox.BlockToolUse:
			n += llm.TokensOf(b.Name) + llm.TokensOf(string(b.Input))
		case glovebox.BlockToolResult:
			n += tokensOf(glovebox.Message{Blocks: b.Content})
		default:
			n += llm.TokensOf(b.Text)
		}
	}
	return n
}
