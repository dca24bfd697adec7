package client

import (
	"context"
	"net/http"

	"github.com/glovebox-dev/glovebox"
)

// ChangeModel lets another model, "provider:model", go on with a job from its
// next step on. A running job takes it up a moment later. changed is false if
// the job has that model already, or is about to.
func (c *Client) ChangeModel(ctx context.Context, id, model string) (v *glovebox.JobView, changed bool, err error) {
	body, err := jsonBody(map[string]string{"model": model})
	if err != nil {
		return nil, false, err
	}
	v = new(glovebox.JobView)
	status, err := c.do(ctx, callTimeout, call{method: http.MethodPost, path: jobPath(id, "/model"), contentType: "application/json", body: body, repeat: true}, v)
	if err != nil {
		return nil, false, err
	}
	return v, status == http.StatusAccepted, nil
}
