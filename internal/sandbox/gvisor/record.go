package gvisor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/sandbox"
)

// What is in a sandbox's directory.
const (
	recordFile  = "record.json" // a record
	causeFile   = "cause"       // written by a sentry that ends itself
	exitFile    = "exit"        // written by the creator, if it lives to see the end
	bootLogFile = "boot.log"    // what the sentry's process said on its standard error
	socketFile  = "control.sock"
)

// record is what is known of a sandbox across processes. It is written whole
// under a temporary name and renamed; it is not synced, since no sandbox
// survives the machine.
type record struct {
	ID        sandbox.ID        `json:"id"`
	CreatedAt time.Time         `json:"created_at"`
	Labels    map[string]string `json:"labels,omitempty"`
	Limits    glovebox.Limits   `json:"limits"`
	Image     string            `json:"image"`
	Enforced  map[string]string `json:"enforced,omitempty"`
	Process   process           `json:"process"`
	Cgroups   []string          `json:"cgroups,omitempty"` // directories to remove
	Started   bool              `json:"started"`           // Create has returned, or is about to
}

func writeRecord(dir string, r *record) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	tmp := filepath.Join(dir, recordFile+".tmp")
	if err := os.WriteFile(tmp, b, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, filepath.Join(dir, recordFile))
}

// readRecord returns nil without an error if there is no record, or none
// that can be read: what an interrupted Create left.
func readRecord(dir string) (*record, error) {
	b, err := os.ReadFile(filepath.Join(dir, recordFile))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r := new(record)
	if json.Unmarshal(b, r) != nil || r.ID != sandbox.ID(filepath.Base(dir)) {
		return nil, nil
	}
	return r, nil
}

// readNote returns the first bytes of a small file, or "".
func readNote(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	b := make([]byte, 512)
	n, _ := f.Read(b)
	return strings.TrimSpace(string(b[:n]))
}

// process names a process so that it is not confused with a later one that
// got the same number.
type process struct {
	PID    int    `json:"pid"`
	Start  uint64 `json:"start"`   // clock ticks after boot
	BootID string `json:"boot_id"` // of the machine's run
}

// processOf describes the process pid.
func processOf(pid int) (process, error) {
	start, _, err := procStat(pid)
	if err != nil {
		return process{}, err
	}
	return process{PID: pid, Start: start, BootID: bootID()}, nil
}

// alive reports whether the process still runs.
func (p process) alive() bool {
	state, ok := p.state()
	return ok && state != 'Z' && state != 'X'
}

// state returns the state of the process; ok is false if it is gone. That of
// a process whose first thread has ended is 'Z' while others still run.
func (p process) state() (state byte, ok bool) {
	if p.PID <= 0 || p.BootID != bootID() {
		return 0, false
	}
	start, state, err := procStat(p.PID)
	return state, err == nil && start == p.Start
}

// kill ends the process and all processes of its PID namespace, and waits
// until they are gone.
func (p process) kill(deadline time.Time) error {
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

// bootID names this run of the machine.
func bootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
