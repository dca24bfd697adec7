package worker

import (
	"archive/zip"
	"bytes"
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/blob"
	"github.com/glovebox-dev/glovebox/internal/llm"
	"github.com/glovebox-dev/glovebox/internal/sandbox"
)

func TestJobCompletes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.model = script{shell("echo hello > hello.txt; mkdir node_modules; echo x > node_modules/x"), finish("grep hello hello.txt")}
	worker := w.start(w.options())
	id := w.submit()
	j := w.awaitEnd(id)
	if j.Status != glovebox.StatusComplete || j.Summary != "It is done." || len(j.Verification) != 1 || j.Checkpoint == nil {
		t.Fatalf("job is %s", mustJSON(j))
	}
	files := w.artifact(j)
	if files["hello.txt"] != "hello\n" || files["node_modules/x"] != "" || !strings.Contains(files["glovebox-manifest.json"], "hello.txt") {
		t.Errorf("the artifact has %v", files)
	}
	if j.Artifact.Files != 1 || len(j.Artifact.Skipped) != 1 || j.Artifact.Skipped[0].Path != "node_modules" {
		t.Errorf("artifact is %s", mustJSON(j.Artifact))
	}
	ready := data[glovebox.SandboxReady](w, id, glovebox.EventSandboxReady)
	if len(ready) != 1 || ready[0].How != "created" || ready[0].Driver != "fake" {
		t.Errorf("sandbox ready: %v", ready)
	}
	var phases []glovebox.Phase
	for _, p := range data[glovebox.PhaseChanged](w, id, glovebox.EventPhase) {
		phases = append(phases, p.Phase)
	}
	if want := []glovebox.Phase{glovebox.PhaseWorking, glovebox.PhaseVerifying, glovebox.PhasePacking}; !slices.Equal(phases, want) {
		t.Errorf("phases are %v", phases)
	}
	types := w.types(id)
	if n := len(types); types[n-1] != glovebox.EventFinished || types[n-2] != glovebox.EventArtifact {
		t.Errorf("events are %v", types)
	}
	w.awaitNoSandbox(worker)
}

func TestGuestIsReachable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.model = script{shell("echo hello > hello.txt"), {}}
	worker := w.start(w.options())
	id := w.submit()
	w.await(id, "the second step", func(j *glovebox.Job) bool {
		return j.Step == 1 && slices.Contains(w.types(id), glovebox.EventToolFinished)
	})
	g, ok := worker.Guest(id)
	if !ok {
		t.Fatal("there is no guest")
	}
	if b, _, err := g.ReadFile(t.Context(), "hello.txt", 0, 100); err != nil || string(b) != "hello\n" {
		t.Errorf("read %q, %v", b, err)
	}
	if _, ok := worker.Guest(glovebox.NewID()); ok {
		t.Error("a job that does not run has a guest")
	}
}

func TestModelIsUnknown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := w.options()
	o.Models = func(context.Context, string) (llm.Model, llm.Info, error) {
		return nil, llm.Info{}, &glovebox.Error{Code: glovebox.CodeInvalid, Msg: "no key is set", Hint: "set one"}
	}
	worker := w.start(o)
	j := w.awaitEnd(w.submit())
	if j.Status != glovebox.StatusError || *j.Failure != (glovebox.Failure{Code: "model", Message: "no key is set", Hint: "set one"}) {
		t.Errorf("job is %s", mustJSON(j))
	}
	if j.Sandbox != nil {
		t.Error("a sandbox was made for nothing")
	}
	w.awaitNoSandbox(worker)
}

// brokenDriver can't make sandboxes.
type brokenDriver struct{ sandbox.Driver }

func (brokenDriver) Create(context.Context, sandbox.Spec) error {
	return &glovebox.Error{Code: glovebox.CodeUnavailable, Msg: "there is no image", Hint: "run glovebox image build"}
}

func TestNoSandbox(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.model = script{finish("test -d .")}
	o := w.options()
	o.Driver = brokenDriver{w.driver}
	worker := w.start(o)
	j := w.awaitEnd(w.submit())
	if j.Failure == nil || j.Failure.Code != "sandbox" || !strings.Contains(j.Failure.Message, "there is no image") || j.Failure.Hint != "run glovebox image build" {
		t.Errorf("job is %s", mustJSON(j))
	}
	w.awaitNoSandbox(worker)
}

