//go:build linux

// Package docker makes sandboxes that are containers of a Docker engine, with
// whatever runtime the engine has: runc, runsc, kata.
//
// A container has no network but a loopback, gains no privileges, is under
// the engine's default seccomp profile, and has of all capabilities only the
// six that the guest daemon needs to run the tools as another user. The guest
// is in the image: for each pair of a machine image and a binary one more
// layer is made, once. A stream to the guest is an attached exec.
//
// Everything about a sandbox is in the engine, in its container's labels; a
// driver has no files. What it may reach of the engine is not given to any
// container: the engine's socket is never mounted.
package docker

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/sandbox"
)

// Options configures a Driver.
type Options struct {
	// Host is the engine's address, e.g. "unix:///var/run/docker.sock". Empty
	// stands for the environment's (DOCKER_HOST and what belongs to it), else
	// the local engine.
	Host string

	// Runtime is a runtime that the engine knows. Empty for its default.
	Runtime string

	// Owner sets this driver's sandboxes apart from others on the engine. Two
	// drivers with the same Owner see the same sandboxes. A path is made absolute.
	Owner string

	// Image is the reference of the machine image of a Spec that names none.
	Image string

	// Load brings Image to the engine if it is not there. It may be nil: then
	// that is an error.
	Load func(ctx context.Context, engine *client.Client) error

	// Guest is the path of the binary that is put inside as the guest. Empty
	// for this one.
	Guest string
}

// Driver makes sandboxes on a Docker engine. It implements [sandbox.Driver],
// [sandbox.Preparer] and [sandbox.Pauser].
type Driver struct {
	o      Options
	owner  string
	engine *client.Client
	images images
}

var (
	_ sandbox.Preparer = (*Driver)(nil)
	_ sandbox.Pauser   = (*Driver)(nil)
)

// Labels of our containers.
const (
	labelOwner = "dev.glovebox.owner"
	labelID    = "dev.glovebox.id"
	labelSpec  = "dev.glovebox.spec" // the Spec's labels, as JSON
)

// Bounds.
const (
	createTimeout = 2 * time.Minute // of a Create whose ctx has no earlier deadline, beside Prepare
	loadTimeout   = 30 * time.Minute
	callTimeout   = 30 * time.Second
)

// New returns a driver. It does not talk to the engine yet.
func New(o Options) (*Driver, error) {
	opts := []client.Opt{client.FromEnv}
	if o.Host != "" {
		opts = append(opts, client.WithHost(o.Host))
	}
	engine, err := client.New(opts...)
	if err != nil {
		return nil, &glovebox.Error{Code: glovebox.CodeInvalid, Field: "docker.host", Msg: fmt.Sprintf("%q is not an engine's address", o.Host), Err: err,
			Hint: "give one like unix:///var/run/docker.sock"}
	}
	owner, err := filepath.Abs(o.Owner)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(owner))
	d := &Driver{o: o, owner: hex.EncodeToString(sum[:8]), engine: engine}
	d.images.d, d.images.loading = d, make(chan struct{}, 1)
	return d, nil
}

// Close ends the connections to the engine. Sandboxes go on.
func (d *Driver) Close() error { return d.engine.Close() }

// Check returns an error that says what is wrong if the engine can't be used.
func (d *Driver) Check(ctx context.Context) error {
	info, err := d.engine.Info(ctx, client.InfoOptions{})
	if err != nil {
		return engineError("ask the engine", err)
	}
	if r := d.o.Runtime; r != "" {
		if _, ok := info.Info.Runtimes[r]; !ok {
			return glovebox.Invalid("docker.runtime", "configure it in the engine's daemon.json", "the engine has no runtime %q", r)
		}
	}
	return nil
}

// name is the name of a sandbox's container. The engine keeps names unique.
func (d *Driver) name(id sandbox.ID) string { return "glovebox-" + d.owner[:8] + "-" + string(id) }

// valid reports whether id can be that of a sandbox.
func valid(id sandbox.ID) bool { return glovebox.ValidID(string(id)) }

// Prepare implements [sandbox.Preparer]: it brings Options.Image to the engine
// if it is missing there and Options.Load can.
func (d *Driver) Prepare(ctx context.Context, image string, say func(string)) error {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	return d.images.load(ctx, cmp.Or(image, d.o.Image), say)
}

// Create implements [sandbox.Driver].
func (d *Driver) Create(ctx context.Context, s sandbox.Spec) error {
	if err := s.Validate(); err != nil {
		return err
	}
	if s.Template != "" {
		return glovebox.Errorf(glovebox.CodeUnavailable, "containers can't start from a template")
	}
	if err := d.Prepare(ctx, s.Image, nil); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, createTimeout)
	defer cancel()
	if s.Image == "" {
		s.Image = d.o.Image
	}
	made, err := d.make(ctx, s)
	if err != nil {
		return err
	}
	_, err = d.engine.ContainerStart(ctx, made, client.ContainerStartOptions{})
	if err == nil && ctx.Err() == nil {
		return nil
	}
	rm := d.remove(context.WithoutCancel(ctx), made)
	if ctx.Err() != nil {
		return errors.Join(givenUp(ctx), rm)
	}
	return errors.Join(engineError("start sandbox", err), rm)
}

