package memory

import (
	"encoding/json"
	"fmt"
	"sort"
	"strconv"
	"strings"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/clip"
)

// Bytes of a digest.
const (
	maxExtract = 2 << 10
	maxMerged  = 3 << 10
)

// DigestSpan returns a summary of s that is derived from the events, where no
// model could or should write one: what the user said, how the plan changed,
// what ran and how it ended, which files were touched, and what the model said
// that it would do, each with its event. It is an error if s is none of Spans.
func (b *Builder) DigestSpan(s glovebox.Span) (glovebox.Summary, error) {
	b.catchUp(true)
	out := glovebox.Summary{Span: s, By: glovebox.SummaryByDigest}
	switch {
	case s.Level > 0:
		out.Text = merged(b.tree.children(s))
	case s.From == b.tree.end()+1 || b.holds(s):
		out.Text = b.extract(s)
	}
	if out.Text == "" {
		return out, glovebox.Errorf(glovebox.CodeInternal, "events %d to %d are no span that could be summarised", s.From, s.Through).WithValue(s.Level)
	}
	return out, nil
}

// holds reports whether the epoch has the answers of a leaf.
func (b *Builder) holds(s glovebox.Span) bool {
	first, end := b.turnsOf(s)
	return first < end
}

// merged shortens the texts of nodes: of each its first lines.
func merged(nodes []node) string {
	var w strings.Builder
	for _, n := range nodes {
		left := maxMerged / fanout
		for _, l := range strings.Split(n.Text, "\n") {
			l = oneLine(l, 160)
			if left -= len(l) + 1; left < 0 {
				break
			}
			w.WriteString(l + "\n")
		}
	}
	return strings.TrimSuffix(w.String(), "\n")
}

// finding is a line of a digest.
type finding struct {
	event  int64
	weight int // the heavier stays
	text   string
}

// digester makes the digest of a leaf.
type digester struct {
	found []finding
	calls map[string]glovebox.Block
	files map[string][]int64
	order []string // of files, as they were first touched
	said  string   // by the model, last
}

func (b *Builder) extract(s glovebox.Span) string {
	d := &digester{calls: map[string]glovebox.Block{}, files: map[string][]int64{}}
	var plan []glovebox.PlanStep
	events := 0
	for _, e := range b.entries {
		if e.seq > s.Through || e.seq < s.From {
			continue
		}
		events++
		switch x := e.data.(type) {
		case glovebox.UserMessage:
			d.add(e.seq, 9, "the user said: "+strconv.Quote(oneLine(x.Text, 240)))
		case glovebox.ModelAnswered:
			d.answer(e.seq, x.Message)
		case glovebox.ToolFinished:
			d.result(e.seq, x)
		case glovebox.PlanUpdated:
			d.plan(e.seq, plan, x.Steps)
			plan = x.Steps
		case glovebox.InstructionsRead:
			d.add(e.seq, 4, "instructions read: "+strconv.Quote(x.Path))
		case glovebox.SandboxReady:
			d.add(e.seq, 5, "the machine was rebuilt")
		case glovebox.ControlChanged:
			if x.Control == glovebox.ControlUser {
				d.add(e.seq, 4, "a person took mouse and keyboard")
			}
		}
	}
	for _, f := range d.order {
		d.add(d.files[f][0], 6, "file "+f+eventsText(d.files[f][1:]))
	}
	if len(d.found) == 0 {
		return fmt.Sprintf("nothing to tell of %d events", events)
	}
	return d.text(min(maxExtract, max(b.sourceSize(s)/5, 120)))
}

func eventsText(events []int64) string {
	if len(events) == 0 {
		return ""
	}
	var parts []string
	for _, e := range events[:min(len(events), 6)] {
		parts = append(parts, strconv.FormatInt(e, 10))
	}
	if len(events) > 6 {
		parts = append(parts, "...")
	}
	return ", again in " + strings.Join(parts, ", ")
}

func (d *digester) add(event int64, weight int, text string) {
	d.found = append(d.found, finding{event, weight, text})
}

// answer notes what the model said first, and its calls.
func (d *digester) answer(event int64, m glovebox.Message) {
	for _, x := range m.Blocks {
		switch x.Type {
		case glovebox.BlockText:
			if said := sentence(x.Text); said != "" && said != d.said {
				d.said = said
				d.add(event, 2, "said: "+strconv.Quote(said))
			}
		case glovebox.BlockToolUse:
			d.calls[x.CallID] = x
		}
	}
}