func TestCancel(t *testing.T) {
	t.Parallel()
	for name, turns := range map[string]script{"tool": {shell("sleep 1000")}, "model": {{}}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.model = turns
			worker := w.start(w.options())
			id := w.submit()
			w.awaitEvent(id, map[string]glovebox.EventType{"tool": glovebox.EventToolStarted, "model": glovebox.EventModelRequested}[name])
			if err := w.store.SendSignal(w.ctx(), "", id, glovebox.Signal{Cancel: true}); err != nil {
				t.Fatal(err)
			}
			if j := w.awaitEnd(id); j.Status != glovebox.StatusCancelled {
				t.Errorf("job is %s", mustJSON(j))
			}
			w.awaitNoSandbox(worker)
		})
	}
}

// slowDriver makes sandboxes when it is told to, or ctx ends.
type slowDriver struct {
	sandbox.Driver
	begun chan struct{}
}

func (d slowDriver) Create(ctx context.Context, _ sandbox.Spec) error {
	d.begun <- struct{}{}
	<-ctx.Done()
	return context.Cause(ctx)
}

func TestCancelWhilePreparing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := w.options()
	d := slowDriver{w.driver, make(chan struct{}, 1)}
	o.Driver = d
	w.start(o)
	id := w.submit()
	<-d.begun
	if err := w.store.SendSignal(w.ctx(), "", id, glovebox.Signal{Text: "hello"}); err != nil {
		t.Fatal(err)
	}
	if err := w.store.SendSignal(w.ctx(), "", id, glovebox.Signal{Cancel: true}); err != nil {
		t.Fatal(err)
	}
	if j := w.awaitEnd(id); j.Status != glovebox.StatusCancelled {
		t.Errorf("job is %s", mustJSON(j))
	}
}

func TestStopWhilePreparing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := w.options()
	d := slowDriver{w.driver, make(chan struct{}, 1)}
	o.Driver, o.Drain = d, time.Hour
	worker := w.start(o)
	id := w.submit()
	<-d.begun
	if err := worker.Stop(w.ctx()); err != nil {
		t.Fatal(err)
	}
	w.await(id, "the release", func(j *glovebox.Job) bool { return j.Status == glovebox.StatusPending })
}

// A worker that stops leaves the job, with its sandbox, to the next.
func TestHandOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.model = script{shell("echo hello > hello.txt; sleep 1000"), finish("grep hello hello.txt")}
	first := w.start(w.options())
	id := w.submit()
	w.awaitEvent(id, glovebox.EventToolStarted)
	for g, _ := first.Guest(id); ; {
		if _, _, err := g.ReadFile(w.ctx(), "hello.txt", 0, 1); err == nil {
			break
		}
	}
	if err := first.Stop(w.ctx()); err != nil {
		t.Fatal(err)
	}
	if j, err := w.store.Job(w.ctx(), "", id); err != nil || j.Status != glovebox.StatusPending {
		t.Fatalf("job is %v, %v", j, err)
	}
	if n := w.sandboxes(); n != 1 {
		t.Fatalf("%d sandboxes are there for the next worker", n)
	}
	o := w.options()
	o.Name = "w2"
	second := w.start(o)
	j := w.awaitEnd(id)
	if j.Status != glovebox.StatusComplete || j.Attempts != 2 {
		t.Errorf("job is %s", mustJSON(j))
	}
	ready := data[glovebox.SandboxReady](w, id, glovebox.EventSandboxReady)
	if len(ready) != 2 || ready[1].How != "found" || ready[1].ID != ready[0].ID {
		t.Errorf("sandbox ready: %v", ready)
	}
	if f := data[glovebox.ToolFinished](w, id, glovebox.EventToolFinished); !f[0].Unknown {
		t.Errorf("L4: the interrupted call has result %s", mustJSON(f[0]))
	}
	w.awaitNoSandbox(second)
}

// The jobs of a worker of this machine that died are not waited for.
func TestTakesOverFromTheDead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.model = script{finish("test -d .")}
	o := w.options()
	o.Presence = filepath.Join(t.TempDir(), "workers")
	dead, err := announce(o.Presence, "dead")
	if err != nil {
		t.Fatal(err)
	}
	id := w.submit()
	if l, err := w.store.Claim(w.ctx(), "dead", time.Hour); l == nil || err != nil {
		t.Fatalf("claim: %v, %v", l, err)
	}
	unlockFile(dead.file) // as the kernel does
	worker := w.start(o)
	if err := New(o).Start(w.ctx()); err == nil {
		t.Error("two workers have one name")
	}
	if j := w.awaitEnd(id); j.Status != glovebox.StatusComplete || j.Attempts != 2 {
		t.Errorf("job is %s", mustJSON(j))
	}
	w.awaitNoSandbox(worker)
	if left, _ := filepath.Glob(o.Presence + "/*"); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// With patience, Stop lets the action that runs come to its end.
