package tool

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/glovebox-dev/glovebox"
)

//go:embed plan.md
var planPrompt string

type planInput struct {
	Steps []planStep `json:"steps" jsonschema:"minItems=1,maxItems=50" jsonschema_description:"All steps, in order, also those that are done."`
}

type planStep struct {
	Text   string `json:"text" jsonschema:"minLength=1,maxLength=500" jsonschema_description:"What is to be done, in a few words."`
	Status string `json:"status" jsonschema:"enum=pending,enum=active,enum=done"`
}

// SetPlan returns the tool that replaces the plan that the user sees.
func SetPlan() Tool { return readOnly(New("plan", planPrompt, plan)) }

func plan(_ context.Context, _ *Env, in planInput) (Result, error) {
	steps := make([]glovebox.PlanStep, len(in.Steps))
	done, active := 0, 0
	for i, s := range in.Steps {
		steps[i] = glovebox.PlanStep{Text: s.Text, Status: glovebox.PlanStatus(s.Status)}
		switch steps[i].Status {
		case glovebox.PlanDone:
			done++
		case glovebox.PlanActive:
			active++
		}
	}
	text := fmt.Sprintf("The plan has %d steps, %d done.", len(steps), done)
	if active == 0 && done < len(steps) {
		text += " No step is active: mark the one that you work on."
	}
	r := TextResult(text)
	r.Plan = steps
	return r, nil
}
