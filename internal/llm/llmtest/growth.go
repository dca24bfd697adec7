package llmtest

import (
	"errors"
	"fmt"
)

// maxUnmarked is how many blocks may lie between what a request of Anthropic
// wrote to the cache and the next breakpoint: the provider looks back 20
// blocks from a breakpoint, and some room is left.
const maxUnmarked = 15

// maxMarks is the most breakpoints of a request.
const maxMarks = 4

// Growth returns an error if next is not prev with more at its end, as
// requests of one epoch have to be so that the provider's cache holds. For
// Anthropic it also looks at where the cache breakpoints are.
func Growth(api API, prev, next []byte) error {
	before, err := pieces(api, prev)
	if err != nil {
		return err
	}
	after, err := pieces(api, next)
	if err != nil {
		return err
	}
	if n := common(before, after); n < len(before) {
		if n == len(after) {
			return fmt.Errorf("the request shrank from %d blocks to %d", len(before), len(after))
		}
		return fmt.Errorf("block %d changed from %.200s to %.200s", n, before[n].text, after[n].text)
	}
	return marked(api, before, after)
}

// marked returns an error if what before wrote to the cache is not found by
// after, or after leaves a stretch without a breakpoint that it could have had.
func marked(api API, before, after []piece) error {
	if api != Anthropic {
		return nil
	}
	written := -1
	for i, p := range before {
		if p.mark {
			written = i
		}
	}
	if written < 0 {
		return errors.New("the request before has no cache breakpoint")
	}
	marks, found := 0, false
	for i, p := range after {
		if p.mark {
			marks++
			found = found || i >= written && i <= written+maxUnmarked
		}
	}
	if !found {
		return fmt.Errorf("no cache breakpoint within %d blocks behind block %d, where the cache ends", maxUnmarked, written)
	}
	// What the last message adds may yet be marked: by the next request, of
	// which its end is checked then, or never, if this one asks for something
	// beside the conversation. A mark is at the end of a message.
	last := max(written, len(before)-1)
	for i := 0; i < len(after)-1; i++ {
		if i > last && after[i].mark {
			last = i
		}
		if i-last > maxUnmarked && marks < maxMarks && after[i].place != after[i+1].place {
			return fmt.Errorf("no cache breakpoint within %d blocks behind block %d, of %d", maxUnmarked, last, len(after))
		}
	}
	return nil
}
