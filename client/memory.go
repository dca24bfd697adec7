package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/glovebox-dev/glovebox"
)

// Request returns the request to the model of a step of a job, as it is built
// from the job's log. step 0 is the newest; attempt 0 is the newest try of it.
// CodeNotFound for a step that there is not.
func (c *Client) Request(ctx context.Context, id string, step, attempt int64) (*glovebox.RequestView, error) {
	at := "newest"
	if step != 0 {
		at = strconv.FormatInt(step, 10)
	}
	q := url.Values{}
	if attempt != 0 {
		q.Set("attempt", strconv.FormatInt(attempt, 10))
	}
	v := new(glovebox.RequestView)
	if _, err := c.do(ctx, callTimeout, call{method: http.MethodGet, path: jobPath(id, "/requests/"+at), query: q, repeat: true}, v); err != nil {
		return nil, err
	}
	return v, nil
}
