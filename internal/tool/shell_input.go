package tool

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/glovebox-dev/glovebox"
)

//go:embed shell_input.md
var shellInputPrompt string

type shellInputInput struct {
	ID    string `json:"id" jsonschema:"minLength=1,maxLength=64" jsonschema_description:"Id of the command."`
	Text  string `json:"text,omitempty" jsonschema:"maxLength=65536" jsonschema_description:"What to type."`
	Enter bool   `json:"enter,omitempty" jsonschema_description:"Press Enter after the text."`
	Key   string `json:"key,omitempty" jsonschema:"enum=ctrl-c,enum=ctrl-d,enum=ctrl-z,enum=escape,enum=tab,enum=space,enum=backspace,enum=up,enum=down,enum=left,enum=right" jsonschema_description:"A key to press after that."`
	WaitS int    `json:"wait_s,omitempty" jsonschema:"minimum=1,maximum=3600" jsonschema_description:"Seconds to wait for what it does next; 5 if left out. Ends early when it ends or waits again."`
}

// keys are what a terminal sends for each key.
var keys = map[string]string{
	"ctrl-c": "\x03", "ctrl-d": "\x04", "ctrl-z": "\x1a", "escape": "\x1b", "tab": "\t", "space": " ", "backspace": "\x7f",
	"up": "\x1b[A", "down": "\x1b[B", "left": "\x1b[D", "right": "\x1b[C",
}

// ShellInput returns the tool that answers a command that waits for input.
func ShellInput() Tool { return yields(New("shell_input", shellInputPrompt, shellInput)) }

func shellInput(ctx context.Context, env *Env, in shellInputInput) (Result, error) {
	if in.Text == "" && !in.Enter && in.Key == "" {
		return ErrorResult("There is nothing to send: give text, enter or key."), nil
	}
	p, state, r, err := attach(ctx, env, in.ID)
	if p == nil {
		return r, err
	}
	if !state.Running {
		return ErrorResult(fmt.Sprintf("%s has ended (%s) and takes no input.", in.ID, exitText(env, outcome{state: state}))), nil
	}
	tty := in.ID[:len(ttyPrefix)] == ttyPrefix
	text, problem := typed(in, tty)
	if problem != "" {
		return ErrorResult(problem), nil
	}
	if text != "" {
		if err := p.Write(ctx, []byte(text)); err != nil {
			return inputFailed(ctx, in.ID, err)
		}
	}
	if !tty && in.Key == "ctrl-c" {
		err = p.Signal(ctx, "SIGINT")
	} else if !tty && in.Key == "ctrl-d" {
		err = p.CloseStdin(ctx)
	}
	if err != nil {
		return inputFailed(ctx, in.ID, err)
	}
	w := watch{offset: state.OutputSize, timeout: 5 * time.Second, untilInput: true}
	if in.WaitS > 0 {
		w.timeout = time.Duration(in.WaitS) * time.Second
	}
	o, err := follow(ctx, env, p, w)
	if err != nil {
		return failed(ctx, err)
	}
	return laterResult(ctx, env, in.ID, w.offset, o), nil
}

// typed returns the bytes to write. Without a terminal, Ctrl-C and Ctrl-D are
// not bytes but a signal and the end of the input, and other keys are nothing.
func typed(in shellInputInput, tty bool) (text, problem string) {
	text = in.Text
	if in.Enter && tty {
		text += "\r"
	} else if in.Enter {
		text += "\n"
	}
	switch {
	case tty:
		text += keys[in.Key]
	case in.Key == "" || in.Key == "ctrl-c" || in.Key == "ctrl-d":
	case in.Key == "tab" || in.Key == "space":
		text += keys[in.Key]
	default:
		problem = fmt.Sprintf(`"key": %s has no terminal, so %s means nothing to it. Start the command with tty=true to press keys.`, in.ID, in.Key)
	}
	return text, problem
}

func inputFailed(ctx context.Context, id string, err error) (Result, error) {
	if code := glovebox.CodeOf(err); ctx.Err() == nil && code == glovebox.CodeConflict {
		return ErrorResult(fmt.Sprintf("%s takes no input any more: %s", id, plain(err))), nil
	}
	return failed(ctx, err)
}
