package guest

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest/guestpb"
	"github.com/glovebox-dev/glovebox/internal/guest/wire"
)

// killGrace is how long Run waits for the state of a process that it killed.
const killGrace = 2 * time.Second

// writeChunk is how much input goes into one call.
const writeChunk = 1 << 20

// Process is a process in the sandbox.
type Process struct {
	c  *Client
	id string
}

func commandMessage(cmd Command) (*guestpb.Command, error) {
	if !wire.ValidID(cmd.ID) {
		return nil, glovebox.Invalid("id", "use 1 to 64 of [0-9A-Za-z_-]", "%.80q can't name a process", cmd.ID)
	}
	return &guestpb.Command{
		Id: cmd.ID, Args: cmd.Args, Dir: cmd.Dir, Env: cmd.Env, Root: cmd.Root, NoStdin: cmd.NoStdin,
		Tty: cmd.TTY, Rows: uint32(cmd.Rows), Cols: uint32(cmd.Cols), OutputLimit: cmd.OutputLimit,
	}, nil
}

func stateOf(m *guestpb.ProcessState) ProcessState {
	s := ProcessState{
		ID: m.GetId(), Args: m.GetArgs(), PID: int(m.GetPid()), Running: m.GetRunning(), ExitCode: int(m.GetExitCode()), Signal: m.GetSignal(),
		StartedAt: time.Unix(0, m.GetStartedAt()), CPU: time.Duration(m.GetCpu()), MaxRSS: m.GetMaxRss(), WaitsInput: m.GetWaitsInput(), OutputSize: m.GetOutputSize(),
	}
	if m.GetEndedAt() != 0 {
		s.EndedAt = time.Unix(0, m.GetEndedAt())
	}
	return s
}

// Start starts a process.
func (c *Client) Start(ctx context.Context, cmd Command) (*Process, error) {
	m, err := commandMessage(cmd)
	if err != nil {
		return nil, err
	}
	if _, err := call(ctx, c, "start a process", c.rpc.Start, m); err != nil {
		return nil, err
	}
	return &Process{c: c, id: cmd.ID}, nil
}

// Attach returns a process that was started before, also by another Client
// and also if it has ended. CodeNotFound if there is none with that id.
func (c *Client) Attach(ctx context.Context, id string) (*Process, error) {
	p := &Process{c: c, id: id}
	if _, err := p.State(ctx); err != nil {
		return nil, err
	}
	return p, nil
}

// Processes returns the processes that were started, also those that ended
// (the newest 1000), the newest first.
func (c *Client) Processes(ctx context.Context) ([]ProcessState, error) {
	m, err := call(ctx, c, "list processes", c.rpc.Processes, &guestpb.Empty{})
	if err != nil {
		return nil, err
	}
	list := make([]ProcessState, 0, len(m.Processes))
	for _, p := range m.Processes {
		list = append(list, stateOf(p))
	}
	return list, nil
}

// Run starts a process, waits for its end and returns its output, at most
// limit bytes of it, the middle left out; 0 means 1 MiB. If ctx ends, the
// process group is killed, and what there was of output and state is returned
// with the error.
func (c *Client) Run(ctx context.Context, cmd Command, limit int64) (ProcessState, []byte, error) {
	const op = "run a process"
	m, err := commandMessage(cmd)
	if err != nil {
		return ProcessState{}, nil, err
	}
	if limit <= 0 {
		limit = 1 << 20
	}
	// The stream outlives ctx by a moment, so that the process can be killed.
	sctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	late := context.AfterFunc(ctx, func() { time.AfterFunc(killGrace, func() { cancel(context.Cause(ctx)) }) })
	defer late()
	f, err := c.stream(sctx, op, wire.Header{Kind: wire.KindRun}, false)
	if err != nil {
		return ProcessState{}, nil, err
	}
	defer f.close()
	if err := f.w.WriteMessage(&guestpb.RunRequest{Command: m, Limit: limit}); err != nil {
		return ProcessState{}, nil, f.fail(err)
	}
	if err := f.w.Flush(); err != nil {
		return ProcessState{}, nil, f.fail(err)
	}
	stop := context.AfterFunc(ctx, func() {
		_ = f.st.SetWriteDeadline(time.Now().Add(killGrace))
		_, _ = f.st.Write(wire.AppendFrame(nil, wire.FrameKill, nil))
	})
	defer stop()
	st, out, err := f.readRun(limit)
	if ctx.Err() != nil {
		err = unavailable(op, context.Cause(ctx))
	}
	return st, out, err
}

// readRun reads the answer to a run: output, then the state.
func (f *framed) readRun(limit int64) (ProcessState, []byte, error) {
	var out []byte
	for {
		fr, err := f.r.Read()
		if err != nil {
			return ProcessState{}, out, f.fail(err)
		}
		switch fr.Type {
		case wire.FrameData, wire.FrameStderr:
			out = append(out, fr.Data...)
		case wire.FrameGap:
			n, err := gapOf(fr)
			if err != nil {
				return ProcessState{}, out, f.fail(err)
			}
			out = append(out, gapLine(n)...)
		case wire.FrameMessage:
			var m guestpb.ProcessState
			if err := wire.Unmarshal(fr.Data, &m); err != nil {
				return ProcessState{}, out, f.fail(err)
			}
			return stateOf(&m), out, nil
		default:
			return ProcessState{}, out, f.fail(wire.Unexpected(fr))
		}
		if int64(len(out)) > limit+1<<10 { // the guest keeps at least 1 KiB, and a line about the gap
			return ProcessState{}, nil, f.fail(glovebox.Errorf(glovebox.CodeUnavailable, "the guest sent more than the %d bytes of output that were asked for", limit))
		}
	}
}

