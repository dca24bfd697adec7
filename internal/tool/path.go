package tool

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest"
)

// sandboxPath returns a path as the guest takes it: relative to the
// workspace for what is in it, else absolute.
func sandboxPath(p string) string {
	if p == "~" || strings.HasPrefix(p, "~/") {
		p = guest.Home + p[1:]
	}
	if !path.IsAbs(p) {
		p = path.Join(guest.Workspace, p)
	}
	p = path.Clean(p)
	if p == guest.Workspace {
		return "."
	}
	if rel, inside := strings.CutPrefix(p, guest.Workspace+"/"); inside {
		return rel
	}
	return p
}

// absolute is the path as the model knows it.
func absolute(p string) string {
	if path.IsAbs(p) {
		return p
	}
	return path.Join(guest.Workspace, p)
}

// badPath returns what is wrong with a path that the model gave, if anything.
func badPath(field, p string) string {
	switch {
	case strings.ContainsRune(p, 0):
		return fmt.Sprintf("%q: a path can't contain a NUL byte", field)
	case len(p) > 4096:
		return fmt.Sprintf("%q: the path has %d bytes, at most 4096 are possible", field, len(p))
	}
	return ""
}

// failed turns an error of the guest into what the model should read, or into
// the error of the call where its outcome is unknown.
func failed(ctx context.Context, err error) (Result, error) {
	if ctx.Err() != nil {
		return Result{}, context.Cause(ctx)
	}
	switch glovebox.CodeOf(err) {
	case glovebox.CodeUnavailable, glovebox.CodeInternal, glovebox.CodeFenced:
		return Result{}, err
	}
	return ErrorResult(plain(err)), nil
}

// plain is the text of an error without the name of the operation, which the
// model does not know.
func plain(err error) string {
	if e, ok := errors.AsType[*glovebox.Error](err); ok {
		c := *e
		c.Op = ""
		return c.Error()
	}
	return err.Error()
}

// missing explains that there is no file at p and names those that were
// probably meant.
func missing(ctx context.Context, env *Env, p string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "There is no %s.", absolute(p))
	dir, base := path.Split(path.Clean(p))
	if dir == "" {
		dir = "."
	}
	var candidates []string
	entries, _, err := env.Guest.ReadDir(ctx, path.Clean(dir))
	if err == nil {
		names := make([]string, len(entries))
		for i, e := range entries {
			names[i] = path.Base(e.Path)
		}
		for _, name := range closest(base, names, 3) {
			candidates = append(candidates, path.Join(dir, name))
		}
	} else if glovebox.CodeOf(err) == glovebox.CodeNotFound {
		fmt.Fprintf(&b, " There is no directory %s either.", absolute(path.Clean(dir)))
	}
	if !strings.ContainsAny(base, "*?[{\\") {
		same, err := env.Guest.Glob(ctx, ".", "**/"+base, 3, false)
		if err == nil {
			for _, e := range same {
				candidates = append(candidates, e.Path)
			}
		}
	}
	if len(candidates) > 0 {
		b.WriteString(" Did you mean ")
		for i, c := range candidates {
			if i > 0 {
				b.WriteString(" or ")
			}
			b.WriteString(absolute(c))
		}
		b.WriteString("?")
	} else {
		b.WriteString(" list_files shows what there is.")
	}
	return b.String()
}

// fileFailed is failed for an operation on the file p: a missing file and a
// directory in its place get an answer that helps.
func fileFailed(ctx context.Context, env *Env, p string, err error) (Result, error) {
	code := glovebox.CodeOf(err)
	if ctx.Err() == nil && code == glovebox.CodeNotFound {
		return ErrorResult(missing(ctx, env, p)), nil
	}
	if ctx.Err() == nil && code != glovebox.CodeUnavailable {
		if e, statErr := env.Guest.Stat(ctx, p); statErr == nil && e.Mode.IsDir() {
			return ErrorResult(absolute(p) + " is a directory. list_files shows what is in it."), nil
		}
	}
	return failed(ctx, err)
}
