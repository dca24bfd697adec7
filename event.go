package glovebox

import (
	"encoding/json"
	"time"
)

// Event is one entry of a job's log. Events are numbered from 1 without gaps
// and never change.
type Event struct {
	Seq  int64           `json:"seq"`
	Time time.Time       `json:"time"`
	Type EventType       `json:"type"`
	Data json.RawMessage `json:"data"`

	ahead any // what Decode returns, where it was read ahead
}

// EventType says which of the types below an event's Data is.
type EventType string

// The types of event, each with the type of its data.
const (
	EventCreated        EventType = "job.created"       // Created
	EventClaimed        EventType = "job.claimed"       // Claimed
	EventReleased       EventType = "job.released"      // Released
	EventPhase          EventType = "job.phase"         // PhaseChanged
	EventResumed        EventType = "job.resumed"       // Resumed
	EventFinished       EventType = "job.finished"      // Finished
	EventLimitsRaised   EventType = "limits.raised"     // LimitsRaised
	EventUserMessage    EventType = "user.message"      // UserMessage
	EventSandboxAwaited EventType = "sandbox.awaited"   // SandboxAwaited
	EventSandboxReady   EventType = "sandbox.ready"     // SandboxReady
	EventSandboxLost    EventType = "sandbox.lost"      // SandboxLost
	EventModelRequested EventType = "model.requested"   // ModelRequested
	EventModelAnswered  EventType = "model.answered"    // ModelAnswered
	EventModelFailed    EventType = "model.failed"      // ModelFailed
	EventModelDelta     EventType = "model.delta"       // ModelDelta; live only, never in the log
	EventToolStarted    EventType = "tool.started"      // ToolStarted
	EventToolOutput     EventType = "tool.output"       // ToolOutput; live only, never in the log
	EventToolFinished   EventType = "tool.finished"     // ToolFinished
	EventNotice         EventType = "notice"            // Notice
	EventPlan           EventType = "plan.updated"      // PlanUpdated
	EventQuestion       EventType = "question.asked"    // QuestionAsked
	EventCheckpoint     EventType = "checkpoint.saved"  // CheckpointSaved
	EventEgress         EventType = "egress.attempted"  // EgressAttempted
	EventVerified       EventType = "project.verified"  // Verified
	EventArtifact       EventType = "artifact.saved"    // ArtifactSaved
	EventSummaries      EventType = "memory.requested"  // SummariesRequested
	EventSummarized     EventType = "memory.summarized" // Summarized
	EventFolded         EventType = "memory.folded"     // Folded
	EventInstructions   EventType = "instructions.read" // InstructionsRead
	EventProject        EventType = "project.recalled"  // ProjectRecalled
	EventModelChanged   EventType = "model.changed"     // ModelChanged
	EventControl        EventType = "control.changed"   // ControlChanged
	EventScreen         EventType = "screen.captured"   // ScreenCaptured
)

// Created is the first event of every job.
type Created struct {
	ID       string            `json:"id"`
	Tenant   string            `json:"tenant"`
	Task     string            `json:"task"`
	Model    string            `json:"model"`
	Limits   Limits            `json:"limits"`
	Egress   Egress            `json:"egress"`
	Files    *Files            `json:"files,omitempty"`
	Metadata map[string]string `json:"metadata,omitempty"`
	Project  string            `json:"project,omitempty"` // whose memory is brought in and added to; empty for none
}

// Claimed says that a worker took the job.
type Claimed struct {
	Worker  string `json:"worker"`
	Fence   int64  `json:"fence"`
	Attempt int64  `json:"attempt"`
}

// Released says that a worker gave the job back unfinished, to be claimed by
// another: it is shutting down.
type Released struct {
	Reason string `json:"reason"`
}

// PhaseChanged says what the job does from here on.
type PhaseChanged struct {
	Phase Phase `json:"phase"`
}

// Resumed takes a job that stopped at a soft limit back to the queue.
type Resumed struct {
	Reason string `json:"reason"`
}

// Finished is the terminal event. Nothing follows it but, at most, a
// LimitsRaised and a Resumed made by a person.
type Finished struct {
	Status  Status   `json:"status"`
	Summary string   `json:"summary,omitempty"`
	Failure *Failure `json:"failure,omitempty"`
}

// LimitsRaised replaces the job's limits.
type LimitsRaised struct {
	Limits Limits `json:"limits"`
}

// UserMessage is what the user said to a running job.
type UserMessage struct {
	Text string `json:"text"`           // at most MaxSignalText bytes
	Blob string `json:"blob,omitempty"` // handle of the whole, where Text is only its beginning
	Size int64  `json:"size,omitempty"` // of the whole, in bytes, where there is a Blob
}

