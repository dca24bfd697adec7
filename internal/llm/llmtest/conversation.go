package llmtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/glovebox-dev/glovebox"
)

// Conversation checks the successive requests of one job beyond what [Check]
// sees of each:
//
//   - a request is the newest one with more at its end, or begins an epoch. A
//     request for something beside the conversation, such as summaries, shares
//     the prefix and asks with text of the user's at its end: what comes next,
//     or came meanwhile, may be the conversation without it
//   - the first request of an epoch has no reasoning in it: all that there is
//     was given before. Another model begins an epoch
//   - Gemini: the signature of a part goes back to the model that made it alone.
//     It may do so in a later epoch
//   - within an epoch the reasoning of an answer comes back whole, in order and
//     with that answer, and no other does
//   - Anthropic: what the request before wrote to the cache is found, and there
//     is a breakpoint at least every 15 blocks of growth while there are any left
//
// It also plays the provider's cache. It is for one goroutine.
type Conversation struct {
	api    API
	recent []*heard // the newest requests of this epoch, in order
	epochs int
	told   bool              // Answered was called: the answers are known
	bare   bool              // the next request may leave reasoning out, and begin an epoch with that
	signed map[string]string // Gemini: whose signature is on a part
	cache  *cache
	usage  glovebox.Usage
}

// heard is a request and what was answered to it.
type heard struct {
	model   string
	list    []piece
	answers [][]string // the reasoning of each answer that it got
}

// NewConversation returns the check of a job whose requests are in the format api.
func NewConversation(api API) *Conversation {
	return &Conversation{api: api, signed: map[string]string{}, cache: newCache()}
}

// maxRecent is how many requests of an epoch are kept: as many may be made
// beside the conversation in a row, or while one that is beside it is on its way.
const maxRecent = 6

// Request returns an error about the first rule that the next request breaks.
// A request that breaks one, or that the provider is going to refuse, is not
// to be told: it is as if it had not been. The model is that of the address
// where the body does not name it.
func (c *Conversation) Request(model string, body []byte) (glovebox.Usage, error) {
	if err := Check(c.api, body); err != nil {
		return glovebox.Usage{}, err
	}
	list, err := pieces(c.api, body)
	if err != nil {
		return glovebox.Usage{}, err
	}
	return c.request(&heard{model: modelOf(model, body), list: list})
}

// request is Request for one that was checked.
func (c *Conversation) request(r *heard) (glovebox.Usage, error) {
	base := c.base(r)
	if err := c.allowed(base, r); err != nil {
		return glovebox.Usage{}, err
	}
	c.bare = false
	if base == nil {
		c.recent, c.epochs = nil, c.epochs+1
	} else if len(base.list) == len(r.list) { // once more
		r.answers = base.answers
		c.recent = slices.DeleteFunc(c.recent, func(h *heard) bool { return h == base })
	}
	c.recent = append(c.recent, r)
	c.recent = c.recent[max(0, len(c.recent)-maxRecent):]
	return c.read(r), nil
}

// read returns what it costs to read r.
func (c *Conversation) read(r *heard) glovebox.Usage {
	u := c.cache.use(c.api, r.model, r.list)
	u.Calls = 1
	c.usage = c.usage.Add(u)
	return u
}

// Answered tells what the newest request was answered with. Where it is
// called at all it has to be called for each answer.
func (c *Conversation) Answered(a Answer) {
	if last := c.newest(); last != nil {
		last.answers = append(last.answers, reasoningIn(c.api, a))
		c.told = true
	}
}

// newest returns the newest request of this epoch, nil if there is none.
func (c *Conversation) newest() *heard {
	if len(c.recent) == 0 {
		return nil
	}
	return c.recent[len(c.recent)-1]
}

// Epochs returns how many stretches there were in which requests only grew.
func (c *Conversation) Epochs() int { return c.epochs }

// Usage returns what all requests cost, by the cache that is played.
func (c *Conversation) Usage() glovebox.Usage { return c.usage }

// base returns the request of this epoch that r goes on from, nil if r begins
// another epoch. Where r departs from a request that came later, one of the
// two is beside the conversation: from there on it has only text of the user's.
func (c *Conversation) base(r *heard) *heard {
	if last := c.newest(); last == nil || last.model != r.model || c.bare && !reasons(r.list) {
		return nil
	}
	found := -1
	for i, h := range c.recent {
		if prefixed(r.list, h.list) && (found < 0 || len(h.list) >= len(c.recent[found].list)) {
			found = i
		}
	}
	if found < 0 {
		return nil
	}
	switch more := r.list[len(c.recent[found].list):]; {
	case slices.IndexFunc(more, speaks) > 0:
		return nil // the answer is to something else: another epoch began alike
	case answers(more) > 1 && !reasons(more):
		return nil // a model of another provider has answered meanwhile, and this one begins an epoch
	}
	for _, h := range c.recent[found+1:] {
		if n := common(r.list, h.list); n == len(r.list) && n < len(h.list) && !asks(h.list[n:]) || !asks(r.list[n:]) && !asks(h.list[n:]) {
			return nil
		}
	}
	return c.recent[found]
}

