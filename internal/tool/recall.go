package tool

import (
	"context"
	_ "embed"
	"fmt"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/clip"
	"github.com/glovebox-dev/glovebox/internal/memory/recall"
)

//go:embed recall.md
var recallPrompt string

type recallInput struct {
	Words        string `json:"words,omitempty" jsonschema:"maxLength=4096" jsonschema_description:"What to look for, in words."`
	Exact        string `json:"exact,omitempty" jsonschema:"maxLength=1024" jsonschema_description:"A string that has to be there, letter by letter."`
	Regexp       string `json:"regexp,omitempty" jsonschema:"maxLength=1024" jsonschema_description:"RE2 that has to match."`
	File         string `json:"file,omitempty" jsonschema:"maxLength=4096" jsonschema_description:"Only calls that name this file, and their results: its path or the end of it."`
	Tool         string `json:"tool,omitempty" jsonschema:"maxLength=100" jsonschema_description:"Only calls of this tool and their results."`
	FromEvent    int64  `json:"from_event,omitempty" jsonschema:"minimum=1"`
	ThroughEvent int64  `json:"through_event,omitempty" jsonschema:"minimum=1"`
	FromStep     int64  `json:"from_step,omitempty" jsonschema:"minimum=1"`
	ThroughStep  int64  `json:"through_step,omitempty" jsonschema:"minimum=1"`
	Since        string `json:"since,omitempty" jsonschema:"maxLength=40" jsonschema_description:"Time, e.g. 2026-05-08T14:00:00Z, or a day, 2026-05-08 (UTC)."`
	Until        string `json:"until,omitempty" jsonschema:"maxLength=40" jsonschema_description:"The same; a day is included."`
	Limit        int    `json:"limit,omitempty" jsonschema:"minimum=1,maximum=50" jsonschema_description:"How many results; 10 if left out."`
}

// Recall returns the tool that searches what the job saw.
func Recall() Tool { return readOnly(New("recall", recallPrompt, runRecall)) }

func runRecall(ctx context.Context, env *Env, in recallInput) (Result, error) {
	if env.Recall == nil {
		return ErrorResult("The past can't be searched here. /glovebox/log has it as text: use search_files there."), nil
	}
	q := recall.Query{Words: in.Words, Regexp: in.Regexp, File: in.File, Tool: in.Tool, From: in.FromEvent, Through: in.ThroughEvent,
		FromStep: in.FromStep, ThroughStep: in.ThroughStep, Limit: in.Limit}
	if in.Exact != "" {
		q.Exact = []string{in.Exact}
	}
	var problem string
	if q.After, problem = moment("since", in.Since, false); problem != "" {
		return ErrorResult(problem), nil
	}
	if q.Before, problem = moment("until", in.Until, true); problem != "" {
		return ErrorResult(problem), nil
	}
	r, err := env.Recall(ctx, q)
	switch code := glovebox.CodeOf(err); {
	case err == nil:
		return TextResult(recalled(r)), nil
	case ctx.Err() != nil:
		return Result{}, context.Cause(ctx)
	case code == glovebox.CodeInvalid || code == glovebox.CodeTooLarge:
		return ErrorResult(err.Error()), nil
	default: // the index is derived: its loss is no reason to lose the call
		return ErrorResult("The past can't be searched now: " + clip.Short(err.Error(), 500) + ". /glovebox/log has it as text: use search_files there."), nil
	}
}

// moment reads a time or a day; end takes the end of the day.
func moment(field, s string, end bool) (t time.Time, problem string) {
	if s == "" {
		return t, ""
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return t, ""
	}
	t, err := time.Parse(time.DateOnly, s)
	if err != nil {
		return t, fmt.Sprintf("%q: %q is neither a time like 2026-05-08T14:00:00Z nor a day like 2026-05-08", field, clip.Short(s, 40))
	}
	if end {
		t = t.Add(24*time.Hour - time.Millisecond)
	}
	return t, ""
}

// recalled shows what a search found. Every line of a quote begins with the
// number of its event, so that no quote can look like anything else.
func recalled(r recall.Result) string {
	var b strings.Builder
	note := ""
	if r.Note != "" {
		note = "[" + r.Note + "]\n"
	}
	if len(r.Hits) == 0 {
		return note + "Nothing fits. Try other or fewer words, or a wider range; what never happened in this job can't be found."
	}
	shown := 0
	for i := range r.Hits {
		text := hitText(&r.Hits[i])
		if b.Len()+len(text) > OutputBound-statusRoom-len(note) && i > 0 {
			break
		}
		b.WriteString(text)
		shown++
	}
	if r.More || shown < len(r.Hits) {
		b.WriteString("[There is more: raise limit, or narrow what to look for.]\n")
	}
	return strings.TrimSuffix(note+b.String(), "\n")
}

func hitText(h *recall.Hit) string {
	var b strings.Builder
	fmt.Fprintf(&b, "event %d, step %d, %s, %s", h.Event, h.Step, h.Time.UTC().Format("2006-01-02 15:04:05"), eventName(h))
	if h.SupersededBy > 0 {
		fmt.Fprintf(&b, " - superseded by event %d", h.SupersededBy)
	}
	b.WriteString(":\n")
	for _, q := range h.Before {
		quote(&b, q.Event, q.Text)
	}
	quote(&b, h.Event, h.Text)
	for _, q := range h.After {
		quote(&b, q.Event, q.Text)
	}
	b.WriteString("\n")
	return b.String()
}

func quote(b *strings.Builder, event int64, text string) {
	if !validText(text) {
		text = cleanText([]byte(text))
	}
	for line := range strings.Lines(breaks.Replace(text)) {
		if line = strings.TrimRight(line, " \t\r\n"); line != "" {
			fmt.Fprintf(b, "%d| %s\n", event, line)
		}
	}
}

// breaks makes one kind of line end of all, and shows what turns text around.
var breaks = strings.NewReplacer("\u0085", "\n", "\u2028", "\n", "\u2029", "\n",
	"\u202a", "?", "\u202b", "?", "\u202c", "?", "\u202d", "?", "\u202e", "?", "\u2066", "?", "\u2067", "?", "\u2068", "?", "\u2069", "?")

// toolName returns the name of a tool, quoted where it is none that could be
// one: a model may have called anything.
func toolName(name string) string {
	if strings.ContainsFunc(name, func(r rune) bool {
		return r != '_' && r != '-' && r != '.' && (r < '0' || r > '9') && (r|0x20 < 'a' || r|0x20 > 'z')
	}) {
		return fmt.Sprintf("%q", clip.Short(name, 60))
	}
	return clip.Short(name, 60)
}

// eventName says whose words a hit's are.
func eventName(h *recall.Hit) string {
	about := ""
	if h.File != "" {
		about = fmt.Sprintf(" (%q)", clip.Short(h.File, 100))
	}
	switch h.Type {
	case glovebox.EventCreated:
		return "the task"
	case glovebox.EventUserMessage:
		return "the user"
	case glovebox.EventModelAnswered:
		return "you" + about
	case glovebox.EventToolFinished:
		return fmt.Sprintf("result of %s%s", toolName(h.Tool), about)
	case glovebox.EventNotice:
		return "notice"
	case glovebox.EventPlan:
		return "plan"
	case glovebox.EventQuestion:
		return "question to the user"
	case glovebox.EventInstructions:
		return "standing instructions" + about
	case glovebox.EventProject:
		return "the project's memory"
	}
	return string(h.Type)
}