// SandboxAwaited says what takes long before the job's sandbox can be made, such
// as an image that is copied to where it is needed for the first time.
type SandboxAwaited struct {
	Reason string `json:"reason"`
}

// SandboxReady says that the job has a sandbox whose guest answers.
type SandboxReady struct {
	ID         string            `json:"id"`
	Driver     string            `json:"driver"`
	How        string            `json:"how"`                  // "created", "found" after a restart, or "rebuilt" from a checkpoint
	Start      string            `json:"start,omitempty"`      // of a new one: "cold", "template" or "pool"
	StartNote  string            `json:"start_note,omitempty"` // why it started cold, where there could be a template
	Enforced   map[string]string `json:"enforced"`
	Commit     string            `json:"commit,omitempty"` // what the workspace was rebuilt from
	DurationMS int64             `json:"duration_ms"`
}

// SandboxLost says that a sandbox died under the job.
type SandboxLost struct {
	ID    string `json:"id"`
	Cause string `json:"cause"`
}

// ModelRequested is recorded before a model is called. Its number and the
// events before it determine the request, byte for byte.
type ModelRequested struct {
	Step       int64  `json:"step"`
	Attempt    int64  `json:"attempt"` // 1, and more when a failed call is repeated
	Model      string `json:"model"`
	RequestSHA string `json:"request_sha256"`       // of the request in our own encoding, in hex
	MaxTokens  int64  `json:"max_tokens"`           // the worst case of this call: tokens in and out
	MaxMicros  int64  `json:"max_micros,omitempty"` // the worst case of this call: millionths of a dollar
	MaxOutput  int64  `json:"max_output"`           // tokens that the model may write

	Use WindowUse `json:"use,omitzero"` // what the request is made of
}

// ModelAnswered is a whole answer of the model.
type ModelAnswered struct {
	Message    Message `json:"message"`
	StopReason string  `json:"stop_reason"`
	Usage      Usage   `json:"usage"`
	DurationMS int64   `json:"duration_ms"`
	FirstMS    int64   `json:"first_ms"` // to the first token
}

// ModelFailed is a call of the model without an answer.
type ModelFailed struct {
	Kind    string `json:"kind"` // of llm.Error
	Message string `json:"message"`
	Retry   bool   `json:"retry"`
	WaitMS  int64  `json:"wait_ms,omitempty"` // before the retry
	Usage   Usage  `json:"usage"`             // what the failed call cost, where known
}

// ModelDelta is a piece of an answer as it arrives.
type ModelDelta struct {
	Type BlockType `json:"type"`           // text, reasoning or tool_use
	Text string    `json:"text"`           // of a tool_use: a piece of its input, as written
	Name string    `json:"name,omitempty"` // the tool, in the first piece of a tool_use
}

// ToolStarted is recorded before a tool acts. One without a ToolFinished has
// an unknown outcome.
type ToolStarted struct {
	CallID string          `json:"call_id"`
	Name   string          `json:"name"`
	Input  json.RawMessage `json:"input"`
}

// ToolOutput is a piece of a tool's output as it is written.
type ToolOutput struct {
	CallID string `json:"call_id"`
	Text   string `json:"text"`
}

// UnknownOutcome begins the text of every ToolFinished with Unknown, and of no
// other that Glovebox itself writes.
const UnknownOutcome = "Outcome unknown"

// ToolFinished is the result of a tool, as the model sees it.
type ToolFinished struct {
	CallID     string  `json:"call_id"`
	Name       string  `json:"name"`
	Content    []Block `json:"content"`
	IsError    bool    `json:"is_error,omitempty"`
	Unknown    bool    `json:"unknown,omitempty"` // it was interrupted: nobody knows what it did
	Blob       string  `json:"blob,omitempty"`    // the whole output, where Content is cut
	DurationMS int64   `json:"duration_ms"`
}

// Notice is what Glovebox itself tells the model and the user: the tool call
// that is repeated without progress, the sandbox that was rebuilt.
type Notice struct {
	Text string `json:"text"`
}

// PlanUpdated replaces the plan.
type PlanUpdated struct {
	Steps []PlanStep `json:"steps"`
}

// QuestionAsked says that the agent waits for a message of the user.
type QuestionAsked struct {
	CallID string    `json:"call_id"`
	Text   string    `json:"text"`
	Until  time.Time `json:"until"` // when it goes on without an answer
}

