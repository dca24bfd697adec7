package glovebox

import (
	"fmt"
	"time"
)

// Apply brings j up to date with the next event of its log. The zero Job and
// all events of a log, in order, give the job. It is a pure function: the same
// events give the same job, whoever applies them. An event that is not the
// next one, or whose data can't be decoded, is an error and changes nothing.
func (j *Job) Apply(e Event) error {
	if e.Seq != j.Seq+1 {
		return Errorf(CodeInternal, "event %d does not follow event %d", e.Seq, j.Seq)
	}
	if (e.Type == EventCreated) != (e.Seq == 1) {
		return Errorf(CodeInternal, "event %d has type %s", e.Seq, e.Type)
	}
	apply, ok := appliers[e.Type]
	if ok { // else it is of no consequence for the state
		if err := apply(j, e); err != nil {
			return err
		}
	}
	j.Seq, j.UpdatedAt = e.Seq, e.Time
	return nil
}

// appliers holds, for each type of event that changes the state, how.
var appliers = map[EventType]func(*Job, Event) error{
	EventCreated: on(func(j *Job, c Created, at time.Time) {
		*j = Job{
			ID: c.ID, Tenant: c.Tenant, Task: c.Task, Model: c.Model, Limits: c.Limits,
			Egress: c.Egress, Files: c.Files, Metadata: c.Metadata, Project: c.Project, CreatedAt: at,
			Status: StatusPending, Phase: PhaseQueued, PhaseSince: at, PhaseMillis: map[Phase]int64{},
		}
	}),
	EventClaimed: on(func(j *Job, c Claimed, at time.Time) {
		if j.Phase.counts() { // its worker died: nobody has worked since its last event
			j.enter(PhaseQueued, j.UpdatedAt)
		}
		j.Status, j.Attempts = StatusRunning, c.Attempt
		j.enter(PhasePreparing, at)
	}),
	EventReleased: on(func(j *Job, _ Released, at time.Time) {
		j.Status = StatusPending
		j.enter(PhaseQueued, at)
	}),
	EventPhase: on(func(j *Job, p PhaseChanged, at time.Time) { j.enter(p.Phase, at) }),
	EventFinished: on(func(j *Job, f Finished, at time.Time) {
		j.Status, j.Failure, j.FinishedAt, j.Question, j.Control = f.Status, f.Failure, &at, "", ControlAgent
		if f.Summary != "" {
			j.Summary = f.Summary
		}
		j.enter(PhaseDone, at)
	}),
	EventResumed: on(func(j *Job, _ Resumed, at time.Time) {
		j.Status, j.Failure, j.FinishedAt = StatusPending, nil, nil
		j.enter(PhaseQueued, at)
	}),
	EventLimitsRaised: on(func(j *Job, l LimitsRaised, _ time.Time) { j.Limits = l.Limits }),
	EventUserMessage:  on(func(j *Job, _ UserMessage, _ time.Time) { j.Question = "" }),
	EventSandboxReady: on(func(j *Job, s SandboxReady, _ time.Time) {
		lost := int64(0)
		if j.Sandbox != nil {
			lost = j.Sandbox.Lost
		}
		j.Sandbox = &SandboxInfo{ID: s.ID, Driver: s.Driver, Enforced: s.Enforced, Lost: lost}
	}),
	EventSandboxLost: on(func(j *Job, _ SandboxLost, _ time.Time) {
		if j.Sandbox != nil {
			s := *j.Sandbox
			s.ID = ""
			s.Lost++
			j.Sandbox = &s
		}
	}),
	EventModelRequested: on(func(j *Job, r ModelRequested, _ time.Time) {
		j.remember(func(m *MemoryState) { m.Use = r.Use })
	}),
	EventModelAnswered: on(func(j *Job, a ModelAnswered, _ time.Time) {
		j.Step++
		j.Usage = j.Usage.Add(a.Usage)
		j.remember(func(m *MemoryState) { m.Calls = m.Calls.Add(a.Usage) })
	}),
	EventModelFailed: on(func(j *Job, f ModelFailed, _ time.Time) { j.Usage = j.Usage.Add(f.Usage) }),
	EventPlan:        on(func(j *Job, p PlanUpdated, _ time.Time) { j.Plan = p.Steps }),
	EventQuestion:    on(func(j *Job, q QuestionAsked, _ time.Time) { j.Question = q.Text }),
	EventToolFinished: on(func(j *Job, t ToolFinished, _ time.Time) {
		if t.Name == "ask_user" {
			j.Question = ""
		}
	}),
	EventCheckpoint: on(func(j *Job, c CheckpointSaved, _ time.Time) {
		var packs []string
		if j.Checkpoint != nil && !c.Whole {
			packs = append(packs, j.Checkpoint.Packs...)
		}
		j.Checkpoint = &Checkpoint{Commit: c.Commit, Packs: append(packs, c.Pack)}
	}),
	EventVerified: on(func(j *Job, v Verified, _ time.Time) {
		j.Verification, j.Summary, j.HowToRun = v.Proofs, v.Summary, v.HowToRun
	}),
	EventControl: on(func(j *Job, c ControlChanged, _ time.Time) { j.Control = c.Control }),
	EventSummarized: on(func(j *Job, s Summarized, _ time.Time) {
		j.Usage = j.Usage.Add(s.Usage)
		j.remember(func(m *MemoryState) {
			m.Usage = m.Usage.Add(s.Usage)
			m.Summaries += int64(len(s.Summaries))
			for _, x := range s.Summaries {
				if x.By == SummaryByDigest {
					m.Digests++
				}
			}
		})
	}),
	EventFolded: on(func(j *Job, f Folded, _ time.Time) {
		j.remember(func(m *MemoryState) {
			m.Folds++
			m.Epoch, m.Through, m.Reason, m.Use, m.Calls = f.Epoch, f.Through, f.Reason, f.Use, Usage{}
		})
	}),
	EventModelChanged: on(func(j *Job, m ModelChanged, _ time.Time) { j.Model = m.Model }),
	EventArtifact:     on(func(j *Job, a ArtifactSaved, _ time.Time) { j.Artifact = &a.Artifact }),
}

