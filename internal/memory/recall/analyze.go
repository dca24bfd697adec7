package recall

import (
	"hash/fnv"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Terms are what the index knows. A word's is its stem; an identifier's that
// is taken whole begins with "="; what an event is about begins with "@".
const (
	markWhole = "="
	markMeta  = "@"
)

// maxTerm is the most bytes of a term; longer ones are there by their hash.
const maxTerm = 64

// token is a term and where it stands in the text.
type token struct {
	term       string
	start, end int
}

// analyzer cuts text into terms. It keeps the stems of words that it has seen,
// since most words come again and again. It is not safe for concurrent use.
type analyzer struct {
	stems map[string]string
	want  *[1 << 16]bool // where set, only words that begin with one of these pairs of letters are looked at
}

// maxStems bounds what an analyzer keeps.
const maxStems = 1 << 16

func newAnalyzer() *analyzer { return &analyzer{stems: map[string]string{}} }

// each calls f with every term of text, in order: words, the parts of
// identifiers, and each identifier whole after its parts. Words too common to
// tell one passage from another are left out.
func (a *analyzer) each(text string, f func(token)) {
	for i := 0; i < len(text); {
		if !identByte(text[i]) {
			i++
			continue
		}
		start := i
		for i < len(text) && identByte(text[i]) {
			i++
		}
		a.run(text, start, i, f)
	}
}

// identByte reports whether c may be part of a word or an identifier. Bytes
// of other scripts are; what they are is looked at later.
func identByte(c byte) bool {
	switch {
	case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c >= utf8.RuneSelf:
		return true
	}
	return c == '_' || c == '-' || c == '.' || c == '/' || c == ':' || c == '@' || c == '#' || c == '+'
}

// run takes text[start:end], which has no blank in it, apart.
func (a *analyzer) run(text string, start, end int, f func(token)) {
	for start < end && punct(text[start]) {
		start++
	}
	for start < end && punct(text[end-1]) {
		end--
	}
	parts := 0
	for i := start; i < end; {
		if punct(text[i]) {
			i++
			continue
		}
		j := i
		for j < end && !punct(text[j]) {
			j++
		}
		parts += a.words(text, i, j, f)
		i = j
	}
	if parts > 1 && end-start >= 3 && (a.want == nil || a.want[markWhole[0]]) {
		f(token{wholeTerm(text[start:end]), start, end})
	}
}

func punct(c byte) bool {
	return c < utf8.RuneSelf && (c < '0' || c > '9' && c < 'A' || c > 'Z' && c < 'a' || c > 'z')
}

// words emits the words of text[start:end], which holds no punctuation of
// ASCII: split at a change from lower to upper case and, in scripts that write
// without blanks, into pairs of characters. It returns how many there are.
func (a *analyzer) words(text string, start, end int, f func(token)) int {
	n, from := 0, start
	emit := func(to int) {
		if to > from {
			n++
			a.word(text, from, to, f)
		}
		from = to
	}
	var before rune
	beforeAt := start
	for i := start; i < end; {
		r, size := rune(text[i]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRuneInString(text[i:end])
		}
		switch {
		case r >= utf8.RuneSelf && !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.Is(unicode.Mn, r):
			emit(i)
			from = i + size
			before = 0
			i += size
			continue
		case unbroken(r):
			if unbroken(before) {
				n++
				f(token{text[beforeAt : i+size], beforeAt, i + size})
			} else {
				emit(i)
			}
			from = i + size
		case unbroken(before):
			from = i
		case upper(r) && lower(before):
			emit(i)
		case lower(r) && upper(before) && beforeAt > from: // HTTPServer: HTTP, Server
			emit(beforeAt)
		}
		before, beforeAt = r, i
		i += size
	}
	emit(end)
	return n
}

func upper(r rune) bool { return r >= 'A' && r <= 'Z' || r >= utf8.RuneSelf && unicode.IsUpper(r) }
func lower(r rune) bool { return r >= 'a' && r <= 'z' || r >= utf8.RuneSelf && unicode.IsLower(r) }

// unbroken reports whether r is of a script that is written without blanks.
func unbroken(r rune) bool {
	return r >= 0x0E00 && (unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar))
}

