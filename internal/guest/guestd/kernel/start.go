//go:build linux

package kernel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/glovebox-dev/glovebox"
)

// How long a kernel may take. Python with its libraries in a cold sandbox on
// a busy machine needs seconds.
const (
	startTimeout = 60 * time.Second
	dialFirst    = 2 * time.Millisecond // between attempts, doubled up to dialLast
	dialLast     = 50 * time.Millisecond
	startLog     = 64 << 10 // bytes of what the process itself writes that are kept
)

// connection is the file by which a kernel is told where to listen, and
// JupyterLab where it does.
type connection struct {
	ShellPort   int    `json:"shell_port"`
	IOPubPort   int    `json:"iopub_port"`
	StdinPort   int    `json:"stdin_port"`
	ControlPort int    `json:"control_port"`
	HBPort      int    `json:"hb_port"`
	IP          string `json:"ip"` // of ipc, the beginning of the sockets' paths
	Key         string `json:"key"`
	Transport   string `json:"transport"`
	Scheme      string `json:"signature_scheme"`
	KernelName  string `json:"kernel_name"`
	Name        string `json:"glovebox_name"` // the caller's name for it

	file string
}

// maxSocketPath is what the address of a unix socket has room for.
const maxSocketPath = 107

// newConnection chooses where a kernel listens.
func newConnection(dir, name string, spec Spec, key []byte) (connection, error) {
	token := randomHex(6)
	c := connection{
		Key: string(key), Scheme: "hmac-sha256", KernelName: spec.Name, Name: name,
		ShellPort: 1, IOPubPort: 2, StdinPort: 3, ControlPort: 4, HBPort: 5,
		Transport: "ipc", IP: filepath.Join(dir, "s-"+token),
		file: filepath.Join(dir, "kernel-"+token+".json"),
	}
	if spec.Metadata.Glovebox.Transport == "ipc" && len(c.IP) <= maxSocketPath-2 {
		return c, nil
	}
	c.Transport, c.IP = "tcp", "127.0.0.1"
	ports := []*int{&c.ShellPort, &c.IOPubPort, &c.StdinPort, &c.ControlPort, &c.HBPort}
	for _, p := range ports {
		l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.ParseIP(c.IP)})
		if err != nil {
			return c, fmt.Errorf("find a free port: %w", err)
		}
		defer l.Close() // all at once, so that they differ
		*p = l.Addr().(*net.TCPAddr).Port
	}
	return c, nil
}

// address is where a socket is, for net.Dial.
func (c connection) address(port int) (network, addr string) {
	if c.Transport == "ipc" {
		return "unix", c.IP + "-" + strconv.Itoa(port)
	}
	return "tcp", net.JoinHostPort(c.IP, strconv.Itoa(port))
}

// write writes the file, so that it is there whole or not at all. It is
// called as the tools' user, who owns the directory.
func (c connection) write() error {
	b, err := json.Marshal(c)
	if err != nil {
		return err
	}
	tmp := filepath.Join(filepath.Dir(c.file), ".new-"+filepath.Base(c.file))
	if err := os.WriteFile(tmp, b, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, c.file)
}

// remove removes the file and the sockets.
func (c connection) remove() error {
	_ = os.Remove(c.file)
	if c.Transport != "ipc" {
		return nil
	}
	for _, p := range []int{c.ShellPort, c.IOPubPort, c.StdinPort, c.ControlPort, c.HBPort} {
		_, path := c.address(p)
		_ = os.Remove(path)
	}
	return nil
}

// start starts a process for a kernel and returns when it answers.
func (m *Manager) start(ctx context.Context, name, language string) (*live, error) {
	spec, err := findSpec(m.o.Specs, language)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, errSlow)
	defer cancel()
	l := &live{
		spec: spec, me: newIdentity(), dead: make(chan struct{}), gone: make(chan struct{}),
		waiting: map[string]chan message{}, heard: make(chan struct{}),
	}
	if l.connection, err = newConnection(m.o.Dir, name, spec, l.me.key); err != nil {
		return nil, err
	}
	err = m.o.AsUser(func() error {
		if err := os.MkdirAll(m.o.Dir, 0o700); err != nil {
			return err
		}
		return l.connection.write()
	})
	if err != nil {
		return nil, fmt.Errorf("write the connection file of a kernel: %w", err)
	}
	l.proc, err = m.o.Start(fmt.Sprintf("kernel-%s-%d", cleanName(name), m.serial.Add(1)), spec.args(l.connection.file), spec.Env, startLog)
	if err != nil {
		_ = m.o.AsUser(l.connection.remove)
		return nil, glovebox.Errorf(glovebox.CodeConflict, "the %s kernel does not start: %w", language, err)
	}
	l.pid = l.proc.State(false).PID
	m.wg.Go(func() { m.watch(l) })
	if err := l.connect(ctx); err != nil {
		m.kill(l)
		return nil, l.startError(language, err)
	}
	return l, nil
}

