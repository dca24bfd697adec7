package guest

import "time"

// ServiceState is what the guest knows of one of the machine's services: the
// display, the desktop, Jupyter. They are defined in image/services.json.
type ServiceState struct {
	Name     string
	Running  bool
	Healthy  bool      // it answers where it should
	Restarts int       // since it was first started
	Since    time.Time // of the present state
	LastExit string    // how it ended the last time; empty if it never did
}

// Names of services.
const (
	ServiceDisplay = "display" // Xvnc: X11 and RFB in one; DialService speaks RFB
	ServiceJupyter = "jupyter" // JupyterLab; DialService speaks HTTP
	ServiceBrowser = "browser" // Chromium, started when it is first wanted; DialService speaks HTTP, of the DevTools protocol
)

// Rect is an area of the screen in pixels from its top left corner.
type Rect struct{ X, Y, W, H int }

// Shot is a picture of the screen.
type Shot struct {
	Data   []byte // a PNG or JPEG
	Area   Rect   // what of the screen it shows
	W, H   int    // its own size, in pixels: Area scaled down to the bound asked for, never up
	Digest string // of the pixels before scaling: the same digest, the same picture
	Cursor [2]int // the pointer's place on the screen
}

// ShotRequest says what to take a picture of.
type ShotRequest struct {
	Area    Rect   // empty for the whole screen
	Window  uint32 // of this window instead, if not 0
	MaxW    int    // scaled down to fit; 0 means no bound
	MaxH    int
	JPEG    int    // quality 1 to 100; 0 means PNG
	Pointer bool   // draw the pointer
	Unless  string // a Digest: if the picture is the same, Data is empty
}

// Window is a window of the desktop.
type Window struct {
	ID     uint32
	Title  string // at most 200 bytes
	Class  string // of the program, e.g. "Chromium"
	PID    int
	Area   Rect
	Active bool
}

// InputKind says what an [Input] does.
type InputKind string

// The kinds of input.
const (
	InputMove    InputKind = "move"    // the pointer to X, Y
	InputPress   InputKind = "press"   // Button down
	InputRelease InputKind = "release" // Button up
	InputScroll  InputKind = "scroll"  // DX, DY notches; right and down are positive
	InputType    InputKind = "type"    // Text, any Unicode
	InputKey     InputKind = "key"     // Keys, a chord such as "ctrl+shift+t", in X's keysym names
	InputKeyDown InputKind = "keydown" // Keys go down and stay
	InputKeyUp   InputKind = "keyup"
	InputPause   InputKind = "pause" // for Pause
)

// Input is one thing done with mouse or keyboard.
type Input struct {
	Kind   InputKind
	X, Y   int
	Button int // 1 left, 2 middle, 3 right
	DX, DY int
	Text   string // at most 16 KiB
	Keys   string
	Pause  time.Duration // at most 10 s
}

// Cell is code to run in a kernel.
type Cell struct {
	Kernel   string        // which: a name of the caller's, "python" if empty; each has a state of its own
	Language string        // "python", "typescript" or "bash"; of a kernel that does not run yet
	Code     string        // at most 1 MiB
	Timeout  time.Duration // after which it is interrupted; 0 means none
	Silent   bool          // neither counted nor recorded
}

// CellOutput is one piece of what a cell puts out.
type CellOutput struct {
	Kind string            // "stdout", "stderr", "display", "result", "error" or "clear"
	Text string            // of stdout and stderr
	Data map[string][]byte // of display and result: media type -> contents, e.g. "image/png"

	// Of an error.
	Name, Value string
	Traceback   string // without escape sequences
}

// CellResult is how a cell ended.
type CellResult struct {
	Status    string // "ok", "error", "interrupted" after a timeout or an interrupt, "died" with its kernel
	Count     int    // the kernel's number for the cell
	Restarted bool   // the kernel was not there, or dead: its state is new
	Duration  time.Duration
}

// KernelState is what the guest knows of a kernel.
type KernelState struct {
	Name     string
	Language string
	Busy     bool
	Cells    int // run so far
}
