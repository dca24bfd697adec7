// Package ledger keeps the book of a job: which files were touched, which
// commands ran and how they ended, what was installed, what serves, which
// errors were met and how they went away, what was reached outside, and which
// notes were taken. It is derived from events alone and never summarised:
// every line names the events that it comes from.
//
// What it reads came out of a sandbox and is data. A malformed input is
// passed over, a name is quoted so that it can't leave its line, and no
// history makes a ledger grow beyond a fixed size: each table holds so many
// rows, and the one that was touched longest ago makes room.
//
// The same events give the same ledger, and the same ledger the same text. A
// Ledger may be used by one goroutine at a time.
package ledger

import "github.com/glovebox-dev/glovebox"

// Ledger is the book of a job up to some event. Make it with [New].
type Ledger struct {
}

// New returns a ledger that has read nothing yet.
func New() *Ledger { return &Ledger{} }

// Apply reads the next event. Types that have no part in the ledger are
// passed over. An error means that the event can't be decoded; it changes
// nothing. Who has decoded an event already calls the method of its type.
func (l *Ledger) Apply(e glovebox.Event) error {
	if apply, ok := appliers[e.Type]; ok {
		return apply(l, e)
	}
	return nil
}

var appliers = map[glovebox.EventType]func(*Ledger, glovebox.Event) error{
	glovebox.EventToolStarted:  on((*Ledger).Started),
	glovebox.EventToolFinished: on((*Ledger).Finished),
	glovebox.EventCheckpoint:   on((*Ledger).Checkpoint),
	glovebox.EventEgress:       on((*Ledger).Egress),
	glovebox.EventVerified:     on((*Ledger).Verified),
	glovebox.EventSandboxReady: on((*Ledger).Sandbox),
}

func on[T any](apply func(*Ledger, int64, T)) func(*Ledger, glovebox.Event) error {
	return func(l *Ledger, e glovebox.Event) error {
		v, err := glovebox.Decode[T](e)
		if err == nil {
			apply(l, e.Seq, v)
		}
		return err
	}
}

// Started reads that a tool acts.
func (l *Ledger) Started(seq int64, s glovebox.ToolStarted) {}

// Finished reads what a tool came to.
func (l *Ledger) Finished(seq int64, f glovebox.ToolFinished) {}

// Checkpoint reads which files of the workspace changed.
func (l *Ledger) Checkpoint(seq int64, c glovebox.CheckpointSaved) {}

// Egress reads what was reached outside, or refused.
func (l *Ledger) Egress(seq int64, e glovebox.EgressAttempted) {}

// Verified reads which proofs of the project passed.
func (l *Ledger) Verified(seq int64, v glovebox.Verified) {}

// Sandbox reads that there is a machine. In one that was rebuilt nothing runs
// that ran before, and what was installed outside the workspace is gone.
func (l *Ledger) Sandbox(seq int64, s glovebox.SandboxReady) {}

// Compact returns the ledger in about so many tokens, as [llm.TokensOf]
// counts them, and not more: of each table the newest rows. It is empty where
// there is nothing to say.
func (l *Ledger) Compact(tokens int64) string { return "" }

// Whole returns the ledger as Markdown, at most about a MiB.
func (l *Ledger) Whole() string { return "" }
