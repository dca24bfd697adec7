//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"text/tabwriter"
	"time"

	"golang.org/x/term"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/image"
)

// imageCmd builds, lists and publishes images of the machine.
type imageCmd struct {
	Build  imageBuildCmd  `cmd:"" help:"Build the image of this version, unless it is there."`
	List   imageListCmd   `cmd:"" help:"List the images that are there."`
	Pull   imagePullCmd   `cmd:"" help:"Get an image from a registry instead of building it."`
	Push   imagePushCmd   `cmd:"" help:"Send this version's image to a registry."`
	Export imageExportCmd `cmd:"" help:"Write this version's image for docker load."`
	Prune  imagePruneCmd  `cmd:"" help:"Remove images of other versions."`
}

type imageData struct {
	Data string `placeholder:"DIR" help:"The server's data directory (default: ~/.local/share/glovebox)."`
}

func (d imageData) store(a *app) (image.Store, error) {
	cfg, err := settings{Data: d.Data}.load(a, nil)
	return image.Store{Dir: cfg.Path("images")}, err
}

type imageBuildCmd struct {
	imageData
	Mirror string `placeholder:"URL" help:"Debian archive to build from (default: this host's own if it runs Debian)."`
	Force  bool   `help:"Build even if it is there."`
	Quiet  bool   `short:"q" help:"Do not show what the builder says."`
}

// Run builds the image.
func (c *imageBuildCmd) Run(a *app) error {
	s, err := c.store(a)
	if err != nil {
		return err
	}
	if img, err := s.Current(); err == nil && !c.Force {
		return a.say("%s is there: %s", img.Path, size(img.Size))
	}
	ctx, stop := interruptible()
	defer stop()
	start := time.Now()
	o := image.BuildOptions{Mirror: c.Mirror, Force: c.Force, Host: buildHost()}
	if !c.Quiet {
		o.Log = a.stderr
	}
	img, err := s.Build(ctx, o)
	if err != nil {
		return err
	}
	return a.say("%s: %s, built in %s", img.Path, size(img.Size), time.Since(start).Round(time.Second))
}

type imageListCmd struct{ imageData }

// Run lists images.
func (c *imageListCmd) Run(a *app) error {
	s, err := c.store(a)
	if err != nil {
		return err
	}
	images, err := s.List()
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "DIGEST\tSIZE\tBUILT\t")
	for _, img := range images {
		mark := ""
		if img.Current {
			mark = "current"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", img.Digest, size(img.Size), img.BuiltAt.Local().Format(time.DateTime), mark)
	}
	return w.Flush()
}

type imagePullCmd struct {
	imageData
	Use bool   `help:"Use it for this version even if it was made from another definition."`
	Ref string `arg:"" help:"The image's name: registry.example/path/name:tag."`
}

// Run pulls an image.
func (c *imagePullCmd) Run(a *app) error {
	s, err := c.store(a)
	if err != nil {
		return err
	}
	ctx, stop := interruptible()
	defer stop()
	start := time.Now()
	img, err := s.Pull(ctx, c.Ref, image.PullOptions{Use: c.Use})
	if err != nil {
		return err
	}
	if err := a.say("%s: %s, pulled in %s", img.Path, size(img.Size), time.Since(start).Round(time.Second)); err != nil || img.Current {
		return err
	}
	return a.say("It was made from another definition than this version's, and is not used. To use it all the same: glovebox image pull --use %s", c.Ref)
}

type imagePushCmd struct {
	imageData
	Ref string `arg:"" help:"The image's name: registry.example/path/name:tag."`
}

// Run pushes this version's image.
func (c *imagePushCmd) Run(a *app) error {
	s, img, err := c.current(a)
	if err != nil {
		return err
	}
	ctx, stop := interruptible()
	defer stop()
	pushed, err := s.Push(ctx, img.Digest, c.Ref)
	if err != nil {
		return err
	}
	return a.say("%s", pushed)
}

type imageExportCmd struct {
	imageData
	Docker bool   `required:"" help:"As a tar file that docker load takes."`
	Name   string `default:"glovebox-machine:latest" help:"The name that the image gets (${default})."`
	Output string `short:"o" default:"-" placeholder:"FILE" help:"Where to write it (default: standard output)."`
}

// Run exports this version's image.
func (c *imageExportCmd) Run(a *app) error {
	s, img, err := c.current(a)
	if err != nil {
		return err
	}
	ctx, stop := interruptible()
	defer stop()
	if c.Output == "-" {
		if f, ok := a.stdout.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
			return glovebox.Invalid("output", "name a file with -o, or write: glovebox image export --docker | docker load", "a terminal can't show an image")
		}
		return s.Export(ctx, img.Digest, c.Name, a.stdout)
	}
	part := c.Output + ".part"
	f, err := os.Create(part)
	if err != nil {
		return err
	}
	defer os.Remove(part)
	if err := errors.Join(s.Export(ctx, img.Digest, c.Name, f), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(part, c.Output); err != nil {
		return err
	}
	return a.say("%s: to load it, run: docker load -i %s", c.Output, c.Output)
}

// current returns the store and this version's image.
func (d imageData) current(a *app) (image.Store, image.Image, error) {
	s, err := d.store(a)
	if err != nil {
		return s, image.Image{}, err
	}
	img, err := s.Current()
	return s, img, err
}

type imagePruneCmd struct{ imageData }

// Run removes images.
func (c *imagePruneCmd) Run(a *app) error {
	s, err := c.store(a)
	if err != nil {
		return err
	}
	ctx, stop := interruptible()
	defer stop()
	gone, err := s.Prune(ctx)
	var freed int64
	for _, img := range gone {
		freed += img.Size
		if err := a.say("%s: removed", img.Path); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	return a.say("%d removed, %s freed", len(gone), size(freed))
}
