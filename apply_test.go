package glovebox_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// history numbers events, one a second.
func history(events ...glovebox.Event) []glovebox.Event {
	for i := range events {
		events[i].Seq = int64(i + 1)
		events[i].Time = start.Add(time.Duration(i) * time.Second)
	}
	return events
}

func event(typ glovebox.EventType, data any) glovebox.Event {
	return glovebox.NewEvent(start, typ, data)
}

func apply(t *testing.T, events []glovebox.Event) *glovebox.Job {
	t.Helper()
	var j glovebox.Job
	for _, e := range events {
		if err := j.Apply(e); err != nil {
			t.Fatalf("event %d (%s): %v", e.Seq, e.Type, err)
		}
	}
	return &j
}

func created() glovebox.Event {
	return event(glovebox.EventCreated, glovebox.Created{ID: "a", Tenant: "t", Task: "do it", Model: "replay:x", Limits: glovebox.DefaultLimits()})
}

func TestApplyTellsTheStoryOfAJob(t *testing.T) {
	t.Parallel()
	events := history(
		created(), // second 0
		event(glovebox.EventClaimed, glovebox.Claimed{Worker: "w", Fence: 1, Attempt: 1}),                                // 1
		event(glovebox.EventSandboxReady, glovebox.SandboxReady{ID: "s1", Driver: "gvisor"}),                             // 2
		event(glovebox.EventPhase, glovebox.PhaseChanged{Phase: glovebox.PhaseWorking}),                                  // 3
		event(glovebox.EventModelAnswered, glovebox.ModelAnswered{Usage: glovebox.Usage{Input: 5, Output: 2, Calls: 1}}), // 4
		event(glovebox.EventPlan, glovebox.PlanUpdated{Steps: []glovebox.PlanStep{{Text: "one", Status: glovebox.PlanActive}}}),
		event(glovebox.EventCheckpoint, glovebox.CheckpointSaved{Commit: "c1", Pack: "p1", Whole: true}),
		event(glovebox.EventCheckpoint, glovebox.CheckpointSaved{Commit: "c2", Parent: "c1", Pack: "p2"}),
		event(glovebox.EventSandboxLost, glovebox.SandboxLost{ID: "s1", Cause: "killed"}),
		event(glovebox.EventSandboxReady, glovebox.SandboxReady{ID: "s2", Driver: "gvisor"}),
		event(glovebox.EventPhase, glovebox.PhaseChanged{Phase: glovebox.PhaseWaiting}), // 10
		event(glovebox.EventQuestion, glovebox.QuestionAsked{Text: "which?"}),
		event(glovebox.EventUserMessage, glovebox.UserMessage{Text: "that"}),
		event(glovebox.EventPhase, glovebox.PhaseChanged{Phase: glovebox.PhaseVerifying}), // 13
		event(glovebox.EventVerified, glovebox.Verified{Passed: true, Summary: "made it", HowToRun: "run it", Proofs: []glovebox.Proof{{Command: "true"}}}),
		event(glovebox.EventArtifact, glovebox.ArtifactSaved{Artifact: glovebox.Artifact{SHA256: "ff"}}),
		event(glovebox.EventFinished, glovebox.Finished{Status: glovebox.StatusComplete}), // 16
	)
	j := apply(t, events)
	if j.Status != glovebox.StatusComplete || j.Phase != glovebox.PhaseDone || j.Seq != 17 || j.Step != 1 || j.Question != "" {
		t.Errorf("got %+v", j)
	}
	if j.Summary != "made it" || j.HowToRun != "run it" || len(j.Verification) != 1 || j.Artifact.SHA256 != "ff" {
		t.Errorf("the result is not there: %+v", j)
	}
	if j.Sandbox.ID != "s2" || j.Sandbox.Lost != 1 {
		t.Errorf("sandbox: %+v", j.Sandbox)
	}
	if want := (&glovebox.Checkpoint{Commit: "c2", Packs: []string{"p1", "p2"}}); !reflect.DeepEqual(j.Checkpoint, want) {
		t.Errorf("checkpoint: got %+v, want %+v", j.Checkpoint, want)
	}
	want := map[glovebox.Phase]int64{
		glovebox.PhaseQueued: 1000, glovebox.PhasePreparing: 2000, glovebox.PhaseWorking: 7000,
		glovebox.PhaseWaiting: 3000, glovebox.PhaseVerifying: 3000,
	}
	if !reflect.DeepEqual(j.PhaseMillis, want) {
		t.Errorf("phases: got %v, want %v", j.PhaseMillis, want)
	}
	if got := j.WorkedFor(start.Add(time.Hour)); got != 12*time.Second {
		t.Errorf("worked for %v, want 12s: queue, waiting and what follows the end do not count", got)
	}
}

