package recall

import (
	"bytes"
	"context"
	"encoding/json"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox"
)

// MaxWhole is the most bytes of one event that are indexed.
const MaxWhole = 1 << 20

// entry is what an event says, for the index.
type entry struct {
	text  string
	tool  string   // of a result, or of the only call of an answer
	tools []string // all of them
	files []string // what its calls are about, relative to the workspace where it is inside

	calls []pendingCall // which begin with this event
	ends  string        // id of the call whose result this is
}

// pendingCall is a call that has no result yet.
type pendingCall struct {
	id, tool string
	files    []string
}

// repeats are tools whose calls and results only repeat what is in the log:
// in the index they would stand before what they were made from.
var repeats = map[string]bool{"recall": true, "open_event": true, "read_output": true}

// read returns what e says. An event that says nothing has no text. lookup
// returns the call that a result belongs to.
func read(ctx context.Context, e glovebox.Event, load Loader, lookup func(id string) pendingCall) (entry, error) {
	switch e.Type {
	case glovebox.EventCreated:
		return plain(e, func(c glovebox.Created) string { return c.Task })
	case glovebox.EventNotice:
		return plain(e, func(n glovebox.Notice) string { return n.Text })
	case glovebox.EventQuestion:
		return plain(e, func(q glovebox.QuestionAsked) string { return q.Text })
	case glovebox.EventInstructions:
		return withFiles(plain(e, func(i glovebox.InstructionsRead) string { return i.Text }))(instructionsPath(e))
	case glovebox.EventPlan:
		return plain(e, planText)
	case glovebox.EventProject:
		return plain(e, projectText)
	case glovebox.EventVerified:
		return plain(e, func(v glovebox.Verified) string { return v.Summary + "\n" + v.HowToRun })
	case glovebox.EventFinished:
		return plain(e, finishedText)
	case glovebox.EventUserMessage:
		m, err := glovebox.Decode[glovebox.UserMessage](e)
		return entry{text: whole(ctx, load, m.Blob, m.Text)}, err
	case glovebox.EventModelAnswered:
		a, err := glovebox.Decode[glovebox.ModelAnswered](e)
		return answer(a.Message), err
	case glovebox.EventToolFinished:
		f, err := glovebox.Decode[glovebox.ToolFinished](e)
		if err != nil {
			return entry{}, err
		}
		return result(ctx, f, load, lookup), nil
	}
	return entry{}, nil
}

func plain[T any](e glovebox.Event, text func(T) string) (entry, error) {
	v, err := glovebox.Decode[T](e)
	if err != nil {
		return entry{}, err
	}
	return entry{text: text(v)}, nil
}

func withFiles(n entry, err error) func(files ...string) (entry, error) {
	return func(files ...string) (entry, error) {
		n.files = files
		return n, err
	}
}

func instructionsPath(e glovebox.Event) string {
	i, err := glovebox.Decode[glovebox.InstructionsRead](e)
	if err != nil {
		return ""
	}
	return cleanPath(i.Path)
}

func planText(p glovebox.PlanUpdated) string {
	var b strings.Builder
	for _, s := range p.Steps {
		b.WriteString("plan, " + string(s.Status) + ": " + s.Text + "\n")
	}
	return b.String()
}

func projectText(p glovebox.ProjectRecalled) string {
	var b strings.Builder
	for _, f := range p.Files {
		b.WriteString(f.Name + ":\n" + f.Text + "\n")
	}
	return b.String()
}

func finishedText(f glovebox.Finished) string {
	if f.Failure != nil {
		return f.Summary + "\n" + f.Failure.Message
	}
	return f.Summary
}

func answer(m glovebox.Message) entry {
	var n entry
	var b strings.Builder
	for _, x := range m.Blocks {
		switch x.Type {
		case glovebox.BlockText:
			b.WriteString(x.Text + "\n")
		case glovebox.BlockToolUse:
			call := pendingCall{id: x.CallID, tool: x.Name}
			if !repeats[x.Name] {
				b.WriteString(x.Name + ": ")
				call.files = input(&b, x.Input)
				b.WriteString("\n")
				n.files = append(n.files, call.files...)
			}
			n.tools = append(n.tools, x.Name)
			n.calls = append(n.calls, call)
		}
	}
	n.text = b.String()
	if len(n.tools) == 1 {
		n.tool = n.tools[0]
	}
	return n
}

