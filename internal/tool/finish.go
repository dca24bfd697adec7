package tool

import (
	"context"
	_ "embed"
	"fmt"
	"strings"
)

//go:embed finish.md
var finishPrompt string

type finishInput struct {
	Summary  string   `json:"summary" jsonschema:"minLength=1,maxLength=4096" jsonschema_description:"What was built, for the user: what it does, what it does not, what was decided."`
	HowToRun string   `json:"how_to_run" jsonschema:"minLength=1,maxLength=4096" jsonschema_description:"Commands that start it on the user's machine, from the project's directory."`
	Proofs   []string `json:"proofs" jsonschema:"minItems=1,maxItems=10,minLength=1,maxLength=4096" jsonschema_description:"Bash commands that exit with 0 in /workspace if and only if the project works. They are run again."`
}

// FinishJob returns the tool that ends the job, if its proofs pass.
func FinishJob() Tool { return readOnly(New("finish", finishPrompt, finish)) }

func finish(_ context.Context, _ *Env, in finishInput) (Result, error) {
	for i, p := range in.Proofs {
		switch trimmed := strings.TrimSpace(p); {
		case strings.ContainsRune(p, 0):
			return ErrorResult(fmt.Sprintf(`"proofs[%d]": it contains a NUL byte`, i)), nil
		case trimmed == "" || trimmed == "true" || trimmed == ":" || strings.HasPrefix(trimmed, "#"):
			return ErrorResult(fmt.Sprintf(`"proofs[%d]": %q proves nothing. Give a command that fails when the project does not work: its tests, its build.`, i, clip(trimmed, 60))), nil
		}
	}
	r := TextResult(fmt.Sprintf("The proofs (%d) are run now.", len(in.Proofs)))
	r.Finish = &Finish{Summary: in.Summary, HowToRun: in.HowToRun, Proofs: in.Proofs}
	return r, nil
}
