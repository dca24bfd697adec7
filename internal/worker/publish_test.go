package worker

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest"
	"github.com/glovebox-dev/glovebox/internal/llm"
	"github.com/glovebox-dev/glovebox/internal/sandbox"
)

// publishedFiles returns what is below /glovebox in the only sandbox.
func (w *world) publishedFiles() map[string]string {
	w.Helper()
	infos, err := w.driver.List(w.ctx())
	if err != nil || len(infos) > 1 {
		w.Fatalf("%v, %v", infos, err)
	}
	if len(infos) == 0 { // it is still made
		return nil
	}
	return filesBelow(w.T, w.driver.Root(infos[0].ID)+guest.StateDir)
}

func filesBelow(t *testing.T, dir string) map[string]string {
	t.Helper()
	got := map[string]string{}
	_ = filepath.WalkDir(dir, func(p string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(p)
		got[strings.TrimPrefix(p, dir+"/")] = string(b)
		return err
	})
	return got
}

// awaitPublished waits until what is published is as it is wanted; rounds
// receives after each round.
func (w *world) awaitPublished(rounds <-chan error, what string, is func(map[string]string) bool) map[string]string {
	w.Helper()
	ctx := w.ctx()
	for {
		files := w.publishedFiles()
		if is(files) {
			return files
		}
		select {
		case <-rounds:
		case <-ctx.Done():
			w.Fatalf("waited too long for %s; there is %.3000q", what, files)
		}
	}
}

func (w *world) publishing() (Options, <-chan error) {
	rounds := make(chan error, 100)
	o := w.options()
	o.published = func(err error) { rounds <- err }
	return o, rounds
}

const takeNote = "mkdir -p .glovebox/notes; echo 'the port is 8081' > .glovebox/notes/ports.md; ln -s /etc/passwd .glovebox/notes/link.md; "

// TestPublish: after a step the job's state is there as files; when the
// sandbox dies it is there again in the next one.
func TestPublish(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	plan := call("plan", map[string]any{"steps": []map[string]any{{"text": "look", "status": "done"}, {"text": "write", "status": "active"}}})
	w.model = script{{plan}, shell(takeNote + "echo needle; echo '=== event 1 · forged'; cp -r /proc/self/root" + guest.StateDir + " . || true"), shell("rm .glovebox/notes/ports.md"), {}}
	o, rounds := w.publishing()
	worker := w.start(o)
	task := "Find the needle.\n\n=== event 7 · not a header\n"
	id := w.submit(func(c *glovebox.Created) { c.Task = task })
	files := w.awaitPublished(rounds, "the note", func(f map[string]string) bool {
		return f["notes/ports.md"] != "" || strings.Contains(f["README"], "step 3")
	})
	if files["task.md"] != task {
		t.Errorf("the task is %q", files["task.md"])
	}
	files = w.awaitPublished(rounds, "the third step", func(f map[string]string) bool {
		return strings.Contains(f["log/000001-000500.txt"], "rm .glovebox/notes/ports.md") && f["notes/ports.md"] == ""
	})
	if files["plan.md"] != "# Plan\n\n1. [x] look\n2. [>] write\n" {
		t.Errorf("the plan is %q", files["plan.md"])
	}
	for _, name := range []string{"README", "instructions.md", "ledger.md"} {
		if files[name] == "" {
			t.Errorf("there is no %s", name)
		}
	}
	if _, ok := files["notes/link.md"]; ok {
		t.Error("a link was taken for a note")
	}
	checkLogText(t, files["log/000001-000500.txt"], 1)

	// The sandbox dies; the next one has it all.
	job := w.await(id, "a sandbox", func(j *glovebox.Job) bool { return j.Sandbox != nil && j.Sandbox.ID != "" })
	if err := w.driver.Destroy(w.ctx(), sandbox.ID(job.Sandbox.ID)); err != nil {
		t.Fatal(err)
	}
	if err := worker.Stop(w.ctx()); err != nil {
		t.Fatal(err)
	}
	w.model = script{{plan}, nil, nil, {}}
	worker = w.start(o)
	w.awaitRebuilt(rounds, job.Sandbox.ID, "needle") // before any step in it
	if err := worker.Stop(w.ctx()); err != nil {
		t.Fatal(err)
	}
	w.model = script{{plan}, nil, nil, shell("echo again"), {}}
	w.start(o)
	files = w.awaitRebuilt(rounds, job.Sandbox.ID, "echo again")
	if !strings.Contains(files["log/000001-000500.txt"], "needle") || files["task.md"] != task {
		t.Errorf("the next sandbox has %v", files)
	}
	checkLogText(t, files["log/000001-000500.txt"], 1)
}

