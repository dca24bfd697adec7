package ledger

import (
	"path"
	"slices"
	"strings"
)

// Bounds of what is read of a command.
const (
	maxScript  = 4 << 10 // bytes
	maxSimples = 48      // simple commands
	maxWords   = 200     // of one of them
)

// simple is one simple command of a line of shell, roughly as bash would see
// it: nothing is expanded, and what is odd is passed over.
type simple struct {
	words []string
	piped bool   // its output goes into the next
	after string // what joins it to the one before: "&&", "||", ";", "|" or nothing
}

// simples reads the simple commands of a line of shell, up to a here-document.
func simples(script string) []simple {
	r := shellReader{s: script[:min(len(script), maxScript)]}
	for r.i < len(r.s) && len(r.out) < maxSimples && !r.stop {
		r.step()
	}
	r.endWord()
	r.endSimple("")
	return r.out
}

// shellReader goes over a line of shell, character by character.
type shellReader struct {
	s    string
	i    int
	word strings.Builder
	in   bool // a word has begun, which may be empty
	skip bool // the next word is where something is redirected to
	cur  simple
	out  []simple
	stop bool
}

func (r *shellReader) step() {
	c := r.s[r.i]
	switch c {
	case ' ', '\t':
		r.endWord()
	case '\\':
		if r.i++; r.i < len(r.s) && r.s[r.i] != '\n' {
			r.word.WriteByte(r.s[r.i])
			r.in = true
		}
	case '\'', '"':
		r.quoted(c)
	case '#':
		if r.in {
			r.word.WriteByte(c)
			break
		}
		for r.i+1 < len(r.s) && r.s[r.i+1] != '\n' {
			r.i++
		}
	case '>', '<':
		r.redirect(c)
	case '&', '|', ';', '\n', '(', ')':
		r.join(c)
	default:
		r.word.WriteByte(c)
		r.in = true
	}
	r.i++
}

// quoted takes what is in quotes into the word.
func (r *shellReader) quoted(q byte) {
	r.in = true
	for r.i++; r.i < len(r.s) && r.s[r.i] != q; r.i++ {
		if q == '"' && r.s[r.i] == '\\' && r.i+1 < len(r.s) {
			r.i++
		}
		r.word.WriteByte(r.s[r.i])
	}
}

// redirect passes over a redirection. What follows a here-document is not read.
func (r *shellReader) redirect(c byte) {
	if w := r.word.String(); w != "" && strings.Trim(w, "0123456789") == "" { // 2>
		r.word.Reset()
		r.in = false
	}
	r.endWord()
	if strings.HasPrefix(r.s[r.i:], "<<") {
		r.stop = true
		return
	}
	for r.i+1 < len(r.s) && (r.s[r.i+1] == c || r.s[r.i+1] == '&' || r.s[r.i+1] == '|') {
		r.i++
	}
	r.skip = true
}

// join ends a simple command at a control operator.
func (r *shellReader) join(c byte) {
	if c == '&' && r.i+1 < len(r.s) && r.s[r.i+1] == '>' { // &>
		return
	}
	r.endWord()
	op := ";"
	if r.i+1 < len(r.s) && r.s[r.i+1] == c && (c == '&' || c == '|') {
		r.i++
		op = string([]byte{c, c})
	} else if c == '|' {
		op = "|"
	}
	r.endSimple(op)
}

func (r *shellReader) endWord() {
	if r.in && !r.skip && len(r.cur.words) < maxWords {
		r.cur.words = append(r.cur.words, r.word.String())
	}
	if r.in {
		r.skip = false
	}
	r.word.Reset()
	r.in = false
}

func (r *shellReader) endSimple(op string) {
	r.skip = false
	if len(r.cur.words) > 0 {
		r.cur.piped = op == "|"
		r.out = append(r.out, r.cur)
		r.cur = simple{}
	}
	r.cur.after = op
}

// bare returns the words of a command without assignments and wrappers
// before it.
func (c simple) bare() []string {
	w := c.words
	for len(w) > 1 {
		name, _, assigned := strings.Cut(w[0], "=")
		switch {
		case assigned && name != "" && !strings.ContainsAny(name, "/-. "):
		case w[0] == "timeout":
			w = w[1:]
			for len(w) > 1 && strings.HasPrefix(w[0], "-") {
				w = w[1:]
			}
		case slices.Contains(wrappers, w[0]):
		default:
			return w
		}
		w = w[1:]
	}
	return w
}

// wrappers run what comes after them.
var wrappers = []string{"sudo", "time", "env", "exec", "command", "nice", "nohup", "then", "do", "else", "if", "!", "{"}

// filters show the output of what is before them, and end well whatever
// became of it.
var filters = []string{"tail", "head", "cat", "tee", "grep", "egrep", "rg", "sed", "awk", "less", "more", "sort", "uniq", "wc", "cut", "tr", "column", "nl", "jq", "fold"}

// lookers change nothing and say nothing about the project's state.
var lookers = []string{"ls", "cat", "head", "tail", "grep", "egrep", "rg", "find", "pwd", "echo", "wc", "which", "ps", "tree", "file", "stat", "du", "df", "nl", "less", "more",
	"sort", "uniq", "cut", "awk", "tr", "type", "whoami", "env", "printenv", "date", "sleep", "true", "printf", "fd", "column", "diff", "id", "uname", "hexdump", "xxd", "jq"}

