package sandboxtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/sandbox"
)

// Exercise runs the suite.
func (s Suite) Exercise(t *testing.T) {
	for _, c := range []struct {
		name string
		f    func(*env)
	}{
		{"Life", testLife},
		{"Streams", testStreams},
		{"Bulk", testBulk},
		{"Unknown", testUnknown},
		{"Duplicate", testDuplicate},
		{"BadSpec", testBadSpec},
		{"Cancel", testCancel},
		{"Many", testMany},
		{"Death", testDeath},
		{"SecondDriver", testSecondDriver},
		{"SecondProcess", testSecondProcess},
		{"CreatorKilled", testCreatorKilled},
		{"CreatorKilledEarly", testCreatorKilledEarly},
		{"LimitMemory", testLimitMemory},
		{"LimitDisk", testLimitDisk},
		{"LimitProcesses", testLimitProcesses},
		{"LimitCPU", testLimitCPU},
		{"Network", testNetwork},
		{"HostHidden", testHostHidden},
		{"Snapshot", testSnapshot},
		{"SnapshotRandom", testSnapshotRandom},
		{"SnapshotBurst", testSnapshotBurst},
		{"SnapshotDamage", testSnapshotDamage},
		{"SnapshotBad", testSnapshotBad},
		{"SnapshotKilled", testSnapshotKilled},
		{"RestoreKilled", testRestoreKilled},
		{"Adopt", testAdopt},
		{"AdoptBad", testAdoptBad},
		{"AdoptLimits", testAdoptLimits},
		{"AdoptKilled", testAdoptKilled},
		{"Pause", testPause},
		{"PauseKilled", testPauseKilled},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.f(s.start(t))
		})
	}
}

// A sandbox is made, dialled, listed and destroyed.
func testLife(e *env) {
	labels := map[string]string{"job": "j1", "empty": ""}
	before := time.Now().Add(-time.Second)
	id := e.create(sandbox.Spec{Labels: labels})
	e.wantEcho(e.dial(id))

	i, ok := e.info(id)
	switch {
	case !ok:
		e.Fatal("it is not listed")
	case i.State != sandbox.Running || i.Cause != "":
		e.Fatalf("it is listed as %s, cause %q", i.State, i.Cause)
	case !maps.Equal(i.Labels, labels):
		e.Fatalf("its labels are %v", i.Labels)
	case i.CreatedAt.Before(before) || i.CreatedAt.After(time.Now().Add(time.Second)):
		e.Fatalf("it was created at %v", i.CreatedAt)
	}
	for range 2 {
		if err := e.d.Destroy(e.ctx, id); err != nil {
			e.Fatalf("destroy: %v", err)
		}
		if _, ok := e.info(id); ok {
			e.Fatal("it is listed after Destroy")
		}
		_, err := e.d.Dial(e.ctx, id)
		e.wantCode(err, glovebox.CodeNotFound)
	}
}

// A guest serves many streams, one after another and at once, and the end of
// one does not touch the others.
func testStreams(e *env) {
	id := e.create(sandbox.Spec{})
	first := e.dial(id)
	e.wantEcho(first)
	for range 3 {
		c := e.dial(id)
		e.wantEcho(c)
		c.Close()
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			c, err := e.d.Dial(e.ctx, id)
			if err != nil {
				e.Errorf("dial: %v", err)
				return
			}
			defer c.Close()
			for range 5 {
				if r, err := ask(c, question{Op: "echo", Path: "x"}); err != nil || r.Text != "x" {
					e.Errorf("echo: %+v, %v", r, err)
				}
			}
		})
	}
	wg.Wait()
	e.wantEcho(first)
	first.Close()
	e.wantEcho(e.dial(id))
}

// A stream carries much data both ways at once, unchanged.
func testBulk(e *env) {
	const size = 16 << 20
	c := e.dial(e.create(sandbox.Spec{}))
	e.ask(c, question{Op: "raw"})
	data := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(data) // never fails
	c.SetDeadline(time.Now().Add(patience))
	sent := make(chan error, 1)
	go func() {
		_, err := io.Copy(c, bytes.NewReader(data))
		sent <- err
	}()
	h := sha256.New()
	n, err := io.CopyN(h, c, size)
	if err := errors.Join(err, <-sent); err != nil {
		e.Fatalf("after %d bytes: %v", n, err)
	}
	if want := sha256.Sum256(data); !bytes.Equal(h.Sum(nil), want[:]) {
		e.Fatal("what came back differs from what was sent")
	}
}

