package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/term"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/client"
)

// jobsCmd sees and steers the jobs of a server.
type jobsCmd struct {
	List     listCmd     `cmd:"" help:"List jobs, newest first."`
	Show     showCmd     `cmd:"" help:"Show the state of a job."`
	Logs     logsCmd     `cmd:"" help:"Show what happened to a job; -f goes on as it happens."`
	Cancel   cancelCmd   `cmd:"" help:"End a job."`
	Say      sayCmd      `cmd:"" help:"Say something to a running job, or answer its question."`
	Download downloadCmd `cmd:"" help:"Fetch the finished project as a zip."`
	Output   outputCmd   `cmd:"" help:"Print the whole output of a tool, of which the logs show a part."`
	Limits   limitsCmd   `cmd:"" help:"Raise limits; a job that stopped at one goes on."`
	Model    modelCmd    `cmd:"" help:"Let another model go on with a job."`
	Delete   deleteCmd   `cmd:"" help:"Remove a job that has ended, and all that belongs to it."`
}

// remote says which server to talk to. The token is not a flag: command lines
// can be read by every user of a machine.
type remote struct {
	Server string `placeholder:"URL" help:"The server (default: $$GLOVEBOX_URL, else http://127.0.0.1:8000). The access token is taken from $$GLOVEBOX_TOKEN."`
}

// url returns the server's address, empty if none is named. One on this
// machine needs no scheme; elsewhere http has to be asked for, since a token
// would be sent in the clear.
func (r remote) url(a *app) string {
	s := cmp.Or(r.Server, a.getenv("GLOVEBOX_URL"))
	hostport, _, _ := strings.Cut(s, "/")
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = hostport
	}
	if ip := net.ParseIP(strings.Trim(host, "[]")); host == "localhost" || ip != nil && ip.IsLoopback() {
		return "http://" + s
	}
	return s
}

func (r remote) client(a *app) (*client.Client, error) {
	return client.New(cmp.Or(r.url(a), client.DefaultURL), client.WithToken(a.getenv("GLOVEBOX_TOKEN")), client.WithUserAgent("glovebox/"+version))
}

// with calls f with a client, until it returns or the user interrupts.
func (r remote) with(a *app, f func(ctx context.Context, c *client.Client) error) error {
	c, err := r.client(a)
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, stop := interruptible()
	defer stop()
	return f(ctx, c)
}

// one is a command about one job.
type one struct {
	remote
	ID string `arg:"" help:"Id of the job."`
}

// with checks the id before it calls f.
func (o one) with(a *app, f func(ctx context.Context, c *client.Client) error) error {
	if !glovebox.ValidID(o.ID) {
		return glovebox.Invalid("id", "ids are listed by: glovebox jobs list", "%q is not the id of a job", o.ID)
	}
	return o.remote.with(a, f)
}

type listCmd struct {
	remote
	Status []string `enum:"pending,running,complete,error,cancelled" help:"Only jobs with this status; may be repeated."`
	Query  string   `placeholder:"WORDS" help:"Only jobs whose task contains these words."`
	Limit  int      `default:"20" help:"How many at most; 0 for all."`
	JSON   bool     `name:"json" help:"One job a line, as JSON."`
}

// Run lists jobs.
func (c *listCmd) Run(a *app) error {
	if c.Limit < 0 {
		return glovebox.Invalid("limit", "give a number from 0 on", "%d is less than nothing", c.Limit)
	}
	return c.with(a, func(ctx context.Context, cl *client.Client) error {
		f := client.Filter{Query: c.Query, Limit: min(c.Limit, 100)}
		for _, s := range c.Status {
			f.Status = append(f.Status, glovebox.Status(s))
		}
		var out bytes.Buffer
		w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "ID\tSTATUS\tAGE\tSTEPS\tCOST\tTASK")
		n := 0
		for j, err := range cl.Jobs(ctx, f) {
			if err != nil {
				return err
			}
			if c.JSON {
				if err := a.printJSON(j); err != nil {
					return err
				}
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%s\n", j.JobID, j.Status, age(time.Since(j.CreatedAt)), j.Step, dollars(j.Usage.CostMicros), shorten(line(j.Task), 60))
			if n++; n == c.Limit {
				break
			}
		}
		if c.JSON {
			return nil
		}
		w.Flush()
		_, err := out.WriteTo(a.stdout)
		return err
	})
}

