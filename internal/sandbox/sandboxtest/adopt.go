package sandboxtest

import (
	"maps"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/sandbox"
)

func (e *env) adopter() sandbox.Adopter {
	e.Helper()
	a, ok := e.d.(sandbox.Adopter)
	if !ok {
		e.Skip("this driver's sandboxes can't be adopted")
	}
	return a
}

// A sandbox gets another id, other labels, and nothing of the former stays.
func testAdopt(e *env) {
	a := e.adopter()
	from := e.create(sandbox.Spec{Labels: map[string]string{"pool": "1"}})
	open := e.dial(from)
	to, labels := e.id(), map[string]string{"job": "j"}
	if err := a.Adopt(e.ctx, from, sandbox.Spec{ID: to, Labels: labels}); err != nil {
		e.Fatal(err)
	}
	e.wantEcho(open)
	e.wantEcho(e.dial(to))
	_, err := e.d.Dial(e.ctx, from)
	e.wantCode(err, glovebox.CodeNotFound)
	if i, ok := e.info(to); !ok || i.State != sandbox.Running || !maps.Equal(i.Labels, labels) {
		e.Errorf("it is listed as %+v", i)
	}
	if _, ok := e.info(from); ok {
		e.Error("the former id is listed, too")
	}
	// A second driver sees the same, and the first may adopt it again.
	other := e.open()
	if conn, err := other.Dial(e.ctx, to); err != nil {
		e.Error(err)
	} else {
		e.wantEcho(conn)
		conn.Close()
	}
	third := e.id()
	if err := other.(sandbox.Adopter).Adopt(e.ctx, to, sandbox.Spec{ID: third}); err != nil {
		e.Fatal(err)
	}
	e.wantEcho(e.dial(third))
	// What it leaves when it ends is told under its new name.
	_, _ = ask(e.dial(third), question{Op: "exit", N: 3})
	if i := e.awaitEnded(third); i.Cause == "" {
		e.Error("it ended without a cause")
	}
}

// What can't be adopted is refused, and nothing has changed.
func testAdoptBad(e *env) {
	a := e.adopter()
	e.wantCode(a.Adopt(e.ctx, e.id(), sandbox.Spec{ID: e.id()}), glovebox.CodeNotFound)
	one, two := e.create(sandbox.Spec{Labels: map[string]string{"n": "1"}}), e.create(sandbox.Spec{Labels: map[string]string{"n": "2"}})
	e.wantCode(a.Adopt(e.ctx, one, sandbox.Spec{ID: two}), glovebox.CodeConflict)
	e.wantCode(a.Adopt(e.ctx, one, sandbox.Spec{ID: "../x"}), glovebox.CodeInvalid)
	e.wantCode(a.Adopt(e.ctx, one, sandbox.Spec{ID: e.id(), Limits: glovebox.Limits{MemoryBytes: -1}}), glovebox.CodeInvalid)
	for n, id := range map[string]sandbox.ID{"1": one, "2": two} {
		e.wantEcho(e.dial(id))
		if i, ok := e.info(id); !ok || i.Labels["n"] != n {
			e.Errorf("it is listed as %+v", i)
		}
	}
}

// An adopted sandbox has its new limits, or none was changed.
func testAdoptLimits(e *env) {
	a := e.adopter()
	before := glovebox.Limits{MemoryBytes: 2 << 30, CPUMillis: 2000, Processes: 512, DiskBytes: 1 << 30}
	after := before
	after.MemoryBytes, after.CPUMillis = 256<<20, 1000
	from, to := e.create(sandbox.Spec{Limits: before}), e.id()
	err := a.Adopt(e.ctx, from, sandbox.Spec{ID: to, Limits: after})
	switch {
	case glovebox.CodeOf(err) == glovebox.CodeConflict:
		e.Logf("limits of memory and processor time can't be changed here: %v", err)
		e.wantEcho(e.dial(from))
	case err != nil:
		e.Fatal(err)
	default:
		r, err := ask(e.dial(to), question{Op: "allocate", Bytes: 1 << 30})
		if err == nil && r.Error == "" {
			e.Errorf("%d bytes could be used", r.N)
		}
		if i := e.awaitEnded(to); !strings.Contains(i.Cause, "memory") || !strings.Contains(i.Cause, "256") {
			e.Errorf("it ended, cause %q", i.Cause)
		}
	}
	// Raised, too: beyond what it was made with.
	from, to = e.create(sandbox.Spec{Limits: after}), e.id()
	if err := a.Adopt(e.ctx, from, sandbox.Spec{ID: to, Limits: before}); glovebox.CodeOf(err) == glovebox.CodeConflict {
		return
	} else if err != nil {
		e.Fatal(err)
	}
	if r := e.ask(e.dial(to), question{Op: "allocate", Bytes: 400 << 20}); r.N < 400<<20 {
		e.Errorf("only %d bytes could be used", r.N)
	}
	less := before
	less.DiskBytes /= 2
	if err := a.Adopt(e.ctx, to, sandbox.Spec{ID: e.id(), Limits: less}); err != nil {
		e.wantCode(err, glovebox.CodeConflict)
		e.wantEcho(e.dial(to))
	}
}

