// Package template starts machines from one that was started and warmed up
// before, and frozen: a [sandbox.Driver] around one that can freeze.
//
// The template is made in the background by [Driver.Run], by one process at a
// time: a machine is started cold, its desktop and kernels are started, its
// browser once opened and closed, and it is frozen into a directory that is
// named for all that it depends on (image, binary, processor, settings). When
// one of these changes it is made anew and the former one removed; when a
// machine can't be started from it it is set aside, removed and made anew.
//
// Nobody waits for it: while there is none, machines start cold, and
// [sandbox.Info.StartNote] says why. A template holds nothing of any job and
// no secret: machines get theirs, and new random seeds, when they are bound.
package template

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest"
	"github.com/glovebox-dev/glovebox/internal/sandbox"
)

// recipe is raised when what is done to a machine before it is frozen changes.
const recipe = 1

// Labels of the driver's own. They are not shown.
const (
	noteLabel  = "glovebox.note"     // why a machine started cold
	makerLabel = "glovebox.template" // of a machine that is to become the template of this key
)

// maxNote is how many bytes a label may have.
const maxNote = 256

// maxFailures is how many machines in a row may fail to start from a template
// that seems whole before it is made anew.
const maxFailures = 3

// Options configures a Driver.
type Options struct {
	Base sandbox.Snapshotter

	// Dir holds the templates. Processes that share it share them.
	Dir string

	// Image is the path of the image that templates are made of. Machines of
	// others start cold. It need not be there yet.
	Image string

	// Limits are those of the machine that is frozen. Machines with another
	// limit of disk or processes start cold: these two are frozen with it.
	Limits glovebox.Limits

	// Settings are what the machine is bound with before it is frozen: the
	// variables, files and certificates that those of jobs will have, too,
	// and nothing of any job. Secret and Seed are not looked at.
	Settings guest.Settings

	// Prepare warms a machine up; nil means [Warm].
	Prepare func(ctx context.Context, c *guest.Client, log *slog.Logger) error

	// Changed is called when the state changes, from the goroutine of Run.
	// It may be nil and must not block.
	Changed func(State)

	Log *slog.Logger // nil: none
}

var errNoImage = &glovebox.Error{Code: glovebox.CodeUnavailable, Op: "make the template", Msg: "the machine image is missing",
	Hint: "make it with: glovebox image build"}

// State is how a Driver's template stands.
type State struct {
	Key    string
	Ready  bool
	Making bool
	Failed error // why it could not be made the last time
}

// Driver starts machines from a template. It is a [sandbox.Driver], and an
// Adopter and a Pauser as far as the driver around which it is.
type Driver struct {
	o    Options
	wake chan struct{} // something is to be looked at by Run

	mu       sync.Mutex
	state    State
	running  bool // Run does
	failures int  // machines in a row that could not be started from it
}

var (
	_ sandbox.Driver  = (*Driver)(nil)
	_ sandbox.Adopter = (*Driver)(nil)
	_ sandbox.Pauser  = (*Driver)(nil)
)

// New returns a Driver. It makes no template unless Run is called.
func New(o Options) (*Driver, error) {
	if o.Base == nil || o.Dir == "" {
		return nil, glovebox.Invalid("dir", "name a directory", "is empty")
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, &glovebox.Error{Code: glovebox.CodeUnavailable, Op: "open the templates", Msg: o.Dir,
			Hint: "choose another data directory, or make this one writable", Err: err}
	}
	if o.Prepare == nil {
		o.Prepare = Warm
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Driver{o: o, wake: make(chan struct{}, 1)}, nil
}

// Key names the template for the image as it is now.
func (d *Driver) Key() (string, error) {
	base, err := d.o.Base.TemplateKey()
	if err != nil {
		return "", err
	}
	info, err := os.Stat(d.o.Image)
	if err != nil {
		return "", errNoImage
	}
	s := d.o.Settings
	settings, err := json.Marshal([]any{s.Env, s.CACerts, s.Files})
	if err != nil {
		return "", err
	}
	h := sha256.New()
	fmt.Fprintf(h, "%d\n%s\n%s\n%d\n%d\n%d\n%d\n", recipe, base, filepath.Base(d.o.Image), info.Size(), info.ModTime().UnixNano(),
		d.o.Limits.DiskBytes, d.o.Limits.Processes)
	h.Write(settings)
	return hex.EncodeToString(h.Sum(nil)[:10]), nil
}

// State returns how the template stands, as far as this process knows.
func (d *Driver) State() State {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.state
}

// Ready reports whether a machine with the limits of the template would start
// from it now.
func (d *Driver) Ready() bool {
	_, note := d.pick(sandbox.Spec{Limits: d.o.Limits})
	return note == ""
}

// pick returns the template for a machine, or why there is none.
func (d *Driver) pick(s sandbox.Spec) (dir, note string) {
	switch {
	case s.Image != "" && s.Image != d.o.Image:
		return "", "the machine is of an image that has no template"
	case s.Limits.DiskBytes != d.o.Limits.DiskBytes:
		return "", fmt.Sprintf("the template has a disk of %d MiB and the machine shall have %d", d.o.Limits.DiskBytes>>20, s.Limits.DiskBytes>>20)
	case s.Limits.Processes != d.o.Limits.Processes:
		return "", fmt.Sprintf("the template has at most %d processes and the machine shall have %d", d.o.Limits.Processes, s.Limits.Processes)
	}
	key, err := d.Key()
	if err != nil {
		return "", "there is no template: " + short(err)
	}
	dir = filepath.Join(d.o.Dir, key)
	if _, err := os.Stat(dir); err == nil {
		return dir, ""
	}
	d.look()
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.state.Failed != nil && d.state.Key == key:
		return "", "the template could not be made: " + short(d.state.Failed)
	case d.running:
		return "", "the template is being made"
	}
	return "", "there is no template"
}

