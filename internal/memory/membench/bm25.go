package membench

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"unicode"
)

// bm25 ranks documents by the words that they share with a query: Okapi's
// formula with k1 = 1.2 and b = .75, over stems of words, without stop words.
type bm25 struct {
	postings map[string][]posting
	length   []int
	mean     float64
}

type posting struct{ doc, count int }

// words returns the stems of the words of a text, in lower case.
func words(text string) []string {
	all := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	kept := all[:0]
	for _, w := range all {
		if !stopWords[w] {
			kept = append(kept, stem(w))
		}
	}
	return kept
}

// stopWords are words that say nothing about what a text is about.
var stopWords = func() map[string]bool {
	all := map[string]bool{}
	for _, w := range strings.Fields("a an the is are was were be been being to of in on at for with and or but not do does did has have had " +
		"what when where who whom which why how that this these those it its as by from i you he she they we his her their my your our me him them about t s") {
		all[w] = true
	}
	return all
}()

// stem takes the commonest endings off an English word.
func stem(w string) string {
	if len(w) < 4 {
		return w
	}
	for _, e := range []struct{ end, by string }{{"sses", "ss"}, {"ies", "i"}, {"ness", ""}, {"ingly", ""}, {"edly", ""}, {"ing", ""}, {"ed", ""}, {"ly", ""}, {"ss", "ss"}, {"s", ""}} {
		rest, ok := strings.CutSuffix(w, e.end)
		if !ok || !strings.ContainsAny(rest, "aeiouy") || len(rest) < 3 {
			continue
		}
		w = rest + e.by
		break
	}
	if n := len(w); n > 3 && w[n-1] == w[n-2] && !strings.ContainsRune("lsz", rune(w[n-1])) {
		w = w[:n-1]
	}
	if rest, ok := strings.CutSuffix(w, "e"); ok && len(rest) > 2 {
		w = rest
	}
	if rest, ok := strings.CutSuffix(w, "y"); ok && len(rest) > 2 {
		w = rest + "i"
	}
	return w
}

func newBM25(docs []string) *bm25 {
	x := &bm25{postings: map[string][]posting{}, length: make([]int, len(docs))}
	total := 0
	for i, d := range docs {
		counts := map[string]int{}
		ws := words(d)
		for _, w := range ws {
			counts[w]++
		}
		for w, n := range counts {
			x.postings[w] = append(x.postings[w], posting{i, n})
		}
		x.length[i] = len(ws)
		total += len(ws)
	}
	x.mean = float64(total) / float64(max(len(docs), 1))
	return x
}

// rank returns the documents that share a word with the query, best first.
func (x *bm25) rank(query string) []int {
	const k1, b = 1.2, .75
	scores := map[int]float64{}
	n := float64(len(x.length))
	for _, w := range words(query) {
		list := x.postings[w]
		idf := math.Log(1 + (n-float64(len(list))+.5)/(float64(len(list))+.5))
		for _, p := range list {
			tf := float64(p.count)
			scores[p.doc] += idf * tf * (k1 + 1) / (tf + k1*(1-b+b*float64(x.length[p.doc])/x.mean))
		}
	}
	docs := make([]int, 0, len(scores))
	for d := range scores {
		docs = append(docs, d)
	}
	slices.SortFunc(docs, func(a, b int) int {
		return cmp.Or(cmp.Compare(scores[b], scores[a]), cmp.Compare(a, b))
	})
	return docs
}
