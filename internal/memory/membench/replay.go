package membench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
	"github.com/glovebox-dev/glovebox/internal/memory"
)

// MaxEvent is the most bytes of a line of a log that is replayed.
const MaxEvent = 32 << 20

// ReplayOptions say how a log is replayed.
type ReplayOptions struct {
	// Memory and Info return what requests to a model depend on.
	Model func(name string) (memory.Options, llm.Info, error)

	Name         string // of the model, "provider:model"; empty for the one that the log names
	SummaryRatio int64  // see Options; 0 is DefaultRatio
}

// Replayed is what came of a log's replay.
type Replayed struct {
	Job      string   `json:"job"`
	Models   []string `json:"models"` // in the order in which they came to it
	Events   int64    `json:"events"`
	Recorded bool     `json:"recorded"` // folds are those of the log; else the engine decided them anew
	Digests  int64    `json:"digests"`  // summaries that the log does not have: digests stood in
	Epochs   []Epoch  `json:"epochs"`
	Total    Spent    `json:"total"`
	Peers    []Spent  `json:"peers"`
	Priced   bool     `json:"priced"` // all models have prices
}

// Epoch is a stretch of a job in which its request only grew.
type Epoch struct {
	Number int64               `json:"number"`
	Model  string              `json:"model"`            // that was asked last
	Reason glovebox.FoldReason `json:"reason,omitempty"` // that it began; empty for the first
	First  int64               `json:"first"`            // step
	Last   int64               `json:"last"`             // step
	Begins int64               `json:"begins"`           // tokens of its first request
	Ends   int64               `json:"ends"`             // tokens of its last request
	Use    glovebox.WindowUse  `json:"use"`              // of its last request
	Spent
}

// Spent is what requests cost, in the simulated cache.
type Spent struct {
	Name   string         `json:"name,omitempty"`
	Usage  glovebox.Usage `json:"usage"`
	Share  float64        `json:"share"` // of the input that was read from the cache
	Cost   float64        `json:"cost"`  // in tokens of uncached input
	Micros int64          `json:"micros,omitempty"`
	Breaks int64          `json:"breaks"`
}

// spent returns what lies between two tallies.
func spent(name string, before, after tally) Spent {
	minus := func(a, b glovebox.Usage) glovebox.Usage {
		return glovebox.Usage{Input: a.Input - b.Input, CacheRead: a.CacheRead - b.CacheRead, CacheWrite: a.CacheWrite - b.CacheWrite, Output: a.Output - b.Output, Calls: a.Calls - b.Calls}
	}
	u := minus(after.usage, before.usage)
	t := tally{usage: u}
	return Spent{Name: name, Usage: u, Share: t.share(), Cost: cost(u), Micros: after.micros - before.micros, Breaks: after.breaks - before.breaks}
}

// badLine returns the error for a line of a log.
func badLine(n int, format string, args ...any) error {
	return glovebox.Invalid(fmt.Sprintf("line %d", n), "give a log as `glovebox jobs logs ID --json` prints it: one event a line, from the first on, as JSON", format, args...)
}

// readLog calls each for the events of a log. Live events, which have no
// number, are passed over.
func readLog(from io.Reader, each func(n int, e glovebox.Event) error) error {
	lines := bufio.NewScanner(from)
	lines.Buffer(make([]byte, 1<<16), MaxEvent)
	n := 0
	var seq int64
	for lines.Scan() {
		n++
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		var e glovebox.Event
		if err := json.Unmarshal(line, &e); err != nil {
			return badLine(n, "it is no event: %v", err)
		}
		if e.Type == "" {
			return badLine(n, "it is no event: it has no type")
		}
		if e.Seq == 0 {
			continue
		}
		if e.Seq != seq+1 {
			return badLine(n, "event %d follows event %d: a log has no gaps", e.Seq, seq)
		}
		if (e.Type == glovebox.EventCreated) != (e.Seq == 1) {
			return badLine(n, "event %d is a %s", e.Seq, e.Type)
		}
		seq = e.Seq
		e.Data = bytes.Clone(e.Data)
		if err := each(n, e); err != nil {
			return err
		}
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return badLine(n+1, "it has more than %d bytes", MaxEvent)
	} else if err != nil {
		return glovebox.Errorf(glovebox.CodeInvalid, "read the log: %w", err)
	}
	if seq == 0 {
		return badLine(max(n, 1), "the log is empty")
	}
	return nil
}

// ofMemory are the events that the engine itself led to.
var ofMemory = map[glovebox.EventType]bool{
	glovebox.EventSummaries: true, glovebox.EventSummarized: true, glovebox.EventFolded: true,
}

