package artifact

import (
	"path"
	"strings"
)

// Bounds of what is honoured of .gitignore files. They come out of a sandbox.
const (
	ignoreName   = ".gitignore"
	maxIgnore    = 64 << 10 // bytes of one file; the rest is not read
	maxPattern   = 512      // bytes of one line; longer ones are passed over
	maxPatterns  = 2000     // of all files together
	maxIgnoreDir = 500      // files
)

// ignores is what the .gitignore files of a workspace say, as git reads them:
// of all patterns that match a path the last one of the deepest file counts.
// Matching takes time in proportion to the pattern and the path, whatever
// the pattern is.
type ignores struct {
	byDir map[string][]pattern
	count int
}

// pattern is one line of a .gitignore file.
type pattern struct {
	negated bool
	dirOnly bool
	segs    []string // matched against the segments of a path relative to the file
}

// add reads the .gitignore file of a directory ("" is the top).
func (g *ignores) add(dir string, data []byte) {
	if g.byDir == nil {
		g.byDir = map[string][]pattern{}
	}
	for line := range strings.SplitSeq(string(data[:min(len(data), maxIgnore)]), "\n") {
		if p, ok := parsePattern(line); ok && g.count < maxPatterns {
			g.count++
			g.byDir[dir] = append(g.byDir[dir], p)
		}
	}
}

// full reports whether no further file is read.
func (g *ignores) full() bool { return g.count >= maxPatterns || len(g.byDir) >= maxIgnoreDir }

func parsePattern(line string) (p pattern, ok bool) {
	line = strings.TrimSuffix(line, "\r")
	for strings.HasSuffix(line, " ") && !strings.HasSuffix(line, `\ `) {
		line = line[:len(line)-1]
	}
	if line == "" || line[0] == '#' || len(line) > maxPattern || strings.Contains(line, "\x00") {
		return p, false
	}
	if line[0] == '!' {
		p.negated, line = true, line[1:]
	}
	line, p.dirOnly = strings.CutSuffix(line, "/")
	if line == "" {
		return p, false
	}
	anchored := strings.Contains(line, "/")
	p.segs = strings.Split(strings.TrimPrefix(line, "/"), "/")
	if !anchored {
		p.segs = []string{"**", line}
	}
	if n := len(p.segs); p.segs[n-1] == "**" { // all that is in it, not itself
		p.segs = append(p.segs, "*")
	}
	return p, true
}

// ignored reports whether a path is ignored by the files of the directories
// above it. Whether a directory above it is ignored is not looked at.
func (g *ignores) ignored(name string, isDir bool) bool {
	if g.count == 0 {
		return false
	}
	segs := strings.Split(name, "/")
	for depth := len(segs) - 1; depth >= 0; depth-- {
		patterns := g.byDir[strings.Join(segs[:depth], "/")]
		for i := len(patterns) - 1; i >= 0; i-- {
			if p := patterns[i]; (isDir || !p.dirOnly) && matchPath(p.segs, segs[depth:]) {
				return !p.negated
			}
		}
	}
	return false
}

// matchPath matches segments; "**" stands for any number of them. It goes
// back to the last "**" only: an earlier one could do nothing more.
func matchPath(pat, segs []string) bool {
	p, s := 0, 0
	backP, backS := -1, 0
	for s < len(segs) {
		switch {
		case p < len(pat) && pat[p] == "**":
			backP, backS = p, s
			p++
		case p < len(pat) && matchName(pat[p], segs[s]):
			p++
			s++
		case backP >= 0:
			backS++
			p, s = backP+1, backS
		default:
			return false
		}
	}
	for p < len(pat) && pat[p] == "**" {
		p++
	}
	return p == len(pat)
}

// matchName matches one segment, byte by byte: '*', '?', '[...]' and '\'.
// Like matchPath it goes back to the last '*' only.
func matchName(pat, name string) bool {
	p, n := 0, 0
	backP, backN := -1, 0
	for n < len(name) {
		if p < len(pat) && pat[p] == '*' {
			backP, backN = p, n
			p++
			continue
		}
		if w := matchByte(pat[p:], name[n]); w > 0 {
			p += w
			n++
			continue
		}
		if backP < 0 {
			return false
		}
		backN++
		p, n = backP+1, backN
	}
	return strings.Trim(pat[p:], "*") == ""
}

// matchByte returns how long the element at the beginning of pat is if it
// matches c, else 0.
func matchByte(pat string, c byte) int {
	if pat == "" {
		return 0
	}
	switch pat[0] {
	case '?':
		return 1
	case '\\':
		if len(pat) > 1 && pat[1] == c {
			return 2
		}
		return 0
	case '[':
		return matchClass(pat, c)
	}
	if pat[0] == c {
		return 1
	}
	return 0
}

// matchClass matches "[abc]", "[a-z]", "[!a]" and "[^a]". A class without an
// end matches nothing, as in git.
func matchClass(pat string, c byte) int {
	i := 1
	negated := i < len(pat) && (pat[i] == '!' || pat[i] == '^')
	if negated {
		i++
	}
	found := false
	for first := true; i < len(pat); first = false {
		if pat[i] == ']' && !first {
			if found != negated {
				return i + 1
			}
			return 0
		}
		lo, w := classByte(pat[i:])
		i += w
		hi := lo
		if i+1 < len(pat) && pat[i] == '-' && pat[i+1] != ']' {
			hi, w = classByte(pat[i+1:])
			i += 1 + w
		}
		found = found || lo <= c && c <= hi
	}
	return 0
}

func classByte(pat string) (c byte, width int) {
	if pat[0] == '\\' && len(pat) > 1 {
		return pat[1], 2
	}
	return pat[0], 1
}

// parent returns the directory of a path, "" for the top.
func parent(name string) string {
	if d := path.Dir(name); d != "." {
		return d
	}
	return ""
}
