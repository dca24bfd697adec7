package glovebox

import "time"

// MaxViewTask is how many bytes of a task are in a [JobView].
const MaxViewTask = 2 << 10

// JobView is the state of a job as the API shows it.
type JobView struct {
	JobID         string            `json:"job_id"`
	Status        Status            `json:"status" enum:"pending,running,complete,error,cancelled"`
	Phase         Phase             `json:"phase" enum:"queued,preparing,working,waiting,verifying,packing,done"`
	PhaseSince    time.Time         `json:"phase_since"`
	PhaseMS       map[Phase]int64   `json:"phase_ms" doc:"Milliseconds spent in each phase, in the current one until now."`
	QueuePosition int64             `json:"queue_position,omitempty" doc:"1 for the job that is claimed next. Only while pending."`
	Seq           int64             `json:"seq" doc:"Number of the newest event. It grows with every change."`
	CreatedAt     time.Time         `json:"created_at"`
	FinishedAt    *time.Time        `json:"finished_at,omitempty"`
	Task          string            `json:"task" doc:"The first 2 KiB; the whole is in event 1."`
	TaskBytes     int64             `json:"task_bytes" doc:"Length of the whole task."`
	Model         string            `json:"model"`
	Step          int64             `json:"step" doc:"Answers of the model so far."`
	Plan          []PlanStep        `json:"plan,omitempty"`
	Question      string            `json:"question,omitempty" doc:"What the agent asks; answer with POST /jobs/{id}/messages."`
	Usage         UsageView         `json:"usage"`
	Limits        Limits            `json:"limits"`
	Egress        Egress            `json:"egress,omitzero"`
	Files         *Files            `json:"files,omitempty"`
	Metadata      map[string]string `json:"metadata,omitempty"`
	Sandbox       *SandboxInfo      `json:"sandbox,omitempty"`
	Control       Control           `json:"control,omitempty" enum:"user" doc:"user while a person holds mouse and keyboard."`
	Memory        *MemoryView       `json:"memory,omitempty" doc:"What the model has before it. Absent before it was first asked."`
	Project       string            `json:"project,omitempty" doc:"The project whose memory is brought in at the job's start and added to at its end."`
	Attempts      int64             `json:"attempts" doc:"Times that a worker claimed the job."`
	Summary       string            `json:"summary,omitempty"`
	HowToRun      string            `json:"how_to_run,omitempty"`
	Verification  []Proof           `json:"verification,omitempty" doc:"Commands that were run as proof, and how they ended."`
	Error         *Failure          `json:"error,omitempty"`
	DownloadURL   string            `json:"download_url,omitempty" doc:"The project as a zip; relative to the server."`
	Artifact      *ArtifactView     `json:"artifact,omitempty"`
	Links         JobLinks          `json:"links"`
}

// UsageView is [Usage] with its sums.
type UsageView struct {
	Usage
	Tokens  int64   `json:"tokens" doc:"All tokens, read and written."`
	CostUSD float64 `json:"cost_usd" doc:"cost_micros in dollars."`
}

// MemoryView is [MemoryState] with its sums.
type MemoryView struct {
	MemoryState
	Tokens          int64   `json:"tokens" doc:"Of the newest request, about: head, folded and tail."`
	CacheShare      float64 `json:"cache_share" doc:"Share of all input of the job that was read from the provider's cache, from 0 to 1."`
	EpochCacheShare float64 `json:"epoch_cache_share" doc:"The same of the calls since the newest fold."`
	CostUSD         float64 `json:"cost_usd" doc:"What the summaries cost, in dollars."`
}

// newMemoryView returns the view of a job's memory, nil if it has none yet.
func newMemoryView(j *Job) *MemoryView {
	if j.Memory == nil {
		return nil
	}
	return &MemoryView{
		MemoryState: *j.Memory, Tokens: j.Memory.Use.Tokens(),
		CacheShare: j.Usage.CacheShare(), EpochCacheShare: j.Memory.Calls.CacheShare(), CostUSD: float64(j.Memory.Usage.CostMicros) / 1e6,
	}
}

// ArtifactView is what a client needs of an [Artifact].
type ArtifactView struct {
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
	Files  int64  `json:"files"`
}