// sentence returns the first sentence of text, at most 160 bytes of it.
func sentence(text string) string {
	l := lines(clip.Head(text, 1000))
	if len(l) == 0 {
		return ""
	}
	s := l[0]
	if i := strings.Index(s, ". "); i > 20 {
		s = s[:i+1]
	}
	return oneLine(s, 160)
}

// result notes how a call ended.
func (d *digester) result(event int64, f glovebox.ToolFinished) {
	var in struct {
		Command, Cmd, Path, Query, URL, Name, Packages any
	}
	use := d.calls[f.CallID]
	delete(d.calls, f.CallID)
	_ = json.Unmarshal(use.Input, &in) // the input of a call is what the model wrote: it may be anything
	if path, ok := in.Path.(string); ok && !f.IsError {
		path = strconv.Quote(oneLine(path, 120)) + " (" + f.Name + ")"
		if d.files[path] == nil {
			d.order = append(d.order, path)
		}
		d.files[path] = append(d.files[path], event)
		return
	}
	what := f.Name
	for _, v := range []any{in.Command, in.Cmd, in.Path, in.Query, in.URL, in.Name} {
		if s, ok := v.(string); ok && s != "" {
			what += " " + strconv.Quote(oneLine(s, 140))
			break
		}
	}
	code, last := outcome(f)
	switch {
	case f.Unknown:
		d.add(event, 7, what+": outcome unknown")
	case f.IsError || code != "" && code != "0":
		d.add(event, 7, what+": failed"+exit(code)+": "+strconv.Quote(last))
	case code == "0":
		d.add(event, 4, what+": exit 0")
	case f.Name != "plan":
		d.add(event, 1, what)
	}
}

func exit(code string) string {
	if code == "" {
		return ""
	}
	return " with exit " + code
}

// outcome returns the exit code that a result tells, and a line that says
// what went wrong, if one seems to.
func outcome(f glovebox.ToolFinished) (code, line string) {
	for _, x := range f.Content {
		text := x.Text
		if len(text) > 8<<10 {
			text = text[len(text)-8<<10:]
		}
		for _, l := range lines(text) {
			if rest, ok := strings.CutPrefix(l, "[exit "); ok {
				code = strings.TrimRight(strings.SplitN(rest, " ", 2)[0], "],;:")
				continue
			}
			if low := strings.ToLower(l); line == "" || strings.Contains(low, "error") || strings.Contains(low, "fail") || strings.Contains(low, "not found") {
				line = oneLine(l, 160)
			}
		}
	}
	return code, line
}

// plan notes the steps that became another.
func (d *digester) plan(event int64, old, now []glovebox.PlanStep) {
	was := map[string]glovebox.PlanStatus{}
	for _, s := range old {
		was[s.Text] = s.Status
	}
	for _, s := range now {
		if was[s.Text] != s.Status && (s.Status != glovebox.PlanPending || old == nil) {
			d.add(event, 8, fmt.Sprintf("plan, %s: %s", s.Status, strconv.Quote(oneLine(s.Text, 140))))
		}
	}
}

// text returns the heaviest findings in the order of their events, in at most
// so many bytes. Of equal weight the newer ones stay.
func (d *digester) text(most int) string {
	order := make([]int, len(d.found))
	for i := range order {
		order[i] = i
	}
	sort.SliceStable(order, func(i, j int) bool {
		a, b := d.found[order[i]], d.found[order[j]]
		if a.weight != b.weight {
			return a.weight > b.weight
		}
		return a.event > b.event
	})
	keep := make([]bool, len(d.found))
	line := func(f finding) string { return fmt.Sprintf("%s (event %d)", f.text, f.event) }
	left, out := most, 0
	for _, i := range order {
		if n := len(line(d.found[i])) + 1; n <= left {
			left -= n
			keep[i] = true
		} else {
			out++
		}
	}
	sort.SliceStable(order, func(i, j int) bool { return d.found[order[i]].event < d.found[order[j]].event })
	var w strings.Builder
	for _, i := range order {
		if keep[i] {
			w.WriteString(line(d.found[i]) + "\n")
		}
	}
	if w.Len() == 0 {
		return clip.Head(fmt.Sprintf("%d calls and messages", out), most)
	}
	return strings.TrimSuffix(w.String(), "\n")
}
