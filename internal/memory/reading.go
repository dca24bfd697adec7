package memory

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/clip"
)

// Bounds of what is read of an answer with summaries.
const (
	maxAnswer    = 256 << 10 // bytes
	maxItems     = 40        // of one list
	maxItem      = 1200      // bytes
	longWord     = 5         // letters of a word that says what a text is about
	leastOverlap = 25        // percent of them that the source has to have
)

// written is what the model writes about a span.
type written struct {
	Span    int   `json:"span"`
	Done    items `json:"done"`
	Decided items `json:"decided"`
	Learned items `json:"learned"`
	Failed  items `json:"failed"`
	Open    items `json:"open"`
}

// items is a list of lines; a single one may come without the list.
type items []string

// UnmarshalJSON implements [json.Unmarshaler].
func (l *items) UnmarshalJSON(raw []byte) error {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		*l = nil
		if one != "" {
			*l = items{one}
		}
		return nil
	}
	var many []string
	err := json.Unmarshal(raw, &many)
	*l = many
	return err
}

// ReadSummaries returns those summaries of spans in the answer of the model
// that can be used, and what is wrong with the others, empty if all are
// there. A summary has to be shorter than a third of what it stands for, and
// to be about it: of its longer words a quarter have to occur there or in the
// task. Nothing in it is ever more than text.
func (b *Builder) ReadSummaries(spans []glovebox.Span, answer glovebox.Message) (got []glovebox.Summary, problem string) {
	b.catchUp(true)
	list, err := parse(answer)
	if err != nil {
		return nil, err.Error()
	}
	var problems []string
	for i, s := range spans {
		text, err := b.readSummary(list, i+1, s)
		if err != nil {
			problems = append(problems, fmt.Sprintf("span %d: %v", i+1, err))
			continue
		}
		got = append(got, glovebox.Summary{Span: s, By: glovebox.SummaryByModel, Text: text})
	}
	return got, clip.Head(strings.Join(problems, "; "), 1000)
}

// parse returns what an answer says of each span.
func parse(answer glovebox.Message) ([]written, error) {
	if len(answer.ToolUses()) > 0 {
		return nil, errors.New("the answer calls tools")
	}
	text := strings.TrimSpace(answer.PlainText())
	if text == "" {
		return nil, errors.New("the answer is empty")
	}
	if len(text) > maxAnswer {
		return nil, fmt.Errorf("the answer has %d bytes; the bound is %d", len(text), maxAnswer)
	}
	// Models like to put a fence or a sentence around JSON.
	from, to := strings.IndexByte(text, '{'), strings.LastIndexByte(text, '}')
	if from < 0 || to < from {
		return nil, errors.New("the answer is not JSON")
	}
	var all struct {
		Summaries []written `json:"summaries"`
	}
	if err := json.Unmarshal([]byte(text[from:to+1]), &all); err != nil {
		return nil, errors.New("the answer is not the JSON that was asked for: " + oneLine(err.Error(), 200))
	}
	return all.Summaries, nil
}

// readSummary returns the text of the summary of span number n.
func (b *Builder) readSummary(list []written, n int, s glovebox.Span) (string, error) {
	var found *written
	for i := range list {
		if list[i].Span != n {
			continue
		}
		if found != nil {
			return "", errors.New("it is there twice")
		}
		found = &list[i]
	}
	if found == nil {
		return "", errors.New("it is missing")
	}
	text := found.text()
	size := b.sourceSize(s)
	switch {
	case size == 0:
		return "", errors.New("it is no span that can be summarised")
	case text == "":
		return "", errors.New("it is empty")
	case len(text) > glovebox.MaxSummary || len(text) > size/3:
		return "", fmt.Errorf("it has %d bytes; the bound is %d", len(text), min(glovebox.MaxSummary, size/3))
	}
	if share := b.overlap(text, s); share < leastOverlap {
		return "", fmt.Errorf("it is not about these events: they have %d%% of its words", share)
	}
	return text, nil
}

// text returns the lines of a summary.
func (w *written) text() string {
	var out strings.Builder
	for _, part := range []struct {
		name string
		list items
	}{{"done", w.Done}, {"decided", w.Decided}, {"learned", w.Learned}, {"failed", w.Failed}, {"open", w.Open}} {
		for _, line := range part.list[:min(len(part.list), maxItems)] {
			if line = oneLine(line, maxItem); line != "" {
				out.WriteString(part.name + ": " + line + "\n")
			}
		}
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// overlap returns what percentage of the longer words of text occur in the
// source of s or in the task.
func (b *Builder) overlap(text string, s glovebox.Span) int {
	words := map[string]bool{}
	terms(text, func(w string) { words[w] = false })
	if len(words) == 0 {
		return 0
	}
	hits := 0
	hit := func(w string) {
		if had, there := words[w]; there && !had {
			words[w] = true
			hits++
		}
	}
	b.source(s, func(t string) { terms(t, hit) })
	terms(b.created.Task, hit)
	return hits * 100 / len(words)
}

// terms calls f with the longer words of text, in small letters: runs of
// letters and digits, and pairs of characters of writing without spaces.
func terms(text string, f func(string)) {
	start, count := -1, 0
	var before rune
	flush := func(end int) {
		if start >= 0 && count >= longWord {
			f(strings.ToLower(text[start:end]))
		}
		start, count = -1, 0
	}
	for i, r := range text {
		switch {
		case r >= 0x2e80 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul) || r >= 0x0e00 && r < 0x0f00:
			flush(i)
			if before != 0 {
				f(string([]rune{before, r}))
			}
			before = r
			continue
		case r < 0x80 && (r >= '0' && r <= '9' || r|0x20 >= 'a' && r|0x20 <= 'z'), r >= 0x80 && (unicode.IsLetter(r) || unicode.IsDigit(r)):
			if start < 0 {
				start = i
			}
			count++
		default:
			flush(i)
		}
		before = 0
	}
	flush(len(text))
}
