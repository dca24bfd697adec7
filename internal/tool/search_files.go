package tool

import (
	"context"
	_ "embed"
	"fmt"
	"strings"

	"github.com/glovebox-dev/glovebox/internal/clip"
	"github.com/glovebox-dev/glovebox/internal/guest"
)

//go:embed search_files.md
var searchFilesPrompt string

type searchFilesInput struct {
	Pattern    string `json:"pattern" jsonschema:"minLength=1,maxLength=4096" jsonschema_description:"Regular expression (ripgrep's syntax), matched line by line."`
	Path       string `json:"path,omitempty" jsonschema:"maxLength=4096" jsonschema_description:"Directory to search; /workspace if left out."`
	Glob       string `json:"glob,omitempty" jsonschema:"maxLength=1000" jsonschema_description:"Only files that match, e.g. \"*.ts\" or \"src/**\"."`
	Fixed      bool   `json:"fixed,omitempty" jsonschema_description:"Take pattern as exact text."`
	IgnoreCase bool   `json:"ignore_case,omitempty" jsonschema_description:"Upper and lower case are the same."`
	Context    int    `json:"context,omitempty" jsonschema:"minimum=0,maximum=10" jsonschema_description:"Lines to show around each match."`
	Limit      int    `json:"limit,omitempty" jsonschema:"minimum=1,maximum=1000" jsonschema_description:"Most matches to show; 200 if left out."`
}

// SearchFiles returns the tool that finds lines in files.
func SearchFiles() Tool { return readOnly(New("search_files", searchFilesPrompt, searchFiles)) }

func searchFiles(ctx context.Context, env *Env, in searchFilesInput) (Result, error) {
	if problem := badPath("path", in.Path); problem != "" {
		return ErrorResult(problem), nil
	}
	if strings.ContainsAny(in.Pattern+in.Glob, "\x00") {
		return ErrorResult(`"pattern": it contains a NUL byte`), nil
	}
	if strings.Contains(in.Pattern, "\n") {
		return ErrorResult(`"pattern": it has several lines, but lines are searched one by one. Search for one of them, with context.`), nil
	}
	dir := sandboxPath(in.Path)
	q := guest.SearchQuery{
		Pattern: in.Pattern, Fixed: in.Fixed, IgnoreCase: in.IgnoreCase,
		Dir: dir, Glob: in.Glob, Context: in.Context, Limit: in.Limit,
	}
	if dir == "." {
		q.Dir = ""
	}
	if q.Glob == "" {
		q.Glob = rebuiltGlob
	}
	matches, more, err := env.Guest.Search(ctx, q)
	if err != nil {
		if _, statErr := env.Guest.Stat(ctx, dir); statErr != nil {
			return fileFailed(ctx, env, dir, statErr)
		}
		return failed(ctx, err)
	}
	if len(matches) == 0 {
		text := fmt.Sprintf("No line in %s matches %q", absolute(dir), clip.Short(in.Pattern, 200))
		if in.Glob != "" {
			text += fmt.Sprintf(" in files like %q", in.Glob)
		}
		return TextResult(text + ". What .gitignore names is not searched."), nil
	}
	return TextResult(found(matches, more, in.Context > 0)), nil
}

// found shows matches under the name of their file, "12:" before a line that
// matches and "12-" before one beside it.
func found(matches []guest.Match, more, gaps bool) string {
	var b strings.Builder
	file, last := "", 0
	for i, m := range matches {
		if b.Len() > OutputBound-statusRoom {
			fmt.Fprintf(&b, "[... %d more lines: narrow the search]\n", len(matches)-i)
			more = false
			break
		}
		if m.Path != file {
			if file != "" {
				b.WriteByte('\n')
			}
			file, last = m.Path, m.Line-1
			b.WriteString(clip.Short(m.Path, 500) + "\n")
		}
		if gaps && m.Line > last+1 {
			b.WriteString("  --\n")
		}
		last = m.Line
		text := strings.TrimRight(m.Text, "\r\n")
		if !validText(text) {
			text = cleanText([]byte(text))
		}
		mark := ':'
		if m.Context {
			mark = '-'
		}
		fmt.Fprintf(&b, "%5d%c\t%s\n", m.Line, mark, text)
	}
	if more {
		b.WriteString("[there are more matches: narrow the search or raise limit]\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}
