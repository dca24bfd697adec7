package llm

import (
	"encoding/binary"
	"strings"

	"github.com/glovebox-dev/glovebox"
)

// What is assumed of things that are not text.
const (
	requestTokens  = 600   // what providers put around tools and system text
	blockTokens    = 12    // around a message or block: role, ids, markers
	toolTokens     = 40    // around the declaration of a tool
	computerTokens = 5_000 // the declaration of a provider's own computer tool, as Anthropic counts it for the largest
	imageTokens    = 5_000 // an image of unknown size: the largest that models look at
)

// safety is what [TokensOf] is multiplied with for an upper bound, in
// hundredths. Against the larger count of OpenAI's two tokenizers, TokensOf
// was 1.00 to 1.15 of it over 28 whole runs of a coding agent, 0.88 to 1.29
// over 98% of their 1,448 messages, and at the least 0.78 for base64 and 0.6
// for emoji. Anthropic's newest tokenizer makes about 1.6 times as many.
//
// It looks like too much for schemas, and is not: the bound of those of
// Glovebox's tools is 2.6 times what OpenAI's tokenizers make of them as they
// are, but servers write them into the prompt with spaces (2.1 times) or
// indented (1.7 times). The rules and the descriptions of tools are at 1.7.
const safety = 190

// EstimateTokens returns how many tokens r has at most, roughly: an estimate
// from above, the same for the same request, for checks against limits before
// a call. It takes about 3 ms a megabyte. What is already in the provider's
// answer (Usage) is exact and to be preferred where there is one.
func EstimateTokens(r *Request) int64 {
	n := int64(requestTokens) + Bound(r.System)
	for _, t := range r.Tools {
		n += toolTokens + Bound(t.Name) + Bound(t.Description) + Bound(string(t.Schema))
		if t.Computer != nil {
			n += computerTokens
		}
	}
	for _, m := range r.Messages {
		n += blockTokens
		for _, b := range m.Blocks {
			n += BoundBlock(b)
		}
	}
	return n
}

// BoundBlock returns how many tokens b has at most, roughly.
func BoundBlock(b glovebox.Block) int64 {
	n := int64(blockTokens)
	switch b.Type {
	case glovebox.BlockImage:
		return n + boundImage(b.Data)
	case glovebox.BlockReasoning:
		// What is encrypted stands for the text that it was made from.
		return n + max(Bound(b.Text), int64(len(b.Opaque))/2)
	case glovebox.BlockToolUse:
		n += Bound(b.Name) + Bound(b.CallID) + Bound(string(b.Input)) + int64(len(b.Opaque))/4
	case glovebox.BlockToolResult:
		n += Bound(b.CallID)
		for _, c := range b.Content {
			n += BoundBlock(c)
		}
	default:
		n += Bound(b.Text) + int64(len(b.Opaque))/4
	}
	return n
}

// Bound returns how many tokens s has at most, roughly.
func Bound(s string) int64 {
	// A token has at least a byte, whatever the tokenizer.
	return min((TokensOf(s)*safety+99)/100, int64(len(s)))
}

// Hundredths of a token that each part of a text takes, fitted to OpenAI's
// tokenizers over the runs of a coding agent.
const (
	wordCost  = 80 // each six letters of a word, or part of them
	digitCost = 90 // a digit
	punctCost = 75 // up to four of the same sign
	spaceCost = 20 // a run of spaces or line ends, but for a single space
	otherCost = 40 // a byte of a character that is not ASCII
)

// TokensOf returns about how many tokens s has in a tokenizer of OpenAI's. It
// reads no table: it counts words, digits and signs.
func TokensOf(s string) int64 {
	var cost int64
	for i := 0; i < len(s); {
		c := s[i]
		j := i + 1
		switch class[c] {
		case other:
			cost += otherCost
		case digit:
			cost += digitCost
		case upper, lower:
			for j < len(s) && class[s[j]] == lower {
				j++
			}
			cost += wordCost * int64((j-i+5)/6)
		case space:
			for j < len(s) && s[j] == c {
				j++
			}
			if c != ' ' || j-i > 1 {
				cost += spaceCost
			}
		default:
			for j < len(s) && s[j] == c {
				j++
			}
			cost += punctCost * int64((j-i+3)/4)
		}
		i = j
	}
	return (cost + 99) / 100
}

// The classes of bytes.
const (
	punct = iota
	other
	digit
	upper
	lower
	space
)

var class = func() (t [256]uint8) {
	for c := range t {
		switch {
		case c >= 0x80:
			t[c] = other
		case c >= '0' && c <= '9':
			t[c] = digit
		case c >= 'A' && c <= 'Z':
			t[c] = upper
		case c >= 'a' && c <= 'z':
			t[c] = lower
		case strings.IndexByte(" \t\r\n", byte(c)) >= 0:
			t[c] = space
		}
	}
	return t
}()

// boundImage returns how many tokens an image has at most, from the size that
// a PNG says it has.
func boundImage(data []byte) int64 {
	if len(data) < 24 || string(data[:8]) != "\x89PNG\r\n\x1a\n" || string(data[12:16]) != "IHDR" {
		return imageTokens
	}
	w, h := int64(binary.BigEndian.Uint32(data[16:])), int64(binary.BigEndian.Uint32(data[20:]))
	if w <= 0 || h <= 0 || w > 1<<16 || h > 1<<16 {
		return imageTokens
	}
	return min(imageTokens, w*h/750+400) // Anthropic's rule; the others take fewer
}
