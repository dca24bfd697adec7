//go:build linux

package proc

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"syscall"
	"testing"

	"github.com/glovebox-dev/glovebox/internal/leaktest"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "reap" {
		os.Exit(reapChild())
	}
	leaktest.Main(m)
}

// TestOutputModel compares output with all that was written.
func TestOutputModel(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		limit := int64(2 + rnd.IntN(200))
		o := newOutput(limit)
		var all []byte
		var streams []bool
		for range rnd.IntN(60) {
			p := make([]byte, rnd.IntN(30))
			for i := range p {
				p[i] = byte(rnd.IntN(256))
			}
			stderr := rnd.IntN(2) == 0
			if len(p) == 0 {
				continue
			}
			o.append(stderr, p)
			all = append(all, p...)
			for range p {
				streams = append(streams, stderr)
			}
		}
		o.end()
		if kept := o.kept(); kept > 4*limit+256 {
			t.Fatalf("%d bytes are kept for a limit of %d", kept, limit)
		}
		off := int64(rnd.IntN(len(all) + 1))
		got := int64(0)
		for buf := make([]byte, 1+rnd.IntN(20)); ; {
			c, at, more := o.next(off, buf)
			start := at - int64(len(c.Data))
			if start != off+c.Gap || !bytes.Equal(c.Data, all[start:at]) {
				t.Fatalf("at %d: gap %d, data to %d", off, c.Gap, at)
			}
			for i := start; i < at; i++ {
				if streams[i] != c.Stderr {
					t.Fatalf("byte %d is of the other stream", i)
				}
			}
			off, got = at, got+int64(len(c.Data))
			if more == nil {
				break
			}
		}
		if off != int64(len(all)) || got > limit {
			t.Fatalf("ended at %d of %d with %d bytes, limit %d", off, len(all), got, limit)
		}
	}
}

func TestParseStat(t *testing.T) {
	t.Parallel()
	s, ok := parseStat([]byte("42 (a) (b c) R 1 42 41 34816 43 4194304 1 2 3 4 5 6 7 8 20 0 1 0 9 10 11"))
	if want := (stat{pid: 42, ppid: 1, pgrp: 42, session: 41, tpgid: 43, state: 'R', cpu: 11 * clockTick}); !ok || s != want {
		t.Errorf("%+v, want %+v", s, want)
	}
	if s, ok := readStat(os.Getpid()); !ok || s.ppid != os.Getppid() {
		t.Errorf("%+v", s)
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("42 (a) R 1 42 41 34816 43 4194304 1 2 3 4 5 6 7 8"))
	f.Add([]byte(") ("))
	f.Fuzz(func(t *testing.T, b []byte) { parseStat(b) })
}

// TestReap runs the reaper in a process of its own, since it takes every
// child's end.
func TestReap(t *testing.T) {
	t.Parallel()
	p, err := os.StartProcess("/proc/self/exe", []string{os.Args[0], "reap"}, &os.ProcAttr{Files: []*os.File{nil, os.Stdout, os.Stderr}})
	if err != nil {
		t.Fatal(err)
	}
	if st, err := p.Wait(); err != nil || !st.Success() {
		t.Error(st, err)
	}
}

// reapChild starts many processes that end at once and leave orphans, and
// checks that each end arrives.
func reapChild() int {
	const prSetChildSubreaper = 36
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, prSetChildSubreaper, 1, 0); errno != 0 {
		fmt.Fprintln(os.Stderr, errno)
		return 1
	}
	table := NewTable(true)
	defer table.Close()
	var wg sync.WaitGroup
	var bad sync.Map
	for i := range 200 {
		wg.Go(func() {
			p, err := table.Start(Command{ID: fmt.Sprint("p", i), Args: []string{"/bin/sh", "-c", fmt.Sprintf("(true & true) & exit %d", i%100)}, Dir: "/", NoStdin: true})
			if err != nil {
				bad.Store(i, err)
				return
			}
			<-p.Done()
			if s := p.State(false); s.ExitCode != i%100 || s.Running {
				bad.Store(i, s)
			}
		})
	}
	wg.Wait()
	table.wg.Wait() // until each is noted
	code := 0
	bad.Range(func(k, v any) bool { fmt.Fprintln(os.Stderr, k, v); code = 1; return true })
	table.mu.Lock()
	defer table.mu.Unlock()
	if len(table.ended) != 200 || len(table.byID) != 200 {
		fmt.Fprintln(os.Stderr, len(table.ended), len(table.byID))
		code = 1
	}
	return code
}

// TestTableIsBounded checks what ended processes keep.
func TestTableIsBounded(t *testing.T) {
	t.Parallel()
	table := NewTable(false)
	defer table.Close()
	for i := range maxEnded + 50 {
		p := &Process{cmd: Command{ID: fmt.Sprint(i)}, out: newOutput(1 << 20), pid: 1, exited: closedChan, done: closedChan}
		p.out.append(false, make([]byte, 1<<19))
		table.mu.Lock()
		table.byID[p.cmd.ID] = p
		table.mu.Unlock()
		table.settle(p)
	}
	var kept int64
	for _, p := range table.ended {
		kept += p.out.kept()
	}
	if len(table.byID) != maxEnded || kept != table.kept || kept > maxKept+8<<20 {
		t.Errorf("%d processes keep %d bytes, counted as %d", len(table.byID), kept, table.kept)
	}
	if p, err := table.Get("60"); err != nil || p.out.kept() > 16<<10 {
		t.Errorf("an old one: %v", err)
	}
	table.mu.Lock()
	clear(table.byID)
	table.mu.Unlock()
}

// unreadProcess is a process of which nobody reads what lies in a pipe.
func unreadProcess(t *testing.T, text string) *Process {
	t.Helper()
	f := &files{}
	r, w, err := f.pipe(false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.close(false); r.Close() })
	if _, err := syscall.Write(w, []byte(text)); err != nil {
		t.Fatal(err)
	}
	p := &Process{out: newOutput(1 << 20)}
	if p.sources, err = p.sourcesOf([]*os.File{r}); err != nil {
		t.Fatal(err)
	}
	return p
}

// TestEndReadsAll: that a reader is late ends no output before it was read,
// also where something else holds it open.
func TestEndReadsAll(t *testing.T) {
	t.Parallel()
	text := string(bytes.Repeat([]byte("late "), 10_000))
	p := unreadProcess(t, text)
	if !p.sources[0].unread() {
		t.Error("what lies there is not seen")
	}
	p.awaitSilence(make(chan struct{}))
	c, _, _ := p.out.next(0, make([]byte, 1<<20))
	if string(c.Data) != text || p.sources[0].unread() {
		t.Errorf("%d of %d bytes were read", len(c.Data), len(text))
	}
}
