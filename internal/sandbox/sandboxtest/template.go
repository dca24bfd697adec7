package sandboxtest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/sandbox"
)

// restorePatience is how long a template that can't be used may hold up: what
// reading it whole takes where much else runs, and not until a Create gives up.
const restorePatience = 40 * time.Second

func init() {
	ops["random"] = func(question) (reply, error) {
		b := make([]byte, 16)
		_, err := rand.Read(b) // getrandom
		return reply{Text: hex.EncodeToString(b)}, err
	}
}

// snapshotter returns the driver as one that makes templates, and skips the
// test if it does not.
func (e *env) snapshotter() sandbox.Snapshotter {
	e.Helper()
	s, ok := e.d.(sandbox.Snapshotter)
	if !ok {
		e.Skip("this driver makes no templates")
	}
	return s
}

// frozen makes a template of a sandbox in which a process runs and a file
// lies, and returns its directory and the process's number.
func (e *env) frozen(l glovebox.Limits) (dir, pid string) {
	e.Helper()
	s := e.snapshotter()
	id := e.create(sandbox.Spec{Limits: l})
	c := e.dial(id)
	r := e.ask(c, question{Op: "exec", Args: []string{"/bin/sh", "-c", "echo kept > /var/kept; sleep 1000 >/dev/null 2>&1 & echo $!"}})
	c.Close()
	dir = filepath.Join(e.dir, "templates", "t1")
	if err := s.Snapshot(e.ctx, id, dir); err != nil {
		e.Fatalf("snapshot: %v", err)
	}
	if i, ok := e.info(id); ok {
		e.Fatalf("after Snapshot the sandbox is listed: %+v", i)
	}
	return dir, strings.TrimSpace(r.Text)
}

// wantKept checks that a sandbox goes on from the template of frozen.
func (e *env) wantKept(id sandbox.ID, pid string) {
	e.Helper()
	c := e.dial(id)
	defer c.Close()
	if r := e.ask(c, question{Op: "read", Path: "/var/kept"}); r.Text != "kept\n" {
		e.Errorf("the file holds %q", r.Text)
	}
	e.ask(c, question{Op: "exec", Args: []string{"/bin/sh", "-c", "kill -0 " + pid}})
}

// Machines go on from a template with its files and processes, each by itself.
func testSnapshot(e *env) {
	dir, pid := e.frozen(glovebox.Limits{})
	var ids []sandbox.ID
	for _, name := range []string{"a", "b"} {
		id := e.create(sandbox.Spec{Template: dir, Labels: map[string]string{"name": name}})
		ids = append(ids, id)
		e.wantKept(id, pid)
		if i, ok := e.info(id); !ok || i.Start != "template" || i.State != sandbox.Running || i.Labels["name"] != name {
			e.Errorf("it is listed as %+v", i)
		}
	}
	c := e.dial(ids[0])
	e.ask(c, question{Op: "exec", Args: []string{"/bin/sh", "-c", "echo changed > /var/kept; kill " + pid}})
	e.wantKept(ids[1], pid)
	e.wantKept(e.create(sandbox.Spec{Template: dir}), pid)
	if i, _ := e.info(e.create(sandbox.Spec{})); i.Start != "cold" {
		e.Errorf("one without a template is listed as %q", i.Start)
	}
}

// Machines from one template share no random number.
func testSnapshotRandom(e *env) {
	dir, _ := e.frozen(glovebox.Limits{})
	seen := make(map[string]string)
	for _, name := range []string{"first", "second", "third"} {
		c := e.dial(e.create(sandbox.Spec{Template: dir}))
		for what, q := range map[string]question{
			"getrandom":  {Op: "random"},
			"urandom":    {Op: "exec", Args: []string{"/bin/sh", "-c", "head -c 16 /dev/urandom | od -An -tx1"}},
			"random":     {Op: "exec", Args: []string{"/bin/sh", "-c", "head -c 16 /dev/random | od -An -tx1"}},
			"auxv":       {Op: "exec", Args: []string{"/bin/sh", "-c", "od -An -tx1 /proc/self/auxv"}},
			"mktemp":     {Op: "exec", Args: []string{"/bin/mktemp", "-u"}},
			"bash":       {Op: "exec", Args: []string{"/bin/bash", "-c", "echo $SRANDOM"}},
			"map layout": {Op: "exec", Args: []string{"/bin/sh", "-c", "cut -d- -f1 /proc/self/maps | tail -2"}},
		} {
			text := what + " " + e.ask(c, q).Text
			if other, ok := seen[text]; ok {
				e.Errorf("%s and %s have the same %s", other, name, text)
			}
			seen[text] = name
		}
	}
}