// Replay runs a log through the engine, before a simulated provider, and says
// what it would have cost, ours and the peers'. The folds are those that the
// log has, unless it has none or another model is asked for: then the engine
// decides anew, and digests stand in for what a model would have summarised.
func Replay(ctx context.Context, from io.Reader, o ReplayOptions) (*Replayed, error) {
	if o.SummaryRatio == 0 {
		o.SummaryRatio = DefaultRatio
	}
	var events []glovebox.Event
	var lineOf []int
	folded := false
	err := readLog(from, func(n int, e glovebox.Event) error {
		events, lineOf = append(events, e), append(lineOf, n)
		folded = folded || e.Type == glovebox.EventFolded
		return nil
	})
	if err != nil {
		return nil, err
	}
	created, err := glovebox.Decode[glovebox.Created](events[0])
	if err != nil {
		return nil, badLine(lineOf[0], "%v", err)
	}
	name := o.Name
	if name == "" {
		if name, err = firstModel(events, created); err != nil {
			return nil, err
		}
	}
	p := newReplayer(ctx, o)
	if err := p.become(name); err != nil {
		return nil, err
	}
	p.out.Job, p.out.Events = created.ID, int64(len(events))
	p.out.Recorded = folded && o.Name == ""
	for i, e := range events {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := p.read(e); err != nil {
			return nil, badLine(lineOf[i], "%v", err)
		}
	}
	return p.finish(), nil
}

// replayer is a replay under way.
type replayer struct {
	*engine
	o     ReplayOptions
	out   Replayed
	peers []*peer
	name  string           // of the model that goes on
	log   []glovebox.Event // as the builder has it

	blocks []block // of the request that waits for its answer; nil if none does
	marks  []int
	length int64
	use    glovebox.WindowUse

	pending piece // what the peers' next request ends with
	epoch   Epoch
	before  tally
}

// newReplayer returns a replayer that no model goes on with yet.
func newReplayer(ctx context.Context, o ReplayOptions) *replayer {
	e := newEngine(ctx, memory.Options{}, llm.Info{})
	return &replayer{engine: e, o: o, peers: peers(e.head, o.SummaryRatio), epoch: Epoch{Number: 1}}
}

// read takes the next event of the log.
func (p *replayer) read(ev glovebox.Event) error {
	if ofMemory[ev.Type] && !p.out.Recorded {
		return nil
	}
	ev, ours, err := p.models(ev)
	if err != nil || !ours {
		return err
	}
	switch ev.Type {
	case glovebox.EventModelRequested:
		if !p.out.Recorded {
			p.now = ev.Time
			if err := p.due(); err != nil {
				return err
			}
		}
		r := p.b.Request(maxOutput)
		p.blocks, p.marks = p.sizer.request(p.head, r)
		p.use = p.b.Use(p.engine.marks(p.b))
	case glovebox.EventModelAnswered:
		a, err := glovebox.Decode[glovebox.ModelAnswered](ev)
		if err != nil {
			return err
		}
		return p.answered(ev, a)
	case glovebox.EventSummarized:
		if err := p.summarized(ev); err != nil {
			return err
		}
	case glovebox.EventFolded:
		f, err := glovebox.Decode[glovebox.Folded](ev)
		if err != nil {
			return err
		}
		p.next(f)
	}
	if err := p.hear(ev); err != nil {
		return err
	}
	return p.apply(ev)
}

// apply gives the builder an event, under its number in the replay.
func (p *replayer) apply(ev glovebox.Event) error {
	p.seq++
	ev.Seq = p.seq
	p.log = append(p.log, ev)
	return p.b.Apply(ev)
}

// due folds as the engine decides.
func (p *replayer) due() error {
	p.keep = func(ev glovebox.Event) error {
		p.log = append(p.log, ev)
		if ev.Type == glovebox.EventSummarized {
			s, err := glovebox.Decode[glovebox.Summarized](ev)
			p.out.Digests += int64(len(s.Summaries))
			return err
		}
		if ev.Type == glovebox.EventFolded {
			f, err := glovebox.Decode[glovebox.Folded](ev)
			p.next(f)
			return err
		}
		return nil
	}
	return p.tidy()
}

// summarized counts what recorded summaries cost: that call's own usage, as
// the log has it, and none where no model was asked.
func (p *replayer) summarized(ev glovebox.Event) error {
	s, err := glovebox.Decode[glovebox.Summarized](ev)
	if err != nil {
		return err
	}
	p.cache.pay(s.Usage)
	if s.Usage.Calls > 0 {
		p.cache.total.side++
	}
	return nil
}

// next ends the epoch.
func (p *replayer) next(f glovebox.Folded) {
	p.end()
	p.epoch = Epoch{Number: f.Epoch, Reason: f.Reason}
}

func (p *replayer) end() {
	if p.epoch.First > 0 {
		p.epoch.Spent = spent("", p.before, p.cache.total)
		p.out.Epochs = append(p.out.Epochs, p.epoch)
	}
	p.before = p.cache.total
}

