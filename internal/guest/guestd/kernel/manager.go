//go:build linux

// Package kernel runs Jupyter kernels for the guest daemon: processes that
// keep the state of a language between cells, spoken to in Jupyter's protocol
// over sockets that nobody else is told of but JupyterLab, which finds them by
// their connection files.
//
// A kernel runs as the tools' user and is not trusted. Whatever it sends is
// bounded before it is kept: a message, the output of a cell, the number of
// kernels. A kernel that dies, is silent or talks nonsense ends its own cell
// ("died"), and the next cell starts it anew.
//
// One cell of a kernel runs at a time; further ones wait for their turn. A
// cell goes on when whoever asked for it goes away: its output is kept until
// the next one begins.
package kernel

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest/guestd/proc"
	"github.com/glovebox-dev/glovebox/internal/guest/wire"
)

// Bounds.
const (
	MaxKernels = 8       // known at once
	MaxCode    = 1 << 20 // bytes of a cell
	MaxTimeout = 24 * time.Hour

	killGrace  = 10 * time.Second
	waitQueued = 64 // cells that wait for their turn, of one kernel
)

type chunk = proc.Chunk

// Options configures a Manager.
type Options struct {
	// Dir is where connection files and sockets lie; it is made, as the
	// tools' user, and its path should be short: those of sockets may have 107
	// bytes.
	Dir string

	// Specs are directories of kernel specifications; nil means SpecDirs.
	Specs []string

	// Start starts a process as the tools' user, of which at most limit bytes
	// of output are kept.
	Start func(id string, args []string, env map[string]string, limit int64) (*proc.Process, error)

	// Forget is told of a process that has ended and is needed no more.
	Forget func(id string)

	// AsUser runs file work as the tools' user.
	AsUser func(func() error) error

	// KillGrace is how long a cell may take to heed the interrupt after its
	// time is up, before its kernel is killed; 0 means 10 s.
	KillGrace time.Duration
}

// Manager holds the kernels.
type Manager struct {
	o      Options
	serial atomic.Int64
	wg     sync.WaitGroup
	ctx    context.Context
	stop   context.CancelFunc

	mu      sync.Mutex
	kernels map[string]*kernel
	closed  bool
}

// kernel is a name with a language, and the process that there is for it now.
type kernel struct {
	name, language string
	turn           chan struct{} // holds one token: who has it may start, stop and use the process
	queued         atomic.Int32

	mu      sync.Mutex
	live    *live
	run     *Run // the current or last one
	cells   int
	used    bool // it has run a cell: what it holds is the job's
	running bool
}

// New returns a manager of no kernels.
func New(o Options) *Manager {
	if o.Specs == nil {
		o.Specs = SpecDirs
	}
	if o.KillGrace == 0 {
		o.KillGrace = killGrace
	}
	m := &Manager{o: o, kernels: map[string]*kernel{}}
	m.ctx, m.stop = context.WithCancel(context.Background())
	return m
}

// Close ends all kernels and waits for them.
func (m *Manager) Close() {
	m.mu.Lock()
	m.closed = true
	all := m.all()
	m.mu.Unlock()
	m.stop()
	for _, k := range all {
		if l := k.current(); l != nil {
			m.kill(l)
		}
	}
	m.wg.Wait()
}

func (m *Manager) all() []*kernel {
	all := make([]*kernel, 0, len(m.kernels))
	for _, k := range m.kernels {
		all = append(all, k)
	}
	return all
}

// Cell is code to run; see guest.Cell.
type Cell struct {
	Kernel   string
	Language string
	Code     string
	Timeout  time.Duration
	Silent   bool
}

func (c *Cell) check() error {
	if c.Kernel == "" {
		c.Kernel = c.Language
	}
	if c.Kernel == "" {
		c.Kernel = "python"
	}
	switch {
	case !wire.ValidID(c.Kernel):
		return glovebox.Invalid("kernel", "use 1 to 64 of [0-9A-Za-z_-]", "%.80q can't name a kernel", c.Kernel)
	case len(c.Code) > MaxCode:
		return &glovebox.Error{Code: glovebox.CodeTooLarge, Field: "code", Msg: "a cell has at most 1 MiB", Hint: "write the data to a file and read it in the cell"}
	case c.Timeout < 0 || c.Timeout > MaxTimeout:
		return glovebox.Invalid("timeout", "use 0 to 24 h", "%v is out of range", c.Timeout)
	}
	return nil
}

// get returns the kernel of a name, made if it is not there.
func (m *Manager) get(name, language string) (*kernel, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, glovebox.Errorf(glovebox.CodeUnavailable, "the guest ends")
	}
	if k := m.kernels[name]; k != nil {
		if language != "" && k.language != language {
			return nil, glovebox.Invalid("language", "leave it out, or use another name", "kernel %q runs %s, not %s", name, k.language, language)
		}
		return k, nil
	}
	if language == "" {
		language = "python"
		if specNames[name] != nil {
			language = name
		}
	}
	if specNames[language] == nil {
		return nil, glovebox.Invalid("language", "use "+Languages, "%.40q is not one that kernels are known for", language)
	}
	if len(m.kernels) >= MaxKernels {
		return nil, glovebox.Errorf(glovebox.CodeLimit, "there are %d kernels already; use one of them", len(m.kernels))
	}
	k := &kernel{name: name, language: language, turn: make(chan struct{}, 1)}
	m.kernels[name] = k
	return k, nil
}

