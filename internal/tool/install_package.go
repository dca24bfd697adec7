package tool

import (
	"context"
	_ "embed"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/clip"
	"github.com/glovebox-dev/glovebox/internal/guest"
)

//go:embed install_package.md
var installPackagePrompt string

type installPackageInput struct {
	Manager  string   `json:"manager" jsonschema:"enum=apt,enum=npm,enum=pip"`
	Packages []string `json:"packages,omitempty" jsonschema:"maxItems=100,minLength=1,maxLength=214" jsonschema_description:"Names, each with a version if needed."`
	Cwd      string   `json:"cwd,omitempty" jsonschema:"maxLength=4096" jsonschema_description:"For npm and pip: the project's directory; /workspace if left out."`
	Dev      bool     `json:"dev,omitempty" jsonschema_description:"For npm: a development dependency."`
}

// installTime bounds one installation, which is stopped then.
const installTime = 20 * time.Minute

// packagePatterns are the package names that each manager is given. What has
// them is never taken for an option, a path, a URL or, by apt, a removal.
var packagePatterns = map[string]*regexp.Regexp{
	"apt": regexp.MustCompile(`^[a-z0-9][a-z0-9.+-]*[a-z0-9+](:[a-z0-9]+)?(=[0-9A-Za-z.+:~-]*[0-9A-Za-z.+~])?$`),
	"npm": regexp.MustCompile(`^(@[0-9A-Za-z_][0-9A-Za-z._~-]*/)?[0-9A-Za-z_][0-9A-Za-z._~-]*(@[\^~]?[0-9A-Za-z*][0-9A-Za-z.*+_-]*|@[<>]?=?[0-9][0-9A-Za-z.*+-]*)?$`),
	"pip": regexp.MustCompile(`^[0-9A-Za-z]([0-9A-Za-z._-]*[0-9A-Za-z])?(\[[0-9A-Za-z._-]+(,[0-9A-Za-z._-]+)*\])?((===?|[<>~!]=|[<>])[0-9A-Za-z.*+!_-]+(,(===?|[<>~!]=|[<>])[0-9A-Za-z.*+!_-]+)*)?$`),
}

// archive is what npm and pip would take for a file in the current directory.
var archive = regexp.MustCompile(`(?i)\.(tgz|tar|tar\.\w+|zip|whl)$`)

var packageExamples = map[string]string{"apt": "jq or jq=1.7.1-3", "npm": "react, react@18.3.1 or @types/node", "pip": "flask, flask==3.0.3 or uvicorn[standard]"}

// InstallPackage returns the tool that installs packages with apt, npm or pip.
func InstallPackage() Tool { return New("install_package", installPackagePrompt, installPackage) }

func installPackage(ctx context.Context, env *Env, in installPackageInput) (Result, error) {
	for i, p := range in.Packages {
		if !packagePatterns[in.Manager].MatchString(p) || in.Manager != "apt" && archive.MatchString(p) {
			return ErrorResult(fmt.Sprintf(`"packages[%d]": %q is not a package of %s; give names such as %s, not options, paths or URLs`, i, clip.Short(p, 80), in.Manager, packageExamples[in.Manager])), nil
		}
	}
	if problem := badPath("cwd", in.Cwd); problem != "" {
		return ErrorResult(problem), nil
	}
	if in.Dev && in.Manager != "npm" {
		return ErrorResult(`"dev": it is for npm only`), nil
	}
	begun := time.Now()
	i := &installer{env: env}
	var r Result
	var err error
	switch in.Manager {
	case "apt":
		r, err = i.apt(ctx, in)
	case "npm":
		r, err = i.npm(ctx, in)
	default:
		r, err = i.pip(ctx, in)
	}
	if err != nil || r.IsError {
		return r, err
	}
	return i.done(ctx, time.Since(begun)), nil
}

// installer runs the processes of one installation, one after the other.
type installer struct {
	env    *Env
	output []byte // of all of them
}

// run runs one of them. ok is false if it failed, and the result says why.
func (i *installer) run(ctx context.Context, cmd guest.Command) (r Result, ok bool, err error) {
	if cmd.Env == nil {
		cmd.Env = processEnv()
	}
	p, err := start(ctx, i.env, "install", cmd)
	if err != nil {
		r, err := startFailed(ctx, i.env, cmd.Dir, err)
		return r, false, err
	}
	if err := p.CloseStdin(ctx); err != nil && glovebox.CodeOf(err) == glovebox.CodeUnavailable {
		return Result{}, false, err
	}
	o, err := follow(ctx, i.env, p, watch{timeout: installTime})
	if err != nil {
		r, err := failed(ctx, err)
		return r, false, err
	}
	i.output = append(i.output, o.output...)
	if o.why == ended && o.state.ExitCode == 0 {
		return Result{}, true, nil
	}
	why := exitText(i.env, o)
	if o.why != ended { // half an installation is of no use, and holds locks
		why = "stopped after " + seconds(o.took)
		if err := p.Signal(context.WithoutCancel(ctx), "SIGTERM"); err != nil {
			return Result{}, false, err
		}
	}
	text, handle := outputText(ctx, i.env, i.output, 6<<10)
	r = ErrorResult(fmt.Sprintf("%s\n[%s: %s]", text, cmd.Args[0], why))
	r.Blob = handle
	return r, false, nil
}