// Ten at once come up.
func testSnapshotBurst(e *env) {
	dir, pid := e.frozen(glovebox.Limits{})
	var ids []sandbox.ID
	for range 10 {
		ids = append(ids, e.id())
	}
	start := time.Now()
	var wg sync.WaitGroup
	for _, id := range ids {
		wg.Go(func() {
			if err := e.d.Create(e.ctx, sandbox.Spec{ID: id, Template: dir}); err != nil {
				e.Errorf("create: %v", err)
			}
		})
	}
	wg.Wait()
	e.Logf("ten were made in %v", time.Since(start))
	for _, id := range ids {
		e.wantKept(id, pid)
	}
}

// A template that is damaged or incomplete is refused, at once, and leaves
// nothing; what is put right can be used again.
func testSnapshotDamage(e *env) {
	dir, pid := e.frozen(glovebox.Limits{})
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) == 0 {
		e.Fatal(entries, err)
	}
	damages := map[string]func(b []byte) []byte{
		"cut in half": func(b []byte) []byte { return b[:len(b)/2] },
		"empty":       func([]byte) []byte { return nil },
		"longer":      func(b []byte) []byte { return append(slices.Clone(b), 0) },
		"changed":     func(b []byte) []byte { b = slices.Clone(b); b[len(b)/3] ^= 0x40; return b },
	}
	refused := func(what string) {
		start, id := time.Now(), e.id()
		err := e.d.Create(e.ctx, sandbox.Spec{ID: id, Template: dir})
		if glovebox.CodeOf(err) != glovebox.CodeUnavailable || !errors.Is(err, sandbox.ErrTemplate) || time.Since(start) > restorePatience {
			e.Errorf("%s: %v after %v", what, err, time.Since(start))
		}
		if i, ok := e.info(id); ok {
			e.Errorf("%s: then it is listed: %+v", what, i)
		}
		if err == nil {
			return
		}
		if leaks := findLeaks(e.dir, []sandbox.ID{id}); len(leaks) != 0 {
			e.Errorf("%s: left behind: %v", what, leaks)
		}
	}
	for _, f := range entries {
		path := filepath.Join(dir, f.Name())
		whole, err := os.ReadFile(path)
		if err != nil {
			e.Fatal(err)
		}
		for name, damage := range damages {
			if name == "longer" && strings.HasSuffix(f.Name(), ".json") {
				continue
			}
			// In place, as a disk does it, and not by another file.
			if err := os.WriteFile(path, damage(whole), 0o600); err != nil {
				e.Fatal(err)
			}
			refused(f.Name() + " " + name)
		}
		if err := os.Remove(path); err != nil {
			e.Fatal(err)
		}
		refused(f.Name() + " removed")
		if err := os.WriteFile(path, whole, 0o600); err != nil {
			e.Fatal(err)
		}
	}
	e.wantKept(e.create(sandbox.Spec{Template: dir}), pid)
	if err := os.RemoveAll(dir); err != nil {
		e.Fatal(err)
	}
	refused("all removed")
}

