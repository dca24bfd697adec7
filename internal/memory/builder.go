package memory

import (
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
	"github.com/glovebox-dev/glovebox/internal/memory/instruction"
	"github.com/glovebox-dev/glovebox/internal/memory/ledger"
)

// Builder is a log read up to some event, from which the request follows.
// Make it with New.
type Builder struct {
	o      Options
	system string
	rules  int64 // estimated tokens of rules and tools
	head   sum   // of system, tools and cache key; zero until it is needed

	// What is kept of the whole log.
	created      glovebox.Created
	plan         []glovebox.PlanStep
	ledger       *ledger.Ledger
	instructions *instruction.Set
	tree         tree
	model        string    // that was asked last, or goes on
	epochOf      string    // the model that went on when the epoch began
	maxOutput    int64     // of the newest request
	asked        int64     // tokens of the newest request, as it was reckoned with
	answered     time.Time // when the newest answer came
	calls        int64     // answers so far
	grown        int64     // tokens that the answers of earlier epochs added
	ruled        int64     // estimated tokens of instructions that were read, at most

	// What asks for a fold.
	changed bool  // another model goes on than when the epoch began
	refused int64 // times that the length was refused since the newest answer
	pressed bool  // it was refused since the newest fold
	rested  bool  // there was a fold since the newest answer
	ceiling int64 // the shortest request that the epoch's model refused for its length; 0 if none

	// The epoch: its beginning, and the events of its conversation.
	fold    fold
	opening opening
	entries []entry
	talk    *conversation // what was read of entries; nil for nothing

	// The beginning of an epoch is made when it is first wanted, from what was
	// known at its fold: what came since waits until then. Of most folds of a
	// long log that is read anew, nobody ever wants it.
	unopened bool
	waiting  []func(*Builder)
}

// entry is an event of the conversation, decoded.
type entry struct {
	seq  int64
	data any
}

// fold is the newest fold; zero in the first epoch.
type fold struct {
	glovebox.Folded
	seq    int64
	orders string // restated at the end of the epoch's beginning
}

// New returns a builder that has read nothing yet.
func New(o Options) *Builder {
	b := &Builder{o: o, system: o.system(), ledger: ledger.New(), instructions: instruction.New()}
	b.rules = llm.EstimateTokens(&llm.Request{System: b.system, Tools: o.Tools})
	return b
}

// Build returns the request that a log leads to: the one that its newest
// ModelRequested event stands for, if the log ends with one.
func Build(events []glovebox.Event, o Options) (*llm.Request, error) {
	b := New(o)
	for _, e := range events {
		if err := b.Apply(e); err != nil {
			return nil, err
		}
	}
	b.catchUp(true) // the newest request may wait to be read
	return b.Request(b.maxOutput), nil
}

// Apply reads the next event. Types that have no part in the request are
// passed over. An error means that the event can't be decoded; it changes nothing.
//
// What is folded later is decoded and no more: a long log is read in little
// more than the time of that.
func (b *Builder) Apply(e glovebox.Event) error {
	read, ok := readers[e.Type]
	if !ok {
		return nil
	}
	apply, err := read(e)
	switch {
	case err != nil:
		return err
	case b.unopened && e.Type != glovebox.EventFolded:
		b.waiting = append(b.waiting, apply)
	default:
		apply(b)
	}
	return nil
}

// catchUp reads what waits, and makes the beginning of the epoch before, if
// it is wanted.
func (b *Builder) catchUp(wanted bool) {
	if !b.unopened {
		return
	}
	b.unopened = false
	if wanted || b.fold.Use.Tokens() <= 0 { // else begun needs nothing of it
		b.opening = b.nextOpening()
		b.fold.orders = b.orders()
	}
	for _, apply := range b.waiting {
		apply(b)
	}
	b.waiting = nil
}

