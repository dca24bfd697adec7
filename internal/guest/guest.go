// Package guest is the host's side of the guest daemon: what can be done
// inside a sandbox, over one byte stream.
//
// Over the stream runs yamux. Calls are Connect over HTTP/1.1, one call a
// yamux stream; long byte streams (a process's input and output, a terminal,
// a port, an egress connection, an export) are plain yamux streams that begin
// with a one-line header. Both ends may open streams: the guest opens one for
// each connection that something in the sandbox makes to the egress proxy.
//
// The guest is not trusted. Every frame, header and reply is bounded, every
// call has a deadline, and a guest that lies, floods or stalls makes its own
// client's calls fail and nothing else. What comes out of it is data.
//
// The daemon itself is in guestd.
package guest

import (
	"crypto/rand"
	"io"
	"io/fs"
	"net"
	"time"
)

// Paths inside every sandbox.
const (
	Workspace = "/workspace" // the project; the working directory of tools
	Home      = "/home/agent"
	UID       = 1000 // whom tools run as
)

// ProxyAddr is where, inside every sandbox, the egress proxy listens. The
// guest joins each connection to a stream to the host.
const ProxyAddr = "127.0.0.1:3128"

// Settings is what a guest is told after it is dialled, since it may have
// been frozen before anyone knew whom it would work for. It may be told again.
type Settings struct {
	Hostname string            // at most 63 characters
	Env      map[string]string // added to the environment of every process that is started from now on
	CACerts  []byte            // PEM; certificates that the sandbox trusts beside its own
	Files    map[string][]byte // small files written as root before anything else starts, by absolute path (package managers' settings)
	Now      time.Time         // the clock, for guests that were frozen; zero leaves it alone
	Secret   []byte            // 32 random bytes of this machine alone, from which the secrets of its services are derived; empty leaves them alone
	Seed     []byte            // mixed into the random pool, for guests that were frozen
}

// OfMachine returns s with what a machine has for itself. It may be one of many
// from one template: what must differ between them is new, unless secret is
// what was made new for it already.
func (s Settings) OfMachine(now time.Time, secret []byte) Settings {
	s.Hostname, s.Now, s.Secret, s.Seed = "glovebox", now, secret, nil
	if secret == nil {
		s.Secret, s.Seed = make([]byte, 32), make([]byte, 32)
		rand.Read(s.Secret)
		rand.Read(s.Seed)
	}
	return s
}

// Command is a process to start. It runs as UID in a session of its own.
type Command struct {
	ID   string   // chosen by the caller, unique in the sandbox: at most 64 of [0-9A-Za-z_-]
	Args []string // Args[0] is looked up in PATH
	Dir  string   // empty for Workspace
	Env  map[string]string
	Root bool // run as root; only for what the host itself wants done, such as apt

	// NoStdin makes standard input /dev/null. Otherwise Start opens a pipe, or
	// the terminal, that stays open until CloseStdin or the end; some programs
	// (ripgrep without a path, cat) then wait for what may come. Run, which
	// nobody can write to, uses /dev/null unless there is a TTY.
	NoStdin bool

	// With a TTY, output is one stream and Resize works.
	TTY        bool
	Rows, Cols uint16

	// OutputLimit is how many bytes of output the guest keeps for those who
	// attach late; the middle is dropped beyond it. 0 means 1 MiB.
	OutputLimit int64
}

// ProcessState is what the guest knows of a process.
type ProcessState struct {
	ID         string
	Args       []string
	PID        int
	Running    bool
	ExitCode   int    // when it has ended by itself; 128+n when signal n ended it
	Signal     string // the signal that ended it, e.g. "SIGKILL"; empty if none
	StartedAt  time.Time
	EndedAt    time.Time // zero while it runs
	CPU        time.Duration
	MaxRSS     int64 // bytes
	WaitsInput bool  // it is blocked reading its standard input or terminal; in gVisor an inference, see proc.waitsInput
	OutputSize int64 // bytes written so far
}

// Entry describes a file.
type Entry struct {
	Path    string // relative to the listed directory, or absolute from Stat
	Mode    fs.FileMode
	Size    int64
	ModTime time.Time
	Link    string // target of a symbolic link
}

// Match is a line found by Search.
type Match struct {
	Path string
	Line int
	Text string // at most 500 bytes of the line

	Context bool // it does not match itself: it is beside a line that does
}

// SearchQuery says what to look for with ripgrep.
type SearchQuery struct {
	Pattern    string // a regular expression in ripgrep's syntax
	Fixed      bool   // Pattern is an exact string
	IgnoreCase bool
	Dir        string // empty for Workspace
	Glob       string // only files that match; empty for all
	Context    int    // lines around each match, at most 10
	Limit      int    // matches, at most 1000; 0 means 200
}

// Listener is a TCP port that something in the sandbox listens on.
type Listener struct {
	Port    uint16
	Address string
	PID     int    // 0 if unknown
	Command string // its name
}

// KernelCommand is the Command of a kernel that listens for its own ends.
const KernelCommand = "glovebox-kernel"

// Stats is what the sandbox uses.
type Stats struct {
	MemoryBytes int64
	Processes   int
	DiskBytes   int64 // written to the workspace and elsewhere
}

// EgressHandler serves one connection that something in the sandbox made to
// the proxy. It owns conn.
type EgressHandler func(conn net.Conn)

// Output is a piece of what a process wrote.
type Output struct {
	Stderr bool // always false with a TTY
	Data   []byte
	Offset int64 // of Data[0] in all that the process wrote; what follows is at Offset+len(Data), unless Dropped
	// Dropped is how many bytes are not there any more. Then Data is a line that
	// says so, and the next piece is at Offset+Dropped.
	Dropped int64
}

// ExportFilter decides whether a path of an export is sent; a directory that
// is not is not entered. It runs on the host, on names only, in order of path,
// but that of a directory it is shown .gitignore first, since what that says
// counts for names before it.
type ExportFilter func(path string, mode fs.FileMode, size int64) bool

// ExportFile is one regular file of an export. Body is valid until the next.
type ExportFile struct {
	Entry
	Body io.Reader // exactly Size bytes, or an error
}
