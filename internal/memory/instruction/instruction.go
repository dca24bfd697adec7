// Package instruction keeps what a job has to heed beyond its task: what the
// user said while it ran, files such as AGENTS.md, and what the project's
// memory brought in. All of it word for word with its source, in order of
// force, and none of it lost: what does not fit where it is shown is listed
// by the number of its event.
//
// It is derived from events alone: the same events give the same set, and the
// same set the same text. A Set may be used by one goroutine at a time.
package instruction

import "github.com/glovebox-dev/glovebox"

// Set is the instructions of a job up to some event. Make it with [New].
type Set struct {
}

// New returns a set that has read nothing yet.
func New() *Set { return &Set{} }

// Apply reads the next event. Types that instruct nobody are passed over. An
// error means that the event can't be decoded; it changes nothing. Who has
// decoded an event already calls the method of its type.
func (s *Set) Apply(e glovebox.Event) error {
	if apply, ok := appliers[e.Type]; ok {
		return apply(s, e)
	}
	return nil
}

var appliers = map[glovebox.EventType]func(*Set, glovebox.Event) error{
	glovebox.EventUserMessage:  on((*Set).User),
	glovebox.EventQuestion:     on((*Set).Asked),
	glovebox.EventToolFinished: on((*Set).Finished),
	glovebox.EventInstructions: on((*Set).File),
	glovebox.EventProject:      on((*Set).Project),
}

func on[T any](apply func(*Set, int64, T)) func(*Set, glovebox.Event) error {
	return func(s *Set, e glovebox.Event) error {
		v, err := glovebox.Decode[T](e)
		if err == nil {
			apply(s, e.Seq, v)
		}
		return err
	}
}

// User reads what the user said.
func (s *Set) User(seq int64, m glovebox.UserMessage) {}

// Asked reads a question to the user: what they say next answers it.
func (s *Set) Asked(seq int64, q glovebox.QuestionAsked) {}

// Finished reads the result of a tool. With the result of the question that
// waits, it waits no longer; other results are passed over.
func (s *Set) Finished(seq int64, f glovebox.ToolFinished) {}

// File reads a file of instructions. It replaces what was read at its path before.
func (s *Set) File(seq int64, r glovebox.InstructionsRead) {}

// Project reads what the project's memory brought in.
func (s *Set) Project(seq int64, p glovebox.ProjectRecalled) {}

// Head returns the instructions word for word, in order of force, each with
// its source, in at most so many tokens as [llm.TokensOf] counts them. What
// does not fit is listed by handle. It is empty where there is nothing.
func (s *Set) Head(tokens int64) string { return "" }

// Orders restates briefly what the user wants heeded, a line each, in at most
// so many tokens. It is empty where there is nothing.
func (s *Set) Orders(tokens int64) string { return "" }

// Whole returns all instructions as Markdown, for people and for grep.
func (s *Set) Whole() string { return "" }