// makeTries is how often an image that was there and is gone is made anew:
// another process may take it for one that nobody uses any more.
const makeTries = 3

// make makes the container of a sandbox.
func (d *Driver) make(ctx context.Context, s sandbox.Spec) (container string, err error) {
	for try := 1; ; try++ {
		image, err := d.images.withGuest(ctx, s.Image)
		if err != nil {
			return "", err
		}
		if ctx.Err() != nil {
			return "", givenUp(ctx)
		}
		// An engine that is asked for a container makes it, whether or not anybody
		// waits: so this is not interrupted, or it could not be taken back.
		config, host := d.describe(s, image)
		made, err := d.engine.ContainerCreate(context.WithoutCancel(ctx), client.ContainerCreateOptions{Name: d.name(s.ID), Config: config, HostConfig: host})
		switch {
		case err == nil:
			return made.ID, nil
		case errdefs.IsConflict(err):
			return "", glovebox.Errorf(glovebox.CodeConflict, "sandbox %s exists", s.ID)
		case !errdefs.IsNotFound(err) || try == makeTries:
			return "", engineError("create sandbox", err)
		}
	}
}

func givenUp(ctx context.Context) error {
	return &glovebox.Error{Code: glovebox.CodeUnavailable, Op: "create sandbox", Msg: "it was given up", Err: context.Cause(ctx)}
}

// guestCaps are what the guest daemon needs to run the tools as uid 1000, to
// end them, and to write and own files for them and for the package manager.
// A tool has none of them: it is another user, and gains nothing.
var guestCaps = []string{"CHOWN", "DAC_OVERRIDE", "FOWNER", "KILL", "SETGID", "SETUID"}

// shmBytes is the size of /dev/shm, which browsers want; it counts as memory.
const shmBytes = 256 << 20

// describe is the container of a sandbox.
func (d *Driver) describe(s sandbox.Spec, image string) (*container.Config, *container.HostConfig) {
	labels, err := json.Marshal(s.Labels)
	if err != nil {
		panic("docker: encode labels: " + err.Error()) // a map of strings can be encoded
	}
	config := &container.Config{
		Image: image, Hostname: "glovebox", User: "0:0", WorkingDir: "/",
		Entrypoint:  []string{guestPath, "guest", "serve"},
		Env:         []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LANG=C.UTF-8", "GOTRACEBACK=single"},
		Labels:      map[string]string{labelOwner: d.owner, labelID: string(s.ID), labelSpec: string(labels)},
		Healthcheck: &container.HealthConfig{Test: []string{"NONE"}},
	}
	host := &container.HostConfig{
		Runtime: d.o.Runtime, NetworkMode: "none", IpcMode: "private", ShmSize: shmBytes,
		CapDrop: []string{"ALL"}, CapAdd: guestCaps, SecurityOpt: []string{"no-new-privileges"},
		LogConfig: container.LogConfig{Type: "local", Config: map[string]string{"max-size": "1m", "max-file": "1", "compress": "false"}},
		Resources: container.Resources{Memory: s.Limits.MemoryBytes, MemorySwap: s.Limits.MemoryBytes, NanoCPUs: s.Limits.CPUMillis * 1_000_000},
	}
	if n := s.Limits.Processes; n > 0 {
		host.PidsLimit = &n
	}
	return config, host
}

// enforced says what holds the limits of a container.
func enforced(host *container.HostConfig) map[string]string {
	by := map[string]string{}
	if host == nil {
		return by
	}
	const cgroup = "the engine's cgroup"
	if host.Memory > 0 {
		by["memory_bytes"] = cgroup
	}
	if host.NanoCPUs > 0 {
		by["cpu_millis"] = cgroup
	}
	if host.PidsLimit != nil && *host.PidsLimit > 0 {
		by["processes"] = cgroup
	}
	return by
}

// List implements [sandbox.Driver].
func (d *Driver) List(ctx context.Context) ([]sandbox.Info, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	list, err := d.engine.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: client.Filters{}.Add("label", labelOwner+"="+d.owner)})
	if err != nil {
		return nil, engineError("list sandboxes", err)
	}
	infos := make([]sandbox.Info, 0, len(list.Items))
	for _, c := range list.Items {
		r, err := d.engine.ContainerInspect(ctx, c.ID, client.ContainerInspectOptions{})
		if errdefs.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, engineError("inspect a sandbox", err)
		}
		if i, ok := info(r.Container); ok {
			infos = append(infos, i)
		}
	}
	slices.SortFunc(infos, func(a, b sandbox.Info) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return infos, nil
}