// answered makes the call whose answer the log has.
func (p *replayer) answered(ev glovebox.Event, a glovebox.ModelAnswered) error {
	output := a.Usage.Output
	var said piece
	said.assistant = true
	var estimate int64
	for i := range a.Message.Blocks {
		b := p.sizer.of(glovebox.RoleAssistant, &a.Message.Blocks[i])
		said.blocks = append(said.blocks, b)
		estimate += b.tokens
	}
	if output == 0 {
		output = estimate
	}
	if p.blocks == nil {
		return errors.New("an answer to no request")
	}
	usage := p.cache.call(p.blocks, p.marks, output, false)
	p.blocks = nil
	p.step++
	p.length = usage.Input + usage.CacheRead + usage.CacheWrite
	if p.epoch.First == 0 {
		p.epoch.First, p.epoch.Begins = p.step, p.length
	}
	p.epoch.Model, p.epoch.Last, p.epoch.Ends, p.epoch.Use = p.name, p.step, p.length, p.use
	if len(p.pending.blocks) == 0 {
		b := glovebox.Text("Go on.")
		p.pending.blocks = []block{p.sizer.of(glovebox.RoleUser, &b)}
	}
	for _, x := range p.peers {
		x.add(p.pending)
		x.ask(output)
		if len(said.blocks) > 0 {
			x.add(said)
		}
	}
	p.pending = piece{}
	a.Usage = usage
	changed := glovebox.NewEvent(ev.Time, ev.Type, a)
	return p.apply(changed)
}

// hear keeps what an event says to the model for the peers.
func (p *replayer) hear(ev glovebox.Event) error {
	var b glovebox.Block
	switch ev.Type {
	case glovebox.EventCreated:
		c, err := glovebox.Decode[glovebox.Created](ev)
		if err != nil {
			return err
		}
		b = glovebox.Text(c.Task)
	case glovebox.EventUserMessage:
		m, err := glovebox.Decode[glovebox.UserMessage](ev)
		if err != nil {
			return err
		}
		b = glovebox.Text(m.Text)
	case glovebox.EventNotice:
		n, err := glovebox.Decode[glovebox.Notice](ev)
		if err != nil {
			return err
		}
		b = glovebox.Text(n.Text)
	case glovebox.EventToolFinished:
		f, err := glovebox.Decode[glovebox.ToolFinished](ev)
		if err != nil {
			return err
		}
		b = glovebox.Block{Type: glovebox.BlockToolResult, CallID: f.CallID, Content: f.Content, IsError: f.IsError}
		p.pending.results = append(p.pending.results, len(p.pending.blocks))
	default:
		return nil
	}
	p.pending.blocks = append(p.pending.blocks, p.sizer.of(glovebox.RoleUser, &b))
	return nil
}

// finish returns what came of it all.
func (p *replayer) finish() *Replayed {
	p.end()
	p.out.Total = spent("ours", tally{}, p.cache.total)
	for _, x := range p.peers {
		p.out.Peers = append(p.out.Peers, spent(x.name+": "+x.how, tally{}, x.cache.total))
	}
	return &p.out
}

// WriteJSON writes it as JSON.
func (p *Replayed) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(p)
}

// Write writes it for people.
func (p *Replayed) Write(w io.Writer) error {
	var b strings.Builder
	steps := int64(0)
	if n := len(p.Epochs); n > 0 {
		steps = p.Epochs[n-1].Last
	}
	fmt.Fprintf(&b, "job %s, model %s: %d events, %d steps, %d epochs\n", p.Job, strings.Join(p.Models, ", then "), p.Events, steps, len(p.Epochs))
	switch {
	case p.Recorded:
		b.WriteString("Folds and summaries are those of the log.\n")
	case p.Digests > 0:
		fmt.Fprintf(&b, "The engine decided the folds anew. No model was asked: digests stand in for %d summaries that the log does not have.\n", p.Digests)
	case len(p.Epochs) > 1:
		b.WriteString("The engine decided the folds anew, and had nothing to summarise.\n")
	default:
		b.WriteString("Nothing had to be folded.\n")
	}
	b.WriteString("The provider's cache is simulated. Cost is in tokens of uncached input: read 0.1, write 1.25, output 5.\n\n")
	fmt.Fprintf(&b, "%5s  %-11s  %-8s  %8s  %8s  %8s  %8s  %8s  %6s  %9s\n", "epoch", "steps", "because", "begins", "ends", "head", "folded", "tail", "cached", "cost")
	for _, e := range p.Epochs {
		fmt.Fprintf(&b, "%5d  %-11s  %-8s  %8s  %8s  %8s  %8s  %8s  %5.1f%%  %9s%s\n", e.Number, fmt.Sprintf("%d-%d", e.First, e.Last), orDash(string(e.Reason)),
			size(float64(e.Begins)), size(float64(e.Ends)), size(float64(e.Use.Head)), size(float64(e.Use.Folded)), size(float64(e.Use.Tail)), 100*e.Share, size(e.Cost), p.asked(e))
	}
	b.WriteString("\n")
	for _, s := range append([]Spent{p.Total}, p.Peers...) {
		fmt.Fprintf(&b, "%9s  %5.1f%% cached", size(s.Cost), 100*s.Share)
		if p.Priced {
			fmt.Fprintf(&b, "  $%.2f", float64(s.Micros)/1e6)
		}
		fmt.Fprintf(&b, "  %s\n", s.Name)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// asked returns the model of an epoch for its line, where there are several.
func (p *Replayed) asked(e Epoch) string {
	if len(p.Models) < 2 {
		return ""
	}
	return "  " + e.Model
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
