//go:build linux

package docker

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/glovebox-dev/glovebox"
)

// guestPath is where the guest is, inside.
const guestPath = "/.glovebox/glovebox"

const (
	guestRepository = "glovebox-guest"
	labelGuest      = "dev.glovebox.guest" // of a machine image with a guest
)

// images makes images that hold the guest.
type images struct {
	d       *Driver
	loading chan struct{} // held by who brings the machine image to the engine
	mu      sync.Mutex

	guest string            // hash of the binary
	ready map[string]string // reference of a machine image -> of the one with the guest
}

// withGuest returns the reference of an image that is ref and the guest. It
// is made when it is first wanted: in a container that is never started, and
// committed, so that its name is there when it is whole.
func (g *images) withGuest(ctx context.Context, ref string) (string, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	base, err := g.base(ctx, ref)
	if err != nil {
		return "", err
	}
	if made := g.ready[base]; made != "" {
		if _, err := g.d.engine.ImageInspect(ctx, made); err == nil {
			return made, nil
		}
	}
	if g.guest == "" {
		if g.guest, err = g.hash(); err != nil {
			return "", &glovebox.Error{Code: glovebox.CodeUnavailable, Op: "read the guest binary", Err: err}
		}
	}
	made := fmt.Sprintf("%s:%s-%s", guestRepository, short(base), short(g.guest))
	for {
		if _, err := g.d.engine.ImageInspect(ctx, made); err == nil {
			break
		} else if !errdefs.IsNotFound(err) {
			return "", engineError("look for the image with the guest", err)
		}
		done, err := g.make(ctx, base, made)
		if err != nil {
			return "", engineError("put the guest into the image", err)
		}
		if done {
			g.removeOthers(context.WithoutCancel(ctx), made)
			break
		}
	}
	g.ready = map[string]string{base: made}
	return made, nil
}

func short(digest string) string { return strings.TrimPrefix(digest, "sha256:")[:12] }

// load brings the machine image ref to the engine if it is missing and can be
// brought.
func (g *images) load(ctx context.Context, ref string, say func(string)) error {
	if ref == "" || g.d.o.Load == nil || ref != g.d.o.Image {
		return nil // withGuest says what is missing
	}
	if missing, err := g.missing(ctx, ref); err != nil || !missing {
		return err
	}
	if say != nil {
		say("The machine image is copied into the Docker engine. That happens once, and takes a minute or so.")
	}
	select {
	case g.loading <- struct{}{}:
		defer func() { <-g.loading }()
	case <-ctx.Done():
		return givenUp(ctx)
	}
	if missing, err := g.missing(ctx, ref); err != nil || !missing { // another has brought it
		return err
	}
	if err := g.d.o.Load(ctx, g.d.engine); err != nil {
		if ctx.Err() != nil {
			return givenUp(ctx)
		}
		return err
	}
	return nil
}

func (g *images) missing(ctx context.Context, ref string) (bool, error) {
	_, err := g.d.engine.ImageInspect(ctx, ref)
	switch {
	case errdefs.IsNotFound(err):
		return true, nil
	case errdefs.IsInvalidArgument(err):
		return false, nil // withGuest says so
	}
	return false, engineError("look for the machine image", err)
}

// base returns the digest of the machine image.
func (g *images) base(ctx context.Context, ref string) (string, error) {
	missing := &glovebox.Error{Code: glovebox.CodeUnavailable, Op: "create sandbox", Msg: fmt.Sprintf("the engine has no image %q", ref),
		Hint: "bring it there with: glovebox image export --docker | docker load"}
	if ref == "" {
		return "", missing
	}
	r, err := g.d.engine.ImageInspect(ctx, ref)
	switch {
	case errdefs.IsNotFound(err), errdefs.IsInvalidArgument(err):
		return "", missing
	case err != nil:
		return "", engineError("look for the machine image", err)
	}
	return r.ID, nil
}

func (g *images) hash() (string, error) {
	f, err := g.open()
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func (g *images) open() (*os.File, error) {
	if g.d.o.Guest != "" {
		return os.Open(g.d.o.Guest)
	}
	return os.Open("/proc/self/exe")
}

// make makes an image. done is false if another process was at it, and it is
// to be looked for again.
func (g *images) make(ctx context.Context, base, made string) (done bool, err error) {
	engine, name := g.d.engine, strings.ReplaceAll(made, ":", "-")
	c, err := engine.ContainerCreate(context.WithoutCancel(ctx), client.ContainerCreateOptions{Name: name, Config: &container.Config{
		Image: base, Entrypoint: []string{guestPath}, Labels: map[string]string{labelGuest: "building"}}})
	if errdefs.IsConflict(err) {
		return false, g.await(ctx, name)
	}
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, g.d.remove(context.WithoutCancel(ctx), c.ID)) }()
	r, w := io.Pipe()
	go func() { w.CloseWithError(g.pack(w)) }()
	_, err = engine.CopyToContainer(ctx, c.ID, client.CopyToContainerOptions{DestinationPath: "/", Content: r})
	r.Close()
	if err != nil {
		return false, err
	}
	_, err = engine.ContainerCommit(ctx, c.ID, client.ContainerCommitOptions{Reference: made, Changes: []string{"LABEL " + labelGuest + "=" + short(g.guest)}})
	return err == nil, err
}

// await waits until another process has made its image, or takes its place if
// it must have died.
func (g *images) await(ctx context.Context, name string) error {
	r, err := g.d.engine.ContainerInspect(ctx, name, client.ContainerInspectOptions{})
	if errdefs.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if at, err := time.Parse(time.RFC3339Nano, r.Container.Created); err == nil && time.Since(at) > createTimeout {
		return g.d.remove(ctx, r.Container.ID)
	}
	select {
	case <-time.After(removing):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// pack writes the guest as a tar.
func (g *images) pack(w io.Writer) error {
	f, err := g.open()
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	t := tar.NewWriter(w)
	if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: path.Dir(guestPath)[1:] + "/", Mode: 0o755}); err != nil {
		return err
	}
	if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: guestPath[1:], Mode: 0o755, Size: info.Size()}); err != nil {
		return err
	}
	if _, err := io.Copy(t, f); err != nil {
		return err
	}
	return t.Close()
}

// young is the age at which an image may still be somebody's next.
const young = time.Hour

// removeOthers removes older images of other guests, unless a container uses them.
func (g *images) removeOthers(ctx context.Context, keep string) {
	list, err := g.d.engine.ImageList(ctx, client.ImageListOptions{Filters: client.Filters{}.Add("reference", guestRepository)})
	if err != nil {
		return // it only costs room
	}
	for _, i := range list.Items {
		if time.Since(time.Unix(i.Created, 0)) < young {
			continue
		}
		for _, tag := range i.RepoTags {
			if tag != keep {
				_, _ = g.d.engine.ImageRemove(ctx, tag, client.ImageRemoveOptions{})
			}
		}
	}
}
