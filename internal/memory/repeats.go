package memory

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// leastRepeat is how many bytes of whole lines have to be the same in a row
// before they are not shown again: what stands for them takes some 200.
const leastRepeat = 800

// repeats knows what results an epoch shows, so that a later one need not
// show the same lines again: agents read a file again after each change, and
// run a test again that fails as before. In the recorded runs of the benchmark
// a third of what tools return is lines that the model has before it already.
//
// Only what stays in the request to the end of its epoch is referred to.
type repeats struct {
	results []result
	at      map[uint64]position // where the leastRepeat bytes with this hash were shown last
}

// result is a result as it is shown.
type result struct {
	call  int // its number in the epoch
	tool  string
	lines []string
}

type position struct{ result, line int }

// hashBase is that of the polynomial over the hashes of lines. It is odd, and
// else of no meaning.
const hashBase = 0x9e3779b97f4a7c15

// windows calls f with the hash of each shortest run of lines that has
// leastRepeat bytes, in order, until f returns where to go on: a line number,
// or one that is no greater for the next line.
func windows(lines []string, f func(line int, hash uint64) int) {
	sums, powers := make([]uint64, len(lines)+1), make([]uint64, len(lines)+1)
	powers[0] = 1
	for i, l := range lines {
		sums[i+1] = sums[i]*hashBase + xxhash.Sum64String(l)
		powers[i+1] = powers[i] * hashBase
	}
	end, size := 0, 0
	for i := 0; i < len(lines); {
		for end < len(lines) && size < leastRepeat {
			size += len(lines[end]) + 1
			end++
		}
		if size < leastRepeat {
			return
		}
		next := max(f(i, sums[end]-sums[i]*powers[end-i]), i+1)
		for ; i < next; i++ {
			if i < end {
				size -= len(lines[i]) + 1
			}
		}
		if end < i {
			end, size = i, 0
		}
	}
}

// leaveOut returns text with a line in place of lines that the model has
// before it already. Event is that of the result.
func (r *repeats) leaveOut(text string, call int, event int64) string {
	if len(r.at) == 0 || len(text) < leastRepeat {
		return text
	}
	lines := strings.Split(text, "\n")
	var out []string
	kept := 0 // the lines before it are in out, or stood for
	windows(lines, func(i int, hash uint64) int {
		p, known := r.at[hash]
		if !known {
			return 0
		}
		before := &r.results[p.result]
		n := same(lines[i:], before.lines[p.line:])
		if n == 0 || len(strings.Join(lines[i:i+n], "\n"))+1 < leastRepeat { // another of the same hash
			return 0
		}
		out = append(out, lines[kept:i]...)
		out = append(out, stand(lines[i:i+n], before, call, event))
		kept = i + n
		return kept
	})
	if kept == 0 {
		return text
	}
	return strings.Join(append(out, lines[kept:]...), "\n")
}

// show records a result as it is shown.
func (r *repeats) show(text string, call int, tool string) {
	if len(text) < leastRepeat {
		return
	}
	if r.at == nil {
		r.at = map[uint64]position{}
	}
	x := result{call: call, tool: tool, lines: strings.Split(text, "\n")}
	windows(x.lines, func(i int, hash uint64) int {
		r.at[hash] = position{len(r.results), i}
		return 0
	})
	r.results = append(r.results, x)
}

// same returns how many lines a and b begin with in common.
func same(a, b []string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// stand returns the line that stands for lines of a result that an earlier
// one has.
func stand(lines []string, before *result, call int, event int64) string {
	where := "this result above"
	if n := call - before.call; n > 0 {
		where = fmt.Sprintf("the result of %s %s before this one", oneLine(before.tool, 64), count(n, "call"))
	}
	back := slices.Clone(lines)
	slices.Reverse(back)
	return fmt.Sprintf("[%s left out: word for word as in %s, from %s to %s; open_event with event %d has all]",
		count(len(lines), "line"), where, edge(lines), edge(back), event)
}

// edge returns the first of lines that says something, quoted.
func edge(lines []string) string {
	const most = 60
	for _, l := range lines {
		if l = oneLine(l, most); l != "" {
			return strconv.Quote(l)
		}
	}
	return strconv.Quote("")
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}
