package tool

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest"
)

//go:embed shell.md
var shellPrompt string

type shellCall struct {
	Command    string `json:"command" jsonschema:"minLength=1,maxLength=120000" jsonschema_description:"Bash code to run."`
	Cwd        string `json:"cwd,omitempty" jsonschema:"maxLength=4096" jsonschema_description:"Directory to run it in; /workspace if left out."`
	TimeoutS   int    `json:"timeout_s,omitempty" jsonschema:"minimum=1,maximum=3600" jsonschema_description:"Seconds to wait for its end before it goes on in the background; 120 if left out."`
	Background bool   `json:"background,omitempty" jsonschema_description:"Put it into the background at once: servers, watchers."`
	TTY        bool   `json:"tty,omitempty" jsonschema_description:"Give it a terminal, for programs that insist on one."`
}

// The two kinds of process that the model starts. Which it is can be seen
// from the id, so that it need not be remembered anywhere.
const (
	pipePrefix = "sh"
	ttyPrefix  = "tty"
)

// shellPath goes before every command: what install_package installs is found.
const shellPath = `export PATH="` + guest.Workspace + `/.venv/bin:$HOME/.local/bin:$PATH"; `

// Shell returns the tool that runs a command in a bash of its own, so that a
// hanging command blocks no other. It never kills: a command that outlives
// its timeout or waits for input goes on in the background.
func Shell() Tool { return yields(New("shell", shellPrompt, shell)) }

// BashCommand returns the process that shell starts for a command. The proofs
// of finish are run in the same way, so that what worked works again. cwd is
// absolute or relative to the workspace; empty for it.
func BashCommand(command, cwd string) guest.Command {
	return guest.Command{
		Args: []string{"bash", "-c", shellPath + command},
		Dir:  workDir(cwd),
		Env:  processEnv(),
	}
}

func shell(ctx context.Context, env *Env, in shellCall) (Result, error) {
	if strings.ContainsRune(in.Command, 0) {
		return ErrorResult(`"command": it contains a NUL byte, which no command can`), nil
	}
	if problem := badPath("cwd", in.Cwd); problem != "" {
		return ErrorResult(problem), nil
	}
	cmd := BashCommand(in.Command, in.Cwd)
	prefix := pipePrefix
	if in.TTY {
		prefix = ttyPrefix
		cmd.TTY, cmd.Rows, cmd.Cols = true, 40, 160
		cmd.Env["TERM"] = "xterm-256color"
	}
	p, err := start(ctx, env, prefix, cmd)
	if err != nil {
		return startFailed(ctx, env, in.Cwd, err)
	}
	w := watch{timeout: 120 * time.Second, untilInput: true}
	if in.TimeoutS > 0 {
		w.timeout = time.Duration(in.TimeoutS) * time.Second
	}
	if in.Background {
		w.timeout, w.untilInput = cmp.Or(env.patience.background, lookForInput), false
	}
	o, err := follow(ctx, env, p, w)
	if err != nil {
		return failed(ctx, err)
	}
	r := processResult(ctx, env, p.ID(), o)
	if onlyCd.MatchString(in.Command) && o.why == ended && o.state.ExitCode == 0 {
		r.Content = append(r.Content, glovebox.Text("[cd does not last: every command starts in /workspace; use cwd]"))
	}
	return r, nil
}

var onlyCd = regexp.MustCompile(`^\s*cd(\s+[^;&|\n]+)?\s*$`)

// workDir is a cwd of the model's as the guest takes it.
func workDir(cwd string) string {
	if cwd == "" {
		return ""
	}
	if dir := sandboxPath(cwd); dir != "." {
		return dir
	}
	return ""
}

// startFailed explains why a process did not start: mostly, there is no such
// directory.
func startFailed(ctx context.Context, env *Env, cwd string, err error) (Result, error) {
	if cwd != "" && ctx.Err() == nil && glovebox.CodeOf(err) != glovebox.CodeUnavailable {
		dir := sandboxPath(cwd)
		e, statErr := env.Guest.Stat(ctx, dir)
		if glovebox.CodeOf(statErr) == glovebox.CodeNotFound {
			return ErrorResult(`"cwd": ` + missing(ctx, env, dir)), nil
		}
		if statErr == nil && e.Mode.IsRegular() {
			return ErrorResult(fmt.Sprintf(`"cwd": %s is a file, not a directory`, absolute(dir))), nil
		}
	}
	return failed(ctx, err)
}

// statusRoom is how much of OutputBound is kept for what follows the output.
const statusRoom = 1 << 10

// processResult is the result of having followed a process.
func processResult(ctx context.Context, env *Env, id string, o outcome) Result {
	text, handle := outputText(ctx, env, o.output, OutputBound-statusRoom)
	status := ""
	switch o.why {
	case ended:
		status = exitText(env, o)
	case waiting:
		status = fmt.Sprintf("it seems to wait for input, in the background as %s: answer with shell_input, end it with shell_stop, or see with shell_output whether it goes on", id)
	case timeout:
		status = fmt.Sprintf("still running after %s, in the background as %s: shell_output shows more, shell_stop ends it", seconds(o.took), id)
	case yielded:
		status = fmt.Sprintf("interrupted by a message of the user; it still runs, in the background as %s", id)
	case matched:
		status = fmt.Sprintf("found; it still runs, in the background as %s", id)
	}
	if o.why != ended {
		status += fmt.Sprintf("; output so far: %d bytes", o.state.OutputSize)
	}
	if text == "" {
		text = "(no output)"
	}
	r := TextResult(text + "\n[" + status + lostText(o) + "]")
	r.Blob = handle
	r.IsError = o.why == ended && o.state.ExitCode != 0
	return r
}
