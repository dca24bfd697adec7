package api

import (
	"context"
	"slices"
	"sync"

	"github.com/glovebox-dev/glovebox"
)

// Bounds of what is remembered of the steps of jobs.
const (
	maxSteps       = 20_000 // of a job; what comes later is part of the last one
	keptSteps      = 60_000 // of all jobs, some 600 bytes each
	stepTools      = 20     // names
	stepChanges    = 10
	stepChangePath = 300 // bytes of a path; longer ones are only counted
	stepPage       = 200 // events that are read at once
)

// kept is one checkpoint of a job.
type kept struct {
	commit, pack string
	whole        bool
}

// story is a log read up to some event, as its steps. It belongs to who holds mu.
type story struct {
	mu    sync.Mutex
	job   string
	seq   int64
	steps []glovebox.Step
	at    []int  // of each step: how many of kept there were at its end
	kept  []kept // checkpoints, in order
	began bool   // the newest step's model call was answered

	used int64 // guarded by stories.mu
	size int   // steps; guarded by stories.mu
}

// stories remembers the steps of the jobs that were looked at last.
type stories struct {
	mu    sync.Mutex
	m     map[string]*story
	clock int64
}

// of returns the story of a job, brought up to date and locked.
func (ss *stories) of(ctx context.Context, s Store, id string) (*story, error) {
	st := ss.get(id)
	st.mu.Lock()
	if err := st.sync(ctx, s); err != nil {
		st.mu.Unlock()
		return nil, err
	}
	ss.trim(st, len(st.steps))
	return st, nil
}

func (ss *stories) get(id string) *story {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if ss.m == nil {
		ss.m = map[string]*story{}
	}
	ss.clock++
	st := ss.m[id]
	if st == nil {
		st = &story{job: id}
		ss.m[id] = st
	}
	st.used = ss.clock
	return st
}

// trim forgets those that were not used for the longest time.
func (ss *stories) trim(st *story, size int) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	st.size = size
	for {
		total := 0
		var oldest *story
		for _, o := range ss.m {
			total += o.size + 1
			if o != st && (oldest == nil || o.used < oldest.used) {
				oldest = o
			}
		}
		if total <= keptSteps || oldest == nil {
			return
		}
		delete(ss.m, oldest.job)
	}
}

// sync reads what is new in the log.
func (st *story) sync(ctx context.Context, s Store) error {
	for {
		events, err := s.Events(ctx, st.job, st.seq, stepPage)
		if err != nil {
			return err
		}
		for _, e := range events {
			if err := st.apply(e); err != nil {
				return err
			}
		}
		if len(events) < stepPage {
			return nil
		}
	}
}

// apply reads the next event.
func (st *story) apply(e glovebox.Event) error {
	if len(st.steps) == 0 {
		st.steps, st.at = []glovebox.Step{{Phase: glovebox.PhaseQueued}}, []int{0}
		st.steps[0].First, st.steps[0].Time = e.Seq, e.Time
	}
	if e.Type == glovebox.EventModelRequested && (st.began || len(st.steps) == 1) && len(st.steps) <= maxSteps {
		st.next(e)
	}
	if read, ok := storyReaders[e.Type]; ok {
		if err := read(st, e); err != nil {
			return err
		}
	}
	last := &st.steps[len(st.steps)-1]
	last.Last, last.EndTime = e.Seq, e.Time
	st.at[len(st.at)-1] = len(st.kept)
	st.seq = e.Seq
	return nil
}

// next begins a step, which stands as the one before ended.
func (st *story) next(e glovebox.Event) {
	p := st.steps[len(st.steps)-1]
	st.steps = append(st.steps, glovebox.Step{
		Step: p.Step + 1, First: e.Seq, Time: e.Time,
		Phase: p.Phase, Control: p.Control, PlanSeq: p.PlanSeq, Commit: p.Commit, Frame: p.Frame, FrameW: p.FrameW, FrameH: p.FrameH, Usage: p.Usage,
	})
	st.at = append(st.at, len(st.kept))
	st.began = false
}

