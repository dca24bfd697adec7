package glovebox

// Span is a gap-free range of a job's events. Level 0 is a stretch of the
// conversation; a span of level n+1 is made of spans of level n.
type Span struct {
	Level   int   `json:"level"`
	From    int64 `json:"from"`    // number of the first event
	Through int64 `json:"through"` // number of the last event
}

// Summary stands for a span in the request to the model. It is made once and
// never changes. It is data: nothing in it can change a rule, a limit or what
// the job may reach.
type Summary struct {
	Span
	By   SummaryBy `json:"by"`
	Text string    `json:"text"` // at most MaxSummary bytes
}

// MaxSummary is the most bytes of text in a [Summary].
const MaxSummary = 6 << 10

// SummaryBy says who wrote a [Summary].
type SummaryBy string

// Who may write one.
const (
	SummaryByModel  SummaryBy = "model"
	SummaryByDigest SummaryBy = "digest" // derived from the events, where no model could or should write it
)

// SummariesRequested is recorded before a model is asked for summaries. One
// without a Summarized was interrupted, and counts at its worst case.
type SummariesRequested struct {
	Spans     []Span `json:"spans"`
	Attempt   int64  `json:"attempt"` // of the first span; a span is asked for twice at most
	Model     string `json:"model"`
	MaxTokens int64  `json:"max_tokens"`           // the worst case of this call: tokens in and out
	MaxMicros int64  `json:"max_micros,omitempty"` // the worst case of this call: millionths of a dollar
	MaxOutput int64  `json:"max_output"`           // tokens that the model may write
}

// Summarized keeps summaries. Those that the model wrote follow a
// SummariesRequested; digests may come alone.
type Summarized struct {
	Summaries  []Summary `json:"summaries"`
	Asked      bool      `json:"asked,omitempty"`   // it ends the newest SummariesRequested
	Problem    string    `json:"problem,omitempty"` // what was wrong with the answer, where spans were left out
	Usage      Usage     `json:"usage"`
	DurationMS int64     `json:"duration_ms,omitempty"`
}

// Folded opens a new epoch: from here on the request is the head, summaries of
// what happened up to Through, and what came after it word for word, without
// reasoning.
type Folded struct {
	Epoch    int64      `json:"epoch"`   // of the requests that follow; the first epoch is 1
	Through  int64      `json:"through"` // summaries stand for the events up to this one
	Reason   FoldReason `json:"reason"`
	Before   int64      `json:"before"` // tokens of the request before it, about
	Use      WindowUse  `json:"use"`    // of the first request after it
	Recalled []Quote    `json:"recalled,omitempty"`
}

// FoldReason says why an epoch began.
type FoldReason string

// The reasons.
const (
	FoldFull    FoldReason = "full"    // the high-water mark was reached
	FoldCold    FoldReason = "cold"    // the provider's cache had expired, so that everything would be written anew
	FoldRefused FoldReason = "refused" // the provider found the request too long
	FoldBytes   FoldReason = "bytes"   // images and text came near to what a request may weigh
	FoldModel   FoldReason = "model"   // another model goes on
)

// Quote is a passage of an event.
type Quote struct {
	Event int64  `json:"event"`
	Text  string `json:"text"`
}

// WindowUse says what fills the window of the model, in tokens, about.
type WindowUse struct {
	Window int64 `json:"window" doc:"Of the model; 0 if it is not known."`
	High   int64 `json:"high" doc:"The high-water mark, at which history is folded."`
	Low    int64 `json:"low" doc:"The low-water mark, to which it is folded."`
	Head   int64 `json:"head" doc:"Rules, tools, task, instructions and plan."`
	Folded int64 `json:"folded" doc:"Summaries of what happened, the ledger and what was recalled."`
	Tail   int64 `json:"tail" doc:"What is there word for word."`
}

// Tokens returns the length of the whole request.
func (u WindowUse) Tokens() int64 { return u.Head + u.Folded + u.Tail }

// MemoryState is how a job's memory stands.
type MemoryState struct {
	Epoch     int64      `json:"epoch" doc:"Stretches of the conversation in which the request only grew, with the current one."`
	Folds     int64      `json:"folds" doc:"Times that history was folded."`
	Through   int64      `json:"through" doc:"Summaries stand for the events up to this one."`
	Reason    FoldReason `json:"reason,omitempty" enum:"full,cold,refused,bytes,model" doc:"Of the newest fold."`
	Summaries int64      `json:"summaries" doc:"Summaries that were made."`
	Digests   int64      `json:"digests" doc:"Of them, those that were derived without a model."`
	Usage     Usage      `json:"usage" doc:"What the summaries cost; it is part of the job's usage."`
	Use       WindowUse  `json:"use" doc:"Of the newest request."`
	Calls     Usage      `json:"calls" doc:"Of the answers since the newest fold, without those that are summaries."`
}

// InstructionsRead says that a file of the workspace holds standing
// instructions: AGENTS.md, CLAUDE.md, conventions in a README. Each reading
// of a path replaces the one before; an empty Text says that it is gone.
type InstructionsRead struct {
	Path string `json:"path"`           // in the workspace
	Text string `json:"text"`           // word for word, at most MaxInstructions bytes; of a README the sections on conventions
	Blob string `json:"blob,omitempty"` // handle of the whole, where Text is cut
}

// MaxInstructions is the most bytes of text in an [InstructionsRead].
const MaxInstructions = 32 << 10

// ProjectRecalled brings what earlier jobs of the same project noted into a
// job, at its start.
type ProjectRecalled struct {
	Project string        `json:"project"`
	Files   []ProjectFile `json:"files"`
}

// ProjectFile is a file of a project's memory.
type ProjectFile struct {
	Name string `json:"name"` // e.g. "conventions.md"
	Text string `json:"text"` // at most MaxProjectFile bytes
}

// MaxProjectFile is the most bytes of a [ProjectFile].
const MaxProjectFile = 32 << 10

// ModelChanged says that another model goes on with the job. It begins an epoch.
type ModelChanged struct {
	Model string `json:"model"` // "provider:model"
}
