package tool

import (
	"fmt"
	"strings"

	"github.com/glovebox-dev/glovebox/internal/clip"
)

// The marks of the format that is made for models: no line numbers, files and
// hunks found by their context.
const (
	beginPatch = "*** Begin Patch"
	endPatch   = "*** End Patch"
	addFile    = "*** Add File: "
	deleteMark = "*** Delete File: "
	updateFile = "*** Update File: "
	moveTo     = "*** Move to: "
	endOfFile  = "*** End of File"
)

// envelope parses a patch in that format, line by line.
type envelope struct {
	lines []string
	n     int // the next line
}

func parseEnvelope(text string) ([]filePatch, error) {
	_, body, _ := strings.Cut(text, beginPatch)
	_, body, _ = strings.Cut(body, "\n")
	p := &envelope{lines: splitLines(withNewline(body))}
	var files []filePatch
	for p.n < len(p.lines) {
		line := strings.TrimRight(p.lines[p.n], " \t\n")
		var f filePatch
		var err error
		switch {
		case line == endPatch:
			return files, nil
		case line == "" || line == beginPatch: // a model may begin anew for each file
			p.n++
			continue
		case strings.HasPrefix(line, addFile):
			f, err = p.add(line[len(addFile):])
		case strings.HasPrefix(line, deleteMark):
			p.n++
			f = filePatch{op: 'D', path: strings.TrimSpace(line[len(deleteMark):])}
		case strings.HasPrefix(line, updateFile):
			f, err = p.update(line[len(updateFile):])
		default:
			err = p.errorf("expected %q, %q, %q or %q", strings.TrimSpace(addFile), strings.TrimSpace(updateFile), strings.TrimSpace(deleteMark), endPatch)
		}
		if err != nil {
			return nil, err
		}
		if f.path == "" {
			return nil, fmt.Errorf("a file of the patch has no path")
		}
		files = append(files, f)
	}
	return nil, fmt.Errorf("it does not end with %q, so it may be cut off", endPatch)
}

func (p *envelope) errorf(format string, args ...any) error {
	line := ""
	if p.n < len(p.lines) {
		line = strings.TrimSuffix(p.lines[p.n], "\n")
	}
	return fmt.Errorf("line %d of the patch, %q: %s", p.n+2, clip.Short(line, 80), fmt.Sprintf(format, args...))
}

// mark reports whether the next line begins another part of the patch.
func (p *envelope) mark() bool {
	line := p.lines[p.n]
	for _, m := range []string{endPatch, addFile, deleteMark, updateFile, beginPatch} {
		if strings.HasPrefix(line, m) {
			return true
		}
	}
	return false
}

func (p *envelope) add(path string) (filePatch, error) {
	f := filePatch{op: 'A', path: strings.TrimSpace(path)}
	p.n++
	var b strings.Builder
	for ; p.n < len(p.lines) && !p.mark(); p.n++ {
		line := p.lines[p.n]
		switch {
		case line[0] == '+':
			b.WriteString(line[1:])
		case strings.TrimSpace(line) == "" && p.blankToMark():
		default:
			return f, p.errorf(`every line of a new file begins with "+"`)
		}
	}
	f.content = b.String()
	return f, nil
}

// blankToMark reports whether nothing but blank lines is left of this part.
func (p *envelope) blankToMark() bool {
	at := p.n
	defer func() { p.n = at }()
	for ; p.n < len(p.lines) && !p.mark(); p.n++ {
		if strings.TrimSpace(p.lines[p.n]) != "" {
			return false
		}
	}
	return true
}

func (p *envelope) update(path string) (filePatch, error) {
	f := filePatch{op: 'M', path: strings.TrimSpace(path)}
	p.n++
	if p.n < len(p.lines) && strings.HasPrefix(p.lines[p.n], moveTo) {
		f.to = strings.TrimSpace(p.lines[p.n][len(moveTo):])
		p.n++
	}
	for p.n < len(p.lines) && !p.mark() {
		if strings.TrimSpace(p.lines[p.n]) == "" && p.blankToMark() {
			p.n++
			continue
		}
		h, err := p.hunk()
		if err != nil {
			return f, err
		}
		h.name = fmt.Sprintf("hunk %d", len(f.hunks)+1)
		if len(h.anchors) > 0 {
			h.name += fmt.Sprintf(" (@@ %s)", clip.Short(h.anchors[0], 60))
		}
		f.hunks = append(f.hunks, h)
	}
	if len(f.hunks) == 0 && f.to == "" {
		return f, p.errorf("there is no change for %s before it", f.path)
	}
	return f, nil
}

// hunk parses anchors ("@@ line"), then lines, up to the next anchor or mark.
func (p *envelope) hunk() (hunk, error) {
	var h hunk
	for ; p.n < len(p.lines) && strings.HasPrefix(p.lines[p.n], "@@"); p.n++ {
		anchor := strings.TrimSpace(strings.TrimPrefix(p.lines[p.n], "@@"))
		if strings.HasPrefix(anchor, "-") && strings.Contains(anchor, " +") { // a unified header: the numbers are ignored
			_, anchor, _ = strings.Cut(anchor, "@@")
		}
		if anchor = strings.TrimSpace(strings.TrimSuffix(anchor, "@@")); anchor != "" {
			h.anchors = append(h.anchors, anchor)
		}
	}
	changed := false
	for ; p.n < len(p.lines) && !p.mark() && !strings.HasPrefix(p.lines[p.n], "@@"); p.n++ {
		line := p.lines[p.n]
		switch {
		case strings.HasPrefix(line, endOfFile):
			h.atEnd = true
			p.n++
			return h, p.changed(changed)
		case strings.HasPrefix(line, `\ No newline`):
		case line == "\n":
			if p.blankToMark() {
				continue
			}
			h.edits = append(h.edits, edit{' ', "\n"})
		case line[0] == ' ' || line[0] == '-' || line[0] == '+':
			changed = changed || line[0] != ' '
			h.edits = append(h.edits, edit{line[0], line[1:]})
		default:
			return h, p.errorf(`a line of a change begins with " " (kept), "-" (deleted) or "+" (added)`)
		}
	}
	return h, p.changed(changed)
}

func (p *envelope) changed(yes bool) error {
	if yes {
		return nil
	}
	return p.errorf(`the hunk before it changes nothing: it has no line with "-" or "+"`)
}
