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
	// The second must not be below the first: raised, it comes first.
	return [][2]string{{"memory.memsw.limit_in_bytes?", n}, {"memory.limit_in_bytes", n}, {"memory.memsw.limit_in_bytes?", n}}
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
	return g.set()
}

// set sets its limits.
func (g group) set() error {
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
				_ = unix.Kill(pid, unix.SIGKILL)
			}
		}
		time.Sleep(pause) //nolint:forbidigo // v1 doesn't tell when a cgroup is empty
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
		c, err := currentCgroups()
		if err != nil || c.version != 2 {
			return c
		}
		dir, err := placeV2(c)
		if err != nil {
			return cgroups{}
		}
		c, err = prepareV2(dir)
		if err != nil {
			return cgroups{}
		}
		return c
	})
}

// placeV2 returns the cgroup in which those of sandboxes can be made: our
// own, or, for root, else the one at the top, in which processes do no harm.
func placeV2(c cgroups) (string, error) {
	own, top := supervised(c.parents[""]), c.parents["top"]
	err := checkV2(own)
	if err == nil {
		return own, nil
	}
	// Only the real top has no type.
	if _, typed := os.Stat(filepath.Join(top, "cgroup.type")); os.Geteuid() == 0 && typed != nil && writable(top) && len(wantedV2(top)) > 0 {
		return top, nil
	}
	return "", err
}

// currentCgroups finds our place in the machine's cgroups. For version 2 the
// parents are our own cgroup, named "", and the one at the "top"; whether they
// can have limited children is not yet known.
func currentCgroups() (cgroups, error) {
	mounts, err1 := os.ReadFile("/proc/self/mountinfo")
	self, err2 := os.ReadFile("/proc/self/cgroup")
	if err := errors.Join(err1, err2); err != nil {
		return cgroups{}, err
	}
	return findCgroups(string(mounts), string(self)), nil
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
	var v2, top string
	for line := range strings.Lines(mountinfo) {
		root, point, kind, options, ok := parseMount(line)
		switch {
		case !ok:
		case kind == "cgroup2":
			v2, top = below(root, point, own[""]), point
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
		return cgroups{version: 2, parents: map[string]string{"": v2, "top": top}}
	}
	return cgroups{}
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

// delegateHint is how a user gets a cgroup to limit others in.
const delegateHint = "start it as: systemd-run --user --scope -p Delegate=yes glovebox serve (as root without --user)"

// supervised returns the cgroup in which children are made: our own, or its
// parent, if we or another process of ours moved into a leaf of it.
func supervised(own string) string {
	if filepath.Base(own) == supervisorGroup {
		return filepath.Dir(own)
	}
	return own
}

// wantedV2 returns the controllers that a cgroup has and that we use.
func wantedV2(dir string) []string {
	b, _ := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	var want []string
	for _, ctrl := range []string{"cpu", "memory"} {
		if slices.Contains(strings.Fields(string(b)), ctrl) {
			want = append(want, ctrl)
		}
	}
	return want
}

// checkV2 tells why limited children can't be made below our own cgroup, as
// far as can be told without trying.
func checkV2(dir string) error {
	if !writable(dir) {
		return fmt.Errorf("the cgroup %s is not delegated to this user", dir)
	}
	want := wantedV2(dir)
	if len(want) == 0 {
		return fmt.Errorf("the cgroup %s has no controllers for memory and processor time", dir)
	}
	b, _ := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
	if enabled := strings.Fields(string(b)); len(want) > 0 && slices.Contains(enabled, want[0]) && slices.Contains(enabled, want[len(want)-1]) {
		return nil
	}
	if procs := groupProcs(dir); len(procs) > 1 || len(procs) == 1 && procs[0] != os.Getpid() {
		return fmt.Errorf("other processes are in the cgroup %s, so that it can't have limited children", dir)
	}
	return nil
}

// prepareV2 makes limited children of a cgroup possible.
func prepareV2(dir string) (cgroups, error) {
	want := wantedV2(dir)
	if err := enableV2(dir, want); err != nil {
		return cgroups{}, err
	}
	out := cgroups{version: 2, parents: make(map[string]string)}
	for _, ctrl := range want {
		out.parents[ctrl] = dir
	}
	return out, nil
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
