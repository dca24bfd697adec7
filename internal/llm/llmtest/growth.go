package llmtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// maxUnmarked is how many blocks may lie between what a request of Anthropic
// wrote to the cache and the next breakpoint: the provider looks back 20
// blocks from a breakpoint, and some room is left.
const maxUnmarked = 15

// Growth returns an error if next is not prev with more at its end, as
// requests of one epoch have to be so that the provider's cache holds. For
// Anthropic it also looks at where the cache breakpoints are.
func Growth(api API, prev, next []byte) error {
	before, marks, err := pieces(prev)
	if err != nil {
		return err
	}
	after, nextMarks, err := pieces(next)
	if err != nil {
		return err
	}
	for i, p := range before {
		if i >= len(after) {
			return fmt.Errorf("the request shrank from %d blocks to %d", len(before), len(after))
		}
		if after[i] != p {
			return fmt.Errorf("block %d changed from %.200s to %.200s", i, p, after[i])
		}
	}
	if api != Anthropic {
		return nil
	}
	if len(marks) == 0 {
		return errors.New("the request before has no cache breakpoint")
	}
	written := marks[len(marks)-1]
	for _, m := range nextMarks {
		if m >= written && m <= written+maxUnmarked {
			return nil
		}
	}
	return fmt.Errorf("no cache breakpoint within %d blocks behind block %d, where the cache ends", maxUnmarked, written)
}

// pieces returns the blocks of a request in the order in which caches read
// them, and which of them are cache breakpoints.
func pieces(body []byte) (list []string, marks []int, err error) {
	var top map[string]json.RawMessage
	if err := json.Unmarshal(body, &top); err != nil {
		return nil, nil, err
	}
	for _, field := range []string{"tools", "system", "instructions", "systemInstruction", "messages", "input", "contents"} {
		var elements []json.RawMessage
		if top[field] == nil {
			continue
		}
		if json.Unmarshal(top[field], &elements) != nil {
			list = append(list, field+" "+string(top[field]))
			continue
		}
		for _, e := range elements {
			blocks, where := blocksOf(e)
			for _, b := range blocks {
				if _, marked := b["cache_control"]; marked {
					marks = append(marks, len(list))
					delete(b, "cache_control")
				}
				list = append(list, field+" "+where+" "+encode(b))
			}
		}
	}
	return list, marks, nil
}

// blocksOf returns the blocks of a message, or what is a block itself.
func blocksOf(raw json.RawMessage) (blocks []map[string]json.RawMessage, where string) {
	var m map[string]json.RawMessage
	if json.Unmarshal(raw, &m) != nil {
		return nil, ""
	}
	for _, field := range []string{"content", "parts"} {
		if json.Unmarshal(m[field], &blocks) == nil && blocks != nil {
			delete(m, field)
			return blocks, strings.Trim(encode(m), "{}")
		}
	}
	return []map[string]json.RawMessage{m}, ""
}
