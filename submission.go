package glovebox

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Bounds of a [Submission], in bytes where nothing else is said.
const (
	MaxTask          = 1 << 20 // of the task's text
	MaxModelName     = 200
	MaxMetadata      = 64 // entries
	MaxMetadataKey   = 64
	MaxMetadataValue = 1 << 10
	MaxEgressRules   = 256 // entries
	MaxEgressRule    = 300
	MaxGitURL        = 2 << 10
	MaxGitRef        = 200
)

// Submission is what a client asks for: a task, and what to do it with.
type Submission struct {
	Task     string            `json:"task,omitempty" doc:"What to build, in plain words. 1 byte to 1 MiB of UTF-8, not blank, without NUL."`
	Prompt   string            `json:"prompt,omitempty" doc:"Another name for task. Give one of them."`
	Model    string            `json:"model,omitempty" doc:"\"provider:model\". Left out: the server's default."`
	Limits   Limits            `json:"limits,omitzero" doc:"Limits of the job. What is left out has the server's default. Plain whole numbers; the unit is in the name."`
	Egress   Egress            `json:"egress,omitzero" doc:"What the sandbox may reach. Left out: the server's default, package registries."`
	Metadata map[string]string `json:"metadata,omitempty" doc:"At most 64 entries of your own, kept and returned as they are: keys of 1 to 64 characters [A-Za-z0-9._-], values of at most 1 KiB."`
	Project  string            `json:"project,omitempty" doc:"A name of your own, of 1 to 64 characters [A-Za-z0-9._-], the first a letter or digit: the job begins with what earlier jobs of this project noted, and adds to it when it is complete. Left out: it does neither."`
	Files    *Source           `json:"files,omitempty" doc:"A git repository to start from. To start from an archive, send multipart/form-data with a part named archive."`
}

// Source is a git repository that a job starts from.
type Source struct {
	GitURL string `json:"git_url" doc:"An https or http URL, without user name or password. It must be within the job's egress policy."`
	GitRef string `json:"git_ref,omitempty" doc:"A branch, tag or commit. Left out: the default branch."`
}

// Normalize makes Prompt the Task if that is how the task was given.
func (s *Submission) Normalize() error {
	if s.Prompt == "" {
		return nil
	}
	if s.Task != "" {
		return Invalid("prompt", "give task or prompt, not both: they mean the same", "task and prompt are both set")
	}
	s.Task, s.Prompt = s.Prompt, ""
	return nil
}

// Validate returns an [Error] about the first field that is not acceptable.
// It does not know which models exist and what egress rules mean: the server
// checks that.
func (s *Submission) Validate() error {
	if err := ValidateTask(s.Task); err != nil {
		return err
	}
	if len(s.Model) > MaxModelName || !utf8.ValidString(s.Model) {
		return Invalid("model", fmt.Sprintf("name it as provider:model, in at most %d bytes", MaxModelName), "a name of %d bytes", len(s.Model)).WithValue(s.Model)
	}
	if err := s.Limits.Validate(); err != nil {
		return err
	}
	if err := s.Egress.Validate(); err != nil {
		return err
	}
	if err := validateMetadata(s.Metadata); err != nil {
		return err
	}
	if s.Project != "" {
		if err := ValidateProject(s.Project); err != nil {
			return err
		}
	}
	if s.Files != nil {
		return s.Files.Validate()
	}
	return nil
}

// ValidateTask returns an [Error] if task is not one: see [MaxTask].
func ValidateTask(task string) error {
	const hint = "describe in plain words what is to be built, e.g. \"Build me a todo app in React\""
	switch {
	case task == "":
		return Invalid("task", hint, "the task is empty")
	case len(task) > MaxTask:
		return &Error{Code: CodeTooLarge, Field: "task", Msg: fmt.Sprintf("the task has %d bytes; the bound is %d (1 MiB)", len(task), MaxTask),
			Hint: "shorten it, and send long material as files (multipart/form-data, part archive)"}
	case !utf8.ValidString(task):
		i := invalidUTF8(task)
		return Invalid("task", "send the text as UTF-8", "byte %d (0x%02x) is not valid UTF-8", i, task[i])
	case strings.IndexByte(task, 0) >= 0:
		return Invalid("task", "remove it: tasks are text", "byte %d is NUL", strings.IndexByte(task, 0))
	case strings.TrimSpace(task) == "":
		return Invalid("task", hint, "the task is blank: %q", clip(task, 20)).WithValue(task)
	}
	return nil
}