// command is what is known of a line of shell from its text.
type command struct {
	stem    string // what it is at heart: without directories, assignments and filters of its output
	cwd     string
	parts   []simple
	looks   bool // it only looks at things
	unsure  bool // its exit code says nothing about what it is at heart
	removes bool // it may delete files
}

// parse reads a line of shell.
func parse(script, cwd string) command {
	c := command{cwd: cwd, parts: simples(script), looks: true}
	var stem []string
	for i, p := range c.parts {
		w := p.bare()
		if w[0] == "cd" || w[0] == "pushd" {
			if len(w) > 1 && w[1] != "-" {
				c.cwd = path.Join(folder(c.cwd), w[1])
				if path.IsAbs(w[1]) || strings.HasPrefix(w[1], "~") {
					c.cwd = folder(w[1])
				}
			}
			continue
		}
		if w[0] == "export" || w[0] == "set" || w[0] == "source" || w[0] == "." {
			continue
		}
		looks := slices.Contains(lookers, w[0]) || gitLooks(w) || w[0] == "sed" && !slices.Contains(w, "-i")
		c.looks = c.looks && looks
		c.removes = c.removes || w[0] == "rm" || w[0] == "mv" || w[0] == "git" || w[0] == "unlink"
		switch {
		case p.after == "|" && slices.Contains(filters, w[0]):
			c.unsure = c.unsure || i == len(c.parts)-1
			continue
		case i > 0 && (p.after == "||" || p.after == ";") && (w[0] == "true" || w[0] == "echo" || w[0] == ":"):
			c.unsure = true
			continue
		}
		stem = append(stem, strings.Join(w, " "))
	}
	c.looks = c.looks && len(c.parts) > 0
	c.stem = one(strings.Join(stem, " && "), maxCommand)
	if c.stem == "" {
		c.stem = one(script, maxCommand)
	}
	if dir := place(".", c.cwd); dir != workspace {
		c.stem += " in " + dir
	}
	return c
}

// gitLooks reports whether a command is one of git's that change nothing.
func gitLooks(w []string) bool {
	return w[0] == "git" && len(w) > 1 && slices.Contains([]string{"status", "log", "diff", "show", "branch", "blame", "ls-files", "grep", "remote"}, w[1])
}

// reads returns the files that a command shows.
func (c command) reads() []string {
	var out []string
	for _, p := range c.parts {
		w := p.bare()
		if !slices.Contains([]string{"cat", "head", "tail", "sed", "nl", "less"}, w[0]) || w[0] == "sed" && slices.Contains(w, "-i") {
			continue
		}
		for _, x := range w[1:] {
			if len(out) < 16 && looksLikeFile(x) {
				out = append(out, place(x, c.cwd))
			}
		}
	}
	return out
}

// looksLikeFile reports whether a word is the path of a file, by its looks.
func looksLikeFile(s string) bool {
	if s == "" || s[0] == '-' || len(s) > maxPath || strings.ContainsAny(s, "*?$`{}'\"|;<>\\ \t\n") || strings.Contains(s, "://") {
		return false
	}
	ext := path.Ext(s)
	return len(ext) > 1 && len(ext) <= 8 && strings.Trim(ext[1:], "0123456789,") != "" && !strings.HasPrefix(s, "/proc/") && !strings.HasPrefix(s, "/dev/")
}

// installs calls f with the packages that a command installs.
func (c command) installs(f func(manager, pkg string)) {
	for _, p := range c.parts {
		manager, names := installing(p.bare())
		for _, n := range names {
			if n == "" || n[0] == '-' || n[0] == '.' || n[0] == '/' || strings.ContainsAny(n, "$*`\n\\ ") || len(n) > maxName {
				continue
			}
			f(manager, n)
		}
	}
}

// installing returns the manager and the packages of a command that installs.
func installing(w []string) (manager string, names []string) {
	if len(w) > 3 && strings.HasPrefix(path.Base(w[0]), "python") && w[1] == "-m" && w[2] == "pip" {
		w = w[2:]
	}
	if len(w) > 2 && w[0] == "uv" && w[1] == "pip" {
		w = w[1:]
	}
	if len(w) < 3 {
		return "", nil
	}
	verbs, known := installers[path.Base(w[0])]
	if !known {
		return "", nil
	}
	verb := 1
	for verb < len(w)-1 && strings.HasPrefix(w[verb], "-") {
		verb++
	}
	if !slices.Contains(verbs.verbs, w[verb]) {
		return "", nil
	}
	for i := verb + 1; i < len(w); i++ {
		if x := w[i]; x == "-r" || x == "-c" || x == "-e" || x == "--requirement" || x == "--prefix" || x == "-C" {
			i++
			continue
		}
		names = append(names, w[i])
	}
	return verbs.name, names
}

type installer struct {
	name  string
	verbs []string
}

var installers = map[string]installer{
	"npm":  {"npm", []string{"install", "i", "add"}},
	"pnpm": {"npm", []string{"install", "i", "add"}}, "yarn": {"npm", []string{"add"}}, "bun": {"npm", []string{"add", "install", "i"}},
	"pip": {"pip", []string{"install"}}, "pip3": {"pip", []string{"install"}}, "uv": {"pip", []string{"add"}}, "poetry": {"pip", []string{"add"}},
	"apt": {"apt", []string{"install"}}, "apt-get": {"apt", []string{"install"}}, "apk": {"apk", []string{"add"}},
	"go": {"go", []string{"get", "install"}}, "cargo": {"cargo", []string{"add", "install"}}, "gem": {"gem", []string{"install"}}, "composer": {"composer", []string{"require"}},
}
