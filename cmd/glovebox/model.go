package main

import (
	"context"

	"github.com/glovebox-dev/glovebox/client"
)

type modelCmd struct {
	one
	Model string `arg:"" help:"Who goes on with it: provider:model."`
	JSON  bool   `name:"json" help:"The job, as JSON."`
}

// Run lets another model go on with a job.
func (c *modelCmd) Run(a *app) error {
	return c.with(a, func(ctx context.Context, cl *client.Client) error {
		j, changed, err := cl.ChangeModel(ctx, c.ID, c.Model)
		if err != nil {
			return err
		}
		if c.JSON {
			return a.printJSON(j)
		}
		if !changed {
			return a.say("%s: has %s already", c.ID, c.Model)
		}
		return a.say("%s: %s goes on with it from the next step", c.ID, c.Model)
	})
}
