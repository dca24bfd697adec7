package glovebox

import "time"

// Status is the state of a job that a user sees. Complete, Error and
// Cancelled are terminal; a job reaches exactly one of them, once. The one
// exception is made by a person: raising a soft limit that stopped a job
// takes it from Error back to Pending.
type Status string

// The statuses.
const (
	StatusPending   Status = "pending"   // waits for a worker
	StatusRunning   Status = "running"   // a worker holds it
	StatusComplete  Status = "complete"  // the project is there, and verified
	StatusError     Status = "error"     // it ended without a verified project
	StatusCancelled Status = "cancelled" // the user ended it
)

// Terminal reports whether s is final.
func (s Status) Terminal() bool {
	return s == StatusComplete || s == StatusError || s == StatusCancelled
}

// Phase is what a job is doing within its status.
type Phase string

// The phases, in the order in which a job usually passes through them.
const (
	PhaseQueued    Phase = "queued"    // waits for a worker
	PhasePreparing Phase = "preparing" // its sandbox is made or found again
	PhaseWorking   Phase = "working"   // the loop runs
	PhaseWaiting   Phase = "waiting"   // the agent asked the user something
	PhaseVerifying Phase = "verifying" // the proofs are run
	PhasePacking   Phase = "packing"   // the artifact is made
	PhaseDone      Phase = "done"      // terminal
)

// Job is one run of a task: what was asked, and the state that its events
// amount to.
type Job struct {
	// What was asked. Constant, but for Limits, which can be raised.
	ID        string            `json:"id"`
	Tenant    string            `json:"tenant"`
	Task      string            `json:"task"`
	Model     string            `json:"model"` // "provider:model"
	Limits    Limits            `json:"limits"`
	Egress    Egress            `json:"egress"`
	Files     *Files            `json:"files,omitempty"`
	Metadata  map[string]string `json:"metadata,omitempty"`
	CreatedAt time.Time         `json:"created_at"`

	// The state, computed from the events by Apply.
	Seq          int64           `json:"seq"`        // number of the newest event
	UpdatedAt    time.Time       `json:"updated_at"` // when it was recorded
	Status       Status          `json:"status"`
	Phase        Phase           `json:"phase"`
	PhaseSince   time.Time       `json:"phase_since"`
	PhaseMillis  map[Phase]int64 `json:"phase_millis"` // time spent in each phase that has ended
	Step         int64           `json:"step"`         // answers of the model so far
	Plan         []PlanStep      `json:"plan,omitempty"`
	Question     string          `json:"question,omitempty"` // asked of the user, unanswered
	Usage        Usage           `json:"usage"`
	Summary      string          `json:"summary,omitempty"`
	HowToRun     string          `json:"how_to_run,omitempty"`
	Verification []Proof         `json:"verification,omitempty"`
	Artifact     *Artifact       `json:"artifact,omitempty"`
	Failure      *Failure        `json:"failure,omitempty"` // set exactly when Status is Error
	Sandbox      *SandboxInfo    `json:"sandbox,omitempty"`
	Control      Control         `json:"control,omitempty"` // who holds mouse and keyboard
	Checkpoint   *Checkpoint     `json:"checkpoint,omitempty"`
	Memory       *MemoryState    `json:"memory,omitempty"`  // nil before the model was first asked
	Project      string          `json:"project,omitempty"` // whose memory is brought in and added to; empty for none
	Attempts     int64           `json:"attempts"`          // times that a worker claimed it
	FinishedAt   *time.Time      `json:"finished_at,omitempty"`
}

// Files is what a job starts from, beside its task: an archive that was
// uploaded, or a git repository. At most one is set.
type Files struct {
	Blob   string `json:"blob,omitempty"` // key of the uploaded archive (zip or tar.gz)
	GitURL string `json:"git_url,omitempty"`
	GitRef string `json:"git_ref,omitempty"`
}

// PlanStep is one step of the agent's plan.
type PlanStep struct {
	Text   string     `json:"text"`
	Status PlanStatus `json:"status"`
}

// PlanStatus is how far a [PlanStep] is.
type PlanStatus string

// The statuses of a step.
const (
	PlanPending PlanStatus = "pending"
	PlanActive  PlanStatus = "active"
	PlanDone    PlanStatus = "done"
)

// Proof is something that was done to verify the project, and how it ended:
// a command that was run, or a page that was opened.
type Proof struct {
	Command    string `json:"command,omitempty"`
	ExitCode   int    `json:"exit_code"` // 0 means that the proof holds, of a page too
	Output     string `json:"output"`    // the end of it, at most 4 KiB; of a page: what is wrong with it
	DurationMS int64  `json:"duration_ms"`

	// A page that was opened in the sandbox's browser.
	Page       string   `json:"page,omitempty"` // its URL
	Title      string   `json:"title,omitempty"`
	Screenshot string   `json:"screenshot,omitempty"` // a handle of the job's outputs; a PNG
	Console    []string `json:"console,omitempty"`    // errors of the console, the first 20 of at most 500 bytes
}

// Control says who holds the mouse and the keyboard of a job's machine.
type Control string

// Who may hold them.
const (
	ControlAgent Control = ""     // the agent; people watch
	ControlUser  Control = "user" // a person; the agent's gui tool waits
)

// Failure is why a job ended in error, for the person who asked for it.
type Failure struct {
	Code    string `json:"code"`            // e.g. "limit", "model", "sandbox", "loop", "internal"
	Limit   string `json:"limit,omitempty"` // the field of Limits that was reached, if one was
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

// Artifact describes the finished project as a zip.
type Artifact struct {
	Blob    string        `json:"blob"`
	SHA256  string        `json:"sha256"` // of the zip, in hex
	Size    int64         `json:"size"`   // of the zip, in bytes
	Files   int64         `json:"files"`
	Skipped []SkippedPath `json:"skipped,omitempty"` // the first 100
}

// SkippedPath is something in the workspace that is not in the artifact.
type SkippedPath struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

// Checkpoint is the newest copy of the workspace kept off the sandbox: a git
// commit, in a chain of packs of which the first is whole and the others are
// incremental.
type Checkpoint struct {
	Commit string   `json:"commit"`
	Packs  []string `json:"packs"` // keys of blobs, in the order in which to apply them
}

// SandboxInfo says where a job runs and what holds it within its limits.
type SandboxInfo struct {
	ID       string            `json:"id"` // empty after it was lost, until the next one is ready
	Driver   string            `json:"driver"`
	Enforced map[string]string `json:"enforced"` // limit -> what enforces it, e.g. "memory_bytes": "cgroup v2"
	Lost     int64             `json:"lost"`     // sandboxes of this job that died
}

// Egress is what a job may reach from its sandbox. The zero value is the
// server's default policy.
type Egress struct {
	Mode  EgressMode `json:"mode,omitempty"`
	Allow []string   `json:"allow,omitempty"` // "host", "host:port", ".suffix", ".suffix:port"; port 443 and 80 if not named
}

// EgressMode says how [Egress.Allow] relates to the server's default policy.
type EgressMode string

// The modes.
const (
	EgressDefault EgressMode = ""       // the server's default: package registries
	EgressNone    EgressMode = "none"   // nothing; Allow must be empty
	EgressOnly    EgressMode = "only"   // what Allow lists, and nothing else
	EgressExtend  EgressMode = "extend" // the server's default and what Allow lists
)