// asks reports whether list is nothing but text of the user's.
func asks(list []piece) bool {
	return !slices.ContainsFunc(list, func(p piece) bool { return p.place != "user" || p.result })
}

// allowed returns an error if r may not follow the request base.
func (c *Conversation) allowed(base, r *heard) error {
	if base == nil {
		for i, p := range r.list {
			if p.reasoning != "" && c.epochs > 0 && !c.returns(p, r.model) {
				return fmt.Errorf("block %d is reasoning of an earlier epoch: %.200s%s", i, p.text, c.difference(r))
			}
			if p.reasoning != "" && c.api == Gemini {
				c.signed[p.text] = r.model // it may come again
			}
		}
		return nil
	}
	var got []string
	for _, p := range r.list[len(base.list):] {
		if p.reasoning != "" {
			got = append(got, p.reasoning)
			if c.api == Gemini {
				c.signed[p.text] = r.model
			}
		}
	}
	known := c.told && spoke(r.list[len(base.list):]) && (len(got) > 0 || !c.bare)
	if known && !slices.ContainsFunc(base.answers, func(want []string) bool { return slices.Equal(got, want) }) {
		return fmt.Errorf("reasoning does not come back as it came: %q, of the answers %q", got, base.answers)
	}
	err := marked(c.api, base.list, r.list)
	if err != nil && asks(r.list[len(base.list):]) {
		// Beside the conversation: what it goes on from may not be in the cache yet.
		for _, h := range c.recent {
			if len(h.list) < len(base.list) && prefixed(base.list, h.list) && marked(c.api, h.list, r.list) == nil {
				return nil
			}
		}
	}
	return err
}

// returns reports whether p, in the first request of an epoch, has a signature
// that goes back to the model that made it. Only Gemini's may.
func (c *Conversation) returns(p piece, model string) bool {
	return c.api == Gemini && (c.signed[p.text] == model || slices.ContainsFunc(c.recent, func(h *heard) bool {
		return h.model == model && slices.ContainsFunc(h.answers, func(a []string) bool { return slices.Contains(a, p.reasoning) })
	}))
}

// difference says where r departs from the newest request.
func (c *Conversation) difference(r *heard) string {
	last := c.newest()
	if last == nil {
		return ""
	}
	n := common(r.list, last.list)
	if last.model != r.model || n >= len(r.list) || n >= len(last.list) {
		return fmt.Sprintf(" (the model was %s and is %s; %d of %d blocks are as they were)", last.model, r.model, n, len(last.list))
	}
	return fmt.Sprintf(" (block %d of %d changed from %.200s to %.200s)", n, len(last.list), last.list[n].text, r.list[n].text)
}

// answers returns how many answers of the model are in list.
func answers(list []piece) int {
	n := 0
	for i, p := range list {
		if p.place == "assistant" && (i == 0 || list[i-1].place != "assistant") {
			n++
		}
	}
	return n
}

// spoke reports whether the model speaks in list.
func spoke(list []piece) bool { return slices.ContainsFunc(list, speaks) }

func speaks(p piece) bool { return p.place == "assistant" }

// reasons reports whether reasoning comes back in list.
func reasons(list []piece) bool {
	return slices.ContainsFunc(list, func(p piece) bool { return p.reasoning != "" })
}

// continues reports whether r is a request of this conversation with an answer
// and more at its end.
func (c *Conversation) continues(list []piece) bool {
	last := c.newest()
	return last != nil && prefixed(list, last.list) && spoke(list[len(last.list):])
}

// reasoningIn returns what a provider attaches to an answer and wants back.
func reasoningIn(api API, a Answer) []string {
	list := []string{}
	whole := 0 // up to the last that led to something
	called := false
	for _, b := range a.Blocks {
		switch {
		case b.Type == glovebox.BlockReasoning && b.Name == "redacted" && api == Anthropic:
			list = append(list, encode(sign(api, "redacted")))
		case b.Type == glovebox.BlockReasoning && (api == Anthropic || api == OpenAI):
			list = append(list, encode(sign(api, b.Text)))
		case b.Type == glovebox.BlockToolUse && api == Gemini && !called:
			list, called = append(list, encode(sign(api, b.Name))), true
		case b.Type == glovebox.BlockText && api == Gemini && !called && signedText(b.Text):
			list = append(list, encode(sign(api, "")))
		}
		if b.Type != glovebox.BlockReasoning {
			whole = len(list)
		}
	}
	if api == OpenAI {
		list = list[:whole]
	}
	if len(list) == 0 {
		return nil
	}
	return list
}

// modelOf returns the model of a request.
func modelOf(model string, body []byte) string {
	var q struct{ Model string }
	if json.Unmarshal(body, &q) == nil && q.Model != "" {
		return q.Model
	}
	return model
}

// errKey is the complaint about a job whose key of the cache changes.
var errKey = errors.New("the job goes on under another prompt_cache_key")
