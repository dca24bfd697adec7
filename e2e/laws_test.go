package e2e

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox"
)

// checkLaws checks what must hold of a finished job after any fault.
func checkLaws(t *testing.T, s *server, id string) {
	t.Helper()
	events := s.events(id)

	// L3: gapless. Job.Apply refuses anything else, and what it makes of the
	// log must be what the server says.
	var job glovebox.Job
	for _, e := range events {
		if err := job.Apply(e); err != nil {
			t.Fatalf("L3: %v", err)
		}
	}
	if st := s.status(id); st.Status != job.Status || st.Seq != job.Seq {
		t.Errorf("L3: the server says %s at event %d, the log %s at %d", st.Status, st.Seq, job.Status, job.Seq)
	}

	// L2: exactly one terminal state, and nothing after it.
	finished := 0
	for i, e := range events {
		if e.Type == glovebox.EventFinished {
			finished++
			if i != len(events)-1 {
				t.Errorf("L2: event %d (%s) follows the end", events[i+1].Seq, events[i+1].Type)
			}
		}
	}
	if finished != 1 {
		t.Errorf("L2: %d terminal events", finished)
	}

	// L3: fences only grow.
	fence := int64(0)
	for _, e := range events {
		if e.Type == glovebox.EventClaimed {
			c := decode[glovebox.Claimed](t, e)
			if c.Fence <= fence {
				t.Errorf("L3: fence %d was followed by %d", fence, c.Fence)
			}
			fence = c.Fence
		}
	}
	checkCalls(t, events)
}

// checkCalls checks law L4: every call was started at most once and has at
// most one result; in a complete job it has exactly one.
func checkCalls(t *testing.T, events []glovebox.Event) {
	t.Helper()
	asked, started, results := map[string]bool{}, map[string]int{}, map[string]int{}
	for _, e := range events {
		switch e.Type {
		case glovebox.EventModelAnswered:
			for _, c := range decode[glovebox.ModelAnswered](t, e).Message.ToolUses() {
				asked[c.CallID] = true
			}
		case glovebox.EventToolStarted:
			started[decode[glovebox.ToolStarted](t, e).CallID]++
		case glovebox.EventToolFinished:
			results[decode[glovebox.ToolFinished](t, e).CallID]++
		}
	}
	end := decode[glovebox.Finished](t, events[len(events)-1])
	for id := range asked {
		missing := results[id] == 0 && end.Status == glovebox.StatusComplete
		if started[id] > 1 || results[id] > 1 || missing {
			t.Errorf("L4: call %s was started %d times and has %d results", id, started[id], results[id])
		}
	}
}

// checkTraces checks law L4 by the traces that the steps of steps.replay left:
// none ran more often than it was called, and one that left no trace is told as
// unknown or was done on a machine that died before the next checkpoint. A
// recorded model calls again what has no known outcome, so a step may rightly
// have run twice.
func checkTraces(t *testing.T, s *server, id string, log string) {
	t.Helper()
	unknown := 0
	var inputs []string
	saved, gone := 0, map[string]bool{} // how many inputs the last checkpoint has; those that died with a machine
	for _, e := range s.events(id) {
		switch e.Type {
		case glovebox.EventCheckpoint:
			saved = len(inputs)
		case glovebox.EventSandboxLost:
			for _, in := range inputs[saved:] {
				gone[in] = true
			}
		case glovebox.EventToolFinished:
			if decode[glovebox.ToolFinished](t, e).Unknown {
				unknown++
			}
		case glovebox.EventToolStarted:
			inputs = append(inputs, string(decode[glovebox.ToolStarted](t, e).Input))
		}
	}
	for _, step := range []string{"step-1", "step-2", "step-3", "step-4", "step-5", "step-6"} {
		called, died := 0, false
		for _, in := range inputs {
			if strings.Contains(in, step) {
				called++
				died = died || gone[in]
			}
		}
		switch n := strings.Count(log, step+"\n"); {
		case n > called:
			t.Errorf("L4: %s was called %d times and ran %d times:\n%s", step, called, n, log)
		case n == 0 && unknown == 0 && !died:
			t.Errorf("L4: %s left no trace, no outcome is unknown and no machine died:\n%s", step, log)
		}
	}
}

// download returns the files of a job's artifact.
func download(t *testing.T, s *server, id string) map[string]string {
	t.Helper()
	code, _, body := s.call(http.MethodGet, "/jobs/"+id+"/artifact.zip", "", "")
	if code != http.StatusOK {
		t.Fatalf("the artifact: %d %s", code, body)
	}
	z, err := zip.NewReader(bytes.NewReader(body), int64(len(body)))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatalf("%s: %v", f.Name, err)
		}
		files[f.Name] = string(b)
	}
	return files
}

func decode[T any](t *testing.T, e glovebox.Event) (v T) {
	t.Helper()
	if err := json.Unmarshal(e.Data, &v); err != nil {
		t.Fatalf("event %d (%s): %v", e.Seq, e.Type, err)
	}
	return v
}
