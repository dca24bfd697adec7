//go:build linux

package guestd

import (
	"context"
	"errors"
	"io"
	"sort"
	"strings"
	"time"
	"unicode/utf8"

	"connectrpc.com/connect"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest/guestd/kernel"
	"github.com/glovebox-dev/glovebox/internal/guest/guestd/proc"
	"github.com/glovebox-dev/glovebox/internal/guest/guestpb"
	"github.com/glovebox-dev/glovebox/internal/guest/wire"
)

// kernelsDir is where the kernels' connection files and sockets lie. JupyterLab
// is configured to look there.
const kernelsDir = "/run/glovebox/kernels"

// newKernels returns the manager of this sandbox's kernels, of which none runs.
func (s *Server) newKernels() *kernel.Manager {
	return kernel.New(kernel.Options{
		Dir:    s.real(kernelsDir),
		Specs:  s.o.KernelSpecs,
		Start:  s.startKernel,
		Forget: s.procs.Forget,
		AsUser: func(f func() error) error {
			if err := s.makeHome(s.real(kernelsDir)); err != nil { // its parent is root's
				return err
			}
			return s.asUser(f)
		},
		KillGrace: s.o.KernelGrace,
	})
}

func (s *Server) startKernel(id string, args []string, env map[string]string, limit int64) (*proc.Process, error) {
	dir, err := s.resolveDir("")
	if err != nil {
		return nil, err
	}
	return s.procs.Start(proc.Command{
		ID: internalPrefix + id, Args: args, Dir: dir, Env: s.environ(env, false), Cred: s.credential(false), NoStdin: true, OutputLimit: limit,
	})
}

// execute runs a cell, or follows one, and sends its output and result. The
// cell goes on if the host goes away.
func (f *framed) execute() error {
	var q guestpb.ExecuteRequest
	if err := f.r.ReadMessage(&q); err != nil {
		return err
	}
	code, err := io.ReadAll(io.LimitReader(wire.NewDataReader(f.r), kernel.MaxCode+1))
	if err != nil {
		return err
	}
	f.watchClose(nil)
	var run *kernel.Run
	if q.Follow {
		run, err = f.s.cells.Follow(q.Kernel)
	} else {
		run, err = f.s.cells.Execute(f.ctx, kernel.Cell{
			Kernel: q.Kernel, Language: q.Language, Code: string(code), Timeout: time.Duration(q.Timeout), Silent: q.Silent,
		})
	}
	if err != nil {
		return f.s.hide(err)
	}
	res, err := run.Follow(f.ctx, f.cellOutput)
	if err != nil {
		return err
	}
	return f.send(&guestpb.CellEvent{Event: &guestpb.CellEvent_Result{Result: &guestpb.CellResult{
		Status: res.Status, Count: int64(res.Count), Restarted: res.Restarted, Duration: int64(res.Duration),
	}}})
}

// textPiece is how much text one event carries: a message fits a frame.
const textPiece = 256 << 10

// cellOutput sends one piece of output.
func (f *framed) cellOutput(o kernel.Output) error {
	for len(o.Text) > textPiece {
		n := textPiece
		for !utf8.RuneStart(o.Text[n]) && n > textPiece-utf8.UTFMax {
			n--
		}
		first := o
		first.Text, o.Text = o.Text[:n], o.Text[n:]
		if err := f.cellOutput(first); err != nil {
			return err
		}
	}
	m := &guestpb.CellOutput{
		Kind: o.Kind, Text: valid(o.Text), Name: valid(o.Name), Value: valid(o.Value), Traceback: valid(o.Traceback),
	}
	types := make([]string, 0, len(o.Data))
	for t := range o.Data {
		types = append(types, t)
	}
	sort.Strings(types)
	for _, t := range types {
		m.Parts = append(m.Parts, &guestpb.CellPart{MediaType: valid(t), Size: int64(len(o.Data[t]))})
	}
	if err := f.w.WriteMessage(&guestpb.CellEvent{Event: &guestpb.CellEvent_Output{Output: m}}); err != nil {
		return err
	}
	for _, t := range types {
		if err := f.w.WriteData(wire.FrameData, o.Data[t]); err != nil {
			return err
		}
	}
	return f.w.Flush()
}

// kernelsHandler answers calls about kernels.
type kernelsHandler struct{ s *Server }

var _ guestpb.KernelsHandler = (*kernelsHandler)(nil)

// Interrupt implements guestpb.KernelsHandler.
func (h *kernelsHandler) Interrupt(ctx context.Context, r *connect.Request[guestpb.KernelRef]) (*connect.Response[guestpb.Empty], error) {
	return empty(h.s.cells.Interrupt(ctx, r.Msg.Name))
}

// Restart implements guestpb.KernelsHandler.
func (h *kernelsHandler) Restart(ctx context.Context, r *connect.Request[guestpb.KernelRef]) (*connect.Response[guestpb.Empty], error) {
	return empty(h.s.hide(h.s.cells.Restart(ctx, r.Msg.Name)))
}

// List implements guestpb.KernelsHandler.
func (h *kernelsHandler) List(context.Context, *connect.Request[guestpb.Empty]) (*connect.Response[guestpb.KernelList], error) {
	list := &guestpb.KernelList{}
	for _, k := range h.s.cells.List() {
		list.Kernels = append(list.Kernels, &guestpb.KernelState{Name: k.Name, Language: k.Language, Busy: k.Busy, Cells: int64(k.Cells)})
	}
	return connect.NewResponse(list), nil
}

// Warm implements guestpb.KernelsHandler.
func (h *kernelsHandler) Warm(ctx context.Context, r *connect.Request[guestpb.WarmRequest]) (*connect.Response[guestpb.Empty], error) {
	if len(r.Msg.Languages) > kernel.MaxKernels {
		return nil, glovebox.Invalid("languages", "name at most 8", "%d languages are too many", len(r.Msg.Languages))
	}
	err := h.s.cells.Warm(ctx, r.Msg.Languages)
	if errors.Is(err, context.Canceled) {
		err = glovebox.Errorf(glovebox.CodeUnavailable, "the call ended before the kernels were there")
	}
	return empty(h.s.hide(err))
}

// valid makes text such as a message may carry.
func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
