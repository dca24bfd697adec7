package gvisor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/internal/sandbox"
	"github.com/glovebox-dev/glovebox/internal/sandbox/local"
)

// supervisorGroup is the leaf cgroup that our own process moves into, so that
// controllers can be enabled beside it (cgroup v2 allows no processes in a
// cgroup that has limited children).
const supervisorGroup = "glovebox-supervisor"

// groupPrefix begins the name of a sandbox's cgroup.
const groupPrefix = "glovebox-"

// cgroups says where cgroups for sandboxes can be made.
type cgroups struct {
	version int               // 1 or 2; 0 for nowhere
	parents map[string]string // controller -> directory to make cgroups in
	problem string            // why not, for a person
	hint    string            // what to do about it
}

// group is a cgroup of one sandbox.
type group struct {
	dir   string
	files [][2]string // name and value, in order; a name that ends in "?" may fail
}

// limit adds to p the cgroup that limits a controller, if there can be one.
func (c cgroups) limit(p *plan, id sandbox.ID, controller string, files [][2]string) bool {
	parent, ok := c.parents[controller]
	if !ok {
		return false
	}
	dir := filepath.Join(parent, groupPrefix+string(id))
	for i := range p.groups {
		if p.groups[i].dir == dir { // v2 has one hierarchy, and v1 may mount cpu and memory together
			p.groups[i].files = append(p.groups[i].files, files...)
			return true
		}
	}
	p.groups = append(p.groups, group{dir: dir, files: files})
	return true
}

func (c cgroups) name(controller string) string {
	return fmt.Sprintf("cgroup v%d, controller %s", c.version, controller)
}

func memoryFiles(version int, bytes int64) [][2]string {
	n := strconv.FormatInt(bytes, 10)
	if version == 2 {
		// With oom.group the kernel ends the whole sandbox, not one process of it.
		return [][2]string{{"memory.max", n}, {"memory.swap.max?", "0"}, {"memory.oom.group?", "1"}}
	}
	return [][2]string{{"memory.limit_in_bytes", n}, {"memory.memsw.limit_in_bytes?", n}}
}

func cpuFiles(version int, millis int64) [][2]string {
	const period = 100_000 // microseconds, the kernel's default
	quota := strconv.FormatInt(millis*period/1000, 10)
	if version == 2 {
		return [][2]string{{"cpu.max", quota + " " + strconv.Itoa(period)}}
	}
	return [][2]string{{"cpu.cfs_period_us", strconv.Itoa(period)}, {"cpu.cfs_quota_us", quota}}
}

// make makes the cgroup and sets its limits.
func (g group) make() error {
	if err := os.Mkdir(g.dir, 0o755); err != nil {
		return fmt.Errorf("make cgroup: %w", err)
	}
	for _, f := range g.files {
		name, optional := strings.CutSuffix(f[0], "?")
		if err := os.WriteFile(filepath.Join(g.dir, name), []byte(f[1]), 0); err != nil && !optional {
			return fmt.Errorf("set a limit of a cgroup: %w", err)
		}
	}
	return nil
}

// join moves a process, with all its threads, into the cgroup.
func (g group) join(pid int) error {
	if err := os.WriteFile(filepath.Join(g.dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0); err != nil {
		return fmt.Errorf("join cgroup: %w", err)
	}
	return nil
}

// removeGroup ends what is in a cgroup and removes it. One that is not there
// is no error.
func removeGroup(dir string, deadline time.Time) error {
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		err := os.Remove(dir)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if !errors.Is(err, unix.EBUSY) || time.Now().After(deadline) {
			return fmt.Errorf("remove cgroup: %w", err)
		}
		// The first process is dead; what is still here is dying, or a child
		// of it that got away. v2 kills with one write.
		if os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0) != nil {
			for _, pid := range groupProcs(dir) {
				unix.Kill(pid, unix.SIGKILL)
			}
		}
		time.Sleep(pause)
	}
}

func groupProcs(dir string) []int {
	b, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	var pids []int
	for _, f := range strings.Fields(string(b)) {
		if pid, err := strconv.Atoi(f); err == nil && pid > 1 {
			pids = append(pids, pid)
		}
	}
	return pids
}

// oomKilled reports whether the kernel ended a process of a cgroup because
// it went over its memory limit.
func oomKilled(dir string) bool {
	for _, name := range []string{"memory.events", "memory.oom_control"} {
		b, _ := os.ReadFile(filepath.Join(dir, name))
		for line := range strings.Lines(string(b)) {
			if n, ok := strings.CutPrefix(line, "oom_kill "); ok {
				return strings.TrimSpace(n) != "0"
			}
		}
	}
	return false
}

