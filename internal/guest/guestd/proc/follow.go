//go:build linux

package proc

import (
	"errors"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// source is a file that output of a process comes from.
type source struct {
	p      *Process
	f      *os.File
	raw    syscall.RawConn
	stderr bool

	mu sync.Mutex // held while something is read and added to the output
}

// readSize is how much is read at once.
const readSize = 32 << 10

// maxDrain is how much is read of a source whose writer does not pause.
const maxDrain = 1 << 20

// sourcesOf returns what is read of a process: its output, then its errors.
func (p *Process) sourcesOf(files []*os.File) ([]*source, error) {
	list := make([]*source, len(files))
	for i, f := range files {
		raw, err := f.SyscallConn()
		if err != nil {
			return nil, err
		}
		list[i] = &source{p: p, f: f, raw: raw, stderr: i == 1}
	}
	return list, nil
}

// take reads what there is, as far as there is room in buf, and adds it.
func (s *source) take(fd uintptr, buf []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		n, err := unix.Read(int(fd), buf)
		if err == unix.EINTR {
			continue
		}
		if n > 0 {
			s.p.out.append(s.stderr, buf[:n])
		}
		return n, err
	}
}

// read reads until the end, or until the file is closed, also while a writer
// does not pause.
func (s *source) read() {
	buf := make([]byte, readSize)
	for {
		var n int
		err := s.raw.Read(func(fd uintptr) bool {
			var err error
			n, err = s.take(fd, buf)
			return !errors.Is(err, unix.EAGAIN)
		})
		if err != nil || n <= 0 {
			break
		}
	}
	if !s.p.cmd.TTY { // the terminal is stdin too, and closed as such
		s.f.Close()
	}
}

// drain reads what lies there already, for a reader that has not got to it.
// It returns how much that was.
func (s *source) drain() (total int) {
	buf := make([]byte, readSize)
	_ = s.raw.Control(func(fd uintptr) {
		for total < maxDrain {
			n, _ := s.take(fd, buf)
			if n <= 0 {
				return
			}
			total += n
		}
	})
	return total
}

// unread reports whether something lies there that was not read yet.
func (s *source) unread() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := false
	_ = s.raw.Control(func(fd uintptr) {
		list := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(list, 0)
		found = err == nil && n > 0 && list[0].Revents&unix.POLLIN != 0
	})
	return found
}

// drain reads what lies in any source.
func (p *Process) drain() (total int) {
	for _, s := range p.sources {
		total += s.drain()
	}
	return total
}

// follow reads the output and waits for the end.
func (t *Table) follow(p *Process, ended <-chan exit) {
	var wg sync.WaitGroup
	drained := make(chan struct{})
	for _, s := range p.sources {
		wg.Go(s.read)
	}
	go func() { wg.Wait(); close(drained) }()

	e := <-ended
	p.mu.Lock()
	p.end, p.ended = e, time.Now()
	p.mu.Unlock()
	close(p.exited)
	p.awaitSilence(drained)
	p.out.end()
	p.closeStdin()
	close(p.done)
	t.settle(p)
}

// awaitSilence waits until all output was read, or none has come for a while.
// What was written by then is read, however late the readers are.
func (p *Process) awaitSilence(drained <-chan struct{}) {
	latest := time.NewTimer(endLatest)
	defer latest.Stop()
	exited := time.Now()
	for {
		_, last := p.out.written()
		if last.Before(exited) {
			last = exited
		}
		wait := endSilence - time.Since(last)
		if wait <= 0 {
			if p.drain() == 0 {
				return
			}
			continue
		}
		quiet := time.NewTimer(wait)
		select {
		case <-drained:
			quiet.Stop()
			return
		case <-latest.C:
			quiet.Stop()
			p.drain()
			return
		case <-quiet.C:
		}
	}
}
