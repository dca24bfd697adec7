package tool

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strconv"
	"strings"

	"github.com/bluekeyes/go-gitdiff/gitdiff"

	"github.com/glovebox-dev/glovebox/internal/clip"
)

// parseUnified parses a unified diff, of git or of diff. Models count lines
// badly, so the counts in hunk headers are made right before it is parsed, and
// a header may be a bare "@@".
func parseUnified(text string) (files []filePatch, err error) {
	normal, err := recount(text)
	if err != nil {
		return nil, err
	}
	parsed, _, err := gitdiff.Parse(strings.NewReader(normal))
	if err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "gitdiff: "))
	}
	for _, g := range parsed {
		f, err := convert(g)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}

func convert(g *gitdiff.File) (filePatch, error) {
	f := filePatch{op: 'M', path: g.OldName, mode: g.NewMode & fs.ModePerm}
	switch {
	case g.IsBinary:
		return f, fmt.Errorf("%s: a binary change can't be applied; use write_file or shell", g.NewName+g.OldName)
	case g.IsNew:
		f.op, f.path = 'A', g.NewName
	case g.IsDelete:
		f.op = 'D'
	case g.IsRename || g.IsCopy:
		f.to, f.copied = g.NewName, g.IsCopy
	}
	if f.path == "" || f.path == "/dev/null" {
		return f, errors.New("a file of the patch has no path")
	}
	for i, t := range g.TextFragments {
		h := hunk{line: int(min(t.OldPosition, 1<<30)), name: fmt.Sprintf("hunk %d (%s)", i+1, clip.Short(t.Header(), 80))}
		if t.OldLines == 0 { // nothing before it: the position is that of the line before
			h.line++
		}
		for _, l := range t.Lines {
			op := byte(' ')
			switch l.Op {
			case gitdiff.OpDelete:
				op = '-'
			case gitdiff.OpAdd:
				op = '+'
			}
			h.edits = append(h.edits, edit{op, l.Line})
		}
		f.hunks = append(f.hunks, h)
	}
	if f.op == 'A' {
		for _, h := range f.hunks {
			f.content += strings.Join(h.side('+'), "")
		}
	}
	if f.op == 'M' && f.to == "" && len(f.hunks) == 0 && f.mode == 0 {
		return f, fmt.Errorf("there is no change for %s in it", f.path)
	}
	return f, nil
}

var hunkHeader = regexp.MustCompile(`^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@(.*)`)

// recount returns the diff with the counts of every hunk as its lines are,
// with an empty line in a hunk as an empty context line, and without the
// prefixes a/ and b/ where no line of git's tells that they are prefixes.
func recount(text string) (string, error) {
	lines := splitLines(withNewline(text))
	var b strings.Builder
	inGit := false
	for i := 0; i < len(lines); {
		line := lines[i]
		switch {
		case strings.HasPrefix(line, "diff --git "):
			inGit = true
			b.WriteString(line)
			i++
		case fileHeader(lines, i):
			old, new := headerName(line[4:]), headerName(lines[i+1][4:])
			if !inGit {
				old, new = stripPrefixes(old, new)
			}
			fmt.Fprintf(&b, "--- %s\n+++ %s\n", old, new)
			inGit = false
			i += 2
		case strings.HasPrefix(line, "@@"):
			n, err := recountHunk(lines[i:], &b, i+1)
			if err != nil {
				return "", err
			}
			i += n
		default:
			b.WriteString(line)
			i++
		}
	}
	return b.String(), nil
}

// fileHeader reports whether the names of a file begin at line i.
func fileHeader(lines []string, i int) bool {
	return i+2 < len(lines) && strings.HasPrefix(lines[i], "--- ") && strings.HasPrefix(lines[i+1], "+++ ") && strings.HasPrefix(lines[i+2], "@@")
}

// headerName cuts the time stamp that diff puts after the name.
func headerName(s string) string {
	name, _, _ := strings.Cut(strings.TrimRight(s, " \t\n"), "\t")
	return name
}

func stripPrefixes(old, new string) (string, string) {
	a, isA := strings.CutPrefix(old, "a/")
	b, isB := strings.CutPrefix(new, "b/")
	if (isA || old == "/dev/null") && (isB || new == "/dev/null") {
		return a, b
	}
	return old, new
}

// recountHunk writes the hunk that begins at lines[0] and returns how many
// lines it has. at is the number of the first in the patch.
func recountHunk(lines []string, b *strings.Builder, at int) (int, error) {
	m := hunkHeader.FindStringSubmatch(strings.TrimSuffix(lines[0], "\n"))
	end := hunkEnd(lines, m)
	var old, new int
	for i := 1; i < end; i++ {
		switch lines[i][0] {
		case ' ', '\n', '\t':
			old, new = old+1, new+1
		case '-':
			old++
		case '+':
			new++
		case '\\':
		default:
			return 0, fmt.Errorf(`line %d of the patch, %q: a line of a hunk begins with " " (kept), "-" (deleted) or "+" (added)`, at+i, clip.Short(strings.TrimSuffix(lines[i], "\n"), 80))
		}
	}
	if old+new == 0 {
		return 0, fmt.Errorf("line %d of the patch: the hunk has no lines", at)
	}
	oldAt, newAt, rest := "0", "0", strings.TrimRight(strings.TrimPrefix(lines[0], "@@"), "\n")
	if m != nil {
		oldAt, newAt, rest = m[1], m[3], m[5]
	} else if rest = strings.TrimSpace(rest); rest != "" {
		rest = " " + strings.TrimSpace(strings.TrimSuffix(rest, "@@"))
	}
	fmt.Fprintf(b, "@@ -%s,%d +%s,%d @@%s\n", oldAt, old, newAt, new, rest)
	for _, l := range lines[1:end] {
		if l[0] == '\t' { // a kept line that lost its space
			l = " " + l
		}
		b.WriteString(l)
	}
	return end, nil
}

// hunkEnd returns where the hunk that begins at lines[0] ends: where its
// header says, if something else begins there, else before the next beginning.
func hunkEnd(lines []string, header []string) int {
	if header != nil {
		if end := countedEnd(lines, number(header[2], 1), number(header[4], 1)); end > 0 {
			return end
		}
	}
	end := 1
	for end < len(lines) && !boundary(lines, end) {
		end++
	}
	for end > 1 && lines[end-1] == "\n" { // blank lines after the patch
		end--
	}
	return end
}

// countedEnd returns where old and new lines are used up, 0 if they are not or
// if the hunk goes on after that.
func countedEnd(lines []string, old, new int) int {
	i := 1
	for ; i < len(lines) && (old > 0 || new > 0); i++ {
		switch lines[i][0] {
		case ' ', '\n', '\t':
			old, new = old-1, new-1
		case '-':
			old--
		case '+':
			new--
		case '\\':
		default:
			return 0
		}
	}
	if i < len(lines) && lines[i][0] == '\\' {
		i++
	}
	if old != 0 || new != 0 || i < len(lines) && lines[i] != "\n" && !boundary(lines, i) {
		return 0
	}
	return i
}

// boundary reports whether something other than a line of a hunk begins at i.
func boundary(lines []string, i int) bool {
	for _, p := range []string{"@@", "diff ", "index ", "Index: ", "-- \n", "===="} {
		if strings.HasPrefix(lines[i], p) {
			return true
		}
	}
	return fileHeader(lines, i)
}

func number(s string, def int) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return def
	}
	return min(n, 1<<30)
}