// CheckpointSaved says that the workspace was copied off the sandbox.
type CheckpointSaved struct {
	Commit  string       `json:"commit"`
	Parent  string       `json:"parent,omitempty"`
	Pack    string       `json:"pack"`              // key of the blob
	Size    int64        `json:"size"`              // of the pack, in bytes
	Whole   bool         `json:"whole,omitempty"`   // the pack holds everything; earlier ones are not needed
	Changes []FileChange `json:"changes,omitempty"` // the first 200
}

// FileChange is a file that changed since the checkpoint before.
type FileChange struct {
	Path    string `json:"path"`
	Added   int64  `json:"added"`   // lines; -1 for a binary file
	Deleted int64  `json:"deleted"` // lines; -1 for a binary file
}

// EgressAttempted is one attempt to reach something outside the sandbox.
type EgressAttempted struct {
	Host      string `json:"host"`
	Port      int    `json:"port"`
	Allowed   bool   `json:"allowed"`
	Reason    string `json:"reason"`
	BytesUp   int64  `json:"bytes_up"`
	BytesDown int64  `json:"bytes_down"`
	Count     int64  `json:"count"`            // attempts that this event stands for
	Cached    bool   `json:"cached,omitempty"` // answered from what the host keeps: the bytes crossed no network
}

// Verified is the result of the proofs that the agent offered.
type Verified struct {
	Passed   bool    `json:"passed"`
	Summary  string  `json:"summary"`
	HowToRun string  `json:"how_to_run"`
	Proofs   []Proof `json:"proofs"`
}

// ArtifactSaved says that the project can be downloaded.
type ArtifactSaved struct {
	Artifact Artifact `json:"artifact"`
}

// ControlChanged says who holds the mouse and the keyboard from here on.
type ControlChanged struct {
	Control Control `json:"control"`

	// When a person takes them: what the machine was like then, where that
	// could be found out.
	Sandbox string      `json:"sandbox,omitempty"` // its id
	Commit  string      `json:"commit,omitempty"`  // of the workspace
	Windows []WindowRef `json:"windows,omitempty"` // the first 50

	// When they come back to the agent: what the person changed meanwhile.
	Changes []FileChange `json:"changes,omitempty"` // the first 200
	Opened  []string     `json:"opened,omitempty"`  // titles of windows that are new, the first 20
	Closed  []string     `json:"closed,omitempty"`  // titles of windows that are gone, the first 20
}

// WindowRef names a window of the desktop.
type WindowRef struct {
	ID    uint32 `json:"id"`    // of X; means nothing in another machine
	Title string `json:"title"` // at most 200 bytes
}

// ScreenCaptured is a key frame of the recording: the screen as it was after
// a step, where it differs from the frame before.
type ScreenCaptured struct {
	Step   int64  `json:"step"`
	Blob   string `json:"blob"`  // a handle of the job's outputs; a JPEG
	Width  int    `json:"width"` // of the picture, in pixels
	Height int    `json:"height"`
}

// NewEvent returns an unnumbered event with data encoded as JSON. It panics
// if data can't be encoded, which no type of this file can cause.
func NewEvent(now time.Time, typ EventType, data any) Event {
	b, err := json.Marshal(data)
	if err != nil {
		panic("glovebox: encode " + string(typ) + ": " + err.Error())
	}
	return Event{Time: now.UTC(), Type: typ, Data: b}
}

// ReadAhead returns e with its data decoded, so that many readers of the same
// event need not each do so: they share what [Decode] returns, and must not
// change it. Where a long log is read, that is most of the work, and may be
// done by several goroutines.
func (e Event) ReadAhead() Event {
	var err error
	switch e.Type {
	case EventModelAnswered:
		e.ahead, err = Decode[ModelAnswered](e)
	case EventToolStarted:
		e.ahead, err = Decode[ToolStarted](e)
	case EventToolFinished:
		e.ahead, err = Decode[ToolFinished](e)
	case EventModelRequested:
		e.ahead, err = Decode[ModelRequested](e)
	case EventUserMessage:
		e.ahead, err = Decode[UserMessage](e)
	case EventNotice:
		e.ahead, err = Decode[Notice](e)
	case EventSummarized:
		e.ahead, err = Decode[Summarized](e)
	case EventCheckpoint:
		e.ahead, err = Decode[CheckpointSaved](e)
	}
	if err != nil {
		e.ahead = nil // who decodes it meets the error
	}
	return e
}

// Decode returns the data of an event as a T.
func Decode[T any](e Event) (T, error) {
	if v, ok := e.ahead.(T); ok {
		return v, nil
	}
	var v T
	if err := json.Unmarshal(e.Data, &v); err != nil {
		return v, Errorf(CodeInternal, "decode event %d (%s): %w", e.Seq, e.Type, err)
	}
	return v, nil
}
