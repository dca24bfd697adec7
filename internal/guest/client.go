package guest

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"time"
)

// Options configures a Client.
type Options struct {
	Egress      EgressHandler // nil refuses every connection
	CallTimeout time.Duration // of calls whose context has no deadline; 0 means 30 s
}

// Client talks to the guest of one sandbox. Its methods may be called from
// many goroutines. When the stream breaks, running calls and processes'
// readers fail with CodeUnavailable; the processes go on, and another Client
// over a new stream finds them with Processes and Attach.
type Client struct{}

var errNotYet = errors.New("guest: being written")

// NewClient starts talking to a guest over conn, which it owns. It returns
// when the guest has answered, or an error.
func NewClient(ctx context.Context, conn net.Conn, o Options) (*Client, error) { return nil, errNotYet }

// Close ends the session and its streams. Processes inside go on.
func (c *Client) Close() error { return errNotYet }

// Done is closed when the session has ended, for whatever reason.
func (c *Client) Done() <-chan struct{} { return nil }

// Bind tells the guest whom it works for.
func (c *Client) Bind(ctx context.Context, s Settings) error { return errNotYet }

// Stats returns what the sandbox uses.
func (c *Client) Stats(ctx context.Context) (Stats, error) { return Stats{}, errNotYet }

// Start starts a process.
func (c *Client) Start(ctx context.Context, cmd Command) (*Process, error) { return nil, errNotYet }

// Attach returns a process that was started before, also by another Client
// and also if it has ended. CodeNotFound if there is none with that id.
func (c *Client) Attach(ctx context.Context, id string) (*Process, error) { return nil, errNotYet }

// Processes returns the processes that were started, also those that ended
// (the newest 1000).
func (c *Client) Processes(ctx context.Context) ([]ProcessState, error) { return nil, errNotYet }

// Run starts a process, waits for its end and returns its output, at most
// limit bytes of it, the middle left out. If ctx ends, the process group is killed.
func (c *Client) Run(ctx context.Context, cmd Command, limit int64) (ProcessState, []byte, error) {
	return ProcessState{}, nil, errNotYet
}

// Process is a process in the sandbox.
type Process struct{}

// ID returns the id given in Command.
func (p *Process) ID() string { return "" }

// Output streams what the process writes, from byte offset on, to f until
// the process ends and all is read, f returns an error, or ctx ends. What was
// dropped for OutputLimit is replaced by one line that says how much.
func (p *Process) Output(ctx context.Context, offset int64, f func(Output) error) error {
	return errNotYet
}

// Write writes to the process's standard input or terminal.
func (p *Process) Write(ctx context.Context, b []byte) error { return errNotYet }

// CloseStdin ends the standard input.
func (p *Process) CloseStdin(ctx context.Context) error { return errNotYet }

// Terminal returns a two-way stream to the terminal of a process with a TTY.
func (p *Process) Terminal(ctx context.Context) (net.Conn, error) { return nil, errNotYet }

// Resize sets the size of the terminal.
func (p *Process) Resize(ctx context.Context, rows, cols uint16) error { return errNotYet }

// Signal sends a signal ("SIGINT", "SIGTERM", "SIGKILL", "SIGHUP", "SIGQUIT",
// "SIGUSR1", "SIGUSR2", "SIGSTOP", "SIGCONT") to the whole process group and
// to what was started from it and left the group.
func (p *Process) Signal(ctx context.Context, name string) error { return errNotYet }

// State returns what the guest knows now.
func (p *Process) State(ctx context.Context) (ProcessState, error) { return ProcessState{}, errNotYet }

// Wait returns when the process has ended, or ctx does, or, if untilInput,
// when it has waited for input for half a second.
func (p *Process) Wait(ctx context.Context, untilInput bool) (ProcessState, error) {
	return ProcessState{}, errNotYet
}

