//go:build linux

package guestd

import (
	"context"
	"strings"
	"time"

	"connectrpc.com/connect"

	"github.com/glovebox-dev/glovebox/internal/guest"
	"github.com/glovebox-dev/glovebox/internal/guest/guestd/display"
	"github.com/glovebox-dev/glovebox/internal/guest/guestpb"
)

// displayHandler answers the calls about the screen.
type displayHandler struct {
	s *Server
	d *display.Display
}

var _ guestpb.DisplayHandler = (*displayHandler)(nil)

func newDisplayHandler(s *Server) *displayHandler {
	h := &displayHandler{s: s}
	h.d = display.New(h.socket)
	context.AfterFunc(s.ctx, h.d.Close)
	return h
}

// socket is where the X server listens.
func (h *displayHandler) socket() string {
	_, _ = h.s.supervisor() // without it the display is the usual one
	number, _, _ := strings.Cut(strings.TrimPrefix(h.s.displayName(), ":"), ".")
	return "/tmp/.X11-unix/X" + number
}

// displayName is the DISPLAY of programs: that which the service of that name
// serves, said by its first argument ":N" or its environment. It is empty
// before the services were asked for, and on a machine without a display.
func (s *Server) displayName() string {
	s.servicesMu.Lock()
	v := s.services
	s.servicesMu.Unlock()
	if v == nil {
		return ""
	}
	for _, d := range v.Definitions() {
		switch {
		case d.Name != guest.ServiceDisplay:
		case d.Env["DISPLAY"] != "":
			return d.Env["DISPLAY"]
		case len(d.Command) > 1 && strings.HasPrefix(d.Command[1], ":"):
			return d.Command[1]
		default:
			return ":1"
		}
	}
	return ""
}

func (h *displayHandler) Screenshot(ctx context.Context, r *connect.Request[guestpb.ShotRequest]) (*connect.Response[guestpb.Shot], error) {
	m := r.Msg
	shot, err := h.d.Screenshot(ctx, guest.ShotRequest{
		Area: rect(m.Area), Window: m.Window, MaxW: int(m.MaxW), MaxH: int(m.MaxH), JPEG: int(m.Jpeg), Pointer: m.Pointer, Unless: m.Unless,
	})
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&guestpb.Shot{
		Data: shot.Data, Area: rectMessage(shot.Area), W: int32(shot.W), H: int32(shot.H), Digest: shot.Digest,
		CursorX: int32(shot.Cursor[0]), CursorY: int32(shot.Cursor[1]),
	}), nil
}

func (h *displayHandler) Input(ctx context.Context, r *connect.Request[guestpb.InputList]) (*connect.Response[guestpb.Empty], error) {
	var items []guest.Input
	for _, m := range r.Msg.Items {
		items = append(items, guest.Input{
			Kind: guest.InputKind(m.Kind), X: int(m.X), Y: int(m.Y), Button: int(m.Button), DX: int(m.Dx), DY: int(m.Dy),
			Text: m.Text, Keys: m.Keys, Pause: time.Duration(m.Pause),
		})
	}
	return empty(h.d.Input(ctx, items))
}

func (h *displayHandler) Windows(ctx context.Context, _ *connect.Request[guestpb.Empty]) (*connect.Response[guestpb.WindowList], error) {
	windows, err := h.d.Windows(ctx)
	if err != nil {
		return nil, err
	}
	list := &guestpb.WindowList{}
	for _, w := range windows {
		list.Windows = append(list.Windows, &guestpb.Window{
			Id: w.ID, Title: w.Title, Class: strings.ToValidUTF8(w.Class, ""), Pid: int64(w.PID), Area: rectMessage(w.Area), Active: w.Active,
		})
	}
	return connect.NewResponse(list), nil
}

func (h *displayHandler) FocusWindow(ctx context.Context, r *connect.Request[guestpb.WindowRef]) (*connect.Response[guestpb.Empty], error) {
	return empty(h.d.FocusWindow(ctx, r.Msg.Id))
}

func (h *displayHandler) WaitChange(ctx context.Context, r *connect.Request[guestpb.ChangeRequest]) (*connect.Response[guestpb.ChangeReply], error) {
	changed, err := h.d.WaitChange(ctx, rect(r.Msg.Area), r.Msg.Unless, time.Duration(r.Msg.Timeout))
	return answer(&guestpb.ChangeReply{Changed: changed}, err)
}

func rect(m *guestpb.Rect) guest.Rect {
	return guest.Rect{X: int(m.GetX()), Y: int(m.GetY()), W: int(m.GetW()), H: int(m.GetH())}
}

func rectMessage(r guest.Rect) *guestpb.Rect {
	return &guestpb.Rect{X: int32(r.X), Y: int32(r.Y), W: int32(r.W), H: int32(r.H)}
}
