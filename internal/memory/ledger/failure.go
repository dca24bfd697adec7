package ledger

import (
	"path"
	"slices"
	"strings"

	"github.com/glovebox-dev/glovebox/internal/clip"
)

// failure is an error that was met: all that look alike but for numbers,
// paths and addresses.
type failure struct {
	first string // as it was first met
	trail trail
	stem  string // of the command that met it last
	minor bool   // a tool was misused, which says little about the project

	files [4]string // of the project that the error named last
	edits []change  // of those, since it was met last

	// How it went away; solved is 0 while it has not.
	solved int64
	by     string   // the command that passed
	after  []change // what was done before that
	again  bool     // it came back after it had gone away
}

// change is something that was done that may mend an error.
type change struct {
	event int64
	what  string // the path, or "installed flask"
}

// Bounds of what is kept of errors.
const (
	maxOpen  = 64 // errors that are watched until they go away
	maxEdits = 4  // changes that are named beside one
	perRun   = 5  // errors of one run of tests
)

// met records an error of a command.
func (l *Ledger) met(seq int64, stem, line string, minor bool, files []string) {
	key := signature(line)
	if key == "" {
		return
	}
	f := l.failures.touch(key)
	if f.trail.n == 0 {
		f.first = one(line, maxLine)
	}
	f.again = f.again || f.solved != 0
	f.trail.add(seq)
	f.stem, f.minor, f.solved, f.by, f.after, f.edits = stem, minor, 0, "", nil, nil
	f.files = [4]string{}
	copy(f.files[:], files)
	if i := slices.Index(l.open, f); i >= 0 {
		l.open = slices.Delete(l.open, i, i+1)
	}
	if len(l.open) >= maxOpen {
		l.open = slices.Delete(l.open, 0, 1)
	}
	l.open = append(l.open, f)
}

// passed records that a command ended well: the errors that it met are solved.
func (l *Ledger) passed(seq int64, stem, label string) {
	l.open = slices.DeleteFunc(l.open, func(f *failure) bool {
		if f.stem != stem && f.whole() != stem {
			return false
		}
		f.solve(seq, label, l.changes)
		return true
	})
}

// whole returns the run of all tests, for the error of a run of some.
func (f *failure) whole() string {
	all, _, _ := strings.Cut(f.stem, ": ")
	if strings.HasPrefix(all, "run_tests") {
		return all
	}
	return f.stem
}

// solve records that an error went away, and what was done before it did.
func (f *failure) solve(seq int64, label string, changes []change) {
	f.solved, f.by = seq, one(label, maxName)
	if f.after = f.edits; len(f.after) > 0 {
		return
	}
	for _, c := range changes {
		if c.event > f.trail.newest() {
			f.after = append(f.after, c)
		}
	}
	if over := len(f.after) - maxEdits; over > 0 {
		f.after = f.after[over:]
	}
}

// changed records that something was done that may mend an error.
func (l *Ledger) changed(seq int64, what string, isFile bool) {
	c := change{seq, what}
	if len(l.changes) >= 2*maxEdits {
		l.changes = slices.Delete(l.changes, 0, 1)
	}
	l.changes = append(l.changes, c)
	if !isFile {
		return
	}
	for _, f := range l.open {
		if len(f.edits) < maxEdits && f.names(what) {
			f.edits = append(f.edits, c)
		}
	}
}

// names reports whether the error names a file.
func (f *failure) names(p string) bool {
	for _, x := range f.files {
		if x != "" && (x == p || len(x) > len(p) && strings.HasSuffix(x, "/"+p) || len(p) > len(x) && strings.HasSuffix(p, "/"+x)) {
			return true
		}
	}
	return false
}

// forget stops watching an error that made room for others.
func (l *Ledger) forget(f *failure) {
	if i := slices.Index(l.open, f); i >= 0 {
		l.open = slices.Delete(l.open, i, i+1)
	}
}

// errorLine returns the line of an output that says best what went wrong; ""
// if none seems to.
func errorLine(output string) (line string) {
	last := ""
	lines(output, func(l string) bool {
		if l[0] == '[' && l[len(l)-1] == ']' && status(l) != (ending{}) {
			return true
		}
		last = l
		if saysError(l) {
			line = l
			return false
		}
		return true
	})
	if line == "" {
		return last
	}
	return line
}

// saysError reports whether a line looks like the message of an error.
func saysError(l string) bool {
	if len(l) > 600 {
		l = l[:600]
	}
	if strings.HasPrefix(l, "Traceback ") || strings.HasPrefix(l, "During handling") {
		return false
	}
	low := strings.ToLower(l)
	return holds(low, errorMarks) && !holds(low, noErrors)
}

