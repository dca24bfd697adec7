// Package sandbox is the contract for isolated machines.
//
// A driver delivers a machine in which the guest daemon runs, and a byte
// stream to that daemon. Commands, files and ports inside are the guest's
// business. Package sandboxtest proves a driver.
//
// The caller chooses the id of a sandbox and a driver returns no handle, so
// that after a crash another Driver in another process finds the sandboxes
// of the first with List and talks to them with Dial.
package sandbox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/glovebox-dev/glovebox"
)

// ID names a sandbox. It has the form of [glovebox.NewID].
type ID string

// Driver makes sandboxes of one kind. All methods may be called from many
// goroutines and processes at once.
type Driver interface {
	// Create makes a sandbox and returns when Dial will reach its guest. On
	// error, also on a cancelled ctx, nothing remains of it. A sandbox with
	// that id already: CodeConflict. A missing image: CodeUnavailable with
	// the command that builds it as hint.
	Create(ctx context.Context, s Spec) error

	// Dial returns a new stream to the guest daemon, which serves any number
	// of them, one after another or at once. CodeNotFound if there is no such
	// sandbox or it has ended.
	Dial(ctx context.Context, id ID) (net.Conn, error)

	// List returns every sandbox of this driver's state directory, also ended
	// ones that were not destroyed, sorted by id.
	List(ctx context.Context) ([]Info, error)

	// Destroy ends a sandbox and removes all that belongs to it: processes,
	// mounts, cgroups, files. An unknown id is no error.
	Destroy(ctx context.Context, id ID) error
}

// Spec says what sandbox to make.
type Spec struct {
	ID     ID
	Image  string            // the path or reference of the image, in the driver's terms; empty for its default
	Limits glovebox.Limits   // MemoryBytes, CPUMillis, Processes, DiskBytes; the others are ignored
	Labels map[string]string // kept and returned by List; at most 16, of at most 256 bytes

	// Template is the path of a template that a Snapshotter made of the same
	// image: the machine goes on from there instead of starting cold. Empty
	// starts cold. One that can't be used is CodeUnavailable, and the caller
	// starts cold.
	Template string
}

// Bounds of a Spec's labels.
const (
	maxLabels     = 16
	maxLabelBytes = 256
)

// Validate refuses, with CodeInvalid, an id, labels or limits that no driver takes.
func (s Spec) Validate() error {
	if !glovebox.ValidID(string(s.ID)) {
		return glovebox.Invalid("id", "use glovebox.NewID", "%.80q is not the id of a sandbox", string(s.ID))
	}
	if len(s.Labels) > maxLabels {
		return glovebox.Invalid("labels", fmt.Sprintf("give at most %d", maxLabels), "%d labels are too many", len(s.Labels))
	}
	for k, v := range s.Labels {
		if len(k) > maxLabelBytes || len(v) > maxLabelBytes {
			return glovebox.Invalid("labels", fmt.Sprintf("at most %d bytes", maxLabelBytes), "label %.40q is too long", k)
		}
	}
	return s.Limits.Validate()
}

// Preparer is a Driver that may have to bring an image to where its sandboxes
// are made, which takes minutes.
type Preparer interface {
	Driver

	// Prepare brings an image, as in a Spec, there. One that is there already
	// costs next to nothing. Before what takes long it calls say, which may be
	// nil, with what that is in words for people. Create does the same in silence.
	Prepare(ctx context.Context, image string, say func(what string)) error
}

// Snapshotter is a Driver that can freeze a machine as a template.
type Snapshotter interface {
	Driver

	// Snapshot freezes a running sandbox, writes it to the directory dir,
	// which must not exist and appears complete or not at all, and ends the
	// sandbox. Nobody may hold a stream to its guest.
	Snapshot(ctx context.Context, id ID, dir string) error

	// TemplateKey names what a template depends on beside its image: the
	// binary, the platform and the features of the processor. Templates made
	// under another key can't be used.
	TemplateKey() (string, error)
}

// ErrTemplate is in the error of a Create that failed because its template is
// damaged, outdated or not there: another start from it would fail as well.
var ErrTemplate = errors.New("the template can't be used")

// Adopter is a Driver whose running sandboxes can be given to another owner.
type Adopter interface {
	Driver

	// Adopt gives the running sandbox from the id, the labels and the limits
	// of s, as if s had been created. Afterwards there is no sandbox from; on
	// error nothing has changed. Limits that can't be changed any more:
	// CodeConflict, and the caller creates one instead. It survives a crash
	// at any point: List shows the sandbox under one id or the other.
	Adopt(ctx context.Context, from ID, s Spec) error
}

// Greeter is a Driver that may have bound the guest of a sandbox before it was
// given away.
type Greeter interface {
	Driver

	// Secret returns what the guest was bound with and nobody but this sandbox
	// ever had; nil if there is none. It is returned once, to who has dialled.
	Secret(id ID) []byte
}

// Pauser is a Driver that can stop a sandbox's processors and let them go on.
// A paused sandbox keeps its memory unless the driver can put that away, too.
// Dial thaws it first.
type Pauser interface {
	Driver
	Pause(ctx context.Context, id ID) error // a paused one: no error
}

// State is whether a sandbox still runs.
type State string

// The states.
const (
	Running State = "running"
	Paused  State = "paused"
	Ended   State = "ended"
)

// Info describes a sandbox.
type Info struct {
	ID        ID
	State     State
	Cause     string // why it ended, where known, e.g. "killed: out of memory"
	Labels    map[string]string
	CreatedAt time.Time
	Start     string            // how it came up: "cold", "template" or "pool"
	StartNote string            // why it started cold, where there could have been a template
	Enforced  map[string]string // field of Limits -> what enforces it; fields that nothing enforces are absent
}
