//go:build linux

package guestd

import (
	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest"
	"github.com/glovebox-dev/glovebox/internal/guest/guestpb"
	"github.com/glovebox-dev/glovebox/internal/guest/wire"
)

// writerTo sends what is written to it as data.
type writerTo struct{ f *framed }

// Write implements io.Writer.
func (w writerTo) Write(p []byte) (int, error) { return wire.DataWriter{W: w.f.w}.Write(p) }

// restore takes packs in and makes the workspace that of a commit.
func (f *framed) restore() error {
	var q guestpb.RestoreRequest
	if err := f.r.ReadMessage(&q); err != nil {
		return err
	}
	f.s.snapMu.Lock()
	defer f.s.snapMu.Unlock()
	for {
		fr, err := f.r.Read()
		if err != nil {
			return err
		}
		if fr.Type == wire.FrameEnd {
			break
		}
		if fr.Type != wire.FramePack {
			return wire.Unexpected(fr)
		}
		if err := f.s.repo.Add(wire.NewDataReader(f.r)); err != nil {
			return err
		}
	}
	if err := f.s.repo.Restore(f.s.real(guest.Workspace), q.Commit, f.s.asUser); err != nil {
		return f.s.hide(glovebox.Errorf(wire.CodeOf(err), "restore: %w", err))
	}
	return f.w.End()
}
