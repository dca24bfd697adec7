package tool

import (
	"context"
	_ "embed"
	"strings"
	"time"
)

//go:embed ask_user.md
var askUserPrompt string

type askUserInput struct {
	Question string `json:"question" jsonschema:"minLength=1,maxLength=8192" jsonschema_description:"The question, with what the user needs to know to answer it and what happens without an answer."`
	TimeoutS int    `json:"timeout_s,omitempty" jsonschema:"minimum=10,maximum=86400" jsonschema_description:"Seconds to wait for the answer; 600 if left out."`
}

// AskUser returns the tool that waits for a message of the user.
func AskUser() Tool { return readOnly(New("ask_user", askUserPrompt, askUser)) }

func askUser(_ context.Context, _ *Env, in askUserInput) (Result, error) {
	if strings.TrimSpace(in.Question) == "" {
		return ErrorResult(`"question": it is blank`), nil
	}
	r := TextResult("The user was asked.")
	r.Ask = &Ask{Question: in.Question, Timeout: 600 * time.Second}
	if in.TimeoutS > 0 {
		r.Ask.Timeout = time.Duration(in.TimeoutS) * time.Second
	}
	return r, nil
}
