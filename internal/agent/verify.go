package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/clip"
	"github.com/glovebox-dev/glovebox/internal/guest"
	"github.com/glovebox-dev/glovebox/internal/tool"
)

const (
	finishTries  = 5                // finishes whose proofs may fail
	maxProofs    = 20               // of one finish
	proofTime    = 10 * time.Minute // for each proof that is a command
	pageTime     = 4 * time.Minute  // for each that is a page
	proofOutput  = 4 << 10          // bytes, the end of it
	exitTimedOut = 124              // of a proof that took too long, as timeout(1) has it
)

// verify runs the proofs of a finish. If all pass, the project is verified,
// in one write with the result of the call; else the model gets their output.
func (r *run) verify(ctx context.Context, g *guest.Client, c pendingCall, fin tool.Finish, start time.Time) error {
	if n := len(fin.Proofs); n == 0 || n > maxProofs {
		return r.finish(ctx, c, finishFailed(c, fmt.Sprintf("finish needs 1 to %d proofs; %d came. A proof is a command that exits with 0, or a page that opens, only if the project does what was asked.", maxProofs, n), start))
	}
	if err := r.checkpoint(ctx); err != nil { // what is proven is kept, without what the proofs leave behind
		return err
	}
	if p := r.phase(glovebox.PhaseVerifying); p != nil {
		if err := r.append(ctx, p); err != nil {
			return err
		}
	}
	v := glovebox.Verified{Passed: true, Summary: fin.Summary, HowToRun: fin.HowToRun}
	env := &tool.Env{Guest: g, CallID: c.CallID, Job: r.job, Save: r.Host.Save, Load: r.Load}
	for _, proof := range fin.Proofs {
		var p glovebox.Proof
		var failed error
		why, panicked, end := r.during(ctx, action{}, func(ctx context.Context) { p, failed = r.Prove(ctx, env, proof) })
		r.dirty = true // a build leaves files
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if end != nil {
			return end
		}
		if failed = errors.Join(failed, panicked); failed == nil && why == stoppedTime {
			failed = causeTime
		}
		if failed != nil {
			if err := r.lost(ctx, c, failed, why, time.Since(start)); err != nil {
				return err
			}
			return r.backToWork(ctx)
		}
		v.Proofs = append(v.Proofs, p)
		v.Passed = v.Passed && p.ExitCode == 0
	}
	return r.conclude(ctx, c, v, start)
}

// conclude records what the proofs came to.
func (r *run) conclude(ctx context.Context, c pendingCall, v glovebox.Verified, start time.Time) error {
	if _, err := r.takeSignals(ctx); err != nil {
		return err
	}
	working := r.phase(glovebox.PhaseWorking)
	switch {
	case !v.Passed:
		return r.finish(ctx, c, finishFailed(c, proofReport(v.Proofs), start), append(working, event(glovebox.EventVerified, v))...)
	case r.at.unseen > 0:
		return r.finish(ctx, c, finishFailed(c, "The proofs passed, but the user said something that you have not seen yet. Take it into account, then call finish again.", start), working...)
	}
	return r.finish(ctx, c, glovebox.ToolFinished{
		CallID: c.CallID, Name: c.Name, DurationMS: time.Since(start).Milliseconds(),
		Content: []glovebox.Block{glovebox.Text("All proofs passed. The project is finished.")},
	}, event(glovebox.EventVerified, v))
}

func (r *run) backToWork(ctx context.Context) error {
	if p := r.phase(glovebox.PhaseWorking); p != nil {
		return r.append(ctx, p)
	}
	return nil
}

func finishFailed(c pendingCall, text string, start time.Time) glovebox.ToolFinished {
	return glovebox.ToolFinished{
		CallID: c.CallID, Name: c.Name, IsError: true, DurationMS: time.Since(start).Milliseconds(),
		Content: []glovebox.Block{glovebox.Text(text)},
	}
}

// proofReport tells the model which proofs failed and how, within the bound of a result.
func proofReport(proofs []glovebox.Proof) string {
	failed := 0
	for _, p := range proofs {
		if p.ExitCode != 0 {
			failed++
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d of %d proofs failed, so the job goes on. Repair the project, not the proof, then call finish again.\n", failed, len(proofs))
	room := (tool.OutputBound - 2048) / max(1, failed)
	for _, p := range proofs {
		name := clip.Short(p.Command, 200)
		if p.Page != "" {
			name = "page " + clip.Short(p.Page, 200)
		}
		if p.ExitCode == 0 {
			fmt.Fprintf(&b, "\npassed: %s\n", name)
			continue
		}
		how := fmt.Sprintf("with exit code %d ", p.ExitCode)
		if p.Page != "" {
			how = ""
		}
		fmt.Fprintf(&b, "\nFAILED %safter %.1f s: %s\n%s\n", how, float64(p.DurationMS)/1000, name, tail(p.Output, min(proofOutput, room)))
	}
	return b.String()
}

// prove runs one proof: a command with bash in the workspace, or a page in the
// sandbox's browser.
func prove(ctx context.Context, env *tool.Env, p tool.Proof) (glovebox.Proof, error) {
	if p.Page == "" {
		return proveWithin(ctx, env.Guest, p.Command, proofTime)
	}
	pctx, cancel := context.WithTimeout(ctx, pageTime)
	defer cancel()
	proof, err := tool.ProvePage(pctx, env, p)
	if errors.Is(pctx.Err(), context.DeadlineExceeded) && ctx.Err() == nil {
		proof.ExitCode, err = exitTimedOut, nil
		proof.Output = fmt.Sprintf("[stopped after %s]", pageTime)
	}
	return proof, err
}

func proveWithin(ctx context.Context, g *guest.Client, command string, limit time.Duration) (glovebox.Proof, error) {
	start := time.Now()
	pctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	state, out, err := g.Run(pctx, guest.Command{
		ID:   "proof-" + glovebox.NewID(),
		Args: []string{"bash", "-lc", command},
	}, 2*proofOutput) // its middle is left out: the end is there whole
	p := glovebox.Proof{Command: command, ExitCode: state.ExitCode, Output: tail(string(out), proofOutput), DurationMS: time.Since(start).Milliseconds()}
	if errors.Is(pctx.Err(), context.DeadlineExceeded) && ctx.Err() == nil {
		p.ExitCode = exitTimedOut
		p.Output = tail(p.Output+fmt.Sprintf("\n[stopped after %s]", limit), proofOutput)
		return p, nil
	}
	return p, err
}

// tail returns the last n bytes of s, without a cut character.
func tail(s string, n int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= n {
		return s
	}
	_, end := cutAt(s, len(s)-n+3)
	return end
}
