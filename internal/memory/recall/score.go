package recall

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"
)

// The weights of the score. A passage is scored as the window around it, whose
// parts count half as much with every step away from it (BM25 over decaying
// windows).
const (
	saturation  = 1.2       // k1 of BM25
	lengths     = .5        // b of BM25
	decay       = .5        // of a passage's weight with each step away
	wideDecay   = .65       // the same, for what the feedback brings
	aboutWeight = 3.0       // of who speaks and when, which belong to one passage alone
	closeWeight = .5        // of terms that stand within the length of a sentence
	sentence    = 160       // bytes of that length
	pause       = time.Hour // what is further apart is another conversation
)

// scorer scores the passages of a pool.
type scorer struct {
	a     *analyzer
	p     *parsed
	docs  []*doc
	terms []term

	near  []place // of count
	times map[int]int
}

func newScorer(s *searcher, docs []*doc, terms []term) *scorer {
	return &scorer{a: s.a, p: s.p, docs: docs, terms: terms, times: map[int]int{}}
}

// count notes how often each term is in d, and what its closest ones are worth.
func (c *scorer) count(d *doc, index map[string]int) {
	d.tf, d.named = make([]float64, len(c.terms)), make([]bool, len(c.terms))
	c.near = c.near[:0]
	defer func() { d.close = c.closest() }()
	c.a.each(d.text, func(t token) {
		i, ok := index[t.term]
		if !ok {
			return
		}
		if t.start >= d.label {
			d.tf[i]++
			if i < len(c.p.terms) {
				c.near = append(c.near, place{t.start, i})
			}
		} else {
			d.named[i] = true
		}
	})
}

// place is where a term stands.
type place struct{ at, term int }

// closest returns the most that different terms within the length of a
// sentence are worth together, beyond the best of them alone.
func (c *scorer) closest() float64 {
	best, from, sum := 0.0, 0, 0.0
	clear(c.times)
	for _, p := range c.near {
		for c.near[from].at < p.at-sentence {
			if k := c.near[from].term; c.times[k] == 1 {
				sum -= c.terms[k].idf
				delete(c.times, k)
			} else {
				c.times[k]--
			}
			from++
		}
		if c.times[p.term]++; c.times[p.term] == 1 {
			sum += c.terms[p.term].idf
		}
		if len(c.times) > 1 {
			most := 0.0
			for k := range c.times {
				most = max(most, c.terms[k].idf)
			}
			best = max(best, sum-most)
		}
	}
	return best
}

func (c *scorer) countAll(docs []*doc) {
	index := make(map[string]int, len(c.terms))
	for i, t := range c.terms {
		index[t.text] = i
	}
	c.a.only(c.terms)
	defer c.a.only(nil)
	for _, d := range docs {
		if len(d.tf) != len(c.terms) {
			c.count(d, index)
		}
	}
}

// alone scores passages without their neighbours.
func (c *scorer) alone() { c.run(0, decay) }

// windows scores passages with their neighbours.
func (c *scorer) windows() { c.run(reach, decay) }

func (c *scorer) run(reach int, decay float64) {
	c.countAll(c.docs)
	c.weighAbout()
	n := len(c.terms)
	tf := make([]float64, n)
	length := make([]float64, len(c.docs))
	mean := 0.0
	for i, d := range c.docs {
		d.around(reach, decay, func(o *doc, w float64) { length[i] += w * float64(len(o.text)-o.label) })
		mean += length[i]
	}
	mean /= math.Max(1, float64(len(c.docs)))
	for i, d := range c.docs {
		clear(tf)
		d.around(reach, decay, func(o *doc, w float64) {
			for k, f := range o.tf {
				tf[k] += w * f
			}
		})
		norm := saturation * (1 - lengths + lengths*length[i]/math.Max(mean, 1))
		d.score = d.about + closeWeight*d.close
		for k, f := range tf {
			if f > 0 {
				d.score += c.terms[k].idf * f * (saturation + 1) / (f + norm)
			}
		}
	}
}

