package e2e

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
)

// replayModel names the recorded conversation testdata/NAME.replay.
func replayModel(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs("testdata/" + name + ".replay")
	if err != nil {
		t.Fatal(err)
	}
	return "replay:" + path
}

// TestCrashSweep kills the server with SIGKILL right after each event of a
// job in turn, and then at moments between events, each time starting it
// again, and checks the laws when the job has finished.
func TestCrashSweep(t *testing.T) {
	moments := 54
	if testing.Short() {
		moments = 6
	}
	data := dataDir(t)
	model := replayModel(t, "steps")
	rng := rand.New(rand.NewPCG(1, 2)) // the same moments in every run
	s := serve(t, data, "--model", model)
	killed := 0
	for killed < moments {
		id := s.schedule("Take six steps.")
		// Each job is killed at a few moments, further and further along its log:
		// few, because a recorded model gives up on a call whose outcome stays
		// unknown five times in a row.
		after := int64(1 + rng.IntN(20))
		for range min(5, moments-killed) {
			ended := false
			s.follow(id, func(e glovebox.Event) bool {
				ended = e.Type == glovebox.EventFinished
				return !ended && e.Seq < after
			})
			if ended {
				break
			}
			if killed%3 == 2 { // between two events rather than right after one
				pause(t, time.Duration(rng.IntN(120))*time.Millisecond)
			}
			s.kill()
			killed++
			s = serve(t, data, "--model", model)
			after += int64(1 + rng.IntN(12))
		}
		st := s.finish(id)
		if st.Status != glovebox.StatusComplete {
			logEvents(t, s, id)
			t.Fatalf("after %d kills: job %s is %s: %+v", killed, id, st.Status, st.Error)
		}
		checkLaws(t, s, id)
		checkTraces(t, s, id, download(t, s, id)["log.txt"])
		if t.Failed() {
			return
		}
	}
	t.Logf("killed %d times", killed)
}

// pause lets a while pass: before a server is killed, so that the moment is
// varied, or before it is asked again.
func pause(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}

// logEvents logs what happened to a job.
func logEvents(t *testing.T, s *server, id string) {
	t.Helper()
	for _, e := range s.events(id) {
		t.Logf("%4d %-18s %.300s", e.Seq, e.Type, e.Data)
	}
}

// TestAcknowledgedJobsSurvive checks law L1: every job whose 202 arrived
// before a kill is there after it.
func TestAcknowledgedJobsSurvive(t *testing.T) {
	data := dataDir(t)
	model := "replay:" + filepath.Join(t.TempDir(), "end.replay")
	if err := os.WriteFile(model[len("replay:"):], []byte("turn end\ncall finish\n  summary = Nothing was asked.\n  how_to_run = true\n  proofs := [\"test -d /workspace\"]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	s := serve(t, data, "--model", model, "--concurrency", "1")
	var ids []string
	for range 20 {
		ids = append(ids, s.schedule("Do nothing."))
	}
	s.kill()
	s = serve(t, data, "--model", model)
	for _, id := range ids {
		if st := s.finish(id); st.Status != glovebox.StatusComplete {
			t.Errorf("job %s is %s: %+v", id, st.Status, st.Error)
		}
		checkLaws(t, s, id)
	}
}