type showCmd struct {
	one
	JSON bool `name:"json" help:"As JSON."`
}

// Run shows a job.
func (c *showCmd) Run(a *app) error {
	return c.with(a, func(ctx context.Context, cl *client.Client) error {
		j, err := cl.Status(ctx, c.ID)
		if err != nil {
			return err
		}
		if c.JSON {
			return a.printJSON(j)
		}
		_, err = fmt.Fprint(a.stdout, describe(j))
		return err
	})
}

// describe says in words what a job is and how it stands.
func describe(j *glovebox.JobView) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%s\t%s\n", name, line(fmt.Sprintf(format, args...)))
	}
	row("job", "%s", j.JobID)
	row("task", "%s", shorten(line(j.Task), 200))
	if j.Status.Terminal() {
		row("status", "%s", j.Status)
	} else {
		row("status", "%s (%s for %s)", j.Status, j.Phase, age(time.Since(j.PhaseSince)))
	}
	if j.QueuePosition > 0 {
		row("in the queue", "%d", j.QueuePosition)
	}
	row("model", "%s", j.Model)
	if j.Project != "" {
		row("project", "%s", j.Project)
	}
	row("steps", "%d of %d", j.Step, j.Limits.Steps)
	row("tokens", "%s of %s", grouped(j.Usage.Tokens), grouped(j.Limits.Tokens))
	row("cost", "%s", dollars(j.Usage.CostMicros))
	if m := j.Memory; m != nil {
		for i, l := range memoryLines(m) {
			row([]string{"memory", ""}[min(i, 1)], "%s", l)
		}
	}
	if s := j.Sandbox; s != nil {
		row("sandbox", "%s (%s)", s.ID, s.Driver)
	}
	if j.Question != "" {
		row("asks", "%s", j.Question)
	}
	if f := j.Error; f != nil {
		row("error", "%s", f.Message)
		if f.Hint != "" {
			row("", "%s", f.Hint)
		}
	}
	if j.Summary != "" {
		row("summary", "%s", j.Summary)
	}
	if j.HowToRun != "" {
		row("to run it", "%s", j.HowToRun)
	}
	if j.DownloadURL != "" {
		row("download", "glovebox jobs download %s", j.JobID)
	}
	row("logs", "glovebox jobs logs %s", j.JobID)
	row("", "and an output that is cut there: glovebox jobs output %s HANDLE", j.JobID)
	w.Flush()
	for _, p := range j.Plan {
		fmt.Fprintf(&b, "  %s %s\n", map[glovebox.PlanStatus]string{glovebox.PlanPending: "[ ]", glovebox.PlanDone: "[x]", glovebox.PlanActive: "[>]"}[p.Status], line(p.Text))
	}
	for _, p := range j.Verification {
		if p.Page != "" {
			fmt.Fprintf(&b, "  %s: page %s\n", map[bool]string{true: "holds", false: "fails"}[p.ExitCode == 0], line(p.Page))
			if p.Screenshot != "" {
				fmt.Fprintf(&b, "    screenshot: glovebox jobs output %s %s > screenshot.png\n", j.JobID, line(p.Screenshot))
			}
			continue
		}
		fmt.Fprintf(&b, "  exit %d: %s\n", p.ExitCode, line(p.Command))
	}
	return b.String()
}

type logsCmd struct {
	one
	Follow bool  `short:"f" help:"Go on until the job ends."`
	After  int64 `placeholder:"N" help:"Begin after event N."`
	JSON   bool  `name:"json" help:"One event a line, as JSON."`
}

// Run shows the events of a job.
func (c *logsCmd) Run(a *app) error {
	return c.with(a, func(ctx context.Context, cl *client.Client) error {
		j, err := cl.Status(ctx, c.ID)
		if err != nil {
			return err
		}
		if !c.Follow && j.Seq <= c.After {
			return nil
		}
		v := a.view(c.JSON, c.After)
		defer v.close()
		for e, err := range cl.Events(ctx, c.ID, v.start()) {
			if err != nil {
				return err
			}
			if err := v.event(e); err != nil {
				return err
			}
			if !c.Follow && e.Seq >= j.Seq {
				return nil
			}
		}
		return nil
	})
}

type cancelCmd struct {
	one
	JSON bool `name:"json" help:"The job, as JSON."`
}