func TestDrain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.model = script{shell("touch begun; until test -e go; do sleep 0.01; done; echo went"), finish("test -d .")}
	o := w.options()
	o.Drain = time.Hour
	worker := w.start(o)
	id := w.submit()
	w.awaitEvent(id, glovebox.EventToolStarted)
	g, _ := worker.Guest(id)
	stopped := make(chan error)
	worker.mu.Lock()
	l := worker.life
	worker.mu.Unlock()
	go func() { stopped <- worker.Stop(context.Background()) }()
	<-l.drain // else the job could go on, and end
	if err := g.WriteFile(w.ctx(), "go", nil, 0); err != nil {
		t.Fatal(err)
	}
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	f := data[glovebox.ToolFinished](w, id, glovebox.EventToolFinished)
	if j, err := w.store.Job(w.ctx(), "", id); err != nil || j.Status != glovebox.StatusPending || len(f) != 1 || f[0].Unknown {
		t.Errorf("job is %v, %v, results are %v", j, err, f)
	}
}

// A worker whose lease was lost stops at once and appends nothing more.
func TestLeaseLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.model = script{shell("echo hello > hello.txt"), shell("sleep 1000")}
	o := w.options()
	o.Concurrency = 1 // or it would claim the job itself
	o.Renew = time.Hour / 2
	o.Lease = time.Hour
	worker := w.start(o)
	id := w.submit()
	w.await(id, "the second call", func(j *glovebox.Job) bool {
		return len(data[glovebox.ToolStarted](w, id, glovebox.EventToolStarted)) == 2
	})
	w.clock.Add(2 * time.Hour)
	lease, err := w.store.Claim(w.ctx(), "thief", time.Hour)
	if err != nil || lease == nil {
		t.Fatalf("claim: %v, %v", lease, err)
	}
	seq := w.events(id)[len(w.events(id))-1].Seq
	worker.mu.Lock()
	r := worker.running[id]
	worker.mu.Unlock()
	if _, err := r.host.Append(w.ctx(), []glovebox.Event{r.host.event(glovebox.EventNotice, glovebox.Notice{})}); glovebox.CodeOf(err) != glovebox.CodeFenced {
		t.Errorf("append: %v", err)
	}
	<-r.ctx.Done() // by that refusal
	if err := worker.Stop(w.ctx()); err != nil {
		t.Fatal(err)
	}
	if got := w.events(id); got[len(got)-1].Seq != seq {
		t.Errorf("%v was appended under a lost lease", got[seq:])
	}
	if n := w.sandboxes(); n != 1 {
		t.Errorf("the new owner finds %d sandboxes", n)
	}
}

// The lease is renewed while a job runs, and its loss is noticed by that.
func TestLeaseIsRenewed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.model = script{shell("sleep 1000")}
	s := &faultyStore{Store: w.store}
	renewed := make(chan struct{}, 100)
	s.renew = func() error {
		select {
		case renewed <- struct{}{}:
		default: // the test needs no more of them now, and must hold up none
		}
		return nil
	}
	o := w.options()
	o.Store, o.Concurrency = s, 1
	worker := w.start(o)
	id := w.submit()
	w.awaitEvent(id, glovebox.EventToolStarted)
	for range 3 {
		w.clock.Add(14 * time.Second) // would end the lease of 15 s
		for len(renewed) > 0 {
			<-renewed
		}
		<-renewed
		<-renewed // the first one may have been under way
		if l, err := w.store.Claim(w.ctx(), "thief", time.Second); l != nil || err != nil {
			t.Fatalf("claim: %v, %v", l, err)
		}
	}
	worker.mu.Lock()
	r := worker.running[id]
	worker.mu.Unlock()
	w.clock.Add(time.Hour)
	for {
		l, err := w.store.Claim(w.ctx(), "thief", time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if l != nil {
			break
		}
		w.clock.Add(time.Hour) // a renewal came before
	}
	<-r.ctx.Done()
}