func on[T any](apply func(*Job, T, time.Time)) func(*Job, Event) error {
	return func(j *Job, e Event) error {
		v, err := Decode[T](e)
		if err != nil {
			return err
		}
		apply(j, v, e.Time)
		return nil
	}
}

// remember changes the state of the memory in a copy, since jobs are handed out.
func (j *Job) remember(change func(*MemoryState)) {
	m := MemoryState{Epoch: 1}
	if j.Memory != nil {
		m = *j.Memory
	}
	change(&m)
	j.Memory = &m
}

// enter ends the phase that j is in and begins p.
func (j *Job) enter(p Phase, at time.Time) {
	spent := make(map[Phase]int64, len(j.PhaseMillis)+1)
	for k, v := range j.PhaseMillis {
		spent[k] = v
	}
	spent[j.Phase] += max(0, at.Sub(j.PhaseSince).Milliseconds())
	j.PhaseMillis, j.Phase, j.PhaseSince = spent, p, at
}

// WorkedFor returns the time that counts against [Limits.WallTimeSeconds] at
// now: all but the time in the queue and waiting for a person.
func (j *Job) WorkedFor(now time.Time) time.Duration {
	var ms int64
	for p, v := range j.PhaseMillis {
		if p.counts() {
			ms += v
		}
	}
	if j.Phase.counts() {
		ms += max(0, now.Sub(j.PhaseSince).Milliseconds())
	}
	return time.Duration(ms) * time.Millisecond
}

func (p Phase) counts() bool { return p != PhaseQueued && p != PhaseWaiting && p != PhaseDone }

// String returns the id and status of a job.
func (j *Job) String() string { return fmt.Sprintf("job %s (%s)", j.ID, j.Status) }
