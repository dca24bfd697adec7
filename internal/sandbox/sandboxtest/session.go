package sandboxtest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/sandbox"
)

// patience is how long the suite waits for what must happen.
const patience = 60 * time.Second

// ask puts a question to a probe and returns its reply. The error is that of
// the stream; the probe's own is in the reply.
func ask(conn net.Conn, q question) (reply, error) {
	var r reply
	conn.SetDeadline(time.Now().Add(patience))
	b, err := json.Marshal(q)
	if err != nil {
		return r, err
	}
	if _, err := conn.Write(append(b, '\n')); err != nil {
		return r, err
	}
	// One byte at a time would be slow, and a buffer could take what follows:
	// a probe sends nothing that was not asked for, so there is no more.
	line, err := bufio.NewReader(conn).ReadBytes('\n')
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(line, &r)
}

// env is one test's driver with its state, and the sandboxes that it made.
type env struct {
	*testing.T
	suite Suite
	dir   string
	d     sandbox.Driver
	ctx   context.Context
	ids   []sandbox.ID

	closers []io.Closer // drivers, closed in the end
}

// start opens a driver of the test's own, and checks in the end that nothing
// of any sandbox is left.
func (s Suite) start(t *testing.T) *env {
	t.Helper()
	if s.Skip != nil {
		if why := s.Skip(); why != "" {
			t.Skip(why)
		}
	}
	// Not t.TempDir, whose name is longer than a socket's path may be in
	// drivers that know no way around it.
	dir, err := os.MkdirTemp("", "sbt")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*patience)
	e := &env{T: t, suite: s, dir: dir, ctx: ctx}
	t.Cleanup(func() {
		defer cancel()
		e.finish()
	})
	e.d = e.open()
	return e
}

// open returns another driver over the same state.
func (e *env) open() sandbox.Driver {
	e.Helper()
	d, err := e.suite.Open(e.dir)
	if err != nil {
		e.Fatal(err)
	}
	if c, ok := d.(io.Closer); ok {
		e.closers = append(e.closers, c)
	}
	return d
}

// finish destroys what is left and looks for leaks.
func (e *env) finish() {
	if e.d != nil {
		for _, id := range e.ids {
			if err := e.d.Destroy(e.ctx, id); err != nil {
				e.Errorf("destroy %s: %v", id, err)
			}
		}
		infos, err := e.d.List(e.ctx)
		if err != nil || len(infos) != 0 {
			e.Errorf("in the end the driver lists %+v, %v", infos, err)
		}
		for _, leak := range findLeaks(e.dir, e.ids) {
			e.Errorf("left behind: %s", leak)
		}
	}
	for _, c := range e.closers {
		c.Close()
	}
	if err := os.RemoveAll(e.dir); err != nil {
		e.Error(err)
	}
}

// id returns a new id, whose traces are looked for in the end.
func (e *env) id() sandbox.ID {
	id := sandbox.ID(glovebox.NewID())
	e.ids = append(e.ids, id)
	return id
}

// create makes a sandbox.
func (e *env) create(s sandbox.Spec) sandbox.ID {
	e.Helper()
	if s.ID == "" {
		s.ID = e.id()
	}
	if err := e.d.Create(e.ctx, s); err != nil {
		e.Fatalf("create: %v", err)
	}
	return s.ID
}

// dial returns a stream to a sandbox, closed in the end.
func (e *env) dial(id sandbox.ID) net.Conn {
	e.Helper()
	conn, err := e.d.Dial(e.ctx, id)
	if err != nil {
		e.Fatalf("dial: %v", err)
	}
	e.Cleanup(func() { conn.Close() })
	return conn
}

// ask asks over a stream; what the probe refuses is an error of the test.
func (e *env) ask(conn net.Conn, q question) reply {
	e.Helper()
	r, err := ask(conn, q)
	if err != nil {
		e.Fatalf("%s: %v", q.Op, err)
	}
	if r.Error != "" {
		e.Fatalf("%s inside: %s", q.Op, r.Error)
	}
	return r
}

// wantEcho checks that a stream reaches a guest.
func (e *env) wantEcho(conn net.Conn) {
	e.Helper()
	text := glovebox.NewID()
	if r := e.ask(conn, question{Op: "echo", Path: text}); r.Text != text {
		e.Fatalf("the guest echoes %q for %q", r.Text, text)
	}
}

// info returns what the driver lists of a sandbox.
func (e *env) info(id sandbox.ID) (sandbox.Info, bool) {
	e.Helper()
	infos, err := e.d.List(e.ctx)
	if err != nil {
		e.Fatalf("list: %v", err)
	}
	for _, i := range infos {
		if i.ID == id {
			return i, true
		}
	}
	return sandbox.Info{}, false
}

// awaitEnded waits until the driver lists a sandbox as ended.
func (e *env) awaitEnded(id sandbox.ID) sandbox.Info {
	e.Helper()
	return e.awaitState(id, sandbox.Ended)
}

// awaitState waits until the driver lists a sandbox with a state. A driver that
// has an engine asked for it may hear late that it has done so.
func (e *env) awaitState(id sandbox.ID, want sandbox.State) sandbox.Info {
	e.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		i, ok := e.info(id)
		if ok && i.State == want {
			return i
		}
		if time.Now().After(end) {
			e.Fatalf("sandbox %s is not seen as %s: %v, %+v", id, want, ok, i)
		}
	}
}

func (e *env) wantCode(err error, want glovebox.Code) {
	e.Helper()
	if got := glovebox.CodeOf(err); got != want {
		e.Fatalf("got code %q (%v), want %q", got, err, want)
	}
}

// second is a second process of the test binary.
type second struct {
	cmd *exec.Cmd
	out *bufio.Reader
	err *strings.Builder
}

// second starts one with a task.
func (e *env) second(k task) *second {
	e.Helper()
	k.Dir = e.dir
	b, err := json.Marshal(k)
	if err != nil {
		e.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		e.Fatal(err)
	}
	p := &second{cmd: exec.Command(exe), err: new(strings.Builder)}
	p.cmd.Env = append(os.Environ(), childEnv+"="+string(b))
	p.cmd.Stderr = p.err
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		e.Fatal(err)
	}
	p.out = bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		e.Fatal(err)
	}
	e.Cleanup(p.kill)
	return p
}

// await waits for a line.
func (p *second) await(want string) error {
	line, err := p.out.ReadString('\n')
	if err != nil || strings.TrimSpace(line) != want {
		return fmt.Errorf("the second process says %q, %v; %s", line, err, p.err) //nolint:errorlint // err may be nil
	}
	return nil
}

// kill ends it as kill -9 does.
func (p *second) kill() {
	p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// Exec runs a command in a sandbox whose guest is a probe, and returns its
// output, for benchmarks of drivers.
func Exec(conn net.Conn, args ...string) (string, error) {
	r, err := ask(conn, question{Op: "exec", Args: args})
	if err == nil && r.Error != "" {
		err = errors.New(r.Error)
	}
	return r.Text, err
}