func (a *analyzer) word(text string, start, end int, f func(token)) {
	s := text[start:end]
	if a.want != nil && !a.want[begin(s)] {
		return
	}
	term, ok := a.stems[s]
	if !ok {
		term = wordTerm(s)
		if len(a.stems) >= maxStems {
			clear(a.stems)
		}
		a.stems[strings.Clone(s)] = term
	}
	if term != "" {
		f(token{term, start, end})
	}
}

// begin returns the pair of letters that a word begins with; stemming leaves
// it alone. 0 stands for words that are short or of other scripts.
func begin(s string) uint16 {
	if len(s) < 2 || s[0] >= utf8.RuneSelf || s[1] >= utf8.RuneSelf {
		return 0
	}
	return uint16(s[0]|0x20)<<8 | uint16(s[1]|0x20)
}

// only makes the analyzer look at nothing but what may be one of terms; nil
// takes that back.
func (a *analyzer) only(terms []term) {
	if terms == nil {
		a.want = nil
		return
	}
	a.want = new([1 << 16]bool)
	for _, t := range terms {
		if strings.HasPrefix(t.text, markWhole) {
			a.want[markWhole[0]] = true
			continue
		}
		a.want[begin(t.text)] = true
	}
}

// wordTerm returns the term of one word, empty if it is too common.
func wordTerm(s string) string {
	s = fold(strings.ToLower(s))
	if common[s] {
		return ""
	}
	return bounded(stem(s))
}

// wholeTerm returns the term of an identifier that is taken whole.
func wholeTerm(s string) string { return markWhole + bounded(fold(strings.ToLower(s))) }

func bounded(s string) string {
	if len(s) <= maxTerm {
		return s
	}
	return "#" + hash(s)
}

func hash(s string) string {
	h := fnv.New64a()
	h.Write([]byte(s))
	return strconv.FormatUint(h.Sum64(), 36)
}

// fold takes the marks off Latin letters, so that "café" finds "cafe", and
// replaces what is not UTF-8.
func fold(s string) string {
	plain := true
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			plain = false
			break
		}
	}
	if plain {
		return s
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r == utf8.RuneError:
			return '?'
		case unicode.Is(unicode.Mn, r):
			return -1
		case r >= 0xE0 && r < 0x180:
			if c := latin[r-0xE0]; c != '.' {
				return rune(c)
			}
		}
		return r
	}, s)
}

// latin holds the letter below the mark for the lower case letters from U+00E0
// to U+017F, a point where there is none.
const latin = "aaaaaa.ceeeeiiiidnooooo.ouuuuy.y" + // E0-FF
	"aaaaaaccccccccdddd" + "eeeeeeeeee" + "gggggggg" + "hhhh" + "iiiiiiiiii" + ".." + "jj" + "kkk" + "llllllllll" +
	"nnnnnnnnn" + "oooooo" + ".." + "rrrrrr" + "ssssssss" + "tttttt" + "uuuuuuuuuuuu" + "ww" + "yyy" + "zzzzzz" + "s"

// common are words of English that say nothing about a passage. They are not
// in the index at all; what else is too common is found by counting.
var common = commonWords("a an the and or but if of at by for with about into to from in on off out up down over under again then once " +
	"is am are was were be been being have has had having do does did doing will would shall should can could may might must " +
	"i me my mine we us our ours you your yours he him his she her hers it its they them their theirs this that these those " +
	"what which who whom whose when where why how as so than too very just not no nor only own same such both each few more most other some any all here there " +
	"s t d ll m re ve don didn doesn isn wasn weren won wouldn couldn shouldn hasn haven hadn aren ain")

func commonWords(s string) map[string]bool {
	m := map[string]bool{}
	for w := range strings.FieldsSeq(s) {
		m[w] = true
	}
	return m
}
