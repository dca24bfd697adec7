package glovebox

import "time"

// Signal is what a person wants of a job while it runs, or what Glovebox has
// to tell it. Exactly one of
// Text, Cancel, Limits, Control, Notice and Model is set.
type Signal struct {
	ID     int64     `json:"id"` // set by the store; grows
	Time   time.Time `json:"time"`
	Text   string    `json:"text,omitempty"`   // said to the agent; at most MaxSignalText bytes
	Cancel bool      `json:"cancel,omitempty"` // end the job
	Limits *Limits   `json:"limits,omitempty"` // the new limits, complete

	Control *Control `json:"control,omitempty"` // take mouse and keyboard, or give them back
	Notice  string   `json:"notice,omitempty"`  // told to the agent as a Notice: "a person opened a terminal"; at most MaxSignalText bytes
	Model   string   `json:"model,omitempty"`   // "provider:model": goes on with the job from the next step

	Blob string `json:"blob,omitempty"` // with Text: handle of the whole message, of which Text is the beginning
	Size int64  `json:"size,omitempty"` // of the whole message, in bytes, where there is a Blob
}

// MaxSignalText is the most bytes of text in a [Signal].
const MaxSignalText = 64 << 10

// MaxUserText is the most bytes that a user may say to a job at once. Of what
// is longer than [MaxSignalText] the whole is kept as an output of the job,
// and the signal has the beginning.
const MaxUserText = 8 << 20

// UserTextHint is what to do about a text that is longer than [MaxUserText].
const UserTextHint = "send the part that matters, or several messages; long material is better given to a job as files, when it is submitted"
