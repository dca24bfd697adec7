package membench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
	"github.com/glovebox-dev/glovebox/internal/memory/recall"
)

// finding is what a search found for a question: results, best first, each
// with the turns that it shows and its length.
type finding []shownTurns

type shownTurns struct {
	turns  []int
	tokens int64
}

// found is the share of the evidence that was shown, on average over questions.
type found struct {
	ten, in4k, in8k float64
	questions       int
}

// add scores the finding for a question. Results are shown whole or not at
// all: the first that does not fit the budget ends the list.
func (f *found) add(q question, r finding) {
	f.questions++
	share := func(limit int, budget int64) float64 {
		seen := map[int]bool{}
		var used int64
		for i, s := range r {
			if used += s.tokens; limit > 0 && i >= limit || budget > 0 && used > budget {
				break
			}
			for _, t := range s.turns {
				seen[t] = true
			}
		}
		hit := 0
		for _, e := range q.evidence {
			if seen[e] {
				hit++
			}
		}
		return float64(hit) / float64(len(q.evidence))
	}
	f.ten += share(10, 0)
	f.in4k += share(0, 4_000)
	f.in8k += share(0, 8_000)
}

// mean returns the averages.
func (f found) mean() found {
	n := float64(max(f.questions, 1))
	return found{f.ten / n, f.in4k / n, f.in8k / n, f.questions}
}

// runLocomo measures what a search finds of the evidence in long dialogues.
func runLocomo(ctx context.Context, dialogues []dialogue, dir string) ([]Row, error) {
	var turns, around, ours, joined found
	for i, d := range dialogues {
		if err := searchDialogue(ctx, d, filepath.Join(dir, fmt.Sprintf("locomo-%d.db", i)), &ours, &joined); err != nil {
			return nil, err
		}
		baselines(d, &turns, &around)
	}
	row := func(name string, f found, goal string) Row {
		f = f.mean()
		return Row{Group: "locomo", Name: name, Goal: goal, Figures: []Figure{
			{"evidence in the first 10 results", f.ten, "share"}, {"within 4,000 tokens", f.in4k, "share"}, {"within 8,000 tokens", f.in8k, "share"}, {"questions", float64(f.questions), "count"}}}
	}
	return []Row{
		row("ours: a result counts for its event", ours, ">= .75, .93, .955"),
		row("ours: a result counts for all turns that it quotes whole", joined, ""),
		row("BM25 over turns", turns, ""),
		row("BM25 over a turn and its neighbours", around, ""),
	}, nil
}

// baselines searches a dialogue with BM25: over its turns, and over each turn
// with the ones before and after it, of which the turn itself is the result.
func baselines(d dialogue, turns, around *found) {
	single := make([]string, len(d.turns))
	wide := make([]string, len(d.turns))
	cost := make([]int64, len(d.turns))
	for i, t := range d.turns {
		single[i], cost[i] = t.text, llm.TokensOf(t.text)
	}
	for i := range d.turns {
		wide[i] = strings.Join(single[max(i-1, 0):min(i+2, len(single))], "\n")
	}
	for _, x := range []struct {
		index *bm25
		into  *found
	}{{newBM25(single), turns}, {newBM25(wide), around}} {
		for _, q := range d.questions {
			var r finding
			for _, doc := range x.index.rank(q.text) {
				r = append(r, shownTurns{[]int{doc}, cost[doc]})
			}
			x.into.add(q, r)
		}
	}
}

// searchDialogue searches a dialogue with the product's index, in which each
// turn is a message of the user.
func searchDialogue(ctx context.Context, d dialogue, path string, ours, joined *found) error {
	index, err := recall.Open(path, jobID, recall.Options{})
	if err != nil {
		return err
	}
	defer os.Remove(path)
	defer index.Close()
	events := []glovebox.Event{glovebox.NewEvent(began, glovebox.EventCreated, glovebox.Created{ID: jobID, Task: "Listen."})}
	for i, t := range d.turns {
		at := t.at.Add(time.Duration(i) * time.Second)
		if t.at.IsZero() {
			at = began.Add(tick * time.Duration(i+1))
		}
		events = append(events, glovebox.NewEvent(at, glovebox.EventUserMessage, glovebox.UserMessage{Text: t.text}))
	}
	for i := range events {
		events[i].Seq = int64(i + 1)
	}
	if err := index.Add(ctx, events); err != nil {
		return err
	}
	for _, q := range d.questions {
		r, err := index.Search(ctx, recall.Query{Words: q.text, Limit: recall.MaxLimit})
		if err != nil {
			return err
		}
		var own, all finding
		for _, h := range r.Hits {
			n := llm.TokensOf(h.Text)
			t := int(h.Event) - 2
			own = append(own, shownTurns{[]int{t}, n})
			all = append(all, shownTurns{quoted(d, t, h.Text), n})
		}
		ours.add(q, own)
		joined.add(q, all)
	}
	return nil
}

// quoted returns turn and those near it whose whole text is in a quote.
func quoted(d dialogue, turn int, quote string) []int {
	turns := []int{turn}
	for t := max(0, turn-4); t <= min(turn+4, len(d.turns)-1); t++ {
		if t != turn && strings.Contains(quote, d.turns[t].text) {
			turns = append(turns, t)
		}
	}
	slices.Sort(turns)
	return turns
}
