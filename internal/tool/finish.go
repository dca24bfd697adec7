package tool

import (
	"context"
	_ "embed"
	"fmt"
	"strings"

	"github.com/glovebox-dev/glovebox/internal/browser"
	"github.com/glovebox-dev/glovebox/internal/clip"
)

//go:embed finish.md
var finishPrompt string

type finishInput struct {
	Summary  string  `json:"summary" jsonschema:"minLength=1,maxLength=4096" jsonschema_description:"What was built, for the user: what it does, what it does not, what was decided."`
	HowToRun string  `json:"how_to_run" jsonschema:"minLength=1,maxLength=4096" jsonschema_description:"Commands that start it on the user's machine, from the project's directory."`
	Proofs   []Proof `json:"proofs" jsonschema:"minItems=1,maxItems=10" jsonschema_description:"Each a Bash command that exits with 0 in /workspace if and only if the project works, or a page. They are run again."`
}

// FinishJob returns the tool that ends the job, if its proofs pass.
func FinishJob() Tool { return readOnly(New("finish", finishPrompt, finish)) }

func finish(_ context.Context, _ *Env, in finishInput) (Result, error) {
	for i, p := range in.Proofs {
		if problem := badProof(p); problem != "" {
			return ErrorResult(fmt.Sprintf(`"proofs[%d]": %s`, i, problem)), nil
		}
	}
	r := TextResult(fmt.Sprintf("The proofs (%d) are run now.", len(in.Proofs)))
	r.Finish = &Finish{Summary: in.Summary, HowToRun: in.HowToRun, Proofs: in.Proofs}
	return r, nil
}

// badProof says what is wrong with a proof; empty if nothing is.
func badProof(p Proof) string {
	if strings.ContainsRune(p.Command+p.Start+p.Expect, 0) {
		return "it contains a NUL byte"
	}
	if p.Page == "" {
		if nothing(p.Command) {
			return fmt.Sprintf("%q proves nothing. Give a command that fails when the project does not work: its tests, its build.", clip.Short(strings.TrimSpace(p.Command), 60))
		}
		return ""
	}
	u, err := browser.CheckURL("page", p.Page)
	if err != nil {
		return plain(err)
	}
	if _, local := localPort(u); p.Start != "" && !local {
		return fmt.Sprintf(`"start" can't serve %s: name a page of this machine, e.g. http://localhost:4173/`, clip.Short(u, 100))
	}
	return ""
}