// readers decode an event, and return what it changes.
var readers = map[glovebox.EventType]func(glovebox.Event) (func(*Builder), error){
	glovebox.EventCreated: on(func(b *Builder, c glovebox.Created, _ glovebox.Event) {
		b.created, b.model, b.epochOf, b.head, b.talk = c, c.Model, c.Model, sum{}, nil
		b.opening = b.firstOpening()
	}),
	glovebox.EventModelRequested: on((*Builder).onRequested),
	glovebox.EventModelAnswered:  with(decodeAnswered, (*Builder).onAnswered),
	glovebox.EventModelFailed:    on((*Builder).onFailed),
	glovebox.EventModelChanged: on(func(b *Builder, c glovebox.ModelChanged, e glovebox.Event) {
		b.modelIs(c.Model)
		b.add(e.Seq, c)
	}),
	glovebox.EventToolStarted: on(func(b *Builder, s glovebox.ToolStarted, e glovebox.Event) {
		b.ledger.Started(e.Seq, s)
	}),
	glovebox.EventToolFinished: with(decodeFinished, func(b *Builder, f glovebox.ToolFinished, e glovebox.Event) {
		b.ledger.Finished(e.Seq, f)
		b.instructions.Finished(e.Seq, f)
		b.add(e.Seq, f)
	}),
	glovebox.EventQuestion: on(func(b *Builder, q glovebox.QuestionAsked, e glovebox.Event) {
		b.instructions.Asked(e.Seq, q)
		b.add(e.Seq, q)
	}),
	glovebox.EventUserMessage: on(func(b *Builder, m glovebox.UserMessage, e glovebox.Event) {
		b.instructions.User(e.Seq, m)
		b.add(e.Seq, m)
	}),
	glovebox.EventInstructions: on(func(b *Builder, r glovebox.InstructionsRead, e glovebox.Event) {
		b.instructions.File(e.Seq, r)
		b.ruled = min(b.ruled+llm.Bound(r.Text), roomFor(b.fold.Use, b.rules).instructions)
		b.add(e.Seq, r)
	}),
	glovebox.EventProject: on(func(b *Builder, p glovebox.ProjectRecalled, e glovebox.Event) {
		b.instructions.Project(e.Seq, p)
		b.add(e.Seq, p)
	}),
	glovebox.EventNotice: on(func(b *Builder, n glovebox.Notice, e glovebox.Event) { b.add(e.Seq, n) }),
	glovebox.EventControl: on(func(b *Builder, c glovebox.ControlChanged, e glovebox.Event) {
		b.ledger.Control(e.Seq, c)
		b.add(e.Seq, c)
	}),
	glovebox.EventSandboxReady: on(func(b *Builder, r glovebox.SandboxReady, e glovebox.Event) {
		b.ledger.Sandbox(e.Seq, r)
		if r.How == "rebuilt" {
			b.add(e.Seq, r)
		}
	}),
	glovebox.EventPlan: on(func(b *Builder, p glovebox.PlanUpdated, e glovebox.Event) {
		b.plan = p.Steps
		b.add(e.Seq, p)
	}),
	glovebox.EventCheckpoint: on(func(b *Builder, c glovebox.CheckpointSaved, e glovebox.Event) { b.ledger.Checkpoint(e.Seq, c) }),
	glovebox.EventEgress:     on(func(b *Builder, a glovebox.EgressAttempted, e glovebox.Event) { b.ledger.Egress(e.Seq, a) }),
	glovebox.EventVerified:   on(func(b *Builder, v glovebox.Verified, e glovebox.Event) { b.ledger.Verified(e.Seq, v) }),
	glovebox.EventSummarized: on(func(b *Builder, s glovebox.Summarized, e glovebox.Event) {
		for _, x := range s.Summaries {
			if x.Through < e.Seq { // nothing can stand for what has not happened
				b.tree.add(x)
			}
		}
	}),
	glovebox.EventFolded: on(func(b *Builder, f glovebox.Folded, e glovebox.Event) { b.onFolded(f, e.Seq) }),
}

func on[T any](apply func(*Builder, T, glovebox.Event)) func(glovebox.Event) (func(*Builder), error) {
	return with(glovebox.Decode[T], apply)
}

