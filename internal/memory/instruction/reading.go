package instruction

import (
	"strings"

	"github.com/glovebox-dev/glovebox/internal/clip"
)

// requests are questions that ask for something to be done.
var requests = phrases(`can you, could you, would you, will you, please, kannst du, könntest du, bitte, peux-tu, pouvez-vous, s'il te plaît, s'il vous plaît, puedes, podrías, por favor`)

// valued are phrases within a sentence that choose a value.
var valued = phrases(`should be, must be, has to be, needs to be, soll, doit être, debe ser`)

// hold says for how long a wish is meant.
type hold int

const (
	once    hold = iota // as far as can be told
	rule                // it sounds like a rule
	forGood             // it says so
)

// wanted returns the sentences of a message that ask for something, and for
// how long the strongest of them is meant.
func wanted(text string) (out []sentence, how hold) {
	sentences(text, func(s string) bool {
		words := after(tokens(s), polite)
		stays := in(words, standing)
		at := after(words, standing) // where what is asked for begins: after "from now on"
		switch {
		case len(words) == 0, begins(words, talk):
			return true
		case strings.HasSuffix(s, "?") && !in(words, requests):
			return true
		case !stays && !in(words, wishes) && !begins(at, verbs):
			return true
		}
		if stays {
			how = forGood
		} else if in(words, ruling) {
			how = max(how, rule)
		}
		out = append(out, sentence{
			text: clip.Short(s, maxSentence), words: about(words), negative: in(words, negations), cue: in(words, cues),
			value: begins(at, choices) || in(words, valued),
		})
		return len(out) < maxSentences
	})
	return out, how
}

// after returns words without phrases at the beginning, but for what would
// be nothing then.
func after(words []string, list lexicon) []string {
	for {
		n := prefix(words, list)
		if n == 0 || n == len(words) {
			return words
		}
		words = words[n:]
	}
}

// relation says what a later sentence means for an earlier one.
type relation int

const (
	unrelated relation = iota
	related            // both speak of the same; both may hold
	replaces           // the later one takes the place of the earlier
)

// relate compares two wishes. A sentence of a long text has to say more
// clearly that it takes the place of another.
func relate(old, later *sentence, long bool) relation {
	common := shared(old.words, later.words)
	if common == 0 {
		return unrelated
	}
	small := min(len(old.words), len(later.words))
	if long {
		switch {
		case common < 2 || common*2 < small:
			return unrelated
		case later.cue || old.negative != later.negative && common*4 >= small*3:
			return replaces
		}
		return related
	}
	switch {
	case later.cue && common*3 >= small:
		return replaces
	case old.negative != later.negative && common*4 >= small*3:
		return replaces
	case old.value && later.value && old.negative == later.negative && len(old.words)-common == 1 && len(later.words)-common == 1:
		return replaces
	case common >= 2 && common*2 >= small:
		return related
	}
	return unrelated
}

// takesBack reports whether a sentence takes back what was said last, without
// naming it: "scrap that".
func (s sentence) takesBack() bool {
	return s.cue && len(s.words) <= 1 && in(tokens(s.text), backward)
}

// shared returns how many words two sorted lists have in common.
func shared(a, b []uint64) int {
	n := 0
	for i, j := 0, 0; i < len(a) && j < len(b); {
		switch {
		case a[i] == b[j]:
			n, i, j = n+1, i+1, j+1
		case a[i] < b[j]:
			i++
		default:
			j++
		}
	}
	return n
}
