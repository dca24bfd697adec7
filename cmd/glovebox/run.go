package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/term"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/client"
)

// runCmd runs one task.
type runCmd struct {
	settings
	softLimits
	machineLimits
	Server  string   `placeholder:"URL" help:"Run it on this server (default: $$GLOVEBOX_URL, else one inside this process). The access token is taken from $$GLOVEBOX_TOKEN."`
	Task    string   `arg:"" help:"What to build, in plain words; - reads it from standard input."`
	Out     string   `short:"o" default:"out" placeholder:"DIR" help:"Where to leave the project; the zip is put beside it. What is there is not touched: DIR-2, DIR-3 and so on is taken then."`
	Git     string   `placeholder:"URL" help:"Git repository to start from; URL#REF for a branch, tag or commit."`
	Files   string   `placeholder:"ARCHIVE" help:"zip or tar.gz to start from."`
	Project string   `placeholder:"NAME" help:"Project whose memory the job begins with and adds to. See glovebox project --help."`
	Allow   []string `placeholder:"HOST" help:"More that the sandbox may reach: host, host:port or .suffix; may be repeated." sep:"none"`
	Egress  string   `enum:"default,none,only,extend" default:"default" help:"What the sandbox may reach: the server's default, none, only what --allow lists, or that and more."`
	Record  string   `placeholder:"FILE" help:"Write the conversation to a file that replay:FILE plays again."`
	JSON    bool     `name:"json" help:"One event a line, as JSON."`
}

// Run runs the task on a server, or on one inside this process, and leaves
// the project in a directory.
func (c *runCmd) Run(a *app) error {
	sub, err := c.submission(a)
	if err != nil {
		return err
	}
	cl, stop, err := c.connect(a, &sub)
	if err != nil {
		return err
	}
	defer stop()
	defer cl.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	id, err := c.schedule(ctx, cl, sub)
	if err != nil {
		return err
	}
	if err := c.follow(ctx, a, cl, id); err != nil {
		return err
	}
	j, err := cl.Status(ctx, id)
	if err != nil {
		return err
	}
	switch j.Status {
	case glovebox.StatusComplete:
	case glovebox.StatusCancelled:
		return exitError(exitInterrupted)
	default:
		return exitError(exitFailed)
	}
	return c.deliver(ctx, a, cl, j)
}

// submission makes what is asked of the server.
func (c *runCmd) submission(a *app) (glovebox.Submission, error) {
	sub := glovebox.Submission{Task: c.Task, Model: c.Model, Project: c.Project}
	if c.Task == "-" {
		b, err := io.ReadAll(io.LimitReader(a.stdin, glovebox.MaxTask+1))
		if err != nil {
			return sub, fmt.Errorf("read the task: %w", err)
		}
		sub.Task = string(b)
	}
	var err error
	if sub.Limits, err = c.limits(); err != nil {
		return sub, err
	}
	if err := c.addTo(&sub.Limits); err != nil {
		return sub, err
	}
	if c.Egress != "default" {
		sub.Egress.Mode = glovebox.EgressMode(c.Egress)
	} else if len(c.Allow) > 0 {
		sub.Egress.Mode = glovebox.EgressExtend
	}
	sub.Egress.Allow = c.Allow
	if c.Git != "" && c.Files != "" {
		return sub, glovebox.Invalid("files", "give --git or --files", "both are given")
	}
	if c.Git != "" {
		u, ref, _ := strings.Cut(c.Git, "#")
		sub.Files = &glovebox.Source{GitURL: u, GitRef: ref}
	}
	if fi, err := os.Stat(c.Out); err == nil && !fi.IsDir() {
		return sub, glovebox.Invalid("out", "name a directory", "%s is a file", c.Out)
	}
	if err := c.tryPlace(); err != nil { // before a job has cost anything
		return sub, glovebox.Invalid("out", "name a place that can be written", "%s", plain(err.Error()))
	}
	return sub, sub.Validate()
}

// place is where the project is to be delivered.
func (c *runCmd) place() string { return filepath.Clean(cmp.Or(c.Out, "out")) }

