package tool

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/glovebox-dev/glovebox"
)

//go:embed move_file.md
var moveFilePrompt string

type moveFileInput struct {
	From string `json:"from" jsonschema:"minLength=1,maxLength=4096" jsonschema_description:"File or directory to move."`
	To   string `json:"to" jsonschema:"minLength=1,maxLength=4096" jsonschema_description:"Its new path. Nothing may be there yet; missing directories are made."`
}

// MoveFile returns the tool that moves or renames a file or directory.
func MoveFile() Tool { return New("move_file", moveFilePrompt, moveFile) }

func moveFile(ctx context.Context, env *Env, in moveFileInput) (Result, error) {
	if problem := badPath("from", in.From) + badPath("to", in.To); problem != "" {
		return ErrorResult(problem), nil
	}
	from, to := sandboxPath(in.From), sandboxPath(in.To)
	switch from {
	case ".":
		return ErrorResult(`"from": the workspace itself can't be moved`), nil
	case to:
		return ErrorResult(`"to": it is the same path as "from"`), nil
	}
	err := env.Guest.Move(ctx, from, to)
	switch {
	case err == nil:
		return TextResult(fmt.Sprintf("Moved %s to %s.", absolute(from), absolute(to))), nil
	case ctx.Err() == nil && glovebox.CodeOf(err) == glovebox.CodeConflict:
		return ErrorResult(fmt.Sprintf(`"to": there is something at %s already. Delete it first, or give another path (a directory is not moved into: name the new path whole).`, absolute(to))), nil
	case ctx.Err() == nil && glovebox.CodeOf(err) == glovebox.CodeNotFound:
		return ErrorResult(missing(ctx, env, from)), nil
	}
	return failed(ctx, err)
}
