package memory

import (
	"math"
	"time"

	"github.com/glovebox-dev/glovebox/internal/llm"
)

// Marks say when history is folded, and to what. They are data: of a model,
// and of how a job grows.
type Marks struct {
	Window  int64 // of the model, in tokens; 0 if it is not known
	Low     int64 // tokens to which history is folded
	High    int64 // tokens at which it is
	Prepare int64 // tokens at which summaries are made ahead of the fold

	MaxBytes  int64         // of text and images in a request
	MaxImages int           // in a request
	TTL       time.Duration // after which the provider's cache has gone cold

	// Free says that summaries cost nothing, since no model writes them, so
	// that a cold cache is reason enough to fold.
	Free bool
}

// Bounds of the marks.
const (
	leastGrowth  = 54_000          // tokens between the marks, where the window has room for them
	lowCalls     = 8               // calls whose growth the low-water mark has room for beside what is fixed
	leastLow     = 5_000           // tokens of that room, at least: summaries, ledger, and what is there word for word
	mostLow      = 36_000          // the same, at most
	outReserve   = 32_000          // tokens of an answer that are kept free, at most an eighth of the window
	prepareCalls = 5               // calls in which summaries are made ahead of the fold
	summaryCosts = 2_500           // of the summaries of a fold, in uncached tokens, beyond what grows with their number
	cacheTTL     = 5 * time.Minute // of the providers, the shortest
	maxBytes     = 10 << 20        // of a request: of all providers the lowest, with room for what else is in it
	maxImages    = 32              // of a request: the same
)

// MarksFor returns the marks for a model whose requests have fixed tokens
// that a fold leaves as they are (rules, tools, task, instructions), in a job
// in which each call adds growth tokens.
//
// With prices relative to an uncached token of input, r to read one from the
// cache and w to write it there, L the low-water mark, S = fixed, g = growth
// and D what is between the marks, a call costs on average
//
//	r(L + D/2) + gw + (g/D)((L-S)w + (L+D)r + summaries)
//
// which is least at
//
//	D = sqrt(2gC/r), C = (L-S)w + Lr + summaries
//
// What of the summaries grows with D adds the same to each call whatever D
// is. Where prices are not known, r is .1 and w is 1.25. L leaves room for the
// growth of 8 calls beside S, 5,000 to 36,000 tokens: each token of it is read
// with every call and written with every fold, and what it leaves out recall
// finds. D is at least 54,000 where the window allows it: what costs least in
// tokens folds often, and each fold takes the model's reasoning and the
// wording of what it saw. In replays of a coding agent's runs, whose calls are
// short (g = 520), that costs a third more than D = 16,000, with a quarter of
// the folds, fewer than one in 100 calls, and 98 % of the input from the
// cache; from g = 3,500 on it is the least. High is at most .8 of the window
// without what an answer needs, and stays below the length from which requests
// cost more.
// [llm.Info.FoldHigh] and FoldLow go before what is computed.
func MarksFor(info llm.Info, fixed, growth int64) Marks {
	m := Marks{Window: info.Window, MaxBytes: maxBytes, MaxImages: maxImages, TTL: cacheTTL, Free: info.Provider == "replay"}
	r, w := .1, 1.25
	if info.Priced && info.InputPrice > 0 {
		r = max(float64(info.CacheReadPrice)/float64(info.InputPrice), .01)
		w = max(float64(info.CacheWritePrice)/float64(info.InputPrice), 1)
	}
	most := int64(math.MaxInt64)
	if info.Window > 0 {
		reserve := min(outReserve, info.Window/8)
		if info.MaxOutput > 0 {
			reserve = min(reserve, info.MaxOutput)
		}
		most = max(info.Window*8/10-reserve, info.Window/4)
	}
	// That long requests cost more is no reason not to have room to work in.
	if long := info.LongFrom * 95 / 100; long >= fixed+mostLow {
		most = min(most, long)
	}
	fixed, growth = max(fixed, 0), max(growth, 100)
	low := fixed + min(max(lowCalls*growth, leastLow), mostLow)
	c := float64(low-fixed)*w + float64(low)*r + summaryCosts
	d := max(int64(math.Sqrt(2*float64(growth)*c/r)), leastGrowth)
	m.High = min(low+d, most)
	if info.FoldHigh > 0 {
		m.High = min(info.FoldHigh, most)
	}
	// Where the window is small, half of what is not fixed is to grow.
	m.Low = min(low, max(m.High-d, fixed+(m.High-fixed)/2), m.High*9/10)
	if info.FoldLow > 0 {
		m.Low = min(info.FoldLow, m.High*9/10)
	}
	// What comes between is there word for word after the fold, beyond the mark.
	m.Prepare = m.High - min((m.High-m.Low)/5, prepareCalls*growth)
	return m
}