// stale is what apt says when its lists are older than what is on the server.
var stale = regexp.MustCompile(`Unable to locate package|has no installation candidate|404 +Not Found|Failed to fetch|Version '.*' for '.*' was not found`)

func (i *installer) apt(ctx context.Context, in installPackageInput) (Result, error) {
	if len(in.Packages) == 0 {
		return ErrorResult(`"packages": name at least one`), nil
	}
	get := func(args ...string) guest.Command {
		return guest.Command{Root: true, Dir: "/", Args: append([]string{"apt-get", "-y", "-q", "-o", "Dpkg::Use-Pty=0", "-o", "DPkg::Lock::Timeout=120"}, args...)}
	}
	install := get(append([]string{"--no-install-recommends", "install", "--"}, in.Packages...)...)
	updated, err := i.hasLists(ctx)
	if err != nil {
		return failed(ctx, err)
	}
	if updated { // at some time: try, and fetch newer lists only if that may help
		if r, ok, err := i.run(ctx, install); ok || err != nil || !stale.Match(i.output) {
			return r, err
		}
		i.output = nil
	}
	if r, ok, err := i.run(ctx, get("update")); !ok {
		return r, err
	}
	r, _, err := i.run(ctx, install)
	return r, err
}

// hasLists reports whether apt's lists of what there is were ever fetched.
func (i *installer) hasLists(ctx context.Context) (bool, error) {
	entries, _, err := i.env.Guest.ReadDir(ctx, "/var/lib/apt/lists")
	switch code := glovebox.CodeOf(err); {
	case code == glovebox.CodeUnavailable || code == glovebox.CodeInternal:
		return false, err
	case err != nil:
		return false, nil //nolint:nilerr // no directory, no lists
	}
	return slices.ContainsFunc(entries, func(e guest.Entry) bool { return strings.Contains(e.Path, "_Packages") }), nil
}

func (i *installer) npm(ctx context.Context, in installPackageInput) (Result, error) {
	dir := workDir(in.Cwd)
	if len(in.Packages) == 0 {
		if _, err := i.env.Guest.Stat(ctx, path.Join(dirOr(dir), "package.json")); glovebox.CodeOf(err) == glovebox.CodeNotFound {
			return ErrorResult(fmt.Sprintf(`"packages": name at least one; there is no package.json in %s that lists any`, absolute(dirOr(dir)))), nil
		}
	}
	args := []string{"npm", "install", "--no-audit", "--no-fund", "--loglevel=warn"}
	if in.Dev {
		args = append(args, "--save-dev")
	}
	if len(in.Packages) > 0 {
		args = append(append(args, "--"), in.Packages...)
	}
	r, _, err := i.run(ctx, guest.Command{Args: args, Dir: dir})
	return r, err
}

func dirOr(dir string) string {
	if dir == "" {
		return "."
	}
	return dir
}

// venv is where pip installs, relative to the workspace.
const venv = ".venv"

func (i *installer) pip(ctx context.Context, in installPackageInput) (Result, error) {
	args := in.Packages
	if len(args) == 0 {
		list := path.Join(dirOr(workDir(in.Cwd)), "requirements.txt")
		if _, err := i.env.Guest.Stat(ctx, list); glovebox.CodeOf(err) == glovebox.CodeNotFound {
			return ErrorResult(fmt.Sprintf(`"packages": name at least one; there is no %s that lists any`, absolute(list))), nil
		}
		args = []string{"-r", list}
	}
	_, err := i.env.Guest.Stat(ctx, venv+"/bin/python")
	switch code := glovebox.CodeOf(err); {
	case code == glovebox.CodeNotFound:
		if r, ok, err := i.run(ctx, guest.Command{Args: []string{"python3", "-m", "venv", venv}}); !ok {
			return r, err
		}
	case err != nil:
		return failed(ctx, err)
	}
	// By way of a shell, which takes the relative path from its directory.
	args = append([]string{"bash", "-c", `exec "$@"`, "pip", venv + "/bin/python", "-m", "pip", "install", "--no-input", "--progress-bar=off"}, args...)
	r, _, err := i.run(ctx, guest.Command{Args: args})
	return r, err
}

// installed are the lines of an output that say what was done.
var installed = regexp.MustCompile(`(?m)^(Successfully installed .*|Requirement already satisfied: .*|Setting up .*|.* is already the newest version.*|(added|changed|removed|up to date).*|npm warn deprecated .*)$`)

// done is the short result of an installation that worked.
func (i *installer) done(ctx context.Context, took time.Duration) Result {
	text := cleanText(i.output)
	lines := installed.FindAllString(text, -1)
	const most = 30
	more := ""
	if len(lines) > most {
		more = fmt.Sprintf("\n... and %d more lines", len(lines)-most)
		lines = lines[:most]
	}
	for n := range lines {
		lines[n] = clip.Short(lines[n], 300)
	}
	if len(lines) == 0 {
		lines = []string{tailOf(strings.TrimSpace(text), 500)}
	}
	r := TextResult(fmt.Sprintf("%s%s\n[installed in %s]", strings.TrimSpace(strings.Join(lines, "\n")), more, seconds(took)))
	if len(i.output) > OutputBound {
		r.Blob, _ = save(ctx, i.env, i.output)
	}
	return r
}
