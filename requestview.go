package glovebox

import (
	"encoding/json"
	"time"
)

// RequestView is a request to the model, as it is built from the log: what the
// model saw before it gave its answer of a step.
type RequestView struct {
	JobID    string    `json:"job_id"`
	Step     int64     `json:"step"`
	Attempt  int64     `json:"attempt" doc:"1, and more when a failed call was repeated."`
	Attempts int64     `json:"attempts" doc:"Of the newest attempt of the step so far."`
	Event    int64     `json:"event" doc:"Number of the model.requested event; the events before it are what the request is built from."`
	Time     time.Time `json:"time" doc:"Of that event."`
	Model    string    `json:"model" doc:"provider:model"`
	Epoch    int64     `json:"epoch" doc:"1 for the first; each fold of history begins another."`
	Use      WindowUse `json:"use" doc:"What fills the window, in tokens, about."`

	// Rules and tools are the head, too.
	Opening []string `json:"opening" enum:"head,folded" doc:"Which part each of the first blocks of the first message belongs to: head is never folded, folded stands for what happened before. What follows is the tail, there word for word."`

	SHA256   string `json:"sha256" doc:"Of the request as it is built now, in hex."`
	Recorded string `json:"recorded_sha256" doc:"Of the request as it was made, from the event."`
	Same     bool   `json:"same" doc:"Whether the two are the same. If not, another version or other settings of the server made it, and what is shown is what it would be now."`

	Bytes   int64           `json:"bytes" doc:"Length of request."`
	Request json.RawMessage `json:"request" doc:"System, tools and messages, max_output and cache_marks, in Glovebox's own encoding, from which each provider's is made. Images are handles for GET /jobs/{id}/outputs/{handle}."`
}

// MaxRequestView is the most bytes of the request in a [RequestView].
const MaxRequestView = 48 << 20
