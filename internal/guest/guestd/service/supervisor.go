//go:build linux

package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest/guestd/proc"
)

// Times. They are variables of the Supervisor so that its tests need not wait.
const (
	firstPause   = 250 * time.Millisecond // before the first restart
	longestPause = 30 * time.Second
	healthyAfter = time.Minute      // after which a service's restarts count from anew
	readyWithin  = 80 * time.Second // from start to healthy; then it is killed, so that it can start anew in the 2 min that a host waits
	killAfter    = 5 * time.Second  // from SIGTERM to SIGKILL
	connectWait  = 30 * time.Second // for a service that someone connects to
)

// Host is what the supervisor needs of the daemon.
type Host struct {
	// Spawn starts a service's process under an id.
	Spawn func(id string, d *Definition) (*proc.Process, error)
	// Forget forgets one that has ended.
	Forget func(id string)
	// Path maps a path of the sandbox.
	Path func(string) string
	// WriteSecret writes a file of the tools' user, with mode 0600.
	WriteSecret func(path string, b []byte) error
}

// State is what is known of a service.
type State struct {
	Name     string
	Running  bool
	Healthy  bool
	Restarts int
	Since    time.Time
	LastExit string
}

// Supervisor keeps services running. Its methods may be called from many
// goroutines.
type Supervisor struct {
	host   Host
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	// Where they are the constants above but in tests.
	firstPause, longestPause, healthyAfter, readyWithin, killAfter time.Duration

	mu      sync.Mutex
	all     []*service
	changed chan struct{} // closed and replaced when any state changes
	runs    int           // processes started so far: their ids differ
}

// service is one of them. Its fields are guarded by the Supervisor's mutex.
type service struct {
	def      Definition
	log      *ring
	state    State
	running  bool // it has a goroutine that keeps it
	proc     *proc.Process
	starts   int
	failures int           // in a row, since it was healthy for long
	again    chan struct{} // ends the pause before a restart
	restart  bool          // it was ended in order to be started again
}

// New returns a Supervisor of the services in defs. None is started.
func New(defs []Definition, h Host) *Supervisor {
	s := &Supervisor{
		host: h, changed: make(chan struct{}),
		firstPause: firstPause, longestPause: longestPause, healthyAfter: healthyAfter, readyWithin: readyWithin, killAfter: killAfter,
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	for _, d := range defs {
		s.all = append(s.all, &service{
			def: d, log: &ring{}, again: make(chan struct{}, 1),
			state: State{Name: d.Name, Since: time.Now()},
		})
	}
	return s
}

// Close stops keeping the services. Their processes are the caller's to end.
func (s *Supervisor) Close() {
	s.cancel()
	s.wg.Wait()
}

// Definitions returns the services. They are not to be changed.
func (s *Supervisor) Definitions() []Definition {
	defs := make([]Definition, len(s.all))
	for i, v := range s.all {
		defs[i] = v.def
	}
	return defs
}

// WriteSecrets writes the secret of each service that has one, as of returns it.
func (s *Supervisor) WriteSecrets(of func(name string) string) error {
	for _, v := range s.all {
		if v.def.Secret == nil {
			continue
		}
		b, err := v.def.Secret.contents(of(v.def.Name))
		if err == nil {
			err = s.host.WriteSecret(v.def.Secret.Path, b)
		}
		if err != nil {
			return fmt.Errorf("write the secret of %s: %w", v.def.Name, err)
		}
	}
	return nil
}

// find returns a service by its name.
func (s *Supervisor) find(name string) (*service, error) {
	for _, v := range s.all {
		if v.def.Name == name {
			return v, nil
		}
	}
	return nil, glovebox.Errorf(glovebox.CodeNotFound, "the machine has no service %.80q", name)
}

// broadcast tells those who wait that something changed. s.mu is held.
func (s *Supervisor) broadcast() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// update changes a service's state and tells those who wait.
func (s *Supervisor) update(v *service, f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := v.state
	f()
	if v.state.Running != before.Running || v.state.Healthy != before.Healthy {
		v.state.Since = time.Now()
	}
	s.broadcast()
}

// await waits until ok is true, which is asked with s.mu held.
func (s *Supervisor) await(ctx context.Context, ok func() bool) error {
	for {
		s.mu.Lock()
		done, changed := ok(), s.changed
		s.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.ctx.Done():
			return glovebox.Errorf(glovebox.CodeUnavailable, "the guest is shutting down")
		}
	}
}