// errorMarks are in lines that tell of an error, noErrors in those that tell
// of none.
var (
	errorMarks = []string{"error", "exception", "fatal", "panic:", "failed", "failure", "not found", "no such file", "cannot ", "can't ", "could not ", "unable to",
		"permission denied", "undefined", "refused", "timed out", "segmentation fault", "killed", "missing ", "invalid ", "unexpected ", "no module named", "not a directory", "is a directory"}
	noErrors = []string{"0 errors", "no errors", "0 failed", "no error", "error: 0", "errors: 0", "failures: 0"}
)

func holds(s string, any []string) bool {
	for _, x := range any {
		if strings.Contains(s, x) {
			return true
		}
	}
	return false
}

// plainError reports whether an output whose exit code says nothing speaks of
// an error all the same.
func plainError(output string) (line string) {
	lines(output, func(l string) bool {
		for _, mark := range []string{"Traceback (most recent", "Error: ", "ERROR: ", "error: ", "error TS", "error[E", "panic: ", "fatal: ", "FAILED", "FAIL ", "--- FAIL", "npm ERR!", "npm error", "command not found"} {
			if strings.HasPrefix(l, mark) || mark[0]|0x20 == 'e' && strings.Contains(l, mark) || mark == "command not found" && strings.HasSuffix(l, mark) {
				line = l
				return false
			}
		}
		return true
	})
	if strings.HasPrefix(line, "Traceback") {
		return errorLine(output)
	}
	return line
}

// signature is what errors that are alike have in common.
func signature(line string) string {
	if len(line) > 2*maxLine {
		line = line[:2*maxLine]
	}
	var b strings.Builder
	for _, w := range strings.Fields(line) {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		switch {
		case strings.Contains(w, "://"):
			b.WriteString("URL")
		case strings.Contains(w, "/") && len(w) > 2:
			b.WriteString("PATH")
		case len(w) >= 8 && strings.Trim(w, "0123456789abcdefABCDEFx.,:;()[]'\"") == "":
			b.WriteString("N")
		default:
			withoutNumbers(&b, w)
		}
	}
	return clip.Short(b.String(), maxLine)
}

// withoutNumbers writes a word with N in the place of each number.
func withoutNumbers(b *strings.Builder, w string) {
	for i := 0; i < len(w); i++ {
		if w[i] < '0' || w[i] > '9' {
			b.WriteByte(w[i])
			continue
		}
		for i+1 < len(w) && w[i+1] >= '0' && w[i+1] <= '9' {
			i++
		}
		b.WriteByte('N')
	}
}

// foreign are folders of what others wrote: errors come by there, but are not
// mended there.
var foreign = []string{"node_modules/", "site-packages/", "/lib/python", "/usr/lib/", "/usr/local/go/", "/go/pkg/mod/", "/.cargo/", "node:"}

// filesIn returns the files of the project that the ends of an output name, at most four.
func filesIn(output, cwd string) []string {
	var out []string
	head, tail := ends(output)
	for _, part := range []string{head, tail} {
		for from := 0; len(out) < 4; {
			i := strings.IndexByte(part[from:], '.')
			if i < 0 {
				break
			}
			i += from
			begin, end := i, i+1
			for begin > 0 && pathByte(part[begin-1]) {
				begin--
			}
			for end < len(part) && pathByte(part[end]) {
				end++
			}
			from = end
			p := strings.TrimRight(part[begin:end], ".")
			if p = place(projectFile(p), cwd); p != "" && !slices.Contains(out, p) {
				out = append(out, strings.Clone(p))
			}
		}
	}
	return out
}

// projectFile returns p if it looks like the path of a file of the project.
func projectFile(p string) string {
	ext := path.Ext(p)
	if len(ext) < 2 || len(ext) > 6 || len(p) > maxPath || strings.HasPrefix(p, "//") {
		return ""
	}
	for i, c := range ext[1:] {
		if (c|0x20 < 'a' || c|0x20 > 'z') && (i == 0 || c < '0' || c > '9') {
			return ""
		}
	}
	if base := path.Base(p); len(base) == len(ext) { // .bashrc
		return ""
	}
	for _, f := range foreign {
		if strings.Contains(p, f) {
			return ""
		}
	}
	return p
}

func pathByte(c byte) bool {
	return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' || c == '/' || c == '_' || c == '-' || c == '.' || c == '@' || c == '+'
}
