package tool

import (
	"context"
	_ "embed"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/clip"
	"github.com/glovebox-dev/glovebox/internal/guest"
)

//go:embed shell_output.md
var shellOutputPrompt string

type shellOutputInput struct {
	ID    string `json:"id" jsonschema:"minLength=1,maxLength=64" jsonschema_description:"Id of the command."`
	Since int64  `json:"since,omitempty" jsonschema:"minimum=0" jsonschema_description:"Offset in bytes from which to show the output, as an earlier result named it; if left out, the end of the output is shown."`
	WaitS int    `json:"wait_s,omitempty" jsonschema:"minimum=0,maximum=3600" jsonschema_description:"Seconds to wait for it to end, to wait for input, or for until."`
	Until string `json:"until,omitempty" jsonschema:"maxLength=1000" jsonschema_description:"Regular expression: stop waiting when the output matches, e.g. \"ready|error\"."`
}

// recent is how much output is shown if the model does not say since when.
const recent = 8 << 10

// ShellOutput returns the tool that shows what a background command wrote.
func ShellOutput() Tool { return yields(New("shell_output", shellOutputPrompt, shellOutput)) }

func shellOutput(ctx context.Context, env *Env, in shellOutputInput) (Result, error) {
	var until *regexp.Regexp
	if in.Until != "" {
		var err error
		if until, err = regexp.Compile("(?m)" + in.Until); err != nil {
			return ErrorResult(`"until": ` + err.Error()), nil //nolint:nilerr // for the model
		}
	}
	p, state, r, err := attach(ctx, env, in.ID)
	if p == nil {
		return r, err
	}
	w := watch{offset: in.Since, timeout: time.Millisecond, silent: true}
	if in.Since > state.OutputSize {
		return ErrorResult(fmt.Sprintf(`"since": %d is past the end; %s has written %d bytes so far`, in.Since, in.ID, state.OutputSize)), nil
	}
	if in.Since == 0 {
		w.offset = max(0, state.OutputSize-recent)
	}
	if in.WaitS > 0 {
		w.timeout, w.until, w.silent = time.Duration(in.WaitS)*time.Second, until, false
		w.untilInput = until == nil
	}
	o, err := follow(ctx, env, p, w)
	if err != nil {
		return failed(ctx, err)
	}
	return laterResult(ctx, env, p.ID(), w.offset, o), nil
}

// attach finds a process that the model may touch: one that it started. The
// result is set if there is no such process.
func attach(ctx context.Context, env *Env, id string) (*guest.Process, guest.ProcessState, Result, error) {
	none := guest.ProcessState{}
	if !ours(id) {
		return nil, none, ErrorResult(fmt.Sprintf("%q is not the id of a command.%s", clip.Short(id, 64), running(ctx, env))), nil
	}
	p, err := env.Guest.Attach(ctx, id)
	if glovebox.CodeOf(err) == glovebox.CodeNotFound {
		return nil, none, ErrorResult(fmt.Sprintf("There is no command %q; a rebuilt sandbox has none of before.%s", id, running(ctx, env))), nil
	}
	var state guest.ProcessState
	if err == nil {
		state, err = p.State(ctx)
	}
	if err != nil {
		r, err := failed(ctx, err)
		return nil, none, r, err
	}
	return p, state, Result{}, nil
}

func ours(id string) bool {
	return processIDPattern.MatchString(id)
}

var processIDPattern = regexp.MustCompile(`^(` + pipePrefix + `|` + ttyPrefix + `)-[0-9a-z]{5}$`)

// running lists the commands that run, for a model that has lost an id.
func running(ctx context.Context, env *Env) string {
	all, err := env.Guest.Processes(ctx)
	if err != nil {
		return ""
	}
	var b strings.Builder
	n := 0
	for _, s := range all {
		if !ours(s.ID) || !s.Running {
			continue
		}
		if n++; n > 20 {
			b.WriteString("\n- and more")
			break
		}
		fmt.Fprintf(&b, "\n- %s: %s", s.ID, commandOf(s))
	}
	if n == 0 {
		return " None is running."
	}
	return " Running:" + b.String()
}

// commandOf is the command as the model wrote it, on one line.
func commandOf(s guest.ProcessState) string {
	if len(s.Args) == 0 {
		return "?"
	}
	command := strings.TrimPrefix(s.Args[len(s.Args)-1], shellPath)
	return clip.Short(strings.Join(strings.Fields(command), " "), 100)
}

// laterResult is the result of looking at a process again.
func laterResult(ctx context.Context, env *Env, id string, offset int64, o outcome) Result {
	text, handle := outputText(ctx, env, o.output, OutputBound-statusRoom)
	if text == "" {
		text = "(no output)"
	}
	var status string
	switch o.why {
	case ended:
		status = id + " has ended: " + exitText(env, o)
	case waiting:
		status = id + " seems to wait for input"
	case matched:
		status = id + " is running, and until was found"
	case yielded:
		status = id + " is running; the wait was interrupted by a message of the user"
	default:
		status = id + " is running"
		if o.state.WaitsInput {
			status = id + " seems to wait for input"
		}
	}
	r := TextResult(fmt.Sprintf("%s\n[%s; shown from byte %d, go on with since=%d%s]", text, status, offset, o.state.OutputSize, lostText(o)))
	r.Blob = handle
	return r
}
