package guest

import (
	"context"
	"fmt"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest/guestpb"
	"github.com/glovebox-dev/glovebox/internal/guest/wire"
)

// Bounds of what is taken from a guest about one cell. The guest keeps to
// tighter ones; these hold when it does not.
const (
	maxCode      = 1 << 20  // bytes of a cell
	maxCellPart  = 9 << 20  // bytes of one representation of a display
	maxCellParts = 16       // representations of one display
	maxCellBytes = 40 << 20 // of all output of a cell together
	maxCellPiece = 10_000   // pieces of output
	maxKernels   = 64       // in a list
	warmTimeout  = 2 * time.Minute
)

// Execute runs a cell and calls f with each piece of its output as it comes.
// The kernel is started if it does not run. If ctx ends or f fails, Execute
// returns at once and the cell goes on: FollowCell shows it again, and
// InterruptKernel ends it.
//
// The error says that the cell could not be run or followed: CodeInvalid for
// a cell that is none, CodeNotFound if the image has no such kernel,
// CodeConflict if it does not start, CodeLimit if there are too many. A cell
// that fails is a CellResult.
func (c *Client) Execute(ctx context.Context, cell Cell, f func(CellOutput)) (CellResult, error) {
	if len(cell.Code) > maxCode {
		return CellResult{}, &glovebox.Error{
			Code: glovebox.CodeTooLarge, Field: "code", Msg: fmt.Sprintf("the cell has %d bytes; at most 1 MiB can be run", len(cell.Code)),
			Hint: "write the data to a file and read it in the cell",
		}
	}
	return c.cell(ctx, "run a cell", &guestpb.ExecuteRequest{
		Kernel: cell.Kernel, Language: cell.Language, Timeout: int64(cell.Timeout), Silent: cell.Silent,
	}, cell.Code, f)
}

// FollowCell calls f with the output of the cell that a kernel runs, or ran
// last, from its beginning on, and returns when it has ended. CodeNotFound if
// there is no such kernel or it has run nothing.
func (c *Client) FollowCell(ctx context.Context, kernel string, f func(CellOutput)) (CellResult, error) {
	return c.cell(ctx, "follow a cell", &guestpb.ExecuteRequest{Kernel: kernel, Follow: true}, "", f)
}

func (c *Client) cell(ctx context.Context, op string, q *guestpb.ExecuteRequest, code string, f func(CellOutput)) (CellResult, error) {
	s, err := c.stream(ctx, op, wire.Header{Kind: wire.KindExecute}, false)
	if err != nil {
		return CellResult{}, err
	}
	defer s.close()
	if err := s.w.WriteMessage(q); err != nil {
		return CellResult{}, s.fail(err)
	}
	if err := s.w.WriteData(wire.FrameData, []byte(code)); err != nil {
		return CellResult{}, s.fail(err)
	}
	if err := s.w.End(); err != nil {
		return CellResult{}, s.fail(err)
	}
	room := int64(maxCellBytes)
	for range maxCellPiece {
		var e guestpb.CellEvent
		if err := s.r.ReadMessage(&e); err != nil {
			return CellResult{}, s.fail(err)
		}
		if r := e.GetResult(); r != nil {
			return resultOf(r), nil
		}
		o, n, err := s.cellOutput(e.GetOutput(), room)
		if err != nil {
			return CellResult{}, s.fail(err)
		}
		if room -= n; room < 0 {
			return CellResult{}, s.fail(glovebox.Errorf(glovebox.CodeUnavailable, "the guest sent more than %d bytes of output of one cell", maxCellBytes))
		}
		if f != nil {
			f(o)
		}
	}
	return CellResult{}, s.fail(glovebox.Errorf(glovebox.CodeUnavailable, "the guest sent more than %d pieces of output of one cell", maxCellPiece))
}

