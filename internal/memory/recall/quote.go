package recall

import (
	"strings"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox/internal/clip"
)

// cutMark stands where a quote leaves something out.
const cutMark = "…"

// quote returns the passage of d around what was looked for.
func (s *searcher) quote(d *doc) string {
	text := strings.TrimSpace(d.text)
	if len(text) <= MaxQuote {
		return text
	}
	if d.at >= 0 {
		return around(d.text, d.at, MaxQuote)
	}
	return around(d.text, s.densest(d.text, MaxQuote*2/3), MaxQuote)
}

// densest returns the middle of the stretch of at most n bytes that covers the
// rarest terms.
func (s *searcher) densest(text string, n int) int {
	index := map[string]int{}
	for i, t := range s.p.terms {
		index[t.text] = i
	}
	type found struct{ at, term int }
	var all []found
	s.a.only(s.p.terms)
	s.a.each(text, func(t token) {
		if i, ok := index[t.term]; ok {
			all = append(all, found{t.start, i})
		}
	})
	s.a.only(nil)
	best, at := 0.0, 0
	for i := range all {
		seen := make([]bool, len(s.p.terms))
		v, last := 0.0, all[i].at
		for _, f := range all[i:] {
			if f.at-all[i].at > n {
				break
			}
			if !seen[f.term] {
				seen[f.term] = true
				v, last = v+s.p.terms[f.term].idf, f.at
			}
		}
		if v > best {
			best, at = v, (all[i].at+last)/2
		}
	}
	return at
}

// around returns at most n bytes of text around a place in it, from the
// beginning of a line where that is near.
func around(text string, at, n int) string {
	from := max(0, min(at-n/2, len(text)-n))
	if from > 0 {
		if i := strings.LastIndexByte(text[from:max(from, at)], '\n'); i >= 0 && from+i+1 > at-n/3 {
			from += i + 1
		} else if i := strings.IndexByte(text[from:max(from, at)], '\n'); i >= 0 && i < n/4 {
			from += i + 1
		}
	}
	out := head(text[runeStart(text, from):], n-len(cutMark))
	if from > 0 {
		out = cutMark + strings.TrimSpace(out)
	}
	return out
}

func runeStart(s string, i int) int {
	for i < len(s) && !utf8.RuneStart(s[i]) {
		i++
	}
	return i
}

// head returns the first n bytes of s, about, and says so where that is not all.
func head(s string, n int) string {
	s = strings.TrimSpace(s)
	if len(s) <= n {
		return s
	}
	return strings.TrimSpace(clip.Head(s, n-len(cutMark))) + cutMark
}

// tail returns the last n bytes of s, about, and says so where that is not all.
func tail(s string, n int) string {
	s = strings.TrimSpace(s)
	if len(s) <= n {
		return s
	}
	return cutMark + strings.TrimSpace(s[runeStart(s, len(s)-n+len(cutMark)):])
}
