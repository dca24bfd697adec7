package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/glovebox-dev/glovebox"
)

// scheduleArchive posts a task with an archive to start from.
func (s *server) scheduleArchive(t *testing.T, task, model, path string) string {
	t.Helper()
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	w.WriteField("task", task)
	w.WriteField("model", model)
	part, err := w.CreateFormFile("archive", filepath.Base(path))
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	part.Write(b)
	w.Close()
	code, header, answer := s.call(http.MethodPost, "/schedule", w.FormDataContentType(), body.String())
	if code != http.StatusAccepted {
		t.Fatalf("POST /schedule with an archive: %d %s", code, answer)
	}
	return filepath.Base(header.Get("Location"))
}

// TestSandboxDies kills the sandbox under a job while a call waits in it: it is
// rebuilt from the last checkpoint, with what was done before the call and
// without what the call did, and the call is made again.
func TestSandboxDies(t *testing.T) {
	data := dataDir(t)
	s := serve(t, data, "--model", replayModel(t, "lost"))
	id := s.schedule("Leave traces.")
	kills, sandbox := 0, ""
	s.follow(id, func(e glovebox.Event) bool {
		switch e.Type {
		case glovebox.EventSandboxReady:
			sandbox = decode[glovebox.SandboxReady](t, e).ID
		case glovebox.EventToolStarted:
			if bytes.Contains(decode[glovebox.ToolStarted](t, e).Input, []byte("sandbox[.]lost")) && kills < 2 {
				killSandbox(t, data, sandbox)
				kills++
			}
		}
		return true
	})
	st := s.finish(id)
	if st.Status != glovebox.StatusComplete {
		t.Fatalf("after %d dead sandboxes: %+v, %+v", kills, st, st.Error)
	}
	checkLaws(t, s, id)
	if got, want := download(t, s, id)["log.txt"], "step-1\nstep-2\nstep-3\nstep-4\n"; got != want {
		t.Errorf("the traces are %q, want %q", got, want)
	}
	lost := 0
	for _, e := range s.events(id) {
		if e.Type == glovebox.EventSandboxLost {
			lost++
		}
	}
	if lost != kills || kills != 2 {
		t.Errorf("%d sandboxes were killed, the log tells of %d; want 2", kills, lost)
	}
}

// TestSandboxDiesAgainAndAgain ends the job with a clear error.
func TestSandboxDiesAgainAndAgain(t *testing.T) {
	data := dataDir(t)
	s := serve(t, data, "--model", replayModel(t, "waits"))
	id := s.schedule("Wait.")
	s.follow(id, func(e glovebox.Event) bool {
		if e.Type == glovebox.EventSandboxReady {
			killSandbox(t, data, decode[glovebox.SandboxReady](t, e).ID)
		}
		return true
	})
	st := s.finish(id)
	if st.Status != glovebox.StatusError || st.Error == nil || st.Error.Code != "sandbox" || st.Error.Hint == "" {
		t.Errorf("got %+v, %+v; want an error with code sandbox and a hint", st, st.Error)
	}
	checkLaws(t, s, id)
}

// killSandbox kills the process of a sandbox, and of no other: one that is kept
// ready may be the next one of the same job.
func killSandbox(t *testing.T, data, id string) {
	t.Helper()
	var record struct {
		Process struct{ PID int }
	}
	b, err := os.ReadFile(filepath.Join(data, "gvisor", "sandboxes", id, "record.json"))
	if err == nil {
		err = json.Unmarshal(b, &record)
	}
	if err != nil || record.Process.PID <= 1 {
		t.Errorf("the record of sandbox %s names no process: %v, %s", id, err, b)
		return
	}
	if err := syscall.Kill(record.Process.PID, syscall.SIGKILL); err != nil {
		t.Errorf("kill sandbox %s: %v", id, err)
	}
}

// TestHandOver stops a server with SIGTERM in the middle of a job: the job is
// given back, and the next server finishes it in the same sandbox.
func TestHandOver(t *testing.T) {
	data := dataDir(t)
	s := serve(t, data, "--model", replayModel(t, "steps"))
	id := s.schedule("Take six steps.")
	s.follow(id, func(e glovebox.Event) bool { return e.Type != glovebox.EventToolFinished })
	s.stop()
	s = serve(t, data, "--model", replayModel(t, "steps"))
	if st := s.finish(id); st.Status != glovebox.StatusComplete {
		t.Fatalf("got %+v, %+v", st, st.Error)
	}
	checkLaws(t, s, id)
	sandboxes := map[string]bool{}
	for _, e := range s.events(id) {
		if e.Type == glovebox.EventSandboxReady {
			sandboxes[decode[glovebox.SandboxReady](t, e).ID] = true
		}
	}
	if len(sandboxes) != 1 {
		t.Errorf("the job used %d sandboxes; the first one should have been found again", len(sandboxes))
	}
}

// TestFullDisk fills the disk under a job: it ends in an error, the server
// stays up, and what was acknowledged stays.
func TestFullDisk(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can mount a small file system to fill")
	}
	image := dataDir(t) // only its link to the image is used
	data := t.TempDir()
	program, err := os.Stat(binary)
	if err != nil {
		t.Fatal(err)
	}
	size := 2*program.Size() + 64<<20 // a machine wants room for two copies of it
	if err := syscall.Mount("tmpfs", data, "tmpfs", 0, fmt.Sprintf("size=%d", size)); err != nil {
		t.Skipf("no small file system could be mounted: %v", err)
	}
	t.Cleanup(func() { syscall.Unmount(data, syscall.MNT_DETACH) })
	if err := os.Symlink(filepath.Join(image, "images"), filepath.Join(data, "images")); err != nil {
		t.Fatal(err)
	}
	model := filepath.Join(image, "fill.replay")
	if err := os.WriteFile(model, fmt.Appendf(nil, "turn fill\ncall shell\n  command = yes | head -c %d > big.bin\n\n"+
		"turn end\ncall finish\n  summary = Filled.\n  how_to_run = true\n  proofs := [\"test -d /workspace\"]\n", size), 0o644); err != nil {
		t.Fatal(err)
	}
	s := serveWith(t, nil, []string{"GLOVEBOX_TEMPLATES=false"}, data, "--model", "replay:"+model) // which would take some of it
	first := s.schedule("Fill the disk.")
	st := s.finish(first)
	if st.Status != glovebox.StatusError || st.Error == nil || !strings.Contains(strings.ToLower(st.Error.Message+st.Error.Hint), "space") {
		t.Errorf("got %+v, %+v; want an error that speaks of space", st, st.Error)
	}
	if !slices.ContainsFunc(s.events(first), func(e glovebox.Event) bool { return e.Type == glovebox.EventToolStarted }) {
		t.Errorf("the job ended before it filled the disk: %+v", st.Error)
	}
	s.awaitReady()
	checkLaws(t, s, first)
}

// TestNoModel is refused in words that name the three ways to set one.
func TestNoModel(t *testing.T) {
	s := serve(t, dataDir(t))
	code, _, said := s.call(http.MethodPost, "/schedule", "text/plain", "Say hello.")
	if code != http.StatusBadRequest {
		t.Fatalf("got %d: %s", code, said)
	}
	for _, way := range []string{"ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "chat:", "replay:"} {
		if !strings.Contains(string(said), way) {
			t.Errorf("the error does not name %s: %s", way, said)
		}
	}
}
