package tui_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/tui"
)

var update = flag.Bool("update", false, "write the golden files anew")

var start = time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)

// hostile is what a sandbox would write to take a terminal over: it clears
// the screen, sets the title, fills the clipboard, rings and reorders.
const hostile = "\x1b[2J\x1b]0;owned\x07\x1b]52;c;cm0gLXJm\x07\x07\u202ereversed\x9b31m"

// story is a job with everything in it. Events without a number are live only.
func story() []glovebox.Event {
	seq := int64(0)
	at := start
	log := func(typ glovebox.EventType, data any) glovebox.Event {
		seq++
		at = at.Add(700 * time.Millisecond)
		e := glovebox.NewEvent(at, typ, data)
		e.Seq = seq
		return e
	}
	text := func(s string) []glovebox.Block { return []glovebox.Block{glovebox.Text(s)} }
	plan := func(done int) glovebox.PlanUpdated {
		steps := []glovebox.PlanStep{{Text: "Set up", Status: "pending"}, {Text: "Build" + hostile, Status: "pending"}}
		for i := range steps {
			if i < done {
				steps[i].Status = glovebox.PlanDone
			} else if i == done {
				steps[i].Status = glovebox.PlanActive
			}
		}
		return glovebox.PlanUpdated{Steps: steps}
	}
	return []glovebox.Event{
		log(glovebox.EventCreated, glovebox.Created{ID: "06f2", Task: "Build me a todo app in React" + hostile, Model: "replay:x"}),
		log(glovebox.EventClaimed, glovebox.Claimed{Worker: "w", Fence: 1, Attempt: 1}),
		log(glovebox.EventSandboxReady, glovebox.SandboxReady{ID: "s", Driver: "gvisor", How: "created", DurationMS: 180,
			Enforced: map[string]string{"memory_bytes": "cgroup v2", "cpu_millis": "cgroup v2, controller cpu", "disk_bytes": "gVisor's sentry, the size of the overlay", "processes": "gVisor's sentry, a pids cgroup inside"}}),
		log(glovebox.EventPhase, glovebox.PhaseChanged{Phase: glovebox.PhaseWorking}),
		{Type: glovebox.EventModelDelta, Data: json.RawMessage(`{"type":"text","text":"I'll look"}`)},
		log(glovebox.EventModelAnswered, glovebox.ModelAnswered{Message: glovebox.Message{Blocks: text("I'll look at what is there." + hostile)},
			Usage: glovebox.Usage{Input: 12_000, Output: 345, CostMicros: 41_200}}),
		log(glovebox.EventPlan, plan(0)),
		log(glovebox.EventToolStarted, glovebox.ToolStarted{CallID: "c1", Name: "shell", Input: json.RawMessage(`{"command":"npm test\nnpm run build"}`)}),
		{Type: glovebox.EventToolOutput, Data: json.RawMessage(`{"call_id":"c1","text":"one\ntwo\n"}`)},
		log(glovebox.EventToolFinished, glovebox.ToolFinished{CallID: "c1", Name: "shell", DurationMS: 2345, Blob: "out-06f3", Content: text("1\n2\n3\n4\n\n5\n6" + hostile)}),
		log(glovebox.EventToolStarted, glovebox.ToolStarted{CallID: "c2", Name: "write_file", Input: json.RawMessage(`{"path":"src/App.jsx","content":"a\nb\n"}`)}),
		log(glovebox.EventToolFinished, glovebox.ToolFinished{CallID: "c2", Name: "write_file", DurationMS: 12, Content: text("written")}),
		log(glovebox.EventToolStarted, glovebox.ToolStarted{CallID: "c3", Name: "edit_file", Input: json.RawMessage(`{"path":"src/App.jsx"}`)}),
		log(glovebox.EventToolFinished, glovebox.ToolFinished{CallID: "c3", Name: "edit_file", DurationMS: 3, IsError: true, Content: text("old does not occur")}),
		log(glovebox.EventCheckpoint, glovebox.CheckpointSaved{Commit: "c", Changes: []glovebox.FileChange{{Path: "a", Added: 10, Deleted: 2}, {Path: "b.png", Added: -1, Deleted: -1}}}),
		log(glovebox.EventEgress, glovebox.EgressAttempted{Host: "registry.example", Port: 443, Allowed: true, BytesDown: 3 << 20}),
		log(glovebox.EventEgress, glovebox.EgressAttempted{Host: "registry.example", Port: 443, Allowed: true, BytesDown: 45 << 20, Cached: true}),
		log(glovebox.EventEgress, glovebox.EgressAttempted{Host: "169.254.169.254", Port: 80, Reason: "link-local address"}),
		log(glovebox.EventModelFailed, glovebox.ModelFailed{Kind: "overloaded", Message: "try later", Retry: true, WaitMS: 1500}),
		log(glovebox.EventNotice, glovebox.Notice{Text: "The same call was made three times with the same result."}),
		log(glovebox.EventQuestion, glovebox.QuestionAsked{CallID: "q", Text: "Which colour?", Until: start.Add(time.Hour)}),
		log(glovebox.EventUserMessage, glovebox.UserMessage{Text: "blue"}),
		log(glovebox.EventSandboxAwaited, glovebox.SandboxAwaited{Reason: "The machine image is copied." + hostile}),
		log(glovebox.EventSandboxLost, glovebox.SandboxLost{ID: "s", Cause: "killed: out of memory"}),
		log(glovebox.EventPlan, plan(2)),
		log(glovebox.EventVerified, glovebox.Verified{Summary: "A todo app.", Passed: true, Proofs: []glovebox.Proof{
			{Command: "npm test", DurationMS: 3100}, {Command: "false", ExitCode: 1, Output: "nope" + hostile},
			{Page: "http://localhost:4173/", Title: "Todo" + hostile, DurationMS: 900, Screenshot: "out-06f4"}}}),
		log(glovebox.EventArtifact, glovebox.ArtifactSaved{Artifact: glovebox.Artifact{SHA256: "0123456789abcdef", Size: 45_000, Files: 12}}),
		log(glovebox.EventFinished, glovebox.Finished{Status: glovebox.StatusComplete}),
	}
}

