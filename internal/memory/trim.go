package memory

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
)

// Of a result that was trimmed, this much remains at either end.
const (
	edgeLines = 4
	edgeBytes = 320
)

// imageSize is what an image weighs against the bound of a trim, in bytes of
// text that take as much room.
const imageSize = 16 << 10

// Trim returns the event that brings the request down to target tokens, or as
// near as trimming results longer than over bytes can, and how many tokens it
// frees. The newest keep messages stay as they are. The builder does not
// change: the event has to be recorded, and applied like any other.
func (b *Builder) Trim(target, over int64, keep int) (t glovebox.Trimmed, freed int64) {
	t.Over = over
	now := b.Tokens()
	for i := 0; i < len(b.turns)-keep; i++ {
		for k, x := range b.turns[i].msg.Blocks {
			from := b.turns[i].origin(k)
			if from.event == 0 || size(x) <= over {
				continue
			}
			freed += llm.BoundBlock(x) - llm.BoundBlock(short(x, from))
			t.Through = max(t.Through, from.event)
		}
		if now-b.scale(freed) <= target {
			break
		}
	}
	return t, b.scale(freed)
}

// trimmed applies a Trimmed event, which opens a new epoch. Messages that
// were handed out before are not touched.
func (b *Builder) trimmed(t glovebox.Trimmed, _ int64) {
	for i := range b.turns {
		old := &b.turns[i]
		var blocks []glovebox.Block // a copy, once one is needed
		for k, x := range old.msg.Blocks {
			from := old.origin(k)
			if from.event == 0 || from.event > t.Through || size(x) <= t.Over {
				continue
			}
			if blocks == nil {
				blocks = append(blocks, old.msg.Blocks...)
			}
			blocks[k] = short(x, from)
		}
		if blocks == nil {
			continue
		}
		b.frozen -= old.tokens
		old.msg.Blocks = blocks
		old.tokens, old.sum = messageTokens(old.msg), messageSum(old.msg)
		b.frozen += old.tokens
	}
}

// origin returns where block k came from.
func (t *turn) origin(k int) origin {
	if k >= len(t.from) { // an answer of the model
		return origin{}
	}
	return t.from[k]
}

// size is what a result weighs against the bound of a trim, in bytes.
func size(x glovebox.Block) int64 {
	var n int64
	for _, c := range x.Content {
		n += int64(len(c.Text))
		if c.Type == glovebox.BlockImage {
			n += imageSize
		}
	}
	return n
}

// short returns a result by its first and last lines. Images leave it.
func short(x glovebox.Block, from origin) glovebox.Block {
	var parts []string
	images := 0
	for _, c := range x.Content {
		if c.Type == glovebox.BlockImage {
			images++
		} else if c.Text != "" {
			parts = append(parts, c.Text)
		}
	}
	text := strings.Join(parts, "\n")
	first, last := edges(text)
	left := len(text) - len(first) - len(last)
	what := fmt.Sprintf("%d bytes", left)
	if images > 0 {
		what += fmt.Sprintf(" and %d images", images)
	}
	where := fmt.Sprintf("the whole is event %d of the job", from.event)
	if from.blob != "" {
		where = fmt.Sprintf("read_output with handle %q has the whole", from.blob)
	}
	x.Content = []glovebox.Block{glovebox.Text(fmt.Sprintf("%s\n[... %s of this older result left out to make room; %s ...]\n%s", first, what, where, last))}
	return x
}

// edges returns the first and the last lines of text, which don't overlap.
func edges(text string) (first, last string) {
	if len(text) <= 2*edgeBytes {
		return text, ""
	}
	first, last = text[:edgeBytes], text[len(text)-edgeBytes:]
	if i := nthNewline(first); i >= 0 {
		first = first[:i]
	}
	if i := nthNewlineFromEnd(last); i >= 0 {
		last = last[i+1:]
	}
	for len(first) > 0 && !utf8.ValidString(first) {
		first = first[:len(first)-1]
	}
	for len(last) > 0 && !utf8.RuneStart(last[0]) {
		last = last[1:]
	}
	return first, last
}

func nthNewline(s string) int {
	n := 0
	for i := range len(s) {
		if s[i] == '\n' {
			if n++; n == edgeLines {
				return i
			}
		}
	}
	return -1
}

func nthNewlineFromEnd(s string) int {
	n := 0
	for i := len(s) - 1; i >= 0; i-- {
		if s[i] == '\n' && i < len(s)-1 {
			if n++; n == edgeLines {
				return i
			}
		}
	}
	return -1
}
