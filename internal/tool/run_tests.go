package tool

import (
	"context"
	_ "embed"
	"fmt"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/clip"
	"github.com/glovebox-dev/glovebox/internal/guest"
)

//go:embed run_tests.md
var runTestsPrompt string

type runTestsInput struct {
	Cwd      string   `json:"cwd,omitempty" jsonschema:"maxLength=4096" jsonschema_description:"The project's directory; /workspace if left out."`
	Args     []string `json:"args,omitempty" jsonschema:"maxItems=50,maxLength=4096" jsonschema_description:"Arguments for the runner, such as a file or a filter."`
	TimeoutS int      `json:"timeout_s,omitempty" jsonschema:"minimum=1,maximum=3600" jsonschema_description:"Seconds to wait for the end; 300 if left out."`
}

// RunTests returns the tool that runs a project's tests and tells in short
// what failed.
func RunTests() Tool { return yields(New("run_tests", runTestsPrompt, runTests)) }

func runTests(ctx context.Context, env *Env, in runTestsInput) (Result, error) {
	if problem := badPath("cwd", in.Cwd); problem != "" {
		return ErrorResult(problem), nil
	}
	for i, a := range in.Args {
		if strings.ContainsRune(a, 0) {
			return ErrorResult(fmt.Sprintf(`"args[%d]": it contains a NUL byte`, i)), nil
		}
	}
	dir := dirOr(workDir(in.Cwd))
	if _, err := env.Guest.Stat(ctx, dir); err != nil {
		return fileFailed(ctx, env, dir, err)
	}
	r, err := findRunner(ctx, env, dir)
	if err != nil {
		return failed(ctx, err)
	}
	if r == nil {
		return ErrorResult(noRunner(ctx, env, dir)), nil
	}
	// Below the home directory, which is outside of what is checkpointed.
	report := "." + processID("tests", env.CallID, 0)
	p, err := start(ctx, env, pipePrefix, guest.Command{
		Args: append([]string{"bash", "-c", shellPath + r.script, r.name, report}, in.Args...),
		Dir:  workDir(in.Cwd),
		Env:  processEnv("CI", "true"),
	})
	if err != nil {
		return startFailed(ctx, env, in.Cwd, err)
	}
	w := watch{timeout: 300 * time.Second, untilInput: true, line: r.line}
	if in.TimeoutS > 0 {
		w.timeout = time.Duration(in.TimeoutS) * time.Second
	}
	o, err := follow(ctx, env, p, w)
	if err != nil {
		return failed(ctx, err)
	}
	if o.why != ended {
		return processResult(ctx, env, p.ID(), o), nil
	}
	return testResult(ctx, env, r, guest.Home+"/"+report, o)
}

// testResult reads the report, which it removes, and says what came out.
func testResult(ctx context.Context, env *Env, r *runner, report string, o outcome) (Result, error) {
	data, _, err := env.Guest.ReadFile(ctx, report, 0, textBound)
	switch glovebox.CodeOf(err) {
	case "":
		if err := env.Guest.Remove(ctx, report); err != nil && glovebox.CodeOf(err) == glovebox.CodeUnavailable {
			return Result{}, err
		}
	case glovebox.CodeUnavailable, glovebox.CodeInternal:
		return Result{}, err
	}
	output := cleanText(o.output)
	results, ok := r.parse(data, output)
	handle, problem := "", ""
	if strings.TrimSpace(output) != "" {
		handle, problem = save(ctx, env, []byte(output))
	}
	var text string
	passed := o.state.ExitCode == 0
	switch {
	case !ok, !passed && len(results.failures) == 0: // it did not get as far as the tests
		text = fmt.Sprintf("%s: %s\n%s", r.name, exitText(env, o), Cut(strings.TrimSpace(output), OutputBound/2, handle))
	default:
		text = fmt.Sprintf("%s: %s\n%s", r.name, exitText(env, o), results.text())
	}
	text = strings.TrimSpace(text)
	if handle != "" {
		text += fmt.Sprintf("\n[whole output: read_output with handle %q]", clip.Short(handle, 128))
	}
	result := TextResult(text + problem)
	result.Blob = handle
	result.IsError = !passed
	return result, nil
}
