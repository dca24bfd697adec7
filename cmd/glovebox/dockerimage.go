//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"

	"github.com/moby/moby/client"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/image"
)

// loadImage returns what brings this version's image to a Docker engine under
// the name ref. It takes as long as a copy of the image does.
func loadImage(s image.Store, ref string) func(context.Context, *client.Client) error {
	return func(ctx context.Context, engine *client.Client) error {
		img, err := s.Current()
		if err != nil {
			return err
		}
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		r, w := io.Pipe()
		defer r.Close()
		exported := make(chan error, 1)
		go func() {
			err := s.Export(ctx, img.Digest, ref, w)
			w.CloseWithError(err)
			exported <- err
		}()
		err = load(ctx, engine, r)
		r.CloseWithError(errors.New("the engine stopped reading"))
		if exportErr := <-exported; err == nil {
			err = exportErr
		}
		if err != nil {
			return &glovebox.Error{Code: glovebox.CodeUnavailable, Op: "bring the machine image to the Docker engine", Msg: ref, Err: err,
				Hint: "see whether this works: glovebox image export --docker | docker load"}
		}
		return nil
	}
}

// load gives an engine a tar file of an image.
func load(ctx context.Context, engine *client.Client, tar io.Reader) error {
	res, err := engine.ImageLoad(ctx, tar)
	if err != nil {
		return err
	}
	defer res.Close()
	for d := json.NewDecoder(res); ; { // the engine's progress, and what went wrong after it began to answer
		var said struct{ Error string }
		switch err := d.Decode(&said); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case said.Error != "":
			return errors.New(said.Error)
		}
	}
}
