package history

import (
	"fmt"
	"slices"
	"strings"
)

const (
	maxEdits = 1000 // differences that are found exactly; beyond it all lines between what both begin and end with count as replaced
	around   = 3    // lines of context
)

// lines splits text after each line break.
func lines(b []byte) []string { return slices.Collect(strings.Lines(string(b))) }

// edit is a line: kept ' ', deleted '-' or added '+'.
type edit struct {
	op   byte
	text string
}

type edits []edit

// compare returns a shortest way from a to b, if it is short enough to be
// looked for.
func compare(a, b []string) edits {
	head := 0
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	out := make(edits, 0, len(a)+len(b)-head-tail)
	for _, l := range a[:head] {
		out = append(out, edit{' ', l})
	}
	out = append(out, middle(a[head:len(a)-tail], b[head:len(b)-tail])...)
	for _, l := range a[len(a)-tail:] {
		out = append(out, edit{' ', l})
	}
	return out
}

// middle is Myers' greedy algorithm: for each number of differences d, how far
// each diagonal x-y is reached, until the end is.
func middle(a, b []string) edits {
	ids := map[string]int32{}
	x, y := number(a, ids), number(b, ids)
	n, m := len(a), len(b)
	limit := min(n+m, maxEdits)
	reach := make([]int32, 2*limit+3)
	mid := limit + 1
	var trace [][]int32 // of each d, reach from -d to d
	for d := 0; n > 0 && m > 0 && d <= limit; d++ {
		for k := -d; k <= d; k += 2 {
			var i int
			if k == -d || k != d && reach[mid+k-1] < reach[mid+k+1] {
				i = int(reach[mid+k+1])
			} else {
				i = int(reach[mid+k-1]) + 1
			}
			j := i - k
			for i < n && j >= 0 && j < m && x[i] == y[j] {
				i, j = i+1, j+1
			}
			reach[mid+k] = int32(i)
			if i >= n && j >= m {
				return walkBack(a, b, trace, d)
			}
		}
		trace = append(trace, slices.Clone(reach[mid-d:mid+d+1]))
	}
	out := make(edits, 0, n+m)
	for _, l := range a {
		out = append(out, edit{'-', l})
	}
	for _, l := range b {
		out = append(out, edit{'+', l})
	}
	return out
}

func number(lines []string, ids map[string]int32) []int32 {
	out := make([]int32, len(lines))
	for i, l := range lines {
		id, ok := ids[l]
		if !ok {
			id = int32(len(ids))
			ids[l] = id
		}
		out[i] = id
	}
	return out
}

// walkBack finds the way that was taken, from its end.
func walkBack(a, b []string, trace [][]int32, d int) edits {
	i, j := len(a), len(b)
	var out edits
	for ; d > 0; d-- {
		reach := trace[d-1]
		at := func(k int) int { // how far diagonal k was reached with d-1 differences
			if k < -(d-1) || k > d-1 {
				return -1
			}
			return int(reach[k+d-1])
		}
		k := i - j
		from := k - 1 // a line was deleted
		if k == -d || k != d && at(k-1) < at(k+1) {
			from = k + 1 // a line was added
		}
		start := at(from) // of the lines that were kept after it
		if from == k-1 {
			start++
		}
		for i > start {
			i, j = i-1, j-1
			out = append(out, edit{' ', a[i]})
		}
		if from == k+1 {
			j--
			out = append(out, edit{'+', b[j]})
		} else {
			i--
			out = append(out, edit{'-', a[i]})
		}
	}
	for i > 0 {
		i--
		out = append(out, edit{' ', a[i]})
	}
	slices.Reverse(out)
	return out
}

// count returns how many lines were added and deleted.
func (e edits) count() (added, deleted int64) {
	for _, x := range e {
		switch x.op {
		case '+':
			added++
		case '-':
			deleted++
		}
	}
	return added, deleted
}

// unified returns the hunks of a unified diff, at most limit bytes, and
// whether that is not all.
func (e edits) unified(limit int) (string, bool) {
	var b strings.Builder
	oldLine, newLine := 1, 1 // of e[i]
	for i := 0; i < len(e); {
		if e[i].op == ' ' {
			i, oldLine, newLine = i+1, oldLine+1, newLine+1
			continue
		}
		begin := max(0, i-around)
		for k := i - 1; k >= begin; k-- { // kept lines, or the hunk before would go on
			oldLine, newLine = oldLine-1, newLine-1
		}
		end := e.hunkEnd(i)
		hunk := e[begin:end]
		added, deleted := hunk.count()
		kept := len(hunk) - int(added+deleted)
		olds, news := kept+int(deleted), kept+int(added)
		head := fmt.Sprintf("@@ -%s +%s @@\n", span(oldLine, olds), span(newLine, news))
		if b.Len()+len(head) > limit {
			return b.String(), true
		}
		b.WriteString(head)
		for _, x := range hunk {
			if b.Len()+len(x.text)+1+len(noNewline) > limit {
				return b.String(), true
			}
			b.WriteByte(x.op)
			b.WriteString(x.text)
			if !strings.HasSuffix(x.text, "\n") {
				b.WriteString(noNewline)
			}
		}
		oldLine, newLine, i = oldLine+olds, newLine+news, end
	}
	return b.String(), false
}

const noNewline = "\n\\ No newline at end of file\n"

// hunkEnd returns where the hunk ends that has its first difference at i: it
// includes differences that are near each other.
func (e edits) hunkEnd(i int) int {
	last := i
	for k := i; k < len(e) && k-last <= 2*around; k++ {
		if e[k].op != ' ' {
			last = k
		}
	}
	return min(len(e), last+1+around)
}

// span is a range of lines as a hunk's head has it.
func span(first, n int) string {
	switch n {
	case 0:
		return fmt.Sprintf("%d,0", first-1)
	case 1:
		return fmt.Sprint(first)
	}
	return fmt.Sprintf("%d,%d", first, n)
}
