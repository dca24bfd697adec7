// Package client talks to the HTTP API of a Glovebox server.
//
// Every failure is a *glovebox.Error: with the code, field and hint of the
// server's answer, or with CodeUnavailable when there was none. Calls that are
// safe to repeat are repeated when the connection breaks or the server is
// busy: reads, and submissions, which carry an idempotency key. A stream of
// events and a download go on where they broke off.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox"
)

// DefaultURL is where a server listens unless it is told otherwise.
const DefaultURL = "http://127.0.0.1:8000"

const (
	maxAnswer   = 64 << 20 // bytes of an answer in JSON
	maxProblem  = 64 << 10
	tries       = 4 // of a call that is safe to repeat
	callTimeout = 30 * time.Second
)

// Client talks to one server. Its methods may be called from many goroutines.
type Client struct {
	base     string // without a slash at the end
	token    string
	agent    string
	http     *http.Client
	patience time.Duration
}

// Option changes a Client.
type Option func(*Client)

// WithToken sends an access token with every request.
func WithToken(token string) Option { return func(c *Client) { c.token = token } }

// WithUserAgent sets the User-Agent header.
func WithUserAgent(agent string) Option { return func(c *Client) { c.agent = agent } }

// WithHTTPClient replaces the HTTP client. It must have no overall timeout:
// event streams are open for as long as a job runs.
func WithHTTPClient(h *http.Client) Option { return func(c *Client) { c.http = h } }

// WithPatience sets for how long an event stream or a download tries to go on
// while nothing arrives, before it gives up. The default is 2 minutes.
func WithPatience(d time.Duration) Option { return func(c *Client) { c.patience = d } }

// New returns a client of the server at baseURL, such as [DefaultURL]. The
// URL may have a path, for a server behind a prefix.
func New(baseURL string, opts ...Option) (*Client, error) {
	u, err := url.Parse(baseURL)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, glovebox.Invalid("url", "give the server's address, e.g. "+DefaultURL, "not an http or https URL of a server")
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.ResponseHeaderTimeout = 90 * time.Second // more than the longest poll
	transport.MaxIdleConnsPerHost = 16
	c := &Client{base: strings.TrimSuffix(u.String(), "/"), agent: "glovebox-client", http: &http.Client{Transport: transport}, patience: 2 * time.Minute}
	for _, o := range opts {
		o(c)
	}
	return c, nil
}

// BaseURL returns the server's address, without a slash at the end.
func (c *Client) BaseURL() string { return c.base }

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// call describes one request.
type call struct {
	method, path string
	query        url.Values
	header       map[string]string
	contentType  string
	body         func() io.Reader // a fresh one for each try; nil for none
	repeat       bool             // safe to send again
}

// send sends a request once. A response that is not a success is an error,
// and its body is closed.
func (c *Client) send(ctx context.Context, k call) (*http.Response, error) {
	u := c.base + k.path
	if len(k.query) > 0 {
		u += "?" + k.query.Encode()
	}
	var body io.Reader
	if k.body != nil {
		body = k.body()
	}
	req, err := http.NewRequestWithContext(ctx, k.method, u, body)
	if err != nil {
		return nil, glovebox.Invalid("request", "", "%v", err)
	}
	if k.contentType != "" {
		req.Header.Set("Content-Type", k.contentType)
	}
	for name, v := range k.header {
		req.Header.Set(name, v)
	}
	req.Header.Set("User-Agent", c.agent)
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	if resp.StatusCode >= 400 {
		defer resp.Body.Close()
		return nil, problem(resp)
	}
	return resp, nil
}

// unreachable is what is wrong when there was no answer.
func (c *Client) unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if ue, ok := errors.AsType[*url.Error](err); ok {
		err = ue.Err // the URL is in the message already
	}
	return &glovebox.Error{Code: glovebox.CodeUnavailable, Msg: "no answer from " + c.base, Err: err,
		Hint: "is the server running there? start one with: glovebox serve"}
}