func gapOf(f wire.Frame) (int64, error) {
	if len(f.Data) != 8 || f.Data[0]&0x80 != 0 {
		return 0, wire.Unexpected(f)
	}
	return int64(binary.BigEndian.Uint64(f.Data)), nil
}

func gapLine(n int64) string { return fmt.Sprintf("\n[... %d bytes left out ...]\n", n) }

// ID returns the id given in Command.
func (p *Process) ID() string { return p.id }

// Output streams what the process writes, from byte offset on, to f until
// the process ends and all is read, f returns an error, or ctx ends. What was
// dropped for OutputLimit is replaced by one line that says how much. Data is
// valid until f returns. What things left in the background write more than
// a second after the end of the process may come too late for a reader, see
// package proc.
func (p *Process) Output(ctx context.Context, offset int64, f func(Output) error) error {
	s, err := p.c.stream(ctx, "read output of "+p.id, wire.Header{Kind: wire.KindOutput}, false)
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.w.WriteMessage(&guestpb.OutputRequest{Id: p.id, Offset: offset}); err != nil {
		return s.fail(err)
	}
	if err := s.w.Flush(); err != nil {
		return s.fail(err)
	}
	offset = max(0, offset)
	for {
		fr, err := s.r.Read()
		if err != nil {
			return s.fail(err)
		}
		o := Output{Stderr: fr.Type == wire.FrameStderr, Data: fr.Data, Offset: offset}
		switch fr.Type {
		case wire.FrameData, wire.FrameStderr:
			offset += int64(len(fr.Data))
		case wire.FrameGap:
			if o.Dropped, err = gapOf(fr); err != nil {
				return s.fail(err)
			}
			o.Data = []byte(gapLine(o.Dropped))
			offset += o.Dropped
		case wire.FrameEnd:
			return nil
		default:
			return s.fail(wire.Unexpected(fr))
		}
		if err := f(o); err != nil {
			return err
		}
	}
}

// Write writes to the process's standard input or terminal. It waits while
// the process does not read. CodeConflict if the input is closed.
func (p *Process) Write(ctx context.Context, b []byte) error {
	for first := true; first || len(b) > 0; first = false {
		n := min(len(b), writeChunk)
		if err := do(ctx, p.c, "write to "+p.id, p.c.rpc.Write, &guestpb.WriteRequest{Id: p.id, Data: b[:n]}); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// CloseStdin ends the standard input; on a terminal it types end of file.
func (p *Process) CloseStdin(ctx context.Context) error {
	return do(ctx, p.c, "close the input of "+p.id, p.c.rpc.CloseStdin, &guestpb.ProcessRef{Id: p.id})
}

// Terminal returns a two-way stream to the terminal of a process with a TTY,
// beginning with what it writes from now on.
func (p *Process) Terminal(ctx context.Context) (net.Conn, error) {
	return p.c.join(ctx, "open the terminal of "+p.id, wire.Header{Kind: wire.KindTerminal, Arg: p.id})
}

// Resize sets the size of the terminal.
func (p *Process) Resize(ctx context.Context, rows, cols uint16) error {
	return do(ctx, p.c, "resize the terminal of "+p.id, p.c.rpc.Resize, &guestpb.ResizeRequest{Id: p.id, Rows: uint32(rows), Cols: uint32(cols)})
}

// Signal sends a signal ("SIGINT", "SIGTERM", "SIGKILL", "SIGHUP", "SIGQUIT",
// "SIGUSR1", "SIGUSR2", "SIGSTOP", "SIGCONT") to the whole process group and
// to what was started from it and left the group. If all of it has ended,
// that is no error.
func (p *Process) Signal(ctx context.Context, name string) error {
	return do(ctx, p.c, "signal "+p.id, p.c.rpc.Signal, &guestpb.SignalRequest{Id: p.id, Name: name})
}

// State returns what the guest knows now.
func (p *Process) State(ctx context.Context) (ProcessState, error) {
	m, err := call(ctx, p.c, "ask for the state of "+p.id, p.c.rpc.State, &guestpb.ProcessRef{Id: p.id})
	if err != nil {
		return ProcessState{}, err
	}
	return stateOf(m), nil
}

// Wait returns when the process has ended, or ctx does, or, if untilInput,
// when it has waited for input for half a second.
func (p *Process) Wait(ctx context.Context, untilInput bool) (ProcessState, error) {
	m, err := callUntimed(ctx, "wait for "+p.id, p.c.rpc.Wait, &guestpb.WaitRequest{Id: p.id, UntilInput: untilInput})
	if err != nil {
		return ProcessState{}, err
	}
	return stateOf(m), nil
}
