package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"image/color"
	"image/png"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/glovebox-dev/glovebox"
)

// TestTodoApp is the main job, from the task to a project that is built again
// from what was downloaded, in a machine of its own.
func TestTodoApp(t *testing.T) {
	data := dataDir(t)
	conversation, err := filepath.Abs("../examples/todo-react/conversation.replay")
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, data, "--model", "replay:"+conversation)
	id := s.schedule("Build me a todo app in React")
	st := s.finish(id)
	if st.Status != glovebox.StatusComplete || len(st.Verification) != 3 || st.Summary == "" {
		t.Fatalf("got %+v, %+v", st, st.Error)
	}
	for _, p := range st.Verification {
		if p.ExitCode != 0 {
			t.Errorf("proof %q: exit %d\n%s", p.Command, p.ExitCode, p.Output)
		}
	}
	checkLaws(t, s, id)
	checkPage(t, s, id, st.Verification[2])

	_, below, _ := strings.Cut(st.DownloadURL, "/jobs/")
	code, header, zip := s.call(http.MethodGet, "/jobs/"+below, "", "")
	if code != http.StatusOK {
		t.Fatalf("GET %s: %d %s", st.DownloadURL, code, zip)
	}
	sum := sha256.Sum256(zip)
	if got := header.Get("X-Content-SHA256"); got != hex.EncodeToString(sum[:]) {
		t.Errorf("the header says SHA-256 %s, the bytes %x", got, sum)
	}
	for name := range download(t, s, id) {
		if strings.Contains(name, "node_modules") {
			t.Fatalf("what is rebuilt is in the artifact: %s", name)
		}
	}
	if allowed, denied := egress(t, s, id); allowed == 0 || denied != 0 {
		t.Errorf("egress: %d hosts allowed, %d denied; want some and none", allowed, denied)
	}

	// A second program can unpack it, and a new machine can build it.
	dir := t.TempDir()
	file := filepath.Join(dir, "project.zip")
	if err := os.WriteFile(file, zip, 0o644); err != nil {
		t.Fatal(err)
	}
	if unzip, err := exec.LookPath("unzip"); err != nil {
		t.Log("unzip is not installed: the artifact was not unpacked with a second program")
	} else if out, err := exec.Command(unzip, "-q", file, "-d", filepath.Join(dir, "project")).CombinedOutput(); err != nil {
		t.Errorf("unzip: %v\n%s", err, out)
	}
	rebuild := filepath.Join(dir, "rebuild.replay")
	if err := os.WriteFile(rebuild, []byte(`turn build it again
call shell
  command = npm ci && npm run build
  timeout_s := 300

turn end
expect ok
call finish
  summary = It builds from what was downloaded.
  how_to_run = npm run dev
  proofs := ["npm test", "test -s dist/index.html"]
`), 0o644); err != nil {
		t.Fatal(err)
	}
	again := s.scheduleArchive(t, "Build it again.", "replay:"+rebuild, file)
	if st := s.finish(again); st.Status != glovebox.StatusComplete {
		t.Errorf("building what was downloaded: %+v, %+v", st, st.Error)
	}
}

// checkPage looks at the proof that is a page: the app that was built, in which
// the agent added two todos with mouse and keyboard.
func checkPage(t *testing.T, s *server, id string, p glovebox.Proof) {
	t.Helper()
	if p.Page != "http://localhost:4173/" || p.Title != "Todo" || p.Screenshot == "" || len(p.Console) != 0 {
		t.Fatalf("the proof that is a page: %+v", p)
	}
	code, header, shot := s.call(http.MethodGet, "/jobs/"+id+"/outputs/"+p.Screenshot, "", "")
	if code != http.StatusOK || header.Get("Content-Type") != "image/png" {
		t.Fatalf("its screenshot: %d, %s", code, header.Get("Content-Type"))
	}
	img, err := png.Decode(bytes.NewReader(shot))
	if err != nil || img.Bounds().Dx() != 1280 || img.Bounds().Dy() != 800 {
		t.Fatalf("its screenshot: %v, %v", img, err)
	}
	colours := map[color.Color]bool{}
	for y := range 800 {
		for x := range 1280 {
			colours[img.At(x, y)] = true
		}
	}
	if len(colours) < 50 { // an empty page has a few
		t.Errorf("its screenshot has %d colours", len(colours))
	}
}

// egress counts the hosts that a job reached and those that it was refused.
func egress(t *testing.T, s *server, id string) (allowed, denied int) {
	t.Helper()
	hosts := map[string]bool{}
	for _, e := range s.events(id) {
		if e.Type == glovebox.EventEgress {
			a := decode[glovebox.EgressAttempted](t, e)
			if !hosts[a.Host] && a.Allowed {
				allowed++
			} else if !a.Allowed {
				denied++
				t.Logf("denied: %s:%d: %s", a.Host, a.Port, a.Reason)
			}
			hosts[a.Host] = true
		}
	}
	return allowed, denied
}

// TestOrdinaryUser runs the service as a user without any privilege.
func TestOrdinaryUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("the tests run as an ordinary user already")
	}
	const nobody = 65534
	data := dataDir(t)
	if err := os.Chmod(filepath.Dir(data), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{data, filepath.Join(data, "images")} {
		if err := os.Chown(p, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	conversation := filepath.Join(data, "steps.replay")
	b, err := os.ReadFile("testdata/steps.replay")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(conversation, b, 0o644); err != nil {
		t.Fatal(err)
	}
	user := &syscall.Credential{Uid: nobody, Gid: nobody}
	s := serveAs(t, user, data, "--model", "replay:"+conversation)
	id := s.schedule("Take six steps.")
	s.follow(id, func(e glovebox.Event) bool { return e.Type != glovebox.EventToolFinished })
	s.kill()
	s = serveAs(t, user, data, "--model", "replay:"+conversation)
	if st := s.finish(id); st.Status != glovebox.StatusComplete {
		t.Fatalf("got %+v, %+v", st, st.Error)
	}
	checkLaws(t, s, id)
	checkTraces(t, s, id, download(t, s, id)["log.txt"])
}
