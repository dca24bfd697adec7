package local

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox"
)

// Process names a process so that it is not confused with a later one that
// got the same number.
type Process struct {
	PID    int    `json:"pid"`
	Start  uint64 `json:"start"`   // clock ticks after boot
	BootID string `json:"boot_id"` // of the machine's run
}

// ProcessOf describes the process pid.
func ProcessOf(pid int) (Process, error) {
	start, _, err := procStat(pid)
	if err != nil {
		return Process{}, err
	}
	return Process{PID: pid, Start: start, BootID: BootID()}, nil
}

// Alive reports whether the process still runs.
func (p Process) Alive() bool {
	state, ok := p.state()
	return ok && state != 'Z' && state != 'X'
}

// AwaitEnd waits until the process has ended, and reports whether it has before
// the deadline. Ctx ends the wait too, within a tenth of a second.
func (p Process) AwaitEnd(ctx context.Context, deadline time.Time) bool {
	if !p.Alive() {
		return true
	}
	fd, err := unix.PidfdOpen(p.PID, 0)
	if err != nil {
		return !p.Alive()
	}
	defer unix.Close(fd)
	for p.Alive() && ctx.Err() == nil && time.Now().Before(deadline) {
		_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(min(100, time.Until(deadline).Milliseconds()+1)))
	}
	return !p.Alive()
}

// state returns the state of the process; ok is false if it is gone. That of
// a process whose first thread has ended is 'Z' while others still run.
func (p Process) state() (state byte, ok bool) {
	if p.PID <= 0 || p.BootID != BootID() {
		return 0, false
	}
	start, state, err := procStat(p.PID)
	return state, err == nil && start == p.Start
}

// Kill ends the process and all processes of its PID namespace, and waits
// until they are gone.
func (p Process) Kill(deadline time.Time) error {
	if _, ok := p.state(); !ok {
		return nil
	}
	fd, err := unix.PidfdOpen(p.PID, 0)
	if err == unix.ESRCH {
		return nil
	}
	if err != nil {
		return fmt.Errorf("pidfd_open %d: %w", p.PID, err)
	}
	defer unix.Close(fd)
	// Looked at after the descriptor was opened: it can't become another's.
	if _, ok := p.state(); !ok {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && err != unix.ESRCH {
		return fmt.Errorf("kill process %d: %w", p.PID, err)
	}
	return waitPidfd(fd, p.PID, deadline)
}

// waitPidfd waits until a process has ended. For the first process of a PID
// namespace that is when all others of it have, too.
func waitPidfd(fd, pid int, deadline time.Time) error {
	for {
		left := time.Until(deadline)
		if left <= 0 {
			return glovebox.Errorf(glovebox.CodeUnavailable, "process %d does not end: it is stuck in the kernel", pid)
		}
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(left.Milliseconds())+1)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return fmt.Errorf("wait for process %d: %w", pid, err)
		}
		if n > 0 {
			return nil
		}
	}
}

// procStat returns the start time and the state of a process.
func procStat(pid int) (start uint64, state byte, err error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, err
	}
	// The name, in parentheses, may itself hold anything.
	s := string(b)
	f := strings.Fields(s[strings.LastIndexByte(s, ')')+1:])
	if len(f) < 20 {
		return 0, 0, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(f))
	}
	if _, err := fmt.Sscan(f[19], &start); err != nil {
		return 0, 0, err
	}
	return start, f[0][0], nil
}

// BootID names this run of the machine.
func BootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
