package ledger

import (
	"slices"
	"strconv"
	"strings"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/clip"
)

// server is a command in the background, or a port that something answers on.
type server struct {
	id    string // of the process; empty if only the port is known
	call  call
	ports [4]int // 0 where there are fewer
	state string
	up    bool
	trail trail
}

// serving records that a process runs in the background.
func (l *Ledger) serving(seq int64, id string, c call, said string) {
	s := l.servers.touch(id)
	if s.trail.n == 0 {
		s.id, s.call = strings.Clone(id), c
	}
	s.trail.add(seq)
	s.state, s.up = "runs", true
	ports(said, s.port)
}

func (x *server) port(p int) {
	for i := range x.ports {
		if x.ports[i] == p {
			return
		}
		if x.ports[i] == 0 {
			x.ports[i] = p
			return
		}
	}
}

func processInput(_ *Ledger, c *call, in input) {
	in.each(func(key, value []byte) bool {
		if string(key) == "id" {
			c.more = clip.Short(text(value, 64), 64)
			return false
		}
		return true
	})
}

// processResult reads how a process in the background is.
func (l *Ledger) processResult(seq int64, c call, f glovebox.ToolFinished) {
	if c.more == "" || f.Unknown {
		return
	}
	s := l.servers.get(c.more)
	if s == nil {
		return
	}
	said := resultText(f)
	if strings.HasPrefix(said, "There is no command") {
		s.state, s.up = "gone", false
		s.trail.add(seq)
		return
	}
	e := status(said)
	if !e.known {
		e = phrase(lastLine(said))
	}
	if !e.known {
		return
	}
	s = l.servers.touch(c.more)
	s.trail.add(seq)
	ports(said, s.port)
	switch {
	case e.running:
		s.state, s.up = "runs", true
	case !s.up: // that was known
	case c.tool == "shell_stop":
		s.state, s.up = "stopped", false
	default:
		s.state, s.up = e.String(), false
		if s.call.label != "" {
			f.IsError = !e.passed()
			l.ran(seq, s.call, e, said, f, "")
			l.commands.touch(s.call.key).runs-- // the same run as before
		}
	}
}

func previewInput(l *Ledger, c *call, in input) {
	var script, cwd, page string
	in.each(func(key, value []byte) bool {
		switch string(key) {
		case "command":
			script = text(value, maxScript)
		case "cwd":
			cwd = text(value, 4096)
		case "port":
			c.port = number(value)
		case "path":
			page = text(value, 4000)
		}
		return true
	})
	if strings.TrimSpace(script) != "" {
		setCommand(c, script, cwd)
		c.cmd.looks = false
	} else if c.port == 0 && page != "" {
		c.path = place(page, "")
	}
}

// previewResult reads which page was seen, and what serves it.
func (l *Ledger) previewResult(seq int64, c call, f glovebox.ToolFinished) {
	if f.Unknown {
		return
	}
	said := resultText(f)
	head, _ := ends(said)
	stem := "preview " + c.cmd.stem + c.path
	if c.port > 0 {
		stem += " port " + strconv.FormatInt(c.port, 10)
	}
	page := "" // the URL that was opened
	for line := range strings.Lines(head) {
		if u, ok := strings.CutPrefix(line, "Page: "); ok && page == "" {
			page = one(u, maxURL)
		}
		if strings.HasPrefix(line, "It is served on port ") {
			l.served(seq, c, line)
		}
	}
	if strings.Contains(lastLine(said), "still runs") || strings.Contains(head, "The command still runs, in the background as ") {
		if id := processIn(head); id != "" && c.label != "" {
			l.serving(seq, id, c, "")
		}
	}
	if page != "" {
		how := "looked at"
		if f.IsError {
			how = "looked at, with errors"
		}
		l.linked(seq, page, how)
	}
	if f.IsError {
		l.met(seq, stem, errorLine(said), false, filesIn(said, c.cmd.cwd))
		return
	}
	l.passed(seq, stem, "preview")
	if c.path != "" {
		l.touched(seq, c.path, "", "")
	}
	if c.port > 0 && page != "" {
		l.answered(seq, int(c.port))
	}
}

// served reads the line that says what serves a page.
func (l *Ledger) served(seq int64, c call, line string) {
	if id := processIn(line); id != "" {
		l.serving(seq, id, c, line[:min(len(line), 40)])
	}
}

// answered records that something answers on a port of which no process is known.
func (l *Ledger) answered(seq int64, port int) {
	found := false
	l.servers.newest(func(s *server) bool {
		if found = s.up && slices.Contains(s.ports[:], port); found {
			s.trail.add(seq)
		}
		return !found
	})
	if found {
		return
	}
	s := l.servers.touch("port " + strconv.Itoa(port))
	s.port(port)
	s.trail.add(seq)
	s.state, s.up = "answers", true
}

// pack is a package that was installed.
type pack struct {
	manager, name, version string
	trail                  trail
}

func installInput(_ *Ledger, c *call, in input) {
	in.each(func(key, value []byte) bool {
		switch string(key) {
		case "manager":
			c.more = clip.Short(text(value, 64), 16)
		case "packages":
			c.names = texts(value, 100, maxName)
		case "cwd":
			c.cmd.cwd = text(value, 4096)
		}
		return true
	})
}

