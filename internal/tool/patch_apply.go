package tool

import (
	"fmt"
	"slices"
	"strings"

	"github.com/glovebox-dev/glovebox/internal/clip"
)

// levels are how the lines of a hunk are compared with those of the file: as
// they are, and if that finds nothing, ever less exactly. What is kept stays
// as the file has it.
var levels = []struct {
	note string
	norm func(string) string
}{
	{"", func(s string) string { return s }},
	{"white space at the ends of lines was ignored", func(s string) string { return strings.TrimRight(s, " \t\r\n") }},
	{"indentation was ignored", strings.TrimSpace},
	{"typographic characters were taken for plain ones", func(s string) string { return strings.TrimSpace(plainer.Replace(s)) }},
}

// patchEffort is how many lines are compared for one file at most.
const patchEffort = 50_000_000

// patcher applies hunks to the lines of one file. All are looked for in the
// file as it was.
type patcher struct {
	lines  []string
	crlf   bool
	norms  [][]string         // lines at each level, made when needed
	index  []map[string][]int // where each line is, at each level
	cursor int                // after the last hunk
	offset int                // of the last hunk from where its header said
	effort int
	places []placed
	notes  []string
}

// placed is a hunk with where it goes: before lines[at], in place of n lines.
type placed struct {
	at, n int
	lines []string
}

// applyHunks returns content with the hunks applied, and notes on what did not
// match exactly. Its error is for the model and names the hunk.
func applyHunks(content string, hunks []hunk) (string, []string, error) {
	p := &patcher{
		lines: splitLines(content),
		norms: make([][]string, len(levels)),
		index: make([]map[string][]int, len(levels)),
	}
	p.crlf = strings.Count(content, "\r\n") > len(p.lines)/2
	for _, h := range hunks {
		at, level, err := p.locate(h)
		if err != nil {
			return "", nil, fmt.Errorf("%s: %w", h.name, err)
		}
		if err := p.place(h, at, level); err != nil {
			return "", nil, fmt.Errorf("%s: %w", h.name, err)
		}
	}
	return p.result(), p.notes, nil
}

// locate returns where the old lines of h are and at which level.
func (p *patcher) locate(h hunk) (at, level int, err error) {
	old := h.old()
	from, err := p.afterAnchors(h)
	if err != nil {
		return 0, 0, err
	}
	if len(old) == 0 {
		switch {
		case h.line > 0:
			return min(h.line-1, len(p.lines)), 0, nil
		case len(h.anchors) > 0:
			return from, 0, nil
		}
		return len(p.lines), 0, nil
	}
	for level := range levels {
		found := p.candidates(old, level, from)
		if p.effort > patchEffort {
			return 0, 0, fmt.Errorf("the file has too many lines that are alike to look for it; use edit_file")
		}
		if len(found) == 0 {
			continue
		}
		at, err := p.choose(h, found)
		return at, level, err
	}
	return 0, 0, p.mismatch(h, old)
}

// afterAnchors returns the index of the line after the anchors of h, which
// are looked for one after the other from the last hunk on, else from the
// beginning.
func (p *patcher) afterAnchors(h hunk) (int, error) {
	if len(h.anchors) == 0 {
		return 0, nil
	}
	for _, start := range []int{p.cursor, 0} {
		at := start
		for _, a := range h.anchors {
			if at = p.anchor(a, at); at < 0 {
				break
			}
		}
		if at >= 0 {
			return at, nil
		}
	}
	return 0, fmt.Errorf("its line %q is not in the file", "@@ "+clip.Short(strings.Join(h.anchors, " / "), 100))
}

// anchor returns the index after the first line from start on that is a, or
// begins with it or has it in it if none is; -1 if there is none.
func (p *patcher) anchor(a string, start int) int {
	a = strings.TrimSpace(a)
	for _, same := range []func(string) bool{
		func(l string) bool { return l == a },
		func(l string) bool { return strings.HasPrefix(l, a) },
		func(l string) bool { return strings.Contains(l, a) },
	} {
		for i := start; i < len(p.lines); i++ {
			if same(strings.TrimSpace(p.lines[i])) {
				return i + 1
			}
		}
	}
	return -1
}

// candidates returns where old is at a level, from index from on, without
// what other hunks replace.
func (p *patcher) candidates(old []string, level, from int) []int {
	norm := levels[level].norm
	if p.norms[level] == nil {
		p.norms[level] = make([]string, len(p.lines))
		p.index[level] = make(map[string][]int, len(p.lines))
		for i, l := range p.lines {
			l = norm(l)
			p.norms[level][i] = l
			p.index[level][l] = append(p.index[level][l], i)
		}
	}
	want := make([]string, len(old))
	for i, l := range old {
		want[i] = norm(l)
	}
	// The rarest of its lines leads.
	lead := 0
	for i := range want {
		if len(p.index[level][want[i]]) < len(p.index[level][want[lead]]) {
			lead = i
		}
	}
	var found []int
	for _, i := range p.index[level][want[lead]] {
		at := i - lead
		if at < from || at+len(want) > len(p.lines) || p.taken(at, len(want)) {
			continue
		}
		equal := 0
		for equal < len(want) && p.norms[level][at+equal] == want[equal] {
			equal++
		}
		p.effort += equal + 1
		if equal == len(want) {
			found = append(found, at)
		}
		if p.effort > patchEffort {
			return nil
		}
	}
	return found
}