// States returns what is known of all services.
func (s *Supervisor) States() []State {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]State, len(s.all))
	for i, v := range s.all {
		list[i] = v.state
	}
	return list
}

// Start starts services, if they do not run, and what they come after, and
// waits until they are healthy or ctx ends. Without names: all that are not
// on demand.
func (s *Supervisor) Start(ctx context.Context, names ...string) error {
	wanted, err := s.wanted(names)
	if err != nil {
		return err
	}
	s.mu.Lock()
	for _, v := range wanted {
		s.keepLocked(v)
	}
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, 2*s.readyWithin)
	defer cancel()
	err = s.await(ctx, func() bool { return !slices.ContainsFunc(wanted, unhealthy) })
	if err == nil {
		return nil
	}
	return s.explain(wanted, err)
}

func unhealthy(v *service) bool { return !v.state.Healthy }

// explain says which services are not healthy, and why as far as is known.
func (s *Supervisor) explain(wanted []*service, cause error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var bad []string
	for _, v := range wanted {
		if v.state.Healthy {
			continue
		}
		text := v.def.Name
		if v.state.LastExit != "" {
			text += " (" + v.state.LastExit + ")"
		}
		bad = append(bad, text)
	}
	if errors.Is(cause, context.DeadlineExceeded) || errors.Is(cause, context.Canceled) {
		cause = errors.New("it took too long")
	}
	return glovebox.Errorf(glovebox.CodeUnavailable, "not healthy: %s: %w", strings.Join(bad, ", "), cause)
}

// wanted returns the services with these names and all that they come after,
// in the order of the list.
func (s *Supervisor) wanted(names []string) ([]*service, error) {
	want := map[string]bool{}
	for _, n := range names {
		if _, err := s.find(n); err != nil {
			return nil, err
		}
		want[n] = true
	}
	if len(names) == 0 {
		for _, v := range s.all {
			want[v.def.Name] = !v.def.OnDemand
		}
	}
	var list []*service
	for _, v := range slices.Backward(s.all) { // what a service comes after is listed before it
		if want[v.def.Name] {
			list = append(list, v)
			for _, a := range v.def.After {
				want[a] = true
			}
		}
	}
	slices.Reverse(list)
	return list, nil
}

// keepLocked starts the goroutine that keeps v, or hurries it if v pauses.
func (s *Supervisor) keepLocked(v *service) {
	if s.ctx.Err() != nil {
		return
	}
	if v.running {
		return
	}
	v.running = true
	s.wg.Go(func() { s.keep(v) })
}

// Restart ends a service and starts it again, at once, and waits until it is
// healthy or ctx ends. One that does not run is started.
func (s *Supervisor) Restart(ctx context.Context, name string) error {
	v, err := s.find(name)
	if err != nil {
		return err
	}
	s.mu.Lock()
	starts, p := v.starts, v.proc
	v.failures = 0
	v.restart = p != nil
	s.mu.Unlock()
	select {
	case v.again <- struct{}{}:
	default:
	}
	if p != nil {
		if err := s.end(ctx, p); err != nil {
			return err
		}
	}
	s.mu.Lock()
	s.keepLocked(v)
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, 2*s.readyWithin)
	defer cancel()
	if err := s.await(ctx, func() bool { return v.state.Healthy && v.starts > starts }); err != nil {
		return s.explain([]*service{v}, err)
	}
	return nil
}

// Log returns the end of what a service wrote, at most limit bytes of it.
func (s *Supervisor) Log(name string, limit int) ([]byte, error) {
	v, err := s.find(name)
	if err != nil {
		return nil, err
	}
	return v.log.tail(limit), nil
}
