package recall

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"strings"
)

// A fact has versions: "the port of X is 8080", later "the port of X is 9090".
// Two statements are taken for versions of one fact when they share how they
// begin or end and differ in one stretch with a value in it, when they set the
// same key, or when the later says that something changed and repeats most of
// the earlier. The later one wins.

// compared bounds how many of the best hits are compared with each other.
const compared = 40

// versions puts versions of a fact newest first, at the place of the best of
// them, and returns for each that is superseded by which event.
func (s *searcher) versions(ranked []*doc) ([]*doc, map[*doc]int64) {
	n := min(len(ranked), compared)
	said := make([]statement, n)
	for i, d := range ranked[:n] {
		said[i] = s.statement(d)
	}
	superseded := map[*doc]int64{}
	out := slices.Clone(ranked)
	group := make([]int, n) // the best hit of the same fact
	for i := range group {
		group[i] = i
		for k := range i {
			if group[k] != k && group[k] != i {
				continue
			}
			if s.sameSubject(said[i], said[k]) && (said[i].sameFact(said[k]) || s.answers(said[i].about)) {
				group[i] = group[k]
				break
			}
		}
	}
	var order []*doc
	for i := range n {
		if group[i] != i {
			continue
		}
		var members []int
		for k := i; k < n; k++ {
			if group[k] == i {
				members = append(members, k)
			}
		}
		slices.SortFunc(members, func(a, b int) int { return cmp.Compare(ranked[b].id, ranked[a].id) })
		newest := members[0]
		for _, m := range members {
			late := said[newest]
			if ranked[m].event() != ranked[newest].event() && (said[m].sameFact(late) || late.now && s.answers(late.about)) {
				superseded[ranked[m]] = ranked[newest].event()
			}
			order = append(order, ranked[m])
		}
	}
	copy(out, order)
	return out, superseded
}

// statement is the sentence or line of a passage that fits the query best.
type statement struct {
	id    int64
	words []string // stems, in order
	value []bool   // for each word: it has a digit in it
	key   string   // of "key: value" and "key = value"
	rest  string   // the value of key
	about uint64   // which terms of the query it holds
	now   bool     // it says that something changed
}

const maxStatement = 48 // words

func (s *searcher) statement(d *doc) statement {
	index := map[string]int{}
	for i, t := range s.p.terms {
		if i < 64 {
			index[t.text] = i
		}
	}
	best, weight := statement{id: d.id}, -1.0
	for _, line := range sentences(d.text[d.label:]) {
		st, w := statement{id: d.id}, 0.0
		s.a.each(line, func(t token) {
			if i, ok := index[t.term]; ok && st.about&(1<<i) == 0 {
				st.about |= 1 << i
				w += s.p.terms[i].idf
			}
			if len(st.words) < maxStatement && !strings.HasPrefix(t.term, markWhole) {
				st.words = append(st.words, t.term)
				st.value = append(st.value, strings.ContainsAny(line[t.start:t.end], "0123456789"))
				st.now = st.now || changed[t.term]
			}
		})
		if d.at >= 0 && strings.Contains(line, d.text[d.at:min(d.at+1, len(d.text))]) {
			w += 1e-3
		}
		if w > weight {
			weight = w
			st.key, st.rest = keyValue(line)
			best = st
		}
	}
	return best
}

// changed are stems of words that say that something is not what it was.
var changed = map[string]bool{}

func init() {
	for w := range strings.FieldsSeq("now become today forget changed change moved move switched switch updated update replaced replace instead longer anymore renamed rename " +
		"migrated migrate corrected correction correct actually bumped bump raised lowered") {
		changed[stem(w)] = true
	}
}

// sentences cuts text at line ends and at the ends of sentences.
func sentences(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		for {
			i := strings.IndexAny(line, ".!?;")
			for i >= 0 && i+1 < len(line) && line[i+1] != ' ' && line[i+1] != '\n' { // in a number, a path, a URL
				k := strings.IndexAny(line[i+1:], ".!?;")
				if k < 0 {
					i = -1
					break
				}
				i += k + 1
			}
			if i < 0 || i+1 >= len(line) {
				break
			}
			out = append(out, line[:i+1])
			line = line[i+1:]
		}
		if strings.TrimSpace(line) != "" {
			out = append(out, line)
		}
	}
	return out
}

// keyValue returns both sides of "key: value" and "key = value".
func keyValue(line string) (key, value string) {
	line = strings.TrimSpace(line)
	i := strings.IndexAny(line, "=:")
	if i <= 0 || i > 80 || i+1 >= len(line) {
		return "", ""
	}
	key = strings.ToLower(strings.Trim(line[:i], " \t\"'`-*"))
	if key == "" || strings.Count(key, " ") > 3 || line[i+1] == '/' { // the last is a URL
		return "", ""
	}
	return key, strings.Trim(strings.TrimLeft(line[i+1:], "=: "), " \t\"'`,;")
}

// sameFact reports whether two statements say something about the same: one
// said it before, the other after.
func (a statement) sameFact(b statement) bool {
	if a.id > b.id {
		a, b = b, a
	}
	if len(a.words) == 0 || len(b.words) == 0 {
		return false
	}
	if a.key != "" && a.key == b.key {
		return a.rest != b.rest
	}
	prefix, suffix := 0, 0
	short := min(len(a.words), len(b.words))
	for prefix < short && a.words[prefix] == b.words[prefix] {
		prefix++
	}
	for suffix < short-prefix && a.words[len(a.words)-1-suffix] == b.words[len(b.words)-1-suffix] {
		suffix++
	}
	oldRest, newRest := len(a.words)-prefix-suffix, len(b.words)-prefix-suffix
	shared := prefix + suffix
	if shared >= 2 && 2*shared >= short && oldRest > 0 && newRest > 0 && oldRest <= 6 && newRest <= 6 &&
		(prefix >= 2 || a.valued(prefix, suffix) && b.valued(prefix, suffix)) {
		return true
	}
	return b.now && overlap(a.words, b.words)*10 >= 6*len(a.words) && overlap(a.words, b.words) >= 2
}

// weight returns what terms of the query are worth together, those left out
// that are nowhere.
func (s *searcher) weight(about uint64) float64 {
	sum := 0.0
	for i, t := range s.p.terms[:min(len(s.p.terms), 64)] {
		if about&(1<<i) != 0 && t.df > 0 {
			sum += t.idf
		}
	}
	return sum
}

// sameSubject reports whether two statements hold the same of what was asked
// for, but for words that hardly matter: else it is that which tells them apart.
func (s *searcher) sameSubject(a, b statement) bool {
	return s.weight(a.about^b.about) <= smallShare*s.weight(a.about|b.about)
}

// answers reports whether a sentence that holds these terms holds most of what
// was asked for. Of two such sentences the later is the better answer, whether
// or not it takes anything back.
func (s *searcher) answers(about uint64) bool {
	return bits.OnesCount64(about) > 1 && s.weight(about) >= answerShare*s.weight(math.MaxUint64)
}

// Shares of what was asked for, by the rarity of its words.
const (
	smallShare  = .2
	answerShare = .7
)

// valued reports whether there is a number between prefix and suffix.
func (a statement) valued(prefix, suffix int) bool {
	return slices.Contains(a.value[prefix:len(a.value)-suffix], true)
}

// overlap counts the words of a that are in b.
func overlap(a, b []string) int {
	n := 0
	for _, w := range a {
		if slices.Contains(b, w) {
			n++
		}
	}
	return n
}
