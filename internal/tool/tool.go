// Package tool holds what the model may call, one tool a file with its
// prompt beside it (shell.go, shell.md).
//
// A Tool is data. Its Run acts in the sandbox and returns what the model and
// the user see; what it wants of the loop beyond that (a plan, a question, an
// end) it returns as data too. A tool never returns an error for something
// that the model can put right: that is a Result with IsError.
package tool

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/browser"
	"github.com/glovebox-dev/glovebox/internal/guest"
	"github.com/glovebox-dev/glovebox/internal/llm"
	"github.com/glovebox-dev/glovebox/internal/memory/recall"
)

// Tool is one thing that the model may call.
type Tool struct {
	Name        string
	Description string          // its prompt
	Schema      json.RawMessage // JSON Schema of the input

	// Computer is set for the tool that works the screen: how it is declared
	// to models that have a computer tool of their provider's.
	Computer *llm.Computer

	ReadOnly bool // it never changes the workspace: no checkpoint is needed after it
	Yields   bool // its Run heeds ErrYield; the context of other tools is never cancelled with it

	// Run acts. Its error means that the tool itself could not work (the
	// sandbox is gone, ctx ended): the outcome is unknown.
	Run func(ctx context.Context, env *Env, input json.RawMessage) (Result, error)
}

// Env is what a call may use.
type Env struct {
	Guest  *guest.Client
	CallID string
	Job    *glovebox.Job // its state before the call; not to be changed

	// Browser connects to the sandbox's browser. Nil: as a service of Guest.
	Browser browser.Dialer

	// Output shows a piece of output to those who watch, at once. It may be nil.
	Output func(text string)

	// Save keeps a large output outside the log and returns its handle.
	Save func(ctx context.Context, data []byte) (handle string, err error)

	// Load returns up to limit bytes of what Save kept, from offset on, and
	// its whole size. It returns CodeNotFound for a handle that Save of this
	// job did not return. It may be nil: then nothing can be read again.
	Load func(ctx context.Context, handle string, offset, limit int64) (data []byte, size int64, err error)

	// Control says who holds the mouse and the keyboard, and returns a channel
	// that is closed when that changes. While a person holds them, a tool that
	// uses them waits: it finishes what can't be left half done (a button that
	// is down), and begins nothing. It may be nil: then the agent holds them.
	Control func() (holder glovebox.Control, changed <-chan struct{})

	// Recall searches what the job saw so far. It may be nil: then nothing can
	// be looked up.
	Recall func(ctx context.Context, q recall.Query) (recall.Result, error)

	// Events returns the job's events after a number, in order, at most limit
	// of them; none at the end of the log. It may be nil.
	Events func(ctx context.Context, after int64, limit int) ([]glovebox.Event, error)

	patience patience // of tests
}

// patience is how long a call waits for what is over in a moment, unless the
// machine is slow. Zero: as long as it does outside of tests.
type patience struct {
	background time.Duration // for a command put into the background to fail at once
	stop       time.Duration // for a command to heed a signal
}

// ErrYield is the cause with which a call's context is cancelled when someone
// needs the loop at once but the call is not unwanted: the user said
// something. A tool that waits for a process then leaves it running in the
// background and returns a result that says so, within a few seconds. With
// any other cause it returns an error.
var ErrYield = errors.New("the call yields")

// Result is what a call came to.
type Result struct {
	Content []glovebox.Block // text and images; Text longer than OutputBound is cut by the loop
	IsError bool
	Blob    string // handle of the whole output where Content is cut already

	// At most one of these is set.
	Plan   []glovebox.PlanStep
	Ask    *Ask
	Finish *Finish
}

// OutputBound is how many bytes of text a result may have in the log. More
// is kept as a blob and cut in the middle.
const OutputBound = 16 << 10

// Ask makes the job wait for the user. The answer becomes the call's result.
type Ask struct {
	Question string
	Timeout  time.Duration
}

// Finish ends the job if the proofs pass.
type Finish struct {
	Summary  string
	HowToRun string
	Proofs   []Proof
}

// Proof is something that shows that the project works: a command that exits
// with 0 in the workspace, or a page that loads, without an exception that
// nobody catches, and shows a text. In JSON a command is a string.
type Proof struct {
	Command string `json:"-"`

	Page   string `json:"page" jsonschema:"minLength=1,maxLength=4096" jsonschema_description:"URL of the page, e.g. http://localhost:4173/"`
	Start  string `json:"start,omitempty" jsonschema:"maxLength=4096" jsonschema_description:"Bash command that serves it; stopped afterwards. Without it, what runs is opened."`
	Expect string `json:"expect,omitempty" jsonschema:"maxLength=1000" jsonschema_description:"Text that must be visible on it."`
}

// TextResult returns a result of one text block.
func TextResult(s string) Result { return Result{Content: []glovebox.Block{glovebox.Text(s)}} }

// ErrorResult returns a result that tells the model what it did wrong.
func ErrorResult(s string) Result {
	r := TextResult(s)
	r.IsError = true
	return r
}
