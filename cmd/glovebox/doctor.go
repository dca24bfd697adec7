//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/config"
	"github.com/glovebox-dev/glovebox/internal/egress/hostconf"
	"github.com/glovebox-dev/glovebox/internal/image"
	"github.com/glovebox-dev/glovebox/internal/llm/resolve"
	"github.com/glovebox-dev/glovebox/internal/sandbox/gvisor"
	"github.com/glovebox-dev/glovebox/internal/sandbox/template"
)

// doctorCmd says what this machine can do.
type doctorCmd struct {
	settings
	JSON bool `name:"json" help:"One finding a line, as JSON."`
}

// finding is one thing that was looked at.
type finding struct {
	Name   string `json:"name"`
	State  string `json:"state"` // good, limited or missing
	Detail string `json:"detail"`
	Hint   string `json:"hint,omitempty"`
}

// Run looks at this machine. It ends with exit code 6 if jobs can't run.
func (c *doctorCmd) Run(a *app) error {
	cfg, err := c.load(a, nil)
	if err != nil {
		return err
	}
	ctx, stop := interruptible()
	defer stop()
	images := image.Store{Dir: cfg.Path("images")}
	img, imgErr := images.Current()
	all := findDriver(ctx, cfg, img)
	all = append(all, findImage(img, imgErr), findBuilder(imgErr == nil))
	if cfg.Driver != "docker" { // its machines start cold
		all = append(all, findTemplate(cfg))
	}
	all = append(all, findDisk(cfg), findModel(a, cfg), findNetwork(a))
	missing := false
	for _, f := range all {
		missing = missing || f.State == "missing"
		if c.JSON {
			if err := a.printJSON(f); err != nil {
				return err
			}
			continue
		}
		mark := map[string]string{"good": "✓", "limited": "!", "missing": "✗"}[f.State]
		fmt.Fprintf(a.stdout, "%s %-16s %s\n", mark, f.Name, line(f.Detail))
		if f.Hint != "" {
			fmt.Fprintf(a.stdout, "  %-16s → %s\n", "", line(f.Hint))
		}
	}
	if missing {
		return exitError(exitUnavailable)
	}
	return nil
}

// findDriver says whether sandboxes can be made here.
func findDriver(ctx context.Context, cfg config.Config, img image.Image) []finding {
	if cfg.Driver == "docker" {
		return []finding{findEngine(ctx, cfg)}
	}
	var all []finding
	for _, f := range gvisor.Probe(ctx, gvisor.Options{DefaultImage: img.Path}) {
		if f.Name == "image" {
			continue // said better elsewhere
		}
		all = append(all, finding{f.Name, string(f.Verdict), f.Detail, f.Hint})
	}
	return all
}

// engineTime is how long a Docker engine may take to answer.
const engineTime = 5 * time.Second

// findEngine says whether the Docker engine can be used.
func findEngine(ctx context.Context, cfg config.Config) finding {
	f := finding{Name: "docker engine", State: "good", Detail: "it answers"}
	d, err := drivers["docker"](cfg)
	if err == nil {
		defer func() { _ = d.close() }() // nothing was made
		ctx, cancel := context.WithTimeout(ctx, engineTime)
		defer cancel()
		err = d.check(ctx)
	}
	if err == nil {
		return f
	}
	f.State, f.Detail = "missing", err.Error()
	if e, ok := errors.AsType[*glovebox.Error](err); ok {
		bare := *e
		bare.Hint = ""
		f.Detail, f.Hint = bare.Error(), e.Hint
	}
	return f
}

func findImage(img image.Image, err error) finding {
	if err != nil {
		return finding{"machine image", "missing", "it has not been built", "glovebox image build"}
	}
	return finding{"machine image", "good", fmt.Sprintf("%s, %s", img.Digest, size(img.Size)), ""}
}

func findBuilder(haveImage bool) finding {
	err := image.Ready()
	if err == nil {
		return finding{"image builder", "good", "mmdebstrap is there", ""}
	}
	state := "missing"
	if haveImage {
		state = "limited" // it is needed only to build
	}
	f := finding{"image builder", state, err.Error(), ""}
	if e, ok := errors.AsType[*glovebox.Error](err); ok {
		f.Detail, f.Hint = e.Msg, strings.TrimPrefix(e.Hint, "run: ")
	}
	return f
}

// findTemplate says whether machines start from a template, and what it
// takes. That it fits is found out when it is used.
func findTemplate(cfg config.Config) finding {
	f := finding{Name: "template", State: "good"}
	if !cfg.Templates {
		f.State, f.Detail, f.Hint = "limited", "machines start cold: templates are turned off", "set templates: true"
		return f
	}
	list, err := template.List(cfg.Path("templates"))
	switch {
	case err != nil:
		f.State, f.Detail, f.Hint = "limited", err.Error(), "make the data directory readable"
	case len(list) == 0:
		f.Detail = "none yet: 'glovebox serve' makes it in the background, and machines start cold until it is there"
	default:
		f.Detail = fmt.Sprintf("last used %s, %s", list[0].Used.Format(time.DateTime), size(list[0].Size))
	}
	return f
}

// findDisk looks at the room where data is kept.
func findDisk(cfg config.Config) finding {
	dir := cfg.Data
	for {
		if _, err := os.Stat(dir); err == nil || dir == "/" {
			break
		}
		dir = filepath.Dir(dir)
	}
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return finding{"disk", "missing", fmt.Sprintf("%s: %v", dir, err), "name another directory with --data"}
	}
	free := int64(st.Bavail) * st.Bsize
	f := finding{"disk", "good", fmt.Sprintf("%s free for %s", size(free), cfg.Data), ""}
	if unix.Access(dir, unix.W_OK) != nil {
		return finding{"disk", "missing", dir + " can't be written to", "name another directory with --data"}
	}
	if free < 10<<30 {
		f.State, f.Hint = "limited", "the image, while it is built, and a few jobs take about 15 GiB; name another directory with --data"
	}
	return f
}

// keyVars are where the keys of providers are. Only whether they are set is
// shown, never what they are.
var keyVars = []string{"ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "CHAT_API_KEY", "CHAT_BASE_URL", "GLOVEBOX_MODEL"}

func findModel(a *app, cfg config.Config) finding {
	var set []string
	for _, v := range keyVars {
		if a.getenv(v) != "" {
			set = append(set, v)
		}
	}
	model := cfg.Model
	if model == "" {
		model = resolve.Default(a.getenv)
	}
	if model == "" {
		return finding{"model", "limited", "no key is set", resolve.Hint}
	}
	if _, _, err := (resolve.Options{Overrides: overrides(cfg)}).Resolve(model, a.getenv); err != nil {
		return finding{"model", "limited", err.Error(), resolve.Hint}
	}
	detail := model
	if len(set) > 0 {
		detail += " (set: " + strings.Join(set, ", ") + ")"
	}
	return finding{"model", "good", detail, ""}
}

// findNetwork says how sandboxes will reach packages.
func findNetwork(a *app) finding {
	c := hostconf.Read(hostconf.System())
	detail := "package registries are reached directly"
	for _, v := range []string{"HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"} {
		if a.getenv(v) != "" {
			detail = "package registries are reached through the proxy in " + v
			break
		}
	}
	if m := c.Defaults().Mirrors; len(m) > 0 {
		detail += fmt.Sprintf("; configured on this host: %s", strings.Join(m[:min(len(m), 5)], " "))
	}
	if len(c.Warnings) > 0 {
		return finding{"network", "limited", detail, strings.Join(c.Warnings, "; ")}
	}
	return finding{"network", "good", detail, ""}
}
