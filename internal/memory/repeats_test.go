package memory

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
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
			`[60 lines left out here: word for word as in the result of read_file 2 calls before this one, from "1| the code of line 1 is here" to "60| the code of line 60 is here"; open_event with event 7 has the whole]`},
		"a line changed": {joined(file), joined(file[:30], []string{"new"}, file[31:]), joined(
			[]string{`[30 lines left out here: word for word as in the result of read_file 2 calls before this one, from "1| the code of line 1 is here" to "30| the code of line 30 is here"; open_event with event 7 has the whole]`, "new"},
			[]string{`[29 lines left out here: word for word as in the result of read_file 2 calls before this one, from "32| the code of line 32 is here" to "60| the code of line 60 is here"; open_event with event 7 has the whole]`})},
		"too little of it":    {joined(file), joined(file[:20], []string{"new"}, file[40:]), joined(file[:20], []string{"new"}, file[40:])},
		"one long line":       {"a\n" + long, long + "\nb", `[1 line left out here: word for word as in the result of read_file 2 calls before this one, from "` + long[:60] + `..." to "` + long[:60] + "...\"; open_event with event 7 has the whole]\nb"},
		"another long line":   {long, long + "x", long + "x"},
		"only lines together": {joined(file[:20], []string{"between"}, file[20:40]), joined(file[:40]), joined(file[:40])},
	} {
		var r repeats
		r.show(c.before, 3, "read_file")
		if got := r.leaveOut(c.text, 5, 7, wholeText); got != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, c.want)
		}
	}
}

var leftOutLine = regexp.MustCompile(`^\[(\d+) lines? left out here: word for word as in the result of t (\d+) calls? before this one, from .*; open_event with event \d+ has the whole\]$`)

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
			short := r.leaveOut(text, call, 1, wholeText)
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
	again := fmt.Sprintf("[100 lines left out here: word for word as in the result of read_file 1 call before this one, from %q to %q; open_event with event %d has the whole]",
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

// TestRepeatsOfManyEqualLines: one line stands for all of them, and none where
// that would be longer than they are.
func TestRepeatsOfManyEqualLines(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		line        string
		before, now int
		want        int // lines that are left
	}{
		"as many":   {"the test has passed", 1000, 1000, 1},
		"fewer":     {"the test has passed", 1000, 500, 1},
		"more":      {"the test has passed", 500, 1000, 2},
		"of no use": {"", 1000, 1000, 1000},
	} {
		before, now := slices.Repeat([]string{c.line}, c.before), slices.Repeat([]string{c.line}, c.now)
		var r repeats
		r.show(joined(before), 1, "shell")
		if got := strings.Split(r.leaveOut(joined(now), 2, 7, wholeText), "\n"); len(got) != c.want {
			t.Errorf("%s: %d lines, want %d: %.300q", name, len(got), c.want, got)
		}
	}
}

// TestRepeatsAreBounded gives it more lines than it is to know.
func TestRepeatsAreBounded(t *testing.T) {
	t.Parallel()
	var r repeats
	lines := strings.Repeat("\n", 16_000)
	first := joined(numbered(1, 100, "code"))
	r.show(first, 1, "shell")
	for i := range 100 {
		r.show(strconv.Itoa(i)+lines, i+2, "shell")
	}
	if r.lines > mostLines || len(r.at) > mostLines {
		t.Errorf("%d lines, %d positions", r.lines, len(r.at))
	}
	if got := r.leaveOut(first, 200, 7, wholeText); strings.Count(got, "\n") > 0 {
		t.Errorf("what it knew before is forgotten: %q", got)
	}
}

// TestRepeatBelow: calls may end in another order than that in which the
// message shows their results. None refers to what is below it.
func TestRepeatBelow(t *testing.T) {
	t.Parallel()
	text := joined(numbered(1, 50, "code"))
	l := newLog()
	l.ask()
	l.answer(use("finish"), use("test"))
	l.result("test", text)
	l.result("finish", text)
	for _, x := range build(t, l.events).Messages[2].Blocks {
		if x.Content[0].Text != text {
			t.Errorf("%s: %q", x.CallID, x.Content[0].Text)
		}
	}
}

// TestFoldOfRepeats has an agent read the same files over and over. A fold that
// takes the first reading away shows the files again, which it reckons with.
func TestFoldOfRepeats(t *testing.T) {
	t.Parallel()
	w := newWorld(Marks{})
	info := llm.Info{Provider: "x", Window: 64_000, MaxOutput: 8000}
	for i := range 200 {
		w.marks = MarksFor(info, w.b.Fixed(), w.b.Growth())
		if err := w.room(); err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
		w.ask()
		id := w.answer(glovebox.Usage{}, 1)[0]
		w.record(glovebox.EventToolFinished, glovebox.ToolFinished{CallID: id, Content: []glovebox.Block{glovebox.Text(joined(numbered(1, 200, fmt.Sprint("file ", i%8))))}})
	}
	if w.folds == 0 {
		t.Error("nothing was folded")
	}
}

// checkRepeats returns an error if a line does not say where the lines are that
// it stands for.
func checkRepeats(r *llm.Request) error {
	var calls []string
	texts := map[string]string{}
	for _, m := range r.Messages {
		for _, x := range m.Blocks {
			switch x.Type {
			case glovebox.BlockToolUse:
				calls = append(calls, x.CallID)
			case glovebox.BlockToolResult:
				texts[x.CallID] = x.Content[0].Text
			}
		}
	}
	for i, id := range calls {
		for l := range strings.Lines(texts[id]) {
			m := standing.FindStringSubmatch(l)
			if m == nil {
				continue
			}
			n, _ := strconv.Atoi(m[1])
			first, err1 := strconv.Unquote(m[2])
			last, err2 := strconv.Unquote(m[3])
			if err := errors.Join(err1, err2); err != nil || n > i || !strings.Contains(texts[calls[i-n]], first) || !strings.Contains(texts[calls[i-n]], last) {
				return fmt.Errorf("call %d: it is not where this says: %s", i, l)
			}
		}
	}
	return nil
}

var standing = regexp.MustCompile(`^\[\d+ lines? left out here: word for word as in the result of shell (\d+) calls? before this one, from (".*") to (".*"); open_event`)
