package glovebox

import "time"

// LinkScope says what may be done through a [Link].
type LinkScope string

// The scopes. LinkControl includes LinkView.
const (
	LinkView    LinkScope = "view"    // watch: screen, events, files, recording
	LinkControl LinkScope = "control" // step in too: mouse and keyboard, terminal, preview, notebook; and see what the model is sent
)

// Bounds of how long a [Link] can be used, in seconds.
const (
	DefaultLinkTTL = 60 * 60
	MaxLinkTTL     = 7 * 24 * 60 * 60
)

// LinkRequest asks for a [Link].
type LinkRequest struct {
	Scope      LinkScope `json:"scope" enum:"view,control"`
	TTLSeconds int64     `json:"ttl_seconds,omitempty" doc:"How long it can be used: 1 to 604800; 3600 if left out."`
}

// Validate returns what is wrong with r.
func (r LinkRequest) Validate() error {
	if r.Scope != LinkView && r.Scope != LinkControl {
		return Invalid("scope", "use view or control", "%q is not a scope of a link", clip(string(r.Scope), 40)).WithValue(r.Scope)
	}
	if r.TTLSeconds < 0 || r.TTLSeconds > MaxLinkTTL {
		return Invalid("ttl_seconds", "give 1 to 604800, or leave it out for an hour", "%d is out of range", r.TTLSeconds).WithValue(r.TTLSeconds)
	}
	return nil
}

// Link lets whoever has it at one job until it expires, instead of a token.
type Link struct {
	Link      string    `json:"link" doc:"Give it as ?link= to the endpoints that take one."`
	Scope     LinkScope `json:"scope" enum:"view,control"`
	ExpiresAt time.Time `json:"expires_at" doc:"It can't be used after this. What was opened with it before, such as a screen, goes on."`
	URL       string    `json:"url" doc:"The job's screen; relative to the server, unless the server knows its public address."`
}

// Port is a TCP port that something in a job's sandbox listens on.
type Port struct {
	Port    int64  `json:"port"`
	Process string `json:"process,omitempty" doc:"The name of the program."`
	URL     string `json:"url" doc:"Where a browser can see it; relative to the server."`
}

// PortList are the ports of a job's sandbox, the lowest first.
type PortList struct {
	Ports []Port `json:"ports"`
}

// Service is one of the services of a job's machine.
type Service struct {
	Name     string     `json:"name" doc:"E.g. display, desktop, jupyter, browser."`
	Running  bool       `json:"running"`
	Healthy  bool       `json:"healthy" doc:"Whether it answers."`
	Restarts int        `json:"restarts"`
	Since    *time.Time `json:"since,omitempty" doc:"When it came into this state."`
	LastExit string     `json:"last_exit,omitempty" doc:"How it ended the last time."`
}

// ServiceList are the services of a job's machine.
type ServiceList struct {
	Services []Service `json:"services"`
}

// PlaceRequest asks where a browser can see what a job's machine serves.
type PlaceRequest struct {
	Port     int64  `json:"port,omitempty" minimum:"1" maximum:"65535" doc:"A port in the sandbox."`
	Notebook bool   `json:"notebook,omitempty" doc:"JupyterLab, instead of a port."`
	Path     string `json:"path,omitempty" doc:"What to open there, with its query; if left out / of a port, /lab of JupyterLab."`
}

// Place is where a browser can see what a job's machine serves.
type Place struct {
	URL string `json:"url" doc:"Good for one visit within a minute; what was opened goes on for hours. Relative to the server if own is false."`
	Own bool   `json:"own" doc:"Whether it has an origin of its own. If not, it is in a sandbox of the browser, without cookies and storage."`
}
