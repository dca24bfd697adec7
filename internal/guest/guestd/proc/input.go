//go:build linux

package proc

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// inputQuiet is how long a process must have been still before it counts as
// waiting for input.
const inputQuiet = 500 * time.Millisecond

// waitsInput reports whether the process is blocked reading its standard
// input or terminal.
//
// Linux tells root the system call that a process is blocked in, so there it
// is a fact: some process of the family reads, polls or selects on the input.
// gVisor does not tell. There it is an inference, true only if all of this
// holds: the input is open and empty, every process of the family sleeps,
// nothing was written for half a second, and what was written last looks like
// a prompt (it does not end with a newline) or the terminal was switched out
// of its ordinary mode, as programs do that read keys or passwords. So in
// gVisor a silent reader (plain "cat") is not noticed, and a program that
// prints a part of a line and then sleeps is taken for one that waits.
func (p *Process) waitsInput() bool {
	fam, ok := p.still()
	if !ok {
		return false
	}
	known := false
	for _, s := range fam {
		reads, k := blockedOnInput(s.pid, p.cmd.TTY)
		if reads {
			return true
		}
		known = known || k
	}
	if known || !p.looksLikePrompt() {
		return false
	}
	// That nothing is known of a process may be because it has just ended.
	again, ok := p.still()
	return ok && slices.Equal(again, fam)
}

// still returns the family if it has been quiet for long enough: input open
// and empty, all asleep, no output.
func (p *Process) still() ([]stat, bool) {
	if !p.running() || p.cmd.NoStdin {
		return nil, false
	}
	if slices.ContainsFunc(p.sources, (*source).unread) {
		return nil, false
	}
	if _, last := p.out.written(); time.Since(last) < inputQuiet || !p.inputEmpty() {
		return nil, false
	}
	fam := family(p.pid, p.marker, os.Getpid())
	if len(fam) == 0 {
		return nil, false
	}
	for _, s := range fam {
		if s.state != 'S' {
			return nil, false
		}
	}
	return fam, true
}

// inputEmpty reports whether the input is open and all that was written to it
// has been read.
func (p *Process) inputEmpty() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.stdin
	if f == nil || p.writes > 0 {
		return false
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return false
	}
	n := 1
	_ = raw.Control(func(fd uintptr) {
		if p.cmd.TTY {
			n = 0 // the queue can't be seen from the master; a line in it wakes the reader
			return
		}
		n, err = unix.IoctlGetInt(int(fd), unix.TIOCINQ)
	})
	return err == nil && n == 0
}

// blockedOnInput reports whether a process is in a system call that waits for
// its input, and whether that can be known at all.
func blockedOnInput(pid int, tty bool) (reads, known bool) {
	proc := "/proc/" + strconv.Itoa(pid)
	b, err := os.ReadFile(proc + "/syscall")
	if err != nil || len(b) == 0 {
		return false, false
	}
	f := strings.Fields(string(b))
	if len(f) < 2 {
		return false, true // "running"
	}
	nr, err := strconv.Atoi(f[0])
	if err != nil {
		return false, true
	}
	arg, _ := strconv.ParseUint(strings.TrimPrefix(f[1], "0x"), 16, 64)
	switch nr {
	case unix.SYS_READ, unix.SYS_READV:
		return isInput(proc, arg, tty), true
	}
	if epollCalls[nr] {
		return watchesInput(proc, f[1], tty) && !hasSockets(proc) && !hasChildren(pid), true
	}
	if waitCalls[nr] {
		// It waits for several things at once. It is the input that it waits
		// for if it has it open at 0 and has nothing else that could wake it.
		return isInput(proc, 0, tty) && !hasSockets(proc) && !hasChildren(pid), true
	}
	return false, true
}

// watchesInput reports whether an epoll descriptor, in hexadecimal, waits for a
// standard input: a program such as the go command waits there for others.
func watchesInput(proc, epoll string, tty bool) bool {
	n, err := strconv.ParseUint(strings.TrimPrefix(epoll, "0x"), 16, 64)
	if err != nil {
		return false
	}
	info, err := os.ReadFile(proc + "/fdinfo/" + strconv.FormatUint(n, 10))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(info)) {
		f := strings.Fields(line)
		if len(f) < 2 || f[0] != "tfd:" {
			continue
		}
		if fd, err := strconv.ParseUint(f[1], 10, 64); err == nil && isInput(proc, fd, tty) {
			return true
		}
	}
	return false
}

// isInput reports whether descriptor fd of a process is a standard input.
func isInput(proc string, fd uint64, tty bool) bool {
	link, err := os.Readlink(proc + "/fd/" + strconv.FormatUint(fd, 10))
	if err != nil {
		return false
	}
	if tty {
		return strings.HasPrefix(link, "/dev/pts/") || strings.HasPrefix(link, "/dev/tty")
	}
	zero, err := os.Readlink(proc + "/fd/0")
	return err == nil && link == zero && strings.HasPrefix(link, "pipe:")
}

func hasSockets(proc string) bool {
	d, err := os.Open(proc + "/fd")
	if err != nil {
		return false
	}
	defer d.Close()
	names, _ := d.Readdirnames(256)
	for _, n := range names {
		if link, err := os.Readlink(proc + "/fd/" + n); err == nil && strings.HasPrefix(link, "socket:") {
			return true
		}
	}
	return false
}

func hasChildren(pid int) bool {
	lists, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/children") // of each thread, its own
	for _, l := range lists {
		if b, err := os.ReadFile(l); err == nil && len(strings.TrimSpace(string(b))) > 0 {
			return true
		}
	}
	return false
}

// looksLikePrompt reports whether the last output is an unfinished line, or
// the terminal was made to hand over single or hidden characters.
func (p *Process) looksLikePrompt() bool {
	if b := p.out.lastByte(); b != 0 && b != '\n' && b != '\r' {
		return true
	}
	if !p.cmd.TTY {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stdin == nil {
		return false
	}
	raw, err := p.stdin.SyscallConn()
	if err != nil {
		return false
	}
	odd := false
	_ = raw.Control(func(fd uintptr) {
		t, err := unix.IoctlGetTermios(int(fd), unix.TCGETS)
		odd = err == nil && t.Lflag&(unix.ICANON|unix.ECHO) != unix.ICANON|unix.ECHO
	})
	return odd
}
