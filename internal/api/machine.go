package api

import (
	"context"
	"net"
	"net/http"
	"strings"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest"
)

// Machine is what the API needs of the machine of a running job. [NewMachine]
// makes one of a guest.
type Machine interface {
	Files
	Services
	Ports
	Shells
}

// Services reaches the services of a machine.
type Services interface {
	Services(ctx context.Context) ([]guest.ServiceState, error)
	ServiceLog(ctx context.Context, name string, limit int) (string, error) // CodeNotFound if there is no such service
	DialService(ctx context.Context, name string) (net.Conn, error)
	ServiceSecret(name string) string
}

// Ports reaches what listens in a machine.
type Ports interface {
	Listeners(ctx context.Context) ([]guest.Listener, error)
	DialPort(ctx context.Context, port uint16) (net.Conn, error)
}

// Shells starts and finds terminals.
type Shells interface {
	StartTerminal(ctx context.Context, cmd guest.Command) (Terminal, error)
	FindTerminal(ctx context.Context, id string) (Terminal, error) // CodeNotFound if there is none
	Processes(ctx context.Context) ([]guest.ProcessState, error)
}

// Terminal is a process on a terminal. *guest.Process is one.
type Terminal interface {
	Output(ctx context.Context, offset int64, f func(guest.Output) error) error
	Write(ctx context.Context, b []byte) error
	Resize(ctx context.Context, rows, cols uint16) error
	Signal(ctx context.Context, name string) error
	State(ctx context.Context) (guest.ProcessState, error)
}

var _ Terminal = (*guest.Process)(nil)

// NewMachine returns the machine that a guest is in.
func NewMachine(c *guest.Client) Machine { return machine{c} }

type machine struct{ *guest.Client }

// StartTerminal starts a process.
func (m machine) StartTerminal(ctx context.Context, cmd guest.Command) (Terminal, error) {
	p, err := m.Start(ctx, cmd)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// FindTerminal finds a process that was started before.
func (m machine) FindTerminal(ctx context.Context, id string) (Terminal, error) {
	p, err := m.Attach(ctx, id)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// machine returns the machine of a job, or why there is none: the job has
// ended, has not begun, or runs elsewhere.
func (a *API) machine(j *glovebox.Job) (Machine, error) {
	if j.Status.Terminal() {
		return nil, withStatus(http.StatusGone, &glovebox.Error{Code: glovebox.CodeConflict, Field: "id", Value: j.ID,
			Msg: "the job has ended, and its machine is gone", Hint: "watch its recording: GET /jobs/" + j.ID + "/steps; its files are at /jobs/" + j.ID + "/files/"})
	}
	if a.o.Guest != nil {
		if m, ok := a.o.Guest(j.ID); ok {
			return m, nil
		}
	}
	if j.Status == glovebox.StatusPending || j.Phase == glovebox.PhasePreparing {
		return nil, &glovebox.Error{Code: glovebox.CodeConflict, Field: "id", Value: j.ID, Msg: "the job's machine is not there yet",
			Hint: "wait until it is: GET /status/" + j.ID + "?wait=30s"}
	}
	return nil, &glovebox.Error{Code: glovebox.CodeUnavailable, Field: "id", Value: j.ID, Msg: "the job's machine can't be reached from this server now", Hint: "try again in a moment"}
}

// jobMachine returns a job and its machine.
func (a *API) jobMachine(r *http.Request, c caller) (*glovebox.Job, Machine, error) {
	j, err := a.job(r.Context(), r, c)
	if err != nil {
		return nil, nil, err
	}
	m, err := a.machine(j)
	return j, m, err
}

// jobToControl returns a job and its machine to who may do more than watch.
func (a *API) jobToControl(r *http.Request, c caller) (*glovebox.Job, Machine, error) {
	j, m, err := a.jobMachine(r, c)
	if j != nil && !c.mayControl() {
		return nil, nil, &glovebox.Error{Code: glovebox.CodeForbidden, Field: "Authorization", Value: string(c.scope), Msg: "the token may read only", Hint: "use a token with scope write"}
	}
	return j, m, err
}

// services answers with the state of a machine's services.
func (a *API) services(w *response, r *http.Request, c caller) error {
	_, m, err := a.jobMachine(r, c)
	if err != nil {
		return err
	}
	states, err := m.Services(r.Context())
	if err != nil {
		return err
	}
	list := glovebox.ServiceList{Services: []glovebox.Service{}}
	for _, s := range states {
		v := glovebox.Service{Name: s.Name, Running: s.Running, Healthy: s.Healthy, Restarts: s.Restarts, LastExit: s.LastExit}
		if t := s.Since.UTC(); !s.Since.IsZero() {
			v.Since = &t
		}
		list.Services = append(list.Services, v)
	}
	return writeJSON(w, http.StatusOK, list)
}

// maxServiceLog is how much of a service's log is sent, in bytes. The guest
// keeps about as much.
const maxServiceLog = 64 << 10

// maxServiceName is longer than any name in image/services.json.
const maxServiceName = 64

// serviceLog answers with the end of what a service wrote, as a download: it
// came out of a sandbox.
func (a *API) serviceLog(w *response, r *http.Request, c caller) error {
	_, m, err := a.jobMachine(r, c)
	if err != nil {
		return err
	}
	name := r.PathValue("name")
	if len(name) > maxServiceName {
		return &glovebox.Error{Code: glovebox.CodeNotFound, Field: "name", Value: clip(name, 100), Msg: "there is no such service", Hint: "their names are at /jobs/" + r.PathValue("id") + "/services"}
	}
	text, err := m.ServiceLog(r.Context(), name, maxServiceLog)
	if err != nil {
		return err
	}
	return sendFile(w, r, name+".log", int64(len(text)), strings.NewReader(text))
}
