package tui

import (
	"fmt"
	"slices"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/glovebox-dev/glovebox"
)

var planMarks = map[glovebox.PlanStatus]string{
	glovebox.PlanPending: "○", glovebox.PlanActive: "◐", glovebox.PlanDone: "●",
}

// onPlan shows a new plan whole, and of one that goes on what changed.
func (p *Printer) onPlan(u glovebox.PlanUpdated, _ time.Time) {
	before := p.plan
	p.plan = u.Steps
	same := slices.EqualFunc(before, u.Steps, func(a, b glovebox.PlanStep) bool { return a.Text == b.Text })
	p.line("")
	for i, s := range u.Steps {
		if same && before[i].Status == s.Status {
			continue
		}
		text := p.fit(oneLine(s.Text), 8)
		mark := planMarks[s.Status]
		switch s.Status {
		case glovebox.PlanDone:
			p.line("    %s %s", p.paint(mark, green), p.paint(text, faint))
		case glovebox.PlanActive:
			p.line("    %s %s", p.paint(mark, cyan), p.paint(text, bold))
		default:
			p.line("    %s %s", p.paint(mark, faint), text)
		}
	}
	p.line("")
}

func (p *Printer) onNotice(n glovebox.Notice, _ time.Time) {
	for i, l := range p.wrap(clean(n.Text), 4) {
		mark := " "
		if i == 0 {
			mark = "!"
		}
		p.line("  %s %s", p.paint(mark, yellow), l)
	}
}

func (p *Printer) onQuestion(q glovebox.QuestionAsked, _ time.Time) {
	p.line("")
	for _, l := range p.wrap(clean(q.Text), 4) {
		p.line("  %s %s", p.paint("?", cyan), p.paint(l, bold))
	}
	how := fmt.Sprintf(`answer with: glovebox jobs say %s "..."`, p.job.ID)
	until := q.Until.Local().Format("15:04")
	switch {
	case p.heard:
		how = "type the answer and press Enter"
	case p.alone:
		how = "nobody can answer here: at " + until + " the job goes on by its own judgement"
	}
	if p.heard || !p.alone {
		how += "  (until " + until + ")"
	}
	for _, l := range p.wrap(how, 4) {
		p.line("    %s", p.paint(l, faint))
	}
	p.line("")
}

func (p *Printer) onUserMessage(m glovebox.UserMessage, _ time.Time) {
	for _, l := range p.wrap(clean(m.Text), 6) {
		p.line("  %s %s", p.paint("you ›", cyan), l)
	}
	if m.Blob != "" {
		p.line("        %s", p.paint("the beginning of "+size(m.Size), faint))
	}
}

func (p *Printer) onCheckpoint(c glovebox.CheckpointSaved, _ time.Time) {
	if len(c.Changes) == 0 {
		return
	}
	var added, deleted int64
	for _, f := range c.Changes {
		added, deleted = added+max(0, f.Added), deleted+max(0, f.Deleted)
	}
	p.line("    %s %s %s", p.paint(plural(len(c.Changes), "file"), faint),
		p.paint(fmt.Sprintf("+%d", added), green), p.paint(fmt.Sprintf("-%d", deleted), red))
}

func (p *Printer) onEgress(a glovebox.EgressAttempted, _ time.Time) {
	if a.Allowed && a.Cached {
		p.egress.cached += a.BytesDown
		return
	}
	if a.Allowed {
		p.egress.hosts[a.Host] = true
		p.egress.down += a.BytesDown
		return
	}
	p.line("  %s %s", p.paint("⊘", yellow), p.fit(fmt.Sprintf("refused: %s:%d (%s)", oneLine(a.Host), a.Port, oneLine(a.Reason)), 4))
}

func (p *Printer) onVerified(v glovebox.Verified, _ time.Time) {
	p.line("")
	p.line("  %s", p.paint("Verification", bold))
	for _, proof := range v.Proofs {
		mark := p.paint("✓", green)
		if proof.ExitCode != 0 {
			mark = p.paint("✗", red)
		}
		took := millis(proof.DurationMS)
		what := proof.Command
		if proof.Page != "" {
			what = proof.Page
			if proof.Title != "" {
				what += " \u201c" + proof.Title + "\u201d"
			}
		}
		p.line("    %s %s %s", mark, p.fit(oneLine(what), len(took)+8), p.paint(took, faint))
		if proof.ExitCode != 0 {
			last, _ := lastLines(clean(proof.Output), 8)
			for _, l := range last {
				p.line("      %s", p.paint(p.fit(l, 7), faint))
			}
		}
	}
}

func (p *Printer) onArtifact(a glovebox.ArtifactSaved, _ time.Time) {
	p.line("    %s %s", p.paint("✓", green), fmt.Sprintf("packed %s, %s %s", plural(a.Artifact.Files, "file"), size(a.Artifact.Size), p.paint("sha256 "+a.Artifact.SHA256[:min(12, len(a.Artifact.SHA256))], faint)))
}

func (p *Printer) onFinished(f glovebox.Finished, at time.Time) {
	p.line("")
	switch f.Status {
	case glovebox.StatusComplete:
		for _, l := range p.wrap(clean(p.job.Summary), 4) {
			p.line("  %s", l)
		}
		p.line("")
		p.ended("done", green, at)
	case glovebox.StatusCancelled:
		p.ended("cancelled", yellow, at)
	default:
		p.ended("failed", red, at)
		if f.Failure != nil {
			for _, l := range p.wrap(clean(f.Failure.Message), 4) {
				p.line("  %s", l)
			}
			for _, l := range p.wrap(clean(f.Failure.Hint), 4) {
				p.line("  %s", p.paint(l, faint))
			}
		}
	}
}

// ended shows how the job ended and its totals, on as many lines as it takes.
func (p *Printer) ended(how string, color style, at time.Time) {
	const sep = " · "
	room := max(20, p.o.Width()-4)
	line, used := p.paint(how, color, bold)+" ", ansi.StringWidth(how)+1
	var part string
	for i, s := range p.totals(at) {
		w := ansi.StringWidth(s)
		if i > 0 && used+ansi.StringWidth(sep)+w > room {
			p.line("  %s", line+p.paint(part, faint))
			line, part, used = "  ", "", 2
		} else if i > 0 {
			part, used = part+sep, used+ansi.StringWidth(sep)
		}
		part, used = part+s, used+w
	}
	p.line("  %s", line+p.paint(part, faint))
}

// totals is where the time and the money went.
func (p *Printer) totals(at time.Time) []string {
	parts := []string{"in " + duration(at.Sub(p.job.CreatedAt)), plural(p.job.Step, "step"), p.cost()}
	if n := len(p.egress.hosts); n > 0 {
		parts = append(parts, fmt.Sprintf("%s from %s", size(p.egress.down), plural(n, "host")))
	}
	if n := p.egress.cached; n > 0 {
		parts = append(parts, size(n)+" of packages from the cache")
	}
	for _, ph := range []glovebox.Phase{glovebox.PhaseQueued, glovebox.PhasePreparing, glovebox.PhaseWorking, glovebox.PhaseWaiting, glovebox.PhaseVerifying, glovebox.PhasePacking} {
		if ms := p.job.PhaseMillis[ph]; ms >= 50 {
			parts = append(parts, string(ph)+" "+millis(ms))
		}
	}
	return parts
}
