package client

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/glovebox-dev/glovebox"
)

// Link makes a link that lets whoever has it watch a job, or also step in,
// until it expires. 0 stands for an hour; it is rounded down to seconds.
func (c *Client) Link(ctx context.Context, id string, scope glovebox.LinkScope, ttl time.Duration) (*glovebox.Link, error) {
	req := glovebox.LinkRequest{Scope: scope, TTLSeconds: int64(ttl / time.Second)}
	if err := req.Validate(); err != nil {
		return nil, err
	}
	l := new(glovebox.Link)
	return l, c.post(ctx, jobPath(id, "/links"), req, l)
}

// Place returns where a browser can see what the machine of a running job
// serves. It is good for one visit within a minute.
func (c *Client) Place(ctx context.Context, id string, req glovebox.PlaceRequest) (*glovebox.Place, error) {
	p := new(glovebox.Place)
	return p, c.post(ctx, jobPath(id, "/places"), req, p)
}

// Ports lists what listens in the machine of a running job.
func (c *Client) Ports(ctx context.Context, id string) (*glovebox.PortList, error) {
	l := new(glovebox.PortList)
	_, err := c.do(ctx, callTimeout, call{method: http.MethodGet, path: jobPath(id, "/ports"), repeat: true}, l)
	return l, err
}

// Services lists the services of the machine of a running job.
func (c *Client) Services(ctx context.Context, id string) (*glovebox.ServiceList, error) {
	l := new(glovebox.ServiceList)
	_, err := c.do(ctx, callTimeout, call{method: http.MethodGet, path: jobPath(id, "/services"), repeat: true}, l)
	return l, err
}

// ServiceLog returns the end of what a service of the machine of a running job
// wrote to its output, at most 64 KiB. CodeNotFound if there is no such service.
func (c *Client) ServiceLog(ctx context.Context, id, name string) (string, error) {
	resp, err := c.send(ctx, call{method: http.MethodGet, path: jobPath(id, "/services/") + url.PathEscape(name) + "/log"})
	if err != nil {
		return "", plain(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	return string(b), plain(err)
}

// post sends JSON, again if there was no answer: what it makes takes no room.
func (c *Client) post(ctx context.Context, path string, in, out any) error {
	body, err := jsonBody(in)
	if err != nil {
		return err
	}
	_, err = c.do(ctx, callTimeout, call{method: http.MethodPost, path: path, contentType: "application/json", body: body, repeat: true}, out)
	return err
}
