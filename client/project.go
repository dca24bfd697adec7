package client

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/glovebox-dev/glovebox"
)

func projectPath(project, rest string) string {
	return "/projects/" + url.PathEscape(project) + rest
}

func projectFilePath(project, file string) string {
	return projectPath(project, "/memory/"+url.PathEscape(file))
}

// checkProjectNames keeps names like ".." out of a path.
func checkProjectNames(project string, file ...string) error {
	if err := glovebox.ValidateProject(project); err != nil {
		return err
	}
	for _, f := range file {
		if err := glovebox.ValidateProjectFile(glovebox.ProjectFile{Name: f}); err != nil {
			return err
		}
	}
	return nil
}

// Projects returns the projects that have a memory, by name.
func (c *Client) Projects(ctx context.Context) (*glovebox.ProjectList, error) {
	l := new(glovebox.ProjectList)
	if _, err := c.do(ctx, callTimeout, call{method: http.MethodGet, path: "/projects", repeat: true}, l); err != nil {
		return nil, err
	}
	return l, nil
}

// Project returns what a project's memory holds; CodeNotFound if it has none.
func (c *Client) Project(ctx context.Context, project string) (*glovebox.ProjectView, error) {
	return c.project(ctx, project, call{method: http.MethodGet, path: projectPath(project, ""), repeat: true})
}

func (c *Client) project(ctx context.Context, project string, k call) (*glovebox.ProjectView, error) {
	if err := checkProjectNames(project); err != nil {
		return nil, err
	}
	v := new(glovebox.ProjectView)
	if _, err := c.do(ctx, callTimeout, k, v); err != nil {
		return nil, err
	}
	return v, nil
}

// SwitchProject turns the memory of a project off or on.
func (c *Client) SwitchProject(ctx context.Context, project string, on bool) (*glovebox.ProjectView, error) {
	body, err := jsonBody(glovebox.ProjectSwitch{Memory: on})
	if err != nil {
		return nil, err
	}
	return c.project(ctx, project, call{method: http.MethodPut, path: projectPath(project, ""), contentType: "application/json", body: body, repeat: true})
}

// DeleteProject removes the memory of a project.
func (c *Client) DeleteProject(ctx context.Context, project string) error {
	if err := checkProjectNames(project); err != nil {
		return err
	}
	_, err := c.do(ctx, callTimeout, call{method: http.MethodDelete, path: projectPath(project, "")}, nil)
	return err
}

// ProjectFile returns a file of a project's memory, and a tag for
// PutProjectFile that changes when the file does.
func (c *Client) ProjectFile(ctx context.Context, project, file string) (text, tag string, err error) {
	if err := checkProjectNames(project, file); err != nil {
		return "", "", err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	resp, err := c.send(ctx, call{method: http.MethodGet, path: projectFilePath(project, file)})
	if err != nil {
		return "", "", plain(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, glovebox.MaxProjectFile+1))
	if err != nil {
		return "", "", c.unreachable(ctx, err)
	}
	return string(b), resp.Header.Get("ETag"), nil
}

// PutProjectFile writes a file of a project's memory. With a tag of
// ProjectFile the error is CodeConflict if the file has changed since.
func (c *Client) PutProjectFile(ctx context.Context, project, file, text, tag string) (*glovebox.ProjectView, error) {
	if err := glovebox.ValidateProjectFile(glovebox.ProjectFile{Name: file, Text: text}); err != nil {
		return nil, err
	}
	k := call{method: http.MethodPut, path: projectFilePath(project, file), contentType: "text/plain; charset=utf-8",
		body: func() io.Reader { return strings.NewReader(text) }}
	if tag != "" {
		k.header = map[string]string{"If-Match": tag}
	}
	return c.project(ctx, project, k)
}

// DeleteProjectFile removes a file of a project's memory.
func (c *Client) DeleteProjectFile(ctx context.Context, project, file string) error {
	if err := checkProjectNames(project, file); err != nil {
		return err
	}
	_, err := c.do(ctx, callTimeout, call{method: http.MethodDelete, path: projectFilePath(project, file)}, nil)
	return err
}
