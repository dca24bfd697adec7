package tool

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/browser"
	"github.com/glovebox-dev/glovebox/internal/guest"
)

//go:embed preview.md
var previewPrompt string

type previewInput struct {
	Command     string `json:"command,omitempty" jsonschema:"maxLength=120000" jsonschema_description:"Bash code that serves the page, e.g. \"npm run dev\"."`
	Cwd         string `json:"cwd,omitempty" jsonschema:"maxLength=4096" jsonschema_description:"Directory to run it in; /workspace if left out."`
	Port        int    `json:"port,omitempty" jsonschema:"minimum=1,maximum=65535" jsonschema_description:"Port that the page is served on."`
	Path        string `json:"path,omitempty" jsonschema:"maxLength=4000" jsonschema_description:"Path of the page, with its query, / if left out; without command and port, a file of the workspace."`
	WaitSeconds int    `json:"wait_seconds,omitempty" jsonschema:"minimum=1,maximum=600" jsonschema_description:"Seconds to wait until the port answers; 60 if left out."`
}

// Preview returns the tool that serves a page and looks at it.
func Preview() Tool { return yields(New("preview", previewPrompt, preview)) }

func preview(ctx context.Context, env *Env, in previewInput) (Result, error) {
	if strings.ContainsRune(in.Command, 0) {
		return ErrorResult(`"command": it contains a NUL byte, which no command can`), nil
	}
	if problem := badPath("cwd", in.Cwd); problem != "" {
		return ErrorResult(problem), nil
	}
	if strings.TrimSpace(in.Command) == "" && in.Port == 0 {
		return previewFile(ctx, env, in.Path)
	}
	s, r, err := serve(ctx, env, in)
	if r != nil || err != nil {
		return orEmpty(r), err
	}
	u := "http://localhost:" + strconv.Itoa(int(s.port)) + "/" + strings.TrimPrefix(in.Path, "/")
	if u, err = browser.CheckURL("path", u); err != nil {
		return ErrorResult(plain(err)), nil //nolint:nilerr // for the model
	}
	return openPage(ctx, env, u, s)
}

// server is what serves a page.
type server struct {
	port uint16
	p    *guest.Process // nil if it ran before
	note string
}

// serve starts what serves the page, unless it runs, and waits for its port.
// The result is set if that is where the call ends.
func serve(ctx context.Context, env *Env, in previewInput) (*server, *Result, error) {
	s := &server{port: uint16(in.Port)}
	before, err := env.Guest.Listeners(ctx)
	if err != nil {
		return yielding(ctx, s, err)
	}
	limit := 60 * time.Second
	if in.WaitSeconds > 0 {
		limit = time.Duration(in.WaitSeconds) * time.Second
	}
	switch {
	case in.Command == "":
	case in.Port != 0 && answers(ctx, env.Guest, s.port):
		s.note = fmt.Sprintf("Port %d answered already, so the command was not started.%s", in.Port, running(ctx, env))
		return s, nil, nil
	default:
		cmd := BashCommand(in.Command, in.Cwd)
		cmd.NoStdin = true
		if s.p, err = start(ctx, env, pipePrefix, cmd); err != nil {
			r, err := startFailed(ctx, env, in.Cwd, err)
			return nil, &r, err
		}
	}
	if env.Output != nil && s.p != nil {
		stop := showServer(ctx, env, s.p)
		defer stop()
	}
	s.port, err = awaitPort(ctx, env.Guest, s.p, uint16(in.Port), before, limit)
	switch {
	case errors.Is(err, errExited):
		r := ErrorResult(fmt.Sprintf("The command ended before a port answered.\n%s\n[%s]", outputEnd(ctx, s.p, 8<<10), endOf(ctx, env, s.p)))
		return nil, &r, nil
	case errors.Is(err, errPortTime):
		r := ErrorResult(unanswered(ctx, env, in.Port, limit, s.p))
		return nil, &r, nil
	case err != nil:
		return yielding(ctx, s, err)
	}
	if s.p != nil {
		s.note = fmt.Sprintf("It is served on port %d by %s, in the background: shell_output shows what it writes, shell_stop ends it.", s.port, s.p.ID())
	}
	return s, nil, nil
}

// showServer shows live what a server writes until stop is called.
func showServer(ctx context.Context, env *Env, p *guest.Process) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	show := newLive(env.Output)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = p.Output(ctx, 0, func(o guest.Output) error {
			show.write(o.Data)
			return nil
		})
	}()
	return func() {
		cancel()
		<-done
		show.close()
	}
}

// endOf says how a process ended.
func endOf(ctx context.Context, env *Env, p *guest.Process) string {
	state, err := p.State(ctx)
	if err != nil {
		return "how is not known"
	}
	return exitText(env, outcome{state: state})
}

func unanswered(ctx context.Context, env *Env, port int, limit time.Duration, p *guest.Process) string {
	what := "No new port answered"
	if port != 0 {
		what = fmt.Sprintf("Port %d did not answer", port)
	}
	text := fmt.Sprintf("%s within %s; %s.", what, seconds(limit), listeners(ctx, env.Guest))
	if p != nil {
		text += fmt.Sprintf("\nThe command still runs, in the background as %s: wait for it with shell_output, or end it with shell_stop. It wrote:\n%s", p.ID(), outputEnd(ctx, p, 8<<10))
	} else if port != 0 {
		text += " Give command to start what serves it."
	}
	return text
}

