package instruction

import (
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/clip"
)

// agentFiles hold instructions in any folder of the workspace, those of more
// force first.
var agentFiles = []string{"agents.md", "claude.md"}

// rootFiles may hold conventions in the root of the workspace.
var rootFiles = []string{"contributing.md", "contributing.rst", "contributing.txt", "contributing", "readme.md", "readme.rst", "readme.txt", "readme", "readme.markdown"}

// foreign are folders of what others wrote: instructions there are not for
// this project.
var foreign = []string{"node_modules", "vendor", "third_party", "site-packages", ".git", ".venv", "venv", "dist", "build", "target", ".glovebox"}

// IsSource reports whether a file of the workspace, by its path, may hold
// standing instructions.
func IsSource(p string) bool {
	p = path.Clean(p)
	dir, base := path.Split(p)
	base = strings.ToLower(base)
	if dir == "" {
		return slices.Contains(agentFiles, base) || slices.Contains(rootFiles, base)
	}
	return slices.Contains(agentFiles, base) && !isForeign(p)
}

// isForeign reports whether a path is in a folder of what others wrote, or
// outside the workspace.
func isForeign(p string) bool {
	if path.IsAbs(p) || p == ".." || strings.HasPrefix(p, "../") {
		return true
	}
	for part := range strings.SplitSeq(p, "/") {
		if slices.Contains(foreign, part) {
			return true
		}
	}
	return false
}

// Sources returns which of the names in a folder ("" for the root of the
// workspace) may hold instructions, as paths, those of most force first. Of
// several READMEs the first is taken.
func Sources(folder string, names []string) []string {
	var out []string
	known := agentFiles
	if folder == "" {
		known = append(slices.Clone(agentFiles), rootFiles...)
	}
	readme, contributing := false, false
	for _, k := range known {
		for _, n := range names {
			if strings.ToLower(n) != k {
				continue
			}
			switch {
			case strings.HasPrefix(k, "readme"):
				if readme {
					continue
				}
				readme = true
			case strings.HasPrefix(k, "contributing"):
				if contributing {
					continue
				}
				contributing = true
			}
			out = append(out, path.Join(folder, n))
		}
	}
	return out
}

// Folders returns the folders of files of the workspace and those above them,
// the root left out, the deepest first, at most so many.
func Folders(files []string, most int) []string {
	var out []string
	for _, f := range files {
		f = path.Clean(f)
		if isForeign(f) {
			continue
		}
		for d := path.Dir(f); d != "." && d != "/"; d = path.Dir(d) {
			if slices.Contains(out, d) {
				break
			}
			out = append(out, d)
		}
	}
	slices.SortFunc(out, func(a, b string) int {
		if n := strings.Count(b, "/") - strings.Count(a, "/"); n != 0 {
			return n
		}
		return strings.Compare(a, b)
	})
	return out[:min(len(out), most)]
}

// Conventions returns what of a file's text is instructions, word for word:
// all of it, but of a README only the sections whose heading says so. What is
// longer than [glovebox.MaxInstructions] is cut after a line; cut says so. It
// is empty for what is not text. Characters that nobody sees are left out: a
// model would read orders in them that no review of the file has shown.
func Conventions(p, text string) (kept string, cut bool) {
	if strings.ContainsRune(text, 0) {
		return "", false
	}
	text = strings.Map(seen, strings.ToValidUTF8(text, "\uFFFD"))
	if strings.HasPrefix(strings.ToLower(path.Base(p)), "readme") {
		text = conventionSections(text)
	}
	if strings.TrimSpace(text) == "" {
		return "", false
	}
	if len(text) <= glovebox.MaxInstructions {
		return text, false
	}
	text = clip.Head(text, glovebox.MaxInstructions)
	if i := strings.LastIndexByte(text, '\n'); i > len(text)/2 {
		text = text[:i+1]
	}
	return text, true
}