// detectCgroups returns a function that finds where cgroups can be made,
// when it is first called: doing so may move our own process.
func detectCgroups() func() cgroups {
	return sync.OnceValue(func() cgroups {
		mounts, err1 := os.ReadFile("/proc/self/mountinfo")
		self, err2 := os.ReadFile("/proc/self/cgroup")
		if err := errors.Join(err1, err2); err != nil {
			return cgroups{problem: err.Error()}
		}
		c := findCgroups(string(mounts), string(self))
		if c.version == 2 {
			return prepareV2(c)
		}
		return c
	})
}

// findCgroups reads what the kernel says about cgroup mounts and about our
// own place in them.
func findCgroups(mountinfo, self string) cgroups {
	own := make(map[string]string) // controller -> path; "" is v2
	for line := range strings.Lines(self) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 {
			continue
		}
		for c := range strings.SplitSeq(f[1], ",") {
			own[c] = f[2]
		}
	}
	c := cgroups{parents: make(map[string]string)}
	var v2 string
	for line := range strings.Lines(mountinfo) {
		root, point, kind, options, ok := parseMount(line)
		switch {
		case !ok:
		case kind == "cgroup2":
			v2 = below(root, point, own[""])
		case kind == "cgroup":
			for _, ctrl := range []string{"memory", "cpu"} {
				if slices.Contains(options, ctrl) {
					if dir := below(root, point, own[ctrl]); writable(dir) {
						c.version, c.parents[ctrl] = 1, dir
					}
				}
			}
		}
	}
	if c.version == 1 {
		return c
	}
	if v2 != "" {
		return cgroups{version: 2, parents: map[string]string{"": v2}}
	}
	c.problem = "no cgroup hierarchy can be written to"
	c.hint = "run as root, or on a system with cgroup v2, where one is delegated to users"
	return c
}

// parseMount takes apart a line of /proc/self/mountinfo; options are those of
// the file system.
func parseMount(line string) (root, point, kind string, options []string, ok bool) {
	head, tail, ok := strings.Cut(strings.TrimSpace(line), " - ")
	h, t := strings.Fields(head), strings.Fields(tail)
	if !ok || len(h) < 6 || len(t) < 3 {
		return "", "", "", nil, false
	}
	return h[3], h[4], t[0], strings.Split(t[2], ","), true
}

// below returns the directory of the cgroup path in a hierarchy whose part
// from root on is mounted at point.
func below(root, point, path string) string {
	rel, err := filepath.Rel(root, path)
	if err != nil || strings.HasPrefix(rel, "..") {
		return point
	}
	return filepath.Join(point, rel)
}

func writable(dir string) bool {
	return unix.Access(dir, unix.W_OK|unix.X_OK) == nil && unix.Access(filepath.Join(dir, "cgroup.procs"), unix.W_OK) == nil
}

// prepareV2 makes limited children possible below our own cgroup, or, for
// root, at the top.
func prepareV2(c cgroups) cgroups {
	own := c.parents[""]
	if filepath.Base(own) == supervisorGroup {
		own = filepath.Dir(own)
	}
	no := func(problem string) cgroups {
		return cgroups{problem: problem,
			hint: "start it with: systemd-run --user --scope -p Delegate=yes glovebox serve (as root, without --user)"}
	}
	if !writable(own) {
		return no("the cgroup " + own + " is not delegated to this user")
	}
	have := strings.Fields(local.ReadNote(filepath.Join(own, "cgroup.controllers")))
	var want []string
	for _, ctrl := range []string{"cpu", "memory"} {
		if slices.Contains(have, ctrl) {
			want = append(want, ctrl)
		}
	}
	if len(want) == 0 {
		return no("the cgroup " + own + " has no controllers for memory and cpu")
	}
	if err := enableV2(own, want); err != nil {
		return no("controllers can't be enabled in the cgroup " + own + ": " + err.Error())
	}
	out := cgroups{version: 2, parents: make(map[string]string)}
	for _, ctrl := range want {
		out.parents[ctrl] = own
	}
	return out
}

// enableV2 enables controllers for the children of a cgroup, moving our own
// process out of the way if it is the only one.
func enableV2(own string, controllers []string) error {
	control := filepath.Join(own, "cgroup.subtree_control")
	enable := []byte("+" + strings.Join(controllers, " +"))
	err := os.WriteFile(control, enable, 0)
	if !errors.Is(err, unix.EBUSY) {
		return err
	}
	if procs := groupProcs(own); len(procs) != 1 || procs[0] != os.Getpid() {
		return fmt.Errorf("%d other processes are in it", len(procs))
	}
	leaf := group{dir: filepath.Join(own, supervisorGroup)}
	if err := leaf.make(); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := leaf.join(os.Getpid()); err != nil {
		return err
	}
	return os.WriteFile(control, enable, 0)
}
