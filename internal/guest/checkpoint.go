package guest

import (
	"context"
	"io"
	"strings"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest/guestpb"
	"github.com/glovebox-dev/glovebox/internal/guest/wire"
)

// maxPack is the largest pack that is taken from a guest.
const maxPack = 16 << 30

// CheckpointInfo is what Checkpoint did.
type CheckpointInfo struct {
	Commit  string
	Whole   bool // the pack does not build on base
	Changes []Change
	Skipped []string // what could not be kept, "path: reason"; at most 100
}

// Change is a file that differs between two checkpoints.
type Change struct {
	Path           string
	Added, Deleted int64 // lines; -1 for binary
}

// Checkpoint commits the workspace to the hidden repository and sends what
// is new since the commit base (all, if base is empty or unknown) to w as a
// git pack. If nothing changed since base, the commit is base and nothing is
// written. The repository is the guest's, outside the workspace. Changes
// names at most 2000 files, none of a nested .git, and is empty if Whole.
func (c *Client) Checkpoint(ctx context.Context, base, message string, w io.Writer) (CheckpointInfo, error) {
	f, err := c.exchange(ctx, "checkpoint", wire.KindCheckpoint, &guestpb.CheckpointRequest{Base: base, Message: wire.CleanText(message, 64<<10)}, false)
	if err != nil {
		return CheckpointInfo{}, err
	}
	defer f.close()
	var m guestpb.CheckpointReply
	if err := f.r.ReadMessage(&m); err != nil {
		return CheckpointInfo{}, f.fail(err)
	}
	if !validCommit(m.Commit) {
		return CheckpointInfo{}, f.fail(glovebox.Errorf(glovebox.CodeUnavailable, "the guest named the commit %.80q", m.Commit))
	}
	info := CheckpointInfo{Commit: m.Commit, Whole: m.Whole}
	for _, ch := range m.Changes {
		if cleanRelative(ch.Path) {
			info.Changes = append(info.Changes, Change{Path: ch.Path, Added: max(-1, ch.Added), Deleted: max(-1, ch.Deleted)})
		}
	}
	for _, s := range m.Skipped[:min(len(m.Skipped), 100)] {
		info.Skipped = append(info.Skipped, wire.CleanText(s, 4500))
	}
	body := &io.LimitedReader{R: wire.NewDataReader(f.r), N: maxPack}
	if _, err := io.Copy(w, body); err != nil {
		return CheckpointInfo{}, f.fail(err)
	}
	if body.N <= 0 {
		return CheckpointInfo{}, f.fail(glovebox.Errorf(glovebox.CodeTooLarge, "the checkpoint is larger than %d bytes", int64(maxPack)))
	}
	return info, nil
}

func validCommit(s string) bool { return len(s) == 40 && strings.Trim(s, "0123456789abcdef") == "" }

// Restore applies packs, in order, and makes the workspace that of commit.
func (c *Client) Restore(ctx context.Context, commit string, packs []func() (io.ReadCloser, error)) error {
	if !validCommit(commit) {
		return glovebox.Invalid("commit", "give what Checkpoint returned", "%.80q is not the name of a commit", commit)
	}
	f, err := c.exchange(ctx, "restore", wire.KindRestore, &guestpb.RestoreRequest{Commit: commit}, false)
	if err != nil {
		return err
	}
	defer f.close()
	for _, open := range packs {
		if err := f.sendPack(open); err != nil {
			return f.fail(err)
		}
	}
	return f.finish()
}

func (f *framed) sendPack(open func() (io.ReadCloser, error)) error {
	r, err := open()
	if err != nil {
		return err
	}
	defer r.Close()
	if err := f.w.Write(wire.FramePack, nil); err != nil {
		return err
	}
	if err := f.copy(r); err != nil {
		return err
	}
	return f.w.Write(wire.FrameEnd, nil)
}

// copy sends all of r as data. If the guest has stopped reading, its reason
// is the error.
func (f *framed) copy(r io.Reader) error {
	_, err := io.CopyBuffer(wire.DataWriter{W: f.w}, struct{ io.Reader }{r}, make([]byte, wire.ChunkSize))
	return err
}

// finish says that all was sent and waits until the guest is done.
func (f *framed) finish() error {
	if err := f.w.End(); err != nil {
		return f.fail(err)
	}
	return f.fail(f.r.ReadEnd())
}
