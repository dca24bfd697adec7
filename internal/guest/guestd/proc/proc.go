//go:build linux

// Package proc runs processes for the guest daemon: in a session of their
// own, with a terminal or pipes, with their output kept for whoever attaches
// later.
//
// A process is what was started and what it started in turn. It has ended
// when the process that was started has ended; its output has ended when
// everything that holds the writing ends is gone, or, since things left in the
// background may hold them for ever, when nothing was written for one second
// after the end, or five seconds after it in any case. What is written still
// later is kept and found by those who attach then.
package proc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest/wire"
)

// Bounds.
const (
	DefaultOutput = 1 << 20  // bytes of output kept when a command does not say
	maxOutput     = 64 << 20 // that a command may ask for
	maxKept       = 64 << 20 // that all ended processes keep together
	maxEnded      = 1000     // ended processes that are remembered
	maxRunning    = 4096
	endSilence    = time.Second
	endLatest     = 5 * time.Second
)

// Command is a process to start, all of it decided.
type Command struct {
	ID          string
	Args        []string
	Dir         string   // absolute
	Env         []string // NAME=value; PATH is used to find Args[0]
	Cred        *syscall.Credential
	TTY         bool
	Rows, Cols  uint16
	NoStdin     bool // /dev/null instead of an open pipe
	OutputLimit int64
}

// Table holds the processes.
type Table struct {
	spawner *spawner
	name    string // tells its processes from those of other tables

	wg sync.WaitGroup

	mu    sync.Mutex
	byID  map[string]*Process
	ended []*Process // whose output has ended, the oldest first
	shed  int        // how many of them have shed most of their output
	kept  int64      // bytes of output that they keep
}

// NewTable returns an empty table. If reap is set, it waits for every child
// of this process and adopted orphan; nothing else may wait for children then.
func NewTable(reap bool) *Table {
	return &Table{spawner: newSpawner(reap), name: glovebox.NewID(), byID: map[string]*Process{}}
}

// Close kills what runs and waits for it to end.
func (t *Table) Close() {
	for _, p := range t.All() {
		_ = p.Signal(syscall.SIGKILL)
	}
	t.wg.Wait()
	t.spawner.close()
}

// Process is one that was started.
type Process struct {
	cmd     Command
	marker  string
	pid     int
	started time.Time
	out     *output
	exited  chan struct{} // the process has ended
	done    chan struct{} // and so has its output

	mu      sync.Mutex
	sources []*source // of its output
	stdin   *os.File  // pipe or terminal; nil when closed
	writes  int       // that are under way
	end     exit
	ended   time.Time
}

// markerName is the variable by which processes that leave their session are
// still known. Its value has the name of the table too: where a sandbox is only
// a directory, there are others' processes with the same id.
const markerName = "GLOVEBOX_PROCESS="

// Start starts a process.
func (t *Table) Start(c Command) (*Process, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	path, err := lookPath(c.Args[0], c.Dir, c.Env)
	if err != nil {
		return nil, err
	}
	p := &Process{cmd: c, marker: markerName + t.name + "/" + c.ID, exited: make(chan struct{}), done: make(chan struct{}), out: newOutput(c.OutputLimit)}
	if err := t.reserve(p); err != nil {
		return nil, err
	}
	ended, err := t.launch(p, path)
	if err != nil {
		t.mu.Lock()
		delete(t.byID, c.ID)
		t.mu.Unlock()
		return nil, err
	}
	t.wg.Go(func() { t.follow(p, ended) })
	return p, nil
}

func (c *Command) check() error {
	switch {
	case !wire.ValidID(c.ID):
		return glovebox.Invalid("id", "use 1 to 64 of [0-9A-Za-z_-]", "%.80q can't name a process", c.ID)
	case len(c.Args) == 0 || c.Args[0] == "":
		return glovebox.Invalid("args", "name a program", "the command is empty")
	case c.OutputLimit < 0 || c.OutputLimit > maxOutput:
		return glovebox.Invalid("output_limit", fmt.Sprintf("give 0 to %d", maxOutput), "%d is out of range", c.OutputLimit)
	}
	for _, s := range append(append([]string{c.Dir}, c.Args...), c.Env...) {
		if strings.IndexByte(s, 0) >= 0 {
			return glovebox.Invalid("args", "leave it out", "a command can't contain a NUL byte")
		}
	}
	if c.OutputLimit == 0 {
		c.OutputLimit = DefaultOutput
	}
	c.OutputLimit = max(c.OutputLimit, 1<<10)
	return nil
}