// cellOutput reads a piece of output and what it announces. n is its size.
func (f *framed) cellOutput(m *guestpb.CellOutput, room int64) (o CellOutput, n int64, err error) {
	o = CellOutput{Kind: m.GetKind(), Text: m.GetText(), Name: m.GetName(), Value: m.GetValue(), Traceback: m.GetTraceback()}
	n = int64(len(o.Text) + len(o.Name) + len(o.Value) + len(o.Traceback))
	if len(m.GetParts()) > maxCellParts {
		return o, n, glovebox.Errorf(glovebox.CodeUnavailable, "the guest sent a display in %d forms, more than %d", len(m.Parts), maxCellParts)
	}
	for _, p := range m.GetParts() {
		if n += p.Size; p.Size < 0 || p.Size > maxCellPart || n > room || len(p.MediaType) > 100 {
			return o, n, glovebox.Errorf(glovebox.CodeUnavailable, "the guest announced %d bytes of a %.40q, more than a cell may show", p.Size, p.MediaType)
		}
		var b []byte
		for int64(len(b)) < p.Size {
			fr, err := f.r.Read()
			if err != nil {
				return o, n, err
			}
			if fr.Type != wire.FrameData || len(fr.Data) == 0 || int64(len(b)+len(fr.Data)) > p.Size {
				return o, n, wire.Unexpected(fr)
			}
			b = append(b, fr.Data...)
		}
		if o.Data == nil {
			o.Data = map[string][]byte{}
		}
		o.Data[p.MediaType] = b
	}
	return o, n, nil
}

// resultOf reads a result; a status that is not one counts as a dead kernel.
func resultOf(m *guestpb.CellResult) CellResult {
	r := CellResult{Status: m.Status, Count: int(m.Count), Restarted: m.Restarted, Duration: time.Duration(m.Duration)}
	switch r.Status {
	case "ok", "error", "interrupted", "died":
	default:
		r.Status = "died"
	}
	return r
}

// InterruptKernel interrupts the cell that a kernel runs, as ctrl-C would. It
// does not wait for its end. CodeNotFound if there is no such kernel,
// CodeConflict if it runs nothing.
func (c *Client) InterruptKernel(ctx context.Context, name string) error {
	return do(ctx, c, "interrupt a kernel", c.kernels.Interrupt, &guestpb.KernelRef{Name: name})
}

// RestartKernel ends a kernel with everything that its cells started, and
// starts it anew: its state is lost. CodeNotFound if there is no such kernel.
func (c *Client) RestartKernel(ctx context.Context, name string) error {
	ctx, cancel := c.warming(ctx)
	defer cancel()
	return do(ctx, c, "restart a kernel", c.kernels.Restart, &guestpb.KernelRef{Name: name})
}

// WarmKernels starts the kernels of languages, under the languages' names, so
// that the first cell finds them running; those that run are left alone. It is
// for machines that are about to be frozen: at the first Bind with a Seed or
// Secret after they were restored, a Python kernel that has run no cell gets a
// new key and new random seeds, and kernels of other languages, whose
// generators can't be reached, are ended and start with their next cell. So
// warming pays only for "python".
func (c *Client) WarmKernels(ctx context.Context, languages ...string) error {
	ctx, cancel := c.warming(ctx)
	defer cancel()
	return do(ctx, c, "start kernels", c.kernels.Warm, &guestpb.WarmRequest{Languages: languages})
}

// warming gives a call that starts kernels the time that those take.
func (c *Client) warming(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, has := ctx.Deadline(); has {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, warmTimeout)
}

// Kernels returns the kernels that were used or warmed.
func (c *Client) Kernels(ctx context.Context) ([]KernelState, error) {
	m, err := call(ctx, c, "list kernels", c.kernels.List, &guestpb.Empty{})
	if err != nil {
		return nil, err
	}
	if len(m.Kernels) > maxKernels {
		return nil, unavailable("list kernels", fmt.Errorf("the guest claims to run %d", len(m.Kernels)))
	}
	list := make([]KernelState, 0, len(m.Kernels))
	for _, k := range m.Kernels {
		if !wire.ValidID(k.Name) {
			continue
		}
		list = append(list, KernelState{Name: k.Name, Language: wire.CleanText(k.Language, 40), Busy: k.Busy, Cells: int(k.Cells)})
	}
	return list, nil
}
