package tool

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox/internal/clip"
	"github.com/glovebox-dev/glovebox/internal/guest"
)

//go:embed code.md
var codePrompt string

type codeInput struct {
	Action   string `json:"action,omitempty" jsonschema:"enum=run,enum=wait,enum=interrupt,enum=restart,enum=list" jsonschema_description:"What to do; run if left out."`
	Language string `json:"language,omitempty" jsonschema:"enum=python,enum=typescript,enum=bash" jsonschema_description:"Of the code; python, or the kernel's, if left out."`
	Code     string `json:"code,omitempty" jsonschema:"maxLength=500000" jsonschema_description:"To run."`
	Kernel   string `json:"kernel,omitempty" jsonschema:"maxLength=64" jsonschema_description:"Name of the kernel, of letters, digits, _ and -; the language's own if left out."`
	TimeoutS int    `json:"timeout_seconds,omitempty" jsonschema:"minimum=1,maximum=3600" jsonschema_description:"Seconds after which the cell is interrupted, or wait returns; 120 if left out."`
}

// codeTimeout is how long a cell may take if the model does not say.
const codeTimeout = 120 * time.Second

// Code returns the tool that runs cells in kernels.
func Code() Tool { return yields(New("code", codePrompt, code)) }

func code(ctx context.Context, env *Env, in codeInput) (Result, error) {
	kernel := in.Kernel
	if kernel == "" {
		kernel = in.Language
	}
	if kernel == "" {
		kernel = "python"
	}
	if !kernelName(kernel) {
		return ErrorResult(fmt.Sprintf(`"kernel": %q is not a name of letters, digits, _ and -`, clip.Short(kernel, 64))), nil
	}
	if in.Action != "" && in.Action != "run" && in.Code != "" {
		return ErrorResult(fmt.Sprintf(`"code": leave it out with the action %s; nothing was done`, in.Action)), nil
	}
	timeout := codeTimeout
	if in.TimeoutS > 0 {
		timeout = time.Duration(in.TimeoutS) * time.Second
	}
	switch in.Action {
	case "list":
		return listKernels(ctx, env)
	case "restart":
		if err := env.Guest.RestartKernel(ctx, kernel); err != nil {
			return failed(ctx, err)
		}
		return TextResult(fmt.Sprintf("[kernel %s was restarted: its state is gone]", kernel)), nil
	case "interrupt":
		if err := env.Guest.InterruptKernel(ctx, kernel); err != nil {
			return failed(ctx, err)
		}
		return waitCell(ctx, env, kernel, interruptTime)
	case "wait":
		return waitCell(ctx, env, kernel, timeout)
	}
	if strings.TrimSpace(in.Code) == "" {
		return ErrorResult(`"code": it is empty; give the code to run`), nil
	}
	return runCell(ctx, env, guest.Cell{Kernel: kernel, Language: in.Language, Code: in.Code, Timeout: timeout})
}

// interruptTime is how long a cell may take to end once it is interrupted.
const interruptTime = 5 * time.Second

func kernelName(s string) bool {
	return len(s) <= 64 && strings.Trim(s, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_-") == ""
}

// runCell runs a cell, shows and records it.
func runCell(ctx context.Context, env *Env, cell guest.Cell) (Result, error) {
	o := newCellOutput(env)
	defer o.live.close()
	res, err := env.Guest.Execute(ctx, cell, o.take)
	if err != nil && !errors.Is(context.Cause(ctx), ErrYield) {
		return failed(ctx, err)
	}
	left := err != nil
	o.live.close()
	note := recordCell(ctx, env, cell, o, res, left)
	if left {
		return o.result(ctx, env, fmt.Sprintf("interrupted by a message of the user; the cell still runs in kernel %s: wait shows more, interrupt ends it", cell.Kernel)+note, false), nil
	}
	status, isError := cellStatus(cell.Kernel, res)
	return o.result(ctx, env, status+note, isError), nil
}

// waitCell shows the cell of a kernel that runs or ran last, and waits for
// its end.
func waitCell(ctx context.Context, env *Env, kernel string, timeout time.Duration) (Result, error) {
	o := newCellOutput(env)
	defer o.live.close()
	brief, cancel := context.WithTimeoutCause(ctx, timeout, errTimeUp)
	defer cancel()
	res, err := env.Guest.FollowCell(brief, kernel, o.take)
	if err != nil {
		switch {
		case errors.Is(context.Cause(ctx), ErrYield):
			return o.result(ctx, env, fmt.Sprintf("the wait was interrupted by a message of the user; the cell still runs in kernel %s", kernel), false), nil
		case ctx.Err() == nil && errors.Is(context.Cause(brief), errTimeUp):
			return o.result(ctx, env, fmt.Sprintf("the cell still runs in kernel %s: wait shows more, interrupt ends it, restart kills it", kernel), false), nil
		}
		return failed(ctx, err)
	}
	o.live.close()
	note := recordEnd(ctx, env, kernel, o, res)
	status, _ := cellStatus(kernel, res)
	return o.result(ctx, env, status+note, false), nil
}

// cellStatus says how a cell ended.
func cellStatus(kernel string, res guest.CellResult) (status string, isError bool) {
	took := seconds(res.Duration)
	switch res.Status {
	case "ok":
		status = fmt.Sprintf("cell %d ok after %s", res.Count, took)
	case "error":
		status, isError = fmt.Sprintf("cell %d failed after %s", res.Count, took), true
	case "interrupted":
		status, isError = fmt.Sprintf("cell %d was interrupted after %s; kernel %s keeps its state", res.Count, took, kernel), true
	default:
		return fmt.Sprintf("kernel %s died after %s, and its state with it (out of memory, a crash, or it ended itself); the next cell starts a new one", kernel, took), true
	}
	if res.Restarted && res.Count > 0 {
		status += fmt.Sprintf("; kernel %s is new, without variables of before", kernel)
	}
	return status, isError
}

func listKernels(ctx context.Context, env *Env) (Result, error) {
	list, err := env.Guest.Kernels(ctx)
	if err != nil {
		return failed(ctx, err)
	}
	if len(list) == 0 {
		return TextResult("No kernel was used yet; the first cell starts one."), nil
	}
	var b strings.Builder
	for _, k := range list {
		state := "idle"
		if k.Busy {
			state = "busy"
		}
		fmt.Fprintf(&b, "- %s: %s, %s, %d cells run\n", k.Name, k.Language, state, k.Cells)
	}
	return TextResult(strings.TrimRight(b.String(), "\n")), nil
}
