package memory

import (
	"github.com/glovebox-dev/glovebox"
)

// imageTokens is what an image counts. Providers scale what is larger down to
// about this.
const imageTokens = 1600

// blockTokens is what the frame of a block counts.
const blockTokens = 8

// textTokens estimates how many tokens a text has, rather too many than too
// few: prose and code have three to four and a half bytes a token, other
// scripts about two.
func textTokens(n int) int64 { return int64(n+2) / 3 }

// estimate returns what a block counts in a request.
func estimate(b glovebox.Block) int64 {
	n := int64(blockTokens) + textTokens(len(b.Text)+len(b.Name)+len(b.CallID)+len(b.Input)+len(b.Opaque))
	if b.Type == glovebox.BlockImage {
		n += imageTokens
	}
	for _, c := range b.Content {
		n += estimate(c)
	}
	return n
}

func estimateAll(blocks []glovebox.Block) int64 {
	var n int64
	for _, b := range blocks {
		n += estimate(b)
	}
	return n
}
