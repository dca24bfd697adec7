package ledger

import (
	"path"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/clip"
)

// Where the project and the agent's home are in every sandbox.
const (
	workspace = "/workspace"
	home      = "/home/agent"
)

// Bounds of what is kept of a text, in bytes.
const (
	maxPath    = 300
	maxCommand = 300
	maxLine    = 200 // of an error
	maxURL     = 240
	maxName    = 120
	maxFact    = 160 // of a result in short
)

// Of an output, what is looked at for errors, ports and the like.
const (
	headBytes = 3 << 10
	tailBytes = 5 << 10
)

// quote returns s so that it stays on its line and can be seen for what it
// is: control, format and invalid characters are escaped.
func quote(s string) string { return strconv.Quote(s) }

// name returns a path, host or package as it is if there is nothing odd in
// it, else quoted.
func name(s string) string {
	odd := s == "" || strings.IndexFunc(s, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("._/@+-=~%:[]()#&", r)
	}) >= 0
	if odd || !utf8.ValidString(s) {
		return quote(s)
	}
	return s
}

// place returns a path as the ledger names it: relative for what is in the
// workspace, else absolute.
func place(p, cwd string) string {
	if p == "" || len(p) > 4096 {
		return ""
	}
	if p == "~" || strings.HasPrefix(p, "~/") {
		p = home + p[1:]
	}
	if !path.IsAbs(p) {
		p = path.Join(folder(cwd), p)
	}
	p = path.Clean(p)
	if rel, inside := strings.CutPrefix(p, workspace+"/"); inside {
		p = rel
	}
	return clip.Short(p, maxPath)
}

// folder returns a working directory as an absolute path.
func folder(cwd string) string {
	switch {
	case cwd == "":
		return workspace
	case cwd == "~" || strings.HasPrefix(cwd, "~/"):
		return path.Clean(home + cwd[1:])
	case path.IsAbs(cwd):
		return path.Clean(cwd)
	}
	return path.Join(workspace, cwd)
}

// resultText returns the first text of a result, which is where tools say
// what became of a call.
func resultText(f glovebox.ToolFinished) string {
	for _, b := range f.Content {
		if b.Type == glovebox.BlockText && b.Text != "" {
			return b.Text
		}
	}
	return ""
}

// ends returns the beginning and the end of an output, which do not overlap.
func ends(s string) (head, tail string) {
	if len(s) <= headBytes+tailBytes {
		return s, ""
	}
	return s[:headBytes], s[len(s)-tailBytes:]
}

// lines calls f with the lines of the ends of an output, without white space
// around them and not the empty ones, until it returns false.
func lines(s string, f func(line string) bool) {
	head, tail := ends(s)
	for _, part := range []string{head, tail} {
		for line := range strings.Lines(part) {
			if line = strings.TrimSpace(line); line != "" && !f(line) {
				return
			}
		}
	}
}

// lastLine returns the last line of s.
func lastLine(s string) string {
	s = strings.TrimRight(s, "\n")
	return s[strings.LastIndexByte(s, '\n')+1:]
}

// one returns s on one line, its white space collapsed, at most n bytes.
func one(s string, n int) string {
	if len(s) > 4*n {
		s = s[:4*n]
	}
	return strings.Clone(clip.Short(strings.Join(strings.Fields(s), " "), n)) // not a part of something large
}

func event(seq int64) string { return "event " + strconv.FormatInt(seq, 10) }
