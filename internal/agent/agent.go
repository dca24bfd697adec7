// Package agent is the loop: a step function over the log of a job.
//
// It reads the log, has memory build the request, streams the model's answer,
// runs the tools that it calls, and appends what happened, until the job
// finishes or reaches a limit. It owns no state that the log does not hold, so
// a loop that dies is continued by another from the same log. There is no
// SQL, HTTP or sandbox driver in it.
//
// # One goroutine
//
// Run owns the job: it alone decides and appends. What takes long (a call of
// the model, a tool, a proof) runs in one goroutine beside it, which Run
// always waits for, so that the user's signals and the limit of wall time are
// obeyed meanwhile. The one thing that goes on beside both is a call of the
// model for summaries of history that is to be folded; what came of it is
// recorded by Run too. The calls of one answer are run one after another, in
// their order: a later one may build on the files of an earlier one, and two
// at once would make the order of events, and so the next request, a matter of chance.
//
// # What the user says
//
// A cancel ends what runs at once, and the job. A text is recorded at once.
// A running call of the model is then stopped and made again with the text,
// what it cost is recorded; a tool that can leave its command in the
// background (Yields) does so; any other tool ends first. New limits count
// from the moment they are read. When a person takes mouse and keyboard, tools
// that use them wait, and so does finish; all else goes on.
package agent

import (
	"context"
	"log/slog"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest"
	"github.com/glovebox-dev/glovebox/internal/llm"
	"github.com/glovebox-dev/glovebox/internal/memory/recall"
	"github.com/glovebox-dev/glovebox/internal/tool"
)

// Host is what the loop needs of the worker that runs it. Append and Signals
// may be called while Guest or Checkpoint run.
type Host interface {
	// Append appends events under the worker's lease, consuming signals.
	Append(ctx context.Context, events []glovebox.Event, consume ...int64) (*glovebox.Job, error)

	// Signals returns the signals that wait to be consumed.
	Signals(ctx context.Context) ([]glovebox.Signal, error)

	// Guest returns a live connection to the job's sandbox, which it finds,
	// makes or rebuilds from the last checkpoint (appending SandboxReady and
	// SandboxLost). It fails for good with code "limit" after three rebuilds.
	Guest(ctx context.Context) (*guest.Client, error)

	// Checkpoint copies the workspace off the sandbox and appends
	// CheckpointSaved, if anything changed since the last one.
	Checkpoint(ctx context.Context) error

	// Save keeps a large output as a blob and returns its handle.
	Save(ctx context.Context, data []byte) (handle string, err error)
}

// Options is what Run works with. Host, Job, Events, Model and Info are needed.
type Options struct {
	Host Host
	Job  *glovebox.Job // its state; only its limits, usage and phases are used

	// Events pages the job's log: up to limit events after number after.
	Events func(ctx context.Context, after int64, limit int) ([]glovebox.Event, error)

	Model llm.Model
	Info  llm.Info
	Tools []tool.Tool // in the order in which the model sees them; names are unique

	// CheckModel says why a model can't go on with the job, nil if it can. A
	// signal that names one that can't is answered with a notice. Nil: any can.
	CheckModel func(ctx context.Context, name string) error

	Digests bool // summaries of folded history are derived; the model is never asked for one

	// Recall searches what the job saw so far: for the tools, and for what a
	// fold brings along. Nil: nothing can be recalled.
	Recall func(ctx context.Context, q recall.Query) (recall.Result, error)

	Standing []string // standing instructions of whoever runs the server

	// Workspace returns what the loop reads of the workspace by itself, to
	// find files of instructions. Nil: they are not looked for.
	Workspace func(*guest.Client) Workspace

	// Load returns up to limit bytes of what Host.Save kept, from offset on,
	// and its whole size. Nil: images are not shown to the model again.
	Load func(ctx context.Context, handle string, offset, limit int64) (data []byte, size int64, err error)

	// Live shows pieces of answers and output to those who watch. It may be
	// nil, is called from several goroutines and must not block.
	Live func(glovebox.Event)

	// SignalWake receives when signals may wait. Nil or closed: they are
	// noticed only between two actions.
	SignalWake <-chan struct{}

	// Drain, once closed, makes Run return ErrDrained after the action that is
	// running, with everything recorded. It may be nil.
	Drain <-chan struct{}

	// Prove runs one proof. Nil: with bash in the workspace, or in the sandbox's browser.
	Prove func(ctx context.Context, env *tool.Env, p tool.Proof) (glovebox.Proof, error)

	// Handover finds out what a ControlChanged event says about the machine
	// when mouse and keyboard change hands. since is the event with which the
	// person took them, when they come back. It is called while an action may
	// run, and bounds its own time. Nil: the event says only who holds them.
	Handover func(ctx context.Context, to glovebox.Control, since *glovebox.ControlChanged) glovebox.ControlChanged

	// StepDone is told when all calls of answer number step have results. It
	// must not block. It may be nil.
	StepDone func(step int64)

	Jitter func() float64 // from [0,1), for the wait before a retry; nil: random
	Log    *slog.Logger   // names the job already; nil: none
}

// Outcome is how a job ended. The caller records it.
type Outcome struct {
	Status  glovebox.Status   // complete, error or cancelled
	Summary string            // the agent's, when complete
	Failure *glovebox.Failure // set exactly when Status is error
	Consume []int64           // signals that the Finished event consumes
}

// Finished returns the data of the event that records o.
func (o Outcome) Finished() glovebox.Finished {
	return glovebox.Finished{Status: o.Status, Summary: o.Summary, Failure: o.Failure}
}

// Run works on a job from where its log stands until it ends.
//
// Run appends everything that it does, but never a Finished event: the caller
// does, consuming Outcome.Consume, after packing the artifact of a complete
// job. If the caller dies before, Run comes to the same Outcome again, from
// the log (a cancel that was not consumed is still waiting; a limit that was
// raised meanwhile lets the job go on instead).
//
// An error means that the job did not end here and may be continued by
// another Run: ctx ended, the lease was lost (CodeFenced), the store failed,
// ErrDrained, or ErrModelChanged (the next Run takes the other model). What
// was under way then has no recorded result. Nothing was appended about it,
// and the next Run records it as unknown.
func Run(ctx context.Context, o Options) (Outcome, error) {
	r, err := newRun(ctx, o)
	if err != nil {
		return Outcome{}, err
	}
	return r.loop(ctx)
}
