package tui

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox"
)

// shows holds how each type of event is shown; the others are not.
var shows map[glovebox.EventType]func(*Printer, glovebox.Event) error

func init() {
	shows = map[glovebox.EventType]func(*Printer, glovebox.Event) error{
		glovebox.EventCreated:       show((*Printer).onCreated),
		glovebox.EventClaimed:       show((*Printer).onClaimed),
		glovebox.EventReleased:      show((*Printer).onReleased),
		glovebox.EventSandboxReady:  show((*Printer).onSandboxReady),
		glovebox.EventSandboxLost:   show((*Printer).onSandboxLost),
		glovebox.EventModelDelta:    show((*Printer).onDelta),
		glovebox.EventModelAnswered: show((*Printer).onAnswered),
		glovebox.EventModelFailed:   show((*Printer).onModelFailed),
		glovebox.EventToolStarted:   show((*Printer).onToolStarted),
		glovebox.EventToolOutput:    show((*Printer).onToolOutput),
		glovebox.EventToolFinished:  show((*Printer).onToolFinished),
		glovebox.EventPlan:          show((*Printer).onPlan),
		glovebox.EventNotice:        show((*Printer).onNotice),
		glovebox.EventQuestion:      show((*Printer).onQuestion),
		glovebox.EventUserMessage:   show((*Printer).onUserMessage),
		glovebox.EventControl:       show((*Printer).onControl),
		glovebox.EventCheckpoint:    show((*Printer).onCheckpoint),
		glovebox.EventEgress:        show((*Printer).onEgress),
		glovebox.EventVerified:      show((*Printer).onVerified),
		glovebox.EventArtifact:      show((*Printer).onArtifact),
		glovebox.EventFinished:      show((*Printer).onFinished),
		glovebox.EventFolded:        show((*Printer).onFolded),
		glovebox.EventInstructions:  show((*Printer).onInstructions),
		glovebox.EventProject:       show((*Printer).onProject),
		glovebox.EventModelChanged:  show((*Printer).onModelChanged),
		glovebox.EventSandboxAwaited: show(func(p *Printer, s glovebox.SandboxAwaited, _ time.Time) {
			p.line("  %s %s", p.paint("…", yellow), oneLine(s.Reason))
		}),
		glovebox.EventLimitsRaised: show(func(p *Printer, _ glovebox.LimitsRaised, _ time.Time) {
			p.line("  %s limits raised", p.paint("↑", yellow))
		}),
	}
}

func show[T any](f func(*Printer, T, time.Time)) func(*Printer, glovebox.Event) error {
	return func(p *Printer, e glovebox.Event) error {
		v, err := glovebox.Decode[T](e)
		if err == nil {
			f(p, v, e.Time)
		}
		return err
	}
}

func (p *Printer) onCreated(c glovebox.Created, _ time.Time) {
	p.line("")
	for i, l := range p.wrap(clean(c.Task), 4) {
		if i == 8 {
			p.line("    %s", p.paint("…", faint))
			break
		}
		p.line("  %s", p.paint(l, bold))
	}
	p.line("  %s", p.paint("job "+c.ID+" · "+oneLine(c.Model), faint))
	p.line("")
}

func (p *Printer) onClaimed(c glovebox.Claimed, _ time.Time) {
	if c.Attempt > 1 {
		p.line("  %s taken up again, for the %s time", p.paint("↻", yellow), ordinal(c.Attempt))
	}
}

func ordinal(n int64) string {
	switch {
	case n%10 == 2 && n%100 != 12:
		return fmt.Sprintf("%dnd", n)
	case n%10 == 3 && n%100 != 13:
		return fmt.Sprintf("%drd", n)
	case n%10 == 1 && n%100 != 11:
		return fmt.Sprintf("%dst", n)
	}
	return fmt.Sprintf("%dth", n)
}

func (p *Printer) onReleased(r glovebox.Released, _ time.Time) {
	p.line("  %s handed over: %s", p.paint("↻", yellow), oneLine(r.Reason))
}

func (p *Printer) onSandboxReady(s glovebox.SandboxReady, _ time.Time) {
	p.line("  %s machine %s %s", p.paint("✓", green), s.How, p.paint("in "+millis(s.DurationMS), faint))
	by := map[string][]string{}
	for limit, how := range s.Enforced {
		how, _, _ = strings.Cut(how, ",") // the rest is detail: "cgroup v1, controller memory"
		by[how] = append(by[how], strings.TrimSuffix(strings.TrimSuffix(limit, "_bytes"), "_millis"))
	}
	var parts []string
	for _, how := range slices.Sorted(maps.Keys(by)) {
		slices.Sort(by[how])
		parts = append(parts, strings.Join(by[how], ", ")+" held by "+how)
	}
	if len(parts) > 0 {
		for _, l := range p.wrap(oneLine(s.Driver+"; "+strings.Join(parts, "; ")), 4) {
			p.line("    %s", p.paint(l, faint))
		}
	}
	p.line("")
}

func (p *Printer) onSandboxLost(s glovebox.SandboxLost, _ time.Time) {
	p.tool = running{}
	p.line("  %s the machine was lost: %s", p.paint("✗", red), oneLine(s.Cause))
}

func (p *Printer) onDelta(d glovebox.ModelDelta, _ time.Time) {
	if d.Type == glovebox.BlockToolUse {
		return
	}
	if p.spoken.Len() > 64<<10 {
		p.spoken.Reset()
	}
	p.spoken.WriteString(d.Text)
}