// seen returns r, or -1 if people don't see it: control characters, those
// that turn the direction of writing, and those without a width, but for the
// joiners that scripts and emoji need.
func seen(r rune) rune {
	switch {
	case r == '\t', r == '\n', r == '\r', r == 0x200c, r == 0x200d:
		return r
	case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r),
		r == 0xad, r == 0x034f, r == 0x115f, r == 0x1160, r == 0x180e, r == 0x200b, r >= 0x2060 && r <= 0x206f, r == 0x3164, r == 0xfeff, r == 0xffa0,
		r >= 0xe0000 && r <= 0xe0fff: // tags, and variation selectors beyond the 16 in use
		return -1
	}
	return r
}

// conventionWords are in headings of sections that hold conventions.
var conventionWords = []string{
	"convention", "contribut", "style", "guideline", "rule", "development", "developing", "coding", "code quality", "workflow", "best practice", "for agents", "ai agents",
	"konvention", "mitwirken", "beitragen", "stil", "regeln", "richtlinie", "entwicklung",
	"contribuer", "règle", "développement", "directives",
	"convencion", "contribu", "estilo", "regla", "desarrollo", "directrices",
}

// conventionSections returns the sections of a Markdown or reStructuredText
// document whose headings speak of conventions, each with what is below it.
func conventionSections(text string) string {
	var b []byte
	before := 0    // bytes of b before the newest line of the text
	inside := 0    // level of the section that is kept; 0 outside
	fence := ""    // of a block of code
	previous := "" // the line before, which may turn out to be a heading
	keep := func(level int, title string) {
		if inside != 0 && level > inside {
			return
		}
		inside = 0
		if speaksOfConventions(title) {
			inside = level
		}
	}
	for line := range strings.Lines(text) {
		trimmed := strings.TrimSpace(line)
		switch {
		case fence != "":
			if strings.HasPrefix(trimmed, fence) {
				fence = ""
			}
		case strings.HasPrefix(trimmed, "```"), strings.HasPrefix(trimmed, "~~~") && strings.Trim(trimmed, "~") != "":
			fence = trimmed[:3]
		case strings.HasPrefix(line, "#"):
			if level, title := atx(trimmed); level > 0 {
				keep(level, title)
			}
		case underlines(trimmed, previous):
			was := inside
			keep(underlineLevel(trimmed[0]), previous)
			switch {
			case was == 0 && inside != 0: // the heading is a line back
				b = append(b, previous+"\n"...)
			case was != 0 && inside == 0:
				b = b[:before]
			}
		}
		before = len(b)
		if inside != 0 {
			b = append(b, line...)
		}
		previous = strings.TrimRight(line, " \t\r\n")
	}
	return string(b)
}

// atx reads a heading such as "## Style"; level 0 if it is none.
func atx(line string) (level int, title string) {
	for level < len(line) && line[level] == '#' {
		level++
	}
	if level > 6 || level < len(line) && line[level] != ' ' && line[level] != '\t' {
		return 0, ""
	}
	return level, strings.Trim(line[level:], " \t#")
}

// underlines reports whether a line makes a heading of the one before.
func underlines(line, previous string) bool {
	if len(line) < 3 || previous == "" || strings.TrimSpace(previous) == "" || !strings.ContainsRune("=-~^", rune(line[0])) {
		return false
	}
	title := strings.TrimSpace(previous)
	return strings.Trim(line, line[:1]) == "" && utf8.RuneCountInString(title) <= len(line)+4 && strings.IndexFunc(title, unicode.IsLetter) >= 0 && !strings.ContainsAny(title[:1], "-*|>")
}

func underlineLevel(c byte) int {
	switch c {
	case '=':
		return 1
	case '-':
		return 2
	}
	return 3
}

func speaksOfConventions(title string) bool {
	title = strings.ToLower(title)
	for _, w := range conventionWords {
		if strings.Contains(title, w) {
			return true
		}
	}
	return false
}
