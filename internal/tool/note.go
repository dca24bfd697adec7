package tool

import (
	"context"
	_ "embed"
	"fmt"
	"path"
	"strings"
	"unicode"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/clip"
)

//go:embed note.md
var notePrompt string

type noteInput struct {
	Name    string `json:"name" jsonschema:"minLength=1,maxLength=100" jsonschema_description:"What it is about, in a few words; the file is named after it."`
	Text    string `json:"text" jsonschema:"minLength=1,maxLength=16384" jsonschema_description:"Markdown."`
	Replace bool   `json:"replace,omitempty" jsonschema_description:"Write the note anew instead of adding to it."`
	Scope   string `json:"scope,omitempty" jsonschema:"enum=job,enum=project" jsonschema_description:"Whom it is for: this job, or later ones of the same project, too."`
}

// NotesDir is where notes are, in the workspace.
const NotesDir = ".glovebox/notes"

const (
	maxNote  = 64 << 10 // bytes of one note
	maxNotes = 200
)

// Note returns the tool that keeps a note.
func Note() Tool { return New("note", notePrompt, note) }

func note(ctx context.Context, env *Env, in noteInput) (Result, error) {
	name := slug(in.Name)
	if name == "" {
		return ErrorResult(fmt.Sprintf(`"name": no file can be named after %q; use letters or digits`, clip.Short(in.Name, 100))), nil
	}
	file := path.Join(NotesDir, name+".md")
	p := sandboxPath(file)
	old, size, err := env.Guest.ReadFile(ctx, p, 0, maxNote+1)
	switch code := glovebox.CodeOf(err); {
	case code == glovebox.CodeNotFound:
		entries, _, err := env.Guest.ReadDir(ctx, sandboxPath(NotesDir))
		if err == nil && len(entries) >= maxNotes {
			return ErrorResult(fmt.Sprintf("There are %d notes already: add to one of them, or delete what is of no use any more.", len(entries))), nil
		}
	case err != nil:
		return fileFailed(ctx, env, p, err)
	}
	text := "# " + strings.Join(strings.Fields(in.Name), " ") + "\n\n"
	verb := "Noted in"
	if len(old) > 0 && !in.Replace {
		text, verb = withNewline(string(old))+"\n", "Added to"
	} else if len(old) > 0 {
		verb = "Replaced"
	}
	text += withNewline(strings.TrimSpace(in.Text))
	if len(text) > maxNote || size > maxNote && !in.Replace {
		return ErrorResult(fmt.Sprintf("The note would have %d bytes, at most %d are possible: begin another, or replace it with a shorter one.", max(int64(len(text)), size), maxNote)), nil
	}
	if err := env.Guest.WriteFile(ctx, p, []byte(text), 0); err != nil {
		return fileFailed(ctx, env, p, err)
	}
	r := fmt.Sprintf("%s %s (%d bytes).", verb, absolute(p), len(text))
	if in.Scope == "project" && env.Job != nil && env.Job.Project == "" {
		r += " This job belongs to no project: it is for this job alone."
	}
	return TextResult(r), nil
}

// slug returns a name as that of a file: letters and digits in lower case
// with single hyphens between them, at most 60 bytes.
func slug(name string) string {
	name = strings.TrimSuffix(strings.ToLower(name), ".md")
	words := strings.FieldsFunc(name, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	return strings.Trim(clip.Short(strings.Join(words, "-"), 60), "-.") // clip ends with dots
}
