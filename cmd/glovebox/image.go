//go:build linux

package main

import (
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/glovebox-dev/glovebox/internal/image"
)

// imageCmd builds and lists images of the machine.
type imageCmd struct {
	Build imageBuildCmd `cmd:"" help:"Build the image of this version, unless it is there."`
	List  imageListCmd  `cmd:"" help:"List the images that are there."`
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