// installResult reads what was installed. Versions are those that pip names.
func (l *Ledger) installResult(seq int64, c call, f glovebox.ToolFinished) {
	if f.Unknown || c.more == "" {
		return
	}
	said := resultText(f)
	stem := one("install with "+c.more+" "+strings.Join(c.names, " "), maxCommand)
	if f.IsError {
		l.met(seq, stem, errorLine(said), false, nil)
		return
	}
	l.passed(seq, stem, stem)
	l.acting = seq
	if len(c.names) == 0 {
		list := map[string]string{"npm": "package.json", "pip": "requirements.txt"}[c.more]
		l.installed(seq, c.more, "what "+place(list, c.cmd.cwd)+" lists", "")
	}
	versions := versionsIn(said)
	for _, n := range c.names {
		l.installed(seq, c.more, n, versions[strings.ToLower(n)])
	}
}

// versionsIn reads the line in which pip says what it installed.
func versionsIn(said string) map[string]string {
	var out map[string]string
	head, _ := ends(said)
	for line := range strings.Lines(head) {
		list, ok := strings.CutPrefix(line, "Successfully installed ")
		if !ok {
			continue
		}
		for _, w := range strings.Fields(list) {
			if i := strings.LastIndexByte(w, '-'); i > 0 {
				if out == nil {
					out = map[string]string{}
				}
				out[strings.ToLower(w[:i])] = w[i+1:]
			}
		}
	}
	return out
}

func (l *Ledger) installed(seq int64, manager, pkg, version string) {
	p := l.packages.touch(manager + " " + pkg)
	p.manager, p.name, p.version = manager, strings.Clone(pkg), clip.Short(strings.Clone(version), 40)
	p.trail.add(seq)
	l.changed(seq, "installed "+name(p.name), false)
}

// host is a host outside the sandbox.
type host struct {
	addr             string
	allowed, refused int64 // attempts
	bytes            int64 // received
	reason           string
	trail            trail
}

// Egress reads what was reached outside, or refused.
func (l *Ledger) Egress(seq int64, e glovebox.EgressAttempted) {
	l.seq = seq
	h := l.hosts.touch(clip.Short(e.Host, maxName) + ":" + strconv.Itoa(e.Port))
	h.addr = clip.Short(e.Host, maxName) + ":" + strconv.Itoa(e.Port)
	h.trail.add(seq)
	if e.Allowed {
		h.allowed += max(1, e.Count)
		h.bytes += max(0, e.BytesDown)
	} else {
		h.refused += max(1, e.Count)
		h.reason = one(e.Reason, maxFact)
	}
}

// link is a URL that was opened or named.
type link struct {
	url   string
	how   string
	trail trail
}

func (l *Ledger) linked(seq int64, u, how string) {
	if u == "" || local(u) && how == "named in a command" {
		return
	}
	x := l.urls.touch(u)
	x.url, x.how = u, how
	x.trail.add(seq)
}

func guiInput(l *Ledger, c *call, in input) {
	action, said := "", ""
	in.each(func(key, value []byte) bool {
		switch string(key) {
		case "action":
			action = text(value, 64)
		case "text":
			said = text(value, maxScript)
		}
		return true
	})
	if action == "open" {
		urls(said, func(u string) { l.linked(c.seq, u, "opened on the desktop") })
	}
}

// memo is a note of the agent's.
type memo struct {
	name  string
	first string // how it begins
	trail trail
}

func noteInput(_ *Ledger, c *call, in input) {
	in.each(func(key, value []byte) bool {
		switch string(key) {
		case "name", "title", "topic", "file", "path":
			c.more = clip.Short(text(value, maxName+8), maxName)
		case "text", "content", "note":
			c.label = one(text(value, 1<<10), maxLine)
		}
		return true
	})
}

// noteResult reads which note was written: the result names its file.
func (l *Ledger) noteResult(_ int64, c call, f glovebox.ToolFinished) {
	if f.IsError || f.Unknown {
		return
	}
	said := resultText(f)
	if i := strings.Index(said, notesFolder); i >= 0 {
		if file, _, ok := strings.Cut(said[i:], ".md ("); ok && len(file) <= maxName {
			c.more = strings.Clone(file)
		}
	}
	l.noted(c.seq, c.more, c.label)
}

// noteName returns the name of a note from that of its file.
func noteName(file string) string {
	return strings.TrimSuffix(strings.TrimPrefix(file, notesFolder), ".md")
}

func (l *Ledger) noted(seq int64, name, line string) {
	name = noteName(name)
	n := l.notes.touch(name)
	n.name = name
	if line != "" {
		n.first = line
	}
	n.trail.add(seq)
}

// Verified reads which proofs of the project passed.
func (l *Ledger) Verified(seq int64, v glovebox.Verified) {
	l.seq = seq
	for _, p := range v.Proofs[:min(len(v.Proofs), 20)] {
		if p.Page != "" {
			how := "a proof that passed"
			if p.ExitCode != 0 {
				how = "a proof that failed"
			}
			l.linked(seq, one(p.Page, maxURL), how)
			continue
		}
		c := call{seq: seq, tool: "finish"}
		setCommand(&c, p.Command, "")
		c.cmd.looks = false
		l.ran(seq, c, ending{known: true, exit: p.ExitCode}, p.Output, glovebox.ToolFinished{IsError: p.ExitCode != 0}, "a proof of finish")
	}
}

// Sandbox reads that there is a machine. In one that was rebuilt nothing runs
// that ran before, and what was installed outside the workspace is gone.
func (l *Ledger) Sandbox(seq int64, s glovebox.SandboxReady) {
	l.seq = seq
	if s.How != "rebuilt" {
		return
	}
	l.rebuilt = seq
	l.servers.newest(func(x *server) bool {
		if x.up {
			x.state, x.up = "gone with the machine, which was rebuilt in "+event(seq), false
		}
		return true
	})
}
