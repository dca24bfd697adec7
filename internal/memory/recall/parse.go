package recall

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/clip"
)

// readTerms is how many different terms of a query are looked at, and maxTerms
// how many of them, the rarest, are searched for: no more lists than can be
// read in time.
const (
	readTerms = 120
	maxTerms  = 24
)

// maxProgram bounds what a regular expression is compiled to: each byte of a
// passage may cost a step of every instruction, so that with the hundreds of
// thousands that one kilobyte of nested repetitions makes, a single passage
// takes seconds.
const maxProgram = 4_000

// programSize returns how many instructions an expression has.
func programSize(expr string) int {
	re, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return 0
	}
	prog, err := syntax.Compile(re.Simplify())
	if err != nil {
		return 0
	}
	return len(prog.Inst)
}

// term is one of a query's.
type term struct {
	text string
	idf  float64
	df   int   // passages in the range that hold it, about
	cut  int64 // passages older than this one were not read from its list; 0 if all were
}

// parsed is a query that has been checked.
type parsed struct {
	Query
	terms  []term
	dates  []string // words of timeWords that it names
	re     *regexp.Regexp
	must   []string // terms that a passage has to hold: file and tool
	lo, hi int64    // passages
	note   []string
}

func (p *parsed) addNote(format string, args ...any) {
	p.note = append(p.note, fmt.Sprintf(format, args...))
}

// parse checks q. Its errors name the field as the model knows it.
func parse(q Query, a *analyzer) (*parsed, error) {
	p := &parsed{Query: q}
	if err := p.checkBounds(); err != nil {
		return nil, err
	}
	if len(q.Words) > MaxWords {
		p.Words = strings.ToValidUTF8(q.Words[:MaxWords], "")
		p.addNote("only the first %d bytes of the words were used", MaxWords)
	}
	for _, s := range q.Exact {
		switch {
		case strings.TrimSpace(s) == "":
			return nil, glovebox.Invalid("exact", "leave it out, or give a string", "an empty string is in everything")
		case len(s) > MaxExactBytes:
			return nil, &glovebox.Error{Code: glovebox.CodeTooLarge, Field: "exact", Msg: fmt.Sprintf("a string has %d bytes, at most %d are searched for", len(s), MaxExactBytes), Hint: "give its most telling line"}
		}
	}
	if q.Regexp != "" {
		re, err := regexp.Compile(q.Regexp)
		if err != nil {
			return nil, &glovebox.Error{Code: glovebox.CodeInvalid, Field: "regexp", Value: clip.Head(q.Regexp, 100), Msg: strings.TrimPrefix(err.Error(), "error parsing regexp: "), Hint: "the syntax is RE2: no backreferences, no lookaround"}
		}
		if n := programSize(q.Regexp); n > maxProgram {
			return nil, &glovebox.Error{Code: glovebox.CodeTooLarge, Field: "regexp", Value: clip.Head(q.Regexp, 100),
				Msg: fmt.Sprintf("its repetitions make a program of %d steps, at most %d are run", n, maxProgram), Hint: "write * or + where the count does not matter"}
		}
		p.re = re
	}
	p.readWords(a)
	if q.File != "" {
		p.must = append(p.must, metaTerm("file", cleanPath(q.File)))
	}
	if q.Tool != "" {
		p.must = append(p.must, metaTerm("tool", q.Tool))
	}
	if len(p.terms) == 0 && len(p.dates) == 0 && len(q.Exact) == 0 && p.re == nil && len(p.must) == 0 {
		if strings.TrimSpace(q.Words) == "" {
			return nil, glovebox.Invalid("words", "give words, an exact string, a regular expression, a file or a tool", "there is nothing to search for")
		}
		// Words that say nothing by themselves may do so together.
		p.Exact = []string{clip.Head(strings.TrimSpace(p.Words), MaxExactBytes)}
		p.addNote("all of the words are too common to search for, so they were looked for as they stand")
	}
	return p, nil
}

