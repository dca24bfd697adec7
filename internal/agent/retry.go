package agent

import (
	"errors"
	"fmt"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/clip"
	"github.com/glovebox-dev/glovebox/internal/llm"
)

// How calls of the model are repeated: exponential back-off with full jitter,
// from retryBase to retryCap, which spreads many jobs that were refused at
// once. What the provider asks for is waited for, and a little more.
const (
	retryBase   = time.Second
	retryCap    = time.Minute
	retryTries  = 8
	retryBudget = 10 * time.Minute // of waiting, together
)

// tooLongTries is how often a request that the provider finds too long is made
// shorter before the job ends.
const tooLongTries = 2

// failure describes a call without an answer and says whether, and when, it
// is made again.
func (r *run) failure(err error, why stopped) glovebox.ModelFailed {
	e, ok := errors.AsType[*llm.Error](err)
	if !ok {
		e = &llm.Error{Kind: "internal", Msg: err.Error()}
		if glovebox.CodeOf(err) == glovebox.CodeUnavailable {
			e.Kind = llm.KindNetwork
		}
	}
	f := glovebox.ModelFailed{Kind: string(e.Kind), Message: clip.Short(e.Msg, 2000), Usage: e.Usage}
	if e.Err != nil && e.Msg == "" {
		f.Message = clip.Short(e.Err.Error(), 2000)
	}
	if why != notStopped { // whatever the error says, it was we who ended the call
		f.Kind, f.Message, f.Retry = string(llm.KindCancelled), string(why), true
		return f
	}
	switch {
	case e.Kind == llm.KindContextTooLong:
		f.Retry = r.at.tooLong < tooLongTries
	case e.Kind == llm.KindCancelled: // not by us: a connection that was closed
		f.Kind = string(llm.KindNetwork)
		fallthrough
	case e.Kind.Retryable():
		wait := r.backoff(r.at.tries, e.RetryAfter)
		waited := time.Duration(r.at.waitedMS) * time.Millisecond
		if r.at.tries+1 < retryTries && waited+wait <= retryBudget {
			f.Retry, f.WaitMS = true, max(1, wait.Milliseconds())
		}
	}
	return f
}

// backoff returns how long to wait before the next try, after some failed ones.
func (r *run) backoff(failed int, asked time.Duration) time.Duration {
	most := retryCap
	if failed < 6 {
		most = min(retryCap, retryBase<<failed)
	}
	if asked > 0 {
		return asked + time.Duration(r.Jitter()*float64(retryBase))
	}
	return time.Duration(r.Jitter() * float64(most))
}

// verdict returns why the job can't go on, as far as the log says so.
func (p *position) verdict(model string) *glovebox.Failure {
	switch {
	case p.gaveUp != nil:
		return modelFailure(model, p.gaveUp)
	case p.repeats.stuck != "":
		return &glovebox.Failure{Code: "loop",
			Message: fmt.Sprintf("The agent called %s %d times with the same input and the same result, also after it had been told.", p.repeats.stuck, repeatsStopped),
			Hint:    "say in the task what to do differently, or choose another model"}
	case p.idle > idleAnswers && p.stop == llm.StopRefusal:
		return &glovebox.Failure{Code: "refused", Message: "The model declined to work on this task.",
			Hint: "rephrase the task, or choose another model"}
	case p.idle > idleAnswers:
		return &glovebox.Failure{Code: "loop",
			Message: fmt.Sprintf("The model answered %d times in a row without calling a tool, also after it had been told.", p.idle),
			Hint:    "choose a model that can call tools"}
	case p.unproven >= finishTries:
		return &glovebox.Failure{Code: "proofs",
			Message: fmt.Sprintf("The agent called the project finished %d times, but its proofs failed each time.", p.unproven),
			Hint:    "look at the verification for what failed; a smaller task or another model may help"}
	}
	return nil
}

// modelFailure says to a person why the model can't be used.
func modelFailure(model string, f *glovebox.ModelFailed) *glovebox.Failure {
	out := &glovebox.Failure{Code: "model", Message: fmt.Sprintf("The model %s could not be used: %s", model, f.Message)}
	switch k := llm.Kind(f.Kind); k {
	case llm.KindAuth:
		out.Message = fmt.Sprintf("The provider of %s refused the key: %s", model, f.Message)
		out.Hint = "check the key that the server was started with, and that it may use this model"
	case llm.KindQuota:
		out.Message = fmt.Sprintf("The account with the provider of %s has no credit left: %s", model, f.Message)
		out.Hint = "add credit, or choose another model"
	case llm.KindInvalid:
		out.Message = fmt.Sprintf("The provider of %s refused the request: %s", model, f.Message)
		out.Hint = "check the name of the model; if it is right, this is a fault of Glovebox worth reporting"
	case llm.KindExhausted:
		out.Message = "The recorded conversation has no further turn: " + f.Message
		out.Hint = "the job went another way than the recording; record it anew, or use a live model"
	case llm.KindDiverged:
		out.Message = "The recorded conversation " + f.Message
		out.Hint = "the job went another way than the recording; record it anew, or use a live model"
	case llm.KindContextTooLong:
		return contextFailure(f.Message)
	case llm.KindRateLimited, llm.KindOverloaded:
		out.Message = fmt.Sprintf("The provider of %s was too busy for too long: %s", model, f.Message)
		out.Hint = "try again later, or choose another model"
	case llm.KindNetwork, llm.KindStalled, llm.KindTruncated, llm.KindMalformed:
		out.Message = fmt.Sprintf("The provider of %s could not be reached, or did not answer properly, in %d tries: %s", model, retryTries, f.Message)
		out.Hint = "check the network and the provider's status, then run the job again"
	}
	return out
}

func contextFailure(detail string) *glovebox.Failure {
	return &glovebox.Failure{Code: "context",
		Message: "The conversation does not fit into the model's window any more: " + detail,
		Hint:    "choose a model with a larger window, or split the task"}
}