// JobLinks are the paths of a job, relative to the server.
type JobLinks struct {
	Status   string `json:"status"`
	Events   string `json:"events"`
	Files    string `json:"files"`
	Messages string `json:"messages"`
	Cancel   string `json:"cancel"`
	Limits   string `json:"limits"`
	Artifact string `json:"artifact,omitempty"`
}

// NewJobView returns the view of j at now.
func NewJobView(j *Job, queuePosition int64, now time.Time) *JobView {
	base := "/jobs/" + j.ID
	v := &JobView{
		JobID: j.ID, Status: j.Status, Phase: j.Phase, PhaseSince: j.PhaseSince, QueuePosition: queuePosition,
		Seq: j.Seq, CreatedAt: j.CreatedAt, FinishedAt: j.FinishedAt, Task: clip(j.Task, MaxViewTask), TaskBytes: int64(len(j.Task)),
		Model: j.Model, Step: j.Step, Plan: j.Plan, Question: j.Question,
		Usage:  UsageView{Usage: j.Usage, Tokens: j.Usage.Tokens(), CostUSD: float64(j.Usage.CostMicros) / 1e6},
		Limits: j.Limits, Egress: j.Egress, Files: j.Files, Metadata: j.Metadata, Sandbox: j.Sandbox, Control: j.Control, Attempts: j.Attempts,
		Memory: newMemoryView(j), Project: j.Project,
		Summary: j.Summary, HowToRun: j.HowToRun, Verification: j.Verification, Error: j.Failure,
		Links: JobLinks{Status: "/status/" + j.ID, Events: base + "/events", Files: base + "/files/", Messages: base + "/messages", Cancel: base + "/cancel", Limits: base + "/limits"},
	}
	v.PhaseMS = make(map[Phase]int64, len(j.PhaseMillis)+1)
	for p, ms := range j.PhaseMillis {
		v.PhaseMS[p] = ms
	}
	if !j.Status.Terminal() {
		v.PhaseMS[j.Phase] += max(0, now.Sub(j.PhaseSince).Milliseconds())
	}
	if a := j.Artifact; a != nil {
		v.Artifact = &ArtifactView{SHA256: a.SHA256, Size: a.Size, Files: a.Files}
		v.Links.Artifact = base + "/artifact.zip"
		if j.Status == StatusComplete {
			v.DownloadURL = v.Links.Artifact
		}
	}
	return v
}

// JobList is one page of jobs, newest first.
type JobList struct {
	Jobs   []*JobView `json:"jobs"`
	Cursor string     `json:"cursor,omitempty" doc:"Give it as ?cursor= for the next page; absent on the last."`
}

// EventList is one page of a job's events, in order.
type EventList struct {
	Events []Event `json:"events"`
	Next   int64   `json:"next" doc:"Give it as ?after= for the next page."`
	More   bool    `json:"more" doc:"Whether there are more already."`
	End    bool    `json:"end" doc:"Whether the job is terminal and this page reaches its last event."`
}

// DirEntry is one entry of a [DirList].
type DirEntry struct {
	Name    string     `json:"name"`
	Type    string     `json:"type" enum:"file,dir,symlink,other"`
	Size    int64      `json:"size,omitempty"`
	ModTime *time.Time `json:"mod_time,omitempty"`
}

// DirList is a directory of a job's project.
type DirList struct {
	Path    string     `json:"path"`
	Entries []DirEntry `json:"entries"`
	More    bool       `json:"more,omitempty" doc:"Whether entries were left out: at most 10,000 are listed."`
}

// ArtifactFile is one file of a [Manifest].
type ArtifactFile struct {
	Path       string    `json:"path"`
	Size       int64     `json:"size"`
	Compressed int64     `json:"compressed"`
	CRC32      uint32    `json:"crc32"`
	Executable bool      `json:"executable,omitempty"`
	ModTime    time.Time `json:"mod_time"`
}

// Manifest says what is in a job's artifact, and what is not and why.
type Manifest struct {
	ArtifactView
	DownloadURL string         `json:"download_url"`
	Entries     []ArtifactFile `json:"entries"`
	More        bool           `json:"more,omitempty" doc:"Whether entries were left out: at most 20,000 are listed."`
	Skipped     []SkippedPath  `json:"skipped"`
}
