package tool

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest"
)

//go:embed shell_stop.md
var shellStopPrompt string

type shellStopInput struct {
	ID string `json:"id" jsonschema:"minLength=1,maxLength=64" jsonschema_description:"Id of the command."`
}

// stops are the signals that end a command and how long each is given.
var stops = []struct {
	signal string
	wait   time.Duration
}{
	{"SIGINT", 3 * time.Second},
	{"SIGTERM", 3 * time.Second},
	{"SIGKILL", 30 * time.Second},
}

// ShellStop returns the tool that ends a background command, gently first.
func ShellStop() Tool { return New("shell_stop", shellStopPrompt, shellStop) }

func shellStop(ctx context.Context, env *Env, in shellStopInput) (Result, error) {
	p, state, r, err := attach(ctx, env, in.ID)
	if p == nil {
		return r, err
	}
	if !state.Running {
		return TextResult(fmt.Sprintf("%s had ended already: %s", in.ID, exitText(env, outcome{state: state}))), nil
	}
	for _, s := range stops {
		if err := p.Signal(ctx, s.signal); err != nil && glovebox.CodeOf(err) != glovebox.CodeConflict && glovebox.CodeOf(err) != glovebox.CodeNotFound {
			return failed(ctx, err)
		}
		o, err := follow(ctx, env, p, watch{offset: state.OutputSize, timeout: cmp.Or(env.patience.stop, s.wait)})
		if err != nil {
			return failed(ctx, err)
		}
		if o.why == ended {
			return stopped(ctx, env, p, o, s.signal)
		}
		state = o.state
	}
	return ErrorResult(fmt.Sprintf("%s did not end, even on SIGKILL. It may be blocked in the kernel; go on without it.", in.ID)), nil
}

// stopped is the result when p has ended: the end of all of its output.
func stopped(ctx context.Context, env *Env, p *guest.Process, o outcome, signal string) (Result, error) {
	o, err := follow(ctx, env, p, watch{offset: max(0, o.state.OutputSize-recent/2), timeout: catchUp, silent: true})
	if err != nil {
		return failed(ctx, err)
	}
	text, handle := outputText(ctx, env, o.output, recent)
	if text == "" {
		text = "(no output)"
	}
	r := TextResult(fmt.Sprintf("%s\n[%s ended on %s]", text, p.ID(), signal))
	r.Blob = handle
	return r, nil
}
