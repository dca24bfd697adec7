package tool

import (
	"context"
	_ "embed"
	"fmt"
	"io/fs"
	"strings"

	"github.com/glovebox-dev/glovebox"
)

//go:embed apply_patch.md
var applyPatchPrompt string

type applyPatchInput struct {
	Patch string `json:"patch" jsonschema:"minLength=1,maxLength=1048576" jsonschema_description:"The patch, in either format. Paths are relative to /workspace."`
}

// ApplyPatch returns the tool that changes several files at once, or none of
// them if any part of the patch does not fit.
func ApplyPatch() Tool { return New("apply_patch", applyPatchPrompt, applyPatch) }

func applyPatch(ctx context.Context, env *Env, in applyPatchInput) (Result, error) {
	files, err := parsePatch(in.Patch)
	if err != nil {
		return ErrorResult("The patch is malformed; nothing was changed: " + err.Error()), nil //nolint:nilerr // for the model
	}
	c := &change{env: env, files: map[string]*changed{}}
	var report []string
	for _, f := range files {
		line, problem, err := c.apply(ctx, f)
		if err != nil {
			return failed(ctx, err)
		}
		if problem != "" {
			return ErrorResult("The patch does not apply; nothing was changed.\n" + problem), nil
		}
		report = append(report, line)
	}
	if problem, err := c.commit(ctx); problem != "" || err != nil {
		if err != nil {
			return failed(ctx, err)
		}
		return ErrorResult(problem), nil
	}
	return TextResult(Cut("Applied:\n"+strings.Join(report, "\n"), OutputBound, "")), nil
}

// change is what a patch does to the files, before it is done.
type change struct {
	env   *Env
	files map[string]*changed
	order []*changed // as they were first touched
}

// changed is one file before and after.
type changed struct {
	path          string
	before, after string
	was, is       bool // whether it exists
	modeWas, mode fs.FileMode
	unfit         string // why it can't be changed; empty if it can
}

// file returns a file as the patch has left it so far.
func (c *change) file(ctx context.Context, path string) (*changed, error) {
	if f, ok := c.files[path]; ok {
		return f, nil
	}
	f := &changed{path: path}
	data, size, err := c.env.Guest.ReadFile(ctx, path, 0, textBound)
	switch code := glovebox.CodeOf(err); {
	case err == nil && size > textBound:
		f.unfit = fmt.Sprintf("it has %d bytes, at most %d are possible", size, textBound)
	case err == nil && isBinary(data):
		f.unfit = "it is not text: " + describe(data, size)
	case code == glovebox.CodeUnavailable, code == glovebox.CodeInternal, err != nil && ctx.Err() != nil:
		return nil, err
	case err != nil && code != glovebox.CodeNotFound:
		f.unfit = plain(err)
	}
	if code := glovebox.CodeOf(err); code != glovebox.CodeNotFound {
		f.was, f.is = true, true
		f.before, f.after = string(data), string(data)
		if e, err := c.env.Guest.Stat(ctx, path); err == nil {
			f.modeWas, f.mode = e.Mode.Perm(), e.Mode.Perm()
		}
	}
	c.files[path] = f
	c.order = append(c.order, f)
	return f, nil
}

// apply takes one file of the patch. It returns a line for the report, or
// what is wrong.
func (c *change) apply(ctx context.Context, p filePatch) (line, problem string, err error) {
	if bad := badPath("patch", p.path) + badPath("patch", p.to); bad != "" {
		return "", bad, nil
	}
	path := sandboxPath(p.path)
	f, err := c.file(ctx, path)
	switch {
	case err != nil:
		return "", "", err
	case f.unfit != "":
		return "", fmt.Sprintf("%s: %s", path, f.unfit), nil
	case p.op == 'A' && f.is:
		return "", fmt.Sprintf("%s: it is to be added, but it exists. Change it, or delete it first.", path), nil
	case p.op != 'A' && !f.is:
		return "", fmt.Sprintf("%s: %s", path, missing(ctx, c.env, path)), nil
	}
	if p.op == 'A' {
		f.is, f.after, f.mode = true, p.content, p.mode
		return fmt.Sprintf("A %s (%d lines)", path, len(splitLines(p.content))), "", nil
	}
	after, notes, err := applyHunks(f.after, p.hunks)
	if err != nil {
		return "", fmt.Sprintf("%s: %v", path, err), nil
	}
	if len(after) > textBound {
		return "", fmt.Sprintf("%s: it would have %d bytes, at most %d are possible", path, len(after), textBound), nil
	}
	if p.op == 'D' {
		f.is, f.after = false, ""
		return "D " + path, "", nil
	}
	if p.mode != 0 {
		f.mode = p.mode
	}
	line = "M " + path
	if p.to != "" {
		to := sandboxPath(p.to)
		target, err := c.file(ctx, to)
		if err != nil {
			return "", "", err
		}
		if target.unfit != "" || target.is {
			return "", fmt.Sprintf("%s: %s is to be moved there, but it exists", to, path), nil
		}
		target.is, target.after, target.mode = true, after, f.mode
		line = fmt.Sprintf("R %s -> %s", path, to)
		if p.copied {
			line = fmt.Sprintf("C %s -> %s", path, to)
		} else {
			f.is, f.after = false, ""
		}
	} else {
		f.after = after
	}
	added, deleted := counts(p.hunks)
	line += fmt.Sprintf(" (+%d -%d)", added, deleted)
	for _, n := range notes {
		line += "\n  " + n
	}
	return line, "", nil
}

func counts(hunks []hunk) (added, deleted int) {
	for _, h := range hunks {
		for _, e := range h.edits {
			switch e.op {
			case '+':
				added++
			case '-':
				deleted++
			}
		}
	}
	return added, deleted
}

// commit writes what changed. If a write fails, those before it are undone.
// It does not stop half-way when ctx ends.
func (c *change) commit(ctx context.Context) (problem string, err error) {
	ctx = context.WithoutCancel(ctx)
	var done []*changed
	for _, f := range c.order {
		if f.is == f.was && f.after == f.before && f.mode == f.modeWas {
			continue
		}
		if err := c.write(ctx, f.path, f.is, f.was, f.after, f.mode); err != nil {
			return c.undo(ctx, done, f, err)
		}
		done = append(done, f)
	}
	return "", nil
}

func (c *change) write(ctx context.Context, path string, is, was bool, content string, mode fs.FileMode) error {
	if is {
		return c.env.Guest.WriteFile(ctx, path, []byte(content), mode)
	}
	if was {
		return c.env.Guest.Remove(ctx, path)
	}
	return nil
}

func (c *change) undo(ctx context.Context, done []*changed, at *changed, cause error) (problem string, err error) {
	for _, f := range done {
		if err := c.write(ctx, f.path, f.was, f.is, f.before, f.modeWas); err != nil {
			return "", fmt.Errorf("write %s: %w; undoing %s failed as well: %w", at.path, cause, f.path, err)
		}
	}
	if code := glovebox.CodeOf(cause); code == glovebox.CodeUnavailable || code == glovebox.CodeInternal {
		return "", cause
	}
	return fmt.Sprintf("%s could not be written: %s\nNothing was changed.", at.path, plain(cause)), nil
}
