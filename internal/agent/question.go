package agent

import (
	"context"
	"fmt"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/tool"
)

// How long a question may wait for its answer.
const (
	askDefault = 30 * time.Minute
	askMost    = 24 * time.Hour
)

// question records that the agent asks the user something. The next step
// waits for the answer.
func (r *run) question(ctx context.Context, c pendingCall, a tool.Ask) error {
	wait := a.Timeout
	if wait <= 0 {
		wait = askDefault
	}
	until := time.Now().Add(min(wait, askMost)).UTC()
	events := []glovebox.Event{event(glovebox.EventQuestion, glovebox.QuestionAsked{CallID: c.CallID, Text: a.Question, Until: until})}
	return r.append(ctx, append(events, r.phase(glovebox.PhaseWaiting)...))
}

// await waits for the user's answer, which becomes the result of the call, or
// until its time is over.
func (r *run) await(ctx context.Context, c pendingCall) error {
	left := time.Until(c.question.Until)
	if !c.answered && left > 0 {
		if p := r.phase(glovebox.PhaseWaiting); p != nil {
			if err := r.append(ctx, p); err != nil {
				return err
			}
		}
		return r.pause(ctx, left, true)
	}
	f := glovebox.ToolFinished{CallID: c.CallID, Name: c.Name, Content: []glovebox.Block{glovebox.Text(
		"No answer came in time. Go on with your best judgement, and say in the summary what you assumed.")}}
	if c.answered {
		text := "The user answers:\n\n" + c.answer.Text
		if c.answer.Blob != "" {
			text += fmt.Sprintf("\n\n[the beginning of %d bytes; read_output with handle %q has the whole]", c.answer.Size, c.answer.Blob)
		}
		f.Content = []glovebox.Block{glovebox.Text(text)}
	}
	return r.finish(ctx, c, f, r.phase(glovebox.PhaseWorking)...)
}

// idleAnswers is how many answers in a row may call no tool.
const idleAnswers = 3

// nudge tells the model that an answer without a call does nothing.
func (r *run) nudge(ctx context.Context) error {
	if f := r.at.verdict(r.named); f != nil {
		return fail(*f)
	}
	return r.append(ctx, []glovebox.Event{event(glovebox.EventNotice, glovebox.Notice{Text: nudgeText(r.at)})})
}

func nudgeText(p position) string {
	switch p.stop {
	case "max_output":
		return "Your answer reached the limit on its length and was cut. Go on from where it stopped, in smaller pieces."
	case "refusal":
		return "You declined to answer. If a part of the task can't be done, leave it out, do the rest and say so in the summary."
	}
	return fmt.Sprintf("Your answer called no tool, so nothing was done. If work remains, go on with it; if the project is done, call %s; if you need to know something from the user, ask with ask_user.", finishTool)
}