var storyReaders = map[glovebox.EventType]func(*story, glovebox.Event) error{
	glovebox.EventClaimed:  inStep(func(s *glovebox.Step, _ struct{}) { s.Phase = glovebox.PhasePreparing }),
	glovebox.EventReleased: inStep(func(s *glovebox.Step, _ struct{}) { s.Phase = glovebox.PhaseQueued }),
	glovebox.EventResumed:  inStep(func(s *glovebox.Step, _ struct{}) { s.Phase = glovebox.PhaseQueued }),
	glovebox.EventPhase:    inStep(func(s *glovebox.Step, p glovebox.PhaseChanged) { s.Phase = p.Phase }),
	glovebox.EventFinished: inStep(func(s *glovebox.Step, _ struct{}) { s.Phase, s.Control = glovebox.PhaseDone, glovebox.ControlAgent }),
	glovebox.EventControl: inStep(func(s *glovebox.Step, c struct {
		Control glovebox.Control `json:"control"`
	}) {
		s.Control = c.Control
	}),
	glovebox.EventModelAnswered: func(st *story, e glovebox.Event) error {
		st.began = true
		return inStep(func(s *glovebox.Step, a struct {
			Usage glovebox.Usage `json:"usage"`
		}) {
			s.Usage = s.Usage.Add(a.Usage)
		})(st, e)
	},
	glovebox.EventModelFailed: inStep(func(s *glovebox.Step, f glovebox.ModelFailed) { s.Usage = s.Usage.Add(f.Usage) }),
	glovebox.EventToolFinished: inStep(func(s *glovebox.Step, f struct {
		Name    string `json:"name"`
		IsError bool   `json:"is_error"`
	}) {
		s.Calls++
		if f.IsError {
			s.Failed++
		}
		if name := clip(f.Name, 100); len(s.Tools) < stepTools && !slices.Contains(s.Tools, name) {
			s.Tools = append(s.Tools, name)
		}
	}),
	glovebox.EventPlan: func(st *story, e glovebox.Event) error {
		st.steps[len(st.steps)-1].PlanSeq = e.Seq
		return nil
	},
	glovebox.EventCheckpoint: inStory((*story).checkpoint),
	glovebox.EventScreen:     inStory((*story).frame),
}

func inStory[T any](f func(*story, T)) func(*story, glovebox.Event) error {
	return func(st *story, e glovebox.Event) error {
		v, err := glovebox.Decode[T](e)
		if err == nil {
			f(st, v)
		}
		return err
	}
}

func inStep[T any](f func(*glovebox.Step, T)) func(*story, glovebox.Event) error {
	return inStory(func(st *story, v T) { f(&st.steps[len(st.steps)-1], v) })
}

func (st *story) checkpoint(c glovebox.CheckpointSaved) {
	st.kept = append(st.kept, kept{c.Commit, c.Pack, c.Whole})
	s := &st.steps[len(st.steps)-1]
	s.Commit = c.Commit
	s.ChangedFiles += int64(len(c.Changes))
	for _, f := range c.Changes {
		if len(s.Changes) == stepChanges {
			break
		}
		if len(f.Path) <= stepChangePath {
			s.Changes = append(s.Changes, f)
		}
	}
}

// frame adds a picture to its step, which may have ended meanwhile, and to
// those that began since.
func (st *story) frame(c glovebox.ScreenCaptured) {
	for i := len(st.steps) - 1; i >= 0 && st.steps[i].Step >= c.Step; i-- {
		st.steps[i].Frame, st.steps[i].FrameW, st.steps[i].FrameH = c.Blob, c.Width, c.Height
	}
}

// moment is the workspace of a job at the end of a step.
type moment struct {
	step   int64
	commit string   // empty: it was not kept yet
	packs  []string // that hold it, in order
}

// moment returns the workspace at the end of a step, of the newest for -1.
func (st *story) moment(step int64) (moment, bool) {
	if step < 0 {
		step = int64(len(st.steps)) - 1
	}
	if step < 0 || step >= int64(len(st.steps)) {
		return moment{}, false
	}
	m := moment{step: step}
	through := st.kept[:st.at[step]]
	if len(through) == 0 {
		return m, true
	}
	m.commit = through[len(through)-1].commit
	for _, k := range slices.Backward(through) {
		m.packs = append(m.packs, k.pack)
		if k.whole {
			break
		}
	}
	slices.Reverse(m.packs)
	return m, true
}