// short is an error in a line of a note.
func short(err error) string {
	var msg string
	if e, ok := errors.AsType[*glovebox.Error](err); ok && e.Msg != "" {
		msg = e.Msg
	} else {
		msg = err.Error()
	}
	return cut(msg, 160)
}

// cut shortens a text to n bytes.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xC0 == 0x80 {
		n--
	}
	return s[:n]
}

// look makes Run look after the template.
func (d *Driver) look() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// Create implements [sandbox.Driver]: from the template if there is one that
// fits, else cold.
func (d *Driver) Create(ctx context.Context, s sandbox.Spec) error {
	if s.Template != "" {
		return d.o.Base.Create(ctx, s)
	}
	dir, note := d.pick(s)
	if note != "" {
		return d.cold(ctx, s, note)
	}
	from := s
	from.Template = dir
	failed := d.o.Base.Create(ctx, from)
	if failed == nil {
		d.mu.Lock()
		d.failures = 0
		d.mu.Unlock()
		return nil
	}
	if glovebox.CodeOf(failed) != glovebox.CodeUnavailable || ctx.Err() != nil {
		return failed
	}
	if err := d.cold(ctx, s, "the template could not be used: "+short(failed)); err != nil {
		return err // so it is not the template
	}
	d.blame(dir, failed)
	return nil
}

// cold starts a machine cold and notes why.
func (d *Driver) cold(ctx context.Context, s sandbox.Spec, note string) error {
	if note != "" && len(s.Labels) < 16 {
		s.Labels = maps.Clone(s.Labels)
		if s.Labels == nil {
			s.Labels = map[string]string{}
		}
		s.Labels[noteLabel] = cut(note, maxNote)
	}
	return d.o.Base.Create(ctx, s)
}

// blame sets a template aside that no machine starts from.
func (d *Driver) blame(dir string, why error) {
	d.mu.Lock()
	d.failures++
	give := errors.Is(why, sandbox.ErrTemplate) || d.failures >= maxFailures
	if give {
		d.failures = 0
	}
	d.mu.Unlock()
	d.o.Log.Warn("a machine could not start from the template and started cold", "template", filepath.Base(dir), "error", why, "made anew", give)
	if !give {
		return
	}
	if err := setAside(dir); err != nil {
		d.o.Log.Warn("can't remove a template that can't be used", "template", filepath.Base(dir), "error", err)
	}
	d.look()
}

// Dial implements [sandbox.Driver].
func (d *Driver) Dial(ctx context.Context, id sandbox.ID) (net.Conn, error) {
	return d.o.Base.Dial(ctx, id)
}

// List implements [sandbox.Driver]. A machine that is to become a template is
// left out.
func (d *Driver) List(ctx context.Context) ([]sandbox.Info, error) {
	infos, err := d.o.Base.List(ctx)
	if err != nil {
		return nil, err
	}
	infos = slices.DeleteFunc(infos, func(i sandbox.Info) bool { return i.Labels[makerLabel] != "" })
	for i := range infos {
		if note, ok := infos[i].Labels[noteLabel]; ok {
			infos[i].StartNote = note
			infos[i].Labels = maps.Clone(infos[i].Labels)
			delete(infos[i].Labels, noteLabel)
		}
	}
	return infos, nil
}

// Destroy implements [sandbox.Driver].
func (d *Driver) Destroy(ctx context.Context, id sandbox.ID) error { return d.o.Base.Destroy(ctx, id) }

// Adopt implements [sandbox.Adopter], CodeConflict if the driver is none.
func (d *Driver) Adopt(ctx context.Context, from sandbox.ID, s sandbox.Spec) error {
	if a, ok := d.o.Base.(sandbox.Adopter); ok {
		return a.Adopt(ctx, from, s)
	}
	return glovebox.Errorf(glovebox.CodeConflict, "the sandboxes of this driver can't be adopted")
}

// Pause implements [sandbox.Pauser], CodeUnavailable if the driver is none.
func (d *Driver) Pause(ctx context.Context, id sandbox.ID) error {
	if p, ok := d.o.Base.(sandbox.Pauser); ok {
		return p.Pause(ctx, id)
	}
	return glovebox.Errorf(glovebox.CodeUnavailable, "the sandboxes of this driver can't be paused")
}

// Backoff of a template that can't be made.
const (
	firstRetry = 10 * time.Second
	lastRetry  = 10 * time.Minute
)