func with[T any](decode func(glovebox.Event) (T, error), apply func(*Builder, T, glovebox.Event)) func(glovebox.Event) (func(*Builder), error) {
	return func(e glovebox.Event) (func(*Builder), error) {
		v, err := decode(e)
		if err != nil {
			return nil, err
		}
		return func(b *Builder) { apply(b, v, e) }, nil
	}
}

// add keeps an event for the conversation.
func (b *Builder) add(seq int64, data any) { b.entries = append(b.entries, entry{seq, data}) }

func (b *Builder) onRequested(r glovebox.ModelRequested, e glovebox.Event) {
	if r.Model != "" {
		b.modelIs(r.Model)
	}
	b.maxOutput, b.asked = r.MaxOutput, r.MaxTokens-r.MaxOutput
	b.add(e.Seq, r)
}

func (b *Builder) onAnswered(a glovebox.ModelAnswered, e glovebox.Event) {
	b.answered, b.refused, b.pressed, b.rested = e.Time, 0, false, false
	b.calls++
	a.Message.Role = glovebox.RoleAssistant
	a.Message.Blocks = said(a.Message.Blocks)
	b.add(e.Seq, a)
}

func (b *Builder) onFailed(f glovebox.ModelFailed, e glovebox.Event) {
	if f.Kind == string(llm.KindContextTooLong) {
		b.refused++
		b.pressed = true
		if b.asked > 0 && (b.ceiling == 0 || b.asked < b.ceiling) {
			b.ceiling = b.asked
		}
	}
	b.add(e.Seq, f)
}

// modelIs records which model the job goes on with. One that is left again
// before the next epoch has changed nothing.
func (b *Builder) modelIs(name string) {
	if b.epochOf == "" {
		b.epochOf = name
	}
	b.model, b.changed = name, name != b.epochOf
}

// onFolded opens the next epoch: what the tree stands for leaves, and the
// rest is read anew.
func (b *Builder) onFolded(f glovebox.Folded, seq int64) {
	b.catchUp(false)
	if f.Before > 0 {
		b.grown += max(0, f.Before-b.begun())
	}
	if through := b.tree.cut(f.Through); through > b.tree.shown {
		if i := b.cutAt(through); i >= 0 {
			b.tree.shown = through
			b.entries = b.entries[i:]
		}
	}
	b.entries = append([]entry(nil), b.entries...)
	f.Through = b.tree.shown
	b.fold = fold{Folded: f, seq: seq}
	if b.changed {
		b.ceiling = 0
	}
	b.changed, b.pressed, b.rested, b.epochOf = false, false, true, b.model
	b.unopened = true
	b.add(seq, f)
	b.talk = nil
}

// begun returns how many tokens the request had when the epoch began, about.
func (b *Builder) begun() int64 {
	if n := b.fold.Use.Tokens(); n > 0 {
		return n
	}
	return b.rules + b.opening.head + b.opening.folded
}

// cutAt returns the first entry that remains if all up to the event through
// is folded; -1 if no answer would remain. With an answer remains the request
// that it answers: what came between the two follows the answer.
func (b *Builder) cutAt(through int64) int {
	asked := -1
	for i, e := range b.entries {
		switch d := e.data.(type) {
		case glovebox.ModelRequested:
			asked = i
		case glovebox.ModelFailed:
			asked = -1
		case glovebox.ModelAnswered:
			switch {
			case e.seq <= through || len(d.Message.Blocks) == 0:
				asked = -1
			case asked >= 0:
				return asked
			default:
				return i
			}
		}
	}
	return -1
}

// settle reads what is new of the entries.
func (b *Builder) settle() *conversation {
	b.catchUp(true)
	if b.talk == nil {
		b.talk = newConversation(b)
	}
	for _, e := range b.entries[b.talk.read:] {
		b.talk.apply(e)
	}
	b.talk.read = len(b.entries)
	return b.talk
}

// PlanStep returns the text of the plan's active step, empty if there is none.
func (b *Builder) PlanStep() string {
	b.catchUp(true)
	for _, s := range b.plan {
		if s.Status == glovebox.PlanActive {
			return s.Text
		}
	}
	return ""
}