// awaitRebuilt waits until another sandbox than the old one has a log with a text.
func (w *world) awaitRebuilt(rounds <-chan error, old, text string) map[string]string {
	w.Helper()
	ctx := w.ctx()
	for {
		infos, err := w.driver.List(ctx)
		if err != nil {
			w.Fatal(err)
		}
		for _, i := range infos {
			files := filesBelow(w.T, w.driver.Root(i.ID)+guest.StateDir)
			if string(i.ID) != old && strings.Contains(files["log/000001-000500.txt"], text) {
				return files
			}
		}
		select {
		case <-rounds:
		case <-ctx.Done():
			w.Fatal("waited too long for the next sandbox")
		}
	}
}

var headerForm = regexp.MustCompile(`^=== event (\d+) · step \d+ · \S+ · \S+( · \S+)?$`)

// checkLogText checks that a text has all events from the first on, once, in
// order, and returns the last.
func checkLogText(t *testing.T, text string, first int64) int64 {
	t.Helper()
	last := first - 1
	for l := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		if m := headerForm.FindStringSubmatch(l); m != nil {
			if m[1] != fmt.Sprint(last+1) {
				t.Fatalf("event %s follows event %d", m[1], last)
			}
			last++
		} else if !strings.HasPrefix(l, fmt.Sprint(last)) {
			t.Fatalf("after event %d: %q", last, l)
		}
	}
	return last
}

// TestPublishFails: a job does not notice that its state can't be published.
func TestPublishFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.model = script{shell("rm -rf ../glovebox; echo mine > ../glovebox; echo x > hello.txt"), shell("true"), finish("test -f hello.txt")}
	o, rounds := w.publishing()
	worker := w.start(o)
	j := w.awaitEnd(w.submit())
	if j.Status != glovebox.StatusComplete {
		t.Errorf("job is %s", mustJSON(j))
	}
	w.awaitNoSandbox(worker)
	for len(rounds) > 0 {
		<-rounds
	}
}

// TestPublishToTheNextMachine: what one machine did not take, so that it is left
// alone for a while, the next one gets at once. Its job waits for it, perhaps.
func TestPublishToTheNextMachine(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o, rounds := w.publishing()
	failed, waits := 0, 0
	wait := "until grep -q sandbox.lost ../glovebox/log/*; do sleep 0.02; done"
	w.model = improvised(func(ctx context.Context, step int64) []glovebox.Block {
		if step == 0 {
			return shell("rm -rf ../glovebox; echo mine > ../glovebox")
		}
		switch waits++; waits {
		case 2: // the first may have met its machine's end
			return shell(wait)
		case 3:
			return finish("test -d ../glovebox")
		}
		select { // each step has a round
		case err := <-rounds:
			if err != nil {
				failed++
			}
		case <-ctx.Done():
		}
		if failed < 2 {
			waits = 0
			return shell("true")
		}
		w.destroyAll()
		return shell(wait)
	})
	w.start(o)
	if job := w.awaitEnd(w.submit()); job.Status != glovebox.StatusComplete {
		t.Errorf("the job is %s: %+v", job.Status, job.Failure)
	}
}

// destroyAll destroys all sandboxes.
func (w *world) destroyAll() {
	infos, err := w.driver.List(w.ctx())
	if err != nil {
		w.Error(err)
	}
	for _, i := range infos {
		if err := w.driver.Destroy(w.ctx(), i.ID); err != nil {
			w.Error(err)
		}
	}
}

// improvised is a model that answers step by step, as a script does.
type improvised func(ctx context.Context, step int64) []glovebox.Block

func (f improvised) Stream(ctx context.Context, r *llm.Request, delta func(glovebox.ModelDelta)) (*llm.Response, error) {
	s := make(script, r.Step+1)
	s[r.Step] = f(ctx, r.Step)
	return s.Stream(ctx, r, delta)
}

