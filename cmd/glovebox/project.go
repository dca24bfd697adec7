package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/term"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/client"
)

// projectCmd sees and edits what the jobs of a project noted for the next ones.
type projectCmd struct {
	List projectListCmd   `cmd:"" help:"List projects that have a memory."`
	Show projectShowCmd   `cmd:"" help:"Show what a project's memory holds, or one file of it."`
	Edit projectEditCmd   `cmd:"" help:"Change or add a file of a project's memory, in $$EDITOR or from standard input."`
	Off  projectSwitchOff `cmd:"" help:"Have jobs of a project neither read nor write its memory; it is kept."`
	On   projectSwitchOn  `cmd:"" help:"Have them do so again."`
	Rm   projectRmCmd     `cmd:"" help:"Remove a project's memory, or one file of it."`
}

type projectListCmd struct {
	remote
	JSON bool `name:"json" help:"As JSON."`
}

// Run lists projects.
func (c *projectListCmd) Run(a *app) error {
	return c.with(a, func(ctx context.Context, cl *client.Client) error {
		l, err := cl.Projects(ctx)
		if err != nil {
			return err
		}
		if c.JSON {
			return a.printJSON(l)
		}
		var out bytes.Buffer
		w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "PROJECT\tMEMORY\tFILES\tCHANGED")
		for _, p := range l.Projects {
			fmt.Fprintf(w, "%s\t%s\t%d\t%s ago\n", line(p.Project), onOff(p.Memory), len(p.Files), age(time.Since(p.UpdatedAt)))
		}
		w.Flush()
		_, err = out.WriteTo(a.stdout)
		return err
	})
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

type projectShowCmd struct {
	remote
	Project string `arg:"" help:"Name of the project."`
	File    string `arg:"" optional:"" help:"File to print; left out: a list of them."`
	JSON    bool   `name:"json" help:"The list, as JSON."`
}

// Run shows a project's memory.
func (c *projectShowCmd) Run(a *app) error {
	return c.with(a, func(ctx context.Context, cl *client.Client) error {
		if c.File != "" {
			text, _, err := cl.ProjectFile(ctx, c.Project, c.File)
			if err != nil {
				return err
			}
			if f, ok := a.stdout.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
				text = plain(text)
			}
			_, err = io.WriteString(a.stdout, text)
			return err
		}
		p, err := cl.Project(ctx, c.Project)
		if err != nil {
			return err
		}
		if c.JSON {
			return a.printJSON(p)
		}
		return a.showProject(p)
	})
}

func (a *app) showProject(p *glovebox.ProjectView) error {
	var out bytes.Buffer
	fmt.Fprintf(&out, "%s: memory %s\n", line(p.Project), onOff(p.Memory))
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	for _, f := range p.Files {
		fmt.Fprintf(w, "  %s\t%s\t%s ago\n", line(f.Name), size(f.Size), age(time.Since(f.UpdatedAt)))
	}
	w.Flush()
	_, err := out.WriteTo(a.stdout)
	return err
}

type projectEditCmd struct {
	remote
	Project string `arg:"" help:"Name of the project."`
	File    string `arg:"" help:"File to change or add, e.g. conventions.md."`
}

// Run changes a file. What a job has written meanwhile is not overwritten.
func (c *projectEditCmd) Run(a *app) error {
	if err := glovebox.ValidateProjectFile(glovebox.ProjectFile{Name: c.File}); err != nil {
		return err
	}
	return c.with(a, func(ctx context.Context, cl *client.Client) error {
		before, tag, err := cl.ProjectFile(ctx, c.Project, c.File)
		if err != nil && glovebox.CodeOf(err) != glovebox.CodeNotFound {
			return err
		}
		text, err := a.edited(ctx, c.File, before)
		if err != nil {
			return err
		}
		if text == before && tag != "" {
			return a.say("%s: not changed", c.File)
		}
		p, err := cl.PutProjectFile(ctx, c.Project, c.File, text, tag)
		if err != nil {
			return err
		}
		return a.showProject(p)
	})
}

// edited returns what is on standard input, or on a terminal what the user
// makes of a text in their editor.
func (a *app) edited(ctx context.Context, name, text string) (string, error) {
	if a.stdin == nil || !term.IsTerminal(int(a.stdin.Fd())) {
		if a.stdin == nil {
			return "", glovebox.Invalid("text", "give it on standard input", "there is none")
		}
		b, err := io.ReadAll(io.LimitReader(a.stdin, glovebox.MaxProjectFile+1))
		return string(b), err
	}
	dir, err := os.MkdirTemp("", "glovebox-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return "", err
	}
	editor := strings.Fields(cmp.Or(a.getenv("VISUAL"), a.getenv("EDITOR"), "vi"))
	cmd := exec.CommandContext(ctx, editor[0], append(editor[1:], path)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = a.stdin, a.stdout, a.stderr
	if err := cmd.Run(); err != nil {
		return "", &glovebox.Error{Code: glovebox.CodeInvalid, Op: "edit " + name, Msg: "the editor failed; nothing is changed", Err: err, Hint: "name another one in $EDITOR"}
	}
	b, err := os.ReadFile(path)
	return string(b), err
}

type projectSwitchOff struct{ projectSwitch }

// Run turns a memory off.
func (c *projectSwitchOff) Run(a *app) error { return c.set(a, false) }

type projectSwitchOn struct{ projectSwitch }

// Run turns a memory on.
func (c *projectSwitchOn) Run(a *app) error { return c.set(a, true) }

type projectSwitch struct {
	remote
	Project string `arg:"" help:"Name of the project."`
}

func (c projectSwitch) set(a *app, on bool) error {
	return c.with(a, func(ctx context.Context, cl *client.Client) error {
		p, err := cl.SwitchProject(ctx, c.Project, on)
		if err != nil {
			return err
		}
		return a.showProject(p)
	})
}

type projectRmCmd struct {
	remote
	Project string `arg:"" help:"Name of the project."`
	File    string `arg:"" optional:"" help:"File to remove; left out: all of it."`
}

// Run removes a memory, or a file of it.
func (c *projectRmCmd) Run(a *app) error {
	return c.with(a, func(ctx context.Context, cl *client.Client) error {
		if c.File != "" {
			if err := cl.DeleteProjectFile(ctx, c.Project, c.File); err != nil {
				return err
			}
			return a.say("%s: %s is removed", c.Project, c.File)
		}
		if err := cl.DeleteProject(ctx, c.Project); err != nil {
			return err
		}
		return a.say("%s: the memory is removed", c.Project)
	})
}
