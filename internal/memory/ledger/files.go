package ledger

import (
	"strings"

	"github.com/glovebox-dev/glovebox"
)

// file is a file or directory that was touched.
type file struct {
	path  string
	state string // what was done to it last: "written", "edited", ...; "" if it was only read
	note  string // where it went, or came from

	changes        trail
	reads          trail
	added, deleted int64 // lines, by all checkpoints
}

// notesFolder is where the agent's own notes are, in the workspace.
const notesFolder = ".glovebox/notes/"

// touched records that a file was changed, or read if state is empty.
func (l *Ledger) touched(seq int64, p, state, note string) {
	if p == "" {
		return
	}
	if n, ok := strings.CutPrefix(p, notesFolder); ok && state != "" {
		l.noted(seq, n, "")
		return
	}
	f := l.files.touch(p)
	f.path = p
	if state == "" {
		f.reads.add(seq)
		return
	}
	f.state, f.note = state, note
	f.changes.add(seq)
	l.changed(seq, p, true)
}

// below records that what is in a directory went with it.
func (l *Ledger) below(seq int64, dir, state, note string) {
	l.files.newest(func(f *file) bool {
		if strings.HasPrefix(f.path, dir+"/") && f.state != "deleted" {
			f.state, f.note = state, note
			f.changes.add(seq)
		}
		return true
	})
}

func pathInput(_ *Ledger, c *call, in input) {
	in.each(func(key, value []byte) bool {
		if string(key) == "path" {
			c.path = place(text(value, 4096), "")
			return false
		}
		return true
	})
}

func moveInput(_ *Ledger, c *call, in input) {
	in.each(func(key, value []byte) bool {
		switch string(key) {
		case "from":
			c.path = place(text(value, 4096), "")
		case "to":
			c.to = place(text(value, 4096), "")
		}
		return true
	})
}

// verbs are what the tools for files do.
var verbs = map[string]string{"write_file": "written", "edit_file": "edited", "delete_file": "deleted", "move_file": "moved"}

// fileResult reads what a tool for one file came to. A change is named by the
// event of its call, which holds what was written.
func (l *Ledger) fileResult(seq int64, c call, f glovebox.ToolFinished) {
	if c.path == "" {
		return
	}
	stem := c.tool + " " + c.path
	said := resultText(f)
	switch {
	case f.Unknown:
		if verb := verbs[c.tool]; verb != "" {
			l.touched(c.seq, c.path, "perhaps "+verb, "outcome unknown")
		}
		return
	case f.IsError:
		l.met(seq, stem, one(said, maxLine), true, nil)
		return
	}
	l.passed(seq, stem, c.tool)
	switch c.tool {
	case "read_file":
		l.touched(seq, c.path, "", "")
	case "move_file":
		if c.to == "" {
			return
		}
		l.below(c.seq, c.path, "moved", "with its directory, now "+name(c.to))
		l.touched(c.seq, c.path, "moved", "to "+name(c.to))
		l.touched(c.seq, c.to, "moved here", "from "+name(c.path))
	case "delete_file":
		if strings.HasPrefix(said, "Deleted the directory") {
			l.below(c.seq, c.path, "deleted", "with its directory")
		}
		l.touched(c.seq, c.path, "deleted", "")
	case "write_file":
		verb := "written"
		if strings.HasPrefix(said, "Created ") {
			verb = "created"
		}
		l.touched(c.seq, c.path, verb, "")
	default:
		l.touched(c.seq, c.path, verbs[c.tool], "")
	}
}

// patchResult reads the report of apply_patch: a letter, a path, and how many lines.
func (l *Ledger) patchResult(seq int64, c call, f glovebox.ToolFinished) {
	said := resultText(f)
	report, ok := strings.CutPrefix(said, "Applied:\n")
	if !ok || f.IsError {
		if f.IsError && !f.Unknown {
			l.met(seq, "apply_patch", one(said, maxLine), true, nil)
		}
		return
	}
	l.passed(seq, "apply_patch", "apply_patch")
	for line := range strings.Lines(report) {
		if len(line) < 3 || line[1] != ' ' {
			continue
		}
		p := strings.TrimSuffix(line[2:], "\n")
		if i := strings.LastIndex(p, " ("); i > 0 && strings.HasSuffix(p, ")") {
			p = p[:i]
		}
		from, to, _ := strings.Cut(p, " -> ")
		from, to = strings.Clone(place(from, "")), strings.Clone(place(to, ""))
		switch line[0] {
		case 'A':
			l.touched(c.seq, strings.Clone(place(p, "")), "created", "")
		case 'M':
			l.touched(c.seq, strings.Clone(place(p, "")), "edited", "")
		case 'D':
			l.touched(c.seq, strings.Clone(place(p, "")), "deleted", "")
		case 'R':
			l.touched(c.seq, from, "moved", "to "+name(to))
			l.touched(c.seq, to, "moved here", "from "+name(from))
		case 'C':
			l.touched(c.seq, to, "created", "from "+name(from))
		}
	}
}

// Checkpoint reads which files of the workspace changed. What no tool for
// files did is laid to the newest command.
func (l *Ledger) Checkpoint(seq int64, c glovebox.CheckpointSaved) {
	l.seq = seq
	by, state := seq, "changed"
	if l.acting > 0 {
		by, state = l.acting, "changed by a command"
	}
	for _, x := range c.Changes {
		p := place(x.Path, "")
		if p == "" {
			continue
		}
		if n := l.notes.get(noteName(p)); n != nil && strings.HasPrefix(p, notesFolder) && n.trail.newest() > l.saved {
			continue
		}
		f := l.files.get(p)
		if f == nil || f.changes.newest() <= l.saved {
			s := state
			if x.Added == 0 && x.Deleted > 0 && strings.Contains(l.removes, base(p)) {
				s = "deleted by a command"
			}
			l.touched(by, p, s, "")
			f = l.files.get(p)
		}
		if f != nil {
			f.added += max(0, x.Added)
			f.deleted += max(0, x.Deleted)
		}
	}
	l.saved, l.acting, l.removes = seq, 0, ""
}

// Control reads which files changed while a person had the machine.
func (l *Ledger) Control(seq int64, c glovebox.ControlChanged) {
	l.seq = seq
	for _, x := range c.Changes {
		l.touched(seq, place(x.Path, ""), "changed", "while a person had mouse and keyboard")
	}
}

func base(p string) string { return p[strings.LastIndexByte(p, '/')+1:] }
