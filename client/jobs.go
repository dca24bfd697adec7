package client

import (
	"context"
	"encoding/json"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox"
)

const poll = 30 * time.Second // how long one long poll lasts

// jobPath returns a path below a job, with an id that may be anything a user
// typed.
func jobPath(id string, rest string) string { return "/jobs/" + url.PathEscape(id) + rest }

// Status returns the state of a job.
func (c *Client) Status(ctx context.Context, id string) (*glovebox.JobView, error) {
	v := new(glovebox.JobView)
	_, err := c.do(ctx, callTimeout, call{method: http.MethodGet, path: jobPath(id, ""), repeat: true}, v)
	if err != nil {
		return nil, err
	}
	return v, nil
}

// Wait returns the state of a job once it has events after number seq, or is
// terminal. seq is that of a view; 0 returns at once.
func (c *Client) Wait(ctx context.Context, id string, seq int64) (*glovebox.JobView, error) {
	for {
		v := new(glovebox.JobView)
		k := call{method: http.MethodGet, path: jobPath(id, ""), repeat: true,
			query: url.Values{"wait": {poll.String()}, "seq": {strconv.FormatInt(seq, 10)}}}
		if _, err := c.do(ctx, poll+callTimeout, k, v); err != nil {
			return nil, err
		}
		if v.Seq > seq || v.Status.Terminal() {
			return v, nil
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
}

// WaitDone returns the state of a job once it is terminal. observe, unless it
// is nil, is called with each new state on the way.
func (c *Client) WaitDone(ctx context.Context, id string, observe func(*glovebox.JobView)) (*glovebox.JobView, error) {
	for seq := int64(0); ; {
		v, err := c.Wait(ctx, id, seq)
		if err != nil {
			return nil, err
		}
		if observe != nil {
			observe(v)
		}
		if v.Status.Terminal() {
			return v, nil
		}
		seq = v.Seq
	}
}

// Filter selects jobs.
type Filter struct {
	Status []glovebox.Status // empty for all
	Query  string            // words that the task contains
	Cursor string            // of the page before
	Limit  int               // jobs in a page, at most 100; 0 for the server's default
}

// List returns one page of jobs, newest first.
func (c *Client) List(ctx context.Context, f Filter) (*glovebox.JobList, error) {
	q := url.Values{}
	for _, s := range f.Status {
		q.Add("status", string(s))
	}
	for name, v := range map[string]string{"q": f.Query, "cursor": f.Cursor} {
		if v != "" {
			q.Set(name, v)
		}
	}
	if f.Limit != 0 {
		q.Set("limit", strconv.Itoa(f.Limit))
	}
	l := new(glovebox.JobList)
	if _, err := c.do(ctx, callTimeout, call{method: http.MethodGet, path: "/jobs", query: q, repeat: true}, l); err != nil {
		return nil, err
	}
	return l, nil
}

// Jobs returns all jobs that a filter selects, newest first, page by page. An
// error is the last that it yields.
func (c *Client) Jobs(ctx context.Context, f Filter) iter.Seq2[*glovebox.JobView, error] {
	return func(yield func(*glovebox.JobView, error) bool) {
		for {
			l, err := c.List(ctx, f)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, v := range l.Jobs {
				if !yield(v, nil) {
					return
				}
			}
			if l.Cursor == "" || l.Cursor == f.Cursor {
				return
			}
			f.Cursor = l.Cursor
		}
	}
}

// Cancel ends a job. A running one ends a moment later.
func (c *Client) Cancel(ctx context.Context, id string) (*glovebox.JobView, error) {
	return c.change(ctx, call{method: http.MethodPost, path: jobPath(id, "/cancel"), repeat: true})
}

// Say says something to a job: it steers it, or answers its question. A
// message is not sent twice: if there was no answer, it may or may not have
// arrived, which the job's events show.
func (c *Client) Say(ctx context.Context, id, text string) (*glovebox.JobView, error) {
	if err := glovebox.ValidateUserText(text); err != nil {
		return nil, err
	}
	v := new(glovebox.JobView)
	timeout := callTimeout + time.Duration(len(text)>>10)*time.Second/16 // a slow line takes 16 KiB a second
	_, err := c.do(ctx, timeout, call{method: http.MethodPost, path: jobPath(id, "/messages"), contentType: "text/plain; charset=utf-8",
		body: func() io.Reader { return strings.NewReader(text) }}, v)
	if err != nil {
		return nil, err
	}
	return v, nil
}

// RaiseLimits raises the limits of a job that are set in l: only Steps,
// Tokens, CostMicros and WallTimeSeconds can be. A job that ended at one goes on.
func (c *Client) RaiseLimits(ctx context.Context, id string, l glovebox.Limits) (*glovebox.JobView, error) {
	body, err := jsonBody(l)
	if err != nil {
		return nil, err
	}
	return c.change(ctx, call{method: http.MethodPatch, path: jobPath(id, "/limits"), contentType: "application/json", body: body, repeat: true})
}

func (c *Client) change(ctx context.Context, k call) (*glovebox.JobView, error) {
	v := new(glovebox.JobView)
	if _, err := c.do(ctx, callTimeout, k, v); err != nil {
		return nil, err
	}
	return v, nil
}

// Delete removes a job that has ended, and all that belongs to it.
func (c *Client) Delete(ctx context.Context, id string) error {
	_, err := c.do(ctx, callTimeout, call{method: http.MethodDelete, path: jobPath(id, "")}, nil)
	return err
}

// Manifest returns what is in the artifact of a job.
func (c *Client) Manifest(ctx context.Context, id string) (*glovebox.Manifest, error) {
	m := new(glovebox.Manifest)
	if _, err := c.do(ctx, callTimeout, call{method: http.MethodGet, path: jobPath(id, "/artifact"), repeat: true}, m); err != nil {
		return nil, err
	}
	return m, nil
}

// Dir lists a directory of a job's project; "" is its root. CodeConflict if
// it is a file.
func (c *Client) Dir(ctx context.Context, id, path string) (*glovebox.DirList, error) {
	return c.dir(ctx, id, path, nil)
}

func (c *Client) dir(ctx context.Context, id, path string, query url.Values) (*glovebox.DirList, error) {
	resp, err := c.send(ctx, call{method: http.MethodGet, path: filePath(id, path) + "/", query: query})
	if err != nil {
		return nil, plain(err)
	}
	defer resp.Body.Close()
	if !isDir(resp) {
		return nil, &glovebox.Error{Code: glovebox.CodeConflict, Field: "path", Value: path, Msg: "it is a file, not a directory"}
	}
	l := new(glovebox.DirList)
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(l); err != nil {
		return nil, c.unreachable(ctx, err)
	}
	return l, nil
}

// File opens a file of a job's project for reading, and returns its size.
// CodeConflict if it is a directory.
func (c *Client) File(ctx context.Context, id, path string) (body io.ReadCloser, size int64, err error) {
	return c.file(ctx, id, path, nil)
}

func (c *Client) file(ctx context.Context, id, path string, query url.Values) (body io.ReadCloser, size int64, err error) {
	resp, err := c.send(ctx, call{method: http.MethodGet, path: filePath(id, path), query: query})
	if err != nil {
		return nil, 0, plain(err)
	}
	if isDir(resp) {
		resp.Body.Close()
		return nil, 0, &glovebox.Error{Code: glovebox.CodeConflict, Field: "path", Value: path, Msg: "it is a directory, not a file"}
	}
	return resp.Body, resp.ContentLength, nil
}

// Output opens the whole output of a tool for reading, by the handle that a
// ToolFinished event has as Blob, and returns its size.
func (c *Client) Output(ctx context.Context, id, handle string) (body io.ReadCloser, size int64, err error) {
	resp, err := c.send(ctx, call{method: http.MethodGet, path: jobPath(id, "/outputs/") + url.PathEscape(handle)})
	if err != nil {
		return nil, 0, plain(err)
	}
	return resp.Body, resp.ContentLength, nil
}

// isDir reports whether the answer is a list: files are always downloads.
func isDir(resp *http.Response) bool { return resp.Header.Get("Content-Disposition") == "" }

func filePath(id, path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return strings.TrimSuffix(jobPath(id, "/files/")+strings.Join(parts, "/"), "/")
}