// What is not there is not found, and destroying it is no error.
func testUnknown(e *env) {
	for _, id := range []sandbox.ID{sandbox.ID(glovebox.NewID()), "", "..", "../../etc", "x\x00", sandbox.ID(strings.Repeat("a", 5000))} {
		_, err := e.d.Dial(e.ctx, id)
		e.wantCode(err, glovebox.CodeNotFound)
		if err := e.d.Destroy(e.ctx, id); err != nil {
			e.Errorf("destroy %.20q: %v", id, err)
		}
	}
	infos, err := e.d.List(e.ctx)
	if err != nil || len(infos) != 0 {
		e.Fatalf("a fresh driver lists %v, %v", infos, err)
	}
}

// A second sandbox with the same id is refused and does not touch the first.
func testDuplicate(e *env) {
	id := e.create(sandbox.Spec{Labels: map[string]string{"which": "first"}})
	c := e.dial(id)
	e.wantCode(e.d.Create(e.ctx, sandbox.Spec{ID: id}), glovebox.CodeConflict)
	e.wantEcho(c)
	e.wantEcho(e.dial(id))
	if i, _ := e.info(id); i.Labels["which"] != "first" {
		e.Fatalf("its labels are %v", i.Labels)
	}

	// Of many at once, one wins.
	id = e.id()
	var mu sync.Mutex
	codes := make(map[glovebox.Code]int)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			err := e.d.Create(e.ctx, sandbox.Spec{ID: id})
			mu.Lock()
			defer mu.Unlock()
			codes[glovebox.CodeOf(err)]++
		})
	}
	wg.Wait()
	if codes[""] != 1 || codes[glovebox.CodeConflict] != 3 {
		e.Fatalf("of four with one id: %v", codes)
	}
	e.wantEcho(e.dial(id))
}

// What can't be made is refused, with what to do, and leaves nothing.
func testBadSpec(e *env) {
	many := make(map[string]string)
	for range 17 {
		many[glovebox.NewID()] = ""
	}
	for name, s := range map[string]sandbox.Spec{
		"id":          {ID: "../x"},
		"empty id":    {ID: ""},
		"many labels": {ID: e.id(), Labels: many},
		"long label":  {ID: e.id(), Labels: map[string]string{"a": strings.Repeat("x", 257)}},
		"limit":       {ID: e.id(), Limits: glovebox.Limits{MemoryBytes: -1}},
	} {
		if err := e.d.Create(e.ctx, s); glovebox.CodeOf(err) != glovebox.CodeInvalid {
			e.Errorf("%s: %v", name, err)
		}
	}
	if e.suite.BadImage != "" {
		err := e.d.Create(e.ctx, sandbox.Spec{ID: e.id(), Image: e.suite.BadImage})
		e.wantCode(err, glovebox.CodeUnavailable)
		if ge, ok := errors.AsType[*glovebox.Error](err); !ok || ge.Hint == "" {
			e.Errorf("a missing image: %v, which has no hint", err)
		}
	}
	if infos, err := e.d.List(e.ctx); err != nil || len(infos) != 0 {
		e.Fatalf("then the driver lists %+v, %v", infos, err)
	}
}

// A Create that is cancelled, at whatever moment, leaves nothing, and its id
// can be used again. One that succeeded in spite of it has made a sandbox.
func testCancel(e *env) {
	start := time.Now()
	whole := e.create(sandbox.Spec{})
	took := time.Since(start)
	if err := e.d.Destroy(e.ctx, whole); err != nil {
		e.Fatal(err)
	}
	const moments = 12
	for i := range moments {
		id := e.id()
		ctx, cancel := context.WithTimeout(e.ctx, took*time.Duration(i)/(moments-2))
		err := e.d.Create(ctx, sandbox.Spec{ID: id})
		cancel()
		_, listed := e.info(id)
		if err == nil != listed {
			e.Fatalf("cancelled after %d/%d: error %v, listed %v", i, moments, err, listed)
		}
		if err == nil {
			continue
		}
		if leaks := findLeaks(e.dir, []sandbox.ID{id}); len(leaks) != 0 {
			e.Fatalf("cancelled after %d/%d: left behind: %v", i, moments, leaks)
		}
		if i == moments/2 {
			e.wantEcho(e.dial(e.create(sandbox.Spec{ID: id})))
		}
	}
}

// Sandboxes are made, used and destroyed at once, and are each their own.
func testMany(e *env) {
	const n = 8
	ids := make([]sandbox.ID, n)
	for i := range ids {
		ids[i] = e.id()
	}
	var wg sync.WaitGroup
	for _, id := range ids {
		wg.Go(func() {
			if err := e.d.Create(e.ctx, sandbox.Spec{ID: id}); err != nil {
				e.Errorf("create: %v", err)
				return
			}
			c, err := e.d.Dial(e.ctx, id)
			if err != nil {
				e.Errorf("dial: %v", err)
				return
			}
			defer c.Close()
			if r, err := ask(c, question{Op: "echo", Path: string(id)}); err != nil || r.Text != string(id) {
				e.Errorf("echo: %+v, %v", r, err)
			}
		})
	}
	wg.Wait()
	infos, err := e.d.List(e.ctx)
	if err != nil {
		e.Fatal(err)
	}
	listed := make([]sandbox.ID, 0, n)
	for _, i := range infos {
		listed = append(listed, i.ID)
	}
	slices.Sort(ids)
	if !slices.Equal(listed, ids) { // sorted by id
		e.Fatalf("the driver lists %v, want %v", listed, ids)
	}
	for _, id := range ids {
		for range 2 { // two at once for one sandbox, too
			wg.Go(func() {
				if err := e.d.Destroy(e.ctx, id); err != nil {
					e.Errorf("destroy: %v", err)
				}
			})
		}
	}
	wg.Wait()
}