// A worker that could not renew in time may claim its own job again: the run
// before ends first.
func TestClaimsItsOwnAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.model = script{shell("if test -e once; then echo hello > hello.txt; else touch once; sleep 1000; fi"), shell("echo hello > hello.txt"), finish("grep hello hello.txt")}
	o := w.options()
	o.Renew, o.Lease = time.Hour/2, time.Hour
	worker := w.start(o)
	id := w.submit()
	w.awaitEvent(id, glovebox.EventToolStarted)
	w.clock.Add(2 * time.Hour)
	j := w.awaitEnd(id)
	if j.Status != glovebox.StatusComplete || j.Attempts != 2 {
		t.Errorf("job is %s", mustJSON(j))
	}
	w.awaitNoSandbox(worker)
}

func TestSandboxDies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.model = script{shell("echo hello > hello.txt"), shell("sleep 1000"), finish("grep hello hello.txt")}
	worker := w.start(w.options())
	id := w.submit()
	j := w.await(id, "the second call", func(j *glovebox.Job) bool {
		return j.Step == 2 && len(data[glovebox.ToolStarted](w, id, glovebox.EventToolStarted)) == 2
	})
	if err := w.driver.Destroy(w.ctx(), sandbox.ID(j.Sandbox.ID)); err != nil {
		t.Fatal(err)
	}
	j = w.awaitEnd(id)
	if j.Status != glovebox.StatusComplete || j.Sandbox.Lost != 1 {
		t.Fatalf("job is %s", mustJSON(j))
	}
	if w.artifact(j)["hello.txt"] != "hello\n" {
		t.Error("the workspace was not rebuilt")
	}
	ready := data[glovebox.SandboxReady](w, id, glovebox.EventSandboxReady)
	if len(ready) != 2 || ready[1].How != "rebuilt" || ready[1].Commit == "" || ready[1].ID == ready[0].ID {
		t.Errorf("sandbox ready: %v", ready)
	}
	w.awaitNoSandbox(worker)
}

func TestSandboxDiesTooOften(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var turns script
	for range 10 {
		turns = append(turns, shell("sleep 1000"))
	}
	w.model = turns
	worker := w.start(w.options())
	id := w.submit()
	for n := range maxLost + 1 {
		w.await(id, "the next call", func(j *glovebox.Job) bool {
			return len(data[glovebox.ToolStarted](w, id, glovebox.EventToolStarted)) == n+1
		})
		j, err := w.store.Job(w.ctx(), "", id) // as it is with that call: its machine is another one
		if err != nil {
			t.Fatal(err)
		}
		if err := w.driver.Destroy(w.ctx(), sandbox.ID(j.Sandbox.ID)); err != nil {
			t.Fatal(err)
		}
	}
	j := w.awaitEnd(id)
	if j.Status != glovebox.StatusError || j.Failure.Code != "sandbox" || j.Sandbox.Lost != maxLost+1 {
		t.Errorf("job is %s", mustJSON(j))
	}
	w.awaitNoSandbox(worker)
}

func TestStartsFromArchive(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.model = script{finish("grep hello src/hello.txt")}
	var buf bytes.Buffer
	z := zip.NewWriter(&buf)
	f, _ := z.Create("src/hello.txt")
	f.Write([]byte("hello\n"))
	z.Close()
	put := func(c *glovebox.Created, data []byte) {
		c.Files = &glovebox.Files{Blob: blob.JobPrefix(c.ID) + "input"}
		if _, err := w.blobs.Put(t.Context(), c.Files.Blob, bytes.NewReader(data), 1<<20); err != nil {
			t.Fatal(err)
		}
	}
	w.start(w.options())
	if j := w.awaitEnd(w.submit(func(c *glovebox.Created) { put(c, buf.Bytes()) })); j.Status != glovebox.StatusComplete {
		t.Errorf("job is %s", mustJSON(j))
	}
	for _, bad := range []string{"", "not an archive", "PK\x03\x04 and then nonsense"} {
		j := w.awaitEnd(w.submit(func(c *glovebox.Created) { put(c, []byte(bad)) }))
		if j.Failure == nil || j.Failure.Code != "files" {
			t.Errorf("%q: job is %s", bad, mustJSON(j))
		}
	}
}

func TestStartsFromGit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.model = script{finish("test -d .")}
	w.start(w.options())
	for _, f := range []glovebox.Files{
		{GitURL: "http://nowhere.invalid/x.git"}, {GitURL: "--upload-pack=touch /tmp/x"}, {GitURL: "http://x.invalid/x", GitRef: "-b"},
	} {
		j := w.awaitEnd(w.submit(func(c *glovebox.Created) { c.Files = &f }))
		if j.Failure == nil || j.Failure.Code != "files" || j.Failure.Hint == "" {
			t.Errorf("%v: job is %s", f, mustJSON(j))
		}
	}
}