func TestApplyResumesAfterASoftLimit(t *testing.T) {
	t.Parallel()
	raised := glovebox.DefaultLimits()
	raised.Steps = 1000
	j := apply(t, history(created(),
		event(glovebox.EventFinished, glovebox.Finished{Status: glovebox.StatusError, Failure: &glovebox.Failure{Code: "limit", Limit: "steps"}}),
		event(glovebox.EventLimitsRaised, glovebox.LimitsRaised{Limits: raised}),
		event(glovebox.EventResumed, glovebox.Resumed{}),
	))
	if j.Status != glovebox.StatusPending || j.Failure != nil || j.FinishedAt != nil || j.Limits.Steps != 1000 {
		t.Errorf("got %+v", j)
	}
}

func TestApplyRefusesWhatDoesNotFollow(t *testing.T) {
	t.Parallel()
	good := apply(t, history(created()))
	before, _ := json.Marshal(good)
	for name, e := range map[string]glovebox.Event{
		"a gap":           {Seq: 3, Type: glovebox.EventClaimed, Data: []byte(`{}`)},
		"the same again":  {Seq: 1, Type: glovebox.EventCreated, Data: []byte(`{}`)},
		"created twice":   {Seq: 2, Type: glovebox.EventCreated, Data: []byte(`{}`)},
		"data of no type": {Seq: 2, Type: glovebox.EventClaimed, Data: []byte(`[]`)},
	} {
		if err := good.Apply(e); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if after, _ := json.Marshal(good); string(after) != string(before) {
		t.Errorf("a refused event changed the job:\n%s\n%s", before, after)
	}
}

func TestApplyDoesNotShareWhatItKeeps(t *testing.T) {
	t.Parallel()
	events := history(created(),
		event(glovebox.EventCheckpoint, glovebox.CheckpointSaved{Commit: "c1", Pack: "p1", Whole: true}),
		event(glovebox.EventCheckpoint, glovebox.CheckpointSaved{Commit: "c2", Pack: "p2"}))
	first := apply(t, events[:2])
	copied := *first
	if err := copied.Apply(events[2]); err != nil {
		t.Fatal(err)
	}
	if len(first.Checkpoint.Packs) != 1 || len(copied.Checkpoint.Packs) != 2 {
		t.Errorf("a copy's event changed the original: %v, %v", first.Checkpoint, copied.Checkpoint)
	}
}

func TestApplyTellsWhoHoldsControl(t *testing.T) {
	t.Parallel()
	events := history(
		created(),
		event(glovebox.EventControl, glovebox.ControlChanged{Control: glovebox.ControlUser, Commit: "c"}),
		event(glovebox.EventSandboxLost, glovebox.SandboxLost{ID: "s"}),
		event(glovebox.EventControl, glovebox.ControlChanged{}),
		event(glovebox.EventControl, glovebox.ControlChanged{Control: glovebox.ControlUser}),
		event(glovebox.EventFinished, glovebox.Finished{Status: glovebox.StatusComplete}),
	)
	for n, want := range map[int]glovebox.Control{1: "", 2: glovebox.ControlUser, 3: glovebox.ControlUser, 4: "", 5: glovebox.ControlUser, 6: ""} {
		if j := apply(t, events[:n]); j.Control != want {
			t.Errorf("after %d events control is with %q", n, j.Control)
		}
	}
}