// A sandbox whose guest ends is listed as ended, with a cause, until it is
// destroyed.
func testDeath(e *env) {
	id := e.create(sandbox.Spec{Labels: map[string]string{"a": "b"}})
	c := e.dial(id)
	if _, err := ask(c, question{Op: "exit", N: 3}); err == nil {
		e.Fatal("it answers after its end")
	}
	i := e.awaitEnded(id)
	if i.Cause == "" || i.Labels["a"] != "b" {
		e.Fatalf("it is listed as %+v", i)
	}
	e.Logf("cause: %s", i.Cause)
	_, err := e.d.Dial(e.ctx, id)
	e.wantCode(err, glovebox.CodeNotFound)
	e.wantCode(e.d.Create(e.ctx, sandbox.Spec{ID: id}), glovebox.CodeConflict)
	if err := e.d.Destroy(e.ctx, id); err != nil {
		e.Fatal(err)
	}
}

// A second driver in the same process finds, dials and destroys.
func testSecondDriver(e *env) {
	id := e.create(sandbox.Spec{})
	c := e.dial(id)
	d := e.open()
	infos, err := d.List(e.ctx)
	if err != nil || len(infos) != 1 || infos[0].ID != id || infos[0].State != sandbox.Running {
		e.Fatalf("it lists %+v, %v", infos, err)
	}
	c2, err := d.Dial(e.ctx, id)
	if err != nil {
		e.Fatal(err)
	}
	defer c2.Close()
	e.wantEcho(c2)
	e.wantEcho(c)
	if err := d.Destroy(e.ctx, id); err != nil {
		e.Fatal(err)
	}
	if _, err := ask(c, question{Op: "echo"}); err == nil {
		e.Fatal("it answers after Destroy")
	}
}

// A second process finds and dials.
func testSecondProcess(e *env) {
	id := e.create(sandbox.Spec{})
	c := e.dial(id)
	if err := e.second(task{Do: "find", ID: id}).await("done"); err != nil {
		e.Fatal(err)
	}
	e.wantEcho(c)
}

// A sandbox outlives the process that made it, also after kill -9.
func testCreatorKilled(e *env) {
	id := e.id()
	p := e.second(task{Do: "create", ID: id})
	if err := errors.Join(p.await("creating"), p.await("done")); err != nil {
		e.Fatal(err)
	}
	p.kill()
	i, ok := e.info(id)
	if !ok || i.State != sandbox.Running || i.Labels["by"] != "child" {
		e.Fatalf("it is listed as %+v, %v", i, ok)
	}
	c := e.dial(id)
	e.wantEcho(c)
	e.wantEcho(e.dial(id))
	if _, err := ask(c, question{Op: "exit"}); err == nil {
		e.Fatal("it answers after its end")
	}
	if i := e.awaitEnded(id); i.Cause == "" {
		e.Fatal("it ended without a cause")
	}
}

// What a creator that is killed in the middle of Create leaves is found, and
// destroyed without a trace.
func testCreatorKilledEarly(e *env) {
	whole := e.id()
	p := e.second(task{Do: "create", ID: whole})
	if err := p.await("creating"); err != nil {
		e.Fatal(err)
	}
	start := time.Now()
	if err := p.await("done"); err != nil {
		e.Fatal(err)
	}
	took := time.Since(start)
	p.kill()
	const moments = 10
	for i := range moments {
		id := e.id()
		p := e.second(task{Do: "create", ID: id})
		if err := p.await("creating"); err != nil {
			e.Fatal(err)
		}
		select { // the moment is the test's parameter
		case <-time.After(took * time.Duration(i) / moments):
		case <-e.ctx.Done():
		}
		p.kill()
		info, ok := e.info(id)
		e.Logf("killed after %d/%d: listed %v, %s %s", i, moments, ok, info.State, info.Cause)
		if ok && info.State == sandbox.Ended && info.Cause == "" {
			e.Error("it is listed as ended without a cause")
		}
		if err := e.d.Destroy(e.ctx, id); err != nil {
			e.Fatal(err)
		}
		if leaks := findLeaks(e.dir, []sandbox.ID{id}); len(leaks) != 0 {
			e.Fatalf("left behind: %v", leaks)
		}
	}
}