// Whenever a process that adopts is killed, the sandbox is there under one id.
func testAdoptKilled(e *env) {
	a := e.adopter()
	start := time.Now()
	if err := a.Adopt(e.ctx, e.create(sandbox.Spec{}), sandbox.Spec{ID: e.id()}); err != nil {
		e.Fatal(err)
	}
	took := time.Since(start)
	const moments = 8
	for i := range moments {
		from, to := e.create(sandbox.Spec{Labels: map[string]string{"by": "parent"}}), e.id()
		e.killed(task{Do: "adopt", ID: from, To: to}, took*time.Duration(i)/(moments/2))
		was, ok1 := e.info(from)
		is, ok2 := e.info(to)
		switch {
		case ok1 == ok2:
			e.Errorf("listed under both ids %v or none", ok1)
		case ok1 && was.Labels["by"] != "parent", ok2 && is.Labels["by"] != "child":
			e.Errorf("its labels are %v, %v", was.Labels, is.Labels)
		case ok1:
			e.wantEcho(e.dial(from))
		default:
			e.wantEcho(e.dial(to))
		}
		for _, id := range []sandbox.ID{from, to} {
			if err := e.d.Destroy(e.ctx, id); err != nil {
				e.Fatal(err)
			}
		}
		if leaks := findLeaks(e.dir, []sandbox.ID{from, to}); len(leaks) != 0 {
			e.Fatalf("left behind: %v", leaks)
		}
	}
}

// A paused sandbox stands still and goes on when it is dialled.
func testPause(e *env) {
	p, ok := e.d.(sandbox.Pauser)
	if !ok {
		e.Skip("this driver's sandboxes can't be paused")
	}
	e.wantCode(p.Pause(e.ctx, e.id()), glovebox.CodeNotFound)
	id := e.create(sandbox.Spec{})
	c := e.dial(id)
	e.ask(c, question{Op: "tick", Path: "/var/ticks"})
	c.Close()
	for range 2 { // a paused one: no error
		if err := p.Pause(e.ctx, id); err != nil {
			e.Fatal(err)
		}
	}
	e.awaitState(id, sandbox.Paused)
	// Another driver, as after a restart, knows and thaws it.
	conn, err := e.open().Dial(e.ctx, id)
	if err != nil {
		e.Fatal(err)
	}
	e.wantEcho(conn)
	conn.Close()
	e.awaitState(id, sandbox.Running)
	c = e.dial(id)
	ticks := func() int { return len(e.ask(c, question{Op: "read", Path: "/var/ticks"}).Text) }
	for before, end := ticks(), time.Now().Add(patience); ticks() == before; {
		if time.Now().After(end) {
			e.Fatal("its processes do not go on")
		}
	}
	c.Close()
	if err := p.Pause(e.ctx, id); err != nil { // and one that is paused is destroyed
		e.Fatal(err)
	}
}

// A sandbox that is being paused or thawed when the process dies goes on.
func testPauseKilled(e *env) {
	p, ok := e.d.(sandbox.Pauser)
	if !ok {
		e.Skip("this driver's sandboxes can't be paused")
	}
	id := e.create(sandbox.Spec{})
	start := time.Now()
	if err := p.Pause(e.ctx, id); err != nil {
		e.Fatal(err)
	}
	took := time.Since(start)
	const moments = 6
	for i := range moments {
		e.wantEcho(e.dial(id))
		e.killed(task{Do: "pause", ID: id}, took*time.Duration(i)/moments)
		e.wantEcho(e.dial(id))
	}
}
