//go:build linux

package guestd

import (
	"context"

	"connectrpc.com/connect"

	"github.com/glovebox-dev/glovebox/internal/guest"
	"github.com/glovebox-dev/glovebox/internal/guest/guestd/state"
	"github.com/glovebox-dev/glovebox/internal/guest/guestpb"
)

// publishDir is where published files are before they take their place.
const publishDir = stateDir + "/publish"

// stateHandler answers the call that publishes the job's state.
type stateHandler struct{ s *Server }

var _ guestpb.StateHandler = (*stateHandler)(nil)

// Publish implements [guestpb.StateHandler].
func (h *stateHandler) Publish(_ context.Context, r *connect.Request[guestpb.PublishRequest]) (*connect.Response[guestpb.Empty], error) {
	return empty(h.s.hide(h.s.publish(r.Msg)))
}

// publish does its work as root, in directories that are root's alone.
func (s *Server) publish(m *guestpb.PublishRequest) error {
	s.stateMu.Lock()
	defer s.stateMu.Unlock()
	if s.state == nil {
		s.state = state.New(s.real(guest.StateDir), s.real(publishDir), s.o.UID != 0 && isRoot)
	}
	if m.GetReset_() {
		if err := s.state.Reset(); err != nil {
			return err
		}
	}
	for _, p := range m.GetParts() {
		part := guest.PublishPart{Path: p.GetPath(), Remove: p.GetRemove(), Grow: p.GetGrow(), Offset: p.GetOffset(), Data: p.GetData(), Last: p.GetLast()}
		if err := s.state.Apply(part); err != nil {
			return err
		}
	}
	return nil
}
