package glovebox

import (
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"
)

// Bounds of a project's memory; see also [MaxProjectFile].
const (
	MaxProjectName  = 64
	MaxProjectFiles = 8
	MaxProjects     = 1000 // of one tenant that have a memory
)

// The files that Glovebox itself adds to at the end of a job. A person may
// edit them, and add others.
const (
	ProjectConventions = "conventions.md"
	ProjectCommands    = "commands.md"
	ProjectMistakes    = "mistakes.md"
)

// projectName is what a project and a file of its memory may be called.
var projectName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

const projectNameHint = "use 1 to 64 characters of A-Z, a-z, 0-9, '.', '_' and '-', the first a letter or digit"

// ValidateProject returns an [Error] if name can't be a project's.
func ValidateProject(name string) error {
	if !projectName.MatchString(name) {
		return Invalid("project", projectNameHint, "%q is not the name of a project", clip(name, 80)).WithValue(clip(name, 80))
	}
	return nil
}

// ValidateProjectFile returns an [Error] if f can't be a file of a project's
// memory.
func ValidateProjectFile(f ProjectFile) error {
	switch {
	case !projectName.MatchString(f.Name):
		return Invalid("file", projectNameHint+`, e.g. "conventions.md"`, "%q is not the name of a file", clip(f.Name, 80)).WithValue(clip(f.Name, 80))
	case len(f.Text) > MaxProjectFile:
		return &Error{Code: CodeTooLarge, Field: "text", Msg: fmt.Sprintf("the file has %d bytes; the bound is %d (32 KiB)", len(f.Text), MaxProjectFile),
			Hint: "every job of the project reads it: keep what matters to all of them"}
	case !utf8.ValidString(f.Text):
		i := invalidUTF8(f.Text)
		return Invalid("text", "send the text as UTF-8", "byte %d (0x%02x) is not valid UTF-8", i, f.Text[i])
	case strings.IndexByte(f.Text, 0) >= 0:
		return Invalid("text", "remove it: files are text", "byte %d is NUL", strings.IndexByte(f.Text, 0))
	}
	return nil
}

// ProjectView is a project's memory as the API shows it.
type ProjectView struct {
	Project   string            `json:"project"`
	Memory    bool              `json:"memory" doc:"Whether jobs of the project read and write it."`
	UpdatedAt time.Time         `json:"updated_at"`
	Files     []ProjectFileView `json:"files"`
}

// ProjectFileView is a file of a [ProjectView].
type ProjectFileView struct {
	Name      string    `json:"name"`
	Size      int64     `json:"size"`
	UpdatedAt time.Time `json:"updated_at"`
}

// ProjectList is what GET /projects answers.
type ProjectList struct {
	Projects []ProjectView `json:"projects"`
}

// ProjectSwitch is what PUT /projects/{project} takes.
type ProjectSwitch struct {
	Memory bool `json:"memory" doc:"false: jobs of the project neither read nor write its memory; it is kept."`
}
