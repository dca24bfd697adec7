package tui

import (
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox"
)

// foldReasons says why history was folded.
var foldReasons = map[glovebox.FoldReason]string{
	glovebox.FoldFull: "the window was full", glovebox.FoldCold: "the cache had expired", glovebox.FoldRefused: "the provider found the request too long",
	glovebox.FoldBytes: "images and text weighed too much", glovebox.FoldModel: "another model goes on",
}

func (p *Printer) onFolded(f glovebox.Folded, _ time.Time) {
	why := foldReasons[f.Reason]
	if why == "" {
		why = oneLine(string(f.Reason))
	}
	size := ""
	if after := f.Use.Tokens(); f.Before > 0 && after > 0 {
		size = ", " + count(f.Before) + " tokens became " + count(after)
	}
	p.line("  %s %s", p.paint("≡", cyan), p.paint(p.fit("history was folded"+size+": "+why, 4), faint))
}

func (p *Printer) onInstructions(i glovebox.InstructionsRead, _ time.Time) {
	if i.Text == "" {
		p.line("  %s %s", p.paint("≡", cyan), p.paint(p.fit("the instructions in "+oneLine(i.Path)+" are gone", 4), faint))
		return
	}
	p.line("  %s %s", p.paint("≡", cyan), p.paint(p.fit("instructions were read from "+oneLine(i.Path), 4), faint))
}

func (p *Printer) onProject(r glovebox.ProjectRecalled, _ time.Time) {
	names := make([]string, 0, len(r.Files))
	for _, f := range r.Files {
		names = append(names, oneLine(f.Name))
	}
	what := strings.Join(names, ", ")
	if what == "" {
		what = "nothing yet"
	}
	p.line("  %s %s", p.paint("≡", cyan), p.paint(p.fit("known of the project "+oneLine(r.Project)+": "+what, 4), faint))
}

func (p *Printer) onModelChanged(m glovebox.ModelChanged, _ time.Time) {
	p.line("  %s %s goes on", p.paint("↻", yellow), p.fit(oneLine(m.Model), 14))
}
