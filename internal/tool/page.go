package tool

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/browser"
	"github.com/glovebox-dev/glovebox/internal/clip"
	"github.com/glovebox-dev/glovebox/internal/guest"
)

// Times of a proof that is a page.
const (
	pageProofStart = 60 * time.Second // for what serves it to answer
	pageProofText  = 10 * time.Second // for the expected text to appear
	pageProofLoad  = 30 * time.Second
	stopGrace      = 3 * time.Second // for what served it to end by itself
	consoleRoom    = 3 << 10         // bytes of what is wrong with it
)

// ProvePage opens the page of a proof in the sandbox's browser, having
// started what serves it, which is stopped afterwards. The proof holds (exit
// code 0) if the page loaded with a status below 400, no exception was left
// uncaught, and the expected text can be seen. Its screenshot is kept with
// env.Save. An error means that nobody knows: the sandbox is gone, or ctx ended.
func ProvePage(ctx context.Context, env *Env, p Proof) (glovebox.Proof, error) {
	begun := time.Now()
	out := glovebox.Proof{Page: p.Page, Command: p.Start, ExitCode: 1}
	err := provePage(ctx, env, p, &out)
	out.DurationMS = time.Since(begun).Milliseconds()
	return out, err
}

func provePage(ctx context.Context, env *Env, p Proof, out *glovebox.Proof) error {
	u, err := browser.CheckURL("page", p.Page)
	if err != nil {
		out.Output = plain(err)
		return nil //nolint:nilerr // the proof fails
	}
	if p.Start != "" {
		server, problem, err := startProof(ctx, env, p.Start, u)
		if server != nil {
			defer stopProof(ctx, server)
		}
		if err != nil || problem != "" {
			out.Output = problem
			return err
		}
	}
	problem, err := withBrowser(ctx, env, func(b *browser.Browser) error { return lookAt(ctx, env, b, u, p.Expect, out) })
	if problem != "" {
		out.Output, out.ExitCode = problem, 1
	}
	return err
}

// startProof starts what serves the page of a proof and waits until its port
// answers. The process is returned whenever it was started.
func startProof(ctx context.Context, env *Env, command, page string) (p *guest.Process, problem string, err error) {
	port, ok := localPort(page)
	if !ok {
		return nil, fmt.Sprintf("%q can't serve %s: give a page of this machine, e.g. http://localhost:4173/", clip.Short(command, 100), clip.Short(page, 200)), nil
	}
	if answers(ctx, env.Guest, port) {
		return nil, fmt.Sprintf("Port %d is in use already, so what answers there would not be what \"start\" starts: %s.%s Stop it with shell_stop, or leave \"start\" out to prove what runs.",
			port, listeners(ctx, env.Guest), running(ctx, env)), nil
	}
	cmd := BashCommand(command, "")
	cmd.ID, cmd.NoStdin = "proof-"+glovebox.NewID(), true
	if p, err = env.Guest.Start(ctx, cmd); err != nil {
		return nil, "", err
	}
	_, err = awaitPort(ctx, env.Guest, p, port, nil, pageProofStart)
	switch {
	case errors.Is(err, errExited):
		return p, fmt.Sprintf("%q ended before port %d answered:\n%s", clip.Short(command, 200), port, outputEnd(ctx, p, consoleRoom)), nil
	case errors.Is(err, errPortTime):
		return p, fmt.Sprintf("Port %d did not answer within %v of starting %q; %s.\n%s", port, pageProofStart, clip.Short(command, 200), listeners(ctx, env.Guest), outputEnd(ctx, p, consoleRoom)), nil
	}
	return p, "", err
}

// stopProof ends what served the page of a proof.
func stopProof(ctx context.Context, p *guest.Process) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), briefly)
	defer cancel()
	if p.Signal(ctx, "SIGTERM") != nil {
		return
	}
	soon, enough := context.WithTimeout(ctx, stopGrace)
	defer enough()
	if _, err := p.Wait(soon, false); err != nil {
		_ = p.Signal(ctx, "SIGKILL")
	}
}

// lookAt opens a page and compares it with what is wanted of it.
func lookAt(ctx context.Context, env *Env, b *browser.Browser, u, expect string, out *glovebox.Proof) error {
	page, err := b.Open(ctx, u, browser.OpenOptions{Timeout: pageProofLoad, Viewport: true})
	if err != nil {
		return err
	}
	defer page.Close()
	var wrong []string
	if r := page.Report(); r.Failure == "" && expect != "" {
		there, err := page.Shows(ctx, expect, pageProofText)
		if ctx.Err() != nil {
			return err
		}
		if err != nil {
			wrong = append(wrong, "The page can't be read: "+plain(err))
		} else if !there {
			wrong = append(wrong, fmt.Sprintf("The text %q can't be seen on it.", clip.Short(expect, 200)), shownText(ctx, page))
		}
	}
	if shot, err := page.Screenshot(ctx, false); err == nil {
		if out.Screenshot, err = env.Save(ctx, shot.Data); err != nil {
			return err
		}
	} else if ctx.Err() != nil {
		return err
	}
	r := page.Report() // now, with what went wrong meanwhile
	out.Title, out.Console = r.Title, r.Console
	if r.Exceptions > 0 {
		wrong = append([]string{fmt.Sprintf("%s left uncaught.", countOf(r.Exceptions, "exception was", "exceptions were"))}, wrong...)
	}
	if r.Status >= 400 {
		wrong = append([]string{fmt.Sprintf("The server answered with HTTP %d.", r.Status)}, wrong...)
	}
	if r.Failure != "" {
		wrong = append([]string{"The page did not load: " + r.Failure + "."}, wrong...)
	}
	if len(wrong) == 0 {
		out.ExitCode = 0
		return nil
	}
	if len(r.Console) > 0 {
		wrong = append(wrong, "Console:\n"+strings.Join(r.Console, "\n"))
	}
	out.Output = Cut(strings.Join(wrong, "\n"), consoleRoom, "")
	return nil
}

// shownText says what there is instead of what was expected.
func shownText(ctx context.Context, page *browser.Page) string {
	o, err := page.Outline(ctx)
	if err != nil {
		return ""
	}
	return "What can be seen is:\n" + o.Text(1<<10)
}

func countOf(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
