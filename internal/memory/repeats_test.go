package memory

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox"
)

// numbered returns lines that differ, with a word in each.
func numbered(from, n int, word string) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("%4d| the %s of line %d is here", from+i, word, from+i))
	}
	return out
}

func joined(parts ...[]string) string {
	var all []string
	for _, p := range parts {
		all = append(all, p...)
	}
	return strings.Join(all, "\n")
}

// TestRepeatedLines leaves out what an earlier result shows, and nothing else.
func TestRepeatedLines(t *testing.T) {
	t.Parallel()
	file := numbered(1, 60, "code")
	long := strings.Repeat("x", leastRepeat)
	for name, c := range map[string]struct {
		before, text, want string
	}{
		"nothing before": {"", joined(file), joined(file)},
		"the same": {joined(file), joined(file),
			`[60 lines left out: word for word as in the result of read_file 2 calls before this one, from "1| the code of line 1 is here" to "60| the code of line 60 is here"; open_event with event 7 has all]`},
		"a line changed": {joined(file), joined(file[:30], []string{"new"}, file[31:]), joined(
			[]string{`[30 lines left out: word for word as in the result of read_file 2 calls before this one, from "1| the code of line 1 is here" to "30| the code of line 30 is here"; open_event with event 7 has all]`, "new"},
			[]string{`[29 lines left out: word for word as in the result of read_file 2 calls before this one, from "32| the code of line 32 is here" to "60| the code of line 60 is here"; open_event with event 7 has all]`})},
		"too little of it":    {joined(file), joined(file[:20], []string{"new"}, file[40:]), joined(file[:20], []string{"new"}, file[40:])},
		"one long line":       {"a\n" + long, long + "\nb", `[1 line left out: word for word as in the result of read_file 2 calls before this one, from "` + long[:60] + `..." to "` + long[:60] + "...\"; open_event with event 7 has all]\nb"},
		"another long line":   {long, long + "x", long + "x"},
		"only lines together": {joined(file[:20], []string{"between"}, file[20:40]), joined(file[:40]), joined(file[:40])},
	} {
		var r repeats
		r.show(c.before, 3, "read_file")
		if got := r.leaveOut(c.text, 5, 7); got != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, c.want)
		}
	}
}

var leftOutLine = regexp.MustCompile(`^\[(\d+) lines? left out: word for word as in the result of t (\d+) calls? before this one, from .*; open_event with event \d+ has all\]$`)

// TestRepeatsCanBeUndone puts back what was left out, from the results that
// the lines name.
func TestRepeatsCanBeUndone(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var r repeats
		var shown [][]string
		left := 0
		for call := range 20 {
			var lines []string
			for len(lines) < 5+rng.IntN(120) {
				if at := rng.IntN(200); rng.IntN(3) > 0 {
					lines = append(lines, numbered(at, 1+rng.IntN(60), "thing")...)
				} else {
					lines = append(lines, strings.Repeat(strconv.Itoa(at), rng.IntN(30)))
				}
			}
			text := strings.Join(lines, "\n")
			short := r.leaveOut(text, call, 1)
			r.show(short, call, "t")
			got := strings.Split(short, "\n")
			shown = append(shown, got)
			left += len(text) - len(short)
			if back := strings.Join(restored(t, got, lines, shown, call), "\n"); back != text {
				t.Fatalf("seed %d, call %d: got\n%s\nfor\n%s", seed, call, back, text)
			}
		}
		if left == 0 {
			t.Fatalf("seed %d: nothing was left out", seed)
		}
	}
}

// restored replaces the lines that stand for others. The original says only
// which of a result's lines are meant.
func restored(t *testing.T, got, original []string, shown [][]string, call int) (out []string) {
	t.Helper()
	for _, l := range got {
		m := leftOutLine.FindStringSubmatch(l)
		if m == nil {
			out = append(out, l)
			continue
		}
		n, _ := strconv.Atoi(m[1])
		ago, _ := strconv.Atoi(m[2])
		want := strings.Join(original[len(out):len(out)+n], "\n")
		if source := strings.Join(shown[call-ago], "\n"); !strings.Contains("\n"+source+"\n", "\n"+want+"\n") {
			t.Fatalf("call %d: %s: that result does not have it", call, l)
		}
		out = append(out, original[len(out):len(out)+n]...)
	}
	return out
}

// TestRepeatedResult reads a file twice in an epoch, asks for the whole of the
// second reading, and reads it again when a fold has taken the first away.
func TestRepeatedResult(t *testing.T) {
	t.Parallel()
	file := joined(numbered(1, 100, "code"))
	l := newLog()
	read := func(id, tool string) int64 {
		l.ask()
		l.answer(glovebox.Block{Type: glovebox.BlockToolUse, CallID: id, Name: tool, Input: json.RawMessage(`{}`)})
		return l.result(id, file)
	}
	results := func() (out []string) {
		for _, m := range build(t, l.events).Messages {
			for _, b := range m.Blocks {
				if b.Type == glovebox.BlockToolResult {
					out = append(out, b.Content[0].Text)
				}
			}
		}
		return out
	}
	first := read("c1", "read_file")
	again := fmt.Sprintf("[100 lines left out: word for word as in the result of read_file 1 call before this one, from %q to %q; open_event with event %d has all]",
		strings.TrimSpace(numbered(1, 1, "code")[0]), numbered(100, 1, "code")[0][1:], read("c2", "read_file"))
	read("c3", "open_event")
	if got, want := results(), []string{file, again, file}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	l.add(glovebox.EventSummarized, glovebox.Summarized{Summaries: []glovebox.Summary{{Span: glovebox.Span{From: 1, Through: first}, By: glovebox.SummaryByModel, Text: "done: read it"}}})
	l.add(glovebox.EventFolded, glovebox.Folded{Epoch: 2, Through: first, Use: glovebox.WindowUse{Window: 200_000, High: 60_000, Low: 20_000}})
	if got, want := results(), []string{file, file}; !slices.Equal(got, want) {
		t.Errorf("after the fold: got %q, want %q", got, want)
	}
}