func (p *patcher) taken(at, n int) bool {
	return slices.ContainsFunc(p.places, func(q placed) bool { return at < q.at+q.n && q.at < at+n })
}

// choose returns which of the places found is meant.
func (p *patcher) choose(h hunk, found []int) (int, error) {
	if len(found) == 1 {
		return found[0], nil
	}
	n := len(h.old())
	if last := found[len(found)-1]; h.atEnd && last+n == len(p.lines) {
		return last, nil
	}
	if h.line > 0 {
		for _, expected := range []int{h.line - 1 + p.offset, h.line - 1} {
			if slices.Contains(found, expected) {
				return expected, nil
			}
		}
	}
	after := slices.DeleteFunc(slices.Clone(found), func(at int) bool { return at < p.cursor })
	if len(after) == 1 || len(after) > 1 && len(h.anchors) > 0 {
		return after[0], nil
	}
	var at []string
	for _, i := range found[:min(len(found), 10)] {
		at = append(at, fmt.Sprint(i+1))
	}
	return 0, fmt.Errorf("its old lines are in the file %d times, at lines %s; add lines of context until they are unique", len(found), strings.Join(at, ", "))
}

// place notes what h makes of the lines at index at.
func (p *patcher) place(h hunk, at, level int) error {
	n := len(h.old())
	if n > 0 && p.taken(at, n) {
		return fmt.Errorf("it changes lines that another hunk changes")
	}
	q := placed{at: at, n: n}
	i := at
	for _, e := range h.edits {
		switch e.op {
		case ' ':
			q.lines = append(q.lines, p.lines[i])
			i++
		case '-':
			i++
		case '+':
			text := e.text
			if p.crlf && (level > 0 || n == 0) && strings.HasSuffix(text, "\n") && !strings.HasSuffix(text, "\r\n") {
				text = strings.TrimSuffix(text, "\n") + "\r\n"
			}
			q.lines = append(q.lines, text)
		}
	}
	p.places = append(p.places, q)
	p.cursor = at + n
	var notes []string
	if h.line > 0 && n > 0 {
		p.offset = at - (h.line - 1)
		if p.offset != 0 {
			notes = append(notes, fmt.Sprintf("was at line %d, not %d", at+1, h.line))
		}
	}
	if levels[level].note != "" {
		notes = append(notes, levels[level].note)
	}
	if len(notes) > 0 {
		p.notes = append(p.notes, h.name+": "+strings.Join(notes, "; "))
	}
	return nil
}

// result returns the file with all hunks in their places.
func (p *patcher) result() string {
	slices.SortStableFunc(p.places, func(a, b placed) int { return a.at - b.at })
	var out []string
	next := 0
	for _, q := range p.places {
		out = append(out, p.lines[next:q.at]...)
		out = append(out, q.lines...)
		next = q.at + q.n
	}
	out = append(out, p.lines[next:]...)
	newline := "\n"
	if p.crlf {
		newline = "\r\n"
	}
	var b strings.Builder
	for i, l := range out {
		b.WriteString(l)
		if i < len(out)-1 && !strings.HasSuffix(l, "\n") { // it was the last one
			b.WriteString(newline)
		}
	}
	return b.String()
}

// mismatch says why the old lines of h are nowhere, as well as can be.
func (p *patcher) mismatch(h hunk, old []string) error {
	if _, level := p.find(h.side('+')); level >= 0 && len(h.side('+')) > 1 {
		return fmt.Errorf("its old lines are not in the file, but its new ones are: it seems to be applied already")
	}
	if len(p.lines) == 0 {
		return fmt.Errorf("the file is empty")
	}
	want := trimBlank(old)
	at, score := mostAlike(p.lines, want)
	if score < 0.4 {
		return fmt.Errorf("its old lines are not in the file (%d lines), nor anything like them; read the file again", len(p.lines))
	}
	return fmt.Errorf("its old lines are not in the file. Most alike: %s; the file has (-), the patch expects (+):\n%s",
		lineRange(at, min(len(want), len(p.lines)-at+1)), strings.TrimSuffix(smallDiff(window(p.lines, at, len(want)), want, at, 30), "\n"))
}

func (p *patcher) find(want []string) (at, level int) {
	for level := range levels {
		if len(want) == 0 {
			break
		}
		if found := p.candidates(want, level, 0); len(found) > 0 {
			return found[0], level
		}
	}
	return 0, -1
}