// Stat describes a file, not following a symbolic link. CodeNotFound if
// there is none. Paths are absolute or relative to Workspace, here and below;
// all file calls act as UID.
func (c *Client) Stat(ctx context.Context, path string) (Entry, error) { return Entry{}, errNotYet }

// ReadDir lists a directory, sorted by name; at most 10,000 entries, and
// whether there are more.
func (c *Client) ReadDir(ctx context.Context, path string) (entries []Entry, more bool, err error) {
	return nil, false, errNotYet
}

// ReadFile returns up to limit bytes of a regular file from offset on
// (limit at most 16 MiB), and its whole size.
func (c *Client) ReadFile(ctx context.Context, path string, offset, limit int64) (data []byte, size int64, err error) {
	return nil, 0, errNotYet
}

// WriteFile writes a file whole or not at all, making its parents. mode 0
// keeps that of a file that is there, else 0644. At most 64 MiB.
func (c *Client) WriteFile(ctx context.Context, path string, data []byte, mode fs.FileMode) error {
	return errNotYet
}

// Move renames a file or directory, making the parents of its new path.
// CodeConflict if something is there.
func (c *Client) Move(ctx context.Context, from, to string) error { return errNotYet }

// Remove removes a file, or a directory and all in it. CodeNotFound if there is none.
func (c *Client) Remove(ctx context.Context, path string) error { return errNotYet }

// MakeDir makes a directory and its parents.
func (c *Client) MakeDir(ctx context.Context, path string) error { return errNotYet }

// Glob returns the paths below dir that match a pattern ("**" for any depth),
// sorted; at most limit, .git and what .gitignore names left out unless all.
func (c *Client) Glob(ctx context.Context, dir, pattern string, limit int, all bool) ([]Entry, error) {
	return nil, errNotYet
}

// Search finds lines with ripgrep; more is true if there were more than Limit.
func (c *Client) Search(ctx context.Context, q SearchQuery) (matches []Match, more bool, err error) {
	return nil, false, errNotYet
}

// Watch calls f with the paths below dir that changed, in batches, until ctx
// ends. Too many at once: f gets dir itself.
func (c *Client) Watch(ctx context.Context, dir string, f func(paths []string)) error {
	return errNotYet
}

// Listeners returns the TCP ports that are listened on, without the guest's own.
func (c *Client) Listeners(ctx context.Context) ([]Listener, error) { return nil, errNotYet }

// DialPort connects to a TCP port on the sandbox's loopback.
func (c *Client) DialPort(ctx context.Context, port uint16) (net.Conn, error) { return nil, errNotYet }

// Export streams the regular files below dir to f, in order of path. Paths
// are relative, clean, and never leave dir; symbolic links and other kinds of
// file are reported through skipped with a reason.
func (c *Client) Export(ctx context.Context, dir string, keep ExportFilter, f func(ExportFile) error, skipped func(path, reason string)) error {
	return errNotYet
}

// Import unpacks a zip or tar.gz into dir: regular files and directories,
// nothing outside dir.
func (c *Client) Import(ctx context.Context, dir string, archive io.Reader, format string) error {
	return errNotYet
}

// Checkpoint commits the workspace to the hidden repository and sends what
// is new since the commit base (all, if base is empty or unknown) to w as a
// git pack. If nothing changed since base, the commit is base and nothing is
// written. The repository is the guest's, outside the workspace.
func (c *Client) Checkpoint(ctx context.Context, base, message string, w io.Writer) (CheckpointInfo, error) {
	return CheckpointInfo{}, errNotYet
}

// CheckpointInfo is what Checkpoint did.
type CheckpointInfo struct {
	Commit  string
	Whole   bool // the pack does not build on base
	Changes []Change
}

// Change is a file that differs between two checkpoints.
type Change struct {
	Path           string
	Added, Deleted int64 // lines; -1 for binary
}

// Restore applies packs, in order, and makes the workspace that of commit.
func (c *Client) Restore(ctx context.Context, commit string, packs []func() (io.ReadCloser, error)) error {
	return errNotYet
}
