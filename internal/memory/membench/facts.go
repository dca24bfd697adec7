package membench

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox/internal/memory/recall"
)

// kind says how a fact is planted and asked for.
type kind int

// The kinds.
const (
	// exact is a statement about an identifier of which there are near twins:
	// four others that differ in one character, each with a statement of its
	// own. Half of them are asked for by the identifier alone (Query.Exact),
	// half in words that have it among them.
	exact kind = iota

	// paraphrase is a statement that shares two content words with the
	// question for it, and no other. Each of its words is in a dozen other
	// statements, and three decoys have one of the two.
	paraphrase

	// superseded is a statement about a thing that is made three times, with
	// another value each time and other words around it. Things of nearly the
	// same name have statements of their own.
	superseded

	// standing is an instruction of the user that holds from then on.
	standing

	// decoy is a statement that is like a fact and is asked for by nobody.
	decoy
)

// fact is a sentence that is planted in a history.
type fact struct {
	kind     kind
	text     string // the sentence
	value    string // what an answer needs of it; nothing else has it
	question string // what the user asks, where they do
	query    recall.Query
	versions []*fact // of superseded ones, oldest first; itself included
	place    int     // in whose words it is: placeAnswer, placeResult, placeUser
	step     int
	event    int64 // that holds it, once it is written
}

// The places.
const (
	placeAnswer = iota // the agent's own remark
	placeResult        // a line of a tool's output
	placeUser          // a message of the user
	places
)

// plantIn returns s with the fact in it.
func (f *fact) plantIn(s step) step {
	switch {
	case f.place == placeUser:
		s.user = joined(s.user, f.text)
	case f.place == placeResult && s.tool != "":
		s.output = insertLine(s.output, f.text)
	default:
		s.answer = joined(s.answer, f.text)
	}
	return s
}

// insertLine puts a line into the middle of a text.
func insertLine(text, line string) string {
	at := len(text) / 3
	for at < len(text) && !utf8.RuneStart(text[at]) {
		at++
	}
	if i := strings.IndexByte(text[at:], '\n'); i >= 0 {
		at += i + 1
	} else {
		at = 0
	}
	return text[:at] + line + "\n" + text[at:]
}

// planter makes facts. Two with the same seed make the same.
type planter struct {
	rand  *rand.Rand
	used  map[string]bool
	pairs [][2]string // of content words, shuffled; each is used once
}

func newPlanter(seed uint64) *planter {
	p := &planter{rand: rand.New(rand.NewPCG(seed, 0x676c6f7665)), used: map[string]bool{}}
	for i, a := range things {
		for _, b := range things[i+1:] {
			p.pairs = append(p.pairs, [2]string{a, b})
		}
	}
	p.rand.Shuffle(len(p.pairs), func(i, j int) { p.pairs[i], p.pairs[j] = p.pairs[j], p.pairs[i] })
	return p
}

// fresh returns a value that no other fact has.
func (p *planter) fresh(alphabet string, n int) string {
	for {
		b := make([]byte, n)
		for i := range b {
			b[i] = alphabet[p.rand.IntN(len(alphabet))]
		}
		if s := string(b); !p.used[s] {
			p.used[s] = true
			return s
		}
	}
}

const (
	hex    = "0123456789abcdef"
	digits = "123456789"
)

// exacts returns n facts about identifiers, each followed by its twins.
func (p *planter) exacts(n int) []*fact {
	var all []*fact
	for i := range n {
		form := identifiers[i%len(identifiers)]
		id := []byte(p.fresh(hex, 10))
		state := func(id string) *fact {
			value := p.fresh(hex, 8)
			name := fmt.Sprintf(form.name, id)
			return &fact{kind: decoy, text: fmt.Sprintf(form.says, name, value), value: value, place: p.rand.IntN(places),
				question: fmt.Sprintf(form.asks, name), query: recall.Query{Exact: []string{name}}}
		}
		f := state(string(id))
		f.kind = exact
		if i%2 == 1 {
			f.query = recall.Query{Words: f.question}
		}
		all = append(all, f)
		for range 4 {
			twin := append([]byte(nil), id...)
			at := p.rand.IntN(len(twin))
			for c := twin[at]; c == twin[at]; {
				twin[at] = hex[p.rand.IntN(len(hex))]
			}
			if s := string(twin); !p.used[s] {
				p.used[s] = true
				all = append(all, state(s))
			}
		}
	}
	return all
}