// Run ends a job.
func (c *cancelCmd) Run(a *app) error {
	return c.with(a, func(ctx context.Context, cl *client.Client) error {
		j, err := cl.Cancel(ctx, c.ID)
		if err != nil {
			return err
		}
		if c.JSON {
			return a.printJSON(j)
		}
		return a.say("%s: %s", c.ID, map[bool]string{true: string(j.Status), false: "is being cancelled"}[j.Status.Terminal()])
	})
}

type sayCmd struct {
	one
	Text []string `arg:"" help:"What to say; several words are joined; - reads standard input, up to 8 MiB."`
	JSON bool     `name:"json" help:"The job, as JSON."`
}

// Run says something to a job.
func (c *sayCmd) Run(a *app) error {
	text := strings.Join(c.Text, " ")
	if text == "-" && a.stdin != nil {
		b, err := io.ReadAll(io.LimitReader(a.stdin, glovebox.MaxUserText+1))
		if err != nil {
			return fmt.Errorf("read what to say: %w", err)
		}
		text = string(b)
	}
	if strings.TrimSpace(text) == "" {
		return glovebox.Invalid("text", "say something", "the text is empty")
	}
	return c.with(a, func(ctx context.Context, cl *client.Client) error {
		j, err := cl.Say(ctx, c.ID, text)
		if err != nil {
			return err
		}
		if c.JSON {
			return a.printJSON(j)
		}
		return a.say("%s: said", c.ID)
	})
}

type downloadCmd struct {
	one
	Output string `short:"o" placeholder:"FILE" help:"Where to put it (default: ID.zip)."`
	Force  bool   `short:"f" help:"Replace a file of that name."`
	JSON   bool   `name:"json" help:"What was fetched, as JSON."`
}

// Run fetches the artifact of a job.
func (c *downloadCmd) Run(a *app) error {
	return c.with(a, func(ctx context.Context, cl *client.Client) error {
		name := cmp.Or(c.Output, c.ID+".zip")
		if _, err := os.Lstat(name); err == nil && !c.Force {
			return &glovebox.Error{Code: glovebox.CodeConflict, Op: "download", Msg: name + " is there already", Hint: "name another file with -o, or add --force to replace it"}
		}
		v, err := cl.Download(ctx, c.ID, name)
		if err != nil {
			return err
		}
		if c.JSON {
			return a.printJSON(v)
		}
		return a.say("%s: %s, %s, sha256 %s", name, plural(v.Files, "file"), size(v.Size), v.SHA256)
	})
}

type outputCmd struct {
	one
	Handle string `arg:"" help:"As in the logs: out-..."`
}

// Run prints a whole output, as it is; on a terminal without what would move
// the cursor or change colours.
func (c *outputCmd) Run(a *app) error {
	return c.with(a, func(ctx context.Context, cl *client.Client) error {
		body, _, err := cl.Output(ctx, c.ID, c.Handle)
		if err != nil {
			return err
		}
		defer body.Close()
		if f, ok := a.stdout.(*os.File); !ok || !term.IsTerminal(int(f.Fd())) {
			_, err = io.Copy(a.stdout, body)
			return err
		}
		sc := bufio.NewReader(body)
		for {
			l, err := sc.ReadString('\n')
			if _, err := io.WriteString(a.stdout, plain(l)); err != nil {
				return err
			}
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
		}
	})
}

type limitsCmd struct {
	one
	softLimits
	JSON bool `name:"json" help:"The job, as JSON."`
}

// Run raises the limits of a job.
func (c *limitsCmd) Run(a *app) error {
	l, err := c.limits()
	if err != nil {
		return err
	}
	if l == (glovebox.Limits{}) {
		return glovebox.Invalid("limits", "give at least one of --steps, --tokens, --cost and --wall-time", "no limit is named")
	}
	return c.with(a, func(ctx context.Context, cl *client.Client) error {
		j, err := cl.RaiseLimits(ctx, c.ID, l)
		if err != nil {
			return err
		}
		if c.JSON {
			return a.printJSON(j)
		}
		now := l.Or(j.Limits) // a running job takes them up a moment later
		cost := "without limit"
		if now.CostMicros > 0 {
			cost = dollars(now.CostMicros)
		}
		return a.say("%s: %s; steps %s, tokens %s, cost %s, time %s", c.ID, j.Status, grouped(now.Steps), grouped(now.Tokens),
			cost, time.Duration(now.WallTimeSeconds)*time.Second)
	})
}