func (p *Printer) onAnswered(a glovebox.ModelAnswered, _ time.Time) {
	p.spoken.Reset()
	for _, b := range a.Message.Blocks {
		if b.Type == glovebox.BlockText && strings.TrimSpace(b.Text) != "" {
			for _, l := range p.wrap(strings.TrimSpace(clean(b.Text)), 4) {
				p.line("  %s", l)
			}
		}
	}
}

func (p *Printer) onModelFailed(f glovebox.ModelFailed, _ time.Time) {
	p.spoken.Reset()
	again := ""
	if f.Retry {
		again = "; asked again in " + millis(f.WaitMS)
	}
	p.line("  %s %s", p.paint("!", yellow), p.fit("the model failed ("+oneLine(f.Kind)+"): "+oneLine(f.Message)+again, 4))
}

func (p *Printer) onToolStarted(s glovebox.ToolStarted, at time.Time) {
	p.tool = running{callID: s.CallID, name: oneLine(s.Name), since: at}
	p.inputs[s.CallID] = summarize(s.Name, s.Input)
}

func (p *Printer) onToolOutput(o glovebox.ToolOutput, _ time.Time) {
	if o.CallID == p.tool.callID {
		s := p.tool.output + o.Text
		p.tool.output = s[max(0, len(s)-8<<10):]
	}
}

// quiet are tools whose result says nothing that is not shown otherwise.
var quiet = map[string]bool{"plan": true, "finish": true, "ask_user": true}

// folded are tools whose output is worth a few lines.
var folded = map[string]bool{"shell": true, "shell_output": true, "run_tests": true, "search_files": true}

func (p *Printer) onToolFinished(f glovebox.ToolFinished, _ time.Time) {
	summary := p.inputs[f.CallID]
	delete(p.inputs, f.CallID)
	if p.tool.callID == f.CallID {
		p.tool = running{}
	}
	if quiet[f.Name] && !f.IsError {
		return
	}
	mark := p.paint("✓", green)
	switch {
	case f.Unknown:
		mark = p.paint("?", yellow)
	case f.IsError:
		mark = p.paint("✗", red)
	}
	took := millis(f.DurationMS)
	if summary != "" {
		summary = " " + p.fit(summary, len(f.Name)+len(took)+8)
	}
	p.line("  %s %s%s %s", mark, p.paint(oneLine(f.Name), bold), summary, p.paint(took, faint))
	n := 0
	switch {
	case f.IsError || f.Unknown:
		n = 8
	case folded[f.Name]:
		n = outputLines
	}
	if n == 0 {
		return
	}
	var text strings.Builder
	for _, b := range f.Content {
		if b.Type == glovebox.BlockText {
			text.WriteString(b.Text + "\n")
		}
	}
	shown, kept := text.String(), false
	if f.Blob != "" {
		shown, kept = withoutHandles(shown)
	}
	last, before := lastLines(clean(shown), n)
	if before > 0 && len(last) > 0 {
		more := "… " + plural(before, "more line")
		if f.Blob != "" && !p.alone {
			more += "; all: " + oneLine(f.Blob)
		}
		p.line("    %s", p.paint(p.fit(more, 4), faint))
	}
	for _, l := range last {
		p.line("    %s", p.paint(p.fit(l, 5), faint))
	}
	if kept && before == 0 && !p.alone { // else it is said above the lines; not cut, to be pasted
		p.line("    %s", p.paint("whole output: glovebox jobs output "+p.job.ID+" "+oneLine(f.Blob), faint))
	}
}

// summarize says in one line what a call is about.
func summarize(name string, input json.RawMessage) string {
	var in map[string]any
	if json.Unmarshal(input, &in) != nil {
		return ""
	}
	str := func(key string) string { s, _ := in[key].(string); return oneLine(s) }
	switch name {
	case "shell":
		s := str("command")
		if dir := str("cwd"); dir != "" {
			s = "(" + dir + ") " + s
		}
		return s
	case "write_file":
		content, _ := in["content"].(string)
		return fmt.Sprintf("%s (%s)", str("path"), plural(lineCount(content), "line"))
	case "preview":
		s := str("command")
		if port, is := in["port"].(float64); is {
			s = strings.TrimSpace(fmt.Sprintf("%s :%d%s", s, int(port), str("path")))
		}
		if s == "" {
			s = str("path")
		}
		return s
	case "gui":
		return strings.Join(strings.Fields(str("action")+" "+str("target")+" "+str("text")+" "+str("window")), " ")
	case "recall":
		return strings.TrimSpace(strings.Join(strings.Fields(str("words")+" "+str("regexp")+" "+str("file")+" "+str("tool")), " "))
	case "open_event":
		if n, is := in["event"].(float64); is {
			return fmt.Sprintf("%d", int64(n))
		}
		return ""
	case "move_file":
		return str("from") + " → " + str("to")
	case "install_package":
		var names []string
		list, _ := in["packages"].([]any)
		for _, v := range list {
			if s, ok := v.(string); ok {
				names = append(names, oneLine(s))
			}
		}
		return str("manager") + " " + strings.Join(names, " ")
	}
	for _, key := range []string{"path", "pattern", "id", "handle", "name", "question", "cwd"} {
		if s := str(key); s != "" {
			return s
		}
	}
	return ""
}

func (p *Printer) onControl(c glovebox.ControlChanged, _ time.Time) {
	if c.Control == glovebox.ControlUser {
		p.line("  %s a person holds mouse and keyboard", p.paint("☝", yellow))
		return
	}
	changed := ""
	if c.Commit != "" { // else it is not known
		changed = p.paint(plural(len(c.Changes), "file")+" changed meanwhile", faint)
	}
	p.line("  %s mouse and keyboard are the agent's again %s", p.paint("☝", green), changed)
}
