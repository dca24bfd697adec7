package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/image/erofs"
)

// definitionLabel is the label of an OCI image that has the digest of the
// definition that it was made from.
const definitionLabel = "dev.glovebox.definition"

// packed is what a whole OCI image was made of, so that the same image gives
// the same manifest.
var packed = time.Unix(1577836800, 0).UTC()

// Push sends the image with a digest to a registry, as an OCI image under the
// name ref. The credentials are those of docker login. It needs room for the
// compressed layers, about a third of the image, in the store.
func (s Store) Push(ctx context.Context, digest, ref string) (pushed string, err error) {
	r, err := parseRef(ref)
	if err != nil {
		return "", err
	}
	err = s.withOCI(digest, func(img v1.Image) error {
		if err := remote.Write(r, img, options(ctx)...); err != nil {
			return registryError("push the image", ref, err)
		}
		d, err := img.Digest()
		pushed = r.Context().Digest(d.String()).String()
		return err
	})
	return pushed, err
}

// Export writes the image with a digest to w as a tar file that docker load
// takes, under the name ref.
func (s Store) Export(ctx context.Context, digest, ref string, w io.Writer) error {
	r, err := parseRef(ref)
	if err != nil {
		return err
	}
	return s.withOCI(digest, func(img v1.Image) error {
		return tarball.Write(r, img, contextWriter{ctx, w})
	})
}

// contextWriter writes until ctx ends.
type contextWriter struct {
	ctx context.Context
	w   io.Writer
}

func (c contextWriter) Write(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.w.Write(p)
}

// withOCI calls do with an image of the store as an OCI image, whose layers
// are there until do returns.
func (s Store) withOCI(digest string, do func(v1.Image) error) error {
	tmp, err := os.MkdirTemp(s.Dir, ".push-")
	if err != nil {
		return fmt.Errorf("make a directory for the layers: %w", err)
	}
	defer os.RemoveAll(tmp)
	layers, err := writeLayers(s.Path(digest), tmp)
	if err != nil {
		return err
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	for i, l := range layers {
		by := "everything else"
		if i > 0 {
			by = "/" + parts[i-1]
		}
		if img, err = mutate.Append(img, mutate.Addendum{Layer: l, History: v1.History{CreatedBy: "glovebox: " + by, Created: v1.Time{Time: packed}}}); err != nil {
			return err
		}
	}
	cfg, err := img.ConfigFile()
	if err != nil {
		return err
	}
	cfg = cfg.DeepCopy()
	cfg.Created, cfg.OS, cfg.Architecture = v1.Time{Time: packed}, "linux", runtime.GOARCH
	cfg.Config = v1.Config{
		User: "1000:1000", WorkingDir: "/workspace", Cmd: []string{"/bin/bash", "-l"},
		Env:    []string{"PATH=/home/agent/.local/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/home/agent", "LANG=C.UTF-8"},
		Labels: map[string]string{definitionLabel: digest},
	}
	if img, err = mutate.ConfigFile(img, cfg); err != nil {
		return err
	}
	return do(img)
}

// PullOptions configures Pull.
type PullOptions struct {
	Use bool // take it for the image of this version even if it was made from another definition
}

// Pull gets an OCI image from a registry and keeps it. An image that Push
// sent has its own digest again; any other one that of its manifest, and only
// runs with Use. It needs room for the files and for the image.
func (s Store) Pull(ctx context.Context, ref string, o PullOptions) (Image, error) {
	r, err := parseRef(ref)
	if err != nil {
		return Image{}, err
	}
	img, err := remote.Image(r, options(ctx)...)
	if err != nil {
		return Image{}, registryError("pull the image", ref, err)
	}
	digest, err := digestOf(img)
	if err != nil {
		return Image{}, registryError("pull the image", ref, err)
	}
	if o.Use {
		digest = Digest()
	}
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		return Image{}, fmt.Errorf("make the image directory: %w", err)
	}
	unlock, err := s.lock(ctx, nil)
	if err != nil {
		return Image{}, err
	}
	defer unlock()
	if err := s.unpack(img, digest); err != nil {
		return Image{}, registryError("pull the image", ref, err)
	}
	return s.stat(digest)
}

// unpack makes an EROFS file from an OCI image.
func (s Store) unpack(img v1.Image, digest string) error {
	layers, err := img.Layers()
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(s.Dir, ".pull-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	spool, err := os.Create(filepath.Join(tmp, "files"))
	if err != nil {
		return err
	}
	defer spool.Close()
	root, err := flatten(layers, spool)
	if err != nil {
		return err
	}
	made := filepath.Join(tmp, "image.erofs")
	out, err := os.Create(made)
	if err != nil {
		return err
	}
	if err := errors.Join(erofs.Write(out, root), out.Close()); err != nil {
		return err
	}
	return publish(made, s.Path(digest))
}

// digestOf returns the digest under which an OCI image is kept, once it is
// clear that it can run here.
func digestOf(img v1.Image) (string, error) {
	cfg, err := img.ConfigFile()
	if err != nil {
		return "", err
	}
	if cfg.OS != "linux" || cfg.Architecture != runtime.GOARCH {
		return "", glovebox.Invalid("ref", "name an image for this machine", "it is for %.20s/%.20s, and this is linux/%s", cfg.OS, cfg.Architecture, runtime.GOARCH)
	}
	if d := cfg.Config.Labels[definitionLabel]; len(d) == 16 && strings.Trim(d, "0123456789abcdef") == "" {
		return d, nil
	}
	h, err := img.Digest()
	if err != nil {
		return "", err
	}
	return h.Hex[:16], nil
}

func parseRef(ref string) (name.Reference, error) {
	r, err := name.ParseReference(ref)
	if err != nil {
		return nil, glovebox.Invalid("ref", "write it as registry.example/path/name:tag", "%.200q is not the name of an image", ref)
	}
	return r, nil
}

func options(ctx context.Context) []remote.Option {
	return []remote.Option{
		remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain), remote.WithUserAgent("glovebox"),
		remote.WithPlatform(v1.Platform{OS: "linux", Architecture: runtime.GOARCH}),
	}
}

// registryError says what a person can do about an error of a registry.
func registryError(op, ref string, err error) error {
	if glovebox.CodeOf(err) == glovebox.CodeInvalid || errors.Is(err, context.Canceled) {
		return err
	}
	e := &glovebox.Error{Code: glovebox.CodeUnavailable, Op: op, Msg: fmt.Sprintf("%.200s failed", ref), Err: err,
		Hint: "check the name, the network and docker login"}
	var te *transport.Error
	if errors.As(err, &te) {
		switch te.StatusCode {
		case http.StatusNotFound:
			e.Code, e.Msg, e.Hint = glovebox.CodeNotFound, fmt.Sprintf("there is no image %.200s", ref), "check the name and the tag"
		case http.StatusUnauthorized, http.StatusForbidden:
			e.Code, e.Hint = glovebox.CodeForbidden, "run: docker login"
		}
	}
	return e
}
