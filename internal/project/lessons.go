package project

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox"
)

// maxLessons bounds what one job may add to a file. The newest count.
const maxLessons = 50

// Lessons are what a job learned, derived from its events. The zero value has
// read nothing yet. It is for one goroutine.
type Lessons struct {
	asked                 map[string]noteInput // calls of the note tool that have no result yet
	conventions, mistakes []string
	commands              []string
	howToRun              string
}

// noteInput is what is read of a call of the tool note.
type noteInput struct {
	Scope string `json:"scope"`
	Name  string `json:"name"`
	Text  string `json:"text"`
}

// Apply reads the next event. What is malformed is passed over: it came from
// a model.
func (l *Lessons) Apply(e glovebox.Event) {
	switch e.Type {
	case glovebox.EventToolStarted:
		t, err := glovebox.Decode[glovebox.ToolStarted](e)
		var in noteInput
		if err != nil || t.Name != "note" || json.Unmarshal(t.Input, &in) != nil || in.Scope != "project" {
			return
		}
		if l.asked == nil {
			l.asked = map[string]noteInput{}
		}
		l.asked[t.CallID] = in
	case glovebox.EventToolFinished:
		if len(l.asked) == 0 {
			return
		}
		t, err := glovebox.Decode[glovebox.ToolFinished](e)
		if err != nil {
			return
		}
		in, ok := l.asked[t.CallID]
		delete(l.asked, t.CallID)
		if ok && !t.IsError && !t.Unknown {
			l.note(in)
		}
	case glovebox.EventVerified:
		v, err := glovebox.Decode[glovebox.Verified](e)
		if err == nil && v.Passed {
			l.verified(v)
		}
	}
}

// note keeps the paragraphs or list entries of a note.
func (l *Lessons) note(in noteInput) {
	to := &l.conventions
	if name := strings.ToLower(in.Name); strings.Contains(name, "mistake") || strings.Contains(name, "pitfall") || strings.Contains(name, "avoid") {
		to = &l.mistakes
	}
	for _, text := range entriesOf(in.Text) {
		*to = newest(append(*to, text))
	}
}

// entriesOf cuts a note into entries: at list items and blank lines.
func entriesOf(text string) []string {
	var out []string
	begin := true
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		item := strings.HasPrefix(line, "- ") || strings.HasPrefix(line, "* ")
		switch {
		case line == "" || strings.HasPrefix(line, "#"): // a heading says nothing by itself
			begin = true
		case begin || item:
			out = append(out, line)
			begin = false
		default:
			out[len(out)-1] += " " + line
		}
	}
	return out
}

func newest(list []string) []string {
	if len(list) > maxLessons {
		list = list[len(list)-maxLessons:]
	}
	return list
}

func (l *Lessons) verified(v glovebox.Verified) {
	l.commands = nil
	for _, p := range v.Proofs {
		if p.ExitCode == 0 && strings.TrimSpace(p.Command) != "" && !strings.Contains(p.Command, "`") {
			l.commands = newest(append(l.commands, fmt.Sprintf("`%s` passes, in %s", strings.Join(strings.Fields(p.Command), " "), roughly(p.DurationMS))))
		}
	}
	l.howToRun = strings.Join(strings.FieldsFunc(v.HowToRun, func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
}

// roughly says how long something took so that the next time is likely to be
// told with the same word.
func roughly(ms int64) string {
	switch {
	case ms < 10_000:
		return "seconds"
	case ms < 60_000:
		return "less than a minute"
	}
	return fmt.Sprintf("about %d minutes", (ms+59_999)/60_000)
}

// Empty reports whether there is nothing to add.
func (l *Lessons) Empty() bool {
	return len(l.conventions)+len(l.mistakes)+len(l.commands) == 0 && l.howToRun == ""
}

const hint = "\n\nWritten at the end of jobs, newest last, and shown to the next ones. Edit freely:\nlines without a mark at their end, and marked ones that you change, stay as they are.\n"

// AddTo adds the lessons to a project's memory. A file that is full, or for
// which there is no place, is left as it is.
func (l *Lessons) AddTo(m *Memory, now time.Time) {
	add := func(name, title string, entries []string, once bool) {
		if len(entries) == 0 {
			return
		}
		before := ""
		if f := m.File(name); f != nil {
			before = f.Text
		}
		_ = m.Set(glovebox.ProjectFile{Name: name, Text: merge(before, "# "+title+hint, entries, once, now)}, now)
	}
	add(glovebox.ProjectConventions, "Conventions", l.conventions, false)
	add(glovebox.ProjectMistakes, "Mistakes not to repeat", l.mistakes, false)
	add(glovebox.ProjectCommands, "Commands that work", l.commands, false)
	if l.howToRun != "" {
		add(glovebox.ProjectCommands, "Commands that work", []string{"To run it: " + l.howToRun}, true)
	}
}

// Recall returns the files to bring into a job, without marks: ours first.
func (m *Memory) Recall() []glovebox.ProjectFile {
	var out []glovebox.ProjectFile
	take := func(f *File) {
		if f != nil && strings.TrimSpace(f.Text) != "" {
			out = append(out, glovebox.ProjectFile{Name: f.Name, Text: Plain(f.Text)})
		}
	}
	first := []string{glovebox.ProjectConventions, glovebox.ProjectCommands, glovebox.ProjectMistakes}
	for _, name := range first {
		take(m.File(name))
	}
	for i := range m.Files {
		if f := &m.Files[i]; f.Name != first[0] && f.Name != first[1] && f.Name != first[2] {
			take(f)
		}
	}
	return out
}