func printed(t *testing.T, o tui.Options, events []glovebox.Event) string {
	t.Helper()
	var b bytes.Buffer
	o.Now = func() time.Time { return start.Add(time.Minute) }
	p := tui.New(&b, o)
	for _, e := range events {
		if err := p.Event(e); err != nil {
			t.Fatalf("%s: %v", e.Type, err)
		}
		if o.Live {
			p.Tick()
		}
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := "testdata/" + name
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// The hour of a question's end is the reader's own.
	clock := regexp.MustCompile(`until \d\d:\d\d`)
	if clock.ReplaceAllString(got, "until") != clock.ReplaceAllString(string(want), "until") {
		t.Errorf("%s differs; look at it and run with -update:\n%s", path, got)
	}
}

func TestPlain(t *testing.T) {
	t.Parallel()
	got := printed(t, tui.Options{}, story())
	if strings.ContainsAny(got, "\x1b\x07\r") {
		t.Errorf("control characters in plain output: %q", got)
	}
	golden(t, "plain.txt", got)
}

func TestColor(t *testing.T) {
	t.Parallel()
	golden(t, "color.txt", printed(t, tui.Options{Color: true, Width: func() int { return 72 }}, story()))
}

// TestHostileTextIsInert looks for any escape sequence that is not one of
// the printer's own: colours, and moving up over its own status.
func TestHostileTextIsInert(t *testing.T) {
	t.Parallel()
	got := printed(t, tui.Options{Color: true, Live: true}, story())
	rest := regexp.MustCompile("\x1b\\[[0-9;]*m|\x1b\\[\\d+A\r\x1b\\[J").ReplaceAllString(got, "")
	for _, bad := range []string{"\x1b", "\x07", "\x9b", "\u009b", "\u202e", "owned", "cm0gLXJm", "\r"} {
		if i := strings.Index(rest, bad); i >= 0 {
			t.Errorf("%q came through: %q", bad, rest[max(0, i-40):i+20])
		}
	}
}

// TestTyped: what is typed is shown below the status until it is said, the end
// of it if it is long, and nothing of it stays.
func TestTyped(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	p := tui.New(&b, tui.Options{Live: true, Width: func() int { return 40 }, Now: func() time.Time { return start }})
	p.Listen()
	events := story()
	if err := p.Event(events[0]); err != nil {
		t.Fatal(err)
	}
	last := func() string {
		s := b.String()
		return s[strings.LastIndex(s, "\x1b[")+len("\x1b[J"):]
	}
	if p.Typed("make it blue" + hostile); !strings.Contains(last(), "  you › make it blue") || strings.ContainsAny(last(), "\x07\u202e") {
		t.Errorf("shown %q", last())
	}
	if p.Typed(strings.Repeat("x", 100) + " the end "); !strings.Contains(last(), "xx the end \n") || strings.Contains(last(), strings.Repeat("x", 40)) {
		t.Errorf("shown %q", last())
	}
	if p.Warn("it could\x1b[2J not be said"); !strings.Contains(last(), "  ! it could not be said\n") || !strings.Contains(last(), "the end") {
		t.Errorf("shown %q", last())
	}
	if p.Typed(""); strings.Contains(last(), "you ›") {
		t.Errorf("shown %q", last())
	}
	q := glovebox.NewEvent(start, glovebox.EventQuestion, glovebox.QuestionAsked{CallID: "q", Text: "Which?", Until: start})
	q.Seq = events[0].Seq + 1
	if err := p.Event(q); err != nil || !strings.Contains(b.String(), "type the answer and press Enter") {
		t.Errorf("%v: %q", err, last())
	}
}

// TestToolOutputForPeople: what a tool says to the model alone is not shown,
// and the last line of a file counts also without its end.
func TestToolOutputForPeople(t *testing.T) {
	t.Parallel()
	events := story()[:1]
	add := func(typ glovebox.EventType, data any) {
		e := glovebox.NewEvent(start, typ, data)
		e.Seq = int64(len(events) + 1)
		events = append(events, e)
	}
	call := func(name, input, output, blob string) {
		id := string(rune('a' + len(events)))
		add(glovebox.EventToolStarted, glovebox.ToolStarted{CallID: id, Name: name, Input: json.RawMessage(input)})
		add(glovebox.EventToolFinished, glovebox.ToolFinished{CallID: id, Name: name, Blob: blob, Content: []glovebox.Block{glovebox.Text(output)}})
	}
	call("write_file", `{"path":"one.txt","content":"one"}`, "", "")
	call("write_file", `{"path":"none.txt","content":""}`, "", "")
	call("run_tests", `{}`, "npm test: exit 0\n2 passed\n[whole output: read_output with handle \"out-1\"]", "out-1")
	call("shell", `{"command":"x"}`, "a\n[... 9 bytes in 2 lines left out, from line 2 on; read_output with handle \"out-2\" has the whole ...]\nb", "out-2")
	got := printed(t, tui.Options{}, events)
	for _, want := range []string{"one.txt (1 line)", "none.txt (0 lines)", "    2 passed\n    whole output: glovebox jobs output 06f2 out-1\n", "    [... 9 bytes in 2 lines left out ...]\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in:\n%s", want, got)
		}
	}
	if strings.Contains(got, "read_output") {
		t.Errorf("it names a tool of the model:\n%s", got)
	}
}