// What can't be frozen is refused.
func testSnapshotBad(e *env) {
	s := e.snapshotter()
	parent := filepath.Join(e.dir, "templates")
	e.wantCode(s.Snapshot(e.ctx, e.id(), filepath.Join(parent, "x")), glovebox.CodeNotFound)
	dir, _ := e.frozen(glovebox.Limits{})
	id := e.create(sandbox.Spec{})
	e.wantCode(s.Snapshot(e.ctx, id, dir), glovebox.CodeConflict)
	e.wantEcho(e.dial(id))
	key, err := s.TemplateKey()
	if again, err2 := s.TemplateKey(); err != nil || err2 != nil || key == "" || again != key {
		e.Errorf("keys %q and %q, %v, %v", key, again, err, err2)
	}
	if entries, err := os.ReadDir(parent); err != nil || len(entries) != 1 {
		e.Errorf("beside the template is %v, %v", entries, err)
	}
}

// A process that is killed while it freezes a machine leaves a whole template
// or none, and the next one of the same name works.
func testSnapshotKilled(e *env) {
	s := e.snapshotter()
	dir := filepath.Join(e.dir, "templates", "t1")
	start := time.Now()
	if err := s.Snapshot(e.ctx, e.create(sandbox.Spec{}), dir); err != nil {
		e.Fatal(err)
	}
	took := time.Since(start)
	const moments = 6
	for i := range moments {
		if err := os.RemoveAll(dir); err != nil {
			e.Fatal(err)
		}
		id := e.create(sandbox.Spec{})
		e.killed(task{Do: "snapshot", ID: id, Template: dir}, took*time.Duration(i)/moments)
		_, err := os.Stat(dir)
		info, listed := e.info(id)
		e.Logf("killed after %d/%d: a template %v, the machine is listed %v, %s %s", i, moments, err == nil, listed, info.State, info.Cause)
		if err == nil {
			e.wantEcho(e.dial(e.create(sandbox.Spec{Template: dir})))
		} else if err := s.Snapshot(e.ctx, e.create(sandbox.Spec{}), dir); err != nil {
			e.Errorf("then: %v", err)
		}
		if err := e.d.Destroy(e.ctx, id); err != nil {
			e.Fatal(err)
		}
		if entries, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(entries) != 1 {
			e.Errorf("beside the template is %v, %v", entries, err)
		}
		if leaks := findLeaks(e.dir, []sandbox.ID{id}); len(leaks) != 0 {
			e.Errorf("left behind: %v", leaks)
		}
	}
}

// A process that is killed while it starts a machine from a template leaves
// nothing that is not found.
func testRestoreKilled(e *env) {
	dir, _ := e.frozen(glovebox.Limits{})
	start := time.Now()
	e.create(sandbox.Spec{Template: dir})
	took := time.Since(start)
	const moments = 6
	for i := range moments {
		id := e.id()
		e.killed(task{Do: "create", ID: id, Template: dir}, took*time.Duration(i)/moments)
		info, ok := e.info(id)
		e.Logf("killed after %d/%d: listed %v, %s %s", i, moments, ok, info.State, info.Cause)
		if err := e.d.Destroy(e.ctx, id); err != nil {
			e.Fatal(err)
		}
		if leaks := findLeaks(e.dir, []sandbox.ID{id}); len(leaks) != 0 {
			e.Fatalf("left behind: %v", leaks)
		}
	}
}

// killed starts a second process and kills it some time after it began.
func (e *env) killed(k task, after time.Duration) {
	e.Helper()
	p := e.second(k)
	if err := p.await("creating"); err != nil {
		e.Fatal(err)
	}
	select { // the moment is the test's parameter
	case <-time.After(after):
	case <-e.ctx.Done():
	}
	p.kill()
}

// more does what a second process is asked to by the tests of this file.
func (s Suite) more(ctx context.Context, d sandbox.Driver, k task) error {
	switch k.Do {
	case "snapshot":
		return d.(sandbox.Snapshotter).Snapshot(ctx, k.ID, k.Template)
	case "adopt":
		return d.(sandbox.Adopter).Adopt(ctx, k.ID, sandbox.Spec{ID: k.To, Labels: map[string]string{"by": "child"}})
	case "pause":
		return d.(sandbox.Pauser).Pause(ctx, k.ID)
	}
	return nil
}
