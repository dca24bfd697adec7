//go:build linux

package service

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest/guestd/proc"
)

// keep runs a service again and again until it need not run any more.
func (s *Supervisor) keep(v *service) {
	for s.await(s.ctx, func() bool { return s.dependenciesHealthy(v) }) == nil {
		began := time.Now()
		exit, well := s.once(v)
		if s.ctx.Err() != nil {
			break
		}
		var pause time.Duration
		stop := false
		s.update(v, func() {
			v.proc, v.state.Running, v.state.Healthy, v.state.LastExit = nil, false, false, exit
			switch {
			case v.restart:
				v.restart = false
			case v.def.OnDemand && well:
				stop, v.running = true, false // at once: who wants it from now on starts it
			default:
				if time.Since(began) >= s.healthyAfter {
					v.failures = 0
				}
				pause = min(s.firstPause<<min(v.failures, 16), s.longestPause)
				v.failures++
			}
		})
		if stop {
			v.log.note("%s", exit)
			return
		}
		v.log.note("%s; it is started again in %v", exit, pause)
		if !s.pause(v, pause) {
			break
		}
	}
	s.update(v, func() { v.running = false })
}

// dependenciesHealthy is asked with s.mu held.
func (s *Supervisor) dependenciesHealthy(v *service) bool {
	for _, name := range v.def.After {
		if d, err := s.find(name); err == nil && !d.state.Healthy {
			return false
		}
	}
	return true
}

// pause waits before a restart. False means that there will be none.
func (s *Supervisor) pause(v *service, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-v.again:
	case <-s.ctx.Done():
		return false
	}
	return true
}

// once runs a service until it ends. It returns how it did, and whether that
// was well.
func (s *Supervisor) once(v *service) (exit string, well bool) {
	s.clean(v)
	s.mu.Lock()
	s.runs++
	id := "service-" + strconv.Itoa(s.runs)
	s.mu.Unlock()
	p, err := s.host.Spawn(id, &v.def)
	if err != nil {
		return "it can't be started: " + err.Error(), false
	}
	defer func() {
		if s.ctx.Err() == nil { // else it runs on, and is ended with all the others
			s.host.Forget(p.ID())
		}
	}()
	s.update(v, func() {
		if v.proc = p; v.starts > 0 {
			v.state.Restarts++
		}
		v.starts++
		v.state.Running = true
		select { // a hurry that came before has had its effect
		case <-v.again:
		default:
		}
	})
	logs := make(chan struct{})
	s.wg.Go(func() { // what is left in the background may write on for a while
		defer close(logs)
		_ = p.Output(s.ctx, 0, func(c proc.Chunk) error { v.log.write(c.Data); return nil })
	})
	ctx, cancel := context.WithCancel(s.ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = p.Wait(ctx, false)
	}()
	defer func() { <-ended }()
	defer cancel()

	note := ""
	if err := s.ready(v, ended); err == nil {
		s.update(v, func() { v.state.Healthy = true })
		select {
		case <-ended:
		case <-s.ctx.Done():
			return "", false
		}
		s.update(v, func() { v.state.Running, v.state.Healthy = false, false })
	} else if !errors.Is(err, errEnded) {
		if s.ctx.Err() != nil {
			return "", false
		}
		note = "; " + err.Error()
		if s.end(s.ctx, p) != nil && p.State(false).Running {
			return "it can't be ended" + note, false
		}
	}
	// What it wrote last is logged before what is said of its end. It ends soon
	// after the process, whatever holds it open.
	select {
	case <-logs:
	case <-s.ctx.Done():
		return "", false
	}
	st := p.State(false)
	if st.Signal != "" {
		return "ended by " + st.Signal + note, false
	}
	return fmt.Sprintf("ended with %d%s", st.ExitCode, note), st.ExitCode == 0 && note == ""
}

// clean removes what an earlier run left where this one is to show that it is
// ready: sockets, and files below the directories that are empty at the start.
func (s *Supervisor) clean(v *service) {
	for _, p := range []string{v.def.Ready.Unix, v.def.Ready.Path} {
		if p == "" {
			continue
		}
		passing := strings.HasPrefix(p, "/run/") || strings.HasPrefix(p, "/tmp/")
		p = s.host.Path(p)
		if st, err := os.Lstat(p); err == nil && (st.Mode().Type() == os.ModeSocket || passing && st.Mode().IsRegular()) {
			_ = os.Remove(p)
		}
	}
}

var errEnded = errors.New("it ended")

// ready waits until a service answers. It looks often at first: what is
// waited for takes from a few milliseconds to a few seconds.
func (s *Supervisor) ready(v *service, ended <-chan struct{}) error {
	wait := 5 * time.Millisecond
	t := time.NewTimer(0)
	defer t.Stop()
	for begin := time.Now(); ; {
		select {
		case <-t.C:
		case <-ended:
			return errEnded
		case <-s.ctx.Done():
			return s.ctx.Err()
		}
		err := s.probe(v)
		if err == nil {
			return nil
		}
		if time.Since(begin) > s.readyWithin {
			return fmt.Errorf("it was not healthy after %v: %w", s.readyWithin, err)
		}
		wait = min(wait*3/2, 200*time.Millisecond)
		t.Reset(wait)
	}
}

// probe looks once whether a service answers.
func (s *Supervisor) probe(v *service) error {
	r := v.def.Ready
	if r.Path != "" {
		if _, err := os.Stat(s.host.Path(r.Path)); err != nil {
			return err
		}
	}
	if r.Unix == "" && r.TCP == "" {
		return nil
	}
	conn, err := s.connect(s.ctx, v)
	if err != nil {
		return err
	}
	return conn.Close()
}

// connect connects to where a service answers.
func (s *Supervisor) connect(ctx context.Context, v *service) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var d net.Dialer
	if v.def.Ready.TCP != "" {
		return d.DialContext(ctx, "tcp", v.def.Ready.TCP)
	}
	if v.def.Ready.Unix != "" {
		return d.DialContext(ctx, "unix", s.host.Path(v.def.Ready.Unix))
	}
	return nil, glovebox.Errorf(glovebox.CodeInvalid, "the service %s takes no connections", v.def.Name)
}

// Dial connects to a service. One that is on demand is started first.
func (s *Supervisor) Dial(ctx context.Context, name string) (net.Conn, error) {
	v, err := s.find(name)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	healthy, kept := v.state.Healthy, v.running
	s.mu.Unlock()
	if !healthy {
		if !kept && !v.def.OnDemand {
			return nil, glovebox.Errorf(glovebox.CodeUnavailable, "the service %s was not started", name)
		}
		ctx, cancel := context.WithTimeout(ctx, connectWait)
		defer cancel()
		if err := s.Start(ctx, name); err != nil {
			return nil, err
		}
	}
	conn, err := s.connect(ctx, v)
	if err != nil {
		return nil, glovebox.Errorf(wireCode(err), "the service %s does not answer: %w", name, err)
	}
	return conn, nil
}

func wireCode(err error) glovebox.Code {
	if c := glovebox.CodeOf(err); c == glovebox.CodeInvalid {
		return c
	}
	return glovebox.CodeUnavailable
}

// end ends a process: politely, and then not.
func (s *Supervisor) end(ctx context.Context, p *proc.Process) error {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	_ = p.Signal(syscall.SIGCONT) // one that is stopped could not heed it
	wait, cancel := context.WithTimeout(ctx, s.killAfter)
	defer cancel()
	if _, err := p.Wait(wait, false); err == nil {
		return nil
	}
	if err := p.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	_, err := p.Wait(ctx, false)
	return err
}