// TestTotalsWrap: the line at the end is no wider than the terminal.
func TestTotalsWrap(t *testing.T) {
	t.Parallel()
	got := printed(t, tui.Options{Width: func() int { return 50 }}, story())
	_, end, _ := strings.Cut(got, "  done in")
	for l := range strings.Lines("  done in" + end) {
		if n := len([]rune(strings.TrimSuffix(l, "\n"))); n > 50 {
			t.Errorf("%d columns: %q", n, l)
		}
	}
	if !strings.Contains(end, "working 15.4s\n") || strings.Count(end, "\n") < 3 {
		t.Errorf("the end: %q", end)
	}
}

// TestAlone: where no other command reaches the job, none is named.
func TestAlone(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	p := tui.New(&b, tui.Options{})
	p.Alone()
	for _, e := range story() {
		if err := p.Event(e); err != nil {
			t.Fatal(err)
		}
	}
	got := b.String()
	if strings.Contains(got, "glovebox jobs") || strings.Contains(got, "out-06f3") {
		t.Errorf("it names what can't be done:\n%s", got)
	}
	if !strings.Contains(got, "nobody can answer here") || !strings.Contains(got, "… 2 more lines\n") {
		t.Errorf("printed:\n%s", got)
	}
}

// TestLiveLeavesWhatPlainPrints plays the output of the live printer on a
// tiny terminal: what stays on it is what the plain printer prints.
func TestLiveLeavesWhatPlainPrints(t *testing.T) {
	t.Parallel()
	var screen []string
	for _, part := range regexp.MustCompile("\x1b\\[(\\d+)A\r\x1b\\[J|[^\x1b]+").FindAllStringSubmatch(printed(t, tui.Options{Live: true}, story()), -1) {
		if part[1] != "" {
			up := 0
			for _, d := range part[1] {
				up = up*10 + int(d-'0')
			}
			screen = screen[:len(screen)-up]
			continue
		}
		screen = append(screen, strings.SplitAfter(strings.TrimSuffix(part[0], "\n"), "\n")...)
	}
	var b strings.Builder
	for _, l := range screen {
		b.WriteString(strings.TrimSuffix(l, "\n") + "\n")
	}
	if want := printed(t, tui.Options{}, story()); b.String() != want {
		t.Errorf("left on the screen:\n%s\nwant:\n%s", b.String(), want)
	}
}

// TestControlForPeople: who holds mouse and keyboard, and what changed.
func TestControlForPeople(t *testing.T) {
	t.Parallel()
	var events []glovebox.Event
	for i, c := range []glovebox.ControlChanged{
		{Control: glovebox.ControlUser}, {Commit: "c", Changes: []glovebox.FileChange{{Path: "a"}, {Path: "b"}}}, {Opened: []string{"\x1b[2J"}},
	} {
		e := glovebox.NewEvent(start, glovebox.EventControl, c)
		e.Seq = int64(i + 2)
		events = append(events, e)
	}
	got := printed(t, tui.Options{}, append(story()[:1], events...))
	for _, want := range []string{"a person holds mouse and keyboard", "are the agent's again 2 files changed meanwhile"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %s", want, got)
		}
	}
}