type deleteCmd struct{ one }

// Run removes a job.
func (c *deleteCmd) Run(a *app) error {
	return c.with(a, func(ctx context.Context, cl *client.Client) error {
		if err := cl.Delete(ctx, c.ID); err != nil {
			return err
		}
		return a.say("%s: removed", c.ID)
	})
}

// softLimits are the limits that can be raised.
type softLimits struct {
	Steps    *int64         `placeholder:"N" help:"Answers of the model."`
	Tokens   *int64         `placeholder:"N" help:"Tokens, read and written."`
	Cost     *float64       `placeholder:"USD" help:"Dollars that the model may cost."`
	WallTime *time.Duration `placeholder:"DURATION" help:"Time of work, such as 30m."`
}

// limits returns the limits that were named, checked.
func (s softLimits) limits() (glovebox.Limits, error) {
	var l glovebox.Limits
	if err := errors.Join(whole("steps", s.Steps, &l.Steps), whole("tokens", s.Tokens, &l.Tokens)); err != nil {
		return l, err
	}
	if d := s.WallTime; d != nil {
		least, most := glovebox.LimitRange("wall_time_seconds")
		if *d < time.Duration(least)*time.Second || *d > time.Duration(most)*time.Second || *d%time.Second != 0 {
			return l, glovebox.Invalid("--wall-time", fmt.Sprintf("give whole seconds, from %ds to %dh", least, most/3600), "%s is out of range", *d)
		}
		l.WallTimeSeconds = int64(*d / time.Second)
	}
	if usd := s.Cost; usd != nil {
		least, most := glovebox.LimitRange("cost_micros")
		if !(*usd*1e6 >= float64(least) && *usd*1e6 <= float64(most)) { // also what is no number
			return l, glovebox.Invalid("--cost", fmt.Sprintf("give dollars from %.6f to %d, such as 2.50; leave it out for the default", float64(least)/1e6, most/1e6), "%v is out of range", *usd)
		}
		l.CostMicros = int64(*usd*1e6 + 0.5)
	}
	return l, nil
}

// whole sets a limit to the value of its flag, if that was given.
func whole(name string, v, to *int64) error {
	if v == nil {
		return nil
	}
	if least, most := glovebox.LimitRange(name); *v < least || *v > most {
		return glovebox.Invalid("--"+name, fmt.Sprintf("give a whole number from %d to %d, or leave it out for the default", least, most), "%d is out of range", *v)
	}
	*to = *v
	return nil
}

// machineLimits are those of the machine that a job gets.
type machineLimits struct {
	Memory    string   `placeholder:"SIZE" help:"Memory of the machine, such as 2GiB."`
	Disk      string   `placeholder:"SIZE" help:"What it may write to its disk."`
	CPUs      *float64 `name:"cpus" placeholder:"N" help:"Processors, such as 1.5."`
	Processes *int64   `placeholder:"N" help:"Processes and threads at once."`
}

// addTo sets the limits that were named in l.
func (m machineLimits) addTo(l *glovebox.Limits) error {
	for _, s := range []struct {
		flag, v string
		to      *int64
	}{{"memory", m.Memory, &l.MemoryBytes}, {"disk", m.Disk, &l.DiskBytes}} {
		if s.v == "" {
			continue
		}
		n, err := parseSize(s.v)
		if err != nil {
			return glovebox.Invalid(s.flag, "", "%s", err)
		}
		*s.to = max(n, 1) // 0 would be the default
	}
	if n := m.CPUs; n != nil {
		least, most := glovebox.LimitRange("cpu_millis")
		if !(*n*1000 >= float64(least) && *n*1000 <= float64(most)) { // also what is no number
			return glovebox.Invalid("--cpus", fmt.Sprintf("give a number from %g to %d, such as 1.5", float64(least)/1000, most/1000), "%v is out of range", *n)
		}
		l.CPUMillis = int64(*n*1000 + 0.5)
	}
	if err := whole("processes", m.Processes, &l.Processes); err != nil {
		return err
	}
	return l.Validate()
}

func (a *app) say(format string, args ...any) error {
	_, err := fmt.Fprintln(a.stdout, line(fmt.Sprintf(format, args...)))
	return err
}

func (a *app) printJSON(v any) error { return json.NewEncoder(a.stdout).Encode(v) }