var errSlow = fmt.Errorf("it did not answer within %v", startTimeout)

// startError says why a kernel could not be used, with what it wrote itself.
func (l *live) startError(language string, err error) error {
	said := l.lastWords()
	if said != "" {
		said = "; it said: " + said
	}
	return glovebox.Errorf(glovebox.CodeConflict, "the %s kernel does not start: %v%s", language, err, said)
}

// watch waits for the end of a process and clears up after it.
func (m *Manager) watch(l *live) {
	_, _ = l.proc.Wait(context.Background(), false)
	l.lost()
	l.mu.Lock()
	run, shell, iopub, file := l.run, l.shell, l.iopub, l.connection
	l.over = true
	l.mu.Unlock()
	l.drain()
	if run != nil {
		if said := l.lastWords(); said != "" {
			run.text("stderr", said+"\n")
		}
		run.finish(statusDied)
	}
	for _, p := range []*peer{shell, iopub} {
		if p != nil {
			p.close()
		}
	}
	_ = m.o.AsUser(file.remove)
	close(l.gone)
	<-l.proc.Done()
	m.o.Forget(l.proc.ID())
}

// drainTime is for what a process said before it ended to arrive. Children
// that it forked may hold its sockets open for ever.
const drainTime = 2 * time.Second

// drain waits until the sockets of a process that has ended are read out.
func (l *live) drain() {
	read := make(chan struct{})
	go func() { l.wg.Wait(); close(read) }()
	t := time.NewTimer(drainTime)
	defer t.Stop()
	select {
	case <-read:
	case <-t.C:
	}
}

// connect joins the shell and iopub sockets and returns when the kernel
// answers on both.
func (l *live) connect(ctx context.Context) error {
	shell, err := l.dial(ctx, l.connection.ShellPort, "DEALER")
	if err != nil {
		return err
	}
	iopub, err := l.dial(ctx, l.connection.IOPubPort, "SUB")
	if err != nil {
		shell.close()
		return err
	}
	l.mu.Lock()
	if l.over {
		l.mu.Unlock()
		shell.close()
		iopub.close()
		return errEnded
	}
	l.shell, l.iopub = shell, iopub
	l.wg.Go(func() { l.read(shell) })
	l.wg.Go(func() { l.read(iopub) })
	l.mu.Unlock()
	// What is published before the subscription has arrived is lost, so it is
	// asked until something is heard.
	for pause := 100 * time.Millisecond; ; pause *= 2 {
		if _, err := l.ask(ctx, shell, "kernel_info_request", struct{}{}); err != nil {
			return err
		}
		t := time.NewTimer(pause)
		select {
		case <-l.heard:
			t.Stop()
			return nil
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return context.Cause(ctx)
		case <-l.dead:
			t.Stop()
			return errEnded
		}
	}
}

var errEnded = errors.New("its process has ended")

// dial connects to a socket of a kernel that may still be starting.
func (l *live) dial(ctx context.Context, port int, kind string) (*peer, error) {
	network, addr := l.connection.address(port)
	for pause := dialFirst; ; pause = min(2*pause, dialLast) {
		p, err := dialPeer(ctx, network, addr, kind)
		if err == nil {
			return p, nil
		}
		if !errors.Is(err, syscall.ENOENT) && !errors.Is(err, syscall.ECONNREFUSED) {
			return nil, err
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil, context.Cause(ctx)
		case <-l.dead:
			t.Stop()
			return nil, errEnded
		}
	}
}

// ask sends a request and waits for the reply.
func (l *live) ask(ctx context.Context, p *peer, kind string, content any) (message, error) {
	ch := make(chan message, 1)
	l.mu.Lock()
	frames, id, err := l.me.request(kind, content)
	if err == nil {
		l.waiting[id] = ch
		err = p.send(frames...)
	}
	l.mu.Unlock()
	if err != nil {
		return message{}, err
	}
	select {
	case m := <-ch:
		return m, nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-l.dead:
		err = errEnded
	}
	l.mu.Lock()
	delete(l.waiting, id)
	l.mu.Unlock()
	return message{}, err
}

// lastWords is the end of what the process itself wrote to standard error.
func (l *live) lastWords() string {
	const room = 2 << 10
	var b []byte
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	_ = l.proc.Output(ctx, 0, func(c chunk) error {
		b = append(b, c.Data...)
		if over := len(b) - room; over > 0 {
			b = append(b[:0], b[over:]...)
		}
		return nil
	})
	return trimText(b)
}
