package tool

import (
	"context"
	_ "embed"
	"fmt"
	"io/fs"
	"strings"

	"github.com/glovebox-dev/glovebox"
)

//go:embed write_file.md
var writeFilePrompt string

type writeFileInput struct {
	Path       string `json:"path" jsonschema:"minLength=1,maxLength=4096" jsonschema_description:"Absolute, or relative to /workspace. Missing directories are made."`
	Content    string `json:"content" jsonschema:"maxLength=1048576" jsonschema_description:"The whole content of the file."`
	Executable bool   `json:"executable,omitempty" jsonschema_description:"Make it executable."`
}

// WriteFile returns the tool that writes a file whole.
func WriteFile() Tool { return New("write_file", writeFilePrompt, writeFile) }

func writeFile(ctx context.Context, env *Env, in writeFileInput) (Result, error) {
	if problem := badPath("path", in.Path); problem != "" {
		return ErrorResult(problem), nil
	}
	p := sandboxPath(in.Path)
	if p == "." || strings.HasSuffix(in.Path, "/") {
		return ErrorResult(fmt.Sprintf(`"path": %s is a directory; name a file`, absolute(p))), nil
	}
	before, statErr := env.Guest.Stat(ctx, p)
	if statErr == nil && before.Mode.IsDir() {
		return ErrorResult(fmt.Sprintf(`"path": %s is a directory; name a file`, absolute(p))), nil
	}
	var mode fs.FileMode
	if in.Executable {
		mode = 0o755
	}
	if err := env.Guest.WriteFile(ctx, p, []byte(in.Content), mode); err != nil {
		return failed(ctx, err)
	}
	verb := "Wrote"
	if statErr == nil {
		verb = "Replaced"
	} else if glovebox.CodeOf(statErr) == glovebox.CodeNotFound {
		verb = "Created"
	}
	return TextResult(fmt.Sprintf("%s %s (%d lines, %d bytes).", verb, absolute(p), len(splitLines(in.Content)), len(in.Content))), nil
}
