package client

import (
	"context"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"github.com/glovebox-dev/glovebox"
)

// SetControl says who holds mouse and keyboard of a job's machine from here
// on: [glovebox.ControlUser] takes them, [glovebox.ControlAgent] gives them
// back. A running job takes it up a moment later; its state tells when.
func (c *Client) SetControl(ctx context.Context, id string, holder glovebox.Control) (*glovebox.JobView, error) {
	body, err := jsonBody(map[string]glovebox.Control{"control": holder})
	if err != nil {
		return nil, err
	}
	return c.change(ctx, call{method: http.MethodPost, path: jobPath(id, "/control"), contentType: "application/json", body: body, repeat: true})
}

// Steps returns the steps of a job after number after, page by page, until the
// newest; -1 is from step 0. An error is the last that it yields.
func (c *Client) Steps(ctx context.Context, id string, after int64) iter.Seq2[glovebox.Step, error] {
	return func(yield func(glovebox.Step, error) bool) {
		for {
			q := url.Values{}
			if after >= 0 {
				q.Set("after", strconv.FormatInt(after, 10))
			}
			l := new(glovebox.StepList)
			if _, err := c.do(ctx, callTimeout, call{method: http.MethodGet, path: jobPath(id, "/steps"), query: q, repeat: true}, l); err != nil {
				yield(glovebox.Step{}, err)
				return
			}
			for _, s := range l.Steps {
				if !yield(s, nil) {
					return
				}
			}
			if !l.More || len(l.Steps) == 0 {
				return
			}
			after = l.Next
		}
	}
}

// Diff returns how the workspace of a job differs between two steps. from is
// the number of a step or "start", to is one or "now"; empty stands for these
// words. If path is not empty, only that file or directory is compared.
func (c *Client) Diff(ctx context.Context, id, from, to, path string) (*glovebox.WorkspaceDiff, error) {
	q := url.Values{}
	for name, v := range map[string]string{"from": from, "to": to, "path": path} {
		if v != "" {
			q.Set(name, v)
		}
	}
	d := new(glovebox.WorkspaceDiff)
	if _, err := c.do(ctx, callTimeout, call{method: http.MethodGet, path: jobPath(id, "/diff"), query: q, repeat: true}, d); err != nil {
		return nil, err
	}
	return d, nil
}

// FileAt opens a file of a job's project as it was at the end of a step, the
// number of one, "start" or "now", and returns its size. CodeConflict if it is
// a directory.
func (c *Client) FileAt(ctx context.Context, id, path, step string) (body io.ReadCloser, size int64, err error) {
	return c.file(ctx, id, path, url.Values{"step": {step}})
}

// DirAt lists a directory of a job's project as it was at the end of a step.
// CodeConflict if it is a file.
func (c *Client) DirAt(ctx context.Context, id, path, step string) (*glovebox.DirList, error) {
	return c.dir(ctx, id, path, url.Values{"step": {step}})
}
