package main

import (
	"io"
	"os"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/llm"
	"github.com/glovebox-dev/glovebox/internal/llm/resolve"
	"github.com/glovebox-dev/glovebox/internal/memory"
	"github.com/glovebox-dev/glovebox/internal/memory/membench"
	"github.com/glovebox-dev/glovebox/internal/tool"
)

// memoryReplayCmd runs a log through the engine.
type memoryReplayCmd struct {
	File         string `arg:"" help:"The log: one event a line as JSON, as 'glovebox jobs logs ID --json' prints it; of pages of GET /jobs/ID/events it is what jq -c '.events[]' makes. - for standard input."`
	Model        string `placeholder:"PROVIDER:NAME" help:"Decide the folds anew, for this model's window and prices (default: the models that the job had, and the folds of the log if it has any)."`
	SummaryRatio int64  `placeholder:"N" default:"20" help:"How many times shorter than its source a model's summary is taken to be, where the log has none."`
	JSON         bool   `name:"json" help:"As JSON."`
}

// Run replays a log.
func (c *memoryReplayCmd) Run(a *app) error {
	if c.SummaryRatio < 2 || c.SummaryRatio > 200 {
		return glovebox.Invalid("--summary-ratio", "give 2 to 200", "%d is out of range", c.SummaryRatio)
	}
	var from io.Reader = a.stdin
	if c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return &glovebox.Error{Code: glovebox.CodeInvalid, Field: "file", Msg: "can't open the log", Hint: "print one with: glovebox jobs logs ID --json > FILE", Err: err}
		}
		defer f.Close()
		from = f
	}
	ctx, cancel := interruptible()
	defer cancel()
	got, err := membench.Replay(ctx, from, membench.ReplayOptions{Model: replayModel, Name: c.Model, SummaryRatio: c.SummaryRatio})
	if err != nil {
		return err
	}
	if c.JSON {
		return got.WriteJSON(a.stdout)
	}
	return got.Write(a.stdout)
}

// replayModel returns what requests to a model depend on. No key is needed.
func replayModel(name string) (memory.Options, llm.Info, error) {
	provider, model, err := resolve.Split(name)
	if err != nil {
		return memory.Options{}, llm.Info{}, err
	}
	info := llm.Lookup(provider, model)
	return tool.Memory(tool.All(), nil, info), info, nil
}