// ValidateUserText returns an [Error] if text can't be said to a job: empty,
// longer than [MaxUserText], not UTF-8, or with a NUL in it.
func ValidateUserText(text string) error {
	switch {
	case len(text) > MaxUserText:
		return &Error{Code: CodeTooLarge, Field: "text", Msg: fmt.Sprintf("the message has %d bytes; the bound is %d (8 MiB)", len(text), MaxUserText), Hint: UserTextHint}
	case !utf8.ValidString(text):
		i := invalidUTF8(text)
		return Invalid("text", "send the text as UTF-8", "byte %d (0x%02x) is not valid UTF-8", i, text[i])
	case strings.IndexByte(text, 0) >= 0:
		return Invalid("text", "remove it: messages are text", "byte %d is NUL", strings.IndexByte(text, 0))
	case strings.TrimSpace(text) == "":
		return Invalid("text", "say something, e.g. \"use TypeScript\"", "the message is empty")
	}
	return nil
}

// Validate checks form and number of the rules, not what they mean.
func (e Egress) Validate() error {
	switch e.Mode {
	case EgressDefault, EgressNone:
		if len(e.Allow) > 0 {
			return Invalid("egress.allow", "set egress.mode to \"only\" or \"extend\", or leave the rules out",
				"%d rules with egress.mode %q", len(e.Allow), e.Mode).WithValue(len(e.Allow))
		}
	case EgressOnly, EgressExtend:
	default:
		return Invalid("egress.mode", `give "none", "only" or "extend", or leave it out for the server's default`, "%q is not a mode", clip(string(e.Mode), 40)).WithValue(e.Mode)
	}
	if len(e.Allow) > MaxEgressRules {
		return Invalid("egress.allow", fmt.Sprintf("give at most %d; a suffix rule such as \".example.org\" stands for many hosts", MaxEgressRules), "%d rules", len(e.Allow)).WithValue(len(e.Allow))
	}
	for i, r := range e.Allow {
		if r == "" || len(r) > MaxEgressRule || !utf8.ValidString(r) {
			return Invalid(fmt.Sprintf("egress.allow[%d]", i), `give "host", "host:port", ".suffix" or ".suffix:port"`, "%q is not a rule", clip(r, 60)).WithValue(r)
		}
	}
	return nil
}

var (
	metadataKey = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)
	gitRef      = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._/@+-]*$`)
)

func validateMetadata(m map[string]string) error {
	if len(m) > MaxMetadata {
		return Invalid("metadata", fmt.Sprintf("give at most %d", MaxMetadata), "%d entries", len(m)).WithValue(len(m))
	}
	for k, v := range m {
		if !metadataKey.MatchString(k) {
			return Invalid("metadata", "keys are 1 to 64 characters of A-Z, a-z, 0-9, '.', '_' and '-'", "%q is not a key", clip(k, 80)).WithValue(k)
		}
		if len(v) > MaxMetadataValue || !utf8.ValidString(v) || strings.IndexByte(v, 0) >= 0 {
			return Invalid("metadata."+k, fmt.Sprintf("give at most %d bytes of UTF-8 without NUL", MaxMetadataValue), "%q is not acceptable", clip(v, 40)).WithValue(v)
		}
	}
	return nil
}

// Validate checks the form of the URL and of the ref.
func (s *Source) Validate() error {
	const hint = "give an https URL, e.g. https://example.org/me/project.git"
	if s.GitURL == "" {
		return Invalid("files.git_url", hint, "the URL is empty")
	}
	u, err := url.Parse(s.GitURL)
	if (err == nil && u.User != nil) || (err != nil && strings.Contains(s.GitURL, "@")) {
		// The value is not repeated: it may hold a password.
		return Invalid("files.git_url", "remove user name and password: no credential may enter a sandbox; send private code as an archive", "the URL holds credentials")
	}
	if err != nil || len(s.GitURL) > MaxGitURL || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") || strings.ContainsAny(s.GitURL, " \t\r\n") {
		return Invalid("files.git_url", hint, "%q is not an http or https URL", clip(s.GitURL, 100)).WithValue(s.GitURL)
	}
	if s.GitRef != "" && (len(s.GitRef) > MaxGitRef || !gitRef.MatchString(s.GitRef) || strings.Contains(s.GitRef, "..")) {
		return Invalid("files.git_ref", "give the name of a branch or tag, or a commit", "%q is not a ref", clip(s.GitRef, 60)).WithValue(s.GitRef)
	}
	return nil
}

// Accepted is the answer to a [Submission].
type Accepted struct {
	JobID     string `json:"job_id"`
	StatusURL string `json:"status_url" doc:"Where the state is; relative to the server."`
	EventsURL string `json:"events_url" doc:"Where the events are, also as a stream; relative to the server."`
}

// invalidUTF8 returns the offset of the first byte that is not valid.
func invalidUTF8(s string) int {
	for i, r := range s {
		if r == utf8.RuneError {
			if _, n := utf8.DecodeRuneInString(s[i:]); n == 1 {
				return i
			}
		}
	}
	return len(s) - 1
}

// clip returns at most n bytes of s, cut between characters.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "..."
}
