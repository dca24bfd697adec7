package tui

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/glovebox-dev/glovebox"
)

// Options configures a Printer.
type Options struct {
	Color bool
	Live  bool             // keep a status line at the bottom, redrawn in place; only for terminals
	Width func() int       // columns of the terminal; nil means 100
	Now   func() time.Time // nil means time.Now
}

// Printer shows the events of one job. Its methods may be called from many
// goroutines.
type Printer struct {
	o Options

	mu     sync.Mutex
	w      io.Writer
	job    glovebox.Job
	plan   []glovebox.PlanStep
	tool   running           // the newest tool that has not finished
	inputs map[string]string // summary of each call, by id, until it has finished
	spoken strings.Builder   // what the model is saying, not yet in the log
	egress egressTotal
	typed  string // what a person is typing
	heard  bool   // what is typed is said to the job
	alone  bool   // nobody else can reach the job
	footer int    // lines of the status that are on the screen
	frame  int    // of the spinner
	err    error
}

// running is a tool at work.
type running struct {
	callID, name string
	since        time.Time
	output       string // the end of it
}

// egressTotal sums up what the sandbox reached.
type egressTotal struct {
	hosts  map[string]bool
	down   int64
	cached int64 // bytes that came from the host's own cache
}

// New returns a Printer that writes to w.
func New(w io.Writer, o Options) *Printer {
	if o.Width == nil {
		o.Width = func() int { return 100 }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Printer{o: o, w: w, inputs: map[string]string{}, egress: egressTotal{hosts: map[string]bool{}}}
}

// Event shows the next event: one of the log, or one that is only seen live.
func (p *Printer) Event(e glovebox.Event) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e.Seq != 0 {
		if err := p.job.Apply(e); err != nil {
			return err
		}
	}
	p.erase()
	if show, ok := shows[e.Type]; ok {
		if err := show(p, e); err != nil {
			return err
		}
	}
	p.draw()
	return p.err
}

// Tick moves the spinner and the clock of the status line.
func (p *Printer) Tick() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.frame++
	p.erase()
	p.draw()
}

// Listen notes that what is typed here is said to the job.
func (p *Printer) Listen() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heard = true
}

// Alone notes that the job is on no server that other commands can reach:
// none of them is named.
func (p *Printer) Alone() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.alone = true
}

// Typed shows what a person is typing below the status.
func (p *Printer) Typed(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.typed = oneLine(text)
	if strings.HasSuffix(text, " ") {
		p.typed += " "
	}
	p.erase()
	p.draw()
}

// Warn shows a line that is not about an event.
func (p *Printer) Warn(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.erase()
	for _, l := range p.wrap(clean(text), 4) {
		p.line("  %s %s", p.paint("!", yellow), l)
	}
	p.draw()
}

// Close takes the status line away.
func (p *Printer) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.erase()
	p.o.Live = false
	return p.err
}

// Job returns the state that the events so far amount to.
func (p *Printer) Job() glovebox.Job {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.job
}

// line writes one line that stays.
func (p *Printer) line(format string, args ...any) {
	p.write(fmt.Sprintf(format, args...) + "\n")
}

func (p *Printer) write(s string) {
	if p.err == nil {
		_, p.err = io.WriteString(p.w, s)
	}
}

// erase removes the status from the screen.
func (p *Printer) erase() {
	if p.footer > 0 {
		p.write(fmt.Sprintf("\x1b[%dA\r\x1b[J", p.footer))
		p.footer = 0
	}
}

// outputLines is how many lines of a running tool's output are shown.
const outputLines = 4

var spinner = []string{"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"}

// draw puts the status on the screen: what is being said or written right
// now, and a line that sums the job up.
func (p *Printer) draw() {
	if !p.o.Live || p.job.Seq == 0 || p.job.Status.Terminal() {
		return
	}
	var lines []string
	text := p.spoken.String()
	if p.tool.name != "" {
		text = p.tool.output
	}
	last, _ := lastLines(clean(text), outputLines)
	for _, l := range last {
		lines = append(lines, p.paint(p.fit("    "+l, 1), faint))
	}
	lines = append(lines, p.fit(p.paint("  "+spinner[p.frame%len(spinner)], cyan)+" "+p.summary(), 1))
	if p.typed != "" {
		// The end of it is what is being typed.
		room := max(20, p.o.Width()-8)
		text := ansi.TruncateLeft(p.typed, max(0, ansi.StringWidth(p.typed)-room), "…")
		lines = append(lines, "  "+p.paint("you ›", cyan)+" "+text)
	}
	p.write(strings.Join(lines, "\n") + "\n")
	p.footer = len(lines)
}

// summary is the job on one line.
func (p *Printer) summary() string {
	now := p.o.Now()
	parts := []string{p.paint(string(p.job.Phase), bold)}
	if p.tool.name != "" {
		parts[0] = p.paint(p.tool.name, bold) + " " + duration(now.Sub(p.tool.since))
	}
	if done, total := planned(p.job.Plan); total > 0 {
		parts = append(parts, fmt.Sprintf("plan %d/%d", done, total))
	}
	parts = append(parts, fmt.Sprintf("step %d", p.job.Step), p.cost(), duration(p.job.WorkedFor(now)))
	return strings.Join(parts, p.paint(" · ", faint))
}

// cost is tokens and money so far.
func (p *Printer) cost() string {
	s := count(p.job.Usage.Tokens()) + " tokens"
	if p.job.Usage.CostMicros > 0 {
		s += fmt.Sprintf(" · $%.4f", float64(p.job.Usage.CostMicros)/1e6)
	}
	return s
}

func planned(plan []glovebox.PlanStep) (done, total int) {
	for _, s := range plan {
		if s.Status == glovebox.PlanDone {
			done++
		}
	}
	return done, len(plan)
}
