package e2e

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox"
)

// TestDocker runs a job in a container of a Docker engine, which gets the
// machine image from the server by itself.
func TestDocker(t *testing.T) {
	if out, err := exec.Command("docker", "version", "--format", "{{.Server.Version}}").CombinedOutput(); err != nil {
		t.Skipf("no Docker engine runs here: %s", strings.TrimSpace(string(out)))
	}
	data := dataDir(t)
	conversation, err := filepath.Abs("testdata/watch.replay")
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, data, "--driver", "docker", "--model", "replay:"+conversation)
	id := s.schedule("Open an editor")
	stopped := false
	t.Cleanup(func() {
		if !stopped {
			s.end(id)
		}
	})
	s.follow(id, func(e glovebox.Event) bool {
		return e.Type != glovebox.EventQuestion && e.Type != glovebox.EventFinished
	})
	s.call("POST", "/jobs/"+id+"/messages", "text/plain", "Yes.")
	if st := s.finish(id); st.Status != glovebox.StatusComplete {
		t.Fatalf("got %+v, %+v", st, st.Error)
	}
	checkLaws(t, s, id)
	if got := download(t, s, id)["note.txt"]; got != "first line\n" {
		t.Errorf("note.txt holds %q", got)
	}
	events := s.events(id)
	s.stop()
	stopped = true
	for _, e := range events {
		if e.Type != glovebox.EventSandboxReady {
			continue
		}
		// The container is named for the sandbox.
		left, err := exec.Command("docker", "ps", "--all", "--quiet", "--filter", "name="+decode[glovebox.SandboxReady](t, e).ID).Output()
		if err != nil || len(left) > 0 {
			t.Errorf("containers are left: %s, %v", left, err)
		}
	}
}