// reserve takes the id, so that two starts under one id can't both succeed.
func (t *Table) reserve(p *Process) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byID[p.cmd.ID] != nil {
		return glovebox.Errorf(glovebox.CodeConflict, "there is a process %q already", p.cmd.ID)
	}
	if len(t.byID) >= maxRunning+maxEnded {
		return glovebox.Errorf(glovebox.CodeLimit, "%d processes are known already", len(t.byID))
	}
	p.started = time.Now()
	t.byID[p.cmd.ID] = p
	return nil
}

// files are the ends of a process's input and output.
type files struct {
	child   [3]int // descriptors that the process gets
	own     []int  // those of them that are ours to close once it has them
	readers []*os.File
	stdin   *os.File
}

func (f *files) close(all bool) {
	for _, fd := range f.own {
		unix.Close(fd)
	}
	if !all {
		return
	}
	for _, r := range f.readers {
		r.Close()
	}
	if f.stdin != nil {
		f.stdin.Close()
	}
}

// pipe makes a pipe of which we keep one end. os.Pipe would register both
// with the poller, which is four system calls too many.
func (f *files) pipe(keepWrite bool) (ours *os.File, theirs int, err error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return nil, 0, err
	}
	keep, theirs := p[0], p[1]
	if keepWrite {
		keep, theirs = p[1], p[0]
	}
	f.own = append(f.own, theirs)
	if err := unix.SetNonblock(keep, true); err != nil {
		unix.Close(keep)
		return nil, 0, err
	}
	return os.NewFile(uintptr(keep), "pipe"), theirs, nil
}

// devNull is the empty input of every process that has no other.
var devNull = sync.OnceValues(func() (int, error) { return unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0) })

// launch forks. It returns what brings the end.
func (t *Table) launch(p *Process, path string) (<-chan exit, error) {
	c := &p.cmd
	f, err := open(c)
	var sources []*source
	if err == nil {
		sources, err = p.sourcesOf(f.readers)
	}
	if err != nil {
		f.close(true)
		return nil, fmt.Errorf("open input and output: %w", err)
	}
	attr := &syscall.ProcAttr{
		Dir:   c.Dir,
		Env:   append(c.Env[:len(c.Env):len(c.Env)], p.marker),
		Files: []uintptr{uintptr(f.child[0]), uintptr(f.child[1]), uintptr(f.child[2])},
		Sys:   &syscall.SysProcAttr{Setsid: true, Setctty: c.TTY, Ctty: 0, Credential: c.Cred},
	}
	p.mu.Lock()
	pid, ended, err := t.spawner.spawn(path, c.Args, attr)
	p.pid, p.stdin, p.sources = pid, f.stdin, sources
	p.mu.Unlock()
	if err != nil {
		f.close(true)
		return nil, startError(c, err)
	}
	f.close(false)
	return ended, nil
}

func startError(c *Command, err error) error {
	if errors.Is(err, syscall.ENOENT) {
		if _, serr := os.Stat(c.Dir); serr != nil {
			return &fs.PathError{Op: "start in", Path: c.Dir, Err: syscall.ENOENT}
		}
		return glovebox.Errorf(glovebox.CodeNotFound, "%q, or the interpreter that it names, is not there", c.Args[0])
	}
	return fmt.Errorf("start %q: %w", c.Args[0], err)
}

