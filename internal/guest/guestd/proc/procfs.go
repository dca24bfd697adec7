//go:build linux

package proc

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"time"
)

// clockTick is the unit of times in /proc: USER_HZ is 100 on every Linux that
// Go runs on, and in gVisor.
const clockTick = 10 * time.Millisecond

// stat is a line of /proc/PID/stat.
type stat struct {
	pid, ppid, pgrp, session, tpgid int
	state                           byte
	cpu                             time.Duration // without that of its children
}

// readStat reads one process; ok is false if it is gone.
func readStat(pid int) (s stat, ok bool) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return stat{}, false
	}
	return parseStat(b)
}

// parseStat parses a line of /proc/PID/stat. The name of the process, in
// parentheses, may itself contain parentheses and spaces.
func parseStat(b []byte) (s stat, ok bool) {
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 1 || end < open {
		return stat{}, false
	}
	pid, err := strconv.Atoi(string(bytes.TrimSpace(b[:open])))
	f := strings.Fields(string(b[end+1:]))
	if err != nil || len(f) < 13 || len(f[0]) != 1 {
		return stat{}, false
	}
	n := func(i int) int { v, _ := strconv.Atoi(f[i]); return v }
	return stat{
		pid: pid, state: f[0][0], ppid: n(1), pgrp: n(2), session: n(3), tpgid: n(5),
		cpu: time.Duration(n(11)+n(12)) * clockTick,
	}, true
}

// allStats reads every process.
func allStats() []stat {
	d, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1)
	all := make([]stat, 0, len(names))
	for _, n := range names {
		if n[0] < '1' || n[0] > '9' {
			continue
		}
		pid, err := strconv.Atoi(n)
		if err != nil {
			continue
		}
		if s, ok := readStat(pid); ok {
			all = append(all, s)
		}
	}
	return all
}

// family returns what belongs to the process with the given pid and marker:
// itself, its descendants, everything in its session, and what was started
// from any of them and left, known by the marker in its environment. self is
// never in it. Zombies are left out.
func family(pid int, marker string, self int) []stat {
	until := time.Now().Add(execWait)
	all := allStats()
	in := map[int]bool{pid: true}
	want := []byte(marker)
	for _, s := range all {
		if s.session == pid || s.pgrp == pid {
			in[s.pid] = true
		}
	}
	for grown := true; grown; {
		grown = false
		for _, s := range all {
			if !in[s.pid] && in[s.ppid] && s.ppid > 1 && s.ppid != self {
				in[s.pid], grown = true, true
			}
		}
	}
	var out []stat
	for _, s := range all {
		if s.pid == self || s.pid == 1 || s.state == 'Z' || s.state == 'X' {
			continue
		}
		if in[s.pid] || (s.ppid <= 1 || s.ppid == self) && hasMarker(s.pid, want, until) {
			out = append(out, s)
		}
	}
	return out
}

// execWait is how long one look at all processes waits for those that start
// another program at this moment, and have no environment meanwhile.
const execWait = 2 * time.Second

// hasMarker reports whether a process was started with the marker in its
// environment. One that starts another program is waited for, until a time.
func hasMarker(pid int, marker []byte, until time.Time) bool {
	dir := "/proc/" + strconv.Itoa(pid)
	for again := true; ; {
		env, err := os.ReadFile(dir + "/environ")
		if err != nil {
			return false
		}
		if len(env) > 0 {
			i := bytes.Index(env, marker)
			return i >= 0 && (i == 0 || env[i-1] == 0) && (i+len(marker) == len(env) || env[i+len(marker)] == 0)
		}
		if !again || time.Now().After(until) {
			return false
		}
		again = startsAnother(dir)   // if it has just done so, one more look is enough
		time.Sleep(time.Millisecond) //nolint:forbidigo // nothing tells when it has one
	}
}

// startsAnother reports whether a process is starting another program: then it
// has no arguments, but, other than a thread of the kernel, a program.
func startsAnother(dir string) bool {
	args, err := os.ReadFile(dir + "/cmdline")
	if err != nil || len(args) > 0 {
		return false
	}
	_, err = os.Readlink(dir + "/exe")
	return err == nil
}

// peakRSS returns the most memory that a running process has held.
func peakRSS(pid int) int64 {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return 0
	}
	var rss int64
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			return kib(v)
		}
		if v, ok := strings.CutPrefix(line, "VmRSS:"); ok { // all that gVisor has
			rss = kib(v)
		}
	}
	return rss
}

func kib(v string) int64 {
	n, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(v), "kB")), 10, 64)
	return n << 10
}
