package recall

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
)

// benchData returns a file of the benchmark data, which is not part of this
// project: below $GLOVEBOX_BENCH_DATA or, without it, ../shared/data beside
// the repository. The test is skipped where it is missing.
func benchData(t testing.TB, name string) []byte {
	t.Helper()
	dir := cmp.Or(os.Getenv("GLOVEBOX_BENCH_DATA"), filepath.Join("..", "..", "..", "..", "shared", "data"))
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Skipf("the benchmark data is not here: set GLOVEBOX_BENCH_DATA to the directory that has %s (%v)", name, err)
	}
	return data
}

// dialogue is a conversation of LoCoMo as a job's log: a message a turn.
type dialogue struct {
	events    []glovebox.Event
	text      map[int64]string // what each event says
	questions []question
}

type question struct {
	text     string
	category int
	evidence []int64 // events
}

func locomo(t testing.TB) []dialogue {
	t.Helper()
	var raw []struct {
		Conversation map[string]json.RawMessage
		QA           []struct {
			Question string
			Evidence []string
			Category int
		}
	}
	if err := json.Unmarshal(benchData(t, cmp.Or(os.Getenv("GLOVEBOX_BENCH_LOCOMO"), "locomo-dev.json")), &raw); err != nil {
		t.Fatal(err)
	}
	var out []dialogue
	for _, c := range raw {
		d := dialogue{text: map[int64]string{}}
		turns := map[string]int64{}
		for n := 1; ; n++ {
			key := "session_" + strconv.Itoa(n)
			if c.Conversation[key] == nil {
				if c.Conversation[key+"_date_time"] == nil {
					break
				}
				continue
			}
			var at string
			var session []struct {
				Speaker, Text string
				ID            string `json:"dia_id"`
			}
			must(t, json.Unmarshal(c.Conversation[key+"_date_time"], &at))
			must(t, json.Unmarshal(c.Conversation[key], &session))
			start, err := time.Parse("3:04 pm on 2 January, 2006", at)
			must(t, err)
			for i, turn := range session {
				text := turn.Speaker + ": " + turn.Text
				e := glovebox.NewEvent(start.Add(time.Duration(i)*time.Second), glovebox.EventUserMessage, glovebox.UserMessage{Text: text})
				e.Seq = int64(len(d.events) + 1)
				d.events = append(d.events, e)
				d.text[e.Seq], turns[turn.ID] = text, e.Seq
			}
		}
		for _, q := range c.QA {
			if q.Category == 5 {
				continue
			}
			var evidence []int64
			for _, e := range q.Evidence {
				for _, id := range regexp.MustCompile(`[; ]+`).Split(e, -1) {
					if n := turns[id]; n > 0 {
						evidence = append(evidence, n)
					}
				}
			}
			slices.Sort(evidence)
			if evidence = slices.Compact(evidence); len(evidence) > 0 {
				d.questions = append(d.questions, question{q.Question, q.Category, evidence})
			}
		}
		out = append(out, d)
	}
	return out
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// found returns the events whose whole text is in the quotes of hits, and how
// many bytes the quotes have.
func (d *dialogue) found(hits []Hit) (events map[int64]bool, size int) {
	events = map[int64]bool{}
	see := func(n int64, text string) {
		size += len(text)
		if strings.TrimSpace(d.text[n]) == text {
			events[n] = true
		}
	}
	for _, h := range hits {
		see(h.Event, h.Text)
		for _, q := range append(h.Before, h.After...) {
			see(q.Event, q.Text)
		}
	}
	return events, size
}

func share(evidence []int64, found map[int64]bool) float64 {
	n := 0.0
	for _, e := range evidence {
		if found[e] {
			n++
		}
	}
	return n / float64(len(evidence))
}

// TestLoCoMo measures the share of a question's evidence turns whose whole
// text is in what a search by the question returns, averaged over questions:
// in the first ten results with their neighbours, and in as many results as
// fit 4,000 and 8,000 tokens, taken as four bytes each.
func TestLoCoMo(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute")
	}
	t.Parallel()
	dialogues := locomo(t)
	goals := []struct {
		name   string
		tokens int
		goal   float64
	}{{"10 results", 0, .75}, {"4,000 tokens", 4000, .93}, {"8,000 tokens", 8000, .955}}
	report := make([]string, len(goals))
	sums := make([]float64, len(goals))
	sizes := make([]int, len(goals))
	n := 0
	for i := range dialogues {
		d := &dialogues[i]
		x := newIndex(t, Options{})
		must(t, x.Add(t.Context(), d.events))
		n += len(d.questions)
		sum := make([]float64, len(goals))
		for _, q := range d.questions {
			ten := search(t, x, Query{Words: q.text})
			many := search(t, x, Query{Words: q.text, Limit: MaxLimit})
			for g, goal := range goals {
				hits := ten.Hits
				if goal.tokens > 0 {
					hits = within(many.Hits, goal.tokens)
				}
				found, size := d.found(hits)
				sum[g] += share(q.evidence, found)
				sizes[g] += size
			}
		}
		for g := range goals {
			sums[g] += sum[g]
			report[g] += fmt.Sprintf(" %.3f", sum[g]/float64(len(d.questions)))
		}
	}
	for g, goal := range goals {
		got := sums[g] / float64(n)
		t.Logf("%-14s %.4f (goal %.3f), %d tokens on average; by dialogue%s", goal.name, got, goal.goal, sizes[g]/4/n, report[g])
		if got < goal.goal {
			t.Errorf("%s: the share is %.4f, the goal %.3f", goal.name, got, goal.goal)
		}
	}
}

// within returns the hits that fit a budget, up to the first that does not.
func within(hits []Hit, tokens int) []Hit {
	size := 0
	for i := range hits {
		if size += len(hits[i].Text); size > 4*tokens {
			return hits[:i]
		}
	}
	return hits
}

func newIndex(t testing.TB, o Options) *Index {
	t.Helper()
	o.ScanTime = time.Hour // a busy machine finds all, too
	x, err := Open(filepath.Join(t.TempDir(), "job.db"), "job", o)
	must(t, err)
	t.Cleanup(func() { must(t, x.Close()) })
	return x
}
