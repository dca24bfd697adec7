package gvisor

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/sandbox"
)

// Verdict is how a machine fares in one respect.
type Verdict string

// The verdicts.
const (
	Good    Verdict = "good"
	Limited Verdict = "limited" // sandboxes work, but something is enforced less well
	Missing Verdict = "missing" // sandboxes can't be made
)

// Finding is what [Probe] found about one thing that sandboxes need.
type Finding struct {
	Name    string // e.g. "user namespaces"
	Verdict Verdict
	Detail  string // what was seen
	Hint    string // what to do, unless Good; commands are ready to paste
}

// Probe finds out what this machine can do for sandboxes: it tries things
// rather than reading settings, and if the image is there it makes a sandbox
// and destroys it. o.StateDir may be empty, and is then a temporary directory.
func Probe(ctx context.Context, o Options) []Finding {
	if o.Runsc == "" {
		o.Runsc = selfExe
	}
	binary := probeBinary(o.Runsc)
	namespaces := Finding{Name: "user namespaces", Verdict: Missing, Detail: "not tried, because of the binary"}
	if binary.Verdict != Missing {
		namespaces = probeNamespaces(ctx, o.Runsc)
	}
	fs := []Finding{binary, namespaces, probeCgroups(), probeImage(o.DefaultImage)}
	for _, f := range fs {
		if f.Verdict == Missing {
			return fs
		}
	}
	return append(fs, probeSandbox(ctx, o))
}

// probeBinary checks that our binary can be executed by those that it runs as.
func probeBinary(path string) Finding {
	f := Finding{Name: "binary", Verdict: Good, Detail: "can be executed in a sandbox's process"}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		f.Verdict, f.Detail, f.Hint = Missing, err.Error(), "mount /proc"
	case os.Geteuid() == 0 && info.Mode()&0o001 == 0:
		exe, _ := os.Executable()
		f.Verdict, f.Detail = Missing, fmt.Sprintf("its mode is %v: root's sandboxes run as nobody, who can't execute it", info.Mode().Perm())
		f.Hint = "chmod o+x " + exe
	case needsLoader(path):
		f.Verdict, f.Detail = Missing, "it was built with cgo and loads the system's libraries, which its processes in a sandbox don't have"
		f.Hint = "build it with: make   (or: CGO_ENABLED=0 go build ./cmd/glovebox)"
	}
	return f
}

// needsLoader reports whether a program is one that a dynamic loader starts.
func needsLoader(path string) bool {
	f, err := elf.Open(path)
	if err != nil {
		return false // what it is will show when it is run
	}
	defer f.Close()
	return slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
}

// probeArg0 makes our binary try what the sentry does first.
const probeArg0 = "runsc-probe"

// probeInside tries to make an empty root, as the sentry does.
func probeInside() {
	err := unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, "")
	if err == nil {
		err = unix.Mount("glovebox-probe", os.TempDir(), "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "")
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "mount: %v", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// probeNamespaces starts a process in namespaces like a sandbox's.
func probeNamespaces(ctx context.Context, runsc string) Finding {
	f := Finding{Name: "user namespaces", Verdict: Good, Detail: "can be made, and mounted in"}
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, runsc)
	cmd.Args = []string{probeArg0}
	cmd.Env = []string{}
	cmd.Stderr = &stderr
	cmd.SysProcAttr = procAttr()
	if err := cmd.Run(); err != nil {
		f.Verdict, f.Detail = Missing, strings.TrimSpace(err.Error()+" "+stderr.String())
		f.Hint = namespaceHint(readSetting)
	}
	return f
}

func readSetting(name string) string {
	b, _ := os.ReadFile("/proc/sys/" + strings.ReplaceAll(name, ".", "/"))
	return strings.TrimSpace(string(b))
}

// namespaceHint finds what forbids user namespaces.
func namespaceHint(setting func(name string) string) string {
	persist := func(s string) string {
		return fmt.Sprintf("sudo sysctl -w %s && echo %s | sudo tee /etc/sysctl.d/90-glovebox.conf", s, s)
	}
	switch {
	case setting("kernel.apparmor_restrict_unprivileged_userns") == "1" && os.Geteuid() != 0:
		return "AppArmor forbids them to users on this system (Ubuntu does): " + persist("kernel.apparmor_restrict_unprivileged_userns=0")
	case setting("kernel.unprivileged_userns_clone") == "0" && os.Geteuid() != 0:
		return "the kernel forbids them to users: " + persist("kernel.unprivileged_userns_clone=1")
	case setting("user.max_user_namespaces") == "0":
		return "none are allowed: " + persist("user.max_user_namespaces=65536")
	}
	return "if this is a container, start it with the permission to make namespaces (Docker: --security-opt seccomp=unconfined --security-opt apparmor=unconfined), or run as root"
}

// probeCgroups says what limits memory and processor time.
func probeCgroups() Finding {
	c, err := currentCgroups()
	if err == nil && c.version == 2 {
		_, err = placeV2(c)
	}
	if err == nil && c.version == 0 {
		err = errors.New("no cgroup hierarchy can be written to")
	}
	if err != nil {
		return Finding{Name: "cgroups", Verdict: Limited, Hint: delegateHint,
			Detail: err.Error() + "; memory is watched by the sandbox itself instead, and processors can only be given whole"}
	}
	return Finding{Name: "cgroups", Verdict: Good, Detail: fmt.Sprintf("version %d, for memory and processor time", c.version)}
}

func probeImage(path string) Finding {
	f := Finding{Name: "image", Verdict: Good, Detail: path}
	info, err := os.Stat(path)
	switch {
	case err != nil || !info.Mode().IsRegular():
		f.Verdict, f.Detail, f.Hint = Missing, fmt.Sprintf("there is none at %q", path), "glovebox image build"
	default:
		f.Detail = fmt.Sprintf("%s, %d MiB", path, info.Size()>>20)
	}
	return f
}

// probeSandbox makes a sandbox and removes it.
func probeSandbox(ctx context.Context, o Options) Finding {
	f := Finding{Name: "a sandbox", Verdict: Missing, Hint: "please report this, with the output of: uname -a"}
	if o.StateDir == "" {
		dir, err := os.MkdirTemp("", "glovebox-probe-")
		if err != nil {
			f.Detail, f.Hint = err.Error(), "make the directory for temporary files writable"
			return f
		}
		defer os.RemoveAll(dir)
		o.StateDir = dir
	}
	d, err := New(o)
	if err != nil {
		f.Detail = err.Error()
		return f
	}
	defer d.Close()
	if _, err := d.guest(); err != nil { // not what is measured
		f.Detail = err.Error()
		return f
	}
	id := sandbox.ID(glovebox.NewID())
	start := time.Now()
	err = d.Create(ctx, sandbox.Spec{ID: id, Limits: glovebox.DefaultLimits()})
	took := time.Since(start)
	if err := errors.Join(err, d.Destroy(context.WithoutCancel(ctx), id)); err != nil {
		f.Detail = err.Error()
		if readSetting("kernel.yama.ptrace_scope") == "3" {
			f.Hint = "gVisor traces its own processes, which the kernel forbids until a restart with: echo kernel.yama.ptrace_scope=1 | sudo tee /etc/sysctl.d/90-glovebox.conf"
		}
		return f
	}
	f.Verdict, f.Hint, f.Detail = Good, "", fmt.Sprintf("was made in %d ms", took.Milliseconds())
	return f
}