func (p *parsed) checkBounds() error {
	for _, b := range []struct {
		field         string
		from, through int64
	}{{"events", p.From, p.Through}, {"steps", p.FromStep, p.ThroughStep}} {
		if b.from < 0 || b.through < 0 {
			return glovebox.Invalid(b.field, "they are numbered from 1", "a number is below 0")
		}
		if b.through > 0 && b.from > b.through {
			return glovebox.Invalid(b.field, "give the smaller number first", "the range %d to %d is empty", b.from, b.through)
		}
	}
	if !p.After.IsZero() && !p.Before.IsZero() && p.Before.Before(p.After) {
		return glovebox.Invalid("before", "give the earlier time as after", "%s is before %s", p.Before.Format(time.RFC3339), p.After.Format(time.RFC3339))
	}
	switch {
	case p.Limit < 0 || p.Limit > MaxLimit:
		return glovebox.Invalid("limit", fmt.Sprintf("at most %d", MaxLimit), "%d hits can't be returned", p.Limit)
	case p.Tokens < 0:
		return glovebox.Invalid("tokens", "0 is no budget", "%d is below 0", p.Tokens)
	case len(p.Exact) > MaxExact:
		return &glovebox.Error{Code: glovebox.CodeTooLarge, Field: "exact", Msg: fmt.Sprintf("%d strings are given, at most %d are searched for", len(p.Exact), MaxExact)}
	case len(p.Regexp) > MaxRegexp:
		return &glovebox.Error{Code: glovebox.CodeTooLarge, Field: "regexp", Msg: fmt.Sprintf("it has %d bytes, at most %d are taken", len(p.Regexp), MaxRegexp)}
	}
	if p.Limit == 0 && p.Tokens > 0 {
		p.Limit = MaxLimit
	} else if p.Limit == 0 {
		p.Limit = DefaultLimit
	}
	return nil
}

// readWords takes the words apart into terms and dates.
func (p *parsed) readWords(a *analyzer) {
	words := strings.ReplaceAll(strings.ToValidUTF8(p.Words, " "), "\x00", " ")
	seen := map[string]bool{}
	a.each(words, func(t token) {
		if !seen[t.term] && len(p.terms) < readTerms {
			seen[t.term] = true
			p.terms = append(p.terms, term{text: t.term})
		}
	})
	months := 0
	for f := range strings.FieldsFuncSeq(words, func(r rune) bool { return ('a' > r|0x20 || r|0x20 > 'z') && ('0' > r || r > '9') }) {
		l := strings.ToLower(f)
		switch {
		case l == "may" && f == "may": // the verb
		case monthNames[l]:
			months++
			p.dates = append(p.dates, l)
		case dayNames[l]:
			p.dates = append(p.dates, l)
		}
		if n, err := strconv.Atoi(f); err == nil && (n >= 1971 && n < 2200 && len(f) == 4 || n >= 1 && n <= 31) {
			p.dates = append(p.dates, strconv.Itoa(n))
		}
	}
	if months == 0 { // a number alone is no day
		p.dates = slices.DeleteFunc(p.dates, func(s string) bool { return len(s) <= 2 })
	}
	slices.Sort(p.dates)
	p.dates = slices.Compact(p.dates)
}

var monthNames, dayNames = map[string]bool{}, map[string]bool{}

func init() {
	for m := time.January; m <= time.December; m++ {
		monthNames[strings.ToLower(m.String())] = true
	}
	for d := time.Sunday; d <= time.Saturday; d++ {
		dayNames[strings.ToLower(d.String())] = true
	}
}

// timeWords are the words by which people name a day.
func timeWords(t time.Time) [4]string {
	t = t.UTC()
	return [4]string{strings.ToLower(t.Month().String()), strconv.Itoa(t.Year()), strconv.Itoa(t.Day()), strings.ToLower(t.Weekday().String())}
}

// match returns the expression of FTS5 that holds where all of must hold and,
// if there are any, one of either.
func match(must []string, either ...string) string {
	var b strings.Builder
	for i, t := range must {
		if i > 0 {
			b.WriteString(" AND ")
		}
		b.WriteString(quoted(t))
	}
	if len(either) == 0 {
		return b.String()
	}
	if len(must) > 0 {
		b.WriteString(" AND ")
	}
	b.WriteString("(")
	for i, t := range either {
		if i > 0 {
			b.WriteString(" OR ")
		}
		b.WriteString(quoted(t))
	}
	return b.String() + ")"
}

// quoted returns a term as a string of FTS5, in which nothing has a meaning.
func quoted(t string) string { return `"` + strings.ReplaceAll(t, `"`, `""`) + `"` }