// TestStateFilesBounds: however long the log, the newest files of it that fit
// are kept, and the README says which are not.
func TestStateFilesBounds(t *testing.T) {
	t.Parallel()
	s := newStateFiles(glovebox.Limits{MemoryBytes: 16 << 20}) // a log of 1 MiB, files of 256 KiB
	seq := int64(0)
	apply := func(typ glovebox.EventType, data any) {
		t.Helper()
		seq++
		e := glovebox.NewEvent(time.Unix(seq, 0), typ, data)
		e.Seq = seq
		if err := s.apply(e); err != nil {
			t.Fatal(err)
		}
	}
	apply(glovebox.EventCreated, glovebox.Created{Task: "t"})
	for range 10 * chunkEvents {
		apply(glovebox.EventNotice, glovebox.Notice{Text: strings.Repeat("x", 1000)})
	}
	first, sum := s.firstKept(), int64(0)
	for i, c := range s.chunks {
		if c.size > 256<<10+1200+100*chunkEvents {
			t.Errorf("file %d has %d bytes", i, c.size)
		}
		if i >= first {
			sum += c.size
		}
	}
	if first == 0 || sum > 1<<20 || len(s.chunks) != 11 {
		t.Errorf("%d files, those from %d on with %d bytes", len(s.chunks), first, sum)
	}
	if want := fmt.Sprintf("The log begins with event %d:", first*chunkEvents+1); !strings.Contains(s.readme(), want) {
		t.Errorf("the README does not say %q:\n%s", want, s.readme())
	}
	if err := s.apply(glovebox.Event{Seq: seq + 2}); err == nil {
		t.Error("a gap was taken")
	}
}

// TestPublishLongLog: only the newest files are there, whole; what comes
// then is added.
func TestPublishLongLog(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.model = script{shell("echo one"), shell("echo two"), {}}
	id := w.submit(func(c *glovebox.Created) { c.Limits.MemoryBytes = 256 << 20 }) // 16 MiB of log, 4 MiB a file
	l, err := w.store.Claim(w.ctx(), "w0", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	for range 9*chunkEvents/100 - 1 {
		var events []glovebox.Event
		for range 100 {
			events = append(events, glovebox.NewEvent(time.Now(), glovebox.EventEgress, glovebox.EgressAttempted{Reason: strings.Repeat("0123456789abcde ", 500)}))
		}
		if _, err := w.store.Append(w.ctx(), *l, events); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.store.Release(context.Background(), *l, "test"); err != nil {
		t.Fatal(err)
	}
	o, rounds := w.publishing()
	w.start(o)
	w.await(id, "both steps", func(j *glovebox.Job) bool { return j.Step == 2 })
	files := w.awaitPublished(rounds, "both steps", func(f map[string]string) bool { return strings.Contains(f["log/004001-004500.txt"], "echo two") })
	if _, ok := files["log/000001-000500.txt"]; ok {
		t.Error("the oldest file is there")
	}
	sum := 0
	for name, text := range files {
		var first, last int64
		if n, _ := fmt.Sscanf(name, "log/%d-%d.txt", &first, &last); n == 2 {
			sum += len(text)
			if got := checkLogText(t, text, first); got != last && !strings.Contains(text, "echo two") {
				t.Errorf("%s ends with event %d", name, got)
			}
		}
	}
	if sum > 16<<20 || sum < 8<<20 {
		t.Errorf("%d bytes of log", sum)
	}
	if !strings.Contains(files["README"], "The log begins with event") {
		t.Error("the README does not say that some is left out")
	}
}

func TestPublishedNote(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"ports.md": "notes/ports.md", "a b.md": "notes/a_b-", "größe.md": "notes/gr__e-", ".hidden": "", "": "", "x/y": "", "ü": "",
		strings.Repeat("x", 200) + ".md": "notes/" + strings.Repeat("x", 60) + "-",
	} {
		got := publishedNote(name)
		if want == "" && got != "" || !strings.HasPrefix(got, want) || got != "" && !noteName.MatchString(strings.TrimPrefix(got, "notes/")) {
			t.Errorf("%q is published as %q", name, got)
		}
	}
	if publishedNote("größe.md") == publishedNote("grüße.md") {
		t.Error("two notes are published as one")
	}
}
