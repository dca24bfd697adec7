package glovebox

import "time"

// Step is what happened in one step of a job, and how the job stood at its
// end: what is needed to go through a job from one to the next. Step 0 is what
// came before the first request to the model; each further step begins with a
// request and ends before the next one.
type Step struct {
	Step    int64     `json:"step"`
	First   int64     `json:"first" doc:"Number of its first event."`
	Last    int64     `json:"last" doc:"Number of its last event so far."`
	Time    time.Time `json:"time" doc:"Of its first event."`
	EndTime time.Time `json:"end_time" doc:"Of its last event so far."`

	Tools  []string `json:"tools,omitempty" doc:"Names of the tools that were called, each once, the first 20."`
	Calls  int64    `json:"calls" doc:"Calls of tools that have a result."`
	Failed int64    `json:"failed" doc:"Of them, those whose result is an error."`

	ChangedFiles int64        `json:"changed_files" doc:"Files that changed in the step; those beyond 200 of one checkpoint are not counted."`
	Changes      []FileChange `json:"changes,omitempty" doc:"The first 10 of them; all: GET /jobs/{id}/diff?from=N-1&to=N"`

	// At the end of the step.
	Phase   Phase   `json:"phase" enum:"queued,preparing,working,waiting,verifying,packing,done"`
	Control Control `json:"control,omitempty" enum:"user" doc:"user if a person held mouse and keyboard."`
	PlanSeq int64   `json:"plan_seq,omitempty" doc:"Number of the plan.updated event that holds the plan as it was; absent before there was one."`
	Commit  string  `json:"commit,omitempty" doc:"The workspace as it was kept then; absent before it was first kept."`
	Frame   string  `json:"frame,omitempty" doc:"The screen as it was recorded last: a handle for GET /jobs/{id}/outputs/{handle}, a JPEG."`
	FrameW  int     `json:"frame_width,omitempty"`
	FrameH  int     `json:"frame_height,omitempty"`
	Usage   Usage   `json:"usage" doc:"Of the job from its beginning."`
}

// StepList is one page of a job's steps, in order.
type StepList struct {
	Steps []Step `json:"steps"`
	Seq   int64  `json:"seq" doc:"Number of the newest event that is taken into account."`
	Next  int64  `json:"next" doc:"Give it as ?after= for the next page."`
	More  bool   `json:"more" doc:"Whether there are more already."`
	End   bool   `json:"end" doc:"Whether the job is terminal and this page reaches its last step."`
}

// WorkspaceDiff is how a job's workspace differs between two steps.
type WorkspaceDiff struct {
	From  DiffEnd    `json:"from"`
	To    DiffEnd    `json:"to"`
	Files []FileDiff `json:"files" doc:"In order of path, the first 1,000."`
	More  bool       `json:"more,omitempty" doc:"Whether files were left out."`
}

// DiffEnd is one side of a [WorkspaceDiff].
type DiffEnd struct {
	Step   int64  `json:"step"`
	Commit string `json:"commit,omitempty" doc:"Absent if the workspace was empty, or not kept yet."`
}

// FileDiff is how a file differs.
type FileDiff struct {
	Path    string `json:"path"`
	Status  string `json:"status" enum:"added,deleted,modified"`
	Added   int64  `json:"added" doc:"Lines; -1 where they were not counted."`
	Deleted int64  `json:"deleted" doc:"Lines; -1 where they were not counted."`
	Binary  bool   `json:"binary,omitempty"`
	Large   bool   `json:"large,omitempty" doc:"It, or all that changed together, was too large to be compared."`
	Cut     bool   `json:"cut,omitempty" doc:"Whether text is not all of it: ask with ?path= for this file alone, up to 256 KiB."`
	Text    string `json:"text,omitempty" doc:"Hunks of a unified diff, with three lines of context. Of a symlink, of its target."`
	OldMode string `json:"old_mode,omitempty" enum:"file,executable,symlink"`
	NewMode string `json:"new_mode,omitempty" enum:"file,executable,symlink"`
}
