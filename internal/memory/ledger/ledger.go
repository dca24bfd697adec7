// Package ledger keeps the book of a job: which files were touched, which
// commands ran and how they ended, what was installed, what serves, which
// errors were met and how they went away, what was reached outside, and which
// notes were taken. It is derived from events alone and never summarised:
// every line names the events that it comes from.
//
// What it reads came out of a sandbox and is data. A malformed input is
// passed over, a name is quoted so that it can't leave its line, and no
// history makes a ledger grow beyond a fixed size: each table holds so many
// rows, and the one that was touched longest ago makes room.
//
// The same events give the same ledger, and the same ledger the same text. A
// Ledger may be used by one goroutine at a time.
package ledger

import (
	"github.com/glovebox-dev/glovebox"

	"github.com/glovebox-dev/glovebox/internal/clip"
)

// How many rows each table holds. All full of the longest names, a ledger
// takes about 12 MiB.
const (
	maxFiles    = 5000
	maxCommands = 2500
	maxFailures = 600
	maxPackages = 600
	maxServers  = 200
	maxHosts    = 400
	maxURLs     = 600
	maxNotes    = 400
	maxCalls    = 256 // that have no result yet
)

// Ledger is the book of a job up to some event. Make it with [New].
type Ledger struct {
	calls    *table[call] // without a result yet
	files    *table[file]
	commands *table[run]
	failures *table[failure]
	packages *table[pack]
	servers  *table[server]
	hosts    *table[host]
	urls     *table[link]
	notes    *table[memo]

	open    []*failure // errors that have not gone away, the newest last
	changes []change   // the newest things done that may mend an error

	saved   int64  // the newest checkpoint
	acting  int64  // the newest command since, which may have changed any file
	removes string // it, if it may have deleted files
	rebuilt int64  // when the machine was last rebuilt
	seq     int64  // the newest event that was read
}

// New returns a ledger that has read nothing yet.
func New() *Ledger {
	l := &Ledger{
		calls: newTable[call](maxCalls), files: newTable[file](maxFiles), commands: newTable[run](maxCommands),
		failures: newTable[failure](maxFailures), packages: newTable[pack](maxPackages), servers: newTable[server](maxServers),
		hosts: newTable[host](maxHosts), urls: newTable[link](maxURLs), notes: newTable[memo](maxNotes),
	}
	l.failures.gone = l.forget
	return l
}

// Apply reads the next event. Types that have no part in the ledger are
// passed over. An error means that the event can't be decoded; it changes
// nothing. Who has decoded an event already calls the method of its type.
func (l *Ledger) Apply(e glovebox.Event) error {
	if apply, ok := appliers[e.Type]; ok {
		return apply(l, e)
	}
	return nil
}

var appliers = map[glovebox.EventType]func(*Ledger, glovebox.Event) error{
	glovebox.EventToolStarted:  on((*Ledger).Started),
	glovebox.EventToolFinished: on((*Ledger).Finished),
	glovebox.EventCheckpoint:   on((*Ledger).Checkpoint),
	glovebox.EventControl:      on((*Ledger).Control),
	glovebox.EventEgress:       on((*Ledger).Egress),
	glovebox.EventVerified:     on((*Ledger).Verified),
	glovebox.EventSandboxReady: on((*Ledger).Sandbox),
}

func on[T any](apply func(*Ledger, int64, T)) func(*Ledger, glovebox.Event) error {
	return func(l *Ledger, e glovebox.Event) error {
		v, err := glovebox.Decode[T](e)
		if err == nil {
			apply(l, e.Seq, v)
		}
		return err
	}
}

// call is a call of a tool, as far as its result needs it.
type call struct {
	seq   int64
	tool  string
	path  string // of a tool for files
	to    string // of move_file
	key   string // of the row of what it runs
	label string // of what runs something: the command, on one line
	more  string // manager of install_package, action of gui, id of a process, name of a note
	names []string
	port  int64
	cmd   command
}

// Started reads that a tool acts.
func (l *Ledger) Started(seq int64, s glovebox.ToolStarted) {
	l.seq = seq
	read, known := inputs[s.Name]
	if !known {
		read = otherInput
	}
	c := call{seq: seq, tool: clip.Short(s.Name, maxName)}
	read(l, &c, input(s.Input))
	*l.calls.touch(clip.Short(s.CallID, maxName)) = c
}

// Finished reads what a tool came to.
func (l *Ledger) Finished(seq int64, f glovebox.ToolFinished) {
	l.seq = seq
	id := clip.Short(f.CallID, maxName)
	c := l.calls.get(id)
	if c == nil || c.tool != clip.Short(f.Name, maxName) {
		c = &call{seq: seq, tool: f.Name}
	}
	if read, ok := results[f.Name]; ok {
		read(l, seq, *c, f)
	} else {
		l.otherResult(seq, *c, f)
	}
	l.calls.remove(id)
}

// inputs and results say, for each tool, how what it was called with and what
// it came to are read.
var (
	inputs = map[string]func(*Ledger, *call, input){
		"read_file": pathInput, "write_file": pathInput, "edit_file": pathInput, "delete_file": pathInput, "move_file": moveInput, "apply_patch": noInput,
		"shell": shellInput, "run_tests": testsInput, "code": codeInput, "preview": previewInput, "install_package": installInput,
		"shell_output": processInput, "shell_input": processInput, "shell_stop": processInput,
		"gui": guiInput, "note": noteInput,
		"list_files": noInput, "search_files": noInput, "read_output": noInput, "plan": noInput, "ask_user": noInput, "finish": noInput,
		"recall": noInput, "open_event": noInput,
	}
	results = map[string]func(*Ledger, int64, call, glovebox.ToolFinished){
		"read_file": (*Ledger).fileResult, "write_file": (*Ledger).fileResult, "edit_file": (*Ledger).fileResult,
		"delete_file": (*Ledger).fileResult, "move_file": (*Ledger).fileResult, "apply_patch": (*Ledger).patchResult,
		"shell": (*Ledger).shellResult, "run_tests": (*Ledger).testsResult, "code": (*Ledger).codeResult, "preview": (*Ledger).previewResult,
		"install_package": (*Ledger).installResult,
		"shell_output":    (*Ledger).processResult, "shell_input": (*Ledger).processResult, "shell_stop": (*Ledger).processResult,
		"gui": noResult, "note": (*Ledger).noteResult,
		"list_files": noResult, "search_files": noResult, "read_output": noResult, "plan": noResult, "ask_user": noResult, "finish": noResult,
		"recall": noResult, "open_event": noResult,
	}
)

func noInput(*Ledger, *call, input) {}

func noResult(*Ledger, int64, call, glovebox.ToolFinished) {}

// otherInput reads the input of a tool that is not known by its fields.
func otherInput(_ *Ledger, c *call, in input) {
	in.each(func(key, value []byte) bool {
		switch string(key) {
		case "path", "file", "file_path", "filename":
			c.path = place(text(value, 4096), "")
		case "command", "cmd":
			setCommand(c, text(value, maxScript), "")
		}
		return true
	})
}

// otherResult reads the result of a tool that is not known.
func (l *Ledger) otherResult(seq int64, c call, f glovebox.ToolFinished) {
	switch {
	case c.label != "":
		l.shellResult(seq, c, f)
	case c.path != "":
		l.touched(seq, c.path, "used by "+name(c.tool), "")
	}
}
