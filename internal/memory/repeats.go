package memory

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/glovebox-dev/glovebox/internal/llm"
)

const (
	// leastRepeat is how many bytes of whole lines have to be the same in a
	// row before they are not shown again: what stands for them takes some 200.
	leastRepeat = 800

	// mostLines is how many lines of an epoch are known, which takes some
	// 10 MiB. A window of a million tokens has less of text that is read.
	mostLines = 100_000
)

// repeats knows what results an epoch shows, so that a later one need not
// show the same lines again: agents read a file again after each change, and
// run a test again that fails as before. In the recorded runs of the benchmark
// a third of what tools return is lines that the model has before it already.
//
// Only what stays in the request to the end of its epoch, and is above what
// refers to it, is referred to.
type repeats struct {
	results []result
	lines   int                 // of results
	at      map[uint64]position // where the leastRepeat bytes with this hash were shown last
	again   []reference
}

// result is a result as it is shown.
type result struct {
	call  int // its number in the epoch
	tool  string
	lines []string
}

type position struct {
	result, line int
	call         int // the newest that shows these lines, or refers to them
}

// reference is lines that were left out. They are shown again after a fold that
// leaves nothing of the calls up to some number, if that is at least from and
// less than call.
type reference struct {
	from, call int
	tokens     int64 // of the lines, at most
}

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
// before it already. Event is that of the result, of which at most room tokens
// would be shown.
func (r *repeats) leaveOut(text string, call int, event, room int64) string {
	if len(r.at) == 0 || len(text) < leastRepeat {
		return text
	}
	lines := strings.Split(text, "\n")
	var out []string
	kept := 0 // the lines before it are in out, or stood for
	windows(lines, func(i int, hash uint64) int {
		p, known := r.at[hash]
		if !known || r.results[p.result].call > call { // calls may end in another order, but are shown in theirs
			return 0
		}
		before := &r.results[p.result]
		n := same(lines[i:], before.lines[p.line:])
		again := strings.Join(lines[i:i+n], "\n")
		if len(again)+1 < leastRepeat { // another of the same hash
			return 0
		}
		short := stand(lines[i:i+n], before, call, event)
		if llm.TokensOf(again) <= llm.TokensOf(short) { // as of empty lines
			return i + n
		}
		tokens := min(llm.Bound(again), room)
		room -= tokens
		r.again = append(r.again, reference{p.call, call, tokens})
		p.call = max(p.call, call)
		r.at[hash] = p
		out = append(append(out, lines[kept:i]...), short)
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
	n := strings.Count(text, "\n") + 1
	if len(text) < leastRepeat || r.lines+n > mostLines {
		return
	}
	if r.at == nil {
		r.at = map[uint64]position{}
	}
	r.lines += n
	x := result{call: call, tool: tool, lines: strings.Split(text, "\n")}
	windows(x.lines, func(i int, hash uint64) int {
		// Of lines that come again and again, the first have most behind them.
		if p, known := r.at[hash]; !known || p.result != len(r.results) {
			r.at[hash] = position{len(r.results), i, call}
		}
		return 0
	})
	r.results = append(r.results, x)
}

// unfolded returns about how many tokens a fold that leaves nothing of the
// first so many calls shows again.
func (r *repeats) unfolded(calls int) (tokens int64) {
	for _, x := range r.again {
		if x.from <= calls && calls < x.call {
			tokens += x.tokens
		}
	}
	return tokens
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
	return fmt.Sprintf("[%s left out here: word for word as in %s, from %s to %s; open_event with event %d has the whole]",
		count(len(lines), "line"), where, edge(lines, 0, 1), edge(lines, len(lines)-1, -1), event)
}

// edge returns the first of lines that says something, quoted, looked for from
// line i on in steps.
func edge(lines []string, i, step int) string {
	const most = 60
	for ; i >= 0 && i < len(lines); i += step {
		if l := oneLine(lines[i], most); l != "" {
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