func open(c *Command) (*files, error) {
	f := &files{}
	if c.TTY {
		return f, f.openTTY(c)
	}
	var err error
	if c.NoStdin {
		f.child[0], err = devNull()
	} else {
		f.stdin, f.child[0], err = f.pipe(true)
	}
	for i := 1; i <= 2 && err == nil; i++ {
		var r *os.File
		if r, f.child[i], err = f.pipe(false); err == nil {
			f.readers = append(f.readers, r)
		}
	}
	return f, err
}

func (f *files) openTTY(c *Command) error {
	opened, slave, err := pty.Open()
	if err != nil {
		return err
	}
	defer slave.Close()
	// As it is opened there, reading and writing it can't be interrupted.
	ours, err := unix.FcntlInt(opened.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	opened.Close()
	if err != nil {
		return err
	}
	if err := unix.SetNonblock(ours, true); err != nil {
		unix.Close(ours)
		return err
	}
	master := os.NewFile(uintptr(ours), "terminal")
	f.stdin, f.readers = master, []*os.File{master}
	fd, err := unix.FcntlInt(slave.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return err
	}
	f.child, f.own = [3]int{fd, fd, fd}, []int{fd}
	if c.Cred != nil {
		if err := slave.Chown(int(c.Cred.Uid), int(c.Cred.Gid)); err != nil && !errors.Is(err, syscall.EPERM) {
			return err
		}
	}
	size := &pty.Winsize{Rows: c.Rows, Cols: c.Cols}
	if size.Rows == 0 || size.Cols == 0 {
		size.Rows, size.Cols = 24, 80
	}
	return pty.Setsize(slave, size)
}

// settle notes that a process has ended, and bounds what ended processes
// keep: their number, and their output together, the oldest first.
func (t *Table) settle(p *Process) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byID[p.cmd.ID] != p { // forgotten already
		return
	}
	t.ended = append(t.ended, p)
	t.kept += p.out.kept()
	for len(t.ended) > maxEnded {
		old := t.ended[0]
		t.ended = t.ended[1:]
		t.shed = max(0, t.shed-1)
		t.kept -= old.out.kept()
		delete(t.byID, old.cmd.ID)
	}
	for t.kept > maxKept && t.shed < len(t.ended) {
		old := t.ended[t.shed].out
		t.kept -= old.kept()
		old.shed()
		t.kept += old.kept()
		t.shed++
	}
}

// Get returns the process with an id.
func (t *Table) Get(id string) (*Process, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.byID[id]; p != nil && p.pidNow() != 0 {
		return p, nil
	}
	return nil, glovebox.Errorf(glovebox.CodeNotFound, "there is no process %.80q", id)
}

// Forget removes an ended process from the table.
func (t *Table) Forget(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.byID[id]
	delete(t.byID, id)
	if i := slices.Index(t.ended, p); i >= 0 {
		t.kept -= p.out.kept()
		t.ended = slices.Delete(t.ended, i, i+1)
		if i < t.shed {
			t.shed--
		}
	}
}

// All returns the processes, the newest first, at most maxEnded of them.
func (t *Table) All() []*Process {
	t.mu.Lock()
	all := make([]*Process, 0, len(t.byID))
	for _, p := range t.byID {
		if p.pidNow() != 0 {
			all = append(all, p)
		}
	}
	t.mu.Unlock()
	sort.Slice(all, func(i, j int) bool { return all[i].started.After(all[j].started) })
	return all[:min(len(all), maxEnded)]
}

// lookPath finds a program as execvp does, in the PATH of the environment
// that it is to run with.
func lookPath(name, dir string, env []string) (string, error) {
	if strings.ContainsRune(name, '/') {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		return name, nil
	}
	path := "/usr/local/bin:/usr/bin:/bin"
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, "PATH="); ok {
			path = v
		}
	}
	for _, d := range filepath.SplitList(path) {
		if !filepath.IsAbs(d) {
			d = filepath.Join(dir, d)
		}
		full := filepath.Join(d, name)
		var st unix.Stat_t
		if unix.Stat(full, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && st.Mode&0o111 != 0 {
			return full, nil
		}
	}
	return "", glovebox.Errorf(glovebox.CodeNotFound, "the program %.80q is not in PATH", name)
}
