package replay

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox/internal/llm"
)

// result is what one call came to, as the model sees it.
type result struct {
	text    string
	isError bool
}

// check returns an error for the first expectation of t that r does not meet.
func (m *Model) check(t *Turn, r *llm.Request) error {
	if len(t.Expect) == 0 {
		return nil
	}
	p := follow(r)
	for _, e := range t.Expect {
		if got, ok := e.met(p.results, p.message); !ok {
			return &llm.Error{Kind: llm.KindDiverged, Msg: fmt.Sprintf("expected %q at %s:%d, but %s",
				e.String(), filepath.Base(m.script.Name), e.Line, got)}
		}
	}
	return nil
}

// met reports whether e holds and, if not, what there was instead.
func (e Expectation) met(results []result, message string) (got string, ok bool) {
	switch {
	case e.Of == ofMessage:
		results = []result{{text: message}}
	case e.Of > len(results):
		return fmt.Sprintf("there are %d results", len(results)), false
	case e.Of > 0:
		results = results[e.Of-1 : e.Of]
	case len(results) == 0:
		return "there is no result of a tool", false
	}
	some := false
	for _, r := range results {
		has := e.holds(r)
		if !has && (e.Op == OpOK || e.Op == OpLacks) {
			return describe([]result{r}), false
		}
		some = some || has
	}
	if !some {
		return describe(results), false
	}
	return "", true
}

// holds reports whether e holds for one result.
func (e Expectation) holds(r result) bool {
	switch e.Op {
	case OpOK:
		return !r.isError
	case OpError:
		return r.isError
	case OpContains:
		return strings.Contains(r.text, e.Text)
	case OpLacks:
		return !strings.Contains(r.text, e.Text)
	case OpMatches:
		re := e.re
		if re == nil { // not read from a file
			var err error
			if re, err = regexp.Compile(e.Text); err != nil {
				return false
			}
		}
		return re.MatchString(r.text)
	}
	return false
}

// describe says what results were, in a bounded form: the end of each is
// where a failure usually tells its cause.
func describe(results []result) string {
	var b strings.Builder
	for i, r := range results {
		if i > 0 {
			b.WriteString("; ")
		}
		if i == 4 {
			fmt.Fprintf(&b, "and %d more", len(results)-i)
			break
		}
		b.WriteString("got ")
		if r.isError {
			b.WriteString("the error ")
		}
		fmt.Fprintf(&b, "%q", tail(r.text, 1000/min(len(results), 4)))
	}
	return b.String()
}

// tail returns at most the last n bytes of s, at a character.
func tail(s string, n int) string {
	if len(s) <= n {
		return s
	}
	s = s[len(s)-n:]
	for len(s) > 0 && !utf8.RuneStart(s[0]) {
		s = s[1:]
	}
	return "..." + s
}