// around calls f with d and its neighbours up to n steps away, as far as no
// pause lies between them.
func (d *doc) around(n int, decay float64, f func(o *doc, weight float64)) {
	f(d, 1)
	w, from := decay, d
	for i, k := 0, d.prev; i < n && k != nil && len(k.tf) == len(d.tf) && !apart(k, from); i, k = i+1, k.prev {
		f(k, w)
		w, from = w*decay, k
	}
	w, from = decay, d
	for i, k := 0, d.next; i < n && k != nil && len(k.tf) == len(d.tf) && !apart(from, k); i, k = i+1, k.next {
		f(k, w)
		w, from = w*decay, k
	}
}

func apart(a, b *doc) bool { return b.time.Sub(a.time) > pause }

// weighAbout gives passages what the query says about who speaks and when.
func (c *scorer) weighAbout() {
	df := map[string]int{}
	found := make([][]string, len(c.docs))
	for i, d := range c.docs {
		for k, t := range c.p.terms { // not those of the feedback
			if d.named[k] {
				found[i] = append(found[i], strconv.Itoa(k)+" "+t.text)
			}
		}
		for _, w := range timeWords(d.time) {
			if _, ok := slices.BinarySearch(c.p.dates, w); ok {
				found[i] = append(found[i], w)
			}
		}
		for _, w := range found[i] {
			df[w]++
		}
	}
	for i, d := range c.docs {
		d.about = 0
		for _, w := range found[i] {
			d.about += aboutWeight * idf(float64(df[w]), float64(len(c.docs)))
		}
	}
}

// holds reports whether something that was asked for is in d itself.
func (d *doc) holds() bool {
	return d.about > 0 || slices.ContainsFunc(d.tf, func(f float64) bool { return f > 0 })
}

// rank orders the candidates, best first, the newest among equals.
func rank(docs []*doc) []*doc {
	var out []*doc
	for _, d := range docs {
		if d.candidate && d.score > 0 {
			out = append(out, d)
		}
	}
	slices.SortFunc(out, func(a, b *doc) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(b.id, a.id))
	})
	return out
}

// Feedback: when more is asked for than the words can rank, the terms that the
// best passages share say what else may belong to them.
const (
	feedbackDocs   = 20 // whose terms are looked at; they keep their place
	feedbackTerms  = 30
	feedbackWeight = .2 // of the strongest of them, a query's own being 1
)

// expand puts those after the first in the order of what they share with them.
func (c *scorer) expand(ranked []*doc) []*doc {
	if len(ranked) <= feedbackDocs {
		return ranked
	}
	first := slices.Clone(ranked[:feedbackDocs])
	own := map[string]bool{}
	for _, t := range c.terms {
		own[t.text] = true
	}
	df := map[string]int{}
	weight, sum := map[string]float64{}, 0.0
	for _, d := range first {
		sum += d.score
		for t := range c.termSet(d) {
			if !own[t] {
				weight[t] += d.score
			}
		}
	}
	for _, d := range c.docs {
		for t := range c.termSet(d) {
			df[t]++
		}
	}
	more := make([]term, 0, len(weight))
	for _, t := range slices.Sorted(maps.Keys(weight)) {
		more = append(more, term{text: t, idf: weight[t] / sum * idf(float64(df[t]), float64(len(c.docs)))})
	}
	slices.SortStableFunc(more, func(a, b term) int { return cmp.Compare(b.idf, a.idf) })
	more = more[:min(len(more), feedbackTerms)]
	if len(more) == 0 {
		return ranked
	}
	strongest := more[0].idf
	for i, t := range more {
		more[i].idf = feedbackWeight * t.idf / strongest * idf(float64(df[t.text]), float64(len(c.docs)))
	}
	wider := &scorer{a: c.a, p: c.p, docs: c.docs, terms: append(slices.Clone(c.terms), more...), times: c.times}
	wider.run(reach, wideDecay)
	rest := slices.DeleteFunc(rank(c.docs), func(d *doc) bool { return slices.Contains(first, d) })
	return append(first, rest...)
}

// termSet returns the terms of what is said in a passage.
func (c *scorer) termSet(d *doc) map[string]bool {
	set := map[string]bool{}
	c.a.each(d.text[d.label:], func(t token) { set[t.term] = true })
	return set
}