// problem makes an error of a refusal.
func problem(resp *http.Response) error {
	b, _ := io.ReadAll(io.LimitReader(resp.Body, maxProblem))
	var p glovebox.Problem
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "application/problem+json") && json.Unmarshal(b, &p) == nil {
		return &refusal{status: resp.StatusCode, after: retryAfter(resp), err: p.Err()}
	}
	code := glovebox.CodeInternal
	switch {
	case resp.StatusCode == http.StatusNotFound:
		code = glovebox.CodeNotFound
	case resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusProxyAuthRequired:
		code = glovebox.CodeUnauthorized
	case resp.StatusCode == http.StatusForbidden:
		code = glovebox.CodeForbidden
	case resp.StatusCode == http.StatusTooManyRequests, resp.StatusCode > 500:
		code = glovebox.CodeUnavailable
	case resp.StatusCode < 500:
		code = glovebox.CodeInvalid
	}
	return &refusal{status: resp.StatusCode, after: retryAfter(resp), err: &glovebox.Error{Code: code,
		Msg:  fmt.Sprintf("the answer was %s, and not from a Glovebox server", resp.Status),
		Hint: "check the address, and proxies on the way"}}
}

// refusal is an error that the server answered with.
type refusal struct {
	status int
	after  time.Duration
	err    *glovebox.Error
}

func (r *refusal) Error() string { return r.err.Error() }
func (r *refusal) Unwrap() error { return r.err }

// plain takes the wrapping off, for callers: what they see is a
// *glovebox.Error, or the error of their context.
func plain(err error) error {
	if r, ok := errors.AsType[*refusal](err); ok {
		return r.err
	}
	return err
}

func retryAfter(resp *http.Response) time.Duration {
	n, err := strconv.Atoi(resp.Header.Get("Retry-After"))
	if err != nil || n < 0 {
		return 0
	}
	return min(time.Duration(n)*time.Second, 30*time.Second)
}

// passing reports whether err may go away by itself.
func passing(err error) bool {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	return glovebox.CodeOf(err) == glovebox.CodeUnavailable
}

// pause waits before try n (from 1), for as long as the server asked or a
// little longer each time.
func pause(ctx context.Context, n int, err error) error {
	d := min(100*time.Millisecond<<min(n-1, 6), 5*time.Second)
	d = d/2 + rand.N(d/2)
	if r, ok := errors.AsType[*refusal](err); ok {
		d = max(d, r.after)
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// do sends a request, again if it is safe to, and decodes the answer into
// out, unless that is nil. It returns the status.
func (c *Client) do(ctx context.Context, timeout time.Duration, k call, out any) (int, error) {
	for n := 1; ; n++ {
		status, err := c.once(ctx, timeout, k, out)
		if err == nil || !k.repeat || n == tries || !passing(err) {
			return status, plain(err)
		}
		if perr := pause(ctx, n, err); perr != nil {
			return 0, perr
		}
	}
}

func (c *Client) once(parent context.Context, timeout time.Duration, k call, out any) (int, error) {
	ctx, cancel := context.WithTimeout(parent, timeout)
	defer cancel()
	resp, err := c.send(ctx, k)
	if err != nil {
		if parent.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
			err = &glovebox.Error{Code: glovebox.CodeUnavailable, Msg: fmt.Sprintf("no answer from %s within %s", c.base, timeout), Hint: "try again; if it stays so, look into the server's log"}
		}
		return 0, err
	}
	defer resp.Body.Close()
	if out == nil || resp.StatusCode == http.StatusNoContent || resp.StatusCode == http.StatusNotModified {
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxProblem)) // so that the connection can be used again
		return resp.StatusCode, nil
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return 0, c.unreachable(ctx, err)
	}
	if err := json.Unmarshal(b, out); err != nil {
		return 0, &glovebox.Error{Code: glovebox.CodeInternal, Msg: c.base + " answered with what is not the expected JSON", Err: err, Hint: "is it a Glovebox server of this version?"}
	}
	return resp.StatusCode, nil
}

func jsonBody(v any) (func() io.Reader, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, glovebox.Invalid("body", "", "%v", err)
	}
	return func() io.Reader { return bytes.NewReader(b) }, nil
}

// Ready returns the version of the server, once it is ready to take requests;
// CodeUnavailable if it is not.
func (c *Client) Ready(ctx context.Context) (version string, err error) {
	var h struct {
		Version string `json:"version"`
	}
	_, err = c.do(ctx, callTimeout, call{method: http.MethodGet, path: "/readyz"}, &h)
	return h.Version, err
}