// input writes the input of a call as text, strings as they are meant, and
// returns the files that it names.
func input(b *strings.Builder, raw json.RawMessage) []string {
	w := inputWriter{b: b, d: json.NewDecoder(bytes.NewReader(raw))}
	w.d.UseNumber()
	w.value("", 0)
	return w.files
}

type inputWriter struct {
	b     *strings.Builder
	d     *json.Decoder
	files []string
}

// maxDepth bounds how deep an input is read.
const maxDepth = 32

// value writes the next value; false ends the reading.
func (w *inputWriter) value(key string, depth int) bool {
	t, err := w.d.Token()
	if err != nil || depth > maxDepth || w.b.Len() > MaxWhole {
		return false
	}
	switch v := t.(type) {
	case json.Delim:
		for w.d.More() {
			if v == '{' {
				t, err := w.d.Token()
				if err != nil {
					return false
				}
				key, _ = t.(string)
			}
			if !w.value(key, depth+1) {
				return false
			}
		}
		_, err := w.d.Token() // the closing one
		return err == nil
	case string:
		if pathKeys[key] && len(w.files) < maxFiles {
			w.files = append(w.files, cleanPath(v))
		}
		w.b.WriteString(" " + key + " " + v)
	case json.Number:
		w.b.WriteString(" " + key + " " + v.String())
	case bool:
		if v {
			w.b.WriteString(" " + key)
		}
	}
	return true
}

// maxFiles bounds how many files a call is about.
const maxFiles = 100

// pathKeys are the fields of tools' inputs that hold a path.
var pathKeys = map[string]bool{"path": true, "file": true, "from": true, "to": true, "dir": true, "file_path": true}

func result(ctx context.Context, f glovebox.ToolFinished, load Loader, lookup func(string) pendingCall) entry {
	n := entry{tool: f.Name, tools: []string{f.Name}, ends: f.CallID}
	if repeats[f.Name] {
		return n
	}
	n.files = lookup(f.CallID).files
	var b strings.Builder
	for _, x := range f.Content {
		if x.Type == glovebox.BlockText {
			b.WriteString(x.Text + "\n")
		}
	}
	n.text = whole(ctx, load, f.Blob, b.String())
	return n
}

// whole returns what is kept under handle, up to MaxWhole bytes, and text
// where there is no handle, or it can't be read: the index is then poorer, and
// that is better than none.
func whole(ctx context.Context, load Loader, handle, text string) string {
	if load == nil || handle == "" {
		return text
	}
	data, _, err := load(ctx, handle, 0, MaxWhole)
	if err != nil || len(data) < len(text)/2 || bytes.IndexByte(data[:min(len(data), 8<<10)], 0) >= 0 {
		return text
	}
	return string(data)
}

// cleanPath returns a path without the workspace before it.
func cleanPath(p string) string {
	p = path.Clean("/" + strings.TrimPrefix(strings.ReplaceAll(p, "\\", "/"), "/workspace/"))
	return strings.TrimPrefix(p, "/")
}

// passageSize is the bytes at which a passage ends at the next good place, and
// passageMax those at which it ends anywhere.
const (
	passageSize = 1 << 10
	passageMax  = 2 << 10
)

// passages cuts text at line ends, or at blanks, into pieces that can be
// quoted and compared. They follow each other without a gap.
func passages(text string) []string {
	var out []string
	for len(text) > passageMax {
		at := strings.LastIndexByte(text[passageSize/2:passageSize], '\n')
		if at >= 0 {
			at += passageSize/2 + 1
		} else if at = strings.IndexByte(text[passageSize:passageMax], '\n'); at >= 0 {
			at += passageSize + 1
		} else if at = strings.LastIndexByte(text[passageSize:passageMax], ' '); at >= 0 {
			at += passageSize + 1
		} else {
			at = passageMax
			for at > passageMax-utf8.UTFMax && !utf8.RuneStart(text[at]) {
				at--
			}
		}
		out = append(out, text[:at])
		text = text[at:]
	}
	if strings.TrimSpace(text) != "" {
		out = append(out, text)
	}
	return out
}
