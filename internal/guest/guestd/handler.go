//go:build linux

package guestd

import (
	"context"
	"strings"

	"connectrpc.com/connect"

	"github.com/glovebox-dev/glovebox/internal/guest/guestpb"
	"github.com/glovebox-dev/glovebox/internal/guest/wire"
)

// handler answers calls.
type handler struct{ s *Server }

var _ guestpb.GuestHandler = (*handler)(nil)

// empty is the answer of calls that have none.
func empty(err error) (*connect.Response[guestpb.Empty], error) {
	return answer(&guestpb.Empty{}, err)
}

func answer[T any](m *T, err error) (*connect.Response[T], error) {
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(m), nil
}

func (h *handler) Hello(ctx context.Context, r *connect.Request[guestpb.HelloRequest]) (*connect.Response[guestpb.HelloReply], error) {
	if ses, ok := ctx.Value(sessionKey{}).(*session); ok && r.Msg.Egress {
		ses.takesEgress()
	}
	return connect.NewResponse(&guestpb.HelloReply{Version: wire.Version}), nil
}

func (h *handler) Bind(_ context.Context, r *connect.Request[guestpb.Settings]) (*connect.Response[guestpb.Empty], error) {
	return empty(h.s.bind(r.Msg))
}

func (h *handler) Stats(context.Context, *connect.Request[guestpb.Empty]) (*connect.Response[guestpb.StatsReply], error) {
	return connect.NewResponse(h.s.stats()), nil
}

func (h *handler) Start(_ context.Context, r *connect.Request[guestpb.Command]) (*connect.Response[guestpb.ProcessState], error) {
	c, err := h.s.command(r.Msg)
	if err != nil {
		return nil, err
	}
	if _, err := h.s.procs.Start(c); err != nil {
		return nil, h.s.hide(err)
	}
	return connect.NewResponse(&guestpb.ProcessState{Id: c.ID, Running: true}), nil
}

func (h *handler) State(_ context.Context, r *connect.Request[guestpb.ProcessRef]) (*connect.Response[guestpb.ProcessState], error) {
	p, err := h.s.procs.Get(r.Msg.Id)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(stateMessage(p.State(true))), nil
}

func (h *handler) Wait(ctx context.Context, r *connect.Request[guestpb.WaitRequest]) (*connect.Response[guestpb.ProcessState], error) {
	p, err := h.s.procs.Get(r.Msg.Id)
	if err != nil {
		return nil, err
	}
	st, err := p.Wait(ctx, r.Msg.UntilInput)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(stateMessage(st)), nil
}

func (h *handler) Processes(context.Context, *connect.Request[guestpb.Empty]) (*connect.Response[guestpb.ProcessList], error) {
	list := &guestpb.ProcessList{}
	size := 0
	for _, p := range h.s.procs.All() {
		if strings.HasPrefix(p.ID(), internalPrefix) {
			continue
		}
		m := stateMessage(p.State(false))
		for _, a := range m.Args {
			size += len(a)
		}
		if size > maxCall/2 { // the command lines of the oldest do not fit
			m.Args = m.Args[:1]
		}
		list.Processes = append(list.Processes, m)
	}
	return connect.NewResponse(list), nil
}

func (h *handler) Write(ctx context.Context, r *connect.Request[guestpb.WriteRequest]) (*connect.Response[guestpb.Empty], error) {
	p, err := h.s.procs.Get(r.Msg.Id)
	if err != nil {
		return nil, err
	}
	return empty(p.Write(ctx, r.Msg.Data))
}

func (h *handler) CloseStdin(ctx context.Context, r *connect.Request[guestpb.ProcessRef]) (*connect.Response[guestpb.Empty], error) {
	p, err := h.s.procs.Get(r.Msg.Id)
	if err != nil {
		return nil, err
	}
	return empty(p.CloseStdin(ctx))
}

func (h *handler) Resize(_ context.Context, r *connect.Request[guestpb.ResizeRequest]) (*connect.Response[guestpb.Empty], error) {
	p, err := h.s.procs.Get(r.Msg.Id)
	if err != nil {
		return nil, err
	}
	return empty(p.Resize(uint16(r.Msg.Rows), uint16(r.Msg.Cols)))
}

func (h *handler) Signal(_ context.Context, r *connect.Request[guestpb.SignalRequest]) (*connect.Response[guestpb.Empty], error) {
	sig, err := signalNumber(r.Msg.Name)
	if err != nil {
		return nil, err
	}
	p, err := h.s.procs.Get(r.Msg.Id)
	if err != nil {
		return nil, err
	}
	return empty(p.Signal(sig))
}

func (h *handler) Stat(_ context.Context, r *connect.Request[guestpb.PathRequest]) (*connect.Response[guestpb.Entry], error) {
	return answer(h.s.stat(r.Msg.Path))
}

func (h *handler) ReadDir(_ context.Context, r *connect.Request[guestpb.PathRequest]) (*connect.Response[guestpb.EntryList], error) {
	return answer(h.s.readDir(r.Msg.Path))
}

func (h *handler) Move(_ context.Context, r *connect.Request[guestpb.MoveRequest]) (*connect.Response[guestpb.Empty], error) {
	return empty(h.s.move(r.Msg.From, r.Msg.To))
}

func (h *handler) Remove(_ context.Context, r *connect.Request[guestpb.PathRequest]) (*connect.Response[guestpb.Empty], error) {
	return empty(h.s.remove(r.Msg.Path))
}

func (h *handler) MakeDir(_ context.Context, r *connect.Request[guestpb.PathRequest]) (*connect.Response[guestpb.Empty], error) {
	return empty(h.s.makeDir(r.Msg.Path))
}

func (h *handler) Glob(ctx context.Context, r *connect.Request[guestpb.GlobRequest]) (*connect.Response[guestpb.EntryList], error) {
	return answer(h.s.glob(ctx, r.Msg))
}

func (h *handler) Search(ctx context.Context, r *connect.Request[guestpb.SearchRequest]) (*connect.Response[guestpb.SearchReply], error) {
	return answer(h.s.search(ctx, r.Msg))
}

func (h *handler) Listeners(context.Context, *connect.Request[guestpb.Empty]) (*connect.Response[guestpb.ListenerList], error) {
	return connect.NewResponse(h.s.listeners()), nil
}
