package recall

// stem returns the stem of an English word in lower case, by Porter's
// algorithm of 1980, so that "connected" finds "connection". Words of other
// languages and those with digits come back as they are.
func stem(word string) string {
	if len(word) < 3 {
		return word
	}
	for i := range len(word) {
		if word[i] < 'a' || word[i] > 'z' {
			return word
		}
	}
	w := stemmer{b: []byte(word)}
	w.plural()
	w.pastAndProgressive()
	if w.has("y") && w.vowelBefore(1) {
		w.b[len(w.b)-1] = 'i'
	}
	w.first(longSuffixes, 0)
	w.first(middleSuffixes, 0)
	w.drop()
	w.tidy()
	return string(w.b)
}

type stemmer struct{ b []byte }

type suffix struct{ from, to string }

var longSuffixes = []suffix{
	{"ational", "ate"}, {"tional", "tion"}, {"enci", "ence"}, {"anci", "ance"}, {"izer", "ize"}, {"abli", "able"},
	{"alli", "al"}, {"entli", "ent"}, {"eli", "e"}, {"ousli", "ous"}, {"ization", "ize"}, {"ation", "ate"},
	{"ator", "ate"}, {"alism", "al"}, {"iveness", "ive"}, {"fulness", "ful"}, {"ousness", "ous"}, {"aliti", "al"},
	{"iviti", "ive"}, {"biliti", "ble"},
}

var middleSuffixes = []suffix{
	{"icate", "ic"}, {"ative", ""}, {"alize", "al"}, {"iciti", "ic"}, {"ical", "ic"}, {"ful", ""}, {"ness", ""},
}

var lastSuffixes = []string{
	"ement", "ance", "ence", "able", "ible", "ment", "ant", "ent", "ism", "ate", "iti", "ous", "ive", "ize", "ion", "al", "er", "ic", "ou",
}

func (w *stemmer) has(s string) bool {
	return len(w.b) >= len(s) && string(w.b[len(w.b)-len(s):]) == s
}

func (w *stemmer) replace(n int, s string) { w.b = append(w.b[:len(w.b)-n], s...) }

func (w *stemmer) consonant(i int) bool {
	switch w.b[i] {
	case 'a', 'e', 'i', 'o', 'u':
		return false
	case 'y':
		return i == 0 || !w.consonant(i-1)
	}
	return true
}

// measure counts how often a vowel is followed by a consonant in all but the
// last n bytes.
func (w *stemmer) measure(n int) int {
	m, vowel := 0, false
	for i := range len(w.b) - n {
		c := w.consonant(i)
		if c && vowel {
			m++
		}
		vowel = !c
	}
	return m
}

func (w *stemmer) vowelBefore(n int) bool {
	for i := range len(w.b) - n {
		if !w.consonant(i) {
			return true
		}
	}
	return false
}

func (w *stemmer) double() bool {
	n := len(w.b)
	return n > 1 && w.b[n-1] == w.b[n-2] && w.consonant(n-1)
}

// short reports whether all but the last n bytes end with consonant, vowel,
// consonant, the last of them not w, x or y.
func (w *stemmer) short(n int) bool {
	i := len(w.b) - n - 1
	if i < 2 || !w.consonant(i) || w.consonant(i-1) || !w.consonant(i-2) {
		return false
	}
	return w.b[i] != 'w' && w.b[i] != 'x' && w.b[i] != 'y'
}

func (w *stemmer) plural() {
	switch {
	case w.has("sses"), w.has("ies"):
		w.replace(2, "")
	case w.has("ss"):
	case w.has("s"):
		w.replace(1, "")
	}
}

func (w *stemmer) pastAndProgressive() {
	switch {
	case w.has("eed"):
		if w.measure(3) > 0 {
			w.replace(1, "")
		}
		return
	case w.has("ed") && w.vowelBefore(2):
		w.replace(2, "")
	case w.has("ing") && w.vowelBefore(3):
		w.replace(3, "")
	default:
		return
	}
	switch {
	case w.has("at"), w.has("bl"), w.has("iz"):
		w.replace(0, "e")
	case w.double() && !w.has("l") && !w.has("s") && !w.has("z"):
		w.replace(1, "")
	case w.measure(0) == 1 && w.short(0):
		w.replace(0, "e")
	}
}

// first replaces the first suffix of a list that fits.
func (w *stemmer) first(list []suffix, more int) {
	for _, s := range list {
		if w.has(s.from) {
			if w.measure(len(s.from)) > more {
				w.replace(len(s.from), s.to)
			}
			return
		}
	}
}

func (w *stemmer) drop() {
	for _, s := range lastSuffixes {
		if !w.has(s) {
			continue
		}
		at := len(w.b) - len(s)
		if w.measure(len(s)) > 1 && (s != "ion" || at > 0 && (w.b[at-1] == 's' || w.b[at-1] == 't')) {
			w.replace(len(s), "")
		}
		return
	}
}

func (w *stemmer) tidy() {
	if w.has("e") {
		if m := w.measure(1); m > 1 || m == 1 && !w.short(1) {
			w.replace(1, "")
		}
	}
	if w.has("ll") && w.measure(0) > 1 {
		w.replace(1, "")
	}
}