// yielding is the end of a call over which something failed, which leaves the
// server running if the call has to come back.
func yielding(ctx context.Context, s *server, err error) (*server, *Result, error) {
	if ctx.Err() == nil || !errors.Is(context.Cause(ctx), ErrYield) {
		r, err := failed(ctx, err)
		return nil, &r, err
	}
	text := "Interrupted by a message of the user, before the page was seen."
	if s != nil && s.p != nil {
		text += " The command still runs, in the background as " + s.p.ID() + "."
	}
	r := TextResult(text)
	return nil, &r, nil
}

func orEmpty(r *Result) Result {
	if r == nil {
		return Result{}
	}
	return *r
}

// previewFile opens a file of the workspace.
func previewFile(ctx context.Context, env *Env, name string) (Result, error) {
	if name == "" {
		return ErrorResult(`Give "command" to start what serves the page, "port" of what runs already, or "path" of an HTML file.`), nil
	}
	if problem := badPath("path", name); problem != "" {
		return ErrorResult(problem), nil
	}
	p := sandboxPath(name)
	if _, err := env.Guest.Stat(ctx, p); err != nil {
		return fileFailed(ctx, env, p, err)
	}
	u, err := browser.CheckURL("path", (&url.URL{Scheme: "file", Path: absolute(p)}).String())
	if err != nil {
		return ErrorResult(plain(err)), nil //nolint:nilerr // for the model
	}
	return openPage(ctx, env, u, &server{})
}

// openPage opens a page and says what is on it.
func openPage(ctx context.Context, env *Env, u string, s *server) (Result, error) {
	var r Result
	problem, err := withBrowser(ctx, env, func(b *browser.Browser) error {
		page, err := b.Open(ctx, u, browser.OpenOptions{})
		if err != nil {
			return err
		}
		defer page.Close()
		r = pageResult(ctx, page, s)
		return ctx.Err()
	})
	if err != nil {
		_, early, err := yielding(ctx, s, err)
		return orEmpty(early), err
	}
	if problem != "" {
		return ErrorResult(strings.TrimSpace(problem + "\n" + s.note)), nil
	}
	return r, nil
}

// pageResult describes an open page.
func pageResult(ctx context.Context, page *browser.Page, s *server) Result {
	o, outlineErr := page.Outline(ctx)
	shot, shotErr := page.Screenshot(ctx, false)
	report := page.Report()
	var b strings.Builder
	switch {
	case report.Failure != "":
		fmt.Fprintf(&b, "The page did not load: %s.\n", report.Failure)
	case report.Status >= 400:
		fmt.Fprintf(&b, "The server answered with HTTP %d.\n", report.Status)
	}
	if report.Exceptions > 0 {
		fmt.Fprintf(&b, "%s left uncaught in it.\n", countOf(report.Exceptions, "exception was", "exceptions were"))
	}
	fmt.Fprintf(&b, "Page: %s\nTitle: %q", report.URL, report.Title)
	if report.Status != 0 {
		fmt.Fprintf(&b, ", HTTP %d", report.Status)
	}
	b.WriteByte('\n')
	if s.note != "" {
		b.WriteString(s.note + "\n")
	}
	if len(report.Console) > 0 {
		b.WriteString("What went wrong in it:\n")
		for _, l := range report.Console {
			b.WriteString("- " + l + "\n")
		}
		if report.More > 0 {
			fmt.Fprintf(&b, "- and %d more\n", report.More)
		}
	}
	if outlineErr == nil {
		fmt.Fprintf(&b, "\n%s", o.Text(max(1<<10, OutputBound-statusRoom-b.Len())))
		if o.PageHeight > o.Height+o.Scrolled && o.Height > 0 {
			fmt.Fprintf(&b, "[%d of %d pixels are in view]\n", o.Height, o.PageHeight)
		}
	} else if report.Failure == "" {
		fmt.Fprintf(&b, "\nIts text can't be read: %s\n", plain(outlineErr))
	}
	r := TextResult(strings.TrimRight(b.String(), "\n"))
	r.IsError = report.Failure != "" || report.Status >= 400 || report.Exceptions > 0
	if shotErr == nil {
		r.Content = append(r.Content, glovebox.Block{Type: glovebox.BlockImage, MediaType: shot.MediaType, Data: shot.Data})
	}
	return r
}

// localPort returns the port of a page of the sandbox itself.
func localPort(page string) (uint16, bool) {
	u, err := url.Parse(page)
	if err != nil || u.Scheme == "file" {
		return 0, false
	}
	switch u.Hostname() {
	case "localhost", "127.0.0.1", "::1":
	default:
		return 0, false
	}
	if u.Port() == "" {
		return map[string]uint16{"http": 80, "https": 443}[u.Scheme], true
	}
	n, err := strconv.ParseUint(u.Port(), 10, 16)
	return uint16(n), err == nil && n > 0
}