// info describes a container; ok is false if it is not a sandbox.
func info(c container.InspectResponse) (i sandbox.Info, ok bool) {
	if c.Config == nil || c.State == nil {
		return i, false
	}
	i = sandbox.Info{ID: sandbox.ID(c.Config.Labels[labelID]), State: sandbox.Running, Start: "cold", Enforced: enforced(c.HostConfig)}
	if json.Unmarshal([]byte(c.Config.Labels[labelSpec]), &i.Labels) != nil || !valid(i.ID) {
		return i, false
	}
	i.CreatedAt, _ = time.Parse(time.RFC3339Nano, c.Created)
	switch {
	case c.State.Paused:
		i.State = sandbox.Paused
	case !c.State.Running:
		i.State, i.Cause = sandbox.Ended, cause(c.State, enforced(c.HostConfig))
	}
	return i, true
}

// cause says why a container ended. The engine may hear later than of its end
// that it was for want of memory.
func cause(s *container.State, enforced map[string]string) string {
	switch {
	case s.Status == container.StateCreated:
		return "it was never started"
	case s.OOMKilled:
		return "killed: out of memory"
	case s.Error != "":
		return fmt.Sprintf("%.200s", s.Error)
	case s.ExitCode == 128+int(syscall.SIGKILL) && enforced["memory_bytes"] != "":
		return "killed, most likely since it was out of memory"
	case s.ExitCode > 128:
		return fmt.Sprintf("the guest was ended by signal %d", s.ExitCode-128)
	}
	return fmt.Sprintf("the guest ended with %d", s.ExitCode)
}

// Destroy implements [sandbox.Driver].
func (d *Driver) Destroy(ctx context.Context, id sandbox.ID) error {
	if !valid(id) {
		return nil
	}
	return d.remove(ctx, d.name(id))
}

// removing is how long to wait, at first, for what another or the engine does
// with the same container.
const removing = 20 * time.Millisecond

func (d *Driver) remove(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, createTimeout)
	defer cancel()
	for {
		_, err := d.engine.ContainerRemove(ctx, name, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
		switch {
		case err == nil || errdefs.IsNotFound(err):
			return nil
		case !errdefs.IsConflict(err): // else another removes it: wait for that
			return engineError("destroy sandbox", err)
		}
		select {
		case <-time.After(removing):
		case <-ctx.Done():
			return engineError("destroy sandbox", ctx.Err())
		}
	}
}

// Pause implements [sandbox.Pauser].
func (d *Driver) Pause(ctx context.Context, id sandbox.ID) error {
	return d.become(ctx, id, "pause sandbox", true, func(ctx context.Context) error {
		_, err := d.engine.ContainerPause(ctx, d.name(id), client.ContainerPauseOptions{})
		return err
	})
}

// become pauses a container that runs, or lets it go on, with do, unless it is
// so already.
//
// It tries for a while. With cgroup v1 an engine gives up a freeze that does
// not come about at once, as while a process waits for the disk. And an engine
// hears late of what it did itself: for a moment it may take a container for
// paused that goes on, and refuse what is asked of it.
func (d *Driver) become(ctx context.Context, id sandbox.ID, op string, paused bool, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	for wait := removing; ; wait = min(2*wait, time.Second) {
		state, err := d.state(ctx, id)
		if err != nil || state.Paused == paused {
			return err
		}
		failed := do(ctx)
		if failed == nil || !errdefs.IsConflict(failed) && !errdefs.IsInternal(failed) {
			return engineError(op, failed)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return engineError(op, failed)
		}
	}
}

// state returns the state of a container that runs, or CodeNotFound.
func (d *Driver) state(ctx context.Context, id sandbox.ID) (*container.State, error) {
	missing := glovebox.Errorf(glovebox.CodeNotFound, "there is no sandbox %.80q", id)
	if !valid(id) {
		return nil, missing
	}
	r, err := d.engine.ContainerInspect(ctx, d.name(id), client.ContainerInspectOptions{})
	switch {
	case errdefs.IsNotFound(err):
		return nil, missing
	case err != nil:
		return nil, engineError("inspect sandbox", err)
	case r.Container.State == nil || !r.Container.State.Running:
		return nil, glovebox.Errorf(glovebox.CodeNotFound, "sandbox %s has ended", id)
	}
	return r.Container.State, nil
}

// engineError wraps an error of the engine.
func engineError(op string, err error) error {
	if err == nil {
		return nil
	}
	e := &glovebox.Error{Code: glovebox.CodeUnavailable, Op: op, Err: err}
	if client.IsErrConnectionFailed(err) {
		e.Hint = "is a Docker engine running, and may this user talk to it? See docker.host in the configuration"
	}
	return e
}
