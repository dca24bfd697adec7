// Package agent is the loop: a step function over the log of a job.
//
// It reads the log, has memory build the request, streams the model's answer,
// runs the tools that it calls, and appends what happened, until the job
// finishes or reaches a limit. It owns no state that the log does not hold, so
// a loop that dies is continued by another from the same log. There is no
// SQL, HTTP or sandbox driver in it.
package agent

import (
	"context"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest"
)

// Host is what the loop needs of the worker that runs it.
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