// paraphrases returns n facts that share two content words with their
// question, each followed by its decoys.
func (p *planter) paraphrases(n int) []*fact {
	var all []*fact
	for i := range n {
		form := sayings[i%len(sayings)]
		pair := p.pairs[0]
		p.pairs = p.pairs[1:]
		f := &fact{kind: paraphrase, value: p.fresh(digits, 6), place: p.rand.IntN(places)}
		f.text = fmt.Sprintf(form.says, pair[0], pair[1], f.value)
		f.question = fmt.Sprintf(form.asks, pair[0], pair[1])
		f.query = recall.Query{Words: f.question}
		all = append(all, f)
		for j := range 3 {
			other := p.pairs[p.rand.IntN(len(p.pairs))]
			d := &fact{kind: decoy, place: p.rand.IntN(places), value: p.fresh(digits, 6)}
			words := [2]string{pair[j%2], other[0]}
			if other[0] == pair[0] || other[0] == pair[1] {
				words[1] = other[1]
			}
			if words[1] == pair[0] || words[1] == pair[1] {
				continue // it would hold both words, and be an answer
			}
			d.text = fmt.Sprintf(sayings[p.rand.IntN(len(sayings))].says, words[0], words[1], d.value)
			all = append(all, d)
		}
	}
	return all
}

// supersededs returns n facts of three versions each, oldest first, followed
// by statements about things of nearly the same name.
func (p *planter) supersededs(n int) []*fact {
	var all []*fact
	for i := range n {
		form := properties[i%len(properties)]
		number := 10 + p.rand.IntN(80)
		name := func(d int) string { return fmt.Sprintf("%s-%d", birds[(i/len(properties))%len(birds)], number+d) }
		var versions []*fact
		for v := range 3 {
			f := &fact{kind: superseded, value: p.fresh(hex, 7), place: p.rand.IntN(places)}
			f.text = fmt.Sprintf(changes[(i+v)%len(changes)][min(v, 1)], form, name(0), f.value)
			f.question = fmt.Sprintf("What is the %s of %s?", form, name(0))
			f.query = recall.Query{Words: f.question}
			versions = append(versions, f)
		}
		for _, f := range versions {
			f.versions = versions
		}
		all = append(all, versions...)
		for _, d := range []int{1, -1} {
			f := &fact{kind: decoy, value: p.fresh(hex, 7), place: p.rand.IntN(places)}
			f.text = fmt.Sprintf(changes[p.rand.IntN(len(changes))][0], form, name(d), f.value)
			all = append(all, f)
		}
	}
	return all
}

// standings returns standing instructions.
func (p *planter) standings() []*fact {
	var all []*fact
	for _, s := range instructions {
		f := &fact{kind: standing, place: placeUser, value: p.fresh(hex, 6)}
		f.text = fmt.Sprintf(s, f.value)
		all = append(all, f)
	}
	return all
}

// spread plants facts evenly over steps [from, through), in their order
// shuffled, but versions of one fact in theirs.
func (p *planter) spread(h *history, facts []*fact, from, through int) {
	if len(facts) == 0 || through <= from {
		return
	}
	order := p.rand.Perm(len(facts))
	for i, k := range order {
		lo := from + (through-from)*i/len(order)
		hi := max(lo+1, from+(through-from)*(i+1)/len(order))
		facts[k].step = lo + p.rand.IntN(hi-lo)
	}
	for _, f := range facts {
		if len(f.versions) > 0 && f == f.versions[0] {
			inOrder(f.versions)
		}
	}
	for _, f := range facts {
		h.facts[f.step] = append(h.facts[f.step], f)
	}
}

// inOrder swaps the steps of versions so that they grow. Two in one step are
// told apart by the order in which they are written.
func inOrder(versions []*fact) {
	for i := range versions {
		for j := i + 1; j < len(versions); j++ {
			if versions[j].step < versions[i].step {
				versions[i].step, versions[j].step = versions[j].step, versions[i].step
			}
		}
	}
}
