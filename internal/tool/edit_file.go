package tool

import (
	"context"
	_ "embed"
	"fmt"
	"strings"
)

//go:embed edit_file.md
var editFilePrompt string

type editFileInput struct {
	Path string `json:"path" jsonschema:"minLength=1,maxLength=4096" jsonschema_description:"Absolute, or relative to /workspace."`
	Old  string `json:"old" jsonschema:"minLength=1,maxLength=1048576" jsonschema_description:"Exact text to replace, white space included. It must be there exactly once, unless all."`
	New  string `json:"new" jsonschema:"maxLength=1048576" jsonschema_description:"Text to put in its place; empty to delete."`
	All  bool   `json:"all,omitempty" jsonschema_description:"Replace every occurrence."`
}

// EditFile returns the tool that replaces an exact piece of a file.
func EditFile() Tool { return New("edit_file", editFilePrompt, editFile) }

func editFile(ctx context.Context, env *Env, in editFileInput) (Result, error) {
	if problem := badPath("path", in.Path); problem != "" {
		return ErrorResult(problem), nil
	}
	p := sandboxPath(in.Path)
	data, size, err := env.Guest.ReadFile(ctx, p, 0, textBound)
	if err != nil {
		return fileFailed(ctx, env, p, err)
	}
	if size > textBound {
		return ErrorResult(fmt.Sprintf("%s has %d bytes; edit_file takes at most %d. Use shell.", absolute(p), size, textBound)), nil
	}
	if isBinary(data) {
		return ErrorResult(fmt.Sprintf("%s is not text: %s.", absolute(p), describe(data, size))), nil
	}
	after, at, problem := replace(string(data), in.Old, in.New, in.All)
	if problem != "" {
		return ErrorResult(fmt.Sprintf("%s was not changed: %s", absolute(p), problem)), nil
	}
	if len(after) > textBound {
		return ErrorResult(fmt.Sprintf("%s was not changed: it would have %d bytes, edit_file takes at most %d.", absolute(p), len(after), textBound)), nil
	}
	if err := env.Guest.WriteFile(ctx, p, []byte(after), 0); err != nil {
		return failed(ctx, err)
	}
	return TextResult(edited(p, after, at, in.New)), nil
}

// replace returns content with old replaced by new, and at which bytes of the
// result the new text is. Where lines of content end with CRLF, old and new
// may be given with plain newlines.
func replace(content, old, new string, all bool) (after string, at []int, problem string) {
	if old == new {
		return "", nil, "old and new are the same."
	}
	n := strings.Count(content, old)
	if n == 0 && strings.Contains(content, "\r\n") && !strings.Contains(old, "\r") {
		crlf := strings.ReplaceAll(old, "\n", "\r\n")
		if n = strings.Count(content, crlf); n > 0 {
			old, new = crlf, strings.ReplaceAll(strings.ReplaceAll(new, "\r\n", "\n"), "\n", "\r\n")
		}
	}
	switch {
	case n == 0:
		return "", nil, nearMiss(content, old)
	case n > 1 && !all:
		return "", nil, fmt.Sprintf("old is there %d times, at lines %s. Add lines around it until it is unique, or set all.", n, occurrences(content, old))
	}
	var b strings.Builder
	rest := content
	for {
		i := strings.Index(rest, old)
		if i < 0 {
			break
		}
		b.WriteString(rest[:i])
		at = append(at, b.Len())
		b.WriteString(new)
		rest = rest[i+len(old):]
	}
	b.WriteString(rest)
	return b.String(), at, ""
}

// occurrences lists the lines at which old begins, the first ten.
func occurrences(content, old string) string {
	var lines []string
	from := 0
	for len(lines) < 10 {
		i := strings.Index(content[from:], old)
		if i < 0 {
			return strings.Join(lines, ", ")
		}
		lines = append(lines, fmt.Sprint(lineAt(content, from+i)))
		from += i + len(old)
	}
	return strings.Join(lines, ", ") + ", ..."
}

// edited tells what an edit did and shows the lines around the first place.
func edited(p, after string, at []int, new string) string {
	first := lineAt(after, at[0])
	last := lineAt(after, min(len(after), at[0]+len(new)))
	lines := splitLines(after)
	head := fmt.Sprintf("Edited %s at line %d.", absolute(p), first)
	if len(at) > 1 {
		head = fmt.Sprintf("Edited %s in %d places. The first:", absolute(p), len(at))
	}
	from, to := max(1, first-3), min(len(lines), last+3)
	if from > to {
		return head
	}
	text, shown := numbered(lines, from, to, 2<<10)
	if shown < to {
		text += "...\n"
	}
	return head + "\n" + strings.TrimSuffix(text, "\n")
}
