package tui_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/tui"
)

// TestMemory: what the model has before it is said in a line each, and what
// is foreign in it can't take the terminal over.
func TestMemory(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := tui.New(&out, tui.Options{Width: func() int { return 80 }})
	seq := int64(0)
	for _, x := range []struct {
		typ  glovebox.EventType
		data any
	}{
		{glovebox.EventCreated, glovebox.Created{ID: "06f2", Task: "t", Model: "m:x"}},
		{glovebox.EventProject, glovebox.ProjectRecalled{Project: "billing" + hostile, Files: []glovebox.ProjectFile{{Name: "conventions.md"}, {Name: "a" + hostile}}}},
		{glovebox.EventInstructions, glovebox.InstructionsRead{Path: "AGENTS.md" + hostile, Text: "x"}},
		{glovebox.EventInstructions, glovebox.InstructionsRead{Path: "AGENTS.md"}},
		{glovebox.EventFolded, glovebox.Folded{Epoch: 2, Reason: glovebox.FoldFull, Before: 61_000, Use: glovebox.WindowUse{Head: 9_000, Tail: 21_000}}},
		{glovebox.EventFolded, glovebox.Folded{Epoch: 3, Reason: "odd" + hostile}},
		{glovebox.EventModelChanged, glovebox.ModelChanged{Model: "openai:y" + hostile}},
	} {
		seq++
		e := glovebox.NewEvent(start.Add(time.Duration(seq)*time.Second), x.typ, x.data)
		e.Seq = seq
		if err := p.Event(e); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{
		"known of the project billing", "conventions.md, a", "instructions were read from AGENTS.md", "the instructions in AGENTS.md are gone",
		"history was folded, 61.0k tokens became 30.0k: the window was full", "history was folded: odd", "openai:y", " goes on",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, out.String())
		}
	}
	if strings.ContainsAny(out.String(), "\x1b\x07\u202e") {
		t.Errorf("foreign text came through: %q", out.String())
	}
}