// find returns the kernel of a name that is there.
func (m *Manager) find(name string) (*kernel, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if k := m.kernels[name]; k != nil {
		return k, nil
	}
	names := make([]string, 0, len(m.kernels))
	for n := range m.kernels {
		names = append(names, n)
	}
	return nil, &glovebox.Error{Code: glovebox.CodeNotFound, Field: "kernel", Msg: "there is no kernel " + quote(name), Hint: "there are: " + strings.Join(names, ", ")}
}

// take waits for the kernel's turn.
func (k *kernel) take(ctx context.Context) error {
	if k.queued.Add(1) > waitQueued {
		k.queued.Add(-1)
		return glovebox.Errorf(glovebox.CodeLimit, "%d cells wait for kernel %q already", waitQueued, k.name)
	}
	defer k.queued.Add(-1)
	select {
	case k.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (k *kernel) give() { <-k.turn }

// current returns the process if there is one that lives.
func (k *kernel) current() *live {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.live == nil {
		return nil
	}
	select {
	case <-k.live.dead:
		return nil
	default:
		return k.live
	}
}

// kill ends a process and all that it started, and waits until it is gone.
func (m *Manager) kill(l *live) {
	_ = l.proc.Signal(syscall.SIGKILL)
	<-l.gone
	l.wg.Wait()
}

// ensure returns the process, started if there is none. The caller has the turn.
func (m *Manager) ensure(ctx context.Context, k *kernel) (l *live, fresh bool, err error) {
	if l := k.current(); l != nil {
		return l, false, nil
	}
	k.mu.Lock()
	old := k.live
	k.mu.Unlock()
	if old != nil { // it may be only deaf
		m.kill(old)
	}
	if l, err = m.start(ctx, k.name, k.language); err != nil {
		return nil, false, err
	}
	k.mu.Lock()
	k.live, k.used, k.cells = l, false, 0
	k.mu.Unlock()
	if m.ctx.Err() != nil { // closed meanwhile, and perhaps not seen by it
		m.kill(l)
		return nil, false, errEnded
	}
	return l, true, nil
}

// Execute starts a cell when it is its turn. The cell goes on when ctx ends.
func (m *Manager) Execute(ctx context.Context, c Cell) (*Run, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	k, err := m.get(c.Kernel, c.Language)
	if err != nil {
		return nil, err
	}
	if err := k.take(ctx); err != nil {
		return nil, err
	}
	l, fresh, err := m.ensure(ctx, k)
	if err != nil {
		k.give()
		return nil, err
	}
	run := newRun(fresh)
	k.mu.Lock()
	k.run, k.used, k.running = run, k.used || !c.Silent, true
	if !c.Silent {
		k.cells++
	}
	k.mu.Unlock()
	if l.spec.Metadata.Glovebox.Late {
		run.late = func() { m.wg.Go(func() { l.catchUp(run) }) }
	}
	if err := l.begin(run, c); err != nil {
		run.finish(statusDied)
		l.lost()
	}
	m.wg.Go(func() {
		defer k.give()
		m.supervise(k, l, run, c.Timeout)
	})
	return run, nil
}

// executeRequest is the content of the message.
type executeRequest struct {
	Code        string   `json:"code"`
	Silent      bool     `json:"silent"`
	History     bool     `json:"store_history"`
	Expressions struct{} `json:"user_expressions"`
	AllowStdin  bool     `json:"allow_stdin"`
	StopOnError bool     `json:"stop_on_error"`
}

// begin sends the cell.
func (l *live) begin(run *Run, c Cell) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	frames, id, err := l.me.request("execute_request", executeRequest{Code: c.Code, Silent: c.Silent, History: !c.Silent})
	if err != nil {
		return err
	}
	run.id = id
	l.run = run
	return l.shell.send(frames...)
}

// supervise sees a cell to its end: in time, or interrupted, or killed.
func (m *Manager) supervise(k *kernel, l *live, run *Run, timeout time.Duration) {
	defer func() {
		l.mu.Lock()
		l.run = nil
		l.mu.Unlock()
		k.mu.Lock()
		k.running = false
		k.mu.Unlock()
	}()
	var up <-chan time.Time
	if timeout > 0 {
		t := time.NewTimer(timeout)
		defer t.Stop()
		up = t.C
	}
	select {
	case <-run.done:
		return
	case <-l.dead:
	case <-up:
		l.interrupt(m.ctx, run)
		t := time.NewTimer(m.o.KillGrace)
		defer t.Stop()
		select {
		case <-run.done:
			return
		case <-l.dead:
		case <-t.C:
			run.text("stderr", "\n[the kernel did not heed the interrupt within "+m.o.KillGrace.String()+" and was killed]\n")
		}
	}
	m.kill(l) // it has died, or can't be talked to
	run.finish(statusDied)
}

// Follow returns the cell of a kernel that runs, or ran last.
func (m *Manager) Follow(name string) (*Run, error) {
	k, err := m.find(name)
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.run == nil {
		return nil, glovebox.Errorf(glovebox.CodeNotFound, "kernel %q has run nothing yet", name)
	}
	return k.run, nil
}

// State is what is known of a kernel.
type State struct {
	Name, Language string
	Busy           bool
	Cells          int
}

// List returns the kernels.
func (m *Manager) List() []State {
	m.mu.Lock()
	all := m.all()
	m.mu.Unlock()
	list := make([]State, 0, len(all))
	for _, k := range all {
		k.mu.Lock()
		list = append(list, State{Name: k.name, Language: k.language, Busy: k.running && !k.run.over(), Cells: k.cells})
		k.mu.Unlock()
	}
	return list
}
