package guest

import (
	"context"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest/guestpb"
)

// StateDir is where a sandbox has the state of its job as files: read-only for
// tools, outside of the workspace, and so in no checkpoint and no artifact.
const StateDir = "/glovebox"

// Bounds of what is published.
const (
	// MaxPublish is the most bytes of data in one call of [Client.Publish].
	// The calls of a client are made one after another, each over a stream of
	// its own, so that a large state keeps nobody else waiting for long.
	MaxPublish = 1 << 20

	// MaxPublishParts is the most parts in one call.
	MaxPublishParts = 256

	// MaxPublishedFile is the most bytes of one file, MaxPublishedFiles the
	// most files; the guest refuses what is beyond, whoever asks.
	MaxPublishedFile  = 16 << 20
	MaxPublishedFiles = 4096
)

// PublishPart is a piece of a published file, or its removal. A new file
// arrives in one or more parts, from offset 0 on without gaps, and takes its
// place whole with the last one. A part that grows a file is added at its end.
type PublishPart struct {
	Path   string // relative to StateDir: at most two segments of [0-9A-Za-z._-], none of which begins with a dot
	Remove bool   // the file; one that is not there is no error
	Grow   bool   // add to the file that is there
	Offset int64  // where Data belongs; with Grow the size of the file that is there, else CodeConflict
	Data   []byte
	Last   bool // of a new file: it takes its place
}

// Publish changes the files below [StateDir], part by part in order. With
// reset all that is there is removed first. What was done before an error
// stays done: who gets one publishes everything anew, with reset. They are
// root's and can't be written to by tools, where the guest is root; where it
// is not, as in tests, they are the guest's own user's.
func (c *Client) Publish(ctx context.Context, reset bool, parts []PublishPart) error {
	m := &guestpb.PublishRequest{Reset_: reset}
	size := 0
	for _, p := range parts {
		size += len(p.Data)
		m.Parts = append(m.Parts, &guestpb.PublishPart{Path: p.Path, Remove: p.Remove, Grow: p.Grow, Offset: p.Offset, Data: p.Data, Last: p.Last})
	}
	if size > MaxPublish || len(parts) > MaxPublishParts {
		return glovebox.Errorf(glovebox.CodeTooLarge, "%d parts with %d bytes are more than one call may publish", len(parts), size)
	}
	return do(ctx, c, "publish the job's state", c.state.Publish, m)
}