// tryPlace makes the directory that the project's will be in, and returns an
// error if nothing can be written there.
func (c *runCmd) tryPlace() error {
	above := filepath.Dir(c.place())
	if err := os.MkdirAll(above, 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(above, ".glovebox-")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// connect returns a client of the server that was named, or of one that is
// started in this process.
func (c *runCmd) connect(a *app, sub *glovebox.Submission) (cl *client.Client, stop func(), err error) {
	if server := (remote{c.Server}); server.url(a) != "" {
		if c.Record != "" {
			return nil, nil, glovebox.Invalid("record", "leave out --server", "only a conversation of this process can be recorded")
		}
		cl, err = server.client(a)
		return cl, func() {}, err
	}
	if sub.Model, err = settled(sub.Model); err != nil {
		return nil, nil, err
	}
	url, stop, err := c.startLocal(a)
	if err != nil {
		return nil, nil, err
	}
	if cl, err = client.New(url); err != nil {
		stop()
	}
	return cl, stop, err
}

func (c *runCmd) schedule(ctx context.Context, cl *client.Client, sub glovebox.Submission) (string, error) {
	if c.Files == "" {
		acc, err := cl.Schedule(ctx, sub)
		if err != nil {
			return "", err
		}
		return acc.JobID, nil
	}
	f, err := os.Open(c.Files)
	if err != nil {
		return "", glovebox.Invalid("files", "name a zip or tar.gz", "%s", err)
	}
	defer f.Close()
	acc, err := cl.ScheduleArchive(ctx, sub, f)
	if err != nil {
		return "", err
	}
	return acc.JobID, nil
}

// follow shows the job until it ends. What is typed is said to the agent. An
// interrupt cancels the job, a second one leaves at once.
func (c *runCmd) follow(ctx context.Context, a *app, cl *client.Client, id string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	v := a.view(c.JSON, 0)
	defer v.close()
	if v.printer != nil && (remote{c.Server}).url(a) == "" {
		v.printer.Alone()
	}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT) // all: the terminal has to be restored
	defer signal.Stop(signals)
	go func() {
		for n := 0; ; n++ {
			select {
			case <-ctx.Done():
				return
			case <-signals:
			}
			if n > 0 {
				cancel(exitError(exitInterrupted))
				return
			}
			v.warn(a, "Cancelling the job. Interrupt again to leave at once.")
			if _, err := cl.Cancel(ctx, id); err != nil && glovebox.CodeOf(err) != glovebox.CodeConflict {
				cancel(err)
				return
			}
		}
	}()
	if c.Task != "-" && !c.JSON {
		defer listen(ctx, a, v, cl, id)()
	}
	for e, err := range cl.Events(ctx, id, 0) {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		if err != nil {
			return err
		}
		if err := v.event(e); err != nil {
			return err
		}
	}
	return nil
}

// listen says what is typed to the job: it steers it, or answers its question.
// The goroutine ends with the process, since reading a terminal can't be
// interrupted. stop gives the terminal back as it was.
func listen(ctx context.Context, a *app, v *view, cl *client.Client, id string) (stop func()) {
	stop = func() {}
	if a.stdin == nil || !term.IsTerminal(int(a.stdin.Fd())) || !ownTerminal(int(a.stdin.Fd())) {
		return stop
	}
	show := func(string) {}
	if v.live {
		if restore, err := unechoed(int(a.stdin.Fd())); err == nil {
			stop, show = restore, v.printer.Typed
		}
	}
	v.printer.Listen()
	say := func(text string) {
		if text = strings.TrimSpace(text); text == "" || ctx.Err() != nil {
			return
		}
		if _, err := cl.Say(ctx, id, text); err != nil && ctx.Err() == nil {
			v.printer.Warn("that could not be said: " + err.Error())
		}
	}
	go typed(a.stdin, show, say)
	return stop
}

// deliver leaves the project in a directory and as a zip beside it. What is
// there already is not touched.
func (c *runCmd) deliver(ctx context.Context, a *app, cl *client.Client, j *glovebox.JobView) error {
	wanted := c.place()
	if err := os.MkdirAll(filepath.Dir(wanted), 0o755); err != nil {
		return fmt.Errorf("make the directory for the project: %w", err)
	}
	out, archive, err := freePlace(wanted, j.JobID)
	if err != nil {
		return err
	}
	if _, err := cl.Download(ctx, j.JobID, archive); err != nil {
		return err
	}
	n, err := unzip(archive, out)
	if err != nil {
		return &glovebox.Error{Code: glovebox.CodeInternal, Op: "unpack the project", Msg: "the zip is at " + archive, Err: err}
	}
	shots, shotErr := saveShots(ctx, cl, j, archive)
	if shotErr != nil { // the project is there
		fmt.Fprintf(a.stderr, "glovebox: %s\n", plain(shotErr.Error()))
	}
	if c.JSON {
		if out != wanted { // the events alone are on standard output
			fmt.Fprintf(a.stderr, "glovebox: %s was not empty, or its zip was there: the project is in %s\n", plain(shown(wanted)), plain(shown(out)))
		}
		return nil
	}
	w := a.stdout
	fmt.Fprintf(w, "\n  The project: %s (%s), as a zip: %s\n", plain(shown(out)), plural(n, "file"), plain(archive))
	if out != wanted {
		fmt.Fprintf(w, "  %s was not empty, or its zip was there: nothing of that was touched.\n", plain(shown(wanted)))
	}
	for _, name := range shots {
		fmt.Fprintf(w, "  What the verification saw: %s\n", plain(name))
	}
	if j.HowToRun != "" {
		fmt.Fprintf(w, "  To run it, in %s:\n\n", plain(shown(out)))
		for l := range strings.SplitSeq(strings.TrimSpace(plain(j.HowToRun)), "\n") {
			fmt.Fprintf(w, "    %s\n", l)
		}
	}
	_, err = fmt.Fprintln(w)
	return err
}

// shown writes a relative path so that it can be pasted.
func shown(path string) string {
	if filepath.IsAbs(path) || strings.HasPrefix(path, ".") {
		return path
	}
	return "." + string(filepath.Separator) + path
}
