package logtext

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/glovebox-dev/glovebox"
)

// bodies holds, for each type of event whose data reads better in another
// form than as JSON, how it is written.
var bodies = map[glovebox.EventType]func(*writer, glovebox.Event) error{
	glovebox.EventCreated: on(func(w *writer, c glovebox.Created) {
		w.say("model %s", c.Model)
		if c.Project != "" {
			w.say("project %s", c.Project)
		}
		w.say("task:")
		w.data(c.Task)
	}),
	glovebox.EventPhase:    on(func(w *writer, p glovebox.PhaseChanged) { w.say("%s", p.Phase) }),
	glovebox.EventReleased: on(func(w *writer, r glovebox.Released) { w.say("%s", r.Reason) }),
	glovebox.EventResumed:  on(func(w *writer, r glovebox.Resumed) { w.say("%s", r.Reason) }),
	glovebox.EventFinished: on(func(w *writer, f glovebox.Finished) {
		w.say("%s", f.Status)
		w.data(f.Summary)
		if f.Failure != nil {
			w.data(f.Failure.Message)
		}
	}),
	glovebox.EventUserMessage: on(func(w *writer, m glovebox.UserMessage) {
		if m.Blob != "" {
			w.say("the beginning of %d bytes; the whole is output %s", m.Size, m.Blob)
		}
		w.data(m.Text)
	}),
	glovebox.EventSandboxAwaited: on(func(w *writer, s glovebox.SandboxAwaited) { w.data(s.Reason) }),
	glovebox.EventSandboxReady:   on(func(w *writer, s glovebox.SandboxReady) { w.say("%s, %s", s.Driver, s.How) }),
	glovebox.EventSandboxLost:    on(func(w *writer, s glovebox.SandboxLost) { w.data(s.Cause) }),
	glovebox.EventModelRequested: on(func(w *writer, r glovebox.ModelRequested) {
		w.say("%s, step %d, attempt %d", r.Model, r.Step, r.Attempt)
	}),
	glovebox.EventModelAnswered: on(func(w *writer, a glovebox.ModelAnswered) { w.blocks(a.Message.Blocks) }),
	glovebox.EventModelFailed: on(func(w *writer, f glovebox.ModelFailed) {
		w.say("%s", f.Kind)
		w.data(f.Message)
	}),
	glovebox.EventToolStarted: on(func(w *writer, t glovebox.ToolStarted) { w.input(t.Input) }),
	glovebox.EventToolFinished: on(func(w *writer, t glovebox.ToolFinished) {
		switch {
		case t.Unknown:
			w.say("outcome unknown")
		case t.IsError:
			w.say("error")
		}
		if t.Blob != "" {
			w.say("cut; the whole is output %s", t.Blob)
		}
		w.blocks(t.Content)
	}),
	glovebox.EventNotice: on(func(w *writer, n glovebox.Notice) { w.data(n.Text) }),
	glovebox.EventPlan: on(func(w *writer, p glovebox.PlanUpdated) {
		for _, s := range p.Steps {
			w.data("[" + string(s.Status) + "] " + s.Text)
		}
	}),
	glovebox.EventQuestion: on(func(w *writer, q glovebox.QuestionAsked) { w.data(q.Text) }),
	glovebox.EventCheckpoint: on(func(w *writer, c glovebox.CheckpointSaved) {
		w.say("commit %s", oneWord(c.Commit))
		var b strings.Builder
		for _, f := range c.Changes {
			b.WriteString(f.Path + "\n")
		}
		w.data(b.String())
	}),
	glovebox.EventVerified: on(func(w *writer, v glovebox.Verified) {
		w.say("%s", map[bool]string{true: "passed", false: "failed"}[v.Passed])
		w.data(v.Summary)
		for _, p := range v.Proofs {
			w.say("exit code %d of:", p.ExitCode)
			w.data(p.Command + p.Page)
			w.data(p.Output)
		}
	}),
	glovebox.EventSummarized: on(func(w *writer, s glovebox.Summarized) {
		for _, x := range s.Summaries {
			w.say("of events %d to %d, by %s:", x.From, x.Through, x.By)
			w.data(x.Text)
		}
		w.data(s.Problem)
	}),
	glovebox.EventFolded: on(func(w *writer, f glovebox.Folded) {
		w.say("epoch %d: summaries stand for events 1 to %d (%s)", f.Epoch, f.Through, f.Reason)
	}),
	glovebox.EventInstructions: on(func(w *writer, r glovebox.InstructionsRead) {
		w.say("file:")
		w.data(r.Path)
		if r.Blob != "" {
			w.say("a part of it; the whole is output %s", r.Blob)
		}
		w.say("text:")
		w.data(r.Text)
	}),
	glovebox.EventProject: on(func(w *writer, p glovebox.ProjectRecalled) {
		w.say("project %s", p.Project)
		for _, f := range p.Files {
			w.say("file %s:", f.Name)
			w.data(f.Text)
		}
	}),
	glovebox.EventModelChanged: on(func(w *writer, m glovebox.ModelChanged) { w.say("%s", m.Model) }),
}

func on[T any](write func(*writer, T)) func(*writer, glovebox.Event) error {
	return func(w *writer, e glovebox.Event) error {
		v, err := glovebox.Decode[T](e)
		if err == nil {
			write(w, v)
		}
		return err
	}
}

// toolOf returns the tool that an event is about, for its header.
func toolOf(e glovebox.Event) string {
	if e.Type != glovebox.EventToolStarted && e.Type != glovebox.EventToolFinished {
		return ""
	}
	var t struct {
		Name string `json:"name"`
	}
	_ = json.Unmarshal(e.Data, &t) // Append shows what can't be decoded
	return t.Name
}

// blocks writes what a message or a result is made of. Bytes of images and
// what only its provider can read are left out.
func (w *writer) blocks(blocks []glovebox.Block) {
	for _, b := range blocks {
		switch b.Type {
		case glovebox.BlockText:
			w.data(b.Text)
		case glovebox.BlockReasoning:
			if b.Text != "" {
				w.say("reasoning:")
				w.data(b.Text)
			}
		case glovebox.BlockToolUse:
			w.say("calls %s (%s):", oneWord(b.Name), oneWord(b.CallID))
			w.input(b.Input)
		case glovebox.BlockImage:
			w.say("an image, %s, %d bytes%s", oneWord(b.MediaType), max(b.Size, int64(len(b.Data))), handle(b.Blob))
		case glovebox.BlockToolResult:
			w.blocks(b.Content)
		default:
			w.say("a block of the type %s", b.Type)
		}
	}
}

func handle(blob string) string {
	if blob == "" {
		return ""
	}
	return ", output " + blob
}

// input writes the input of a tool: each field of an object by itself, so
// that text in it keeps its lines.
func (w *writer) input(in json.RawMessage) {
	d := json.NewDecoder(bytes.NewReader(in))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		w.data(string(in))
		return
	}
	type field struct {
		name  string
		value json.RawMessage
	}
	var fields []field
	for d.More() {
		t, err := d.Token()
		name, ok := t.(string)
		var v json.RawMessage
		if err != nil || !ok || d.Decode(&v) != nil {
			w.data(string(in))
			return
		}
		fields = append(fields, field{name, v})
	}
	for _, f := range fields {
		var text string
		if json.Unmarshal(f.value, &text) != nil {
			text = string(f.value)
		}
		if strings.Contains(text, "\n") {
			w.data(f.name + ":")
			w.data(text)
			continue
		}
		w.data(f.name + ": " + text)
	}
}
