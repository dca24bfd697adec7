//go:build linux

package proc

import (
	"errors"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// exit is how a child ended.
type exit struct {
	status syscall.WaitStatus
	usage  syscall.Rusage
}

// spawner starts children and says how they ended. In the first process of a
// sandbox every orphan becomes our child, so there one loop waits for all of
// them and hands out what it gets; nothing else in the process may wait for
// children then (os/exec does). Elsewhere each child is waited for by itself.
type spawner struct {
	all bool // wait for every child

	mu       sync.Mutex
	waiting  map[int]chan<- exit
	starting int          // forks whose pid is not in waiting yet
	early    map[int]exit // children that ended while starting > 0
	started  chan struct{}
	stop     chan struct{}
}

func newSpawner(all bool) *spawner {
	s := &spawner{all: all, waiting: map[int]chan<- exit{}, early: map[int]exit{}, started: make(chan struct{}, 1), stop: make(chan struct{})}
	if all {
		sigs := make(chan os.Signal, 1)
		signal.Notify(sigs, syscall.SIGCHLD)
		go s.reap(sigs)
	}
	return s
}

func (s *spawner) close() { close(s.stop) }

// spawn starts a child. Its end is sent to the channel, once.
func (s *spawner) spawn(path string, argv []string, attr *syscall.ProcAttr) (int, <-chan exit, error) {
	ended := make(chan exit, 1)
	s.mu.Lock()
	s.starting++
	s.mu.Unlock()
	pid, err := syscall.ForkExec(path, argv, attr)
	s.mu.Lock()
	s.starting--
	if err == nil && s.all {
		if e, ok := s.early[pid]; ok {
			ended <- e
		} else {
			s.waiting[pid] = ended
		}
	}
	if s.starting == 0 {
		clear(s.early)
	}
	s.mu.Unlock()
	if err != nil {
		return 0, nil, err
	}
	if !s.all {
		go func() { ended <- waitOne(pid) }()
		return pid, ended, nil
	}
	select {
	case s.started <- struct{}{}:
	default:
	}
	return pid, ended, nil
}

func waitOne(pid int) exit {
	var e exit
	for {
		_, err := syscall.Wait4(pid, &e.status, 0, &e.usage)
		if !errors.Is(err, syscall.EINTR) {
			return e
		}
	}
}

// reap waits for every child. While there is none it waits for a signal or a
// start.
func (s *spawner) reap(sigs chan os.Signal) {
	defer signal.Stop(sigs)
	for {
		var e exit
		pid, err := syscall.Wait4(-1, &e.status, 0, &e.usage)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			select {
			case <-s.stop:
				return
			case <-sigs:
			case <-s.started:
			}
		default:
			s.deliver(pid, e)
		}
	}
}

func (s *spawner) deliver(pid int, e exit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ch, ok := s.waiting[pid]; ok {
		delete(s.waiting, pid)
		ch <- e
		return
	}
	if s.starting > 0 {
		s.early[pid] = e
	}
}
