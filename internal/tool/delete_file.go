package tool

import (
	"context"
	_ "embed"
	"fmt"
	"strings"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/guest"
)

//go:embed delete_file.md
var deleteFilePrompt string

type deleteFileInput struct {
	Path string `json:"path" jsonschema:"minLength=1,maxLength=4096" jsonschema_description:"Absolute, or relative to /workspace."`
	All  bool   `json:"all,omitempty" jsonschema_description:"Needed for a directory that is not empty."`
}

// DeleteFile returns the tool that deletes a file or directory.
func DeleteFile() Tool { return New("delete_file", deleteFilePrompt, deleteFile) }

func deleteFile(ctx context.Context, env *Env, in deleteFileInput) (Result, error) {
	if problem := badPath("path", in.Path); problem != "" {
		return ErrorResult(problem), nil
	}
	p := sandboxPath(in.Path)
	if p == "." || p == "/" || p == guest.Home || strings.HasPrefix(guest.Workspace+"/", p+"/") { //nolint:gocritic // p may be above the workspace
		return ErrorResult(fmt.Sprintf(`"path": %s itself can't be deleted; delete what is in it`, absolute(p))), nil
	}
	e, err := env.Guest.Stat(ctx, p)
	if err != nil {
		return fileFailed(ctx, env, p, err)
	}
	what := "file"
	if e.Mode.IsDir() {
		what = "directory"
		inside, more, err := env.Guest.ReadDir(ctx, p)
		if err != nil {
			return failed(ctx, err)
		}
		if len(inside) > 0 && !in.All {
			count := fmt.Sprint(len(inside))
			if more {
				count = "more than " + count
			}
			return ErrorResult(fmt.Sprintf("%s is a directory with %s entries. Set all to delete it with all of them.", absolute(p), count)), nil
		}
	}
	if err := env.Guest.Remove(ctx, p); err != nil && glovebox.CodeOf(err) != glovebox.CodeNotFound {
		return failed(ctx, err)
	}
	return TextResult(fmt.Sprintf("Deleted the %s %s.", what, absolute(p))), nil
}
